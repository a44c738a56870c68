#include "server/housekeeping.h"

#include "base/assert.h"
#include "base/logger.h"
#include "os/mutex.h"
#include "repl/partitions.h"
#include "storage/log_manager.h"

enum { CHECKPOINT, RETENTION, REMOVAL, CHORES };

struct chore {
    struct housekeeping *h;
    struct loop_timer timer;
    struct helper_job job;
    int64_t interval_ms;
    void (*work)(struct server *server);
    bool running; /* on the loop's thread only */
};

struct housekeeping {
    struct server *server;
    struct loop *loop;
    struct loop_task begin, end;
    struct chore chores[CHORES];
    bool ending; /* on the loop's thread only */
    struct mutex mutex;
    struct condition ended;
    bool done;
};

/* ---- The chores ---- */

static void checkpoint(struct server *server)
{
    enum error error = log_manager_checkpoint(server->logs);
    if (error != OK && !log_manager_failed(server->logs))
        log_error("server", "checkpoints could not be written error=%s", error_name(error));
}

/* Log starts may have moved: whoever watches is told by the way out of the monitor. */
static void tell(void *arg, struct partition *p)
{
    if (partition_lock(p) != NULL)
        partition_unlock(p);
}

static void retention(struct server *server)
{
    log_manager_retention(server->logs);
    partitions_each(server->partitions, tell, NULL);
}

static void removal(struct server *server)
{
    log_manager_remove_deleted(server->logs);
}

/* ---- Time ---- */

static void work(struct helper_job *job)
{
    struct chore *c = CONTAINER_OF(job, struct chore, job);
    c->work(c->h->server);
}

static void due(struct loop_timer *t)
{
    struct chore *c = CONTAINER_OF(t, struct chore, timer);
    c->running = true;
    helpers_submit(c->h->server->helpers, &c->job);
}

static void end_if_idle(struct housekeeping *h)
{
    for (int i = 0; i < CHORES; i++)
        if (h->chores[i].running)
            return;
    mutex_lock(&h->mutex);
    h->done = true;
    condition_signal(&h->ended);
    mutex_unlock(&h->mutex);
}

static void worked(struct helper_job *job)
{
    struct chore *c = CONTAINER_OF(job, struct chore, job);
    c->running = false;
    if (c->h->ending)
        end_if_idle(c->h);
    else
        loop_timer_start(c->h->loop, &c->timer, c->interval_ms, due);
}

static void begin(struct loop_task *task)
{
    struct housekeeping *h = CONTAINER_OF(task, struct housekeeping, begin);
    for (int i = 0; i < CHORES; i++)
        loop_timer_start(h->loop, &h->chores[i].timer, h->chores[i].interval_ms, due);
}

static void end(struct loop_task *task)
{
    struct housekeeping *h = CONTAINER_OF(task, struct housekeeping, end);
    h->ending = true;
    for (int i = 0; i < CHORES; i++)
        loop_timer_stop(&h->chores[i].timer);
    end_if_idle(h);
}

struct housekeeping *housekeeping_start(struct server *server, const struct housekeeping_times *times)
{
    struct housekeeping *h = mem_calloc(1, sizeof(*h));
    h->server = server;
    h->loop = loop_group_at(server->loops, 0);
    h->begin.run = begin;
    h->end.run = end;
    mutex_init(&h->mutex);
    condition_init(&h->ended);
    h->chores[CHECKPOINT] = (struct chore){.interval_ms = times->checkpoint_ms, .work = checkpoint};
    h->chores[RETENTION] = (struct chore){.interval_ms = times->retention_ms, .work = retention};
    h->chores[REMOVAL] = (struct chore){.interval_ms = times->removal_ms, .work = removal};
    for (int i = 0; i < CHORES; i++) {
        struct chore *c = &h->chores[i];
        c->h = h;
        c->job.work = work;
        c->job.done = worked;
        c->job.loop = h->loop;
    }
    loop_post(h->loop, &h->begin);
    return h;
}

void housekeeping_stop(struct housekeeping *h)
{
    if (h == NULL)
        return;
    loop_post(h->loop, &h->end);
    mutex_lock(&h->mutex);
    while (!h->done)
        condition_wait(&h->ended, &h->mutex);
    mutex_unlock(&h->mutex);
    condition_fini(&h->ended);
    mutex_fini(&h->mutex);
    mem_free(h);
}
