/* Walks over a partition (src/repl/partition.h) instead of a bare log: who may append, leader epoch, high watermark and durability, the mirror's stop. The helper threads are a queue
 * that the walk empties when it likes, and while the disk syncs further steps may happen: everything in one thread, so that a seed replays exactly. */
#include "replica.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "os/helpers.h"

/* ---- In the place of the helper threads ---- */

#define JOBS 64

static struct helper_job *jobs[JOBS];
static int job_count;

enum error helpers_start(int threads, struct helpers **ret_helpers)
{
    return ERR_INVALID;
}

void helpers_stop(struct helpers *h) {}

void helpers_submit(struct helpers *h, struct helper_job *job)
{
    ASSERT(job_count < JOBS);
    jobs[job_count++] = job;
}

static void run_jobs(struct walk *w)
{
    while (job_count > 0) {
        struct helper_job *job = jobs[0];
        memmove(&jobs[0], &jobs[1], sizeof(jobs[0]) * (size_t)--job_count);
        job->work(job);
        job->done(job);
        replica_follow_hw(w);
    }
}

/* ---- Waiting for the disk ---- */

static struct partition_wake *on_durable(struct partition_waiter *waiter, enum error result)
{
    struct replica_wait *wait = CONTAINER_OF(waiter, struct replica_wait, waiter);
    wait->done = true;
    wait->result = result;
    struct walk *w = wait->walk;
    if (result == OK)
        WALK_CHECK(w, plog_recovery_point(w->log) >= waiter->offset,
                   "a write below %" PRId64 " is acknowledged, durable is %" PRId64, waiter->offset, plog_recovery_point(w->log));
    return NULL;
}

static struct replica_wait *new_wait(struct walk *w)
{
    struct replica *r = &w->replica;
    for (int i = 0; i < REPLICA_WAITS; i++) {
        if (r->waits[i].used && !r->waits[i].done)
            continue;
        r->waits[i] = (struct replica_wait){.walk = w, .used = true, .waiter = {.done = on_durable}};
        return &r->waits[i];
    }
    return NULL;
}

static int waiting(const struct walk *w)
{
    int count = 0;
    for (int i = 0; i < REPLICA_WAITS; i++)
        count += w->replica.waits[i].used && !w->replica.waits[i].done;
    return count;
}

/* ---- Life ---- */

static void refuse(struct problem *problem)
{
    problem_set(problem, POLICY_VIOLATION, "the topic is mirrored");
}

static void set_origin(struct walk *w, bool mirrored)
{
    struct problem problem;
    refuse(&problem);
    w->replica.mirrored = mirrored;
    partition_set_origin(w->replica.p, mirrored ? APPEND_MIRROR : APPEND_CLIENT, mirrored ? &problem : NULL);
}

void replica_open(struct walk *w)
{
    struct replica *r = &w->replica;
    struct uuid id = {{1}};
    r->env = (struct partition_env){.clock = &w->clock.clock, .flush_acks_all = true};
    enum error error = partition_create(&r->env, STR("topic"), &id, 0, MAX(r->leader_epoch, 0), &w->params.config, w->log, &r->p);
    WALK_CHECK(w, error == OK, "the partition cannot be made: %s", error_name(error));
    r->leader_epoch = MAX(MAX(r->leader_epoch, 0), model_epochs_latest(&w->model.epochs));
    model_epochs_assign(&w->model.epochs, r->leader_epoch, w->model.end);
    set_origin(w, r->mirrored);
    for (int i = 0; i < w->model.count; i++)
        w->model.batches[i].durable_first = false; /* what the log held when it was opened is visible */
    replica_follow_hw(w);
}

void replica_close(struct walk *w)
{
    struct partition *p = w->replica.p;
    if (p == NULL)
        return;
    partition_close(p, BROKER_NOT_AVAILABLE);
    w->replica.p = NULL;
    run_jobs(w);
    WALK_CHECK(w, waiting(w) == 0, "somebody waits for a partition that is closed");
    partition_unref(p);
}

void replica_start(struct walk *w)
{
    job_count = 0;
    w->replica.on = true;
    w->replica.mirrored = chance(w, 2);
    replica_open(w);
}

/* ---- High watermark ---- */

/* Nothing that was to be durable first is visible before it is. */
static int64_t most_visible(const struct walk *w)
{
    const struct model *m = &w->model;
    for (int i = 0; i < m->count; i++)
        if (m->batches[i].durable_first && m->batches[i].last_offset >= plog_recovery_point(w->log))
            return m->batches[i].base_offset;
    return m->end;
}

void replica_follow_hw(struct walk *w)
{
    struct replica *r = &w->replica;
    if (r->p == NULL)
        return;
    struct partition_state state;
    partition_get_state(r->p, &state);
    int64_t hw = state.high_watermark, most = most_visible(w);
    WALK_CHECK(w, state.error == OK, "the partition failed: %s", error_name(state.error));
    WALK_CHECK(w, hw <= most || hw == w->model.hw, "HW is %" PRId64 ", above what is not durable, %" PRId64, hw, most);
    WALK_CHECK(w, hw >= MIN(w->model.hw, w->model.end), "HW fell from %" PRId64 " to %" PRId64, w->model.hw, hw);
    WALK_CHECK(w, state.leader_epoch == r->leader_epoch, "the leader epoch is %d, not %d", state.leader_epoch, r->leader_epoch);
    WALK_CHECK(w, state.writable == !r->mirrored, "the partition is %swritable", state.writable ? "" : "not ");
    w->model.hw = hw;
}

static void check_idle(struct walk *w)
{
    WALK_CHECK(w, waiting(w) == 0, "%d writes wait for a disk that is idle", waiting(w));
    replica_follow_hw(w);
    WALK_CHECK(w, w->model.hw == w->model.end, "HW stays at %" PRId64 " of %" PRId64 ", and the disk is idle", w->model.hw,
               w->model.end);
}

/* ---- Appending ---- */

enum error replica_append_client(struct walk *w, struct validated *v, struct model_batch *b, struct plog_appended *ret_appended,
                                 struct problem *problem)
{
    struct replica *r = &w->replica;
    struct partition_appended a;
    struct replica_wait *wait = new_wait(w);
    int16_t acks = wait == NULL ? 1 : (int16_t)(pick(w, 3) - 1);
    walk_note(w, " acks=%d", acks);
    enum error error = partition_append_client(r->p, v, acks, wait != NULL ? &wait->waiter : NULL, &a, problem);
    if (wait != NULL && (error != OK || !a.waiting))
        wait->used = false;
    if (error != OK)
        return error;
    WALK_CHECK(w, !a.waiting || acks == -1, "a write with acks=%d waits", acks);
    WALK_CHECK(w, a.waiting || acks != -1 || a.log.last_offset < plog_recovery_point(w->log),
               "a write with acks=all does not wait");
    b->durable_first = acks == -1;
    *ret_appended = a.log;
    return OK;
}

enum error replica_append_copied(struct walk *w, struct bytes chunk, int32_t max_epoch, struct plog_appended *ret_appended,
                                 struct problem *problem)
{
    struct replica *r = &w->replica;
    if (max_epoch > r->leader_epoch && !chance(w, 8))
        replica_set_epoch(w, max_epoch + (chance(w, 2) ? 10 : 0)); /* as a mirror does */
    return partition_append_copied(r->p, chunk, chance(w, 2) ? r->leader_epoch : -1, ret_appended, problem);
}

void replica_set_epoch(struct walk *w, int32_t epoch)
{
    struct replica *r = &w->replica;
    enum error error = partition_set_leader_epoch(r->p, epoch);
    WALK_CHECK(w, error == (epoch < r->leader_epoch ? ERR_STATE : OK), "the leader epoch %d behind %d was answered %s", epoch,
               r->leader_epoch, error_name(error));
    if (epoch > r->leader_epoch)
        model_epochs_assign(&w->model.epochs, epoch, w->model.end);
    r->leader_epoch = MAX(r->leader_epoch, epoch);
}

/* ---- Steps ---- */

/* The disk works on the active .log, and no lock is held; while it does, others may write. */
static void while_disk_works(void *arg, const char *path)
{
    static const enum step_kind KINDS[] = {STEP_CLIENT, STEP_CLIENT, STEP_COPIED, STEP_MARKER, STEP_REPEAT};
    struct walk *w = arg;
    struct segments now;
    char active[128];
    walk_list_segments(w, &w->fs, &now);
    snprintf(active, sizeof(active), WALK_DIR "/%020" PRId64 ".log", now.base[now.count - 1]);
    if (strcmp(path, active) != 0)
        return;
    w->fs.on_sync = NULL;
    while (w->replica.nested > 0) {
        w->replica.nested--;
        walk_note(w, "\n             while the disk works: ");
        walk_do(w, KINDS[pick(w, ARRAY_SIZE(KINDS))]);
        replica_follow_hw(w);
    }
}

void replica_disk(struct walk *w)
{
    w->replica.nested = (int)pick(w, 3);
    if (job_count > 0)
        w->fs.on_sync = while_disk_works;
    w->fs.on_sync_arg = w;
    run_jobs(w);
    w->fs.on_sync = NULL;
    check_idle(w);
}

void replica_flush(struct walk *w)
{
    WALK_CHECK(w, partition_flush(w->replica.p) == OK, "flushing the partition failed");
    WALK_CHECK(w, plog_recovery_point(w->log) == w->model.end, "flushed up to %" PRId64, plog_recovery_point(w->log));
}

void replica_flip(struct walk *w)
{
    set_origin(w, !w->replica.mirrored);
    walk_note(w, "%s", w->replica.mirrored ? "a mirror's" : "clients'");
}

static const struct model_producer *first_open(struct walk *w)
{
    const struct model_producer *first = NULL;
    for (int i = 0; i < w->model.lead.producer_count; i++) {
        const struct model_producer *p = &w->model.lead.producers[i];
        if (p->txn_first >= 0 && (first == NULL || p->txn_first < first->txn_first))
            first = p;
    }
    return first;
}

/* Spec section 6, steps 4 to 6 and 8. */
void replica_stop(struct walk *w)
{
    struct replica *r = &w->replica;
    struct model *m = &w->model;
    const struct model_producer *p;
    if (!r->mirrored)
        return;
    int32_t last = plog_last_batch_epoch(w->log);
    replica_set_epoch(w, MAX(MAX(last, model_epochs_latest(&m->epochs)) + 1, r->leader_epoch));
    bool truncate = chance(w, 4);
    if (truncate && (p = first_open(w)) != NULL)
        walk_truncate(w, p->txn_first);
    while ((p = first_open(w)) != NULL) {
        struct model_batch b = {
            .kind = MODEL_ABORT, .transactional = true, .producer_id = p->id, .producer_epoch = p->epoch, .base_sequence = -1};
        b.coordinator_epoch = MAX(p->coordinator_epoch, 0);
        walk_append_marker(w, &b);
    }
    run_jobs(w);
    replica_follow_hw(w);
    WALK_CHECK(w, plog_last_stable_offset(w->log) == m->hw,
               "LSO is %" PRId64 " behind the end of all transactions, HW is %" PRId64, plog_last_stable_offset(w->log), m->hw);
    walk_append_barrier(w, 0);
    WALK_CHECK(w, producer_state_count(plog_producers(w->log)) == 0, "producers outlive the barrier");
    int32_t epoch = -1;
    WALK_CHECK(w, plog_ends_with_own_barrier(w->log, &epoch) && epoch == r->leader_epoch,
               "the log does not end with the barrier");
    run_jobs(w);
    check_idle(w);
    WALK_CHECK(w, plog_last_stable_offset(w->log) == m->end && plog_recovery_point(w->log) == m->end, "the stop is not durable");
    set_origin(w, false);
}
