/* topic describe: metadata, offsets and settings of topics in one view. */
#include "base/assert.h"
#include "tools/commands.h"
#include "tools/reading.h"
#include "tools/table.h"

enum { RESOURCE_TOPIC = 2, SOURCE_TOPIC_CONFIG = 1 };

struct description {
    const struct client_topic *topic;
    int64_t *start, *high, *stable;  /* by partition; -1: not known */
    struct client_response *configs; /* NULL: no answer */
};

static int ask(struct tool *tool, struct description *d)
{
    struct problem problem = {0};
    int32_t n = d->topic->partitions_n;
    int status = 0;
    d->start = mem_calloc((size_t)n + 1, sizeof(*d->start));
    d->high = mem_calloc((size_t)n + 1, sizeof(*d->high));
    d->stable = mem_calloc((size_t)n + 1, sizeof(*d->stable));
    if (read_offsets(tool->client, d->topic, TIMESTAMP_EARLIEST, READ_UNCOMMITTED, tool->timeout_ms, d->start, &problem) != OK ||
        read_offsets(tool->client, d->topic, TIMESTAMP_LATEST, READ_UNCOMMITTED, tool->timeout_ms, d->high, &problem) != OK ||
        read_offsets(tool->client, d->topic, TIMESTAMP_LATEST, READ_COMMITTED, tool->timeout_ms, d->stable, &problem) != OK)
        status = tool_fail(tool, &problem);

    struct describe_configs_request request;
    struct describe_configs_request_resources resource = {
        .resource_type = RESOURCE_TOPIC, .resource_name = str_of(d->topic->name), .configuration_keys_n = -1};
    proto_init(&PROTO_DESCRIBE_CONFIGS_REQUEST, &request);
    request.resources = &resource;
    request.resources_n = 1;
    if (!tool_call(tool, CLIENT_ANY, API_DESCRIBE_CONFIGS, -1, &request, &d->configs)) {
        d->configs = NULL;
        status = EXIT_FAILED;
    }
    return status;
}

static void forget(struct description *d)
{
    mem_free(d->start);
    mem_free(d->high);
    mem_free(d->stable);
    client_response_free(d->configs);
}

static const struct describe_configs_response_results *configs_of(const struct description *d)
{
    const struct describe_configs_response *body = d->configs != NULL ? d->configs->body : NULL;
    return body != NULL && body->results_n == 1 && body->results[0].error_code == 0 ? &body->results[0] : NULL;
}

static void print_ids(struct out *out, const char *key, const int32_t *ids, int32_t n)
{
    out_key(out, key);
    out_begin(out, '[');
    for (int32_t i = 0; i < n; i++)
        out_i64(out, ids[i]);
    out_end(out, ']');
}

static void print_json(struct tool *tool, const struct description *d)
{
    struct out *out = &tool->out;
    char id[UUID_TEXT_SIZE];
    out_begin(out, '{');
    out_field_i64(out, "errorCode", d->topic->error_code);
    out_field_text(out, "name", str_of(d->topic->name));
    out_field_text(out, "topicId", str_of(uuid_text(&d->topic->id, id)));
    out_field_bool(out, "isInternal", d->topic->internal);
    out_key(out, "partitions");
    out_begin(out, '[');
    for (int32_t i = 0; i < d->topic->partitions_n; i++) {
        const struct client_partition *p = &d->topic->partitions[i];
        out_begin(out, '{');
        out_field_i64(out, "errorCode", p->error_code);
        out_field_i64(out, "partitionIndex", i);
        out_field_i64(out, "leaderId", p->leader);
        out_field_i64(out, "leaderEpoch", p->leader_epoch);
        print_ids(out, "replicaNodes", p->replicas, p->replicas_n);
        print_ids(out, "isrNodes", p->isr, p->isr_n);
        out_field_i64(out, "logStartOffset", d->start[i]);
        out_field_i64(out, "highWatermark", d->high[i]);
        out_field_i64(out, "lastStableOffset", d->stable[i]);
        out_end(out, '}');
    }
    out_end(out, ']');
    out_key(out, "configs");
    out_begin(out, '[');
    const struct describe_configs_response_results *configs = configs_of(d);
    for (int32_t i = 0; configs != NULL && i < configs->configs_n; i++) {
        out_begin(out, '{');
        out_field_text(out, "name", configs->configs[i].name);
        out_field_text(out, "value", configs->configs[i].value);
        out_field_i64(out, "configSource", configs->configs[i].config_source);
        out_end(out, '}');
    }
    out_end(out, ']');
    out_end(out, '}');
}

static void ids_cell(struct table *table, const int32_t *ids, int32_t n)
{
    struct buf text = {0};
    for (int32_t i = 0; i < n; i++)
        buf_printf(&text, "%s%d", i > 0 ? "," : "", ids[i]);
    table_str(table, buf_str(&text));
    buf_fini(&text);
}

static void print_table(struct tool *tool, const struct description *d)
{
    static const char *const titles[] = {">PARTITION", ">LEADER",         ">EPOCH",       "REPLICAS",        "IN SYNC",
                                         ">LOG START", ">HIGH WATERMARK", ">LAST STABLE", ">RECORDS AT MOST"};
    struct table t;
    char id[UUID_TEXT_SIZE];
    out_printf(&tool->out, "Topic %s, id %s, %d partition%s\n", d->topic->name,
               uuid_is_zero(&d->topic->id) ? "-" : uuid_text(&d->topic->id, id), d->topic->partitions_n,
               d->topic->partitions_n == 1 ? "" : "s");
    const struct describe_configs_response_results *configs = configs_of(d);
    for (int32_t i = 0; configs != NULL && i < configs->configs_n; i++) {
        if (configs->configs[i].config_source == SOURCE_TOPIC_CONFIG)
            out_printf(&tool->out, "  %.*s=%.*s\n", STR_ARG(configs->configs[i].name), STR_ARG(configs->configs[i].value));
    }
    out_char(&tool->out, '\n');
    table_init(&t, titles, ARRAY_SIZE(titles));
    for (int32_t i = 0; i < d->topic->partitions_n; i++) {
        const struct client_partition *p = &d->topic->partitions[i];
        table_count(&t, i);
        table_count(&t, p->leader);
        table_count(&t, p->leader_epoch);
        ids_cell(&t, p->replicas, p->replicas_n);
        ids_cell(&t, p->isr, p->isr_n);
        table_count(&t, d->start[i]);
        table_count(&t, d->high[i]);
        table_count(&t, d->stable[i]);
        table_count(&t, d->start[i] >= 0 && d->high[i] >= 0 ? d->high[i] - d->start[i] : -1);
    }
    table_print(&t, &tool->out);
    table_fini(&t);
}

int run_topic_describe(struct tool *tool)
{
    const struct args *a = &tool->args;
    int status = 0;
    if (tool->json) {
        out_begin(&tool->out, '{');
        out_key(&tool->out, "topics");
        out_begin(&tool->out, '[');
    }
    for (int i = 0; i < a->word_count; i++) {
        struct description d = {0};
        if (!tool_topic(tool, tool->client, a->words[i], &d.topic)) {
            status = EXIT_FAILED;
            continue;
        }
        if (ask(tool, &d) != 0)
            status = EXIT_FAILED;
        if (tool->json)
            print_json(tool, &d);
        else if (i > 0)
            out_char(&tool->out, '\n');
        if (!tool->json)
            print_table(tool, &d);
        forget(&d);
    }
    if (tool->json) {
        out_end(&tool->out, ']');
        out_end(&tool->out, '}');
    }
    return status;
}
