/* Loop 0 of the group accepts; each loop has a pool. A socket goes to its pool through the mailbox of the pool's loop, so that
 * "close everything", posted later, finds all that was accepted before. */
#include "net/listener.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "base/assert.h"
#include "os/mutex.h"

#define ACCEPTS_PER_TURN 64

struct ip_count {
    char ip[CONN_PEER_MAX];
    int count;
    UT_hash_handle hh;
};

struct listener {
    struct loop_group *group;
    struct listener_config config;
    int fd, port; /* fd -1: closed */
    struct loop_fd watch;
    struct loop_timer pause;
    int next; /* pool */
    atomic_int connections;
    struct mutex mutex; /* per_ip */
    struct ip_count *per_ip;
    int pools_n;
    struct conn_pool *pools[];
};

struct handover {
    struct loop_task task; /* first */
    struct listener *listener;
    struct conn_pool *pool;
    int fd;
    char peer[SOCKET_TEXT_MAX];
};

/* ---- limits ---- */

static void ip_of(const char *peer, char ip[CONN_PEER_MAX])
{
    snprintf(ip, CONN_PEER_MAX, "%.*s", CONN_PEER_MAX - 1, peer);
    char *colon = strrchr(ip, ':');
    if (colon != NULL)
        *colon = '\0';
}

static void forget_ip(struct listener *l, struct ip_count *entry)
{
    HASH_DEL(l->per_ip, entry);
    mem_free(entry);
}

/* Counted also while there is no limit: one may be set at any time. */
static bool count_ip(struct listener *l, const char *peer)
{
    char ip[CONN_PEER_MAX];
    ip_of(peer, ip);
    mutex_lock(&l->mutex);
    struct ip_count *entry;
    HASH_FIND_STR(l->per_ip, ip, entry);
    if (entry == NULL) {
        entry = mem_calloc(1, sizeof(*entry));
        memcpy(entry->ip, ip, sizeof(ip));
        HASH_ADD_STR(l->per_ip, ip, entry);
    }
    bool fits = l->config.limits == NULL || entry->count < atomic_load(&l->config.limits->per_ip);
    if (fits)
        entry->count++;
    else if (entry->count == 0)
        forget_ip(l, entry);
    mutex_unlock(&l->mutex);
    return fits;
}

static void release(void *arg, const char *peer)
{
    struct listener *l = arg;
    atomic_fetch_sub(&l->connections, 1);
    char ip[CONN_PEER_MAX];
    ip_of(peer, ip);
    mutex_lock(&l->mutex);
    struct ip_count *entry;
    HASH_FIND_STR(l->per_ip, ip, entry);
    ASSERT(entry != NULL && entry->count > 0);
    if (--entry->count == 0)
        forget_ip(l, entry);
    mutex_unlock(&l->mutex);
}

/* Counts a new connection, unless a limit is against it. */
static bool admit(struct listener *l, const char *peer)
{
    bool fits = l->config.limits == NULL || atomic_load(&l->connections) < atomic_load(&l->config.limits->connections);
    if (!fits || !count_ip(l, peer))
        return false;
    atomic_fetch_add(&l->connections, 1);
    return true;
}

/* ---- accepting ---- */

static void keep_out(struct listener *l, const char *peer, enum error why)
{
    if (l->config.kept_out != NULL)
        l->config.kept_out(l->config.arg, peer, why);
}

static void take_over(struct loop_task *task)
{
    struct handover *h = (struct handover *)task;
    if (conn_open(h->pool, transport_plain(h->fd), h->peer, release, h->listener) != OK)
        release(h->listener, h->peer);
    mem_free(h);
}

static void hand_over(struct listener *l, int fd, const char *peer)
{
    struct handover *h = mem_calloc(1, sizeof(*h));
    int index = l->next;
    l->next = (l->next + 1) % l->pools_n;
    h->task.run = take_over;
    h->listener = l;
    h->pool = l->pools[index];
    h->fd = fd;
    snprintf(h->peer, sizeof(h->peer), "%s", peer);
    loop_post(loop_group_at(l->group, index), &h->task);
}

static void accept_again(struct loop_timer *timer)
{
    struct listener *l = CONTAINER_OF(timer, struct listener, pause);
    if (loop_fd_change(&l->watch, LOOP_READ) != OK)
        loop_timer_start(loop_group_at(l->group, 0), timer, LISTENER_PAUSE_MS, accept_again);
}

/* The descriptor stays readable: without a pause the loop would spin. */
static void pause_accepting(struct listener *l)
{
    if (loop_fd_change(&l->watch, 0) == OK)
        loop_timer_start(loop_group_at(l->group, 0), &l->pause, LISTENER_PAUSE_MS, accept_again);
}

static void on_ready(struct loop_fd *w, int events)
{
    struct listener *l = CONTAINER_OF(w, struct listener, watch);
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd;
        char peer[SOCKET_TEXT_MAX];
        enum error e = socket_accept(l->fd, &fd, peer);
        if (e == ERR_NOT_FOUND)
            return;
        if (e != OK) {
            keep_out(l, "", e);
            pause_accepting(l);
            return;
        }
        if (admit(l, peer)) {
            hand_over(l, fd, peer);
        } else {
            keep_out(l, peer, ERR_TOO_LARGE);
            socket_close(fd);
        }
    }
}

/* ---- life ---- */

static void start_watching(void *arg)
{
    struct listener *l = arg;
    if (loop_fd_start(loop_group_at(l->group, 0), &l->watch, l->fd, LOOP_READ, on_ready) != OK)
        l->port = -1;
}

enum error listener_start(struct loop_group *group, const struct listener_config *config, struct listener **ret_listener,
                          struct problem *problem)
{
    int count = loop_group_count(group);
    struct listener *l = mem_calloc(1, sizeof(*l) + (size_t)count * sizeof(l->pools[0]));
    l->group = group;
    l->config = *config;
    l->fd = -1;
    mutex_init(&l->mutex);
    for (; l->pools_n < count; l->pools_n++)
        l->pools[l->pools_n] =
            conn_pool_create(loop_group_at(group, l->pools_n), &config->conn_limits, &config->events, config->arg);
    enum error e = socket_listen(&config->address, config->backlog > 0 ? config->backlog : 128, &l->fd, &l->port, problem);
    if (e == OK) {
        loop_call(loop_group_at(group, 0), start_watching, l);
        if (l->port < 0)
            e = problem_set(problem, ERR_IO, "The event loop cannot watch the listening socket.");
    }
    if (e != OK) {
        listener_destroy(l);
        return e;
    }
    *ret_listener = l;
    return OK;
}

int listener_port(const struct listener *listener)
{
    return listener->port;
}
int listener_connections(const struct listener *listener)
{
    return atomic_load(&listener->connections);
}

static void stop_watching(void *arg)
{
    struct listener *l = arg;
    loop_fd_stop(&l->watch);
    loop_timer_stop(&l->pause);
}

void listener_close(struct listener *listener)
{
    if (listener->fd < 0)
        return;
    loop_call(loop_group_at(listener->group, 0), stop_watching, listener);
    socket_close(listener->fd);
    listener->fd = -1;
}

static void close_pool(void *arg)
{
    conn_pool_close_all(arg);
}

void listener_destroy(struct listener *listener)
{
    if (listener == NULL)
        return;
    listener_close(listener);
    for (int i = 0; i < listener->pools_n; i++) {
        loop_call(loop_group_at(listener->group, i), close_pool, listener->pools[i]);
        conn_pool_unref(listener->pools[i]);
    }
    ASSERT(atomic_load(&listener->connections) == 0 && listener->per_ip == NULL);
    mutex_fini(&listener->mutex);
    mem_free(listener);
}
