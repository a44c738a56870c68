#include "tools/reading.h"

#include <string.h>

#include "base/assert.h"

#define REQUEST_ARENA_BYTES (64 * 1024 * 1024)
#define FETCH_WAIT_MS 500
#define FETCH_BYTES (4 * 1024 * 1024)

bool is_leader_error(int16_t code)
{
    return code == NOT_LEADER_OR_FOLLOWER || code == LEADER_NOT_AVAILABLE || code == FENCED_LEADER_EPOCH ||
           code == UNKNOWN_LEADER_EPOCH || code == REPLICA_NOT_AVAILABLE;
}

/* ---- Offsets ---- */

static enum error take_offsets(const struct list_offsets_response *body, const struct client_topic *topic, int64_t *offsets,
                               struct problem *problem)
{
    enum error error = OK;
    for (int32_t i = 0; i < body->topics_n; i++) {
        for (int32_t k = 0; k < body->topics[i].partitions_n; k++) {
            const struct list_offsets_response_topics_partitions *p = &body->topics[i].partitions[k];
            if (p->partition_index < 0 || p->partition_index >= topic->partitions_n)
                continue;
            if (p->error_code == 0)
                offsets[p->partition_index] = p->offset;
            else if (error == OK)
                error = problem_set(problem, (enum error)p->error_code, "%s-%d has no offsets to give: %s", topic->name,
                                    p->partition_index, error_message(p->error_code));
        }
    }
    return error;
}

/* Asks one leader for its partitions. */
static enum error ask_leader(struct client_sync *client, const struct client_topic *topic, int32_t leader, int64_t timestamp,
                             enum isolation isolation, int64_t timeout_ms, int64_t *offsets, struct problem *problem)
{
    struct arena arena;
    struct list_offsets_request request;
    struct client_response *r;
    arena_init(&arena, REQUEST_ARENA_BYTES);
    proto_init(&PROTO_LIST_OFFSETS_REQUEST, &request);
    request.replica_id = -1;
    request.isolation_level = (int8_t)isolation;
    request.timeout_ms = (int32_t)MIN(timeout_ms, INT32_MAX);
    struct list_offsets_request_topics *t = request.topics = list_offsets_request_topics_new(&arena, 1);
    request.topics_n = 1;
    t->name = str_of(topic->name);
    t->partitions = list_offsets_request_topics_partitions_new(&arena, topic->partitions_n);
    for (int32_t i = 0; i < topic->partitions_n; i++) {
        if (topic->partitions[i].leader != leader)
            continue;
        t->partitions[t->partitions_n].partition_index = i;
        t->partitions[t->partitions_n++].timestamp = timestamp;
    }
    enum error error = client_sync_call(client, leader, API_LIST_OFFSETS, 1, -1, &request, timeout_ms, &r, problem);
    arena_fini(&arena);
    if (error != OK)
        return error;
    error = take_offsets(r->body, topic, offsets, problem);
    client_response_free(r);
    return error;
}

enum error read_offsets(struct client_sync *client, const struct client_topic *topic, int64_t timestamp, enum isolation isolation,
                        int64_t timeout_ms, int64_t *ret_offsets, struct problem *problem)
{
    enum error first = OK;
    for (int32_t i = 0; i < topic->partitions_n; i++)
        ret_offsets[i] = -1;
    for (int32_t i = 0; i < topic->partitions_n; i++) {
        int32_t leader = topic->partitions[i].leader;
        bool asked = false;
        for (int32_t k = 0; k < i && !asked; k++)
            asked = topic->partitions[k].leader == leader;
        if (asked)
            continue;
        struct problem now = {0};
        enum error error = leader < 0
                               ? problem_set(&now, LEADER_NOT_AVAILABLE, "%s-%d has no leader at the moment.", topic->name, i)
                               : ask_leader(client, topic, leader, timestamp, isolation, timeout_ms, ret_offsets, &now);
        if (error != OK && first == OK) {
            first = error;
            *problem = now;
        }
    }
    return first;
}

/* ---- Batches ---- */

void batch_source_init(struct batch_source *s, struct client_sync *client, const char *topic, int32_t partition, int32_t leader,
                       int64_t position, int64_t timeout_ms)
{
    *s = (struct batch_source){.client = client,
                               .topic = topic,
                               .partition = partition,
                               .leader = leader,
                               .timeout_ms = timeout_ms,
                               .position = position,
                               .high_watermark = -1,
                               .log_start_offset = -1,
                               .max_bytes = FETCH_BYTES};
    batch_iter_init(&s->it, (struct bytes){NULL, 0});
}

void batch_source_fini(struct batch_source *s)
{
    client_response_free(s->response);
    s->response = NULL;
}

static enum error take_partition(struct batch_source *s, const struct fetch_response *body, struct problem *problem)
{
    if (body->error_code != 0)
        return problem_set(problem, (enum error)body->error_code, "The fetch was refused: %s", error_message(body->error_code));
    if (body->responses_n != 1 || body->responses[0].partitions_n != 1)
        return problem_set(problem, ERR_MALFORMED, "The answer to a fetch of %s-%d does not speak of it.", s->topic,
                           s->partition);
    const struct fetch_response_responses_partitions *p = &body->responses[0].partitions[0];
    if (p->error_code != 0)
        return problem_set(problem, (enum error)p->error_code, "%s-%d cannot be read at offset %lld: %s", s->topic, s->partition,
                           (long long)s->position, error_message(p->error_code));
    s->high_watermark = p->high_watermark;
    s->log_start_offset = p->log_start_offset;
    batch_iter_init(&s->it, (struct bytes){p->records.p, MAX(p->records.len, 0)});
    return OK;
}

static enum error fetch(struct batch_source *s, struct problem *problem)
{
    struct fetch_request request;
    struct fetch_request_topics topic;
    struct fetch_request_topics_partitions partition;
    struct arena arena;
    arena_init(&arena, REQUEST_ARENA_BYTES);
    proto_init(&PROTO_FETCH_REQUEST, &request);
    request.max_wait_ms = FETCH_WAIT_MS;
    request.min_bytes = 1;
    request.max_bytes = s->max_bytes;
    request.topics = fetch_request_topics_new(&arena, 1);
    request.topics_n = 1;
    topic = request.topics[0];
    topic.topic = str_of(s->topic);
    topic.partitions = fetch_request_topics_partitions_new(&arena, 1);
    topic.partitions_n = 1;
    partition = topic.partitions[0];
    partition.partition = s->partition;
    partition.fetch_offset = s->position;
    partition.partition_max_bytes = s->max_bytes;
    topic.partitions[0] = partition;
    request.topics[0] = topic;
    client_response_free(s->response);
    s->response = NULL;
    batch_iter_init(&s->it, (struct bytes){NULL, 0});
    enum error error =
        client_sync_call(s->client, s->leader, API_FETCH, 4, FETCH_BY_NAME, &request, s->timeout_ms, &s->response, problem);
    arena_fini(&arena);
    return error != OK ? error : take_partition(s, s->response->body, problem);
}

/* The next batch of the answer at hand; ERR_NOT_FOUND when there is none. */
static enum error from_answer(struct batch_source *s, const uint8_t **ret_batch, struct problem *problem)
{
    const uint8_t *batch;
    enum batch_found found;
    while ((found = batch_iter_next(&s->it, &batch)) == BATCH_FOUND) {
        if (batch_check_offsets(batch) != OK)
            return problem_set(problem, CORRUPT_MESSAGE, "%s-%d sent a batch with offsets that cannot be, after offset %lld.",
                               s->topic, s->partition, (long long)s->position);
        if (batch_last_offset(batch) < s->position)
            continue; /* a broker may begin before what was asked for */
        s->position = batch_next_offset(batch);
        *ret_batch = batch;
        return OK;
    }
    if (found == BATCH_BAD)
        return problem_set(problem, s->it.error, "%s-%d sent a damaged batch at offset %lld: %s", s->topic, s->partition,
                           (long long)s->it.error_offset, error_message(s->it.error));
    return ERR_NOT_FOUND;
}

enum error batch_source_next(struct batch_source *s, int64_t end, const uint8_t **ret_batch, struct problem *problem)
{
    enum error error = from_answer(s, ret_batch, problem);
    if (error != ERR_NOT_FOUND || s->position >= end)
        return error;
    error = fetch(s, problem);
    return error != OK ? error : from_answer(s, ret_batch, problem);
}
