/* Appending: one pwritev for the batches of clients that come together, one per run of batches for a copied chunk.
 *
 * Order of every append: check, stage the producer state, roll when due, write, and only then change anything in memory. A write that fails leaves bytes
 * behind the segment's known end, which the next append cuts off (segment.h), and nothing else. Nothing is synced here.
 *
 * The one rule of barriers (spec section 5) stands in plog_stage(), and nowhere else: leader's append, copied append, load, recovery and rebuild all pass
 * through it, batch by batch in the log's order, so that producers seen before a barrier in the same chunk don't outlive it. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/hooks.h"
#include "base/stats.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "storage/plog_internal.h"

/* ---- Producer state: what a batch does ---- */

static bool parse_barrier(const struct plog *log, const uint8_t *batch, struct control_record *ret_control)
{
    if (!batch_is_control(batch) || batch_producer_id(batch) != NO_PRODUCER_ID)
        return false;
    if (control_parse(batch, ret_control) != OK || ret_control->type != CONTROL_MIRROR_PID_RESET)
        return false;
    return str_eq(ret_control->writer_cluster_id, str_of(log->cluster_id));
}

bool plog_is_own_barrier(const struct plog *log, const uint8_t *batch)
{
    struct control_record control;
    return parse_barrier(log, batch, &control);
}

static enum error stage_control(struct plog *log, enum producer_origin origin, const uint8_t *batch, int *ret_expired,
                                struct problem *problem)
{
    struct control_record control;
    int64_t producer_id = batch_producer_id(batch);
    if (producer_id == NO_PRODUCER_ID) {
        if (parse_barrier(log, batch, &control) && !TEST_SWITCH("suppress-barrier")) {
            int expired = producer_state_stage_barrier(log->producers, control.scope);
            if (ret_expired != NULL)
                *ret_expired = expired;
        }
        return OK; /* KRaft's own and unknown types pass (facts 41) */
    }
    enum error error = control_parse(batch, &control);
    if (error == ERR_NOT_FOUND)
        return OK; /* compaction took the marker: the whole transaction is gone */
    if (error != OK)
        return problem_set(problem, CORRUPT_MESSAGE, "the control batch at offset %" PRId64 " cannot be read: %s",
                           batch_base_offset(batch), error_message(error));
    if (!control_is_end_txn(&control))
        return OK;
    return producer_state_stage_marker(log->producers, origin, producer_id, batch_producer_epoch(batch),
                                       control.type == CONTROL_COMMIT, control.coordinator_epoch, control.offset,
                                       control.timestamp, problem);
}

enum error plog_stage(struct plog *log, enum producer_origin origin, const uint8_t *batch, int *ret_expired,
                      struct problem *problem)
{
    if (batch_is_control(batch))
        return stage_control(log, origin, batch, ret_expired, problem);
    if (batch_producer_id(batch) == NO_PRODUCER_ID)
        return OK;
    struct producer_batch_info info = {
        .producer_id = batch_producer_id(batch),
        .base_offset = batch_base_offset(batch),
        .last_offset = batch_last_offset(batch),
        .max_timestamp = batch_max_timestamp(batch),
        .base_sequence = batch_base_sequence(batch),
        .producer_epoch = batch_producer_epoch(batch),
        .transactional = batch_is_transactional(batch),
    };
    return producer_state_stage_batch(log->producers, origin, &info, problem);
}

/* ---- Rolling ---- */

/* The active segment is empty and begins too far below base_offset: it goes, so that no empty one stays between others. The new one's name is durable with the removal of the old
 * one: a power cut never finds neither. */
static enum error replace_empty(struct plog *log, int64_t base_offset)
{
    struct segment *next;
    enum error error = segment_create(log->fs, log->dir, base_offset, &next);
    if (error == OK) {
        error = plog_drop_last(log);
        if (error != OK)
            segment_unref(next);
    }
    if (error != OK)
        return error == ERR_NO_SPACE ? ERR_IO : error; /* which of the two the folder holds is not known: the next start looks */
    log->dir_unsynced = true;
    plog_add_segment(log, next);
    if (log->segment_count > 1)
        return OK;
    /* It was the only one: the log begins where its first batch will. */
    atomic_store(&log->high_watermark, MAX(plog_high_watermark(log), base_offset));
    return plog_raise_start(log, base_offset);
}

enum error plog_roll_at(struct plog *log, int64_t base_offset)
{
    struct segment *active = plog_active(log), *next;
    ASSERT(base_offset >= log->end_offset);
    if (segment_size_bytes(active) == 0)
        return segment_base_offset(active) == base_offset ? OK : plog_broken(log, replace_empty(log, base_offset));
    /* The one wait for a disk: a log that was never flushed has no durable name for its first segment. */
    enum error error = log->fresh && log->segment_count == 1 ? fs_sync_dir(log->fs, log->dir) : OK;
    if (error != OK)
        return plog_broken(log, error);
    error = segment_seal(active);
    if (error != OK) {
        enum error undo = segment_activate(active); /* a full disk may have room again at the next try */
        return plog_broken(log, undo != OK ? undo : error);
    }
    /* Not synced: a snapshot that a crash tears is found by its CRC and built again from the log. */
    error = producer_state_take_snapshot(log->producers, false);
    if (error != OK)
        plog_event(log, "no producer snapshot at offset %" PRId64 ": %s", log->end_offset, error_message(error));
    error = segment_create(log->fs, log->dir, base_offset, &next);
    if (error != OK) {
        enum error undo = segment_activate(active);
        return plog_broken(log, undo != OK ? undo : error);
    }
    log->dir_unsynced = true;
    plog_add_segment(log, next);
    return OK;
}

enum error plog_roll(struct plog *log)
{
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    return segment_size_bytes(plog_active(log)) == 0 ? OK : plog_roll_at(log, log->end_offset);
}

/* How long the active segment has been collecting, seen from a batch with this timestamp (Kafka: LogSegment.timeWaitedForRoll): by the timestamps of its
 * batches, for data that has them. */
static enum error over_age(struct plog *log, int64_t timestamp, bool *ret_over)
{
    int64_t first, waited;
    enum error error = segment_first_timestamp(plog_active(log), &first);
    if (error != OK)
        return error;
    if (first >= 0) {
        waited = timestamp - first;
    } else {
        int64_t created;
        error = segment_modified_ms(plog_active(log), &created);
        if (error != OK)
            return error;
        waited = plog_now_ms(log) - created;
    }
    *ret_over = waited > log->config.segment_ms;
    return OK;
}

/* Whether the active segment can't take `b` behind run_bytes that are going to be in it already (Kafka: LogSegment.shouldRoll). */
static enum error roll_due(struct plog *log, uint64_t run_bytes, const struct segment_batch *b, bool *ret_due)
{
    struct segment *active = plog_active(log);
    uint64_t size = segment_size_bytes(active) + run_bytes;
    *ret_due = true;
    if (!segment_fits_offset(active, b->last_offset))
        return OK;
    if (size > 0 && size + b->bytes > (uint64_t)MIN(MAX(log->config.segment_bytes, 1), SEGMENT_MAX_BYTES))
        return OK;
    if (size > 0 && segment_index_full(active, log->config.segment_index_bytes))
        return OK;
    if (segment_size_bytes(active) > 0)
        return over_age(log, b->max_timestamp, ret_due);
    *ret_due = false;
    return OK;
}

/* ---- Writing ---- */

void plog_note_epoch(struct plog *log, const uint8_t *batch, int64_t previous_end)
{
    struct leader_epochs *e = &log->epochs;
    int32_t epoch = batch_leader_epoch(batch);
    if (epoch < 0 || epoch == leader_epochs_latest(e))
        return;
    /* A higher epoch that begins at this batch has none of its own: it was assigned ahead of it (a mirror raises the leader epoch above its source's before it
     * copies). Left in place it would hide the source's own history. */
    bool changed = false;
    while (e->count > 0 && e->entries[e->count - 1].epoch > epoch && e->entries[e->count - 1].start_offset >= previous_end &&
           e->entries[e->count - 1].start_offset <= batch_last_offset(batch)) {
        e->count--;
        changed = true;
    }
    if (epoch > leader_epochs_latest(e))
        changed |= leader_epochs_assign_quiet(e, epoch, batch_base_offset(batch));
    if (!changed)
        return;
    mutex_lock(&log->files);
    log->epochs_version++;
    mutex_unlock(&log->files);
}

/* Behind a successful write: the staged state becomes the state. */
static enum error commit(struct plog *log, int64_t end_offset, uint64_t bytes)
{
    const struct completed_txn *txns;
    int count = producer_state_completed(log->producers, &txns);
    enum error error = OK;
    for (int i = 0; i < count && error == OK; i++) {
        struct aborted_txn aborted = {txns[i].producer_id, txns[i].first_offset, txns[i].last_offset, txns[i].last_stable_offset};
        if (txns[i].aborted)
            error = segment_append_aborted(plog_active(log), &aborted);
    }
    producer_state_apply(log->producers, end_offset);
    log->end_offset = end_offset;
    atomic_fetch_add(&log->size_bytes, bytes);
    /* The batch is in the log and its index entry is not: a restart builds it, this process must not go on. */
    return error == ERR_NO_SPACE ? plog_broken(log, ERR_IO) : plog_broken(log, error);
}

static void fill_appended(const struct plog *log, int64_t base_offset, struct plog_appended *ret)
{
    *ret = (struct plog_appended){.base_offset = base_offset,
                                  .last_offset = log->end_offset - 1,
                                  .log_append_time_ms = -1,
                                  .log_start_offset = plog_start_offset(log),
                                  .max_producer_id = -1,
                                  .batches = 1};
}

/* One batch of ours whose producer state is staged, in one or two pieces. */
static enum error write_one(struct plog *log, const uint8_t *header, const struct iovec *iov, int iov_count)
{
    struct segment_batch b = {(uint32_t)batch_size_bytes(header), batch_last_offset(header), batch_max_timestamp(header)};
    bool due;
    enum error error = roll_due(log, 0, &b, &due);
    if (error == OK && due)
        error = plog_roll_at(log, log->end_offset);
    if (error == OK)
        error = segment_append(plog_active(log), iov, iov_count, &b, 1, log->config.index_interval_bytes);
    if (error != OK) {
        producer_state_discard(log->producers);
        return plog_broken(log, error);
    }
    plog_note_epoch(log, header, log->end_offset);
    log->last_batch_epoch = batch_leader_epoch(header);
    log->ends_with_own_barrier = false;
    return commit(log, b.last_offset + 1, b.bytes);
}

/* Offsets end here: what a damaged or hostile file says must not lead to ones that wrap. */
#define LAST_BASE_OFFSET (INT64_MAX - 2 * (int64_t)INT32_MAX)

static enum error check_usable(const struct plog *log, struct problem *problem)
{
    if (plog_failed(log))
        return problem_set(problem, KAFKA_STORAGE_ERROR, "the log %s is out of service", log->dir);
    if (log->end_offset > LAST_BASE_OFFSET)
        return problem_set(problem, KAFKA_STORAGE_ERROR, "the log %s has no offsets left", log->dir);
    return OK;
}

/* ---- Clients ---- */

/* Batches of one pwritev: bounds what stands on the stack. */
#define CLIENT_RUN_BATCHES 64

static bool is_duplicate(struct plog *log, const struct validated *v, const uint8_t *header, struct plog_appended *ret_appended)
{
    struct producer_batch found;
    struct producer_batch_info info = {.producer_id = v->producer_id,
                                       .base_offset = batch_base_offset(header),
                                       .last_offset = batch_last_offset(header),
                                       .base_sequence = v->base_sequence,
                                       .producer_epoch = v->producer_epoch};
    if (v->producer_id < 0 || !producer_state_find_duplicate(log->producers, &info, &found))
        return false;
    fill_appended(log, producer_batch_first_offset(&found), ret_appended);
    ret_appended->last_offset = found.last_offset;
    ret_appended->log_append_time_ms = found.timestamp; /* facts 17 */
    ret_appended->duplicate = true;
    ret_appended->batches = 0;
    return true;
}

/* What is checked and staged, and waits for its write. */
struct client_run {
    struct plog_client_append *const *items;
    int first, count; /* items whose outcome hangs on the write, duplicates of what is in it among them */
    int batches;
    uint64_t bytes;
    int64_t end_offset;
    struct iovec iov[2 * CLIENT_RUN_BATCHES];
    struct segment_batch noted[CLIENT_RUN_BATCHES];
};

static void begin_client_run(const struct plog *log, struct client_run *run, int first)
{
    run->first = first;
    run->count = run->batches = 0;
    run->bytes = 0;
    run->end_offset = log->end_offset;
}

static enum error write_batches(struct plog *log, const struct client_run *run)
{
    enum error error =
        segment_append(plog_active(log), run->iov, 2 * run->batches, run->noted, run->batches, log->config.index_interval_bytes);
    if (error != OK) {
        producer_state_discard(log->producers);
        return plog_broken(log, error);
    }
    int64_t previous_end = log->end_offset;
    for (int i = 0; i < run->batches; i++) {
        const uint8_t *header = run->iov[2 * i].iov_base;
        plog_note_epoch(log, header, previous_end);
        previous_end = batch_next_offset(header);
        log->last_batch_epoch = batch_leader_epoch(header);
    }
    log->ends_with_own_barrier = false;
    return commit(log, run->end_offset, run->bytes);
}

static void write_client_run(struct plog *log, struct client_run *run)
{
    int64_t end_offset = log->end_offset;
    enum error error = run->batches > 0 ? write_batches(log, run) : OK;
    for (int i = run->first; error != OK && i < run->first + run->count; i++) {
        struct plog_client_append *item = run->items[i];
        if (item->error == OK && item->appended.last_offset >= end_offset)
            item->error = problem_set(item->problem, error, "writing to the log %s failed: %s", log->dir, error_message(error));
    }
    begin_client_run(log, run, run->first + run->count);
}

static void add_to_run(struct client_run *run, struct validated *records, const struct segment_batch *b)
{
    run->iov[2 * run->batches] = (struct iovec){records->header, BATCH_OVERHEAD};
    run->iov[2 * run->batches + 1] = (struct iovec){(void *)records->rest.p, (size_t)records->rest.len};
    run->noted[run->batches++] = *b;
    run->bytes += b->bytes;
    run->end_offset = b->last_offset + 1;
}

static enum error not_written(struct plog *log, struct problem *problem, enum error error)
{
    (void)plog_broken(log, error);
    return problem_set(problem, error, "writing to the log %s failed: %s", log->dir, error_message(error));
}

static void fill_from_client(const struct plog *log, const struct validated *records, struct plog_appended *ret)
{
    fill_appended(log, batch_base_offset(records->header), ret);
    ret->last_offset = batch_last_offset(records->header);
    ret->log_append_time_ms = records->log_append_time_ms;
    ret->max_producer_id = MAX(records->producer_id, -1);
}

/* ERR_CONFLICT: the run has to be written first. Whatever is refused here has staged nothing. */
static enum error stage_client(struct plog *log, struct client_run *run, struct plog_client_append *item, int32_t leader_epoch)
{
    struct validated *records = item->records;
    uint8_t *header = records->header;
    enum error error = check_usable(log, item->problem);
    if (error != OK)
        return error;
    ASSERT(!batch_is_control(header));
    batch_set_base_offset(header, run->end_offset);
    batch_set_leader_epoch(header, leader_epoch);
    if (records->origin == VALIDATE_CLIENT && is_duplicate(log, records, header, &item->appended))
        return OK;
    struct segment_batch b = {(uint32_t)batch_size_bytes(header), batch_last_offset(header), batch_max_timestamp(header)};
    bool due;
    error = roll_due(log, run->bytes, &b, &due);
    if (error != OK)
        return not_written(log, item->problem, error);
    if (run->batches > 0 && (due || run->batches == CLIENT_RUN_BATCHES))
        return ERR_CONFLICT;
    error =
        plog_stage(log, records->origin == VALIDATE_CLIENT ? PRODUCER_CLIENT : PRODUCER_COORDINATOR, header, NULL, item->problem);
    if (error != OK)
        return error;
    if (due)
        error = plog_roll_at(log, log->end_offset);
    if (error != OK) {
        producer_state_discard(log->producers);
        return not_written(log, item->problem, error);
    }
    fill_from_client(log, records, &item->appended);
    add_to_run(run, records, &b);
    return OK;
}

void plog_append_clients(struct plog *log, struct plog_client_append *const *items, int count, int32_t leader_epoch)
{
    struct client_run run;
    run.items = items;
    begin_client_run(log, &run, 0);
    for (int i = 0; i < count; i++) {
        items[i]->error = stage_client(log, &run, items[i], leader_epoch);
        if (items[i]->error == ERR_CONFLICT) {
            write_client_run(log, &run);
            items[i]->error = stage_client(log, &run, items[i], leader_epoch);
        }
        run.count++;
    }
    write_client_run(log, &run);
}

enum error plog_append_client(struct plog *log, struct validated *records, int32_t leader_epoch,
                              struct plog_appended *ret_appended, struct problem *problem)
{
    struct plog_client_append item = {.records = records, .problem = problem};
    plog_append_clients(log, &(struct plog_client_append *){&item}, 1, leader_epoch);
    if (item.error == OK)
        *ret_appended = item.appended;
    return item.error;
}

/* ---- Control batches of our own ---- */

static enum error append_own(struct plog *log, enum producer_origin origin, struct plog_appended *ret_appended, int *ret_expired)
{
    const uint8_t *batch = log->scratch.data;
    int expired = 0;
    enum error error = plog_stage(log, origin, batch, &expired, NULL);
    if (error != OK) {
        producer_state_discard(log->producers);
        return error;
    }
    int64_t base_offset = log->end_offset;
    struct iovec iov = {log->scratch.data, log->scratch.len};
    bool barrier = plog_is_own_barrier(log, batch);
    error = write_one(log, batch, &iov, 1);
    if (error != OK)
        return error;
    log->ends_with_own_barrier = barrier;
    fill_appended(log, base_offset, ret_appended);
    ret_appended->max_producer_id = MAX(batch_producer_id(batch), -1);
    if (ret_expired != NULL)
        *ret_expired = expired;
    return OK;
}

enum error plog_append_marker(struct plog *log, int64_t producer_id, int16_t producer_epoch, bool commit_it,
                              int32_t coordinator_epoch, int32_t leader_epoch, struct plog_appended *ret_appended)
{
    enum error error = check_usable(log, NULL);
    if (error != OK)
        return error;
    struct end_txn end = {commit_it, producer_id, producer_epoch, coordinator_epoch};
    buf_clear(&log->scratch);
    control_build_end_txn(&log->scratch, &end, plog_now_ms(log), log->end_offset, leader_epoch);
    return append_own(log, PRODUCER_COORDINATOR, ret_appended, NULL);
}

enum error plog_append_barrier(struct plog *log, struct str source_cluster_id, int8_t scope, int32_t leader_epoch,
                               struct plog_appended *ret_appended, int *ret_expired)
{
    enum error error = check_usable(log, NULL);
    if (error != OK)
        return error;
    buf_clear(&log->scratch);
    control_build_mirror_pid_reset(&log->scratch, source_cluster_id, str_of(log->cluster_id), scope, plog_now_ms(log),
                                   log->end_offset, leader_epoch);
    error = append_own(log, PRODUCER_COORDINATOR, ret_appended, ret_expired);
    if (error == OK)
        STAT_ADD(barriers_written, 1);
    return error;
}

/* ---- Copied batches ---- */

/* All that can be wrong with a chunk is found before its first byte is written. */
static enum error check_copied(struct plog *log, struct bytes batches, struct problem *problem)
{
    struct batch_iter it;
    const uint8_t *b;
    enum batch_found found;
    int64_t next = log->end_offset;
    batch_iter_init(&it, batches);
    while ((found = batch_iter_next(&it, &b)) == BATCH_FOUND) {
        int64_t base = batch_base_offset(b);
        if (batch_check_offsets(b) != OK || base < next || base > LAST_BASE_OFFSET)
            return problem_set(problem, CORRUPT_MESSAGE, "a batch at offset %" PRId64 " where %" PRId64 " or more is due", base,
                               next);
        if (batch_size_bytes(b) > SEGMENT_MAX_BYTES)
            return problem_set(problem, CORRUPT_MESSAGE, "the batch at offset %" PRId64 " has %" PRId64 " bytes", base,
                               batch_size_bytes(b));
        struct control_record control;
        if (batch_is_control(b) && batch_producer_id(b) != NO_PRODUCER_ID) {
            enum error error = control_parse(b, &control);
            if (error != OK && error != ERR_NOT_FOUND)
                return problem_set(problem, CORRUPT_MESSAGE, "the control batch at offset %" PRId64 " cannot be read", base);
        }
        next = batch_next_offset(b);
    }
    if (found != BATCH_END)
        return problem_set(problem, CORRUPT_MESSAGE, "the batch behind offset %" PRId64 " is damaged or cut short", next - 1);
    return OK;
}

struct run {
    const uint8_t *start;
    uint64_t bytes;
    int batches;
    int64_t end_offset;
    int32_t last_epoch;
    bool ends_with_own_barrier;
};

/* A new segment begins where the log ends, even when the next batch comes behind a gap: so recovery can tell a gap from a hole. Where the gap is too large for
 * that, batch and recovery point are made durable at once, which takes the place out of recovery's sight. */
static enum error roll_for(struct plog *log, const uint8_t *batch, bool *jumped)
{
    *jumped = batch_last_offset(batch) - log->end_offset > INT32_MAX;
    return plog_roll_at(log, *jumped ? batch_base_offset(batch) : log->end_offset);
}

static enum error settle_jump(struct plog *log)
{
    enum error error = plog_flush_now(log);
    if (error == OK && log->checkpoint != NULL)
        error = log->checkpoint(log->owner_arg);
    return error == ERR_NO_SPACE ? ERR_IO : error; /* the batch is in the log: it cannot be refused any more */
}

/* Collects and stages the longest run from it->pos on that goes into the active segment as it is. run.batches 0: roll first. */
static enum error collect_run(struct plog *log, struct batch_iter *it, struct run *run)
{
    *run = (struct run){.start = it->run.p + it->pos};
    while (run->batches < PLOG_RUN_BATCHES) {
        int64_t pos = it->pos;
        const uint8_t *b;
        if (batch_iter_next(it, &b) != BATCH_FOUND)
            break;
        struct segment_batch sb = {(uint32_t)batch_size_bytes(b), batch_last_offset(b), batch_max_timestamp(b)};
        bool due;
        enum error error = roll_due(log, run->bytes, &sb, &due);
        if (error == OK && !due)
            error = plog_stage(log, PRODUCER_COPIED, b, NULL, NULL);
        if (error != OK)
            return error;
        if (due) {
            it->pos = pos;
            break;
        }
        log->run[run->batches++] = sb;
        run->bytes += sb.bytes;
        run->end_offset = sb.last_offset + 1;
        run->last_epoch = batch_leader_epoch(b);
        run->ends_with_own_barrier = plog_is_own_barrier(log, b);
    }
    return OK;
}

static enum error write_run(struct plog *log, const struct run *run)
{
    struct iovec iov = {(void *)run->start, run->bytes};
    enum error error = segment_append(plog_active(log), &iov, 1, log->run, run->batches, log->config.index_interval_bytes);
    if (error != OK)
        return error;
    const uint8_t *b = run->start;
    int64_t previous_end = log->end_offset;
    for (int i = 0; i < run->batches; i++, b += batch_size_bytes(b)) {
        plog_note_epoch(log, b, previous_end);
        previous_end = batch_next_offset(b);
    }
    log->last_batch_epoch = run->last_epoch;
    log->ends_with_own_barrier = run->ends_with_own_barrier;
    return commit(log, run->end_offset, run->bytes);
}

static enum error append_runs(struct plog *log, struct bytes batches, int *ret_batches)
{
    struct batch_iter it;
    batch_iter_init(&it, batches);
    if (log->run == NULL)
        log->run = mem_calloc(PLOG_RUN_BATCHES, sizeof(struct segment_batch));
    bool jumped = false;
    while (it.pos < batches.len) {
        struct run run;
        enum error error = collect_run(log, &it, &run);
        if (error == OK && run.batches == 0) {
            error = roll_for(log, run.start, &jumped);
        } else if (error == OK) {
            error = write_run(log, &run);
            if (error == OK && jumped)
                error = settle_jump(log);
            jumped = false;
        }
        if (error != OK) {
            producer_state_discard(log->producers);
            return plog_broken(log, error);
        }
        *ret_batches += run.batches;
    }
    return OK;
}

static int64_t max_producer_id(struct bytes batches)
{
    struct batch_iter it;
    const uint8_t *b;
    int64_t max = -1;
    batch_iter_init(&it, batches);
    while (batch_iter_next(&it, &b) == BATCH_FOUND)
        max = MAX(max, batch_producer_id(b));
    return max;
}

enum error plog_append_copied(struct plog *log, struct bytes batches, struct plog_appended *ret_appended, struct problem *problem)
{
    enum error error = check_usable(log, problem);
    if (error == OK)
        error = check_copied(log, batches, problem);
    if (error != OK)
        return error;
    int64_t base_offset = batches.len > 0 ? batch_base_offset(batches.p) : log->end_offset;
    int count = 0;
    error = append_runs(log, batches, &count);
    if (error != OK)
        return problem_set(problem, error, "writing to the log %s failed: %s", log->dir, error_message(error));
    fill_appended(log, base_offset, ret_appended);
    ret_appended->max_producer_id = max_producer_id(batches);
    ret_appended->batches = count;
    return OK;
}
