/* The steps of a walk but reopening: each is done to the real log and to the model, and the answers are compared. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "replica.h"
#include "walk.h"

static const char *const NAMES[STEP_KINDS] = {"client",   "repeat",  "marker",     "barrier",   "copied",    "roll",
                                              "truncate", "restart", "snapshot",   "retention", "set start", "assign epoch",
                                              "set HW",   "flush",   "checkpoint", "clock",     "expire",    "reopen",
                                              "disk",     "flip",    "stop"};

const char *walk_step_name(enum step_kind kind)
{
    return NAMES[kind];
}

static int32_t own_epoch(const struct walk *w)
{
    return w->replica.p != NULL ? w->replica.leader_epoch : MAX(model_epochs_latest(&w->model.epochs), 0);
}

/* ---- Clients ---- */

/* Where the log puts the batch, and what that changes in its bytes. */
static void place(struct walk *w, struct model_batch *b)
{
    for (int i = 0; i < b->record_count; i++)
        b->records[i].offset += w->model.end;
    b->base_offset += w->model.end;
    b->last_offset += w->model.end;
    b->leader_epoch = own_epoch(w);
    batch_set_base_offset(b->bytes.data, b->base_offset);
    batch_set_leader_epoch(b->bytes.data, b->leader_epoch);
    if (!w->params.config.validate.log_append_time)
        return;
    b->max_timestamp = w->clock.now_ms;
    for (int i = 0; i < b->record_count; i++)
        b->records[i].timestamp = w->clock.now_ms;
    batch_set_max_timestamp(b->bytes.data, true, w->clock.now_ms);
}

static void check_duplicate(struct walk *w, const struct plog_appended *a, const struct model_seen *seen)
{
    WALK_CHECK(w, a->duplicate == (seen != NULL), "a batch that is %s duplicate was answered as one that is %s",
               seen ? "a" : "no", a->duplicate ? "one" : "none");
    if (seen == NULL)
        return;
    WALK_CHECK(w, a->base_offset == seen->first_offset && a->last_offset == seen->last_offset,
               "a duplicate of %" PRId64 "..%" PRId64 " was answered with %" PRId64 "..%" PRId64, seen->first_offset,
               seen->last_offset, a->base_offset, a->last_offset);
    WALK_CHECK(w, a->log_append_time_ms == seen->timestamp && a->batches == 0, "a duplicate's time is not its batch's");
}

static void check_appended(struct walk *w, const struct plog_appended *a, const struct model_batch *b)
{
    WALK_CHECK(w, a->base_offset == b->base_offset && a->last_offset == b->last_offset,
               "appended at %" PRId64 "..%" PRId64 ", not %" PRId64 "..%" PRId64, a->base_offset, a->last_offset, b->base_offset,
               b->last_offset);
    WALK_CHECK(w, a->log_start_offset == w->model.log_start, "the answer's log start is %" PRId64, a->log_start_offset);
    WALK_CHECK(w, a->max_producer_id == MAX(b->producer_id, -1), "the answer's producer id is %" PRId64, a->max_producer_id);
}

static void append_client(struct walk *w, struct model_batch *b)
{
    struct validated v = {0};
    struct problem problem = {0};
    struct plog_appended a = {0};
    const struct model_seen *seen;
    const struct validate_config *config = &w->params.config.validate;
    bool coordinator = chance(w, 12);
    enum error error = validate_records(buf_bytes(&b->bytes), 11, coordinator ? VALIDATE_COORDINATOR : VALIDATE_CLIENT, config,
                                        w->clock.now_ms, NULL, &v, NULL, &problem);
    WALK_CHECK(w, error == OK, "a batch was refused: %s", problem.message);
    enum error expected = model_check_client(&w->model, b, &seen);
    if (coordinator) {
        walk_note(w, " by a coordinator");
        expected = model_check_coordinator(&w->model, b);
        seen = NULL;
    }
    if (w->replica.p != NULL) {
        expected = w->replica.mirrored ? POLICY_VIOLATION : expected;
        error = replica_append_client(w, &v, b, &a, &problem);
    } else {
        error = plog_append_client(w->log, &v, own_epoch(w), &a, &problem);
    }
    validated_fini(&v);
    walk_note(w, " -> %s%s", error_name(error), a.duplicate ? " (duplicate)" : "");
    WALK_CHECK(w, error == expected, "a client was answered %s, not %s", error_name(error), error_name(expected));
    if (error == OK)
        check_duplicate(w, &a, seen);
    if (error == OK && seen == NULL) {
        place(w, b);
        check_appended(w, &a, b);
        model_append(&w->model, b);
    }
    buf_fini(&b->bytes);
}

static void note_batch(struct walk *w, const struct model_batch *b)
{
    struct buf text = {0};
    walk_describe_batch(b, &text);
    walk_note(w, "%s", buf_cstr(&text));
    buf_fini(&text);
}

static void step_client(struct walk *w)
{
    struct model_batch b;
    walk_make_client(w, &b);
    note_batch(w, &b);
    append_client(w, &b);
}

/* One of the last batches of a producer once more. */
static void step_repeat(struct walk *w)
{
    int64_t id = walk_pick_producer(w);
    int back = (int)pick(w, 7);
    for (int i = w->model.count - 1; i >= 0; i--) {
        const struct model_batch *old = &w->model.batches[i];
        if (old->kind != MODEL_DATA || old->producer_id != id || old->base_sequence < 0 || old->record_count == 0 || back-- > 0)
            continue;
        if (old->last_offset - old->base_offset >= MODEL_RECORDS)
            return;
        struct model_batch b = *old;
        b.bytes = (struct buf){0};
        b.last_offset -= b.base_offset;
        b.base_offset = 0;
        b.leader_epoch = -1;
        b.record_count = (int)b.last_offset + 1;
        b.max_timestamp = w->clock.now_ms;
        for (int k = 0; k < b.record_count; k++)
            b.records[k] = (struct model_record){k, w->clock.now_ms};
        walk_build_data(w, &b, CODEC_NONE);
        note_batch(w, &b);
        append_client(w, &b);
        return;
    }
}

/* ---- Control batches of our own ---- */

static void append_control(struct walk *w, struct model_batch *b, const struct plog_appended *a)
{
    b->base_offset = b->last_offset = w->model.end;
    b->leader_epoch = own_epoch(w);
    b->max_timestamp = w->clock.now_ms;
    b->record_count = 1;
    b->records[0] = (struct model_record){b->base_offset, w->clock.now_ms};
    check_appended(w, a, b);
    /* Its bytes are the codec's matter: taken from the log, and from then on they must stay. */
    struct plog_slice slice;
    WALK_CHECK(w, plog_read(w->log, b->base_offset, INT64_MAX, 1 << 20, true, &slice) == OK, "the control batch cannot be read");
    WALK_CHECK(w, plog_slice_copy(&slice, &b->bytes) == OK && b->bytes.len > BATCH_OVERHEAD, "the control batch cannot be read");
    plog_slice_release(&slice);
    WALK_CHECK(w,
               batch_is_control(b->bytes.data) && batch_base_offset(b->bytes.data) == b->base_offset &&
                   batch_producer_id(b->bytes.data) == b->producer_id && batch_leader_epoch(b->bytes.data) == b->leader_epoch,
               "the control batch is not what was asked for");
    model_append(&w->model, b);
}

void walk_append_marker(struct walk *w, struct model_batch *b)
{
    struct plog_appended a;
    bool commit = b->kind == MODEL_COMMIT;
    b->durable_first = true;
    note_batch(w, b);
    enum error expected = model_check_marker(&w->model, b);
    enum error error =
        w->replica.p != NULL
            ? partition_append_marker(w->replica.p, b->producer_id, b->producer_epoch, commit, b->coordinator_epoch, &a)
            : plog_append_marker(w->log, b->producer_id, b->producer_epoch, commit, b->coordinator_epoch, own_epoch(w), &a);
    walk_note(w, " -> %s", error_name(error));
    WALK_CHECK(w, error == expected, "a marker was answered %s, not %s", error_name(error), error_name(expected));
    if (error == OK)
        append_control(w, b, &a);
}

static void step_marker(struct walk *w)
{
    struct model_batch b = {.kind = chance(w, 2) ? MODEL_COMMIT : MODEL_ABORT, .transactional = true, .base_sequence = -1};
    b.producer_id = walk_pick_producer(w);
    const struct model_producer *p = model_producer_find(&w->model.lead, b.producer_id);
    for (int i = 0; i < 4 && (p == NULL || p->txn_first < 0); i++) { /* rather one with something to end */
        b.producer_id = walk_pick_producer(w);
        p = model_producer_find(&w->model.lead, b.producer_id);
    }
    int64_t epoch = (p == NULL ? 0 : p->epoch) + (chance(w, 5) ? pick(w, 3) - 1 : 0);
    b.producer_epoch = (int16_t)MAX(epoch, 0);
    b.coordinator_epoch = MAX(p == NULL ? 0 : p->coordinator_epoch, 0) + (chance(w, 4) ? (int32_t)pick(w, 3) - 1 : 0);
    walk_append_marker(w, &b);
}

void walk_append_barrier(struct walk *w, int8_t scope)
{
    struct plog_appended a;
    int expired = -1;
    struct model_batch b = {.kind = MODEL_BARRIER, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1, .scope = scope};
    b.durable_first = true;
    note_batch(w, &b);
    int expected = model_in_scope(&w->model.lead, scope);
    enum error error = w->replica.p != NULL ? partition_append_barrier(w->replica.p, STR("source"), scope, &a, &expired)
                                            : plog_append_barrier(w->log, STR("source"), scope, own_epoch(w), &a, &expired);
    WALK_CHECK(w, error == OK, "the barrier was refused: %s", error_name(error));
    WALK_CHECK(w, expired == expected, "the barrier expired %d producers, not %d", expired, expected);
    append_control(w, &b, &a);
}

static void step_barrier(struct walk *w)
{
    walk_append_barrier(w, chance(w, 3) ? 1 : 0);
}

/* ---- Copied ---- */

/* An empty log whose only segment is too far below the first batch begins at that batch. */
static void follow_start(struct walk *w)
{
    struct model *m = &w->model;
    struct segments now;
    walk_list_segments(w, &w->fs, &now);
    if (w->segments.count > 1 || w->segments.base[0] != m->end || now.base[0] == w->segments.base[0])
        return;
    m->hw = MAX(m->hw, now.base[0]);
    model_set_start(m, now.base[0]);
}

static void step_copied(struct walk *w)
{
    struct model_batch batches[6];
    struct buf chunk = {0};
    struct plog_appended a;
    struct problem problem;
    int count = 1 + (int)pick(w, MIN((int)ARRAY_SIZE(batches), w->most));
    bool wrong = chance(w, 25) && w->model.end > 0;
    int64_t end = wrong ? w->model.end - 1 : w->model.end, max_id = -1;
    for (int i = 0; i < count; i++) {
        walk_make_copied(w, end, &batches[i]);
        wrong = wrong && (i > 0 || batches[i].base_offset < w->model.end);
        end = batches[i].last_offset + 1;
        w->chunk_epoch = MAX(w->chunk_epoch, batches[i].leader_epoch);
        max_id = MAX(max_id, batches[i].producer_id);
        buf_append(&chunk, batches[i].bytes.data, batches[i].bytes.len);
        walk_note(w, "%s", i > 0 ? "\n             + " : "");
        note_batch(w, &batches[i]);
    }
    enum error error = w->replica.p != NULL ? replica_append_copied(w, buf_bytes(&chunk), w->chunk_epoch, &a, &problem)
                                            : plog_append_copied(w->log, buf_bytes(&chunk), &a, &problem);
    walk_note(w, " -> %s", error_name(error));
    bool refused = w->replica.p != NULL && (!w->replica.mirrored || w->chunk_epoch > w->replica.leader_epoch);
    WALK_CHECK(w,
               error == (refused ? ERR_STATE
                         : wrong ? CORRUPT_MESSAGE
                                 : OK),
               "copying was answered %s: %s", error_name(error), problem.message);
    if (error == OK)
        WALK_CHECK(w,
                   a.batches == count && a.base_offset == batches[0].base_offset && a.last_offset == end - 1 &&
                       a.max_producer_id == max_id,
                   "copied %d batches at %" PRId64 "..%" PRId64 ", highest producer id %" PRId64, a.batches, a.base_offset,
                   a.last_offset, a.max_producer_id);
    if (error == OK)
        follow_start(w);
    for (int i = 0; i < count; i++) {
        if (error == OK)
            model_append(&w->model, &batches[i]);
        buf_fini(&batches[i].bytes);
    }
    buf_fini(&chunk);
}

/* ---- Cutting ---- */

/* Where a log that is cut at offset ends: behind the last batch that lies below it, and not before the last segment that does. */
static int64_t end_after_cut(const struct walk *w, int64_t offset)
{
    int64_t end = w->segments.base[0];
    for (int i = 0; i < w->segments.count && w->segments.base[i] < offset; i++)
        end = w->segments.base[i];
    for (int i = 0; i < w->model.count; i++)
        if (w->model.batches[i].last_offset < offset)
            end = MAX(end, w->model.batches[i].last_offset + 1);
    return end;
}

static int64_t pick_cut(struct walk *w)
{
    const struct model *m = &w->model;
    if (m->count > 0 && !chance(w, 4)) { /* at or inside one of the last batches */
        const struct model_batch *b = &m->batches[m->count - 1 - pick(w, MIN(m->count, 8))];
        return b->base_offset + pick(w, MIN(b->last_offset - b->base_offset, 4) + 2);
    }
    return m->log_start - 2 + pick(w, MIN(m->end - m->log_start, 1000) + 4);
}

/* Only a mirror cuts a partition. */
static bool may_cut(struct walk *w, const char *what, enum error error)
{
    bool refused = w->replica.p != NULL && !w->replica.mirrored;
    WALK_CHECK(w, error == (refused ? ERR_STATE : OK), "%s was answered %s", what, error_name(error));
    return !refused;
}

void walk_truncate(struct walk *w, int64_t offset)
{
    struct model *m = &w->model;
    walk_note(w, "to %" PRId64, offset);
    walk_list_segments(w, &w->fs, &w->segments);
    enum error error = w->replica.p != NULL ? partition_truncate_to(w->replica.p, offset) : plog_truncate_to(w->log, offset);
    if (!may_cut(w, "truncation", error) || offset >= m->end)
        return;
    int64_t end = end_after_cut(w, offset);
    if (offset < m->log_start || offset < w->segments.base[0])
        model_restart(m, MAX(offset, 0));
    else if (end < m->log_start)
        model_restart(m, m->log_start);
    else
        model_truncate(m, end);
    walk_adopt_producers(w, m->end);
}

static void step_truncate(struct walk *w)
{
    walk_truncate(w, pick_cut(w));
}

static void step_restart(struct walk *w)
{
    static const int64_t OFFSETS[] = {0, 1, 1000, (int64_t)1 << 40};
    int64_t offset = chance(w, 2) ? w->model.end + pick(w, 20) : OFFSETS[pick(w, ARRAY_SIZE(OFFSETS))];
    walk_note(w, "at %" PRId64, offset);
    enum error error = w->replica.p != NULL ? partition_restart_at(w->replica.p, offset) : plog_restart_at(w->log, offset);
    if (may_cut(w, "restart", error))
        model_restart(&w->model, offset);
}

static void check_segments(struct walk *w, int gone, bool rolled)
{
    struct segments now;
    walk_list_segments(w, &w->fs, &now);
    WALK_CHECK(w, now.count == w->segments.count - gone + rolled, "%d segments are left of %d, %d should have gone", now.count,
               w->segments.count, gone);
    for (int i = 0; i < now.count && i + gone < w->segments.count; i++)
        WALK_CHECK(w, now.base[i] == w->segments.base[i + gone], "segment %" PRId64 " is there", now.base[i]);
}

static int64_t segment_upper(const struct walk *w, int index)
{
    return index + 1 < w->segments.count ? w->segments.base[index + 1] : INT64_MAX;
}

static void step_set_start(struct walk *w)
{
    struct model *m = &w->model;
    int64_t offset = m->log_start + pick(w, MIN(m->end - m->log_start, 1000) + 2);
    offset -= chance(w, 8) ? 3 : 0;
    if (m->count > 0 && chance(w, 2))
        offset = m->batches[pick(w, m->count)].last_offset;
    walk_note(w, "%" PRId64, offset);
    enum error error;
    int64_t start;
    if (w->replica.p == NULL)
        error = plog_set_start_offset(w->log, offset);
    else if (!w->replica.mirrored)
        error = partition_delete_records(w->replica.p, offset = MAX(offset, 0), &start, NULL);
    else
        error = partition_set_start_offset(w->replica.p, offset = MIN(offset, m->hw));
    WALK_CHECK(w, error == (offset > m->hw ? OFFSET_OUT_OF_RANGE : OK),
               "a log start of %" PRId64 " at HW %" PRId64 " was answered %s", offset, m->hw, error_name(error));
    if (error != OK || (w->replica.p != NULL && offset <= m->log_start))
        return;
    model_set_start(m, offset);
    int gone = 0;
    while (gone + 1 < w->segments.count && w->segments.base[gone + 1] <= m->log_start)
        gone++;
    check_segments(w, gone, false);
}

/* ---- Retention ---- */

static void measure(struct walk *w, int index, uint64_t *ret_bytes, int64_t *ret_time)
{
    char path[128];
    *ret_bytes = 0;
    *ret_time = -1;
    for (int i = 0; i < w->model.count; i++) {
        const struct model_batch *b = &w->model.batches[i];
        if (b->base_offset < w->segments.base[index] || b->base_offset >= segment_upper(w, index))
            continue;
        *ret_bytes += b->bytes.len;
        *ret_time = MAX(*ret_time, b->max_timestamp);
    }
    snprintf(path, sizeof(path), WALK_DIR "/%020" PRId64 ".log", w->segments.base[index]);
    if (*ret_time < 0)
        WALK_CHECK(w, fs_stat(&w->fs.fs, path, NULL, NULL, ret_time) == OK, "%s is missing", path);
}

/* Kafka's rule: whole segments from the front, below the HW, each over age or over size, or below the log start. */
static int count_due(struct walk *w, const struct plog_config *c)
{
    uint64_t bytes, size = 0;
    int64_t time;
    int due = 0;
    for (int i = 0; i < w->segments.count; i++) {
        measure(w, i, &bytes, &time);
        size += bytes;
    }
    for (; due < w->segments.count; due++) {
        bool last = due + 1 == w->segments.count;
        measure(w, due, &bytes, &time);
        if ((last && bytes == 0) || (last ? w->model.end : segment_upper(w, due)) > w->model.hw)
            break;
        bool old = c->retention_ms >= 0 && w->clock.now_ms - time > c->retention_ms;
        bool much = c->retention_bytes >= 0 && size - bytes >= (uint64_t)c->retention_bytes;
        if (!old && !much && !(!last && segment_upper(w, due) <= w->model.log_start))
            break;
        size -= bytes;
    }
    return due;
}

static void step_retention(struct walk *w)
{
    struct plog_config c = w->params.config;
    int removed = -1;
    c.retention_ms = chance(w, 2) ? pick(w, 8000) : -1;
    c.retention_bytes = chance(w, 2) ? pick(w, 3000) : -1;
    walk_note(w, "ms=%" PRId64 " bytes=%" PRId64, c.retention_ms, c.retention_bytes);
    int due = count_due(w, &c);
    plog_set_config(w->log, &c);
    enum error error = plog_apply_retention(w->log, &removed);
    plog_set_config(w->log, &w->params.config);
    WALK_CHECK(w, error == OK && removed == due, "retention: %s, %d segments removed, %d are due", error_name(error), removed,
               due);
    if (due > 0)
        model_set_start(&w->model, due == w->segments.count ? w->model.end : segment_upper(w, due - 1));
    check_segments(w, due, due == w->segments.count);
    if (chance(w, 2))
        WALK_CHECK(w, plog_remove_deleted(w->log) == OK, "removing deleted files failed");
}

/* ---- The rest ---- */

static void step_assign_epoch(struct walk *w)
{
    int32_t epoch = own_epoch(w) + (int32_t)pick(w, 3);
    walk_note(w, "%d", epoch);
    if (w->replica.p != NULL) {
        replica_set_epoch(w, epoch - (chance(w, 4) ? 1 : 0));
        return;
    }
    WALK_CHECK(w, plog_assign_epoch(w->log, epoch) == OK, "assigning an epoch failed");
    model_epochs_assign(&w->model.epochs, epoch, w->model.end);
}

static void step_set_hw(struct walk *w)
{
    struct model *m = &w->model;
    bool beyond = chance(w, 2);
    int64_t hw = beyond ? m->end + pick(w, 2) : m->hw + pick(w, MIN(m->end - m->hw, 1000) + 1);
    hw -= !beyond && chance(w, 5) ? 2 : 0;
    walk_note(w, "%" PRId64, hw);
    plog_set_high_watermark(w->log, hw);
    m->hw = MAX(m->hw, MIN(hw, m->end));
}

static void step_flush(struct walk *w)
{
    if (w->replica.p != NULL) {
        replica_flush(w);
        return;
    }
    WALK_CHECK(w, plog_flush_now(w->log) == OK, "flush failed");
    WALK_CHECK(w, plog_recovery_point(w->log) == w->model.end, "the recovery point is %" PRId64 " after a flush",
               plog_recovery_point(w->log));
}

static void step_checkpoint(struct walk *w)
{
    w->saved = plog_checkpoint_values(w->log);
    walk_note(w, "recovery point %" PRId64 " log start %" PRId64 " HW %" PRId64, w->saved.recovery_point,
              w->saved.log_start_offset, w->saved.high_watermark);
}

static void step_clock(struct walk *w)
{
    int64_t ms = 1 + pick(w, 3000);
    walk_note(w, "+%" PRId64 " ms", ms);
    manual_clock_advance(&w->clock, ms);
}

/* Producers that were idle for their time and have nothing open go. */
static void step_expire(struct walk *w)
{
    struct model_state *s = &w->model.lead;
    int kept = 0;
    plog_expire_producers(w->log);
    for (int i = 0; i < s->producer_count; i++)
        if (s->producers[i].txn_first >= 0 || !walk_is_idle(w, &s->producers[i]))
            s->producers[kept++] = s->producers[i];
    s->producer_count = kept;
}

static void step_roll(struct walk *w)
{
    WALK_CHECK(w, plog_roll(w->log) == OK, "rolling failed");
}

static void step_snapshot(struct walk *w)
{
    WALK_CHECK(w, plog_take_snapshot(w->log) == OK, "taking a snapshot failed");
}

void walk_do(struct walk *w, enum step_kind kind)
{
    static void (*const DO[STEP_KINDS])(struct walk * w) = {
        step_client,     step_repeat,   step_marker,    step_barrier,   step_copied,       step_roll,    step_truncate,
        step_restart,    step_snapshot, step_retention, step_set_start, step_assign_epoch, step_set_hw,  step_flush,
        step_checkpoint, step_clock,    step_expire,    walk_reopen,    replica_disk,      replica_flip, replica_stop};
    w->chunk_epoch = -1;
    walk_list_segments(w, &w->fs, &w->segments);
    DO[kind](w);
}

void walk_step(struct walk *w, const struct step *step)
{
    seeded_random_init(&w->random, step->seed);
    w->most = step->most;
    walk_do(w, step->kind);
    replica_follow_hw(w);
}
