/* A connection goes round READING, HANDLING, WRITING. Two references keep it: one while it is open, one while a request is in
 * flight; an answer for a connection that has ended finds its memory in place, is dropped, and gives up the last of them.
 *
 * Epoll is told as little as possible: the watch stays on "readable" while a request is handled, and is changed only when the
 * peer really sends ahead or an answer does not fit into the socket. */
#include "net/conn.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/assert.h"
#include "base/stats.h"
#include "net/frame.h"
#include "os/socket.h"

/* Requests of one connection that are answered at once without looking at the others of the loop. */
#define REQUESTS_PER_TURN 32
/* Bytes of an answer that are written at once. */
#define BYTES_PER_TURN (1024 * 1024)

enum conn_state { CONN_READING, CONN_HANDLING, CONN_WRITING };

struct conn {
    atomic_int refs;
    struct conn_pool *pool;      /* a reference */
    struct transport *transport; /* NULL: ended */
    struct loop_fd watch;
    TAILQ_ENTRY(conn) link; /* in the pool, longest idle first */
    int64_t active_ms;
    enum conn_state state;
    bool driving;   /* drive() is on the stack */
    bool resuming;  /* resume is in the mailbox */
    uint8_t *frame; /* of the request in flight */
    struct frame_reader reader;
    struct chain out;
    struct chain posted; /* answer on its way through the mailbox */
    struct loop_task reply, resume;
    void (*released)(void *arg, const char *peer);
    void *released_arg;
    void *data;
    char peer[CONN_PEER_MAX];
};

_Static_assert(sizeof(struct conn) <= 768, "an idle connection costs less than a KiB");

struct conn_pool {
    atomic_int refs;
    struct loop *loop;
    struct conn_limits limits;
    struct conn_events events;
    void *arg;
    TAILQ_HEAD(, conn) conns;
    int count;
    bool closing;
    struct loop_timer idle_timer;
    uint8_t scratch[FRAME_SCRATCH_BYTES];
};

static void end_conn(struct conn *conn, enum error why);
static void drive(struct conn *conn);

/* ---- pool ---- */

struct conn_pool *conn_pool_create(struct loop *loop, const struct conn_limits *limits, const struct conn_events *events,
                                   void *arg)
{
    struct conn_pool *pool = mem_alloc(sizeof(*pool));
    memset(pool, 0, offsetof(struct conn_pool, scratch));
    pool->refs = 1;
    pool->loop = loop;
    pool->limits = *limits;
    pool->events = *events;
    pool->arg = arg;
    TAILQ_INIT(&pool->conns);
    return pool;
}

void conn_pool_unref(struct conn_pool *pool)
{
    if (pool != NULL && atomic_fetch_sub(&pool->refs, 1) == 1) {
        ASSERT(pool->count == 0);
        mem_free(pool);
    }
}

void conn_pool_close_all(struct conn_pool *pool)
{
    ASSERT(loop_is_current(pool->loop));
    pool->closing = true;
    while (!TAILQ_EMPTY(&pool->conns))
        end_conn(TAILQ_FIRST(&pool->conns), ERR_CANCELLED);
}

int conn_pool_count(const struct conn_pool *pool)
{
    return pool->count;
}

static int64_t now_ms(const struct conn_pool *pool)
{
    return loop_now_ns(pool->loop) / 1000000;
}

static void close_idle(struct loop_timer *timer);

static void start_idle_timer(struct conn_pool *pool)
{
    const struct conn *first = TAILQ_FIRST(&pool->conns);
    if (first == NULL || pool->limits.idle_max_ms <= 0)
        loop_timer_stop(&pool->idle_timer);
    else
        loop_timer_start(pool->loop, &pool->idle_timer, first->active_ms + pool->limits.idle_max_ms - now_ms(pool), close_idle);
}

static void touch(struct conn *conn)
{
    conn->active_ms = now_ms(conn->pool);
    TAILQ_REMOVE(&conn->pool->conns, conn, link);
    TAILQ_INSERT_TAIL(&conn->pool->conns, conn, link);
}

static void close_idle(struct loop_timer *timer)
{
    struct conn_pool *pool = CONTAINER_OF(timer, struct conn_pool, idle_timer);
    struct conn *first;
    while ((first = TAILQ_FIRST(&pool->conns)) != NULL && first->active_ms + pool->limits.idle_max_ms <= now_ms(pool)) {
        if (first->state == CONN_HANDLING)
            touch(first); /* the peer waits for us */
        else
            end_conn(first, ERR_TIMED_OUT);
    }
    start_idle_timer(pool);
}

/* ---- life ---- */

struct conn *conn_ref(struct conn *conn)
{
    atomic_fetch_add_explicit(&conn->refs, 1, memory_order_relaxed);
    return conn;
}

void conn_unref(struct conn *conn)
{
    if (conn == NULL || atomic_fetch_sub(&conn->refs, 1) != 1)
        return;
    ASSERT(conn->transport == NULL && conn->frame == NULL);
    conn_pool_unref(conn->pool);
    mem_free(conn);
}

static void on_ready(struct loop_fd *w, int events);

enum error conn_open(struct conn_pool *pool, struct transport *transport, const char *peer,
                     void (*released)(void *arg, const char *peer), void *released_arg)
{
    ASSERT(loop_is_current(pool->loop));
    if (pool->closing) {
        transport_close(transport);
        return ERR_STATE;
    }
    struct conn *conn = mem_calloc(1, sizeof(*conn));
    enum error e = loop_fd_start(pool->loop, &conn->watch, transport->fd, transport->ops->wants(transport, LOOP_READ), on_ready);
    if (e != OK) {
        transport_close(transport);
        mem_free(conn);
        return ERR_IO;
    }
    conn->refs = 1;
    atomic_fetch_add(&pool->refs, 1);
    conn->pool = pool;
    conn->transport = transport;
    conn->active_ms = now_ms(pool);
    frame_reader_init(&conn->reader, pool->limits.request_max_bytes);
    chain_init(&conn->out);
    chain_init(&conn->posted);
    conn->released = released;
    conn->released_arg = released_arg;
    snprintf(conn->peer, sizeof(conn->peer), "%s", peer);
    TAILQ_INSERT_TAIL(&pool->conns, conn, link);
    pool->count++;
    if (!loop_timer_running(&pool->idle_timer))
        start_idle_timer(pool);
    STAT_ADD(connections_accepted, 1);
    if (pool->events.opened != NULL)
        pool->events.opened(pool->arg, conn);
    return OK;
}

static void free_frame(struct conn *conn)
{
    mem_free(conn->frame);
    conn->frame = NULL;
}

static void end_conn(struct conn *conn, enum error why)
{
    struct conn_pool *pool = conn->pool;
    if (conn->transport == NULL)
        return;
    loop_fd_stop(&conn->watch);
    transport_close(conn->transport);
    conn->transport = NULL;
    frame_reader_fini(&conn->reader);
    chain_fini(&conn->out);
    TAILQ_REMOVE(&pool->conns, conn, link);
    if (--pool->count == 0)
        loop_timer_stop(&pool->idle_timer);
    bool writing = conn->state == CONN_WRITING;
    if (writing) { /* the request was ended by its handler: its reference is ours to give up */
        free_frame(conn);
        conn->state = CONN_READING;
    }
    if (pool->events.closed != NULL)
        pool->events.closed(pool->arg, conn, why);
    if (conn->released != NULL)
        conn->released(conn->released_arg, conn->peer);
    if (writing)
        conn_unref(conn);
    conn_unref(conn);
}

void conn_close(struct conn *conn)
{
    ASSERT(loop_is_current(conn->pool->loop));
    end_conn(conn, ERR_CANCELLED);
}

/* ---- requests ---- */

static void watch_for(struct conn *conn, int events)
{
    if (conn->transport == NULL)
        return;
    if (loop_fd_change(&conn->watch, events != 0 ? conn->transport->ops->wants(conn->transport, events) : 0) != OK)
        end_conn(conn, ERR_IO);
}

/* The answer is written, or there is none: the next request may come. */
static void finish_request(struct conn *conn)
{
    free_frame(conn);
    conn->state = CONN_READING;
    watch_for(conn, LOOP_READ);
    if (!conn->driving)
        drive(conn);
    conn_unref(conn);
}

static void flush(struct conn *conn)
{
    size_t written;
    enum error e = transport_write_chain(conn->transport, &conn->out, BYTES_PER_TURN, &written);
    STAT_ADD(bytes_out, (int64_t)written);
    if (written > 0)
        touch(conn);
    if (e == OK)
        finish_request(conn);
    else if (e == ERR_NOT_FOUND)
        watch_for(conn, LOOP_WRITE);
    else
        end_conn(conn, e);
}

static void start_request(struct conn *conn, uint8_t *frame, size_t len)
{
    conn_ref(conn);
    conn->state = CONN_HANDLING;
    conn->frame = frame;
    conn->pool->events.request(conn->pool->arg, conn, frame, len);
}

static void resume(struct loop_task *task)
{
    struct conn *conn = CONTAINER_OF(task, struct conn, resume);
    conn->resuming = false;
    drive(conn);
    conn_unref(conn);
}

/* Frames that came already lie in the reader, where epoll does not see them. */
static void post_resume(struct conn *conn)
{
    if (conn->resuming)
        return;
    conn->resuming = true;
    conn->resume.run = resume;
    conn_ref(conn);
    loop_post(conn->pool->loop, &conn->resume);
}

/* Reads and hands over requests while they come and are answered at once. A loop and no recursion: an answer given inside the
 * callback only changes the state. */
static void drive(struct conn *conn)
{
    if (conn->driving)
        return;
    conn_ref(conn);
    conn->driving = true;
    for (int turns = 0; conn->transport != NULL && conn->state == CONN_READING; turns++) {
        if (turns == REQUESTS_PER_TURN) {
            post_resume(conn);
            break;
        }
        uint8_t *frame;
        size_t len, got;
        enum error e = frame_reader_next(&conn->reader, conn->transport, conn->pool->scratch, &frame, &len, &got);
        STAT_ADD(bytes_in, (int64_t)got);
        if (got > 0)
            touch(conn);
        if (e == ERR_NOT_FOUND)
            break;
        if (e == OK)
            start_request(conn, frame, len);
        else
            end_conn(conn, e);
    }
    conn->driving = false;
    conn_unref(conn);
}

static void on_ready(struct loop_fd *w, int events)
{
    struct conn *conn = CONTAINER_OF(w, struct conn, watch);
    switch (conn->state) {
    case CONN_READING:
        drive(conn);
        break;
    case CONN_WRITING:
        flush(conn);
        break;
    case CONN_HANDLING:
        if ((events & LOOP_ERROR) != 0)
            end_conn(conn, ERR_CLOSED); /* reset: nobody is there to read the answer */
        else
            watch_for(conn, 0);
        break;
    }
}

static void end_request_of_closed(struct conn *conn)
{
    free_frame(conn);
    conn->state = CONN_READING;
    conn_unref(conn);
}

void conn_reply(struct conn *conn, struct chain *answer)
{
    ASSERT(loop_is_current(conn->pool->loop) && conn->state == CONN_HANDLING);
    if (conn->transport == NULL) {
        chain_fini(answer);
        end_request_of_closed(conn);
        return;
    }
    chain_splice(&conn->out, answer);
    conn->state = CONN_WRITING;
    flush(conn);
}

static void reply_from_mailbox(struct loop_task *task)
{
    struct conn *conn = CONTAINER_OF(task, struct conn, reply);
    struct chain answer;
    chain_init(&answer);
    chain_splice(&answer, &conn->posted);
    conn_reply(conn, &answer);
}

void conn_reply_post(struct conn *conn, struct chain *answer)
{
    chain_splice(&conn->posted, answer);
    conn->reply.run = reply_from_mailbox;
    loop_post(conn->pool->loop, &conn->reply);
}

void conn_no_reply(struct conn *conn)
{
    ASSERT(loop_is_current(conn->pool->loop) && conn->state == CONN_HANDLING);
    if (conn->transport == NULL)
        end_request_of_closed(conn);
    else
        finish_request(conn);
}

void conn_refuse(struct conn *conn)
{
    ASSERT(loop_is_current(conn->pool->loop) && conn->state == CONN_HANDLING);
    end_conn(conn, ERR_CANCELLED);
    end_request_of_closed(conn);
}

void conn_free_frame(struct conn *conn)
{
    ASSERT(conn->state == CONN_HANDLING);
    free_frame(conn);
}

/* ---- what is known of it ---- */

struct loop *conn_loop(const struct conn *conn)
{
    return conn->pool->loop;
}
const char *conn_peer(const struct conn *conn)
{
    return conn->peer;
}
bool conn_is_closed(const struct conn *conn)
{
    return conn->transport == NULL;
}
void conn_set_data(struct conn *conn, void *data)
{
    conn->data = data;
}
void *conn_data(const struct conn *conn)
{
    return conn->data;
}

char *conn_local_ip(const struct conn *conn, char *out, size_t size)
{
    char text[SOCKET_TEXT_MAX] = "";
    if (conn->transport != NULL)
        socket_local_ip(conn->transport->fd, text);
    snprintf(out, size, "%s", text);
    return out;
}
