/* High watermark, group commit, and who is woken by what. Rule: everything that changes a partition happens between partition_enter (or a lock) and
 * partition_leave, and partition_leave alone works out HW, tells watches and queues flushes. So no path can forget somebody who waits. */
#include "base/logger.h"
#include "base/stats.h"
#include "repl/partition_internal.h"

static void collect(struct partition *p, struct partition_wake *wake)
{
    if (wake == NULL)
        return;
    wake->next = p->wakes;
    p->wakes = wake;
}

static void post(struct partition_wake *newest)
{
    struct partition_wake *oldest = NULL;
    while (newest != NULL) { /* reversed: posted in the order in which they became due */
        struct partition_wake *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct partition_wake *next = oldest->next; /* the task may free the wake as soon as it is posted */
        loop_post(oldest->loop, &oldest->task);
        oldest = next;
    }
}

/* ---- Waiters ---- */

void partition_stand(struct partition *p, struct partition_waiter *w, int64_t offset)
{
    ASSERT(!w->standing);
    w->offset = offset;
    w->standing = true;
    TAILQ_INSERT_TAIL(&p->waiters, w, link);
    p->flush_wanted = true;
}

/* Ends those that wait for an offset above `above_offset`. */
void partition_end_waiters(struct partition *p, int64_t above_offset, enum error result)
{
    struct partition_waiter *w, *next;
    for (w = TAILQ_FIRST(&p->waiters); w != NULL; w = next) {
        next = TAILQ_NEXT(w, link);
        if (w->offset <= above_offset)
            continue;
        TAILQ_REMOVE(&p->waiters, w, link);
        w->standing = false;
        collect(p, w->done(w, result));
    }
}

static void release_durable(struct partition *p)
{
    int64_t durable = plog_recovery_point(p->log);
    struct partition_waiter *w, *next;
    for (w = TAILQ_FIRST(&p->waiters); w != NULL; w = next) {
        next = TAILQ_NEXT(w, link);
        if (w->offset > durable)
            continue;
        TAILQ_REMOVE(&p->waiters, w, link);
        w->standing = false;
        collect(p, w->done(w, OK));
    }
}

bool partition_waiter_remove(struct partition *p, struct partition_waiter *w)
{
    mutex_lock(&p->mutex);
    bool standing = w->standing;
    if (standing) {
        TAILQ_REMOVE(&p->waiters, w, link);
        w->standing = false;
    }
    mutex_unlock(&p->mutex);
    return standing;
}

bool partition_wait_durable(struct partition *p, int64_t offset, struct partition_waiter *waiter, enum error *ret_error)
{
    enum error error = partition_enter(p);
    bool wait = false;
    if (error == OK) {
        if (offset > plog_end_offset(p->log))
            error = OFFSET_OUT_OF_RANGE;
        else if (offset > plog_recovery_point(p->log)) {
            partition_stand(p, waiter, offset);
            wait = true;
        }
        partition_leave(p);
    }
    if (!wait)
        *ret_error = error;
    return wait;
}

/* ---- Watches ---- */

bool partition_watch_add(struct partition *p, struct partition_watch *w, int64_t seen_hw, int64_t seen_lso)
{
    mutex_lock(&p->mutex);
    ASSERT(!w->standing);
    bool fresh = p->log != NULL && !plog_failed(p->log) && (seen_hw < 0 || plog_high_watermark(p->log) == seen_hw) &&
                 (seen_lso < 0 || plog_last_stable_offset(p->log) == seen_lso);
    if (fresh) {
        LIST_INSERT_HEAD(&p->watches, w, link);
        w->standing = true;
    }
    mutex_unlock(&p->mutex);
    return fresh;
}

void partition_watch_remove(struct partition *p, struct partition_watch *w)
{
    mutex_lock(&p->mutex);
    if (w->standing) {
        LIST_REMOVE(w, link);
        w->standing = false;
    }
    mutex_unlock(&p->mutex);
}

static void tell_watches(struct partition *p)
{
    int changes = p->state_changed ? PARTITION_CHANGED_STATE : 0;
    int64_t bytes = 0;
    p->state_changed = false;
    if (p->log != NULL) {
        int64_t hw = plog_high_watermark(p->log), lso = plog_last_stable_offset(p->log), start = plog_start_offset(p->log);
        if (hw != p->told_hw) {
            const struct undurable *first = p->flushing.offset >= 0 ? &p->flushing : p->waiting.offset >= 0 ? &p->waiting : NULL;
            int64_t visible = first != NULL ? first->bytes_before : p->appended_bytes;
            bytes = MAX(visible - p->visible_bytes, 0);
            p->visible_bytes = MAX(visible, p->visible_bytes);
            changes |= PARTITION_CHANGED_HW;
        }
        changes |= lso != p->told_lso ? PARTITION_CHANGED_LSO : 0;
        changes |= start != p->told_log_start ? PARTITION_CHANGED_LOG_START : 0;
        p->told_hw = hw;
        p->told_lso = lso;
        p->told_log_start = start;
    }
    if (changes == 0)
        return;
    struct partition_watch *w;
    LIST_FOREACH (w, &p->watches, link)
        collect(p, w->changed(w, changes, bytes));
}

/* ---- High watermark ---- */

void partition_mark_undurable(struct partition *p, int64_t offset, int64_t bytes_before)
{
    if (p->waiting.offset < 0)
        p->waiting = (struct undurable){offset, bytes_before};
    p->flush_wanted = true;
}

static void move_high_watermark(struct partition *p)
{
    int64_t hw = p->flushing.offset >= 0  ? p->flushing.offset
                 : p->waiting.offset >= 0 ? p->waiting.offset
                                          : plog_end_offset(p->log);
    if (hw > plog_high_watermark(p->log))
        plog_set_high_watermark(p->log, hw);
}

/* A log that was cut made everything that it kept durable, also for a flush that is under way. One that had nothing to cut did not. */
void partition_after_truncation(struct partition *p)
{
    if (plog_recovery_point(p->log) >= plog_end_offset(p->log))
        p->flushing.offset = p->waiting.offset = -1;
    p->state_changed = true;
    if (plog_failed(p->log))
        return;
    release_durable(p);
    partition_end_waiters(p, plog_end_offset(p->log), NOT_LEADER_OR_FOLLOWER); /* their records are gone */
}

/* ---- Group commit ---- */

/* Locked; unlocks while the disk works. */
static enum error run_flush(struct partition *p)
{
    ASSERT(!p->flush_running && p->log != NULL);
    p->flush_running = true;
    p->flush_wanted = false;
    if (p->flushing.offset < 0) {
        p->flushing = p->waiting;
        p->waiting.offset = -1;
    }
    struct plog_flush flush;
    plog_flush_begin(p->log, false, &flush);
    mutex_unlock(&p->mutex);
    enum error error = plog_flush_run(&flush);
    mutex_lock(&p->mutex);
    error = plog_flush_end(&flush, error);
    p->flush_running = false;
    if (error == OK) {
        p->flushing.offset = -1;
        release_durable(p);
    } else if (error == ERR_NO_SPACE) {
        /* Nothing is lost, and what is to be durable stays marked for the next flush; those who wait are told, and may ask again. */
        partition_end_waiters(p, -1, error);
    }
    condition_broadcast(&p->flush_ended);
    return error;
}

static void flush_work(struct helper_job *job)
{
    struct partition *p = CONTAINER_OF(job, struct partition, flush_job);
    mutex_lock(&p->mutex);
    if (p->log != NULL && p->flush_wanted && !p->flush_running && !plog_failed(p->log))
        (void)run_flush(p); /* who waits is told */
    partition_leave(p);
}

/* The job may be submitted again only now. */
static void flush_done(struct helper_job *job)
{
    struct partition *p = CONTAINER_OF(job, struct partition, flush_job);
    mutex_lock(&p->mutex);
    p->flush_queued = false;
    partition_leave(p);
    partition_unref(p);
}

enum error partition_flush(struct partition *p)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return error;
    int64_t target = plog_end_offset(p->log);
    while (error == OK && p->log != NULL && !plog_failed(p->log) && plog_recovery_point(p->log) < MIN(target, plog_end_offset(p->log))) {
        if (p->flush_running)
            condition_wait(&p->flush_ended, &p->mutex);
        else
            error = run_flush(p);
    }
    error = p->log == NULL ? p->closed : plog_failed(p->log) ? KAFKA_STORAGE_ERROR : error;
    partition_leave(p);
    return error;
}

/* ---- The way out ---- */

void partition_leave(struct partition *p)
{
    ASSERT(mutex_held(&p->mutex));
    bool failed = p->log != NULL && plog_failed(p->log), tell_failure = false, submit = false;
    if (failed) {
        p->flush_wanted = false;
        partition_end_waiters(p, -1, KAFKA_STORAGE_ERROR);
        if (!p->failure_told) {
            p->failure_told = tell_failure = true;
            p->state_changed = true;
        }
    } else if (p->log != NULL)
        move_high_watermark(p);
    tell_watches(p);
    if (p->flush_wanted && !p->flush_queued && !p->flush_running && p->log != NULL) {
        p->flush_queued = submit = true;
        partition_ref(p);
    }
    struct partition_wake *wakes = p->wakes;
    p->wakes = NULL;
    if (tell_failure)
        partition_ref(p);
    if (submit) { /* under the lock: behind partition_close nobody touches the env any more */
        p->flush_job.work = flush_work;
        p->flush_job.done = flush_done;
        p->flush_job.loop = NULL;
        helpers_submit(p->env->helpers, &p->flush_job);
    }
    mutex_unlock(&p->mutex);

    post(wakes);
    if (tell_failure) {
        if (p->env->storage_failed != NULL)
            p->env->storage_failed(p->env->arg, p);
        partition_unref(p);
    }
}
