/* consume: reads partitions by Fetch, prints records. Control records are never shown; read_committed drops the records of aborted
 * transactions by the list in each answer, as Kafka's clients do (class CompletedFetch). */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "codec/control.h"
#include "tools/commands.h"
#include "tools/reading.h"
#include "tools/record_format.h"
#include "tools/text.h"

#define REQUEST_ARENA_BYTES (64 * 1024 * 1024)
#define FETCH_WAIT_MS 500
#define FETCH_BYTES (32 * 1024 * 1024)
#define PARTITION_BYTES (1024 * 1024)
#define RETRY_MS 250

struct reading {
    int32_t index;
    int64_t position;
    int64_t end; /* -1: none; else done when position reaches it */
    bool chosen, done;
};

struct consumer {
    struct tool *tool;
    const char *topic;
    const char *format; /* NULL: the default */
    enum isolation isolation;
    int64_t left; /* records to print; -1: no limit */
    struct reading *partitions;
    int32_t count;
    int64_t failing_since_ms; /* -1: all is well */
    struct buf scratch;
};

/* ---- Where to begin ---- */

static int choose(struct consumer *c, const struct client_topic *topic)
{
    int64_t only = args_number(&c->tool->args, "partition", -1);
    if (only >= topic->partitions_n) {
        struct problem problem = {0};
        problem_set(&problem, UNKNOWN_TOPIC_OR_PARTITION, "Topic %s has no partition %lld.", c->topic, (long long)only);
        problem_hint(&problem, "It has partitions 0 to %d.", topic->partitions_n - 1);
        return tool_fail(c->tool, &problem);
    }
    c->count = topic->partitions_n;
    c->partitions = mem_calloc((size_t)c->count + 1, sizeof(*c->partitions));
    for (int32_t i = 0; i < c->count; i++)
        c->partitions[i] = (struct reading){.index = i, .end = -1, .chosen = only < 0 || only == i};
    return 0;
}

static int place_at_offset(struct consumer *c, int64_t offset, const int64_t *earliest, const int64_t *latest)
{
    for (int32_t i = 0; i < c->count; i++) {
        struct reading *p = &c->partitions[i];
        p->position = offset;
        if (!p->chosen || (offset >= earliest[i] && offset <= latest[i]))
            continue;
        struct problem problem = {0};
        problem_set(&problem, OFFSET_OUT_OF_RANGE, "%s-%d does not hold offset %lld.", c->topic, i, (long long)offset);
        problem_hint(&problem, "It holds offsets from %lld up to %lld (where the next record goes).", (long long)earliest[i],
                     (long long)latest[i]);
        return tool_fail(c->tool, &problem);
    }
    return 0;
}

/* By --from. The arrays have an offset per partition. */
static int place(struct consumer *c, const struct client_topic *topic, int64_t *earliest, const int64_t *latest, int64_t *at)
{
    const char *from = args_text(&c->tool->args, "from");
    struct problem problem = {0};
    int64_t number;
    if (from[0] == '@') {
        if (!parse_time(str_of(from + 1), &number))
            return tool_usage(c->tool, "Write @ and milliseconds, or @2026-11-29T15:04:05Z.", "--from cannot be \"%s\".", from);
        if (read_offsets(c->tool->client, topic, number, READ_UNCOMMITTED, c->tool->timeout_ms, at, &problem) != OK)
            return tool_fail(c->tool, &problem);
        for (int32_t i = 0; i < c->count; i++)
            c->partitions[i].position = at[i] >= 0 ? at[i] : latest[i]; /* no record is as new */
        return 0;
    }
    if (str_to_i64(str_of(from), &number))
        return place_at_offset(c, number, earliest, latest);
    bool first = strcmp(from, "earliest") == 0;
    if (!first && strcmp(from, "latest") != 0)
        return tool_usage(c->tool, "It is earliest, latest, an offset, or @TIME.", "--from cannot be \"%s\".", from);
    for (int32_t i = 0; i < c->count; i++)
        c->partitions[i].position = first ? earliest[i] : latest[i];
    return 0;
}

static int prepare(struct consumer *c)
{
    struct tool *tool = c->tool;
    const struct client_topic *topic;
    struct problem problem = {0};
    if (!tool_topic(tool, tool->client, c->topic, &topic))
        return EXIT_FAILED;
    int status = choose(c, topic);
    if (status != 0)
        return status;
    int64_t *offsets = mem_calloc((size_t)c->count * 3 + 1, sizeof(*offsets));
    int64_t *earliest = offsets, *latest = offsets + c->count, *at = latest + c->count;
    if (read_offsets(tool->client, topic, TIMESTAMP_EARLIEST, READ_UNCOMMITTED, tool->timeout_ms, earliest, &problem) != OK ||
        read_offsets(tool->client, topic, TIMESTAMP_LATEST, c->isolation, tool->timeout_ms, latest, &problem) != OK)
        status = tool_fail(tool, &problem);
    else
        status = place(c, topic, earliest, latest, at);
    for (int32_t i = 0; i < c->count && args_flag(&tool->args, "until-end"); i++) {
        c->partitions[i].end = latest[i];
        c->partitions[i].done = c->partitions[i].position >= latest[i];
    }
    mem_free(offsets);
    return status;
}

/* ---- Transactions ---- */

/* Producers whose records are dropped at the moment, from the answer's list. */
struct aborted {
    const struct fetch_response_responses_partitions_aborted_transactions *list; /* ascending by first offset */
    int32_t count, next;
    int64_t *active;
    int32_t active_count;
};

static int by_first_offset(const void *a, const void *b)
{
    const struct fetch_response_responses_partitions_aborted_transactions *x = a, *y = b;
    return (x->first_offset > y->first_offset) - (x->first_offset < y->first_offset);
}

static int32_t active_at(const struct aborted *a, int64_t producer_id)
{
    for (int32_t i = 0; i < a->active_count; i++) {
        if (a->active[i] == producer_id)
            return i;
    }
    return -1;
}

/* Whether the batch belongs to an aborted transaction; keeps the state for the next one. */
static bool is_aborted(struct aborted *a, const uint8_t *batch)
{
    for (; a->next < a->count && a->list[a->next].first_offset <= batch_last_offset(batch); a->next++) {
        if (active_at(a, a->list[a->next].producer_id) < 0)
            a->active[a->active_count++] = a->list[a->next].producer_id;
    }
    int32_t at = active_at(a, batch_producer_id(batch));
    struct control_record control;
    if (at >= 0 && batch_is_control(batch) && control_parse(batch, &control) == OK && control.type == CONTROL_ABORT)
        a->active[at] = a->active[--a->active_count];
    return at >= 0 && batch_is_transactional(batch);
}

/* ---- Records ---- */

static bool enough(const struct consumer *c)
{
    return c->left == 0 || !out_ok(&c->tool->out) || tool_interrupted();
}

static bool damaged(struct consumer *c, const struct reading *p, int64_t offset, const char *what)
{
    struct problem problem = {0};
    problem_set(&problem, CORRUPT_MESSAGE, "%s-%d is damaged at offset %lld: %s.", c->topic, p->index, (long long)offset, what);
    problem_hint(&problem, "Read on behind it with --partition %d --from %lld.", p->index, (long long)offset + 1);
    tool_fail(c->tool, &problem);
    return false;
}

static bool print_batch(struct consumer *c, struct reading *p, const uint8_t *batch)
{
    struct bytes records;
    struct record_iter it;
    struct record record;
    if (!batch_verify_crc(batch))
        return damaged(c, p, batch_base_offset(batch), "the CRC does not match");
    if (batch_records(batch, LIMIT_DECOMPRESSED_BYTES, &c->scratch, &records) != OK)
        return damaged(c, p, batch_base_offset(batch), "the records cannot be decompressed");
    record_iter_init(&it, batch, records);
    while (!enough(c) && record_iter_next(&it, &record)) {
        if (record.offset < p->position || (p->end >= 0 && record.offset >= p->end))
            continue;
        struct record_place place = {c->topic, p->index, batch_leader_epoch(batch), batch_is_log_append_time(batch)};
        if (c->tool->json)
            record_print_json(&c->tool->out, &place, &record);
        else
            record_print(&c->tool->out, c->format, &place, &record);
        c->left -= c->left > 0;
    }
    if (!enough(c) && record_iter_finish(&it) != OK)
        return damaged(c, p, batch_base_offset(batch), "a record cannot be read");
    return true;
}

/* False: the reading ends with an error. */
static bool take_records(struct consumer *c, struct reading *p, struct fetch_response_responses_partitions *answer)
{
    struct aborted aborted = {.list = answer->aborted_transactions, .count = MAX(answer->aborted_transactions_n, 0)};
    struct batch_iter it;
    const uint8_t *batch;
    enum batch_found found;
    bool good = true;
    if (aborted.count > 1)
        qsort(answer->aborted_transactions, (size_t)aborted.count, sizeof(*aborted.list), by_first_offset);
    aborted.active = mem_calloc((size_t)aborted.count + 1, sizeof(*aborted.active));
    batch_iter_init(&it, (struct bytes){answer->records.p, MAX(answer->records.len, 0)});
    while (good && !enough(c) && (found = batch_iter_next(&it, &batch)) == BATCH_FOUND) {
        if (batch_check_offsets(batch) != OK) {
            good = damaged(c, p, p->position, "a batch has offsets that cannot be");
            break;
        }
        bool drop = c->isolation == READ_COMMITTED && is_aborted(&aborted, batch);
        if (!drop && !batch_is_control(batch))
            good = print_batch(c, p, batch);
        p->position = MAX(p->position, batch_next_offset(batch));
    }
    if (good && !enough(c) && found == BATCH_BAD)
        good = damaged(c, p, p->position, error_message(it.error));
    p->done = p->end >= 0 && p->position >= p->end;
    mem_free(aborted.active);
    return good;
}

/* ---- Fetching ---- */

/* Retention passed us: goes on at the log's start and says so. */
static bool out_of_range(struct consumer *c, struct reading *p)
{
    const struct client_topic *topic;
    struct problem problem = {0};
    if (!tool_topic(c->tool, c->tool->client, c->topic, &topic))
        return false;
    int64_t *earliest = mem_calloc((size_t)topic->partitions_n + 1, sizeof(*earliest));
    enum error error =
        read_offsets(c->tool->client, topic, TIMESTAMP_EARLIEST, READ_UNCOMMITTED, c->tool->timeout_ms, earliest, &problem);
    int64_t start = error == OK && p->index < topic->partitions_n ? earliest[p->index] : -1;
    mem_free(earliest);
    if (start > p->position) {
        problem_set(&problem, OFFSET_OUT_OF_RANGE, "%s-%d: offsets %lld to %lld were removed before they could be read.",
                    c->topic, p->index, (long long)p->position, (long long)start - 1);
        tool_fail(c->tool, &problem);
        p->position = start;
        return true;
    }
    if (error == OK)
        problem_set(&problem, OFFSET_OUT_OF_RANGE, "%s-%d does not hold offset %lld any more: the log was cut.", c->topic,
                    p->index, (long long)p->position);
    tool_fail(c->tool, &problem);
    return false;
}

/* An error that may pass: false when it has lasted too long. */
static bool try_again(struct consumer *c, const struct problem *problem)
{
    int64_t now = tool_mono_ms(c->tool);
    if (c->failing_since_ms < 0)
        c->failing_since_ms = now;
    if (now - c->failing_since_ms >= c->tool->timeout_ms) {
        tool_fail(c->tool, problem);
        return false;
    }
    tool_sleep(c->tool, RETRY_MS);
    struct str name = str_of(c->topic);
    struct problem ignored = {0};
    (void)!client_sync_refresh(c->tool->client, &name, 1, &ignored); /* if it fails, so will the next fetch */
    return true;
}

static bool take_answer(struct consumer *c, struct fetch_response *body)
{
    struct problem problem = {0};
    bool again = false;
    for (int32_t i = 0; i < body->responses_n; i++) {
        for (int32_t k = 0; k < body->responses[i].partitions_n && !enough(c); k++) {
            struct fetch_response_responses_partitions *answer = &body->responses[i].partitions[k];
            if (answer->partition_index < 0 || answer->partition_index >= c->count)
                continue;
            struct reading *p = &c->partitions[answer->partition_index];
            if (answer->error_code == OFFSET_OUT_OF_RANGE) {
                if (!out_of_range(c, p))
                    return false;
            } else if (answer->error_code != 0) {
                problem_set(&problem, (enum error)answer->error_code, "%s-%d cannot be read: %s", c->topic, p->index,
                            error_message(answer->error_code));
                if (!error_retriable(answer->error_code) && !is_leader_error(answer->error_code)) {
                    tool_fail(c->tool, &problem);
                    return false;
                }
                again = true;
            } else if (!take_records(c, p, answer)) {
                return false;
            }
        }
    }
    if (again)
        return try_again(c, &problem);
    c->failing_since_ms = -1;
    return true;
}

/* One fetch from one leader, for all its partitions. */
static bool fetch_from(struct consumer *c, int32_t leader, int32_t wait_ms)
{
    const struct client_topic *topic = client_metadata_topic(client_sync_metadata(c->tool->client), c->topic);
    struct arena arena;
    struct fetch_request request;
    struct client_response *r;
    struct problem problem = {0};
    if (topic == NULL)
        return true; /* lost since; the next round tells */
    arena_init(&arena, REQUEST_ARENA_BYTES);
    proto_init(&PROTO_FETCH_REQUEST, &request);
    request.max_wait_ms = wait_ms;
    request.min_bytes = 1;
    request.max_bytes = FETCH_BYTES;
    request.isolation_level = (int8_t)c->isolation;
    struct fetch_request_topics *t = request.topics = fetch_request_topics_new(&arena, 1);
    request.topics_n = 1;
    t->topic = str_of(c->topic);
    t->partitions = fetch_request_topics_partitions_new(&arena, c->count);
    for (int32_t i = 0; i < c->count; i++) {
        struct reading *p = &c->partitions[i];
        if (!p->chosen || p->done || i >= topic->partitions_n || topic->partitions[i].leader != leader)
            continue;
        struct fetch_request_topics_partitions *asked = &t->partitions[t->partitions_n++];
        asked->partition = p->index;
        asked->fetch_offset = p->position;
        asked->partition_max_bytes = PARTITION_BYTES;
    }
    enum error error = OK;
    r = NULL;
    if (t->partitions_n > 0)
        error =
            client_sync_call(c->tool->client, leader, API_FETCH, 4, FETCH_BY_NAME, &request, c->tool->timeout_ms, &r, &problem);
    arena_fini(&arena);
    if (error != OK)
        return try_again(c, &problem);
    bool good = r == NULL || take_answer(c, r->body);
    client_response_free(r);
    return good;
}

static bool all_done(const struct consumer *c)
{
    for (int32_t i = 0; i < c->count; i++) {
        if (c->partitions[i].chosen && !c->partitions[i].done)
            return false;
    }
    return true;
}

/* The leaders of what is still read, each once; at most one a partition. */
static int32_t leaders_of(const struct consumer *c, const struct client_topic *topic, int32_t *leaders)
{
    int32_t n = 0;
    for (int32_t i = 0; i < MIN(topic->partitions_n, c->count); i++) {
        int32_t leader = topic->partitions[i].leader;
        bool known = leader < 0 || !c->partitions[i].chosen || c->partitions[i].done;
        for (int32_t k = 0; k < n && !known; k++)
            known = leaders[k] == leader;
        if (!known)
            leaders[n++] = leader;
    }
    return n;
}

/* Asks each leader once. */
static bool round_of_fetches(struct consumer *c)
{
    const struct client_topic *topic = client_metadata_topic(client_sync_metadata(c->tool->client), c->topic);
    struct problem problem = {0};
    if (topic == NULL || topic->error_code != 0) {
        problem_set(&problem, UNKNOWN_TOPIC_OR_PARTITION, "Topic %s is gone.", c->topic);
        return try_again(c, &problem);
    }
    int32_t *leaders = mem_calloc((size_t)c->count + 1, sizeof(*leaders)), n = leaders_of(c, topic, leaders);
    bool good = true;
    for (int32_t i = 0; i < n && good && !enough(c); i++)
        good = fetch_from(c, leaders[i], FETCH_WAIT_MS / n);
    mem_free(leaders);
    if (n > 0)
        return good;
    problem_set(&problem, LEADER_NOT_AVAILABLE, "Topic %s has no leader at the moment.", c->topic);
    return try_again(c, &problem);
}

int run_consume(struct tool *tool)
{
    const struct args *a = &tool->args;
    struct consumer c = {.tool = tool,
                         .topic = a->words[0],
                         .format = args_text(a, "format"),
                         .isolation = args_flag(a, "read-committed") ? READ_COMMITTED : READ_UNCOMMITTED,
                         .left = args_number(a, "count", -1),
                         .failing_since_ms = -1};
    const char *bad = c.format != NULL ? record_format_check(c.format) : NULL;
    if (bad != NULL)
        return tool_usage(tool, "Try: kagami consume --help", "--format does not know \"%.2s\".", bad);
    tool_catch_interrupts();
    int status = prepare(&c);
    while (status == 0 && !all_done(&c) && !enough(&c)) {
        if (!round_of_fetches(&c))
            status = EXIT_FAILED;
        (void)out_flush(&tool->out);
    }
    buf_fini(&c.scratch);
    mem_free(c.partitions);
    return status;
}
