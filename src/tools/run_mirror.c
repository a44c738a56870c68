/* The commands of mirrors whose answer is short: create, start, pause, resume, recover, delete, list. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/properties.h"
#include "os/file.h"
#include "tools/commands.h"
#include "tools/mirror_view.h"
#include "tools/table.h"
#include "tools/topic_list.h"

#define REQUEST_ARENA_BYTES (16 * 1024 * 1024)

/* ---- create ---- */

static int read_settings(struct tool *tool, struct properties *out)
{
    const struct args *a = &tool->args;
    struct problem problem = {0};
    const char *path = args_text(a, "config"), *set;
    if (path != NULL) {
        struct buf text = {0};
        enum error error = fs_read_file(fs_system(), path, PROPERTIES_MAX_BYTES, &text);
        if (error != OK)
            problem_set(&problem, error, "The settings file %s cannot be read: %s", path, error_message(error));
        else
            error = properties_parse(out, buf_str(&text), &problem);
        buf_fini(&text);
        if (error != OK)
            return tool_fail(tool, &problem);
    }
    for (int i = 0; (set = args_text_at(a, "set", i)) != NULL; i++) {
        struct str key, value;
        if (!tool_split_setting(set, &key, &value))
            return tool_usage(tool, "Write --set KEY=VALUE.", "--set cannot be \"%s\".", set);
        properties_set(out, key, value);
    }
    if (args_text(a, "source") != NULL)
        properties_set(out, STR("bootstrap.servers"), str_of(args_text(a, "source")));
    if (properties_get(out, "bootstrap.servers") == NULL)
        return tool_usage(tool, "Add --source HOST:PORT.", "\"kagami mirror create\" does not know which cluster to copy from.");
    return 0;
}

static int create(struct tool *tool, const struct properties *settings)
{
    const char *name = tool->args.words[0];
    struct arena arena;
    struct create_cluster_mirror_request request;
    struct client_response *r;
    arena_init(&arena, REQUEST_ARENA_BYTES);
    proto_init(&PROTO_CREATE_CLUSTER_MIRROR_REQUEST, &request);
    request.mirror_name = str_of(name);
    request.config_n = (int32_t)settings->count;
    request.config = create_cluster_mirror_request_config_new(&arena, request.config_n);
    for (int32_t i = 0; i < request.config_n; i++) {
        request.config[i].name = str_of(settings->items[i].key);
        request.config[i].value = str_of(settings->items[i].value);
    }
    bool answered = tool_call(tool, CLIENT_ANY, API_CREATE_CLUSTER_MIRROR, -1, &request, &r);
    arena_fini(&arena);
    if (!answered)
        return EXIT_FAILED;
    const struct create_cluster_mirror_response *body = r->body;
    int status = 0;
    if (tool->json)
        tool_print_response(tool, r);
    if (body->error_code != 0)
        status = tool_fail_code(tool, body->error_code, body->error_message, body->error_hint, "mirror %s", name);
    else if (!tool->json)
        out_printf(&tool->out, "Mirror %s of cluster %.*s at %s is made. Copy topics with: kagami mirror start %s --topics ..\n",
                   name, STR_ARG(body->source_cluster_id), properties_get(settings, "bootstrap.servers"), name);
    client_response_free(r);
    return status;
}

int run_mirror_create(struct tool *tool)
{
    struct properties settings = {0};
    int status = read_settings(tool, &settings);
    if (status == 0)
        status = create(tool, &settings);
    properties_fini(&settings);
    return status;
}

/* ---- start ---- */

static int started(struct tool *tool, const struct start_mirror_topics_response *body)
{
    static const char *const titles[] = {"TOPIC", ">PARTITIONS", "ID"};
    char id[UUID_TEXT_SIZE];
    struct table table;
    int status = 0;
    if (body->topics_n == 0)
        return tool_fail_code(tool, UNKNOWN_TOPIC_OR_PARTITION, STR("no topic of the source has such a name"),
                              STR("Internal topics are never mirrored."), "mirror %s", tool->args.words[0]);
    table_init(&table, titles, ARRAY_SIZE(titles));
    for (int32_t i = 0; i < body->topics_n; i++) {
        const struct start_mirror_topics_response_topics *t = &body->topics[i];
        if (t->error_code != 0)
            continue;
        table_str(&table, t->name);
        table_count(&table, t->partitions);
        table_cell(&table, "%s", uuid_is_zero(&t->topic_id) ? "-" : uuid_text(&t->topic_id, id));
    }
    if (!tool->json)
        table_print(&table, &tool->out);
    table_fini(&table);
    for (int32_t i = 0; i < body->topics_n; i++) {
        const struct start_mirror_topics_response_topics *t = &body->topics[i];
        if (t->error_code != 0)
            status = tool_fail_code(tool, t->error_code, t->error_message, t->error_hint, "topic %.*s", STR_ARG(t->name));
    }
    return status;
}

/* Follows what did start until it is copied; there is nothing to wait for in the rest. */
static int watch_started(struct tool *tool, const struct start_mirror_topics_response *body)
{
    struct topic_list list = {.names = mem_calloc((size_t)body->topics_n + 1, sizeof(*list.names))};
    for (int32_t i = 0; i < body->topics_n; i++) {
        if (body->topics[i].error_code == 0)
            list.names[list.name_count++] = body->topics[i].name;
    }
    int status = list.name_count > 0 ? mirror_watch(tool, &list, true) : EXIT_FAILED;
    topic_list_fini(&list);
    return status;
}

static int start(struct tool *tool, struct topic_list *list)
{
    const char *name = tool->args.words[0];
    struct arena arena;
    struct start_mirror_topics_request request;
    struct client_response *r;
    arena_init(&arena, REQUEST_ARENA_BYTES);
    proto_init(&PROTO_START_MIRROR_TOPICS_REQUEST, &request);
    request.mirror_name = str_of(name);
    request.topics_n = list->name_count;
    request.topics = start_mirror_topics_request_topics_new(&arena, request.topics_n);
    for (int32_t i = 0; i < request.topics_n; i++)
        request.topics[i].topic_name = list->names[i];
    request.patterns = list->patterns;
    request.patterns_n = list->pattern_count;
    request.discard_local_data = args_flag(&tool->args, "discard-local-data");
    bool answered = tool_call(tool, CLIENT_ANY, API_START_MIRROR_TOPICS, -1, &request, &r);
    arena_fini(&arena);
    if (!answered)
        return EXIT_FAILED;
    const struct start_mirror_topics_response *body = r->body;
    bool watch = args_flag(&tool->args, "watch");
    int status;
    if (tool->json && !watch)
        tool_print_response(tool, r);
    if (body->error_code != 0)
        status = tool_fail_code(tool, body->error_code, body->error_message, body->error_hint, "mirror %s", name);
    else
        status = started(tool, body);
    if (watch && body->error_code == 0) {
        int watched = watch_started(tool, body);
        status = MAX(status, watched);
    }
    client_response_free(r);
    return status;
}

int run_mirror_start(struct tool *tool)
{
    struct topic_list list;
    struct problem problem = {0};
    if (topic_list_parse(&tool->args, &list, &problem) != OK) {
        tool_fail(tool, &problem);
        return EXIT_USAGE;
    }
    int status = topic_list_empty(&list) ? tool_usage(tool, "Add --topics orders,payments or --topics 'orders-.*'.",
                                                      "\"kagami mirror start\" does not know which topics to copy.")
                                         : start(tool, &list);
    topic_list_fini(&list);
    return status;
}

/* ---- pause, resume, recover: three calls of one shape ---- */

static int names_only(struct tool *tool, struct topic_list *ret_list)
{
    struct problem problem = {0};
    if (topic_list_parse(&tool->args, ret_list, &problem) != OK) {
        tool_fail(tool, &problem);
        return EXIT_USAGE;
    }
    if (ret_list->pattern_count == 0)
        return 0;
    int status = tool_usage(tool, "Patterns are for start, stop, describe and verify.", "\"%.*s\" is no name of a topic.",
                            STR_ARG(ret_list->patterns[0]));
    topic_list_fini(ret_list);
    return status;
}

#define DEFINE_RUN(verb, VERB, past)                                                                                             \
    static int verb##_topics(struct tool *tool, const struct topic_list *list)                                                   \
    {                                                                                                                            \
        struct arena arena;                                                                                                      \
        struct verb##_mirror_topics_request request;                                                                             \
        struct client_response *r;                                                                                               \
        arena_init(&arena, REQUEST_ARENA_BYTES);                                                                                 \
        proto_init(&PROTO_##VERB##_MIRROR_TOPICS_REQUEST, &request);                                                             \
        request.mirror_name = str_of(tool->args.words[0]);                                                                       \
        request.topics_n = list->name_count;                                                                                     \
        request.topics = verb##_mirror_topics_request_topics_new(&arena, request.topics_n);                                      \
        for (int32_t i = 0; i < request.topics_n; i++)                                                                           \
            request.topics[i].topic_name = list->names[i];                                                                       \
        bool answered = tool_call(tool, CLIENT_ANY, API_##VERB##_MIRROR_TOPICS, -1, &request, &r);                               \
        arena_fini(&arena);                                                                                                      \
        if (!answered)                                                                                                           \
            return EXIT_FAILED;                                                                                                  \
        const struct verb##_mirror_topics_response *body = r->body;                                                              \
        int status = 0;                                                                                                          \
        if (tool->json)                                                                                                          \
            tool_print_response(tool, r);                                                                                        \
        if (body->error_code != 0)                                                                                               \
            status =                                                                                                             \
                tool_fail_code(tool, body->error_code, body->error_message, body->error_hint, "mirror %s", tool->args.words[0]); \
        for (int32_t i = 0; i < body->topics_n; i++) {                                                                           \
            const struct verb##_mirror_topics_response_topics *t = &body->topics[i];                                             \
            if (t->error_code != 0)                                                                                              \
                status = tool_fail_code(tool, t->error_code, t->error_message, t->error_hint, "topic %.*s", STR_ARG(t->name));   \
            else if (!tool->json)                                                                                                \
                out_printf(&tool->out, "%.*s: %s\n", STR_ARG(t->name), past);                                                    \
        }                                                                                                                        \
        client_response_free(r);                                                                                                 \
        return status;                                                                                                           \
    }                                                                                                                            \
                                                                                                                                 \
    int run_mirror_##verb(struct tool *tool)                                                                                     \
    {                                                                                                                            \
        struct topic_list list;                                                                                                  \
        int status = names_only(tool, &list);                                                                                    \
        if (status == 0) {                                                                                                       \
            status = verb##_topics(tool, &list);                                                                                 \
            topic_list_fini(&list);                                                                                              \
        }                                                                                                                        \
        return status;                                                                                                           \
    }

DEFINE_RUN(pause, PAUSE, "paused; it goes on with \"mirror resume\"")
DEFINE_RUN(resume, RESUME, "copying goes on")
DEFINE_RUN(recover, RECOVER, "tried again")

/* ---- delete ---- */

int run_mirror_delete(struct tool *tool)
{
    struct delete_cluster_mirror_request request;
    struct client_response *r;
    proto_init(&PROTO_DELETE_CLUSTER_MIRROR_REQUEST, &request);
    request.mirror_name = str_of(tool->args.words[0]);
    if (!tool_call(tool, CLIENT_ANY, API_DELETE_CLUSTER_MIRROR, -1, &request, &r))
        return EXIT_FAILED;
    const struct delete_cluster_mirror_response *body = r->body;
    int status = 0;
    if (tool->json)
        tool_print_response(tool, r);
    if (body->error_code != 0)
        status = tool_fail_code(tool, body->error_code, body->error_message, body->error_hint, "mirror %s", tool->args.words[0]);
    else if (!tool->json)
        out_printf(&tool->out, "Mirror %s is deleted. Its topics stay.\n", tool->args.words[0]);
    client_response_free(r);
    return status;
}

/* ---- list ---- */

static void print_list(struct tool *tool, const struct list_cluster_mirrors_response *body)
{
    static const char *const titles[] = {"NAME", "SOURCE", "CLUSTER ID", ">TOPICS", "PARTITIONS"};
    struct table table;
    table_init(&table, titles, ARRAY_SIZE(titles));
    for (int32_t i = 0; i < body->mirrors_n; i++) {
        const struct list_cluster_mirrors_response_mirrors *m = &body->mirrors[i];
        struct buf states = {0};
        for (int32_t k = 0; k < m->states_n; k++)
            buf_printf(&states, "%s%d %.*s", k > 0 ? ", " : "", m->states[k].count, STR_ARG(m->states[k].state));
        table_str(&table, m->mirror_name);
        table_str(&table, m->source_bootstrap);
        table_str(&table, m->source_cluster_id);
        table_count(&table, m->topic_count);
        table_str(&table, buf_str(&states));
        buf_fini(&states);
    }
    table_print(&table, &tool->out);
    table_fini(&table);
    if (body->mirrors_n == 0)
        out_printf(&tool->out, "There are no mirrors. Make one with: kagami mirror create NAME --source HOST:PORT\n");
}

int run_mirror_list(struct tool *tool)
{
    struct list_cluster_mirrors_request request;
    struct client_response *r;
    proto_init(&PROTO_LIST_CLUSTER_MIRRORS_REQUEST, &request);
    request.include_topic_names = tool->json;
    if (!tool_call(tool, CLIENT_ANY, API_LIST_CLUSTER_MIRRORS, -1, &request, &r))
        return EXIT_FAILED;
    const struct list_cluster_mirrors_response *body = r->body;
    int status = 0;
    if (body->error_code != 0)
        status = tool_fail_code(tool, body->error_code, body->error_message, body->error_hint, "the list of mirrors");
    if (args_flag(&tool->args, "names")) {
        for (int32_t i = 0; i < body->mirrors_n; i++)
            out_printf(&tool->out, "%.*s\n", STR_ARG(body->mirrors[i].mirror_name));
    } else if (tool->json) {
        tool_print_response(tool, r);
    } else if (status == 0) {
        print_list(tool, body);
    }
    client_response_free(r);
    return status;
}
