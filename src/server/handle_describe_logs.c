/* DescribeLogDirs (KIP-113, KIP-827) and DescribeProducers (KIP-664). */
#include "base/assert.h"
#include "repl/partitions.h"
#include "server/handlers.h"
#include "server/named.h"
#include "server/server.h"
#include "storage/log_manager.h"

/* ---- DescribeLogDirs ---- */

struct log_dirs {
    struct request *request;
    struct describe_log_dirs_response response;
    struct describe_log_dirs_response_results_topics *topics;
    int32_t topics_n, topics_room, partitions_room;
    bool all;
    struct named *asked; /* sorted */
    size_t asked_n;
};

static void collect_asked(struct log_dirs *d, const struct describe_log_dirs_request *request)
{
    d->all = request->topics_n < 0;
    size_t count = 0;
    for (int32_t t = 0; t < request->topics_n; t++)
        count += (size_t)MAX(request->topics[t].partitions_n, 0);
    d->asked = request_calloc(d->request, count, sizeof(*d->asked));
    for (int32_t t = 0; t < request->topics_n; t++)
        for (int32_t i = 0; i < request->topics[t].partitions_n; i++)
            d->asked[d->asked_n++] =
                (struct named){.topic = request->topics[t].topic, .partition = request->topics[t].partitions[i]};
    named_sort(d->asked, d->asked_n);
}

/* Arrays grow by doubling in the arena: what was outgrown is freed with the request. */
static void *grow(struct request *r, void *items, int32_t count, int32_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = MAX(*room * 2, 16);
    void *more = request_calloc(r, (size_t)*room, size);
    if (count > 0)
        memcpy(more, items, (size_t)count * size);
    return more;
}

/* Partitions come sorted by topic. */
static void add_partition(void *arg, struct partition *p)
{
    struct log_dirs *d = arg;
    struct request *r = d->request;
    struct str name = str_of(partition_topic(p));
    if (!d->all && !named_has(d->asked, d->asked_n, name, partition_index(p)))
        return;
    if (d->topics_n == 0 || !str_eq(d->topics[d->topics_n - 1].name, name)) {
        d->topics = grow(r, d->topics, d->topics_n, &d->topics_room, sizeof(*d->topics));
        d->topics[d->topics_n++] = (struct describe_log_dirs_response_results_topics){.name = arena_str(&r->arena, name)};
        d->partitions_room = 0;
    }
    struct describe_log_dirs_response_results_topics *topic = &d->topics[d->topics_n - 1];
    topic->partitions = grow(r, topic->partitions, topic->partitions_n, &d->partitions_room, sizeof(*topic->partitions));
    struct partition_state state;
    partition_get_state(p, &state);
    topic->partitions[topic->partitions_n++] = (struct describe_log_dirs_response_results_topics_partitions){
        .partition_index = partition_index(p), .partition_size = (int64_t)state.size_bytes};
}

static void log_dirs_work(struct request *r)
{
    struct log_dirs *d = r->state;
    struct log_manager *logs = r->server->logs;
    uint64_t total, usable;
    d->response.results = describe_log_dirs_response_results_new(&r->arena, 1);
    d->response.results_n = 1;
    struct describe_log_dirs_response_results *result = d->response.results;
    result->log_dir = str_of(log_manager_dir(logs));
    if (log_manager_failed(logs)) {
        result->error_code = KAFKA_STORAGE_ERROR;
        return;
    }
    if (log_manager_space(logs, &total, &usable) == OK) {
        result->total_bytes = (int64_t)total;
        result->usable_bytes = (int64_t)usable;
    }
    collect_asked(d, r->body);
    partitions_each(r->server->partitions, add_partition, d);
    result->topics = d->topics;
    result->topics_n = d->topics_n;
}

static void log_dirs_done(struct request *r)
{
    request_respond(r, &((struct log_dirs *)r->state)->response);
}

void handle_describe_log_dirs(struct request *r)
{
    struct log_dirs *d = request_alloc(r, sizeof(*d));
    d->request = r;
    r->state = d;
    proto_init(&PROTO_DESCRIBE_LOG_DIRS_RESPONSE, &d->response);
    request_run(r, log_dirs_work, log_dirs_done);
}

/* ---- DescribeProducers ---- */

struct producers {
    struct describe_producers_response_topics_partitions *out;
    int32_t room;
};

static bool add_producer(void *arg, const struct producer_entry *e)
{
    struct producers *p = arg;
    if (p->out->active_producers_n == p->room)
        return false;
    struct describe_producers_response_topics_partitions_active_producers *out =
        &p->out->active_producers[p->out->active_producers_n++];
    out->producer_id = e->producer_id;
    out->producer_epoch = e->producer_epoch;
    out->last_sequence = producer_entry_last_sequence(e);
    out->last_timestamp = e->last_timestamp;
    out->coordinator_epoch = e->coordinator_epoch;
    out->current_txn_start_offset = e->current_txn_first_offset;
    return true;
}

static enum error describe_producers(struct request *r, struct str topic,
                                     struct describe_producers_response_topics_partitions *out)
{
    enum error error = OK;
    struct partition *p = partitions_find(r->server->partitions, topic, out->partition_index, &error);
    if (p == NULL)
        return error;
    struct plog *log = partition_lock(p);
    if (log != NULL) {
        struct producer_state *state = plog_producers(log);
        struct producers all = {out, producer_state_count(state)};
        out->active_producers = describe_producers_response_topics_partitions_active_producers_new(&r->arena, all.room);
        producer_state_each(state, add_producer, &all);
        partition_unlock(p);
    } else
        error = UNKNOWN_TOPIC_OR_PARTITION;
    partition_unref(p);
    return error;
}

/* A partition may have a million producers: naming it again and again is refused. */
static bool *find_twice(struct request *r, const struct describe_producers_request *request)
{
    size_t count = 0, n = 0;
    for (int32_t t = 0; t < request->topics_n; t++)
        count += (size_t)MAX(request->topics[t].partition_indexes_n, 0);
    bool *twice = request_calloc(r, count, sizeof(*twice));
    struct named *named = request_calloc(r, count, sizeof(*named));
    for (int32_t t = 0; t < request->topics_n; t++)
        for (int32_t i = 0; i < request->topics[t].partition_indexes_n; i++, n++)
            named[n] = (struct named){request->topics[t].name, request->topics[t].partition_indexes[i], &twice[n]};
    named_mark_twice(named, count);
    return twice;
}

void handle_describe_producers(struct request *r)
{
    const struct describe_producers_request *request = r->body;
    bool *twice = find_twice(r, request);
    struct describe_producers_response response;
    proto_init(&PROTO_DESCRIBE_PRODUCERS_RESPONSE, &response);
    response.topics_n = MAX(request->topics_n, 0);
    response.topics = describe_producers_response_topics_new(&r->arena, response.topics_n);
    for (int32_t t = 0; t < response.topics_n; t++) {
        struct describe_producers_response_topics *topic = &response.topics[t];
        topic->name = request->topics[t].name;
        topic->partitions_n = MAX(request->topics[t].partition_indexes_n, 0);
        topic->partitions = describe_producers_response_topics_partitions_new(&r->arena, topic->partitions_n);
        for (int32_t i = 0; i < topic->partitions_n; i++) {
            topic->partitions[i].partition_index = request->topics[t].partition_indexes[i];
            enum error error = *twice++ ? INVALID_REQUEST : describe_producers(r, topic->name, &topic->partitions[i]);
            topic->partitions[i].error_code = error_wire(error);
            if (error != OK)
                topic->partitions[i].error_message = str_of(error_message(error));
        }
    }
    request_respond(r, &response);
}
