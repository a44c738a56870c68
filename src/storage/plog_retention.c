/* Cutting the log at its front: log start offset, retention, removal of what was dropped.
 *
 * Crash argument. Three things are durable before the first name changes, in this order: all that lies below the new log start, and the names of the segments that stay, or a power cut
 * that keeps the renames alone would leave no segment at all, and offsets would be given out a second time; then the leader epochs, which begin at the new log start: the mark by which
 * recovery knows what comes back. A segment goes by renaming its files to .deleted, oldest first and never the active one, and none of the renames is synced, so a power cut brings back
 * any of those segments, whole (they were durable) but maybe without their indexes. Do they come back without a hole, the log starts a little earlier than it did, and the log start
 * checkpoint, or the next retention, takes them off again; with a hole, recovery does (plog_recover.c). Files that still carry .deleted are removed by the next start. Readers keep what
 * they hold: an open file outlives its name. */
#include <inttypes.h>

#include "base/assert.h"
#include "storage/plog_internal.h"

static void await_removal(struct plog *log, struct segment *s, int64_t delay_ms)
{
    struct plog_deleted *d = mem_calloc(1, sizeof(*d));
    d->segment = s;
    d->due_ms = clock_mono_ms(log->clock) + MAX(delay_ms, 0);
    TAILQ_INSERT_TAIL(&log->deleted, d, link);
}

enum error plog_drop_front(struct plog *log, int count)
{
    int dropped = 0;
    ASSERT(count < log->segment_count);
    enum error error = plog_store_epochs(log); /* the mark: a full disk may have kept it from the file when the log start rose */
    for (; error == OK && dropped < count; dropped++) {
        struct segment *s = log->segments[dropped];
        error = segment_mark_deleted(s);
        if (error != OK)
            break;
        atomic_fetch_sub(&log->size_bytes, segment_size_bytes(s));
        await_removal(log, s, log->config.file_delete_delay_ms);
    }
    log->segment_count -= dropped;
    memmove(log->segments, log->segments + dropped, (size_t)log->segment_count * sizeof(struct segment *));
    if (error == OK && dropped > 0)
        error = producer_state_remove_snapshots_before(log->producers, segment_base_offset(log->segments[0]));
    return plog_broken(log, error);
}

enum error plog_drop_last(struct plog *log)
{
    struct segment *s = plog_active(log);
    enum error error = segment_mark_deleted(s);
    if (error == OK)
        error = fs_sync_dir(log->fs, log->dir);
    if (error != OK)
        return error;
    log->segment_count--;
    atomic_fetch_sub(&log->size_bytes, MIN(segment_size_bytes(s), atomic_load(&log->size_bytes)));
    await_removal(log, s, log->config.file_delete_delay_ms);
    return OK;
}

/* ---- Log start ---- */

static int segments_below(const struct plog *log, int64_t offset)
{
    int count = 0;
    while (count + 1 < log->segment_count && plog_segment_upper(log, count) <= offset)
        count++;
    return count;
}

enum error plog_raise_start(struct plog *log, int64_t offset)
{
    if (offset <= plog_start_offset(log))
        return OK;
    if (offset > plog_recovery_point(log) || log->dir_unsynced || log->dir_flushes > 0) {
        enum error error = plog_flush_now(log);
        if (error != OK)
            return error;
    }
    atomic_store(&log->start_offset, offset);
    producer_state_on_log_start(log->producers, offset);
    mutex_lock(&log->files);
    size_t count = log->epochs.count;
    int64_t first = count > 0 ? log->epochs.entries[0].start_offset : -1;
    enum error error = leader_epochs_truncate_from_start(&log->epochs, offset);
    /* It has stored all entries if it changed one, and else none: what was assigned since the last flush is still owed to the file then. */
    if (log->epochs.count != count || (count > 0 && log->epochs.entries[0].start_offset != first)) {
        log->epochs_version++; /* a flush under way holds the entries from before */
        if (error == OK)
            log->epochs_stored = log->epochs_version;
    }
    mutex_unlock(&log->files);
    return plog_broken(log, error);
}

enum error plog_set_start_offset(struct plog *log, int64_t offset)
{
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    if (offset > plog_high_watermark(log))
        return OFFSET_OUT_OF_RANGE;
    enum error error = plog_raise_start(log, offset);
    int count = error == OK ? segments_below(log, plog_start_offset(log)) : 0;
    return count > 0 ? plog_drop_front(log, count) : error;
}

/* ---- Retention ---- */

static enum error segment_time_ms(struct segment *s, int64_t *ret_ms)
{
    struct timestamp_offset largest;
    enum error error = segment_largest_timestamp(s, &largest);
    if (error != OK)
        return error;
    if (largest.timestamp < 0)
        return segment_modified_ms(s, ret_ms);
    *ret_ms = largest.timestamp;
    return OK;
}

/* How many segments at the front are over age or size, all of them below the HW (Kafka: UnifiedLog.deletableSegments). The active one counts when it has data. */
static enum error count_deletable(struct plog *log, int *ret_count)
{
    const struct plog_config *config = &log->config;
    int64_t hw = plog_high_watermark(log);
    uint64_t size = plog_size_bytes(log);
    int count = 0;
    for (; count < log->segment_count; count++) {
        struct segment *s = log->segments[count];
        bool last = count + 1 == log->segment_count, due = false;
        uint64_t bytes = segment_size_bytes(s);
        if ((last ? log->end_offset : plog_segment_upper(log, count)) > hw || (last && bytes == 0))
            break;
        if (config->cleanup_delete && config->retention_ms >= 0) {
            int64_t time_ms;
            enum error error = segment_time_ms(s, &time_ms);
            if (error != OK)
                return error;
            due = plog_now_ms(log) - time_ms > config->retention_ms;
        }
        if (config->cleanup_delete && config->retention_bytes >= 0 && size >= (uint64_t)config->retention_bytes + bytes)
            due = true;
        if (!last && plog_segment_upper(log, count) <= plog_start_offset(log))
            due = true;
        if (!due)
            break;
        size -= bytes;
    }
    *ret_count = count;
    return OK;
}

/* Old segments that were read since the last time give their files back. */
static void rest_segments(struct plog *log)
{
    for (int i = 0; i < log->segment_count && segment_base_offset(log->segments[i]) < log->synced_below; i++)
        segment_rest(log->segments[i], 1);
}

enum error plog_apply_retention(struct plog *log, int *ret_removed)
{
    int count = 0;
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    rest_segments(log);
    enum error error = count_deletable(log, &count);
    if (error == OK && count > 0 && count == log->segment_count)
        error = plog_roll_at(log, log->end_offset);
    if (error == OK && count > 0)
        error = plog_raise_start(log, plog_segment_upper(log, count - 1));
    if (error == OK && count > 0)
        error = plog_drop_front(log, count);
    if (error != OK)
        return plog_broken(log, error);
    *ret_removed = count;
    return OK;
}

struct plog_deleted *plog_take_deleted(struct plog *log)
{
    struct plog_deleted *d, *first = NULL, **last = &first;
    int64_t now_ms = clock_mono_ms(log->clock);
    while ((d = TAILQ_FIRST(&log->deleted)) != NULL && d->due_ms <= now_ms) {
        TAILQ_REMOVE(&log->deleted, d, link);
        d->next = NULL;
        *last = d;
        last = &d->next;
    }
    return first;
}

enum error plog_deleted_remove(struct plog_deleted *deleted)
{
    enum error result = OK;
    while (deleted != NULL) {
        struct plog_deleted *next = deleted->next;
        enum error error = segment_remove_files(deleted->segment);
        result = result != OK ? result : error;
        segment_unref(deleted->segment);
        mem_free(deleted);
        deleted = next;
    }
    return result;
}

enum error plog_remove_deleted(struct plog *log)
{
    return plog_deleted_remove(plog_take_deleted(log));
}
