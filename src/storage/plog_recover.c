/* Opening a log: whatever a crash left becomes a log again, without a hand (Kafka: LogLoader).
 *
 * What is found, and what becomes of it:
 *   *.deleted, *.tmp, *.cleaned   removed
 *   *.swap                        a cleaner's result that was complete: takes the place of the segments that it replaces, then the name is final. A crash in
 *                                 between finds the .swap again. Above the lowest .cleaned its set was not complete: removed
 *   indexes without a .log        removed
 *   segments from the recovery point on, after an unclean end: read from their first byte, CRC and offsets checked, cut behind the last sound batch; indexes,
 *                                 epochs, producer state and transaction index built anew. What lies behind a cut goes, and what lies behind a hole:
 *                                 above the recovery point every segment begins where the one before it ended (plog_append.c), and a power cut may have kept
 *                                 the later of two. Without a checkpoint (a folder copied from elsewhere) a hole is taken for compaction's
 *   segments below the first leader epoch, after an unclean end: what was dropped at the front and came back with the power (plog_retention.c). With a hole between them or behind them
 *                                 all of them go; without one the log starts earlier, and their indexes are built anew, since each file comes back by itself
 *   no segment at all             the log is empty, at the log start that the checkpoint or the first leader epoch says
 *   indexes missing or damaged    that segment is read and its indexes built
 *   leader epochs missing or damaged: built from the batches
 *   snapshots missing or damaged: an older one, or none, and the batches behind it
 *
 * Below the recovery point nothing is ever cut: damage there is the medium's, not a crash's, and cutting would throw away what was acknowledged. The log
 * does not open then, and says where the damage is.
 *
 * Producer state after opening is the newest sound snapshot at or below the end of the log, plus the batches behind it, by the one rule. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "storage/batch_reader.h"
#include "storage/checkpoint.h"
#include "storage/plog_internal.h"

/* ---- Producer state ---- */

struct replay {
    struct plog *log;
    int64_t end_offset; /* batches from here on are not for us */
    int64_t previous_end;
    int unapplied;
    bool epochs;  /* note them too */
    bool collect; /* aborted transactions go to this segment's index */
    struct segment *segment;
};

static enum error apply_replayed(struct replay *r, int64_t end_offset)
{
    struct producer_state *ps = r->log->producers;
    const struct completed_txn *txns;
    int count = r->collect ? producer_state_completed(ps, &txns) : 0;
    enum error error = OK;
    for (int i = 0; i < count && error == OK; i++) {
        struct aborted_txn aborted = {txns[i].producer_id, txns[i].first_offset, txns[i].last_offset, txns[i].last_stable_offset};
        if (txns[i].aborted)
            error = segment_append_aborted(r->segment, &aborted);
    }
    producer_state_apply(ps, end_offset);
    r->unapplied = 0;
    return error;
}

static enum error replay_batch(void *arg, const uint8_t *batch, uint64_t pos)
{
    struct replay *r = arg;
    if (batch_base_offset(batch) >= r->end_offset)
        return ERR_CANCELLED;
    if (batch_last_offset(batch) < plog_start_offset(r->log))
        return OK; /* deleted: a rebuild would not see it either */
    if (r->epochs)
        plog_note_epoch(r->log, batch, r->previous_end);
    r->previous_end = batch_next_offset(batch);
    struct problem problem;
    enum error error = plog_stage(r->log, PRODUCER_COPIED, batch, NULL, &problem);
    if (error == CORRUPT_MESSAGE) {
        plog_event(r->log, "%s: passed over", problem.message);
        error = OK;
    }
    /* Staging bounds what a segment full of producers takes. */
    if (error == OK && ++r->unapplied >= 1000)
        error = apply_replayed(r, batch_next_offset(batch));
    return error;
}

/* Feeds the batches from the state's end offset up to end_offset. */
static enum error replay(struct plog *log, int64_t end_offset)
{
    int64_t from = producer_state_end_offset(log->producers);
    enum error error = OK;
    struct replay r = {.log = log, .end_offset = end_offset};
    for (int i = plog_segment_floor(log, from); i < log->segment_count && error == OK; i++) {
        struct segment *s = log->segments[i];
        if (segment_base_offset(s) >= end_offset)
            break;
        error = segment_each(s, MAX(from, segment_base_offset(s)), false, replay_batch, &r);
    }
    if (error != OK && error != ERR_CANCELLED) {
        producer_state_discard(log->producers);
        return error;
    }
    return apply_replayed(&r, end_offset);
}

enum error plog_rebuild_producers(struct plog *log, int64_t end_offset)
{
    struct problem note = {0};
    enum error error =
        producer_state_reload(log->producers, MIN(plog_start_offset(log), end_offset), end_offset, plog_now_ms(log), &note);
    if (error == OK && note.code != OK)
        plog_event(log, "%s", note.message);
    return error == OK ? replay(log, end_offset) : error;
}

/* ---- Segments that must be read ---- */

static enum error recover_batch(void *arg, const uint8_t *batch, uint64_t pos)
{
    struct replay *r = arg;
    enum error error = replay_batch(r, batch, pos);
    /* A marker's aborted transaction goes into the index before the next batch is looked at. */
    return error == OK && batch_is_control(batch) ? apply_replayed(r, batch_next_offset(batch)) : error;
}

static enum error damaged(struct plog *log, struct segment *s, int64_t sound_end, const char *reason, struct problem *problem)
{
    char name[SEGMENT_NAME_MAX];
    problem_set(problem, ERR_CORRUPT, "%s/%s is damaged behind offset %" PRId64, log->dir,
                segment_file_name(segment_base_offset(s), SEGMENT_LOG_SUFFIX, name), sound_end - 1);
    problem_detail(problem, "%s; everything below offset %" PRId64 " was on disk once, so this is no crash",
                   reason != NULL ? reason : "no reason", plog_recovery_point(log));
    problem_hint(problem, "restore the file from a copy, or take the partition's line out of " RECOVERY_POINT_CHECKPOINT
                          " to have the log cut there");
    return ERR_CORRUPT;
}

/* Segment `index` is read from front to end. Behind a cut, the segments that follow go. *state_stands: of how many segments the producer state was built (0: of none), and
 * snapshots above them are gone: those are of what the log held before the crash. Between one segment and the next there may be a gap in the offsets: the state goes on over it. */
static enum error recover_segment(struct plog *log, int index, int *state_stands, struct problem *problem)
{
    struct segment *s = log->segments[index];
    int64_t base_offset = segment_base_offset(s);
    enum error error = OK;
    if (*state_stands == 0 || *state_stands != index)
        error = plog_rebuild_producers(log, base_offset);
    *state_stands = index + 1;
    struct replay r = {.log = log, .end_offset = INT64_MAX, .epochs = true, .collect = true, .segment = s};
    /* What is said when it is not this segment that is damaged, but what its producer state is built from. */
    struct segment_recovery recovery = {.next_offset = base_offset, .reason = "the batches before it cannot be read"};
    segment_set_durable_below(s, MIN(plog_recovery_point(log), plog_segment_upper(log, index)));
    if (error == OK && index > 0)
        error = segment_next_offset(log->segments[index - 1], &r.previous_end);
    if (error == OK && log->distrust_cache)
        error = segment_forget(s);
    if (error == OK)
        error = segment_recover(s, log->config.index_interval_bytes, recover_batch, &r, &recovery);
    /* Below the recovery point nobody would read it again after the next crash: its new indexes must be durable. */
    log->repaired = log->repaired || recovery.cut_bytes > 0 || plog_segment_upper(log, index) < plog_recovery_point(log);
    if (error == CORRUPT_MESSAGE)
        return damaged(log, s, recovery.next_offset, recovery.reason, problem);
    if (error == OK)
        error = apply_replayed(&r, recovery.next_offset);
    if (error != OK)
        return error;
    if (recovery.batches > 0 || recovery.cut_bytes > 0) /* a new log has nothing to tell */
        plog_event(log,
                   "segment %" PRId64 " recovered: %" PRId64 " batches, end offset %" PRId64 ", %" PRIu64 " bytes cut off%s%s",
                   base_offset, recovery.batches, recovery.next_offset, recovery.cut_bytes, recovery.reason != NULL ? ": " : "",
                   recovery.reason != NULL ? recovery.reason : "");
    bool hole = log->recovery_point_known && plog_segment_upper(log, index) > plog_recovery_point(log) &&
                plog_segment_upper(log, index) != recovery.next_offset;
    while ((recovery.cut_bytes > 0 || hole) && log->segment_count > index + 1) {
        plog_event(log, "segment %" PRId64 " lies behind what was lost: removed",
                   segment_base_offset(log->segments[log->segment_count - 1]));
        if ((error = plog_drop_last(log)) != OK)
            return error;
        log->repaired = true;
    }
    if (index + 1 == log->segment_count)
        return OK;
    error = segment_seal(s);
    return error == OK ? producer_state_take_snapshot(log->producers, false) : error;
}

/* Which segments can't be trusted as they are. */
static bool needs_recovery(struct plog *log, int index, bool clean)
{
    struct problem problem;
    int64_t recovery_point = plog_recovery_point(log);
    bool last = index + 1 == log->segment_count;
    /* A segment that ends exactly at the recovery point may have been sealed after the flush: its indexes may not be durable. */
    if (!clean &&
        (last || plog_segment_upper(log, index) >= recovery_point || plog_segment_upper(log, index) <= log->dropped_below))
        return true;
    enum error error = segment_check(log->segments[index], &problem);
    if (error != OK)
        plog_event(log, "%s The indexes of the segment are built anew.", problem.message);
    return error != OK;
}

/* The check has opened the files of a segment that nobody may ask for again: a log of thousands would hold as many of them. */
static enum error reopen(struct plog *log, int index)
{
    struct segment *s;
    enum error error = segment_open(log->fs, log->dir, segment_base_offset(log->segments[index]), &s);
    if (error != OK)
        return error;
    segment_unref(log->segments[index]);
    log->segments[index] = s;
    return OK;
}

/* What was dropped at the front and came back with a hole. A gap proves nothing where nothing is known of durability, see above, and where compaction alone makes room; nor do epochs that
 * are missing below messages that have none. */
static enum error drop_remains(struct plog *log)
{
    int count = 0;
    bool hole = false;
    if (!log->recovery_point_known || (log->config.cleanup_compact && !log->config.cleanup_delete))
        return OK;
    for (; plog_segment_upper(log, count) <= log->dropped_below; count++) {
        int64_t end_offset = -1;
        enum error error = hole ? OK : segment_scan_end(log->segments[count], &end_offset);
        if (error == UNSUPPORTED_FOR_MESSAGE_FORMAT)
            return OK;
        if (error != OK && error != CORRUPT_MESSAGE)
            return error;
        hole = hole || error == CORRUPT_MESSAGE || end_offset != plog_segment_upper(log, count);
    }
    if (!hole)
        return OK;
    plog_event(log, "%d segments below offset %" PRId64 " had been dropped and came back with holes: removed", count,
               log->dropped_below);
    enum error error = plog_drop_front(log, count);
    log->repaired = true;
    atomic_store(&log->start_offset, MAX(plog_start_offset(log), segment_base_offset(log->segments[0])));
    return error;
}

static enum error recover_segments(struct plog *log, bool clean, int *state_stands, struct problem *problem)
{
    enum error error = clean ? OK : drop_remains(log);
    for (int i = 0; i < log->segment_count && error == OK; i++) {
        if (needs_recovery(log, i, clean))
            error = recover_segment(log, i, state_stands, problem);
        else if (i + 1 < log->segment_count)
            error = reopen(log, i);
    }
    if (error == OK && !segment_is_active(plog_active(log)))
        error = segment_activate(plog_active(log));
    if (error == OK)
        error = segment_next_offset(plog_active(log), &log->end_offset);
    return error;
}

/* ---- Leader epochs ---- */

/* *ret_lost: the file is not there, or says nothing that can be believed. */
static enum error open_epochs(struct plog *log, bool *ret_lost)
{
    struct problem problem = {0};
    struct buf path = {0};
    buf_printf(&path, "%s/%s", log->dir, LEADER_EPOCH_CHECKPOINT);
    enum error error = fs_stat(log->fs, buf_cstr(&path), NULL, NULL, NULL);
    bool missing = error == ERR_NOT_FOUND; /* a disk that fails has not said that */
    buf_fini(&path);
    if (error != OK && !missing)
        return error;
    error = leader_epochs_load(&log->epochs, &problem);
    bool damaged_file = error == ERR_CORRUPT || error == ERR_UNSUPPORTED;
    if (error != OK && !damaged_file)
        return error;
    if (damaged_file)
        plog_event(log, "%s: building it from the batches", problem.message);
    log->remains_of_nobody = missing && log->fresh && uuid_is_zero(&log->topic_id);
    *ret_lost = missing || damaged_file;
    log->dropped_below = !*ret_lost && log->epochs.count > 0 ? log->epochs.entries[0].start_offset : 0;
    return OK;
}

struct front {
    struct leader_epochs epochs;
    int64_t upper_offset;
};

static enum error note_front_epoch(void *arg, const uint8_t *batch, uint64_t pos)
{
    struct front *f = arg;
    if (batch_base_offset(batch) >= f->upper_offset)
        return ERR_CANCELLED;
    if (batch_leader_epoch(batch) > leader_epochs_latest(&f->epochs))
        (void)leader_epochs_assign_quiet(&f->epochs, batch_leader_epoch(batch), batch_base_offset(batch));
    return OK;
}

/* What the file does not know is in the batches: all of it when the file is lost; and a log start that was raised, and not in its checkpoint yet when the process died, is where it was,
 * while the epochs of what came back with it went from the file when it was raised. Behind recovery: the indexes are sound now. */
static enum error complete_epochs(struct plog *log, bool lost)
{
    struct leader_epochs *e = &log->epochs;
    if (lost) {
        e->count = 0;
        log->epochs_version++;
    }
    struct front front = {.upper_offset = e->count > 0 ? e->entries[0].start_offset : log->end_offset};
    int64_t from = plog_start_offset(log);
    if (front.upper_offset <= from)
        return OK;
    leader_epochs_init(&front.epochs, log->fs, log->dir);
    enum error error = OK;
    for (int i = plog_segment_floor(log, from); i < log->segment_count && error == OK; i++)
        error = segment_each(log->segments[i], MAX(from, segment_base_offset(log->segments[i])), false, note_front_epoch, &front);
    if (error == ERR_CANCELLED)
        error = OK;
    if (error == OK && front.epochs.count > 0) {
        for (size_t i = 0; i < e->count; i++)
            (void)leader_epochs_assign_quiet(&front.epochs, e->entries[i].epoch, e->entries[i].start_offset);
        struct leader_epochs old = *e;
        *e = front.epochs;
        front.epochs = old;
        log->epochs_version++;
    }
    leader_epochs_fini(&front.epochs);
    return error;
}

/* ---- Opening ---- */

static enum error open_topic_id(struct plog *log, struct uuid topic_id, struct problem *problem)
{
    struct buf path = {0};
    struct problem note;
    struct uuid found = UUID_ZERO;
    buf_printf(&path, "%s/%s", log->dir, PARTITION_METADATA_FILE);
    enum error error = partition_metadata_read(log->fs, buf_cstr(&path), &found, &note);
    buf_fini(&path);
    if (error == ERR_CORRUPT || error == ERR_UNSUPPORTED) {
        plog_event(log, "%s", note.message);
        found = UUID_ZERO;
    } else if (error != OK && error != ERR_NOT_FOUND) {
        return error;
    }
    log->topic_id = found;
    if (uuid_is_zero(&topic_id))
        return OK;
    error = plog_set_topic_id(log, topic_id);
    if (error != INCONSISTENT_TOPIC_ID)
        return error;
    char has[UUID_TEXT_SIZE], wanted[UUID_TEXT_SIZE];
    problem_set(problem, INCONSISTENT_TOPIC_ID, "the folder %s belongs to the topic id %s, not to %s", log->dir,
                uuid_text(&found, has), uuid_text(&topic_id, wanted));
    problem_hint(problem, "move the folder away if its data is not needed");
    return INCONSISTENT_TOPIC_ID;
}

enum error plog_load_last_batch(struct plog *log)
{
    struct segment_position position;
    log->last_batch_epoch = -1;
    log->ends_with_own_barrier = false;
    for (int i = log->segment_count - 1; i >= 0; i--) {
        struct segment *s = log->segments[i];
        enum error error = segment_last_batch(s, &position);
        if (error == ERR_NOT_FOUND)
            continue;
        /* Barriers are small: nothing else needs to be read whole. */
        struct buf batch = {0};
        if (error == OK)
            error = segment_load(s, position.pos, MIN(position.bytes, (uint64_t)BATCH_OVERHEAD), &batch);
        if (error == OK && batch_is_control(batch.data) && position.bytes <= 64 * 1024) {
            buf_clear(&batch);
            error = segment_load(s, position.pos, position.bytes, &batch);
            log->ends_with_own_barrier = error == OK && plog_is_own_barrier(log, batch.data);
        }
        log->last_batch_epoch = position.leader_epoch;
        buf_fini(&batch);
        return error;
    }
    return OK;
}

static struct plog *new_log(const struct plog_params *params)
{
    struct plog *log = mem_calloc(1, sizeof(*log));
    log->fs = params->fs;
    log->clock = params->clock;
    log->dir = mem_strdup(params->dir);
    log->cluster_id = mem_strdup(params->cluster_id);
    log->config = params->config;
    log->event = params->event;
    log->event_arg = params->event_arg;
    log->checkpoint = params->checkpoint;
    log->failed_callback = params->failed;
    log->sync_parent = params->sync_parent;
    log->owner_arg = params->owner_arg;
    log->last_batch_epoch = -1;
    TAILQ_INIT(&log->deleted);
    leader_epochs_init(&log->epochs, log->fs, log->dir);
    log->producers = producer_state_create(log->fs, log->dir, params->config.producer_id_expiration_ms);
    mutex_init(&log->files);
    mutex_init(&log->syncing);
    condition_init(&log->files_idle);
    log->distrust_cache = params->distrust_cache;
    log->recovery_point_known = params->recovery_point >= 0 && !params->foreign;
    atomic_store(&log->recovery_point, MAX(params->recovery_point, 0));
    atomic_store(&log->start_offset, MAX(params->log_start_offset, 0));
    return log;
}

static enum error create_dir(struct plog *log, bool *ret_created)
{
    enum error error = fs_mkdir(log->fs, log->dir);
    *ret_created = error == OK;
    return error == ERR_EXISTS ? OK : error;
}

/* The first segment of a folder. Before it there is nothing to lose, and the folder's own name may not be durable, whoever created it. Where all segments were dropped and the log start's
 * checkpoint was not written since, the epochs know where offsets go on. */
static enum error create_first_segment(struct plog *log)
{
    struct segment *s;
    atomic_store(&log->start_offset, MAX(plog_start_offset(log), log->dropped_below));
    enum error error = segment_create(log->fs, log->dir, plog_start_offset(log), &s);
    log->fresh = true;
    if (error == OK)
        plog_add_segment(log, s);
    return error;
}

/* The log's range as it turned out, against what the checkpoints say. */
static enum error settle_offsets(struct plog *log, const struct plog_params *params)
{
    int64_t start = plog_start_offset(log);
    if (start > log->end_offset) {
        plog_event(log, "the log start offset %" PRId64 " lies behind the end %" PRId64 ": the log begins there anew", start,
                   log->end_offset);
        atomic_store(&log->high_watermark, log->end_offset);
        return plog_restart_at(log, start);
    }
    int64_t hw = MIN(params->high_watermark, log->end_offset);
    atomic_store(&log->high_watermark, MAX(hw, start));
    return OK;
}

/* What recovery has read may be in the page cache only. Where it found everything as it was left, that is no worse than before: the recovery point stays, and a flush makes the rest
 * durable when somebody wants it, for thousands of logs would wait for the disk here, and one for gigabytes. What it changed must stay so before anything is appended: else the next
 * power cut brings back, beside what is written now, what was cut off. */
static enum error settle_durability(struct plog *log, bool clean)
{
    atomic_store(&log->recovery_point, clean ? log->end_offset : MIN(plog_recovery_point(log), log->end_offset));
    atomic_store(&log->epochs_point, plog_recovery_point(log));
    log->unflushed = plog_recovery_point(log) < log->end_offset;
    return !clean && (log->repaired || log->distrust_cache) ? plog_flush_now(log) : OK;
}

static enum error open_log(struct plog *log, const struct plog_params *params, struct problem *problem)
{
    bool clean = params->clean_shutdown;
    bool epochs_lost = false, created = false, found = true;
    int state_stands = 0;
    enum error error = create_dir(log, &created);
    log->fresh = created || params->recovery_point <= 0;
    if (error == OK)
        error = open_topic_id(log, params->topic_id, problem);
    if (error == OK)
        error = open_epochs(log, &epochs_lost);
    if (error == OK)
        error = plog_open_segments(log);
    if (error == OK && log->segment_count == 0) {
        error = create_first_segment(log);
        found = clean = false; /* nothing there to trust */
    }
    /* The checkpoint may be older than the front of the log: a snapshot from below the first segment has a hole behind it. */
    if (error == OK)
        atomic_store(&log->start_offset, MAX(plog_start_offset(log), segment_base_offset(log->segments[0])));
    if (error == OK)
        error = producer_state_load_list(log->producers);
    if (error == OK)
        error = recover_segments(log, clean, &state_stands, problem);
    if (error == OK)
        error = settle_offsets(log, params);
    if (error == OK && (state_stands != log->segment_count || producer_state_end_offset(log->producers) != log->end_offset))
        error = plog_rebuild_producers(log, log->end_offset);
    if (error == OK)
        error = leader_epochs_truncate_from_end(&log->epochs, MIN(log->end_offset, INT64_MAX - 1) +
                                                                  1); /* one that begins at the end has no batch yet */
    if (error == OK)
        error = complete_epochs(log, epochs_lost);
    if (error == OK)
        error = leader_epochs_truncate_from_start(&log->epochs, plog_start_offset(log));
    if (error == OK)
        error = plog_load_last_batch(log);
    if (error != OK)
        return error;
    plog_count_bytes(log);
    producer_state_on_high_watermark(log->producers, plog_high_watermark(log));
    log->dir_unsynced = !clean;
    log->synced_below = clean ? segment_base_offset(plog_active(log)) : 0;
    if (found && !clean)
        segment_distrust_tail(plog_active(log));
    return settle_durability(log, clean);
}

/* What was passed over as durable turned out unreadable when something of it was needed. */
static void not_opened(const struct plog *log, enum error error, struct problem *problem)
{
    if (error != CORRUPT_MESSAGE && error != ERR_TRUNCATED && error != ERR_CORRUPT) {
        problem_set(problem, error, "the log %s cannot be opened: %s", log->dir, error_message(error));
        return;
    }
    problem_set(problem, error, "the log %s is damaged below offset %" PRId64 ": %s", log->dir, plog_recovery_point(log),
                error_message(error));
    problem_detail(problem, "all of that was on disk once, so this is no crash");
    problem_hint(problem, "restore the folder from a copy, or take the partition's line out of " RECOVERY_POINT_CHECKPOINT
                          " to have every segment read and the log cut where it is damaged");
}

enum error plog_open(const struct plog_params *params, struct plog **ret_log, struct problem *problem)
{
    struct problem ignored;
    problem = problem != NULL ? problem : &ignored;
    problem->code = OK;
    struct plog *log = new_log(params);
    enum error error = open_log(log, params, problem);
    if (error == OK) {
        *ret_log = log;
        return OK;
    }
    if (problem->code == OK)
        not_opened(log, error, problem);
    (void)plog_close(log, false);
    return error;
}
