/* mutex, helpers, random. */
#include "unit.h"

#include <signal.h>
#include <stdlib.h>

#include "base/assert.h"
#include "os/helpers.h"
#include "os/mutex.h"
#include "os/random.h"
#include "os/thread.h"

struct shared {
    struct mutex mutex;
    struct condition changed;
    int64_t count;
    int turn;
};

struct adder {
    struct thread thread;
    struct shared *shared;
    int id;
};

static void add_in_turn(void *arg)
{
    struct adder *a = arg;
    for (int i = 0; i < 500; i++) {
        mutex_lock(&a->shared->mutex);
        while (a->shared->turn != a->id)
            condition_wait(&a->shared->changed, &a->shared->mutex);
        ASSERT(mutex_held(&a->shared->mutex));
        a->shared->count++;
        a->shared->turn = (a->id + 1) % 3;
        mutex_unlock(&a->shared->mutex);
        ASSERT(!mutex_held(&a->shared->mutex));
        condition_broadcast(&a->shared->changed);
    }
}

static void a_mutex_knows_its_holder(void **state)
{
    struct shared shared = {0};
    mutex_init(&shared.mutex);
    condition_init(&shared.changed);
    struct adder adders[3];
    mutex_lock(&shared.mutex);
    for (int i = 0; i < 3; i++) {
        adders[i] = (struct adder){.shared = &shared, .id = i};
        assert_ok(thread_start(&adders[i].thread, "adder", add_in_turn, &adders[i]));
    }
    assert_true(mutex_held(&shared.mutex));
    mutex_unlock(&shared.mutex);
    for (int i = 0; i < 3; i++)
        thread_join(&adders[i].thread);
    assert_int_equal(shared.count, 1500);
    condition_fini(&shared.changed);
    mutex_fini(&shared.mutex);
}

static void look_at_mask(void *arg)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *(int *)arg = sigismember(&mask, SIGTERM) + sigismember(&mask, SIGPIPE);
}

static void threads_take_no_signals(void **state)
{
    struct thread t;
    int blocked = 0;
    assert_ok(thread_start(&t, "a name that is too long", look_at_mask, &blocked));
    thread_join(&t);
    assert_int_equal(blocked, 2);
    look_at_mask(&blocked);
    assert_int_equal(blocked, 0);
}

struct job {
    struct helper_job job; /* first */
    int id;
    struct loop *runs_on;
};

static _Atomic int worked, finished;
static int last_started = -1;
static struct loop *done_loop;

static void work(struct helper_job *job)
{
    struct job *j = (struct job *)job;
    ASSERT(done_loop == NULL || !loop_is_current(done_loop));
    if (done_loop != NULL) /* one helper: in order */
        ASSERT(j->id == ++last_started);
    worked++;
}

static void done_on_loop(struct helper_job *job)
{
    ASSERT(loop_is_current(job->loop));
    if (++finished == 50)
        loop_stop(job->loop);
    free(job);
}

static void done_on_helper(struct helper_job *job)
{
    finished++;
}

static void jobs_run_in_order_and_report_to_their_loop(void **state)
{
    struct helpers *helpers;
    assert_ok(loop_create(CLOCK_SYSTEM, &done_loop));
    assert_ok(helpers_start(1, &helpers));
    worked = finished = 0;
    for (int i = 0; i < 50; i++) {
        struct job *j = calloc(1, sizeof(*j));
        *j = (struct job){.job = {.work = work, .done = done_on_loop, .loop = done_loop}, .id = i};
        helpers_submit(helpers, &j->job);
    }
    loop_run(done_loop);
    assert_int_equal(worked, 50);
    assert_int_equal(finished, 50);
    helpers_stop(helpers);
    loop_destroy(done_loop);
    done_loop = NULL;
}

static void stopping_finishes_all_jobs(void **state)
{
    struct helpers *helpers;
    struct job jobs[40];
    assert_ok(helpers_start(3, &helpers));
    worked = finished = 0;
    for (int i = 0; i < 40; i++) {
        jobs[i] = (struct job){.job = {.work = work, .done = i % 2 == 0 ? done_on_helper : NULL}, .id = i};
        helpers_submit(helpers, &jobs[i].job);
    }
    helpers_stop(helpers);
    assert_int_equal(worked, 40);
    assert_int_equal(finished, 20);
    helpers_stop(NULL);
}

static void seeded_random_numbers_come_again(void **state)
{
    struct seeded_random a, b;
    seeded_random_init(&a, 0);
    assert_true(random_u64(&a.source) == 0xe220a8397b1dcdafU); /* the published first number of seed 0 */
    seeded_random_init(&b, 7);
    seeded_random_init(&a, 7);
    uint8_t x[21], y[21];
    random_fill(&a.source, x, sizeof(x));
    random_fill(&b.source, y, sizeof(y));
    assert_memory_equal(x, y, sizeof(x));
    int seen[7] = {0};
    for (int i = 0; i < 700; i++)
        seen[random_below(&a.source, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 60, 140);
    assert_int_equal(random_below(random_system(), 1), 0);
    uint64_t first = random_u64(random_system());
    assert_true(first != random_u64(random_system()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mutex_knows_its_holder),
        cmocka_unit_test(threads_take_no_signals),
        cmocka_unit_test(jobs_run_in_order_and_report_to_their_loop),
        cmocka_unit_test(stopping_finishes_all_jobs),
        cmocka_unit_test(seeded_random_numbers_come_again),
    };
    return cmocka_run_group_tests_name("os/threads", tests, NULL, NULL);
}
