/* mirror verify: reads source and destination side by side and compares the bytes of every batch. */
#include "base/assert.h"
#include "tools/batch_compare.h"
#include "tools/commands.h"
#include "tools/mirror_view.h"
#include "tools/reading.h"
#include "tools/table.h"
#include "tools/text.h"

#define MIRROR struct describe_cluster_mirrors_response_mirrors
#define TOPIC struct describe_cluster_mirrors_response_mirrors_topics
#define PARTITION struct describe_cluster_mirrors_response_mirrors_topics_partitions

enum side { SOURCE, DESTINATION };

struct compared {
    struct str topic; /* in the answer of describe */
    int32_t partition;
    int64_t start[2], high[2]; /* log start and high watermark on both sides; -1: not known */
    int64_t from, to;          /* compared: offsets [from, to) */
    bool up_to_stop;           /* `to` is where the mirror was stopped */
    int64_t batches, bytes;
    bool differs;
    struct batch_difference difference; /* field NULL: a batch that one side does not have */
    bool missing_at[2];                 /* which side lacks the batch */
    struct problem problem;             /* code not OK: could not be compared to the end */
};

struct verify {
    struct tool *tool;
    struct client_sync *clients[2];
    struct compared *items;
    int count;
};

/* ---- Comparing ---- */

static bool same_batches(struct compared *c, struct batch_source sources[2])
{
    while (!tool_interrupted()) {
        const uint8_t *batch[2] = {NULL, NULL};
        for (int side = SOURCE; side <= DESTINATION; side++) {
            enum error error = batch_source_next(&sources[side], c->to, &batch[side], &c->problem);
            if (error == ERR_NOT_FOUND)
                continue;
            if (error != OK)
                return false;
        }
        const uint8_t *one = batch[SOURCE] != NULL ? batch[SOURCE] : batch[DESTINATION];
        if (one == NULL || batch_base_offset(one) >= c->to)
            return true; /* the end, on both sides */
        if (batch[SOURCE] == NULL || batch[DESTINATION] == NULL) {
            c->differs = true;
            c->difference = (struct batch_difference){.offset = batch_base_offset(one)};
            c->missing_at[batch[SOURCE] == NULL ? SOURCE : DESTINATION] = true;
            return true;
        }
        if (!batch_compare(batch[SOURCE], batch[DESTINATION], &c->difference)) {
            c->differs = true;
            return true;
        }
        c->batches++;
        c->bytes += batch_size_bytes(one);
    }
    problem_set(&c->problem, ERR_CANCELLED, "The comparison was interrupted.");
    return false;
}

static const struct client_topic *topic_at(struct verify *v, enum side side, const char *name, struct problem *problem)
{
    struct str topic = str_of(name);
    static const char *const sides[] = {"the source", "the destination"};
    if (client_sync_refresh(v->clients[side], &topic, 1, problem) != OK)
        return NULL;
    const struct client_topic *found = client_metadata_topic(client_sync_metadata(v->clients[side]), name);
    if (found == NULL || found->error_code != 0) {
        int16_t code = found != NULL ? found->error_code : UNKNOWN_TOPIC_OR_PARTITION;
        problem_set(problem, (enum error)code, "%s does not show topic %s: %s", sides[side], name, error_message(code));
        return NULL;
    }
    return found;
}

static enum error look_at_side(struct verify *v, enum side side, const char *name, struct compared *c, int32_t *ret_leader)
{
    const struct client_topic *topic = topic_at(v, side, name, &c->problem);
    if (topic == NULL)
        return c->problem.code;
    if (c->partition >= topic->partitions_n)
        return problem_set(&c->problem, UNKNOWN_TOPIC_OR_PARTITION, "%s has %d partitions on one side.", name,
                           topic->partitions_n);
    int64_t *offsets = mem_calloc((size_t)topic->partitions_n, sizeof(*offsets));
    int64_t timeout = v->tool->timeout_ms;
    enum error error = read_offsets(v->clients[side], topic, TIMESTAMP_EARLIEST, READ_UNCOMMITTED, timeout, offsets, &c->problem);
    c->start[side] = offsets[c->partition];
    if (error == OK)
        error = read_offsets(v->clients[side], topic, TIMESTAMP_LATEST, READ_UNCOMMITTED, timeout, offsets, &c->problem);
    c->high[side] = offsets[c->partition];
    *ret_leader = topic->partitions[c->partition].leader;
    mem_free(offsets);
    return error;
}

static void compare_partition(struct verify *v, const TOPIC *t, const PARTITION *p, struct compared *c)
{
    char *name = str_dup(t->topic_name);
    struct batch_source sources[2];
    int32_t leader[2];
    *c = (struct compared){.topic = t->topic_name, .partition = p->partition_index, .start = {-1, -1}, .high = {-1, -1}};
    if (look_at_side(v, SOURCE, name, c, &leader[SOURCE]) == OK &&
        look_at_side(v, DESTINATION, name, c, &leader[DESTINATION]) == OK) {
        c->from = MAX(c->start[SOURCE], c->start[DESTINATION]);
        c->to = MIN(c->high[SOURCE], c->high[DESTINATION]);
        c->up_to_stop = str_is(p->state, "STOPPED"); /* what follows there was written here: the barrier first */
        if (c->up_to_stop && p->last_mirror_offset >= 0)
            c->to = MIN(c->to, p->last_mirror_offset);
        c->to = MAX(c->from, c->to);
        for (int side = SOURCE; side <= DESTINATION; side++)
            batch_source_init(&sources[side], v->clients[side], name, c->partition, leader[side], c->from, v->tool->timeout_ms);
        if (c->from < c->to && !same_batches(c, sources) && c->problem.code == OK)
            problem_set(&c->problem, ERR_IO, "The comparison could not be finished.");
        for (int side = SOURCE; side <= DESTINATION; side++)
            batch_source_fini(&sources[side]);
    }
    mem_free(name);
}

/* ---- Showing ---- */

static void print_table(struct verify *v)
{
    static const char *const titles[] = {"TOPIC", ">PARTITION", ">FROM", ">TO", ">BATCHES", ">SIZE", "RESULT"};
    struct table t;
    table_init(&t, titles, ARRAY_SIZE(titles));
    for (int i = 0; i < v->count; i++) {
        const struct compared *c = &v->items[i];
        bool none = c->from >= c->to;
        table_str(&t, c->topic);
        table_count(&t, c->partition);
        table_count(&t, none ? -1 : c->from);
        table_count(&t, none ? -1 : c->to - 1);
        table_count(&t, c->batches);
        table_bytes(&t, c->bytes);
        table_cell(&t, "%s",
                   c->problem.code != OK ? "not finished"
                   : c->differs          ? "DIFFERENT"
                   : none                ? "nothing in common to compare"
                   : c->up_to_stop       ? "equal up to the stop"
                                         : "equal");
    }
    table_print(&t, &v->tool->out);
    table_fini(&t);
}

/* What was not looked at, so that nobody believes it was. */
static void print_left_out(struct verify *v)
{
    static const char *const sides[] = {"source", "destination"};
    for (int i = 0; i < v->count; i++) {
        const struct compared *c = &v->items[i];
        if (c->problem.code != OK)
            continue;
        for (int side = SOURCE; side <= DESTINATION; side++) {
            if (c->start[side] < c->from)
                out_printf(&v->tool->out, "%.*s-%d: offsets %lld to %lld are only at the %s and were left out\n",
                           STR_ARG(c->topic), c->partition, (long long)c->start[side], (long long)c->from - 1, sides[side]);
            if (c->high[side] > c->to && !(c->up_to_stop && side == DESTINATION))
                out_printf(&v->tool->out, "%.*s-%d: the %s goes on to offset %lld, behind what was compared\n", STR_ARG(c->topic),
                           c->partition, sides[side], (long long)c->high[side] - 1);
        }
    }
}

static void report_item(struct tool *tool, const struct compared *c)
{
    struct problem problem = c->problem;
    const struct batch_difference *d = &c->difference;
    if (c->differs && d->field == NULL)
        problem_set(&problem, ERR_CORRUPT, "%.*s-%d: the %s has no batch at offset %lld, the other side has one.",
                    STR_ARG(c->topic), c->partition, c->missing_at[SOURCE] ? "source" : "destination", (long long)d->offset);
    else if (c->differs)
        problem_set(&problem, ERR_CORRUPT,
                    "%.*s-%d differs in the batch at offset %lld: %s is %lld at the source and %lld at the destination.",
                    STR_ARG(c->topic), c->partition, (long long)d->offset, d->field, (long long)d->source,
                    (long long)d->destination);
    if (problem.code != OK)
        tool_fail(tool, &problem);
}

static void print_item_json(struct out *out, const struct compared *c)
{
    out_begin(out, '{');
    out_field_text(out, "topicName", c->topic);
    out_field_i64(out, "partitionIndex", c->partition);
    out_field_bool(out, "equal", !c->differs && c->problem.code == OK);
    out_field_i64(out, "fromOffset", c->from);
    out_field_i64(out, "toOffset", c->to);
    out_field_i64(out, "batches", c->batches);
    out_field_i64(out, "bytes", c->bytes);
    out_field_i64(out, "sourceLogStartOffset", c->start[SOURCE]);
    out_field_i64(out, "logStartOffset", c->start[DESTINATION]);
    out_field_i64(out, "sourceHighWatermark", c->high[SOURCE]);
    out_field_i64(out, "highWatermark", c->high[DESTINATION]);
    out_field_text(out, "errorMessage", c->problem.code != OK ? str_of(c->problem.message) : STR_NULL);
    out_key(out, "difference");
    if (c->differs) {
        out_begin(out, '{');
        out_field_i64(out, "offset", c->difference.offset);
        out_field_text(out, "field", c->difference.field != NULL ? str_of(c->difference.field) : STR("batch"));
        out_field_i64(out, "source", c->difference.field != NULL ? c->difference.source : !c->missing_at[SOURCE]);
        out_field_i64(out, "destination", c->difference.field != NULL ? c->difference.destination : !c->missing_at[DESTINATION]);
        out_end(out, '}');
    } else {
        out_null(out);
    }
    out_end(out, '}');
}

static int show(struct verify *v, const MIRROR *m)
{
    struct out *out = &v->tool->out;
    char size[TEXT_SIZE];
    int64_t batches = 0, bytes = 0;
    bool equal = true;
    for (int i = 0; i < v->count; i++) {
        batches += v->items[i].batches;
        bytes += v->items[i].bytes;
        equal = equal && !v->items[i].differs && v->items[i].problem.code == OK;
    }
    if (v->tool->json) {
        out_begin(out, '{');
        out_field_text(out, "mirrorName", m->mirror_name);
        out_field_text(out, "sourceClusterId", m->source_cluster_id);
        out_field_bool(out, "equal", equal);
        out_field_i64(out, "batches", batches);
        out_field_i64(out, "bytes", bytes);
        out_key(out, "partitions");
        out_begin(out, '[');
        for (int i = 0; i < v->count; i++)
            print_item_json(out, &v->items[i]);
        out_end(out, ']');
        out_end(out, '}');
    } else {
        print_table(v);
        print_left_out(v);
        out_printf(out, "%d partition%s, %lld batches, %s compared: %s\n", v->count, v->count == 1 ? "" : "s", (long long)batches,
                   text_bytes(bytes, size), equal ? "equal to the byte" : "NOT all equal");
    }
    for (int i = 0; i < v->count; i++)
        report_item(v->tool, &v->items[i]);
    return equal ? 0 : EXIT_FAILED;
}

/* ---- A run ---- */

static int verify_mirror(struct verify *v, const MIRROR *m)
{
    struct tool *tool = v->tool;
    struct problem problem = {0};
    struct client_options options = {
        .client_id = "kagami-verify", .connect_timeout_ms = MIN(tool->timeout_ms, 10000), .request_timeout_ms = tool->timeout_ms};
    char *bootstrap = str_dup(m->source_bootstrap);
    enum error error = client_sync_create(bootstrap, &options, &v->clients[SOURCE], &problem);
    mem_free(bootstrap);
    if (error != OK)
        return tool_fail(tool, &problem);
    v->clients[DESTINATION] = tool->client;
    int total = 0;
    for (int32_t i = 0; i < m->topics_n; i++)
        total += m->topics[i].partitions_n;
    v->items = mem_calloc((size_t)total + 1, sizeof(*v->items));
    for (int32_t i = 0; i < m->topics_n; i++) {
        for (int32_t k = 0; k < m->topics[i].partitions_n && !tool_interrupted(); k++)
            compare_partition(v, &m->topics[i], &m->topics[i].partitions[k], &v->items[v->count++]);
    }
    int status = show(v, m);
    if (total == 0)
        status = tool_fail_code(tool, ERR_NOT_FOUND, STR("it has no such topics"),
                                STR("\"kagami mirror describe\" shows its topics."), "mirror %.*s", STR_ARG(m->mirror_name));
    mem_free(v->items);
    client_sync_destroy(v->clients[SOURCE]);
    return status;
}

int run_mirror_verify(struct tool *tool)
{
    struct topic_list list;
    struct problem problem = {0};
    struct client_response *r;
    struct verify v = {.tool = tool};
    if (topic_list_parse(&tool->args, &list, &problem) != OK) {
        tool_fail(tool, &problem);
        return EXIT_USAGE;
    }
    tool_catch_interrupts();
    int status = mirror_ask(tool, tool->args.words[0], &list, false, &r) ? 0 : EXIT_FAILED;
    topic_list_fini(&list);
    if (status != 0)
        return status;
    const struct describe_cluster_mirrors_response *body = r->body;
    status = mirror_errors(tool, body);
    if (status == 0 && body->mirrors_n == 1)
        status = verify_mirror(&v, &body->mirrors[0]);
    else if (status == 0)
        status = tool_fail_code(tool, UNKNOWN_CLUSTER_MIRROR, STR_NULL, STR_NULL, "mirror %s", tool->args.words[0]);
    client_response_free(r);
    return status;
}
