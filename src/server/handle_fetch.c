/* Fetch, with incremental sessions and long polls (repl/fetch_session.h has the rules of both). Records leave by sendfile: the answer is a chain of slices of
 * segments. */
#include "base/assert.h"
#include "repl/fetch_session.h"
#include "server/handlers.h"
#include "server/server.h"

/* A slice up to this size is copied into the answer, until the answer holds so much: header and records then leave by one call, where sendfile needs
 * two and costs more than the copy. */
#define COPIED_SLICE_BYTES (16 * 1024)
#define COPIED_ANSWER_BYTES (64 * 1024)

struct fetch_call {
    struct request *request;
    struct fetch fetch;
    size_t copied_bytes;
    struct loop_timer timer;
    bool ended_early; /* time is over or the client is gone while the wake is on its way */
};

/* Records for the answer; an error of the disk becomes the partition's. */
static void put_records(struct fetch_call *call, struct fetch_partition *fp, struct fetch_response_responses_partitions *out)
{
    out->records = (struct records){.p = (const uint8_t *)"", .len = 0};
    if (fp->read.slice.segment == NULL)
        return;
    struct plog_slice slice = fp->read.slice;
    fp->read.slice.segment = NULL; /* moved; its length stays for the session */
    struct chain *chain = request_alloc(call->request, sizeof(*chain));
    chain_init(chain);
    bool copy = slice.len <= MIN((size_t)COPIED_SLICE_BYTES, COPIED_ANSWER_BYTES - call->copied_bytes);
    call->copied_bytes += copy ? slice.len : 0;
    if (plog_slice_to_chain(&slice, copy ? slice.len : 0, chain) == OK)
        out->records = (struct records){.chain = chain};
    else {
        chain_fini(chain);
        plog_slice_release(&slice);
        out->error_code = KAFKA_STORAGE_ERROR;
    }
}

static void put_aborted(struct fetch_call *call, const struct fetch_partition *fp,
                        struct fetch_response_responses_partitions *out)
{
    out->aborted_transactions_n = fp->read.aborted_n;
    if (fp->read.aborted_n <= 0)
        return;
    out->aborted_transactions =
        fetch_response_responses_partitions_aborted_transactions_new(&call->request->arena, fp->read.aborted_n);
    for (int i = 0; i < fp->read.aborted_n; i++) {
        out->aborted_transactions[i].producer_id = fp->read.aborted[i].producer_id;
        out->aborted_transactions[i].first_offset = fp->read.aborted[i].first_offset;
    }
}

static void put_partition(struct fetch_call *call, struct fetch_partition *fp, struct fetch_response_responses_partitions *out,
                          struct fetch_response *response)
{
    struct request *r = call->request;
    out->partition_index = fp->index;
    out->error_code = error_wire(fp->error);
    out->high_watermark = fp->read.high_watermark;
    out->last_stable_offset = fp->read.last_stable_offset;
    out->log_start_offset = fp->read.log_start_offset;
    if (fp->read.diverging_epoch >= 0) {
        out->diverging_epoch.epoch = fp->read.diverging_epoch;
        out->diverging_epoch.end_offset = fp->read.diverging_end_offset;
    }
    put_aborted(call, fp, out);
    put_records(call, fp, out);
    if (r->version >= 16 && (out->error_code == NOT_LEADER_OR_FOLLOWER || out->error_code == FENCED_LEADER_EPOCH)) {
        out->current_leader.leader_id = r->server->node_id;
        out->current_leader.leader_epoch = fp->read.leader_epoch;
        response->node_endpoints_n = 1;
    }
}

static bool same_topic(const struct fetch *f, const struct fetch_partition *a, const struct fetch_partition *b)
{
    return f->topic_ids ? uuid_eq(&a->topic_id, &b->topic_id) : str_eq(a->topic, b->topic);
}

/* Neighbours of one topic share an entry, as Kafka groups them. */
static void put_topics(struct fetch_call *call, struct fetch_response *response)
{
    struct fetch *f = &call->fetch;
    struct arena *arena = &call->request->arena;
    struct fetch_partition *fp, *before = NULL;
    int32_t topics = 0, partitions = 0;
    for (fp = fetch_next(f, NULL); fp != NULL; before = fp, fp = fetch_next(f, fp), partitions++)
        topics += before == NULL || !same_topic(f, before, fp);
    response->responses = fetch_response_responses_new(arena, topics);
    response->responses_n = topics;
    struct fetch_response_responses_partitions *out = fetch_response_responses_partitions_new(arena, partitions);
    struct fetch_response_responses *topic = response->responses - 1;
    before = NULL;
    for (fp = fetch_next(f, NULL); fp != NULL; before = fp, fp = fetch_next(f, fp), out++) {
        if (before == NULL || !same_topic(f, before, fp)) {
            topic++;
            topic->topic = f->session != NULL ? arena_str(arena, fp->topic) : fp->topic; /* the session may end before us */
            topic->topic_id = fp->topic_id;
            topic->partitions = out;
        }
        topic->partitions_n++;
        put_partition(call, fp, out, response);
    }
}

static void answer(struct fetch_call *call)
{
    struct request *r = call->request;
    struct fetch_response response;
    loop_timer_stop(&call->timer);
    proto_init(&PROTO_FETCH_RESPONSE, &response);
    if (!r->cancelled) {
        fetch_admit(&call->fetch);
        response.session_id = call->fetch.session_id;
        put_topics(call, &response);
        if (response.node_endpoints_n > 0) {
            response.node_endpoints = fetch_response_node_endpoints_new(&r->arena, 1);
            response.node_endpoints->node_id = r->server->node_id;
            response.node_endpoints->host = str_of(r->server->advertised.host);
            response.node_endpoints->port = r->server->advertised.port;
        }
    }
    fetch_end(&call->fetch);
    request_respond(r, &response);
}

/* ---- Waiting ---- */

static void run(struct fetch_call *call);

static void woken(struct loop_task *task)
{
    struct fetch_poll *poll = fetch_poll_of(task);
    run(poll->owner);
}

static void end_early(struct fetch_call *call)
{
    call->ended_early = true;
    if (fetch_disarm(&call->fetch))
        run(call); /* else the wake that is on its way ends it */
}

static void timed_out(struct loop_timer *t)
{
    end_early(CONTAINER_OF(t, struct fetch_call, timer));
}
static void cancelled(struct request *r)
{
    end_early(r->state);
}

static void run(struct fetch_call *call)
{
    struct request *r = call->request;
    for (;;) {
        bool enough = fetch_read(&call->fetch);
        if (enough || call->ended_early) {
            answer(call);
            return;
        }
        if (fetch_arm(&call->fetch, r->loop, woken, call))
            return;
    }
}

/* Before version 7 an answer has no place for an error of the whole request. */
static void refuse(struct request *r, enum error error)
{
    if (r->version < 7) {
        request_close(r, error_message(error));
        return;
    }
    struct fetch_response response;
    proto_init(&PROTO_FETCH_RESPONSE, &response);
    response.error_code = error_wire(error);
    request_respond(r, &response);
}

void handle_fetch(struct request *r)
{
    const struct fetch_request *request = r->body;
    int32_t replica = r->version >= 15 ? request->replica_state.replica_id : request->replica_id;
    if (replica >= 0) { /* one broker: nobody follows it */
        refuse(r, INVALID_REQUEST);
        return;
    }
    struct fetch_call *call = request_alloc(r, sizeof(*call));
    call->request = r;
    r->state = call;
    size_t max_bytes = MIN((size_t)MAX(request->max_bytes, 0), r->server->fetch_max_bytes);
    enum error error = fetch_begin(r->server->sessions, request, r->version, max_bytes, &r->arena, &call->fetch);
    if (error != OK) {
        refuse(r, error);
        return;
    }
    call->ended_early = request->max_wait_ms <= 0;
    if (!call->ended_early) {
        request_on_cancel(r, cancelled);
        loop_timer_start(r->loop, &call->timer, request->max_wait_ms, timed_out);
    }
    run(call);
}
