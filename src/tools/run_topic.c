/* The commands of topics but describe. */
#include <stdlib.h>

#include "base/assert.h"
#include "tools/commands.h"
#include "tools/table.h"

#define REQUEST_ARENA_BYTES (16 * 1024 * 1024)
/* CreateTopics 6 and DeleteTopics 5 are the last versions before ones that speak of topics by their ids; answers of all name what is wrong. */
#define DELETE_TOPICS_BY_NAME 5

enum { OPERATION_SET = 0, OPERATION_DELETE = 1, RESOURCE_TOPIC = 2 };

static int32_t count_texts(const struct args *a, const char *name)
{
    int32_t n = 0;
    while (args_text_at(a, name, n) != NULL)
        n++;
    return n;
}

/* ---- create ---- */

static int created(struct tool *tool, const struct client_response *r)
{
    const struct create_topics_response *body = r->body;
    char id[UUID_TEXT_SIZE];
    int status = 0;
    if (tool->json)
        tool_print_response(tool, r);
    for (int32_t i = 0; i < body->topics_n; i++) {
        const struct create_topics_response_topics *t = &body->topics[i];
        if (t->error_code != 0)
            status = tool_fail_code(tool, t->error_code, t->error_message, STR_NULL, "topic %.*s", STR_ARG(t->name));
        else if (!tool->json && args_flag(&tool->args, "dry-run"))
            out_printf(&tool->out, "%.*s could be created. Nothing was changed.\n", STR_ARG(t->name));
        else if (!tool->json)
            out_printf(&tool->out, "%.*s is created: %d partition%s, id %s\n", STR_ARG(t->name), t->num_partitions,
                       t->num_partitions == 1 ? "" : "s", uuid_text(&t->topic_id, id));
    }
    return status;
}

int run_topic_create(struct tool *tool)
{
    const struct args *a = &tool->args;
    struct arena arena;
    struct create_topics_request request;
    struct client_response *r;
    int status = 0;
    arena_init(&arena, REQUEST_ARENA_BYTES);
    proto_init(&PROTO_CREATE_TOPICS_REQUEST, &request);
    struct create_topics_request_topics *t = request.topics = create_topics_request_topics_new(&arena, 1);
    request.topics_n = 1;
    request.timeout_ms = (int32_t)MIN(tool->timeout_ms, INT32_MAX);
    request.validate_only = args_flag(a, "dry-run");
    t->name = str_of(a->words[0]);
    t->num_partitions = (int32_t)args_number(a, "partitions", -1);
    t->replication_factor = (int16_t)args_number(a, "replication-factor", -1);
    t->configs_n = count_texts(a, "config");
    t->configs = create_topics_request_topics_configs_new(&arena, t->configs_n);
    for (int32_t i = 0; i < t->configs_n && status == 0; i++) {
        if (!tool_split_setting(args_text_at(a, "config", i), &t->configs[i].name, &t->configs[i].value))
            status = tool_usage(tool, "Write --config KEY=VALUE.", "--config cannot be \"%s\".", args_text_at(a, "config", i));
    }
    if (status == 0)
        status = tool_call(tool, CLIENT_CONTROLLER, API_CREATE_TOPICS, -1, &request, &r) ? 0 : EXIT_FAILED;
    else
        r = NULL;
    arena_fini(&arena);
    if (status != 0)
        return status;
    status = created(tool, r);
    client_response_free(r);
    return status;
}

/* ---- delete ---- */

int run_topic_delete(struct tool *tool)
{
    const struct args *a = &tool->args;
    struct delete_topics_request request;
    struct client_response *r;
    int status = 0;
    proto_init(&PROTO_DELETE_TOPICS_REQUEST, &request);
    request.topic_names_n = a->word_count;
    request.topic_names = mem_calloc((size_t)a->word_count, sizeof(*request.topic_names));
    for (int i = 0; i < a->word_count; i++)
        request.topic_names[i] = str_of(a->words[i]);
    request.timeout_ms = (int32_t)MIN(tool->timeout_ms, INT32_MAX);
    bool answered = tool_call(tool, CLIENT_CONTROLLER, API_DELETE_TOPICS, DELETE_TOPICS_BY_NAME, &request, &r);
    mem_free(request.topic_names);
    if (!answered)
        return EXIT_FAILED;
    const struct delete_topics_response *body = r->body;
    if (tool->json)
        tool_print_response(tool, r);
    for (int32_t i = 0; i < body->responses_n; i++) {
        const struct delete_topics_response_responses *t = &body->responses[i];
        if (t->error_code != 0)
            status = tool_fail_code(tool, t->error_code, t->error_message, STR_NULL, "topic %.*s", STR_ARG(t->name));
        else if (!tool->json)
            out_printf(&tool->out, "%.*s is deleted\n", STR_ARG(t->name));
    }
    client_response_free(r);
    return status;
}

/* ---- alter ---- */

static int alter_configs(struct tool *tool, struct arena *arena)
{
    const struct args *a = &tool->args;
    struct incremental_alter_configs_request request;
    struct client_response *r;
    int32_t sets = count_texts(a, "set"), unsets = count_texts(a, "unset");
    proto_init(&PROTO_INCREMENTAL_ALTER_CONFIGS_REQUEST, &request);
    struct incremental_alter_configs_request_resources *resource = incremental_alter_configs_request_resources_new(arena, 1);
    request.resources = resource;
    request.resources_n = 1;
    request.validate_only = args_flag(a, "dry-run");
    resource->resource_type = RESOURCE_TOPIC;
    resource->resource_name = str_of(a->words[0]);
    resource->configs_n = sets + unsets;
    resource->configs = incremental_alter_configs_request_resources_configs_new(arena, sets + unsets);
    for (int32_t i = 0; i < sets; i++) {
        if (!tool_split_setting(args_text_at(a, "set", i), &resource->configs[i].name, &resource->configs[i].value))
            return tool_usage(tool, "Write --set KEY=VALUE.", "--set cannot be \"%s\".", args_text_at(a, "set", i));
        resource->configs[i].config_operation = OPERATION_SET;
    }
    for (int32_t i = 0; i < unsets; i++) {
        resource->configs[sets + i].name = str_of(args_text_at(a, "unset", i));
        resource->configs[sets + i].config_operation = OPERATION_DELETE;
    }
    if (!tool_call(tool, CLIENT_CONTROLLER, API_INCREMENTAL_ALTER_CONFIGS, -1, &request, &r))
        return EXIT_FAILED;
    const struct incremental_alter_configs_response *body = r->body;
    int status = 0;
    if (tool->json)
        tool_print_response(tool, r);
    for (int32_t i = 0; i < body->responses_n; i++) {
        if (body->responses[i].error_code != 0)
            status = tool_fail_code(tool, body->responses[i].error_code, body->responses[i].error_message, STR_NULL, "topic %s",
                                    a->words[0]);
        else if (!tool->json)
            out_printf(&tool->out, "%s: %d setting%s changed\n", a->words[0], sets + unsets, sets + unsets == 1 ? "" : "s");
    }
    client_response_free(r);
    return status;
}

static int alter_partitions(struct tool *tool, struct arena *arena)
{
    const struct args *a = &tool->args;
    struct create_partitions_request request;
    struct client_response *r;
    proto_init(&PROTO_CREATE_PARTITIONS_REQUEST, &request);
    request.topics = create_partitions_request_topics_new(arena, 1);
    request.topics_n = 1;
    request.topics[0].name = str_of(a->words[0]);
    request.topics[0].count = (int32_t)args_number(a, "partitions", 0);
    request.topics[0].assignments = NULL;
    request.topics[0].assignments_n = -1;
    request.timeout_ms = (int32_t)MIN(tool->timeout_ms, INT32_MAX);
    request.validate_only = args_flag(a, "dry-run");
    if (!tool_call(tool, CLIENT_CONTROLLER, API_CREATE_PARTITIONS, -1, &request, &r))
        return EXIT_FAILED;
    const struct create_partitions_response *body = r->body;
    int status = 0;
    if (tool->json)
        tool_print_response(tool, r);
    for (int32_t i = 0; i < body->results_n; i++) {
        if (body->results[i].error_code != 0)
            status = tool_fail_code(tool, body->results[i].error_code, body->results[i].error_message, STR_NULL, "topic %s",
                                    a->words[0]);
        else if (!tool->json)
            out_printf(&tool->out, "%s: %d partitions\n", a->words[0], request.topics[0].count);
    }
    client_response_free(r);
    return status;
}

int run_topic_alter(struct tool *tool)
{
    const struct args *a = &tool->args;
    bool configs = args_given(a, "set") || args_given(a, "unset"), partitions = args_given(a, "partitions");
    if (configs == partitions)
        return tool_usage(tool, "Try: kagami topic alter --help",
                          configs ? "Settings and partitions are changed one at a time."
                                  : "\"kagami topic alter\" does not know what to change.");
    struct arena arena;
    arena_init(&arena, REQUEST_ARENA_BYTES);
    int status = configs ? alter_configs(tool, &arena) : alter_partitions(tool, &arena);
    if (status == 0 && args_flag(a, "dry-run") && !tool->json)
        out_printf(&tool->out, "It could be done. Nothing was changed.\n");
    arena_fini(&arena);
    return status;
}

/* ---- list ---- */

static void print_topics(struct tool *tool, const struct metadata_response *body)
{
    static const char *const titles[] = {"NAME", ">PARTITIONS", ">REPLICAS", "ID"};
    bool internal = args_flag(&tool->args, "internal"), names = args_flag(&tool->args, "names");
    char id[UUID_TEXT_SIZE];
    struct table table;
    table_init(&table, titles, ARRAY_SIZE(titles));
    for (int32_t i = 0; i < body->topics_n; i++) {
        const struct metadata_response_topics *t = &body->topics[i];
        if (t->is_internal && !internal)
            continue;
        if (names)
            out_printf(&tool->out, "%.*s\n", STR_ARG(t->name));
        table_str(&table, t->name);
        table_count(&table, t->partitions_n);
        table_count(&table, t->partitions_n > 0 ? t->partitions[0].replica_nodes_n : -1);
        table_cell(&table, "%s", uuid_is_zero(&t->topic_id) ? "-" : uuid_text(&t->topic_id, id));
    }
    if (!names && table.rows == 0)
        out_printf(&tool->out, "There are no topics. Make one with: kagami topic create NAME\n");
    else if (!names)
        table_print(&table, &tool->out);
    table_fini(&table);
}

static int by_name(const void *a, const void *b)
{
    const struct metadata_response_topics *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

int run_topic_list(struct tool *tool)
{
    struct metadata_request request;
    struct client_response *r;
    proto_init(&PROTO_METADATA_REQUEST, &request);
    request.topics = NULL;
    request.topics_n = -1;
    request.allow_auto_topic_creation = false;
    if (!tool_call(tool, CLIENT_ANY, API_METADATA, -1, &request, &r))
        return EXIT_FAILED;
    struct metadata_response *body = r->body;
    if (body->topics_n > 1)
        qsort(body->topics, (size_t)body->topics_n, sizeof(*body->topics), by_name);
    if (tool->json && !args_flag(&tool->args, "names")) {
        int32_t kept = 0;
        for (int32_t i = 0; i < body->topics_n; i++) {
            if (!body->topics[i].is_internal || args_flag(&tool->args, "internal"))
                body->topics[kept++] = body->topics[i];
        }
        body->topics_n = kept;
        tool_print_response(tool, r);
    } else {
        print_topics(tool, body);
    }
    client_response_free(r);
    return 0;
}
