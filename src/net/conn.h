/* The server's side of a connection: frames come in one at a time, answers go out in order.
 *
 * One request is in hand per connection: between the `request` callback and its end nothing more is read, so that a client's
 * memory here is one frame, one answer and at most 64 KiB of frames sent ahead. A request that has done all that the next one
 * could depend on, and only waits, may give way (conn_give_way): the next ones are taken meanwhile, its answer keeps its place.
 * Everything runs on the loop of the connection's pool, except where "any thread" is said.
 *
 * A request in flight holds the connection's memory: the pointer stays good until the request is ended, also when the peer has
 * long gone, and ending it then is harmless. Whoever else keeps a pointer takes a reference. */
#ifndef KAGAMI_NET_CONN_H
#define KAGAMI_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chain.h"
#include "base/error.h"
#include "net/transport.h"
#include "os/helpers.h"
#include "os/loop.h"

#define CONN_PEER_MAX 64
/* Requests of one connection that may have given way at a time. */
#define CONN_WAITING_MAX 32

struct conn;
struct conn_pool;

/* How large ranges of files are sent that are not in memory: loaded by a helper, while the loop goes on. */
struct conn_disk {
    struct helpers *helpers; /* NULL: the loop waits for the disk */
    bool (*cached)(int fd, uint64_t pos, size_t len);
    void (*load)(int fd, uint64_t pos, size_t len);
};

struct conn_limits {
    size_t request_max_bytes; /* socket.request.max.bytes; a longer or negative frame ends the connection */
    int64_t idle_max_ms;      /* connections.max.idle.ms: without a byte moved and without a request in flight; <= 0: never */
    struct conn_disk disk;
};

struct conn_events {
    /* A new connection; may be NULL. Not the place to close it. */
    void (*opened)(void *arg, struct conn *conn);
    /* A whole frame without its length; writable. It lives until the request is ended and the answer is written, or until
     * conn_free_frame. End the request by exactly one of conn_reply, conn_reply_post, conn_no_reply, conn_refuse, now or
     * later. */
    void (*request)(void *arg, struct conn *conn, uint8_t *frame, size_t len);
    /* The connection ended; once for each; may be NULL. No request comes after it; one that is in flight still has to be
     * ended. Why: ERR_CLOSED the peer closed, ERR_TOO_LARGE or ERR_MALFORMED the length of a frame, ERR_TIMED_OUT idle, ERR_IO
     * or ERR_TRUNCATED a file of an answer could not be read (the peer waits for bytes that cannot come), ERR_CANCELLED we
     * ended it. */
    void (*closed)(void *arg, struct conn *conn, enum error why);
};

/* The connections of one loop, with the buffer that they share. Calls belong to the loop (or to before it runs), but create
 * and unref. */
struct conn_pool *conn_pool_create(struct loop *loop, const struct conn_limits *limits, const struct conn_events *events,
                                   void *arg);
void conn_pool_close_all(struct conn_pool *pool); /* closes all connections and takes no more; `closed` runs for each */
void conn_pool_unref(struct conn_pool *pool);     /* any thread; connections hold it too. NULL is OK */
int conn_pool_count(const struct conn_pool *pool);

/* Takes over the transport. peer is copied ("ip:port"). ERR_IO when the loop cannot watch it, ERR_STATE after
 * conn_pool_close_all; then it is closed. `released` (may be NULL) runs when the connection ends, after `closed`: for whoever
 * counts. */
MUST_CHECK enum error conn_open(struct conn_pool *pool, struct transport *transport, const char *peer,
                                void (*released)(void *arg, const char *peer), void *released_arg);

/* The loop has to live until every request is ended.
 *
 * Ends the request with this answer, frame length included; takes the chain's content. File pieces go out by sendfile. The
 * frame may be referenced by it. */
void conn_reply(struct conn *conn, struct chain *answer);
void conn_reply_post(struct conn *conn, struct chain *answer); /* the same from any thread */
void conn_no_reply(struct conn *conn);                         /* ends the request; the connection goes on */
void conn_refuse(struct conn *conn);                           /* ends the request and the connection */
/* Frees the frame of the request in flight early (its views end with it). */
void conn_free_frame(struct conn *conn);

/* The place of an answer in the order of a connection's answers. */
struct conn_place;

/* The request in hand gives way: its frame is freed, the next request may come (not before the `request` callback that runs now
 * has returned), and it ends by conn_place_reply or conn_place_refuse, whenever. Answers go out in the order of the requests. NULL, and nothing
 * changes, when CONN_WAITING_MAX have given way already or the connection has ended. */
struct conn_place *conn_give_way(struct conn *conn);
/* The same, but the frame stays: until the place ends or gives it up. For what soon goes on, so that requests that came together are handled together. */
struct conn_place *conn_give_way_with_frame(struct conn *conn);
void conn_place_free_frame(struct conn_place *place);
/* Like conn_reply and conn_refuse, for a request that has given way. The place ends with it. */
void conn_place_reply(struct conn_place *place, struct chain *answer);
void conn_place_refuse(struct conn_place *place);

/* Ends the connection, not the request in flight. Nothing happens when it has ended before. */
void conn_close(struct conn *conn);

struct conn *conn_ref(struct conn *conn);                             /* any thread */
void conn_unref(struct conn *conn);                                   /* any thread; NULL is OK */
struct loop *conn_loop(const struct conn *conn);                      /* any thread */
const char *conn_peer(const struct conn *conn);                       /* "ip:port"; any thread */
char *conn_local_ip(const struct conn *conn, char *out, size_t size); /* the address that the peer came to; "" when it ended */
bool conn_is_closed(const struct conn *conn);
/* A pointer of the owner's (the state that the server keeps of a connection); free it in `closed` or later. */
void conn_set_data(struct conn *conn, void *data);
void *conn_data(const struct conn *conn);

#endif
