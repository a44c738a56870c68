/* Takes connections on one address and spreads them over the loops of a group, round robin.
 *
 * One loop accepts and hands the socket to the next one's pool through its mailbox: no thundering herd, an even spread. When
 * the process has no descriptor left, connections wait in the backlog and accepting is tried again after LISTENER_PAUSE_MS. */
#ifndef KAGAMI_NET_LISTENER_H
#define KAGAMI_NET_LISTENER_H

#include <stdatomic.h>

#include "base/error.h"
#include "net/conn.h"
#include "os/loop.h"
#include "os/socket.h"

#define LISTENER_PAUSE_MS 100

struct listener;

/* May be changed at any time by any thread; what is open stays open. INT_MAX: no limit. Above one, a new connection is closed at
 * once. */
struct listener_limits {
    atomic_int connections; /* max.connections */
    atomic_int per_ip;      /* max.connections.per.ip */
};

struct listener_config {
    struct host_port address;             /* port 0 takes a free one */
    int backlog;                          /* socket.listen.backlog.size; 0: 128 */
    const struct listener_limits *limits; /* outlives the listener; NULL: none */
    struct conn_limits conn_limits;
    struct conn_events events; /* on the loops; arg is the same for all */
    void *arg;
    /* Something kept a connection out, for the log; may be NULL. On the accepting loop. why: ERR_TOO_LARGE a limit of
     * connections (peer says whose), ERR_NO_SPACE no descriptor or memory (once per pause, peer ""), else ERR_IO. */
    void (*kept_out)(void *arg, const char *peer, enum error why);
};

/* Any thread. The group outlives the listener. */
MUST_CHECK enum error listener_start(struct loop_group *group, const struct listener_config *config,
                                     struct listener **ret_listener, struct problem *problem);
int listener_port(const struct listener *listener);
int listener_connections(const struct listener *listener); /* open now; any thread */
/* Stops accepting: the port is free when it returns. Connections go on. Any thread but the loops'. */
void listener_close(struct listener *listener);
/* Also closes all connections; when it returns no callback comes any more. Requests in flight may be ended later. Not from the
 * loops' threads; NULL is OK. */
void listener_destroy(struct listener *listener);

#endif
