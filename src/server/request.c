/* The life of a request. Each connection keeps one struct request, used again and again; further ones are made when it is in use (they gave way) and go when
 * they end. The connection's own state dies with the connection, or with the last request when that ends later. */
#include "server/request.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/logger.h"
#include "net/conn.h"
#include "server/handlers.h"
#include "server/server.h"

/* An idle connection keeps no more than an arena's first block from its largest request; a request that gives way may hold so much. */
#define GIVE_WAY_ARENA_BYTES (64 * 1024)

struct client {
    TAILQ_HEAD(, request) requests; /* in flight */
    struct request *spare;
    bool closed;
};

static void request_free(struct request *r)
{
    if (r == NULL)
        return;
    arena_fini(&r->arena);
    mem_free(r);
}

static void client_free(struct client *c)
{
    request_free(c->spare);
    mem_free(c);
}

void request_conn_opened(void *arg, struct conn *conn)
{
    struct client *c = mem_calloc(1, sizeof(*c));
    TAILQ_INIT(&c->requests);
    conn_set_data(conn, c);
}

struct request *request_begin(struct server *server, struct conn *conn)
{
    struct client *c = conn_data(conn);
    struct request *r = c->spare;
    c->spare = NULL;
    if (r == NULL) {
        r = mem_calloc(1, sizeof(*r));
        r->server = server;
        r->loop = conn_loop(conn);
        r->conn = conn;
        r->client = c;
        r->peer = str_of(conn_peer(conn));
        arena_init(&r->arena, LIMIT_DECODE_ARENA_BYTES);
    }
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
        client_free(c);
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
    if (c->closed || c->spare != NULL) {
        request_free(r);
        if (c->closed && TAILQ_EMPTY(&c->requests))
            client_free(c);
        return ended;
    }
    r->place = NULL;
    r->on_cancel = NULL;
    r->body = NULL;
    r->state = NULL;
    arena_reset(&r->arena);
    r->arena.limit_bytes = LIMIT_DECODE_ARENA_BYTES;
    c->spare = r;
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
    ASSERT(r->place == NULL);
    conn_no_reply(end(r).conn);
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
