#include "base/stats.h"
#include "repl/partition_internal.h"

#define APPEND_AT_ONCE 64

/* Counts what an append added to the log, and marks it when it may not be seen before it is durable. */
static void appended(struct partition *p, uint64_t bytes, const struct plog_appended *a, bool must_be_durable)
{
    int64_t bytes_before = p->appended_bytes;
    p->appended_bytes += (int64_t)bytes;
    if (must_be_durable && !a->duplicate)
        partition_mark_undurable(p, a->base_offset, bytes_before);
    if (p->flushing.offset >= 0 && !p->flush_running)
        p->flush_wanted = true; /* the last flush found no room: it is tried again, or nothing behind it would ever be visible */
}

static uint64_t grown(const struct partition *p, uint64_t size_before)
{
    uint64_t size = plog_size_bytes(p->log);
    return size > size_before ? size - size_before : 0;
}

static enum error refused(const struct partition *p, struct problem *problem)
{
    if (problem != NULL)
        *problem = p->refusal;
    return p->refusal.code;
}

static void client_appended(struct partition *p, struct partition_append *item, bool flush_acks_all)
{
    const struct plog_appended *a = &item->log.appended;
    bool durable = item->acks == -1 && flush_acks_all;
    appended(p, a->duplicate ? 0 : (uint64_t)batch_size_bytes(item->log.records->header), a, durable);
    /* A duplicate too: the first one may have come with acks=1 and not be on the disk yet. */
    item->waiting = durable && a->last_offset >= plog_recovery_point(p->log);
    if (item->waiting)
        partition_stand(p, item->waiter, a->last_offset + 1);
}

static void append_some(struct partition *p, struct partition_append *const *items, int count)
{
    struct plog_client_append *logs[APPEND_AT_ONCE];
    ASSERT(count > 0 && count <= APPEND_AT_ONCE);
    bool flush_acks_all = atomic_load_explicit(&p->env->flush_acks_all, memory_order_relaxed);
    for (int i = 0; i < count; i++)
        logs[i] = &items[i]->log;
    plog_append_clients(p->log, logs, count, p->leader_epoch);
    for (int i = 0; i < count; i++)
        if (logs[i]->error == OK)
            client_appended(p, items[i], flush_acks_all);
}

void partition_append_clients(struct partition *p, struct partition_append *const *items, int count)
{
    enum error closed = partition_enter(p);
    bool open = closed == OK && p->refusal.code == OK;
    for (int i = 0; i < count; i++) {
        items[i]->waiting = false;
        if (closed != OK)
            items[i]->log.error =
                problem_set(items[i]->log.problem, closed, "%s-%d: %s", p->topic, p->index, error_message(closed));
        else if (!open)
            items[i]->log.error = refused(p, items[i]->log.problem);
    }
    for (int done = 0; open && done < count; done += APPEND_AT_ONCE)
        append_some(p, items + done, MIN(count - done, APPEND_AT_ONCE));
    if (closed == OK)
        partition_leave(p);
}

enum error partition_append_client(struct partition *p, struct validated *records, int16_t acks, struct partition_waiter *waiter,
                                   struct partition_appended *ret_appended, struct problem *problem)
{
    struct partition_append item = {.log = {.records = records, .problem = problem}, .acks = acks, .waiter = waiter};
    partition_append_clients(p, &(struct partition_append *){&item}, 1);
    if (item.log.error == OK)
        *ret_appended = (struct partition_appended){.log = item.log.appended, .waiting = item.waiting};
    return item.log.error;
}

enum error partition_append_copied(struct partition *p, struct bytes batches, int32_t required_epoch,
                                   struct plog_appended *ret_appended, struct problem *problem)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return problem_set(problem, error, "%s-%d: %s", p->topic, p->index, error_message(error));
    if (p->origin != APPEND_MIRROR)
        error = problem_set(problem, ERR_STATE, "%s-%d does not take copied batches: no mirror has it", p->topic, p->index);
    else if (required_epoch >= 0 && required_epoch != p->leader_epoch)
        error = problem_set(problem, FENCED_LEADER_EPOCH, "the leader epoch of %s-%d is %d, no longer %d", p->topic, p->index,
                            p->leader_epoch, required_epoch);
    struct batch_iter it;
    const uint8_t *batch;
    batch_iter_init(&it, batches);
    while (error == OK && batch_iter_next(&it, &batch) == BATCH_FOUND)
        if (batch_leader_epoch(batch) > p->leader_epoch)
            error =
                problem_set(problem, ERR_STATE, "a batch of leader epoch %d came before the epoch %d of %s-%d was raised to it",
                            batch_leader_epoch(batch), p->leader_epoch, p->topic, p->index);
    if (error == OK) {
        uint64_t size = plog_size_bytes(p->log);
        error = plog_append_copied(p->log, batches, ret_appended, problem);
        if (error == OK)
            appended(p, grown(p, size), ret_appended, false);
    }
    partition_leave(p);
    return error;
}

enum error partition_append_marker(struct partition *p, int64_t producer_id, int16_t producer_epoch, bool commit,
                                   int32_t coordinator_epoch, struct plog_appended *ret_appended)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return error;
    uint64_t size = plog_size_bytes(p->log);
    error = plog_append_marker(p->log, producer_id, producer_epoch, commit, coordinator_epoch, p->leader_epoch, ret_appended);
    if (error == OK)
        appended(p, grown(p, size), ret_appended, true);
    partition_leave(p);
    return error;
}

enum error partition_append_barrier(struct partition *p, struct str source_cluster_id, int8_t scope,
                                    struct plog_appended *ret_appended, int *ret_expired)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return error;
    uint64_t size = plog_size_bytes(p->log);
    error = plog_append_barrier(p->log, source_cluster_id, scope, p->leader_epoch, ret_appended, ret_expired);
    if (error == OK)
        appended(p, grown(p, size), ret_appended, true);
    partition_leave(p);
    return error;
}

/* ---- Truncation, log start ---- */

enum error partition_delete_records(struct partition *p, int64_t offset, int64_t *ret_log_start, struct problem *problem)
{
    enum error error = partition_check_writable(p, problem);
    if (error != OK)
        return error;
    error = partition_enter(p);
    if (error != OK)
        return problem_set(problem, error, "%s-%d: %s", p->topic, p->index, error_message(error));
    int64_t hw = plog_high_watermark(p->log);
    if (offset == -1)
        offset = hw;
    if (!p->config.cleanup_delete && p->config.cleanup_compact) /* Kafka: Partition.deleteRecordsOnLeader */
        error = problem_set(problem, POLICY_VIOLATION, "cleanup.policy of topic %s does not contain delete", p->topic);
    else if (offset < 0 || offset > hw)
        error = problem_set(problem, OFFSET_OUT_OF_RANGE, "offset %lld is outside 0 to the high watermark %lld of %s-%d",
                            (long long)offset, (long long)hw, p->topic, p->index);
    else if (offset > plog_start_offset(p->log))
        error = plog_set_start_offset(p->log, offset);
    if (error == OK)
        *ret_log_start = plog_start_offset(p->log);
    partition_leave(p);
    return error;
}

static enum error enter_mirrored(struct partition *p)
{
    enum error error = partition_enter(p);
    if (error == OK && p->origin != APPEND_MIRROR) {
        partition_leave(p);
        error = ERR_STATE;
    }
    return error;
}

enum error partition_truncate_to(struct partition *p, int64_t offset)
{
    enum error error = enter_mirrored(p);
    if (error != OK)
        return error;
    error = plog_truncate_to(p->log, offset);
    partition_after_truncation(p);
    partition_leave(p);
    return error;
}

enum error partition_restart_at(struct partition *p, int64_t offset)
{
    enum error error = enter_mirrored(p);
    if (error != OK)
        return error;
    error = plog_restart_at(p->log, offset);
    partition_after_truncation(p);
    partition_leave(p);
    return error;
}

enum error partition_set_start_offset(struct partition *p, int64_t offset)
{
    enum error error = enter_mirrored(p);
    if (error != OK)
        return error;
    offset = MIN(offset, plog_high_watermark(p->log));
    if (offset > plog_start_offset(p->log))
        error = plog_set_start_offset(p->log, offset);
    partition_leave(p);
    return error;
}
