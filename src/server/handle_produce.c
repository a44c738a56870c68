/* Produce. Validation (CRC, decompression, the walk over the records) runs before any lock; then the records stand in the loop's queue (append_queue.h) until
 * the requests are read that came with this one. acks=all waits on the partitions until everything is durable, or the time is over. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/logger.h"
#include "base/stats.h"
#include "repl/partitions.h"
#include "server/handlers.h"
#include "server/server.h"
#include "server/worker.h"

#define FULL_DISK_LOG_INTERVAL_MS 10000
/* Records of a request that waits for others to be appended with; their frames stay in memory meanwhile. */
#define TOGETHER_BYTES (32 * 1024)

struct produce_part {
    const struct produce_request_topic_data *topic;
    const struct produce_request_topic_data_partition_data *data;
    struct produce_response_responses_partition_responses *out;
    struct partition *partition; /* a reference */
    bool twice;                  /* comes again in the request */
    struct queued_append append;
    struct validated validated;
    struct partition_waiter waiter;
    struct produce *produce;
    enum error waited; /* written before the count falls */
};

struct produce {
    struct request *request;
    struct partition_wake wake;
    struct loop_timer timer;
    int queued;          /* partitions that are not appended yet, and one while they are begun */
    _Atomic int waiting; /* partitions that are not durable yet, and one while they are begun */
    struct produce_part *parts;
    int32_t count;
    int64_t bytes; /* of records in the queue */
    bool failed;   /* acks=0: the only way to say so is to close the connection */
    struct produce_response response;
};

static void finish(struct produce *p)
{
    struct request *r = p->request;
    const struct produce_request *request = r->body;
    for (int32_t i = 0; i < p->count; i++) {
        if (p->parts[i].waited != OK)
            p->parts[i].out->error_code = error_wire(p->parts[i].waited);
        partition_unref(p->parts[i].partition);
    }
    if (request->acks != 0)
        request_respond(r, &p->response);
    else if (p->failed)
        request_close(r, "a write with acks=0 failed");
    else
        request_no_response(r);
}

/* ---- Waiting until all is durable ---- */

static struct partition_wake *durable(struct partition_waiter *w, enum error result)
{
    struct produce_part *part = CONTAINER_OF(w, struct produce_part, waiter);
    part->waited = result;
    return atomic_fetch_sub(&part->produce->waiting, 1) == 1 ? &part->produce->wake : NULL;
}

static void all_durable(struct loop_task *task)
{
    struct produce *p = CONTAINER_OF(task, struct produce, wake.task);
    loop_timer_stop(&p->timer);
    finish(p);
}

/* Takes back those that still stand. Whoever's wake was posted meanwhile finishes it. */
static void give_up(struct produce *p, enum error result)
{
    int taken = 0;
    for (int32_t i = 0; i < p->count; i++) {
        struct produce_part *part = &p->parts[i];
        if (part->partition == NULL || part->waiter.done == NULL || !partition_waiter_remove(part->partition, &part->waiter))
            continue;
        part->waited = result;
        taken++;
    }
    if (taken > 0 && atomic_fetch_sub(&p->waiting, taken) == taken) {
        loop_timer_stop(&p->timer);
        finish(p);
    }
}

static void timed_out(struct loop_timer *t)
{
    give_up(CONTAINER_OF(t, struct produce, timer), REQUEST_TIMED_OUT);
}
static void cancelled(struct request *r)
{
    give_up(r->state, REQUEST_TIMED_OUT);
}

/* ---- One partition ---- */

static void set_error(struct produce_part *part, enum error error, const struct problem *problem)
{
    struct produce *p = part->produce;
    part->out->error_code = error_wire(error);
    part->out->base_offset = -1;
    if (problem != NULL && problem->message[0] != '\0')
        part->out->error_message = request_problem_text(p->request, problem);
    p->failed = true;
    if (p->request->version >= 10 && part->out->error_code == NOT_LEADER_OR_FOLLOWER && part->partition != NULL) {
        struct partition_state state;
        partition_get_state(part->partition, &state);
        part->out->current_leader.leader_id = p->request->server->node_id;
        part->out->current_leader.leader_epoch = state.leader_epoch;
    }
}

static void set_record_errors(struct produce_part *part, const struct validate_errors *errors)
{
    if (errors->count == 0)
        return;
    struct arena *arena = &part->produce->request->arena;
    part->out->record_errors = produce_response_responses_partition_responses_record_errors_new(arena, errors->count);
    part->out->record_errors_n = errors->count;
    for (int32_t i = 0; i < errors->count; i++) {
        part->out->record_errors[i].batch_index = errors->items[i].batch_index;
        part->out->record_errors[i].batch_index_error_message = errors->items[i].message;
    }
}

/* A transaction needs a coordinator to have added the partition, and this version has none: so none was ever added (facts 24). */
static enum error check_transaction(const struct request *r, struct bytes records)
{
    const struct produce_request *request = r->body;
    int64_t producer_id;
    if (!validate_peek_transactional(records, &producer_id))
        return OK;
    if (request->transactional_id.p == NULL)
        return TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    return r->version >= 11 ? TRANSACTION_ABORTABLE : INVALID_TXN_STATE;
}

static bool internal_topic(const struct partition *p)
{
    return strcmp(partition_topic(p), "__consumer_offsets") == 0 || strcmp(partition_topic(p), "__transaction_state") == 0;
}

/* All that needs no lock. */
static enum error prepare(struct produce_part *part, struct problem *problem)
{
    struct request *r = part->produce->request;
    struct bytes records = {part->data->records.p, part->data->records.len};
    enum error error = check_transaction(r, records);
    if (error == OK && part->twice)
        error = problem_set(problem, INVALID_REQUEST, "the request names partition %d of a topic twice", part->data->index);
    if (error == OK && internal_topic(part->partition))
        error = problem_set(problem, INVALID_TOPIC_EXCEPTION, "topic %s is internal and takes no records from clients",
                            partition_topic(part->partition));
    if (error != OK)
        return error;
    struct validate_config config;
    struct validate_errors errors = {0};
    partition_get_validate_config(part->partition, &config);
    error = validate_records(records, r->version, VALIDATE_CLIENT, &config, clock_wall_ms(r->server->clock), &r->arena,
                             &part->validated, &errors, problem);
    if (error != OK)
        set_record_errors(part, &errors);
    return error;
}

static void tell_full_disk(struct server *server, struct problem *problem)
{
    char line[1000];
    problem_hint(problem, "Make room in the data folder; reads go on, and writes do as soon as there is room");
    int64_t now = clock_mono_ms(server->clock), last = atomic_load(&server->full_disk_logged_ms);
    if ((last == 0 || now - last >= FULL_DISK_LOG_INTERVAL_MS) &&
        atomic_compare_exchange_strong(&server->full_disk_logged_ms, &last, now))
        log_error("server", "records of a client could not be stored: %s", problem_line(problem, line, sizeof(line)));
}

static void all_appended(struct produce *p);

static void appended(struct queued_append *a)
{
    struct produce_part *part = CONTAINER_OF(a, struct produce_part, append);
    struct produce *p = part->produce;
    const struct plog_client_append *log = &a->append.log;
    validated_fini(&part->validated);
    if (log->error == OK) {
        STAT_ADD(records_bytes_appended, part->data->records.len);
        part->out->base_offset = log->appended.base_offset;
        part->out->log_append_time_ms = log->appended.log_append_time_ms;
        part->out->log_start_offset = log->appended.log_start_offset;
    } else {
        if (log->error == ERR_NO_SPACE)
            tell_full_disk(p->request->server, log->problem);
        set_error(part, log->error, log->problem);
    }
    if (log->error != OK || !a->append.waiting)
        atomic_fetch_sub(&p->waiting, 1);
    if (--p->queued == 0)
        all_appended(p);
}

static void append_part(struct produce_part *part)
{
    struct produce *p = part->produce;
    const struct produce_request *request = p->request->body;
    struct problem problem;
    problem_clear(&problem);
    enum error error = prepare(part, &problem);
    if (error != OK) {
        set_error(part, error, &problem);
        return;
    }
    p->queued++;
    p->bytes += part->data->records.len;
    atomic_fetch_add(&p->waiting, 1);
    part->waiter.done = durable;
    part->append = (struct queued_append){.partition = part->partition, .appended = appended};
    part->append.append.log.records = &part->validated;
    part->append.append.acks = request->acks;
    part->append.append.waiter = &part->waiter;
    append_queue_add(&p->request->worker->appends, &part->append);
}

/* ---- The request ---- */

static int by_partition(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)(*(struct produce_part *const *)left)->partition,
              b = (uintptr_t)(*(struct produce_part *const *)right)->partition;
    return (a > b) - (a < b);
}

/* Kafka drops one of the two with a success answer (facts 11); nobody is served by that. */
static void mark_twice(struct produce *p)
{
    if (p->count < 2)
        return;
    struct produce_part **sorted = request_calloc(p->request, (size_t)p->count, sizeof(struct produce_part *));
    for (int32_t i = 0; i < p->count; i++)
        sorted[i] = &p->parts[i];
    qsort(sorted, (size_t)p->count, sizeof(struct produce_part *), by_partition);
    for (int32_t i = 1; i < p->count; i++)
        if (sorted[i]->partition != NULL && sorted[i]->partition == sorted[i - 1]->partition)
            sorted[i]->twice = sorted[i - 1]->twice = true;
}

static bool lay_out(struct produce *p, const struct produce_request *request)
{
    struct request *r = p->request;
    int64_t count = 0;
    for (int32_t t = 0; t < request->topic_data_n; t++)
        count += MAX(request->topic_data[t].partition_data_n, 0);
    if (count > LIMIT_REQUEST_PARTITIONS)
        return false;
    p->count = (int32_t)count;
    p->parts = request_calloc(r, (size_t)p->count, sizeof(*p->parts));
    p->response.responses = produce_response_responses_new(&r->arena, MAX(request->topic_data_n, 0));
    p->response.responses_n = MAX(request->topic_data_n, 0);
    struct produce_part *part = p->parts;
    for (int32_t t = 0; t < request->topic_data_n; t++) {
        const struct produce_request_topic_data *topic = &request->topic_data[t];
        struct produce_response_responses *out = &p->response.responses[t];
        out->name = topic->name;
        out->topic_id = topic->topic_id;
        out->partition_responses_n = MAX(topic->partition_data_n, 0);
        out->partition_responses = produce_response_responses_partition_responses_new(&r->arena, out->partition_responses_n);
        for (int32_t i = 0; i < topic->partition_data_n; i++, part++) {
            part->produce = p;
            part->topic = topic;
            part->data = &topic->partition_data[i];
            part->out = &out->partition_responses[i];
            part->out->index = part->data->index;
        }
    }
    return true;
}

static void find_partition(struct produce_part *part)
{
    struct request *r = part->produce->request;
    enum error error = OK;
    part->partition = r->version >= 13
                          ? partitions_find_by_id(r->server->partitions, &part->topic->topic_id, part->data->index, &error)
                          : partitions_find(r->server->partitions, part->topic->name, part->data->index, &error);
    if (part->partition == NULL)
        set_error(part, error, NULL);
}

static void name_leader(struct produce *p)
{
    struct server *server = p->request->server;
    bool named = false;
    for (int32_t i = 0; i < p->count; i++)
        named = named || p->parts[i].out->current_leader.leader_id >= 0;
    if (!named)
        return;
    struct produce_response_node_endpoints *node = produce_response_node_endpoints_new(&p->request->arena, 1);
    node->node_id = server->node_id;
    node->host = str_of(server->advertised.host);
    node->port = server->advertised.port;
    p->response.node_endpoints = node;
    p->response.node_endpoints_n = 1;
}

/* What is durable already is answered; the rest waits, and lets the connection's next request in: its appends are done, in the order of the requests, and one
 * fdatasync then serves all that wait. */
static void all_appended(struct produce *p)
{
    struct request *r = p->request;
    const struct produce_request *request = r->body;
    name_leader(p);
    if (atomic_fetch_sub(&p->waiting, 1) == 1) {
        finish(p);
        return;
    }
    request_on_cancel(r, cancelled);
    loop_timer_start(r->loop, &p->timer, MAX(request->timeout_ms, 0), timed_out);
    for (int32_t t = 0; t < p->response.responses_n; t++)
        p->response.responses[t].name = arena_str(&r->arena, p->response.responses[t].name);
    if (r->cancelled)
        give_up(p, REQUEST_TIMED_OUT);
    else if (r->place != NULL)
        request_free_frame(r);
    else
        request_give_way(r);
}

void handle_produce(struct request *r)
{
    const struct produce_request *request = r->body;
    struct produce *p = request_alloc(r, sizeof(*p));
    r->state = p;
    p->request = r;
    p->wake.loop = r->loop;
    p->wake.task.run = all_durable;
    p->queued = 1;
    atomic_init(&p->waiting, 1);
    proto_init(&PROTO_PRODUCE_RESPONSE, &p->response);
    if (!lay_out(p, request)) {
        request_close(r, "the request names more partitions than a request may");
        return;
    }
    bool bad_acks = request->acks < -1 || request->acks > 1;
    for (int32_t i = 0; i < p->count && !bad_acks; i++)
        find_partition(&p->parts[i]);
    mark_twice(p);
    for (int32_t i = 0; i < p->count; i++) {
        if (bad_acks)
            set_error(&p->parts[i], INVALID_REQUIRED_ACKS, NULL);
        else if (p->parts[i].partition != NULL)
            append_part(&p->parts[i]);
    }
    if (p->queued > 1 && (p->bytes > TOGETHER_BYTES || !request_give_way_with_frame(r)))
        append_queue_flush(&r->worker->appends);
    if (--p->queued == 0)
        all_appended(p);
}
