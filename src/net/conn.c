/* A connection goes round READING, HANDLING, ANSWERED. References keep it: one while it is open, one for each request in flight;
 * an answer for a connection that has ended finds its memory in place, is dropped, and gives up the last of them.
 *
 * A request that gave way has a place in a queue. What is answered behind it waits: answers in their places, that of the request
 * in hand in `held` (and with it the reading). Bytes leave by `out` alone; while it is not empty nothing is read, so a peer
 * that doesn't take its answers gets no further requests in.
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
/* Answers that are collected, while further requests lie there already, before they are written. */
#define CORK_BYTES (16 * 1024)

enum conn_state { CONN_READING, CONN_HANDLING, CONN_ANSWERED };

struct conn_place {
    TAILQ_ENTRY(conn_place) link;
    struct conn *conn; /* a reference */
    bool answered;
    uint8_t *frame; /* NULL: given up */
    struct chain answer;
};

/* The front of `out` on its way from the disk. The file stays open as long as its piece is there. */
struct conn_load {
    struct helper_job job; /* first */
    struct conn *conn;     /* a reference */
    int fd;
    uint64_t pos;
    size_t len;
    struct chain kept; /* what was to be written when the connection ended meanwhile */
};

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
    bool readable;  /* epoll said so, and it was not read empty since */
    bool corked;    /* what `out` holds was not tried to write yet: drive() does, when it has no further request */
    uint8_t *frame; /* of the request in flight */
    struct frame_reader reader;
    TAILQ_HEAD(, conn_place) places; /* of requests that gave way, oldest first */
    int place_count;
    struct chain out;
    struct conn_load *load; /* nothing is written before it ends */
    bool loaded;            /* the front of `out` was loaded just now */
    struct chain held;      /* answer that goes out behind all places; or the one on its way through the mailbox */
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
static void advance(struct conn *conn);

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
        if (first->state == CONN_HANDLING || first->place_count > 0)
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
    chain_init(&conn->held);
    TAILQ_INIT(&conn->places);
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

static void end_place(struct conn_place *place)
{
    struct conn *conn = place->conn;
    TAILQ_REMOVE(&conn->places, place, link);
    conn->place_count--;
    chain_fini(&place->answer);
    mem_free(place->frame);
    mem_free(place);
    conn_unref(conn);
}

/* Of an ended connection, which the caller holds. Places that wait for their answer end with it. */
static void drop_answered_places(struct conn *conn)
{
    struct conn_place *place, *next;
    for (place = TAILQ_FIRST(&conn->places); place != NULL; place = next) {
        next = TAILQ_NEXT(place, link);
        if (place->answered)
            end_place(place);
    }
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
    if (conn->load != NULL)
        chain_splice(&conn->load->kept, &conn->out);
    chain_fini(&conn->out);
    TAILQ_REMOVE(&pool->conns, conn, link);
    if (--pool->count == 0)
        loop_timer_stop(&pool->idle_timer);
    drop_answered_places(conn);
    bool answered = conn->state == CONN_ANSWERED;
    if (answered) { /* the request was ended by its handler: its reference is ours to give up */
        chain_fini(&conn->held);
        free_frame(conn);
        conn->state = CONN_READING;
    }
    if (pool->events.closed != NULL)
        pool->events.closed(pool->arg, conn, why);
    if (conn->released != NULL)
        conn->released(conn->released_arg, conn->peer);
    if (answered)
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

/* All that is due is written: the next request may come. */
static void finish_request(struct conn *conn)
{
    free_frame(conn);
    conn->state = CONN_READING;
    conn_unref(conn);
}

/* Moves the answers whose turn it is to `out`. */
static void collect_answers(struct conn *conn)
{
    struct conn_place *place;
    while ((place = TAILQ_FIRST(&conn->places)) != NULL && place->answered) {
        chain_splice(&conn->out, &place->answer);
        end_place(place);
    }
    if (place == NULL && conn->state == CONN_ANSWERED)
        chain_splice(&conn->out, &conn->held);
}

static void load_work(struct helper_job *job)
{
    struct conn_load *l = (struct conn_load *)job;
    l->conn->pool->limits.disk.load(l->fd, l->pos, l->len);
}

static void load_done(struct helper_job *job)
{
    struct conn_load *l = (struct conn_load *)job;
    struct conn *conn = l->conn;
    conn->load = NULL;
    conn->loaded = true;
    chain_fini(&l->kept);
    mem_free(l);
    advance(conn);
    conn_unref(conn);
}

static void start_load(struct conn *conn, size_t len)
{
    const struct chain_piece *front = TAILQ_FIRST(&conn->out.pieces);
    struct conn_load *l = mem_calloc(1, sizeof(*l));
    *l = (struct conn_load){.job = {.work = load_work, .done = load_done, .loop = conn->pool->loop},
                            .conn = conn_ref(conn),
                            .fd = front->fd,
                            .pos = front->pos,
                            .len = len};
    chain_init(&l->kept);
    conn->load = l;
    watch_for(conn, 0);
    helpers_submit(conn->pool->limits.disk.helpers, &l->job);
}

static enum error write_out(struct conn *conn, size_t *ret_written)
{
    const struct conn_disk *disk = &conn->pool->limits.disk;
    struct transport_probe probe = {.cached = disk->cached, .loaded = conn->loaded};
    conn->loaded = false;
    enum error e =
        transport_write_chain(conn->transport, &conn->out, BYTES_PER_TURN, disk->helpers != NULL ? &probe : NULL, ret_written);
    if (probe.cold)
        start_load(conn, probe.cold_bytes);
    return e;
}

/* Writes what can be written, ends the request in hand when that was its answer, and goes on reading when all is out. */
static void advance(struct conn *conn)
{
    if (conn->transport == NULL)
        return;
    size_t written = 0;
    conn->corked = false;
    collect_answers(conn);
    if (conn->load != NULL)
        return;
    enum error e = conn->out.len > 0 ? write_out(conn, &written) : OK;
    STAT_ADD(bytes_out, (int64_t)written);
    if (written > 0)
        touch(conn);
    if (conn->load != NULL)
        return;
    if (e == ERR_NOT_FOUND) {
        watch_for(conn, LOOP_WRITE);
        return;
    }
    if (e != OK) {
        end_conn(conn, e);
        return;
    }
    conn_ref(conn);
    if (conn->state == CONN_ANSWERED && TAILQ_EMPTY(&conn->places))
        finish_request(conn);
    watch_for(conn, LOOP_READ);
    if (conn->state == CONN_READING && !conn->driving)
        drive(conn);
    conn_unref(conn);
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
    advance(conn);
    conn_unref(conn);
}

/* For frames that lie in the reader, where epoll does not see them, and for answers that become ready together. */
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
    for (int turns = 0; conn->transport != NULL && conn->state == CONN_READING && (conn->out.len == 0 || conn->corked); turns++) {
        if (turns == REQUESTS_PER_TURN) {
            post_resume(conn);
            break;
        }
        uint8_t *frame;
        size_t len, got;
        if (frame_reader_drained(&conn->reader) && !conn->readable)
            break;
        conn->readable = false;
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
    if (conn->corked)
        advance(conn);
    conn->driving = false;
    conn_unref(conn);
}

static void on_ready(struct loop_fd *w, int events)
{
    struct conn *conn = CONTAINER_OF(w, struct conn, watch);
    conn->readable = conn->readable || (events & (LOOP_READ | LOOP_ERROR)) != 0;
    if (conn->load == NULL && conn->out.len > 0)
        advance(conn);
    else if (conn->load == NULL && conn->state == CONN_READING)
        drive(conn);
    else if ((events & LOOP_ERROR) != 0)
        end_conn(conn, ERR_CLOSED); /* reset: nobody is there to read the answer */
    else
        watch_for(conn, 0);
}

static void end_request_of_closed(struct conn *conn)
{
    free_frame(conn);
    conn->state = CONN_READING;
    conn_unref(conn);
}

/* A client that has several requests on their way gets their answers in one packet: most of what a small request costs is the packet
 * of its answer. Only while drive() goes on anyway, and not what refers to the frame or a file. */
static bool may_cork(const struct conn *conn, const struct chain *answer)
{
    const struct chain_piece *p;
    if (!conn->driving || !TAILQ_EMPTY(&conn->places) || conn->out.len + answer->len > CORK_BYTES ||
        (conn->out.len > 0 && !conn->corked))
        return false;
    TAILQ_FOREACH (p, &answer->pieces, link)
        if (p->kind != CHAIN_OWNED)
            return false;
    return true;
}

void conn_reply(struct conn *conn, struct chain *answer)
{
    ASSERT(loop_is_current(conn->pool->loop) && conn->state == CONN_HANDLING);
    if (conn->transport == NULL) {
        chain_fini(answer);
        end_request_of_closed(conn);
        return;
    }
    if (may_cork(conn, answer)) {
        chain_splice(&conn->out, answer);
        conn->corked = true;
        finish_request(conn);
        return;
    }
    chain_splice(&conn->held, answer);
    conn->state = CONN_ANSWERED;
    advance(conn);
}

static void reply_from_mailbox(struct loop_task *task)
{
    struct conn *conn = CONTAINER_OF(task, struct conn, reply);
    struct chain answer;
    chain_init(&answer);
    chain_splice(&answer, &conn->held);
    conn_reply(conn, &answer);
}

void conn_reply_post(struct conn *conn, struct chain *answer)
{
    chain_splice(&conn->held, answer);
    conn->reply.run = reply_from_mailbox;
    loop_post(conn->pool->loop, &conn->reply);
}

void conn_no_reply(struct conn *conn)
{
    ASSERT(loop_is_current(conn->pool->loop) && conn->state == CONN_HANDLING);
    if (conn->transport == NULL) {
        end_request_of_closed(conn);
        return;
    }
    conn_ref(conn);
    finish_request(conn);
    advance(conn);
    conn_unref(conn);
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

/* ---- requests that gave way ---- */

struct conn_place *conn_give_way_with_frame(struct conn *conn)
{
    ASSERT(loop_is_current(conn->pool->loop) && conn->state == CONN_HANDLING);
    if (conn->transport == NULL || conn->place_count == CONN_WAITING_MAX)
        return NULL;
    struct conn_place *place = mem_alloc(sizeof(*place));
    place->conn = conn; /* the request's reference */
    place->answered = false;
    place->frame = conn->frame;
    conn->frame = NULL;
    chain_init(&place->answer);
    TAILQ_INSERT_TAIL(&conn->places, place, link);
    conn->place_count++;
    conn->state = CONN_READING;
    if (!conn->driving)
        post_resume(conn);
    return place;
}

struct conn_place *conn_give_way(struct conn *conn)
{
    struct conn_place *place = conn_give_way_with_frame(conn);
    if (place != NULL)
        conn_place_free_frame(place);
    return place;
}

void conn_place_free_frame(struct conn_place *place)
{
    mem_free(place->frame);
    place->frame = NULL;
}

/* What becomes ready in one round of the loop (a sync releases many) is written at once. */
void conn_place_reply(struct conn_place *place, struct chain *answer)
{
    struct conn *conn = place->conn;
    ASSERT(loop_is_current(conn->pool->loop) && !place->answered);
    if (conn->transport == NULL) {
        chain_fini(answer);
        end_place(place);
        return;
    }
    chain_splice(&place->answer, answer);
    conn_place_free_frame(place);
    place->answered = true;
    if (place == TAILQ_FIRST(&conn->places))
        post_resume(conn);
}

void conn_place_refuse(struct conn_place *place)
{
    struct conn *conn = place->conn;
    ASSERT(loop_is_current(conn->pool->loop) && !place->answered);
    conn_ref(conn);
    end_place(place);
    end_conn(conn, ERR_CANCELLED);
    conn_unref(conn);
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
