#include "base/stats.h"
#include "repl/partition_internal.h"

/* Counts what an append added to the log, and marks it when it may not be seen before it is durable. */
static void appended(struct partition *p, uint64_t size_before, const struct plog_appended *a, bool must_be_durable)
{
    int64_t bytes_before = p->appended_bytes;
    uint64_t size = plog_size_bytes(p->log);
    p->appended_bytes += size > size_before ? (int64_t)(size - size_before) : 0;
    if (must_be_durable && !a->duplicate)
        partition_mark_undurable(p, a->base_offset, bytes_before);
    if (p->flushing.offset >= 0 && !p->flush_running)
        p->flush_wanted = true; /* the last flush found no room: it is tried again, or nothing behind it would ever be visible */
}

static enum error refused(const struct partition *p, struct problem *problem)
{
    if (problem != NULL)
        *problem = p->refusal;
    return p->refusal.code;
}

enum error partition_append_client(struct partition *p, struct validated *records, int16_t acks, struct partition_waiter *waiter,
                                   struct partition_appended *ret_appended, struct problem *problem)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return problem_set(problem, error, "%s-%d: %s", p->topic, p->index, error_message(error));
    struct partition_appended out = {.leader_epoch = p->leader_epoch};
    if (p->refusal.code != OK)
        error = refused(p, problem);
    else {
        bool durable = acks == -1 && atomic_load_explicit(&p->env->flush_acks_all, memory_order_relaxed);
        uint64_t size = plog_size_bytes(p->log);
        error = plog_append_client(p->log, records, p->leader_epoch, &out.log, problem);
        if (error == OK) {
            appended(p, size, &out.log, durable);
            /* A duplicate too: the first one may have come with acks=1 and not be on the disk yet. */
            if (durable && out.log.last_offset >= plog_recovery_point(p->log)) {
                partition_stand(p, waiter, out.log.last_offset + 1);
                out.waiting = true;
            }
            *ret_appended = out;
        }
    }
    partition_leave(p);
    return error;
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
            appended(p, size, ret_appended, false);
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
        appended(p, size, ret_appended, true);
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
        appended(p, size, ret_appended, true);
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
