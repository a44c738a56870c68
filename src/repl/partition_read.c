#include "repl/partition_internal.h"

/* Kafka: Partition.readRecords. What the client fetched last must lie in our history, else the answer says where the histories part (KIP-595). */
static enum error check_divergence(struct partition *p, const struct partition_read_params *params, struct partition_read *out)
{
    int32_t epoch;
    int64_t end;
    plog_end_offset_for_epoch(p->log, params->last_fetched_epoch, &epoch, &end);
    if (epoch < 0 || end < 0 || params->offset < plog_start_offset(p->log))
        return OFFSET_OUT_OF_RANGE;
    if (epoch < params->last_fetched_epoch || end < params->offset) {
        out->diverging_epoch = epoch;
        out->diverging_end_offset = end;
    }
    return OK;
}

static enum error read_locked(struct partition *p, const struct partition_read_params *params, struct arena *arena,
                              struct partition_read *out)
{
    enum error error = partition_check_epoch(p, params->current_epoch);
    if (error == OK && params->last_fetched_epoch >= 0)
        error = check_divergence(p, params, out);
    if (error != OK)
        return error;
    out->high_watermark = plog_high_watermark(p->log);
    out->last_stable_offset = plog_last_stable_offset(p->log);
    out->log_start_offset = plog_start_offset(p->log);
    if (out->diverging_epoch >= 0)
        return OK;
    int64_t upper = params->read_committed ? out->last_stable_offset : out->high_watermark;
    if (params->offset < out->log_start_offset || params->offset > plog_end_offset(p->log))
        return OFFSET_OUT_OF_RANGE;
    if (params->offset < upper && (params->max_bytes > 0 || params->min_one))
        error = plog_read(p->log, params->offset, upper, params->max_bytes, params->min_one, &out->slice);
    if (error == OK && params->read_committed) {
        out->aborted_n = 0;
        if (out->slice.segment != NULL)
            error = plog_aborted_for(p->log, params->offset, &out->slice, arena, &out->aborted, &out->aborted_n);
        if (error != OK)
            plog_slice_release(&out->slice);
    }
    return error;
}

enum error partition_read(struct partition *p, const struct partition_read_params *params, struct arena *arena,
                          struct partition_read *ret_read)
{
    const struct partition_read none = {.leader_epoch = -1,
                                        .high_watermark = -1,
                                        .last_stable_offset = -1,
                                        .log_start_offset = -1,
                                        .diverging_epoch = -1,
                                        .diverging_end_offset = -1,
                                        .aborted_n = -1};
    *ret_read = none;
    enum error error = partition_enter(p);
    if (error != OK)
        return error;
    struct partition_read out = none;
    int32_t leader_epoch = p->leader_epoch;
    error = read_locked(p, params, arena, &out);
    partition_leave(p);
    *ret_read = error == OK ? out : none;
    ret_read->leader_epoch = leader_epoch;
    return error;
}

enum error partition_list_offset(struct partition *p, int64_t timestamp, bool read_committed, int32_t current_epoch,
                                 struct plog_time_offset *ret_offset)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return error;
    struct plog_time_offset out = {-1, -1, -1};
    int64_t upper = read_committed ? plog_last_stable_offset(p->log) : plog_high_watermark(p->log);
    error = partition_check_epoch(p, current_epoch);
    if (error != OK) {
        partition_leave(p);
        return error;
    }
    switch (timestamp) {
    case LIST_LATEST:
        out.offset = upper;
        out.leader_epoch = p->leader_epoch;
        break;
    case LIST_EARLIEST:
    case LIST_EARLIEST_LOCAL:
        out.offset = plog_start_offset(p->log);
        out.leader_epoch = plog_epoch_of_offset(p->log, out.offset);
        break;
    case LIST_MAX_TIMESTAMP:
        error = plog_offset_of_max_time(p->log, upper, &out);
        break;
    case LIST_LATEST_TIERED: /* without tiered storage Kafka answers "none" */
    case LIST_EARLIEST_PENDING_UPLOAD:
        break;
    default:
        error = plog_offset_for_time(p->log, timestamp, upper, &out);
    }
    partition_leave(p);
    if (error == OK)
        *ret_offset = out;
    return error;
}

enum error partition_offset_for_epoch(struct partition *p, int32_t current_epoch, int32_t epoch, int32_t *ret_epoch,
                                      int64_t *ret_end_offset)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return error;
    error = partition_check_epoch(p, current_epoch);
    if (error == OK)
        plog_end_offset_for_epoch(p->log, epoch, ret_epoch, ret_end_offset);
    partition_leave(p);
    return error;
}
