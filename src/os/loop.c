/* A round: hooks, sleep in epoll_wait, ready descriptors, due timers, mailbox, mailbox once more.
 *
 * The mailbox is a stack that any thread pushes to and the loop takes whole and turns round. The loop sets `asleep` before it
 * looks into the mailbox for the last time and a poster reads it after its push (both sequentially consistent): one of the two
 * sees the other, so that the eventfd is written only when it is needed and no task is left lying. */
#include "os/loop.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/thread.h"

#define EVENTS_PER_ROUND 128

struct loop {
    const struct clock *clock;
    int64_t now_ns;
    int epoll_fd, wake_fd;
    _Atomic pthread_t thread;
    _Atomic(struct loop_task *) mailbox; /* newest first */
    atomic_bool asleep, stopping;
    atomic_bool ran; /* until then `thread` is the creator's */

    struct loop_timer **heap; /* by due_ns, smallest first */
    int timers, heap_capacity;

    LIST_HEAD(, loop_hook) hooks;
    struct loop_hook *next_hook; /* while the hooks run */

    struct epoll_event events[EVENTS_PER_ROUND]; /* of the round under way: a stopped watch is taken out */
    int event_index, event_count;
};

enum error loop_create(const struct clock *clock, struct loop **ret_loop)
{
    struct loop *loop = mem_calloc(1, sizeof(*loop));
    loop->clock = clock;
    loop->now_ns = clock_mono_ns(clock);
    loop->thread = pthread_self();
    LIST_INIT(&loop->hooks);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Edge: each write wakes once, and nobody has to read the counter back. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 || epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) < 0) {
        enum error e = error_from_errno(errno);
        loop_destroy(loop);
        return e;
    }
    *ret_loop = loop;
    return OK;
}

void loop_destroy(struct loop *loop)
{
    if (loop == NULL)
        return;
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    mem_free(loop->heap);
    mem_free(loop);
}

bool loop_is_current(const struct loop *loop)
{
    return pthread_equal(loop->thread, pthread_self());
}
int64_t loop_now_ns(const struct loop *loop)
{
    return loop->now_ns;
}
const struct clock *loop_clock(const struct loop *loop)
{
    return loop->clock;
}

static void wake(struct loop *loop)
{
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(loop->wake_fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->stopping, true);
    wake(loop);
}

/* Watched descriptors. */

static uint32_t epoll_mask(int events)
{
    return ((events & LOOP_READ) != 0 ? EPOLLIN : 0U) | ((events & LOOP_WRITE) != 0 ? EPOLLOUT : 0U);
}

static enum error control(struct loop *loop, int operation, struct loop_fd *w)
{
    struct epoll_event event = {.events = epoll_mask(w->events), .data.ptr = w};
    return epoll_ctl(loop->epoll_fd, operation, w->fd, &event) < 0 ? error_from_errno(errno) : OK;
}

enum error loop_fd_start(struct loop *loop, struct loop_fd *w, int fd, int events, void (*ready)(struct loop_fd *w, int events))
{
    *w = (struct loop_fd){.fd = fd, .events = events, .ready = ready};
    enum error e = control(loop, EPOLL_CTL_ADD, w);
    if (e == OK)
        w->loop = loop;
    return e;
}

enum error loop_fd_change(struct loop_fd *w, int events)
{
    ASSERT(w->loop != NULL);
    if (w->events == events)
        return OK;
    int before = w->events;
    w->events = events;
    enum error e = control(w->loop, EPOLL_CTL_MOD, w);
    if (e != OK)
        w->events = before;
    return e;
}

void loop_fd_stop(struct loop_fd *w)
{
    struct loop *loop = w->loop;
    if (loop == NULL)
        return;
    w->loop = NULL;
    ASSERT(epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL) == 0);
    for (int i = loop->event_index; i < loop->event_count; i++) {
        if (loop->events[i].data.ptr == w)
            loop->events[i].events = 0;
    }
}

static void dispatch_events(struct loop *loop)
{
    for (loop->event_index = 0; loop->event_index < loop->event_count;) {
        struct epoll_event event = loop->events[loop->event_index++];
        struct loop_fd *w = event.data.ptr;
        if (event.events == 0 || w == NULL)
            continue; /* stopped in this round; or woken for the mailbox */
        int events = ((event.events & EPOLLIN) != 0 ? LOOP_READ : 0) | ((event.events & EPOLLOUT) != 0 ? LOOP_WRITE : 0);
        events &= w->events; /* it may have changed since */
        events |= (event.events & (EPOLLERR | EPOLLHUP)) != 0 ? LOOP_ERROR : 0;
        if (events != 0)
            w->ready(w, events);
    }
    loop->event_count = 0;
}

/* Timers: a binary heap whose members know their place. */

static void heap_put(struct loop *loop, int index, struct loop_timer *t)
{
    loop->heap[index] = t;
    t->heap_index = index + 1;
}

static void sift_up(struct loop *loop, int index)
{
    struct loop_timer *t = loop->heap[index];
    while (index > 0 && loop->heap[(index - 1) / 2]->due_ns > t->due_ns) {
        heap_put(loop, index, loop->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    heap_put(loop, index, t);
}

static void sift_down(struct loop *loop, int index)
{
    struct loop_timer *t = loop->heap[index];
    for (;;) {
        int child = 2 * index + 1;
        if (child >= loop->timers)
            break;
        if (child + 1 < loop->timers && loop->heap[child + 1]->due_ns < loop->heap[child]->due_ns)
            child++;
        if (loop->heap[child]->due_ns >= t->due_ns)
            break;
        heap_put(loop, index, loop->heap[child]);
        index = child;
    }
    heap_put(loop, index, t);
}

void loop_timer_start(struct loop *loop, struct loop_timer *t, int64_t delay_ms, void (*fire)(struct loop_timer *t))
{
    loop_timer_stop(t);
    if (loop->timers == loop->heap_capacity) {
        loop->heap_capacity = MAX(16, loop->heap_capacity * 2);
        loop->heap = mem_realloc(loop->heap, (size_t)loop->heap_capacity * sizeof(struct loop_timer *));
    }
    /* From the clock and not from now_ns: a callback that took long must not make its timers fire early. */
    int64_t now_ns = clock_mono_ns(loop->clock);
    delay_ms = MAX(delay_ms, 0);
    t->due_ns = delay_ms > (INT64_MAX - now_ns) / 1000000 ? INT64_MAX : now_ns + delay_ms * 1000000;
    t->fire = fire;
    t->loop = loop;
    loop->heap[loop->timers] = t;
    sift_up(loop, loop->timers++);
}

void loop_timer_stop(struct loop_timer *t)
{
    if (t->heap_index == 0)
        return;
    struct loop *loop = t->loop;
    int index = t->heap_index - 1;
    t->heap_index = 0;
    struct loop_timer *last = loop->heap[--loop->timers];
    if (last == t)
        return;
    heap_put(loop, index, last);
    sift_up(loop, index);
    sift_down(loop, last->heap_index - 1);
}

/* At most as many as there were, so that one that restarts itself with no delay cannot hold up the loop. */
static void fire_due(struct loop *loop)
{
    for (int left = loop->timers; left > 0 && loop->timers > 0 && loop->heap[0]->due_ns <= loop->now_ns; left--) {
        struct loop_timer *t = loop->heap[0];
        loop_timer_stop(t);
        t->fire(t);
    }
}

static int wait_ms(const struct loop *loop, int max_wait_ms)
{
    if (loop->timers == 0)
        return max_wait_ms;
    int64_t left_ns = loop->heap[0]->due_ns - clock_mono_ns(loop->clock);
    if (left_ns <= 0)
        return 0;
    int64_t left_ms = left_ns / 1000000 + (left_ns % 1000000 != 0); /* up: waking too early would spin */
    if (max_wait_ms >= 0 && left_ms > max_wait_ms)
        return max_wait_ms;
    return (int)MIN(left_ms, INT_MAX);
}

/* Mailbox. */

void loop_post(struct loop *loop, struct loop_task *task)
{
    struct loop_task *head = atomic_load_explicit(&loop->mailbox, memory_order_relaxed);
    do
        task->next = head;
    while (!atomic_compare_exchange_weak(&loop->mailbox, &head, task));
    if (atomic_load(&loop->asleep) && atomic_exchange(&loop->asleep, false))
        wake(loop);
}

static void run_mail(struct loop *loop)
{
    struct loop_task *newest = atomic_exchange(&loop->mailbox, NULL);
    struct loop_task *oldest = NULL;
    while (newest != NULL) {
        struct loop_task *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct loop_task *task = oldest;
        oldest = task->next; /* run may free or repost it */
        task->run(task);
    }
}

struct call {
    struct loop_task task; /* first */
    void (*run)(void *arg);
    void *arg;
    sem_t ended;
};

static void run_call(struct loop_task *task)
{
    struct call *call = (struct call *)task;
    call->run(call->arg);
    sem_post(&call->ended);
}

void loop_call(struct loop *loop, void (*run)(void *arg), void *arg)
{
    ASSERT(!atomic_load(&loop->ran) || !loop_is_current(loop));
    struct call call = {.task = {.run = run_call}, .run = run, .arg = arg};
    sem_init(&call.ended, 0, 0);
    loop_post(loop, &call.task);
    while (sem_wait(&call.ended) != 0)
        ; /* a signal came */
    sem_destroy(&call.ended);
}

/* Hooks. */

void loop_hook_add(struct loop *loop, struct loop_hook *hook)
{
    hook->loop = loop;
    LIST_INSERT_HEAD(&loop->hooks, hook, link);
}

void loop_hook_remove(struct loop_hook *hook)
{
    if (hook->loop == NULL)
        return;
    if (hook->loop->next_hook == hook)
        hook->loop->next_hook = LIST_NEXT(hook, link);
    LIST_REMOVE(hook, link);
    hook->loop = NULL;
}

static void run_hooks(struct loop *loop)
{
    for (struct loop_hook *hook = LIST_FIRST(&loop->hooks); hook != NULL; hook = loop->next_hook) {
        loop->next_hook = LIST_NEXT(hook, link);
        hook->before_sleep(hook);
    }
}

void loop_step(struct loop *loop, int max_wait_ms)
{
    loop->thread = pthread_self();
    atomic_store(&loop->ran, true);
    run_hooks(loop);
    atomic_store(&loop->asleep, true);
    bool mail = atomic_load(&loop->mailbox) != NULL || atomic_load(&loop->stopping);
    int n = epoll_wait(loop->epoll_fd, loop->events, EVENTS_PER_ROUND, mail ? 0 : wait_ms(loop, max_wait_ms));
    atomic_store(&loop->asleep, false);
    ASSERT(n >= 0 || errno == EINTR);
    loop->event_count = MAX(n, 0);
    loop->now_ns = clock_mono_ns(loop->clock);
    dispatch_events(loop);
    fire_due(loop);
    run_mail(loop);
    run_mail(loop); /* what those posted to their own loop: an answer leaves before the next requests are looked at. No third time: a task may post itself for ever */
}

void loop_run(struct loop *loop)
{
    while (!atomic_load(&loop->stopping))
        loop_step(loop, -1);
    run_mail(loop); /* what was posted before the stop */
    atomic_store(&loop->stopping, false);
}
