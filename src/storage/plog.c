/* The log as a whole: life, accessors, durability.
 *
 *   TOPIC-N/  %020lld.log .index .timeindex [.txnindex]   a segment; the name is its base offset
 *             %020lld.snapshot                            producer state up to that offset
 *             leader-epoch-checkpoint, partition.metadata
 *             *.deleted                                   dropped, removed after a delay or at the next start
 *
 * Crash argument. The recovery point R says: everything below R is durable, and so are the indexes of segments that end below R. Nothing is written below R, for
 * segments are only appended to; the one thing that cuts them, truncation, lowers R durably before anything is appended (plog_truncate.c). R rises only in
 * plog_flush_end, after a flush has synced, in this order: the leader epochs, the folder (new segments are found again), every sealed segment not yet synced with its
 * indexes, the active .log. What lies at or above R after a crash is whatever the disk kept: recovery reads it from the start of the segment that holds R - 1,
 * keeps the whole batches and cuts off the rest (plog_recover.c). No append syncs anything, but the first roll of a fresh log
 * and the first append to a file that a killed process may have cut (segment_distrust_tail).
 *
 * Nor does creation: topics are in the metadata, durably, and a partition whose folder is missing is made again. A fresh log is one that no flush has made durable: its folder's name,
 * the names in it, partition.metadata (written, not synced) and the epochs may be gone or torn after a power cut, any of them. Nothing of it was acknowledged as durable, for its R is
 * where it began. Its first flush makes all of them durable before R rises. A second segment is begun only when the first one's name is durable (plog_append.c), or a power cut could
 * keep the later of the two. What a power cut leaves of a fresh log:
 *   no folder, no first segment   an empty log
 *   no topic id, no epoch file    nobody can say whose it is: the log manager removes it (log_manager.c)
 *   no epoch file                 built from the batches; an epoch without batches is in the metadata, which raise all epochs after an unclean end
 * An epoch that is assigned is likewise only owed to its file. It is written with the next flush that is asked to, at the latest a minute behind the batches (plog_wants_flush), for the
 * batches have it too: until then the checkpoint's recovery point stays where the file's knowledge ends, and recovery reads what it needs.
 *
 * Locks: the owner's for everything; `files` inside it orders flushes, which run without the owner's lock, against truncation and writers of the epoch file. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/stats.h"
#include "storage/plog_internal.h"

/* ---- Shared helpers ---- */

void plog_event(struct plog *log, const char *format, ...)
{
    if (log->event == NULL)
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log->event(log->event_arg, log->dir, text);
}

enum error plog_broken(struct plog *log, enum error error)
{
    if (error == OK || error == ERR_NO_SPACE)
        return error;
    if (!atomic_exchange(&log->failed, true) && log->failed_callback != NULL)
        log->failed_callback(log->owner_arg, log->dir, error);
    return error;
}

struct segment *plog_active(const struct plog *log)
{
    ASSERT(log->segment_count > 0);
    return log->segments[log->segment_count - 1];
}

int plog_segment_floor(const struct plog *log, int64_t offset)
{
    int low = 0, high = log->segment_count; /* segments below low begin at or below offset, those from high on above */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (segment_base_offset(log->segments[middle]) <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return MAX(low - 1, 0);
}

int64_t plog_segment_upper(const struct plog *log, int index)
{
    return index + 1 < log->segment_count ? segment_base_offset(log->segments[index + 1]) : INT64_MAX;
}

void plog_add_segment(struct plog *log, struct segment *segment)
{
    if (log->segment_count == log->segment_capacity) {
        log->segment_capacity = MAX(4, log->segment_capacity * 2);
        log->segments = mem_realloc(log->segments, (size_t)log->segment_capacity * sizeof(struct segment *));
    }
    log->segments[log->segment_count++] = segment;
}

void plog_count_bytes(struct plog *log)
{
    uint64_t bytes = 0;
    for (int i = 0; i < log->segment_count; i++)
        bytes += segment_size_bytes(log->segments[i]);
    atomic_store(&log->size_bytes, bytes);
}

int64_t plog_now_ms(const struct plog *log)
{
    return clock_wall_ms(log->clock);
}

/* ---- Life ---- */

static void drop(struct plog *log)
{
    struct plog_deleted *d;
    while ((d = TAILQ_FIRST(&log->deleted)) != NULL) {
        TAILQ_REMOVE(&log->deleted, d, link);
        segment_unref(d->segment);
        mem_free(d);
    }
    for (int i = 0; i < log->segment_count; i++)
        segment_unref(log->segments[i]);
    mem_free(log->segments);
    producer_state_destroy(log->producers);
    leader_epochs_fini(&log->epochs);
    condition_fini(&log->files_idle);
    mutex_fini(&log->files);
    mutex_fini(&log->syncing);
    buf_fini(&log->scratch);
    mem_free(log->run);
    mem_free(log->cluster_id);
    mem_free(log->dir);
    mem_free(log);
}

/* Everything durable, with a snapshot, so that the next start reads nothing but the end of each file. In a fresh log without a batch there is nothing to keep: whatever a power cut
 * leaves of it is opened as an empty log again. */
static enum error close_clean(struct plog *log)
{
    if (log->fresh && log->segment_count == 1 && segment_is_blank(plog_active(log)) && log->end_offset == 0)
        return OK;
    enum error error = plog_flush_now(log);
    if (error == OK)
        error = producer_state_take_snapshot(log->producers, true);
    if (error == OK)
        error = segment_seal(plog_active(log));
    if (error == OK)
        error = segment_sync(plog_active(log));
    if (error == OK)
        error = fs_sync_dir(log->fs, log->dir); /* sealing may create index files: without their names the next start reads the segment */
    return error;
}

enum error plog_close(struct plog *log, bool clean)
{
    if (log == NULL)
        return OK;
    enum error error = OK;
    if (clean && log->segment_count > 0)
        error = plog_failed(log) ? KAFKA_STORAGE_ERROR : close_clean(log);
    plog_stop_flushes(log);
    drop(log);
    return error;
}

void plog_set_config(struct plog *log, const struct plog_config *config)
{
    log->config = *config;
    producer_state_set_expiration(log->producers, config->producer_id_expiration_ms);
}

const struct plog_config *plog_get_config(const struct plog *log)
{
    return &log->config;
}

const char *plog_dir(const struct plog *log)
{
    return log->dir;
}

struct uuid plog_topic_id(const struct plog *log)
{
    return log->topic_id;
}

bool plog_is_of_nobody(const struct plog *log)
{
    return log->remains_of_nobody;
}

enum error plog_set_topic_id(struct plog *log, struct uuid topic_id)
{
    if (uuid_eq(&log->topic_id, &topic_id))
        return OK;
    if (!uuid_is_zero(&log->topic_id))
        return INCONSISTENT_TOPIC_ID;
    struct buf path = {0};
    buf_printf(&path, "%s/%s", log->dir, PARTITION_METADATA_FILE);
    enum error error = log->fresh ? partition_metadata_create(log->fs, buf_cstr(&path), &topic_id)
                                  : partition_metadata_write(log->fs, buf_cstr(&path), &topic_id);
    buf_fini(&path);
    if (error == OK)
        log->topic_id = topic_id;
    return error;
}

/* ---- Durability ---- */

enum error plog_store_epochs(struct plog *log)
{
    mutex_lock(&log->files);
    enum error error = OK;
    if (log->epochs_stored != log->epochs_version) {
        error = leader_epochs_store(&log->epochs);
        if (error == OK)
            log->epochs_stored = log->epochs_version;
    }
    mutex_unlock(&log->files);
    return error;
}

void plog_stop_flushes(struct plog *log)
{
    mutex_lock(&log->files);
    log->truncations++;
    while (log->flushes_running > 0)
        condition_wait(&log->files_idle, &log->files);
    mutex_unlock(&log->files);
}

static void pin_epochs(struct plog *log, bool epochs, struct plog_flush *flush)
{
    mutex_lock(&log->files);
    flush->truncations = log->truncations;
    flush->epochs_version = log->epochs_version;
    bool stale = log->epochs_stored != log->epochs_version;
    mutex_unlock(&log->files);
    flush->covers_epochs = epochs || !stale;
    if (!stale || !epochs)
        return;
    size_t bytes = log->epochs.count * sizeof(struct epoch_entry);
    flush->epochs = mem_alloc(MAX(bytes, 1u));
    flush->epoch_count = log->epochs.count;
    if (bytes > 0)
        memcpy(flush->epochs, log->epochs.entries, bytes);
}

void plog_flush_begin(struct plog *log, bool epochs, struct plog_flush *ret_flush)
{
    struct plog_flush flush = {.log = log, .offset = log->end_offset, .fresh = log->fresh};
    flush.sync_dir = log->dir_unsynced || log->dir_flushes > 0 || log->fresh;
    pin_epochs(log, epochs, &flush);
    int first = log->segment_count - 1;
    while (first > 0 && segment_base_offset(log->segments[first - 1]) >= log->synced_below)
        first--;
    flush.count = log->segment_count - first;
    flush.segments = mem_calloc((size_t)flush.count, sizeof(struct segment *));
    for (int i = 0; i < flush.count; i++)
        flush.segments[i] = segment_ref(log->segments[first + i]);
    /* The active .log by its file, for segment_sync of a segment that may be sealed meanwhile would look at its indexes. */
    if (plog_failed(log) || segment_file(plog_active(log), &flush.active) != OK)
        flush.active = NULL;
    log->dir_unsynced = false;
    log->dir_flushes += flush.sync_dir;
    *ret_flush = flush;
}

/* *ret_dir_synced: all names in the folder are durable, which is set only if it is so. */
static enum error sync_epochs(const struct plog_flush *flush, bool *ret_dir_synced)
{
    struct plog *log = flush->log;
    if (flush->epochs == NULL)
        return OK;
    struct buf path = {0};
    buf_printf(&path, "%s/%s", log->dir, LEADER_EPOCH_CHECKPOINT);
    enum error error = OK;
    mutex_lock(&log->files);
    if (log->truncations == flush->truncations && log->epochs_stored < flush->epochs_version) {
        error = epoch_checkpoint_write(log->fs, buf_cstr(&path), flush->epochs, flush->epoch_count);
        if (error == OK) {
            log->epochs_stored = flush->epochs_version;
            *ret_dir_synced = true;
        }
    }
    mutex_unlock(&log->files);
    buf_fini(&path);
    return error;
}

static enum error sync_topic_id(const struct plog_flush *flush)
{
    struct plog *log = flush->log;
    if (!flush->fresh || uuid_is_zero(&log->topic_id))
        return OK;
    struct buf path = {0};
    buf_printf(&path, "%s/%s", log->dir, PARTITION_METADATA_FILE);
    enum error error = partition_metadata_replace(log->fs, buf_cstr(&path), &log->topic_id);
    buf_fini(&path);
    return error;
}

static enum error sync_parent(const struct plog_flush *flush)
{
    struct plog *log = flush->log;
    if (!flush->fresh)
        return OK;
    return log->sync_parent != NULL ? log->sync_parent(log->owner_arg) : fs_sync_parent(log->fs, log->dir);
}

/* Everything but batches: names, topic id, epochs. */
static enum error sync_folder(const struct plog_flush *flush)
{
    bool synced = false;
    enum error error = sync_topic_id(flush);
    if (error == OK)
        error = sync_epochs(flush, &synced);
    if (error == OK && flush->sync_dir && !synced)
        error = fs_sync_dir(flush->log->fs, flush->log->dir);
    return error == OK ? sync_parent(flush) : error;
}

static enum error sync_files(const struct plog_flush *flush)
{
    if (flush->active == NULL)
        return KAFKA_STORAGE_ERROR;
    enum error error = sync_folder(flush);
    if (error != OK)
        return error; /* no log was asked to sync: a full disk passes */
    mutex_lock(&flush->log->syncing);
    for (int i = 0; error == OK && i < flush->count - 1; i++)
        error = segment_sync(flush->segments[i]);
    mutex_unlock(&flush->log->syncing);
    if (error == OK)
        error = file_sync(flush->active);
    STAT_ADD(fsyncs, 1);
    /* Nobody knows what a failed fsync has kept, whatever its reason: the disk says once that pages are lost and then forgets it. */
    return error == ERR_NO_SPACE ? ERR_IO : error;
}

enum error plog_flush_run(struct plog_flush *flush)
{
    struct plog *log = flush->log;
    mutex_lock(&log->files);
    bool taken_over = log->truncations != flush->truncations;
    if (!taken_over)
        log->flushes_running++;
    mutex_unlock(&log->files);
    if (taken_over)
        return OK;
    enum error error = sync_files(flush);
    mutex_lock(&log->files);
    log->flushes_running--;
    condition_broadcast(&log->files_idle);
    mutex_unlock(&log->files);
    return error;
}

enum error plog_flush_end(struct plog_flush *flush, enum error run_result)
{
    struct plog *log = flush->log;
    enum error error = run_result;
    log->dir_flushes -= flush->sync_dir;
    if (error != OK) {
        log->dir_unsynced = log->dir_unsynced || flush->sync_dir;
        plog_broken(log, error);
    } else if (plog_failed(log)) {
        error = KAFKA_STORAGE_ERROR;
    } else if (log->truncations == flush->truncations) {
        if (flush->offset > atomic_load(&log->recovery_point))
            atomic_store(&log->recovery_point, flush->offset);
        if (flush->covers_epochs && flush->offset > atomic_load(&log->epochs_point))
            atomic_store(&log->epochs_point, flush->offset);
        log->fresh = log->fresh && !flush->fresh;
        log->unflushed = false;
        log->synced_below = MAX(log->synced_below, segment_base_offset(flush->segments[flush->count - 1]));
        for (int i = 0; i < flush->count - 1; i++)
            segment_rest(flush->segments[i],
                         2); /* ours and this flush's reference; one that is being read rests with the next retention */
    }
    for (int i = 0; i < flush->count; i++)
        segment_unref(flush->segments[i]);
    mem_free(flush->segments);
    mem_free(flush->epochs);
    *flush = (struct plog_flush){.log = log, .offset = flush->offset};
    return error;
}

enum error plog_flush_now(struct plog *log)
{
    struct plog_flush flush;
    plog_flush_begin(log, true, &flush);
    enum error error = plog_flush_run(&flush);
    return plog_flush_end(&flush, error);
}

bool plog_wants_flush(const struct plog *log)
{
    return !plog_failed(log) &&
           (log->unflushed || atomic_load(&log->epochs_point) < plog_recovery_point(log) ||
            (log->segment_count > 1 && segment_base_offset(log->segments[log->segment_count - 2]) >= log->synced_below));
}

bool plog_failed(const struct plog *log)
{
    return atomic_load_explicit(&log->failed, memory_order_acquire);
}

void plog_fail(struct plog *log)
{
    atomic_store(&log->failed, true);
}

/* ---- Offsets ---- */

struct plog_checkpoint plog_checkpoint_values(const struct plog *log)
{
    /* The recovery point first: a truncation between the loads lowers all of them, and a start clamps them to what is there. */
    struct plog_checkpoint c;
    int64_t epochs = atomic_load(&log->epochs_point);
    c.recovery_point = MIN(atomic_load(&log->recovery_point), epochs);
    c.log_start_offset = atomic_load(&log->start_offset);
    c.high_watermark = atomic_load(&log->high_watermark);
    return c;
}

int64_t plog_start_offset(const struct plog *log)
{
    return atomic_load_explicit(&log->start_offset, memory_order_relaxed);
}

int64_t plog_end_offset(const struct plog *log)
{
    return log->end_offset;
}

int64_t plog_high_watermark(const struct plog *log)
{
    return atomic_load_explicit(&log->high_watermark, memory_order_relaxed);
}

void plog_set_high_watermark(struct plog *log, int64_t hw)
{
    hw = MIN(hw, log->end_offset);
    if (hw <= plog_high_watermark(log))
        return;
    atomic_store(&log->high_watermark, hw);
    producer_state_on_high_watermark(log->producers, hw);
}

int64_t plog_last_stable_offset(const struct plog *log)
{
    int64_t hw = plog_high_watermark(log);
    int64_t unstable = producer_state_first_unstable_offset(log->producers);
    return unstable < 0 ? hw : MIN(hw, MAX(unstable, plog_start_offset(log)));
}

int64_t plog_recovery_point(const struct plog *log)
{
    return atomic_load(&log->recovery_point);
}

uint64_t plog_size_bytes(const struct plog *log)
{
    return atomic_load_explicit(&log->size_bytes, memory_order_relaxed);
}

int plog_segment_count(const struct plog *log)
{
    return log->segment_count;
}

int32_t plog_latest_epoch(const struct plog *log)
{
    return leader_epochs_latest(&log->epochs);
}

enum error plog_assign_epoch(struct plog *log, int32_t epoch)
{
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    if (epoch < 0)
        return ERR_INVALID;
    if (leader_epochs_assign_quiet(&log->epochs, epoch, log->end_offset)) {
        mutex_lock(&log->files);
        log->epochs_version++;
        mutex_unlock(&log->files);
    }
    return OK;
}

void plog_end_offset_for_epoch(const struct plog *log, int32_t epoch, int32_t *ret_epoch, int64_t *ret_end_offset)
{
    leader_epochs_end_offset(&log->epochs, epoch, log->end_offset, ret_epoch, ret_end_offset);
}

int32_t plog_last_batch_epoch(const struct plog *log)
{
    return log->last_batch_epoch;
}

int32_t plog_epoch_of_offset(const struct plog *log, int64_t offset)
{
    return leader_epochs_for_offset(&log->epochs, offset);
}

bool plog_ends_with_own_barrier(struct plog *log, int32_t *ret_leader_epoch)
{
    if (!log->ends_with_own_barrier)
        return false;
    *ret_leader_epoch = log->last_batch_epoch;
    return true;
}

/* ---- Producers ---- */

struct producer_state *plog_producers(struct plog *log)
{
    return log->producers;
}

void plog_expire_producers(struct plog *log)
{
    producer_state_expire(log->producers, plog_now_ms(log));
}

enum error plog_take_snapshot(struct plog *log)
{
    return plog_failed(log) ? KAFKA_STORAGE_ERROR : plog_broken(log, producer_state_take_snapshot(log->producers, true));
}
