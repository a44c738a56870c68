/* Cutting the log at its end.
 *
 * Crash argument. Segments go from the last to the first, each removal durable before the next (a .deleted name that the folder's sync has made certain), then
 * the one that holds the offset is cut and synced: at any moment the folder holds a prefix of the old log that reaches at least to the wanted end, and a truncation that is done
 * again continues. Then epochs and snapshots follow; what a crash leaves of them is above the end, and opening cuts it. Last, everything is durable and the
 * recovery point is the new end; the owner writes it (checkpoint) before anything is appended, or a later crash would take new, unsynced bytes for old, synced ones. */
#include "base/assert.h"
#include "storage/plog_internal.h"

static enum error cut_segments(struct plog *log, int64_t offset)
{
    enum error error = OK;
    uint64_t cut;
    while (error == OK && log->segment_count > 1 && segment_base_offset(plog_active(log)) >= offset)
        error = plog_drop_last(log);
    if (error == OK)
        error = segment_truncate(plog_active(log), offset, &cut);
    if (error == OK)
        error = segment_next_offset(plog_active(log), &log->end_offset);
    return error;
}

/* The state of everything above the files, for a log that now ends at end_offset and is not yet durable. */
static enum error settle(struct plog *log)
{
    plog_count_bytes(log);
    int64_t hw = MIN(plog_high_watermark(log), log->end_offset);
    atomic_store(&log->epochs_point, MIN(atomic_load(&log->epochs_point), log->end_offset));
    atomic_store(&log->recovery_point, MIN(plog_recovery_point(log), log->end_offset));
    atomic_store(&log->high_watermark, hw);
    mutex_lock(&log->files);
    log->epochs_version++;
    mutex_unlock(&log->files);
    enum error error = plog_rebuild_producers(log, log->end_offset);
    if (error == OK)
        error = plog_load_last_batch(log);
    if (error != OK)
        return error;
    producer_state_on_high_watermark(log->producers, hw);
    log->synced_below = MIN(log->synced_below, segment_base_offset(plog_active(log)));
    log->dir_unsynced = true;
    error = plog_flush_now(log);
    if (error == OK && log->checkpoint != NULL)
        error = log->checkpoint(log->owner_arg);
    return error;
}

enum error plog_truncate_to(struct plog *log, int64_t offset)
{
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    if (offset >= log->end_offset)
        return OK;
    if (offset < plog_start_offset(log) || offset < segment_base_offset(log->segments[0]))
        return plog_restart_at(log, MAX(offset, 0));
    plog_stop_flushes(log);
    enum error error = cut_segments(log, offset);
    /* The log start lies inside the batch that went: nothing is left, and a log does not end below its start. */
    if (error == OK && log->end_offset < plog_start_offset(log))
        return plog_restart_at(log, plog_start_offset(log));
    /* The last epoch goes, and with it the mark by which recovery knows what was dropped at the front: that stays dropped first. */
    if (error == OK && log->end_offset == plog_start_offset(log))
        error = fs_sync_dir(log->fs, log->dir);
    if (error == OK)
        error = leader_epochs_truncate_from_end(&log->epochs, log->end_offset);
    if (error == OK)
        error = settle(log);
    /* Half-way there is no log to go on with; the next start is. */
    return plog_broken(log, error == ERR_NO_SPACE ? ERR_IO : error);
}

enum error plog_restart_at(struct plog *log, int64_t offset)
{
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    ASSERT(offset >= 0);
    plog_stop_flushes(log);
    enum error error = OK;
    struct segment *s;
    while (error == OK && log->segment_count > 0)
        error = plog_drop_last(log);
    if (error == OK)
        error = segment_create(log->fs, log->dir, offset, &s);
    if (error == OK) {
        plog_add_segment(log, s);
        log->end_offset = offset;
        atomic_store(&log->start_offset, offset);
        atomic_store(&log->high_watermark, offset);
        atomic_store(&log->epochs_point, offset);
        atomic_store(&log->recovery_point, offset);
        log->synced_below = offset;
        error = leader_epochs_clear(&log->epochs);
    }
    if (error == OK)
        error = producer_state_restart(log->producers, offset);
    if (error == OK)
        error = settle(log);
    return plog_broken(log, error == ERR_NO_SPACE ? ERR_IO : error);
}
