/* The life of a request. Each connection has one struct request, used again and again: one request is in flight per connection. It dies with the connection, or
 * with the last request when that ends later. */
#include "server/request.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/logger.h"
#include "net/conn.h"
#include "server/handlers.h"
#include "server/server.h"

/* An idle connection keeps no more than this from its largest request. */
#define KEEP_ARENA_BYTES (128 * 1024)

void request_conn_opened(void *arg, struct conn *conn)
{
    struct request *r = mem_calloc(1, sizeof(*r));
    r->server = arg;
    r->loop = conn_loop(conn);
    r->conn = conn;
    r->peer = str_of(conn_peer(conn));
    arena_init(&r->arena, LIMIT_DECODE_ARENA_BYTES);
    conn_set_data(conn, r);
}

static void request_free(struct request *r)
{
    arena_fini(&r->arena);
    mem_free(r);
}

void request_conn_closed(void *arg, struct conn *conn, enum error why)
{
    struct request *r = conn_data(conn);
    if (why != ERR_CLOSED && why != ERR_CANCELLED)
        log_info("server", "connection ended peer=%.*s why=%s", STR_ARG(r->peer), error_name(why));
    r->closed = true;
    if (!r->in_flight) {
        request_free(r);
        return;
    }
    r->cancelled = true;
    if (r->on_cancel != NULL) {
        void (*hook)(struct request *) = r->on_cancel;
        r->on_cancel = NULL;
        hook(r);
    }
}

/* ---- The end ---- */

static struct conn *end(struct request *r)
{
    ASSERT(r->in_flight && loop_is_current(r->loop));
    struct conn *conn = r->conn;
    r->in_flight = false;
    r->on_cancel = NULL;
    r->body = NULL;
    r->state = NULL;
    atomic_fetch_sub(&r->server->requests_in_flight, 1);
    if (r->closed)
        request_free(r);
    else if (r->arena.used_bytes > KEEP_ARENA_BYTES) {
        arena_fini(&r->arena);
        arena_init(&r->arena, LIMIT_DECODE_ARENA_BYTES);
    } else {
        arena_reset(&r->arena);
        r->arena.limit_bytes = LIMIT_DECODE_ARENA_BYTES;
    }
    return conn;
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
    struct conn *conn = end(r);
    if (error != OK || cancelled)
        conn_refuse(conn);
    else
        conn_reply(conn, &answer);
    chain_fini(&answer);
}

void request_close(struct request *r, const char *reason)
{
    log_info("server", "connection is closed: %s peer=%.*s api=%s version=%d client=%.*s", reason, STR_ARG(r->peer),
             r->api != NULL ? r->api->name : "?", r->version, STR_ARG(r->client_id));
    conn_refuse(end(r));
}

void request_no_response(struct request *r)
{
    conn_no_reply(end(r));
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
