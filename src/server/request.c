/* The life of a request. Each loop keeps some that ended, to be used again: a connection that asks for nothing has none. The connection's own state dies with
 * the connection, or with the last request when that ends later. */
#include "server/request.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/logger.h"
#include "net/conn.h"
#include "server/handlers.h"
#include "server/server.h"
#include "server/worker.h"

/* What a request that gives way may hold. */
#define GIVE_WAY_ARENA_BYTES (64 * 1024)
/* What one that waits to be used again holds. */
#define SPARE_ARENA_BYTES (16 * 1024)

struct client {
    TAILQ_HEAD(, request) requests; /* in flight */
    struct worker *worker;
    bool closed;
};

void request_free(struct request *r)
{
    arena_fini(&r->arena);
    mem_free(r);
}

void request_conn_opened(void *arg, struct conn *conn)
{
    struct client *c = mem_calloc(1, sizeof(*c));
    TAILQ_INIT(&c->requests);
    c->worker = worker_of(arg, conn_loop(conn));
    conn_set_data(conn, c);
}

struct request *request_begin(struct server *server, struct conn *conn)
{
    struct client *c = conn_data(conn);
    struct worker *w = c->worker;
    struct request *r;
    if (w->spare_count > 0) {
        r = w->spares[--w->spare_count];
    } else {
        r = mem_calloc(1, sizeof(*r));
        r->server = server;
        r->worker = w;
        r->loop = conn_loop(conn);
        arena_init(&r->arena, LIMIT_DECODE_ARENA_BYTES);
    }
    r->conn = conn;
    r->client = c;
    r->peer = str_of(conn_peer(conn));
    r->api = NULL;
    r->version = -1;
    r->client_id = STR_NULL;
    TAILQ_INSERT_TAIL(&c->requests, r, link);
    atomic_fetch_add(&server->requests_in_flight, 1);
    return r;
}

void request_conn_closed(void *arg, struct conn *conn, enum error why)
{
    struct client *c = conn_data(conn);
    struct request *r;
    if (why != ERR_CLOSED && why != ERR_CANCELLED)
        log_info("server", "connection ended peer=%s why=%s", conn_peer(conn), error_name(why));
    c->closed = true;
    if (TAILQ_EMPTY(&c->requests)) {
        mem_free(c);
        return;
    }
    TAILQ_FOREACH (r, &c->requests, link)
        r->cancelled = true;
    /* A hook may end its request, and with the last one the client: count ahead. */
    struct request *waiting[CONN_WAITING_MAX + 1];
    int count = 0;
    TAILQ_FOREACH (r, &c->requests, link)
        if (r->on_cancel != NULL)
            waiting[count++] = r;
    for (int i = 0; i < count; i++) {
        void (*hook)(struct request *) = waiting[i]->on_cancel;
        waiting[i]->on_cancel = NULL;
        hook(waiting[i]);
    }
}

/* ---- The end ---- */

/* What is left to be told of the end. */
struct ended {
    struct conn *conn;
    struct conn_place *place;
};

static struct ended end(struct request *r)
{
    ASSERT(loop_is_current(r->loop));
    struct client *c = r->client;
    struct ended ended = {r->conn, r->place};
    TAILQ_REMOVE(&c->requests, r, link);
    atomic_fetch_sub(&r->server->requests_in_flight, 1);
    struct worker *w = c->worker;
    if (c->closed && TAILQ_EMPTY(&c->requests))
        mem_free(c);
    if (w->spare_count == WORKER_SPARES) {
        request_free(r);
        return ended;
    }
    r->place = NULL;
    r->on_cancel = NULL;
    r->body = NULL;
    r->state = NULL;
    r->cancelled = false;
    arena_reset(&r->arena);
    if (r->arena.end - r->arena.next > SPARE_ARENA_BYTES)
        arena_fini(&r->arena);
    r->arena.limit_bytes = LIMIT_DECODE_ARENA_BYTES;
    w->spares[w->spare_count++] = r;
    return ended;
}

void request_give_way(struct request *r)
{
    if (r->cancelled || r->arena.used_bytes > GIVE_WAY_ARENA_BYTES)
        return;
    r->place = conn_give_way(r->conn);
    if (r->place != NULL)
        r->client_id = STR_NULL; /* it stood in the frame */
}

bool request_give_way_with_frame(struct request *r)
{
    if (r->cancelled || r->arena.used_bytes > GIVE_WAY_ARENA_BYTES)
        return false;
    r->place = conn_give_way_with_frame(r->conn);
    return r->place != NULL;
}

void request_free_frame(struct request *r)
{
    r->client_id = STR_NULL; /* it stood in the frame */
    conn_place_free_frame(r->place);
}

static void refuse(struct ended ended)
{
    if (ended.place != NULL)
        conn_place_refuse(ended.place);
    else
        conn_refuse(ended.conn);
}

void request_respond(struct request *r, const void *response)
{
    struct chain answer;
    chain_init(&answer);
    enum error error = r->cancelled ? OK : proto_encode_response(r->api, r->version, r->correlation_id, response, &answer);
    if (error != OK)
        log_error("server", "an answer could not be encoded api=%s version=%d error=%s", r->api->name, r->version,
                  error_name(error));
    bool cancelled = r->cancelled;
    struct ended ended = end(r);
    if (error != OK || cancelled)
        refuse(ended);
    else if (ended.place != NULL)
        conn_place_reply(ended.place, &answer);
    else
        conn_reply(ended.conn, &answer);
    chain_fini(&answer);
}

void request_close(struct request *r, const char *reason)
{
    log_info("server", "connection is closed: %s peer=%.*s api=%s version=%d client=%.*s", reason, STR_ARG(r->peer),
             r->api != NULL ? r->api->name : "?", r->version, STR_ARG(r->client_id));
    refuse(end(r));
}

void request_no_response(struct request *r)
{
    struct ended ended = end(r);
    struct chain nothing;
    chain_init(&nothing);
    if (ended.place != NULL)
        conn_place_reply(ended.place, &nothing);
    else
        conn_no_reply(ended.conn);
}

/* ---- What handlers use meanwhile ---- */

static void job_work(struct helper_job *job)
{
    struct request *r = CONTAINER_OF(job, struct request, job);
    r->work(r);
}

static void job_done(struct helper_job *job)
{
    struct request *r = CONTAINER_OF(job, struct request, job);
    r->done(r);
}

void request_run(struct request *r, void (*work)(struct request *r), void (*done)(struct request *r))
{
    r->work = work;
    r->done = done;
    r->job.work = job_work;
    r->job.done = job_done;
    r->job.loop = r->loop;
    helpers_submit(r->server->helpers, &r->job);
}

void request_on_cancel(struct request *r, void (*hook)(struct request *r))
{
    r->on_cancel = hook;
}

void *request_alloc(struct request *r, size_t size)
{
    return request_calloc(r, 1, size);
}

void *request_calloc(struct request *r, size_t count, size_t size)
{
    void *p = arena_calloc(&r->arena, count, size);
    ASSERT(p != NULL);
    return p;
}

struct str request_problem_text(struct request *r, const struct problem *problem)
{
    char line[1000];
    return arena_str(&r->arena, str_of(problem_line(problem, line, sizeof(line))));
}
