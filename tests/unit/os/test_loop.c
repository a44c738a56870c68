#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/loop.h"
#include "os/thread.h"

static struct loop *new_loop(const struct clock *clock)
{
    struct loop *loop;
    assert_ok(loop_create(clock, &loop));
    return loop;
}

/* ---- timers ---- */

struct timed {
    struct loop_timer timer; /* first */
    int id;
    struct timed *stops; /* when it fires */
    int64_t again_ms;    /* -1: no */
};

static int fired[256];
static int fired_n;

static void note(struct loop_timer *t)
{
    struct timed *timed = (struct timed *)t;
    fired[fired_n++] = timed->id;
    if (timed->stops != NULL)
        loop_timer_stop(&timed->stops->timer);
    if (timed->again_ms >= 0)
        loop_timer_start(t->loop, t, timed->again_ms, note);
}

static void timers_fire_in_order_of_their_time(void **state)
{
    enum { COUNT = 100 };
    uint32_t seed = 1;
    for (int run = 0; run < 50; run++) {
        struct manual_clock clock;
        manual_clock_init(&clock, 0);
        struct loop *loop = new_loop(&clock.clock);
        struct timed timers[COUNT] = {0};
        fired_n = 0;
        for (int i = 0; i < COUNT; i++) {
            seed = seed * 1664525 + 1013904223;
            timers[i] = (struct timed){.id = (int)(seed >> 16) % 1000, .again_ms = -1};
            loop_timer_start(loop, &timers[i].timer, timers[i].id, note);
        }
        for (int i = 0; i < COUNT; i += 3) /* from anywhere in the heap */
            loop_timer_stop(&timers[i].timer);
        for (int i = 0; i < COUNT; i += 9) {
            timers[i].id += 500;
            loop_timer_start(loop, &timers[i].timer, timers[i].id, note);
        }
        for (int now_ms = 0; now_ms <= 1500; now_ms += 100) {
            loop_step(loop, 0);
            for (int i = 0; i < fired_n; i++)
                assert_true(fired[i] <= now_ms);
            manual_clock_advance(&clock, 100);
        }
        assert_int_equal(fired_n, COUNT - 34 + 12);
        for (int i = 1; i < fired_n; i++)
            assert_true(fired[i - 1] <= fired[i]);
        loop_destroy(loop);
    }
}

static void a_timer_may_stop_others_and_start_itself(void **state)
{
    struct manual_clock clock;
    manual_clock_init(&clock, 0);
    struct loop *loop = new_loop(&clock.clock);
    struct timed stopped = {.id = 2, .again_ms = -1}, again = {.id = 3, .again_ms = 0};
    struct timed first = {.id = 1, .again_ms = -1, .stops = &stopped};
    fired_n = 0;
    loop_timer_start(loop, &first.timer, 1, note);
    loop_timer_start(loop, &stopped.timer, 1, note);
    loop_timer_start(loop, &again.timer, 2, note);
    stopped.timer.due_ns++; /* after the first, in the same round */
    manual_clock_advance(&clock, 10);
    loop_step(loop, 0);
    assert_false(loop_timer_running(&stopped.timer));
    assert_true(loop_timer_running(&again.timer));
    assert_in_range(fired_n, 2, 3); /* it starts itself with no delay and still does not hold up the loop */
    assert_int_equal(fired[0], 1);
    assert_int_equal(fired[1], 3);
    loop_timer_stop(&again.timer);
    loop_timer_stop(&again.timer);
    fired_n = 0;
    loop_step(loop, 0);
    assert_int_equal(fired_n, 0);
    loop_destroy(loop);
}

/* ---- mailbox ---- */

struct mail {
    struct loop_task task; /* first */
    int sender, number;
};

enum { SENDERS = 4, MAILS = 2000 };

struct sender {
    struct thread thread;
    struct loop *loop;
    int id;
    struct mail mails[MAILS];
};

static int next_number[SENDERS];
static int received;
static struct loop *receiver;

static void receive(struct loop_task *task)
{
    struct mail *mail = (struct mail *)task;
    ASSERT(loop_is_current(receiver));
    ASSERT(mail->number == next_number[mail->sender]++);
    if (++received == SENDERS * MAILS)
        loop_stop(receiver);
}

static void send_mails(void *arg)
{
    struct sender *s = arg;
    ASSERT(!loop_is_current(s->loop));
    for (int i = 0; i < MAILS; i++) {
        s->mails[i] = (struct mail){.task = {.run = receive}, .sender = s->id, .number = i};
        loop_post(s->loop, &s->mails[i].task);
    }
}

static void mail_from_many_threads_comes_in_the_order_of_each(void **state)
{
    static struct sender senders[SENDERS];
    receiver = new_loop(CLOCK_SYSTEM);
    received = 0;
    for (int i = 0; i < SENDERS; i++) {
        senders[i].loop = receiver;
        senders[i].id = i;
        assert_ok(thread_start(&senders[i].thread, "sender", send_mails, &senders[i]));
    }
    loop_run(receiver); /* ends with the last mail: a lost wake-up would hang here */
    assert_int_equal(received, SENDERS * MAILS);
    for (int i = 0; i < SENDERS; i++)
        thread_join(&senders[i].thread);
    loop_destroy(receiver);
}

struct repeated {
    struct loop_task task; /* first */
    int runs;
    struct loop *loop;
};

static void post_again(struct loop_task *task)
{
    struct repeated *r = (struct repeated *)task;
    r->runs++;
    loop_post(r->loop, task);
}

static void a_task_posted_by_a_task_runs_in_the_same_round_but_only_once(void **state)
{
    struct loop *loop = new_loop(CLOCK_SYSTEM);
    struct repeated r = {.task = {.run = post_again}, .loop = loop};
    loop_post(loop, &r.task);
    for (int round = 1; round <= 5; round++) {
        loop_step(loop, -1); /* must not sleep, and must come to an end */
        assert_int_equal(r.runs, 2 * round);
    }
    loop_destroy(loop); /* drops what is left */
}

static void stop_before_run_is_not_lost(void **state)
{
    struct loop *loop = new_loop(CLOCK_SYSTEM);
    loop_stop(loop);
    loop_run(loop);
    loop_stop(loop);
    loop_run(loop);
    loop_destroy(loop);
}

/* ---- descriptors ---- */

struct watched {
    struct loop_fd watch; /* first */
    int pipe[2];
    int calls, events;
    struct watched *stops;
};

static void on_ready(struct loop_fd *w, int events)
{
    struct watched *watched = (struct watched *)w;
    watched->calls++;
    watched->events |= events;
    if (watched->stops != NULL)
        loop_fd_stop(&watched->stops->watch);
}

static void start_pipe(struct loop *loop, struct watched *w, int events)
{
    assert_int_equal(pipe2(w->pipe, O_NONBLOCK | O_CLOEXEC), 0);
    assert_ok(loop_fd_start(loop, &w->watch, w->pipe[0], events, on_ready));
}

static void close_pipe(struct watched *w)
{
    loop_fd_stop(&w->watch);
    close(w->pipe[0]);
    close(w->pipe[1]);
}

static void a_watch_stopped_in_a_callback_gets_no_call(void **state)
{
    struct loop *loop = new_loop(CLOCK_SYSTEM);
    struct watched a = {0}, b = {0};
    start_pipe(loop, &a, LOOP_READ);
    start_pipe(loop, &b, LOOP_READ);
    a.stops = &b; /* whichever comes first stops the other, in the same round */
    b.stops = &a;
    assert_int_equal(write(a.pipe[1], "x", 1), 1);
    assert_int_equal(write(b.pipe[1], "x", 1), 1);
    loop_step(loop, 1000);
    assert_int_equal(a.calls + b.calls, 1);
    close_pipe(&a);
    close_pipe(&b);
    loop_destroy(loop);
}

static void a_watch_may_stop_itself(void **state)
{
    struct loop *loop = new_loop(CLOCK_SYSTEM);
    struct watched a = {0};
    start_pipe(loop, &a, LOOP_READ);
    a.stops = &a;
    assert_int_equal(write(a.pipe[1], "x", 1), 1);
    loop_step(loop, 1000);
    loop_step(loop, 0);
    assert_int_equal(a.calls, 1);
    assert_null(a.watch.loop);
    close_pipe(&a);
    loop_destroy(loop);
}

static void changed_events_and_errors_are_reported(void **state)
{
    struct loop *loop = new_loop(CLOCK_SYSTEM);
    struct watched a = {0};
    start_pipe(loop, &a, 0);
    assert_int_equal(write(a.pipe[1], "x", 1), 1);
    loop_step(loop, 0);
    assert_int_equal(a.calls, 0);
    assert_ok(loop_fd_change(&a.watch, LOOP_READ));
    loop_step(loop, 0);
    assert_int_equal(a.events, LOOP_READ);
    assert_ok(loop_fd_change(&a.watch, 0));
    close(a.pipe[1]);
    loop_step(loop, 0);
    assert_int_equal(a.events, LOOP_READ | LOOP_ERROR); /* unasked */
    loop_fd_stop(&a.watch);
    close(a.pipe[0]);
    assert_error(loop_fd_start(loop, &a.watch, -1, LOOP_READ, on_ready), ERR_IO);
    loop_fd_stop(&a.watch);
    loop_destroy(loop);
}

/* ---- hooks and groups ---- */

struct counted {
    struct loop_hook hook; /* first */
    int calls;
    struct counted *removes;
};

static void count_hook(struct loop_hook *hook)
{
    struct counted *c = (struct counted *)hook;
    c->calls++;
    if (c->removes != NULL)
        loop_hook_remove(&c->removes->hook);
}

static void hooks_run_each_round_and_may_be_removed_by_each_other(void **state)
{
    struct loop *loop = new_loop(CLOCK_SYSTEM);
    struct counted a = {.hook = {.before_sleep = count_hook}}, b = a, c = a;
    loop_hook_add(loop, &a.hook);
    loop_hook_add(loop, &b.hook);
    loop_hook_add(loop, &c.hook);
    loop_step(loop, 0);
    c.removes = &b; /* c was added last and comes first: b is the next */
    loop_step(loop, 0);
    c.removes = &c;
    loop_step(loop, 0);
    loop_step(loop, 0);
    assert_int_equal(a.calls, 4);
    assert_int_equal(b.calls, 1);
    assert_int_equal(c.calls, 3);
    loop_destroy(loop);
}

static void note_thread(struct loop_task *task)
{
    struct mail *mail = (struct mail *)task;
    char name[THREAD_NAME_MAX];
    pthread_getname_np(pthread_self(), name, sizeof(name));
    char expected[THREAD_NAME_MAX];
    snprintf(expected, sizeof(expected), "loop-%d", mail->number);
    ASSERT(strcmp(name, expected) == 0);
    mail->sender = 1;
}

static void a_group_runs_each_loop_on_a_thread_of_its_own(void **state)
{
    struct loop_group *group;
    assert_ok(loop_group_start(CLOCK_SYSTEM, 3, &group));
    assert_int_equal(loop_group_count(group), 3);
    struct mail mails[3];
    for (int i = 0; i < 3; i++) {
        assert_false(loop_is_current(loop_group_at(group, i)));
        mails[i] = (struct mail){.task = {.run = note_thread}, .number = i};
        loop_post(loop_group_at(group, i), &mails[i].task);
    }
    /* Stopping does not drop what was posted before: the round that sees the stop still reads its mail. */
    loop_group_stop(group);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mails[i].sender, 1);
    loop_group_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_of_their_time),
        cmocka_unit_test(a_timer_may_stop_others_and_start_itself),
        cmocka_unit_test(mail_from_many_threads_comes_in_the_order_of_each),
        cmocka_unit_test(a_task_posted_by_a_task_runs_in_the_same_round_but_only_once),
        cmocka_unit_test(stop_before_run_is_not_lost),
        cmocka_unit_test(a_watch_stopped_in_a_callback_gets_no_call),
        cmocka_unit_test(a_watch_may_stop_itself),
        cmocka_unit_test(changed_events_and_errors_are_reported),
        cmocka_unit_test(hooks_run_each_round_and_may_be_removed_by_each_other),
        cmocka_unit_test(a_group_runs_each_loop_on_a_thread_of_its_own),
    };
    return cmocka_run_group_tests_name("os/loop", tests, NULL, NULL);
}
