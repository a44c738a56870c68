/* Event loop: one thread, epoll, timers and a mailbox. All calls belong to the loop's own thread (or to before loop_run) but
 * loop_post and loop_stop, which any thread may use. Callbacks run one at a time and may call everything here. */
#ifndef KAGAMI_OS_LOOP_H
#define KAGAMI_OS_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/error.h"

struct loop;

MUST_CHECK enum error loop_create(const struct clock *clock, struct loop **ret_loop);
void loop_destroy(struct loop *loop); /* NULL is OK; not while it runs. Tasks still in the mailbox are dropped */
void loop_run(struct loop *loop);     /* until loop_stop; tasks posted before it still run */
void loop_stop(struct loop *loop);
/* One round: waits at most max_wait_ms (-1: for ever) and runs what is due. For tests and the command line. */
void loop_step(struct loop *loop, int max_wait_ms);
bool loop_is_current(const struct loop *loop); /* whether the caller is on the loop's thread */
int64_t loop_now_ns(const struct loop *loop);  /* monotonic, read once a round */
const struct clock *loop_clock(const struct loop *loop);

enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_ERROR = 4 }; /* ERROR is reported unasked: error or hang-up */

struct loop_fd { /* embedded in its owner */
    int fd;
    int events;
    void (*ready)(struct loop_fd *w, int events);
    struct loop *loop; /* NULL when not watched */
};
MUST_CHECK enum error loop_fd_start(struct loop *loop, struct loop_fd *w, int fd, int events,
                                    void (*ready)(struct loop_fd *w, int events));
MUST_CHECK enum error loop_fd_change(struct loop_fd *w, int events);
void loop_fd_stop(struct loop_fd *w); /* does not close fd; safe inside its own callback, and no callback comes after it */

struct loop_timer { /* embedded; zero-initialised is a stopped timer */
    int64_t due_ns;
    void (*fire)(struct loop_timer *t);
    struct loop *loop;
    int heap_index; /* 0 when stopped, else index + 1 */
};
/* (Re)starts: fires once after delay_ms. */
void loop_timer_start(struct loop *loop, struct loop_timer *t, int64_t delay_ms, void (*fire)(struct loop_timer *t));
void loop_timer_stop(struct loop_timer *t); /* safe inside any callback */
static inline bool loop_timer_running(const struct loop_timer *t)
{
    return t->heap_index != 0;
}

struct loop_task { /* embedded; must stay valid until it ran; may be in one mailbox at a time */
    struct loop_task *next;
    void (*run)(struct loop_task *task);
};
/* Runs task->run on the loop's thread, in the order of posting. From any thread. What the loop posts itself runs behind the other tasks of the round; what such a
 * task posts, in the next round. */
void loop_post(struct loop *loop, struct loop_task *task);

/* Runs run(arg) on the loop's thread and waits for its end. Not from that thread, and only while the loop runs. */
void loop_call(struct loop *loop, void (*run)(void *arg), void *arg);

struct loop_hook { /* called before the loop sleeps, each round */
    LIST_ENTRY(loop_hook) link;
    void (*before_sleep)(struct loop_hook *hook);
    struct loop *loop; /* NULL when not added */
};
/* A hook may add and remove hooks, itself too. */
void loop_hook_add(struct loop *loop, struct loop_hook *hook);
void loop_hook_remove(struct loop_hook *hook);

/* N loops on N threads (os/thread.h: they take no signals). */
struct loop_group;
MUST_CHECK enum error loop_group_start(const struct clock *clock, int count, struct loop_group **ret_group);
void loop_group_stop(struct loop_group *group); /* stops and joins, then destroys the loops; NULL is OK */
int loop_group_count(const struct loop_group *group);
struct loop *loop_group_at(struct loop_group *group, int index);

#endif
