/* Holds a log against the model: offsets, epochs, producers, reads, aborted transactions, times. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "replica.h"
#include "walk.h"

struct view { /* a comparison that runs */
    struct walk *w;
    struct plog *log;
    const struct expected *x;
    struct segments segments;
    struct model_state known; /* what this log says of its producers */
};

#define CHECK(v, condition, format, ...) WALK_CHECK((v)->w, condition, "%s: " format, (v)->x->who, ##__VA_ARGS__)

static struct view view; /* too large for a stack frame */

/* ---- Producers ---- */

static bool take_producer(void *arg, const struct producer_entry *e)
{
    struct model_state *s = arg;
    ASSERT(s->producer_count < MODEL_PRODUCERS);
    struct model_producer *p = &s->producers[s->producer_count++];
    *p = (struct model_producer){.id = e->producer_id,
                                 .last_timestamp = e->last_timestamp,
                                 .txn_first = e->current_txn_first_offset,
                                 .epoch = e->producer_epoch,
                                 .coordinator_epoch = e->coordinator_epoch,
                                 .seen_count = e->batch_count};
    for (int i = 0; i < e->batch_count; i++) {
        const struct producer_batch *b = &e->batches[i];
        p->seen[i] = (struct model_seen){producer_batch_first_sequence(b), b->last_sequence, producer_batch_first_offset(b),
                                         b->last_offset, b->timestamp};
    }
    return true;
}

static bool same_seen(const struct model_seen *a, const struct model_seen *b)
{
    return a->first_sequence == b->first_sequence && a->last_sequence == b->last_sequence && a->first_offset == b->first_offset &&
           a->last_offset == b->last_offset && a->timestamp == b->timestamp;
}

static bool same_producer(const struct model_producer *a, const struct model_producer *b)
{
    if (a->epoch != b->epoch || a->coordinator_epoch != b->coordinator_epoch || a->txn_first != b->txn_first ||
        a->last_timestamp != b->last_timestamp || a->seen_count != b->seen_count)
        return false;
    for (int i = 0; i < a->seen_count; i++)
        if (!same_seen(&a->seen[i], &b->seen[i]))
            return false;
    return true;
}

static void describe(const struct model_producer *p, struct buf *out)
{
    buf_printf(out, "pid=%" PRId64 " epoch=%d coordinator=%d open=%" PRId64 " time=%" PRId64 " batches", p->id, p->epoch,
               p->coordinator_epoch, p->txn_first, p->last_timestamp);
    for (int i = 0; i < p->seen_count; i++)
        buf_printf(out, " %d..%d@%" PRId64, p->seen[i].first_sequence, p->seen[i].last_sequence, p->seen[i].first_offset);
}

static _Noreturn void fail_producer(struct view *v, const struct model_producer *has, const struct model_producer *should)
{
    struct buf a = {0}, b = {0};
    describe(has, &a);
    describe(should, &b);
    walk_fail(v->w, "%s: a producer is\n  %s\nand should be\n  %s", v->x->who, buf_cstr(&a), buf_cstr(&b));
}

static void check_exact(struct view *v, struct model_state *should)
{
    for (int i = 0; i < should->producer_count; i++) {
        const struct model_producer *p = &should->producers[i], *has = model_producer_find(&v->known, p->id);
        CHECK(v, has != NULL, "producer %" PRId64 " is unknown", p->id);
        if (!same_producer(has, p))
            fail_producer(v, has, p);
    }
    for (int i = 0; i < v->known.producer_count; i++)
        CHECK(v, model_producer_find(should, v->known.producers[i].id) != NULL, "producer %" PRId64 " should be unknown",
              v->known.producers[i].id);
}

static bool is_marker_time(const struct walk *w, int64_t producer_id, int64_t timestamp)
{
    for (int i = 0; i < w->model.count; i++) {
        const struct model_batch *b = &w->model.batches[i];
        if ((b->kind == MODEL_COMMIT || b->kind == MODEL_ABORT) && b->producer_id == producer_id && b->max_timestamp == timestamp)
            return true;
    }
    return false;
}

/* A snapshot keeps the last batch only; the front of the log may be gone: between what the log alone tells (least, may be NULL) and the whole history (full). */
static bool within(const struct walk *w, int64_t replayed_from, const struct model_producer *has,
                   const struct model_producer *full, const struct model_producer *least)
{
    if (has->epoch != full->epoch || has->last_timestamp != full->last_timestamp)
        return false;
    bool expiry = w->params.config.producer_id_expiration_ms < INT64_MAX; /* it may have been forgotten, and come back */
    bool front_gone = expiry || (w->model.count > 0 && w->model.batches[0].last_offset < w->model.log_start);
    if (has->coordinator_epoch != full->coordinator_epoch && (!front_gone || has->coordinator_epoch != -1))
        return false;
    int64_t least_first = least != NULL ? least->txn_first : -1;
    if (has->txn_first < 0 ? least_first >= 0 : full->txn_first < 0 || has->txn_first < full->txn_first)
        return false;
    if (has->txn_first >= 0 && least_first >= 0 && has->txn_first > least_first)
        return false;
    int replayed = 0;
    for (int i = 0; i < full->seen_count; i++)
        replayed += full->seen[i].first_offset >= replayed_from;
    if (has->seen_count > full->seen_count || has->seen_count < replayed)
        return false;
    if (!expiry && has->seen_count == 0 && full->seen_count > 0 &&
        full->seen[full->seen_count - 1].last_offset >= w->model.log_start)
        return false;
    for (int i = 0; i < has->seen_count; i++) {
        struct model_seen should = full->seen[full->seen_count - has->seen_count + i];
        /* Of a batch and a marker behind it a snapshot keeps one time, the marker's. */
        if (i == 0 && is_marker_time(w, has->id, has->seen[i].timestamp))
            should.timestamp = has->seen[i].timestamp;
        if (!same_seen(&has->seen[i], &should))
            return false;
    }
    return true;
}

static void check_within(struct view *v, struct model_state *full, struct model_state *least)
{
    for (int i = 0; i < v->known.producer_count; i++) {
        const struct model_producer *has = &v->known.producers[i];
        const struct model_producer *should = model_producer_find(full, has->id);
        CHECK(v, should != NULL, "producer %" PRId64 " should be unknown", has->id);
        if (!within(v->w, v->x->replayed_from, has, should, model_producer_find(least, has->id)))
            fail_producer(v, has, should);
    }
    for (int i = 0; i < least->producer_count; i++)
        CHECK(v, model_producer_find(&v->known, least->producers[i].id) != NULL || walk_is_idle(v->w, &least->producers[i]),
              "producer %" PRId64 " is unknown", least->producers[i].id);
}

static void check_producers(struct view *v)
{
    struct walk *w = v->w;
    v->known.producer_count = v->known.txn_count = 0;
    producer_state_each(plog_producers(v->log), take_producer, &v->known);
    CHECK(v, producer_state_end_offset(plog_producers(v->log)) == w->model.end, "the producer state stands for %" PRId64,
          producer_state_end_offset(plog_producers(v->log)));
    if (v->x->exact != NULL)
        check_exact(v, (struct model_state *)v->x->exact);
    else
        check_within(v, &w->full, &w->least);
    const struct model_state *txns = v->x->exact != NULL ? v->x->exact : &w->full;
    v->known.txn_count = txns->txn_count;
    memcpy(v->known.txns, txns->txns, (size_t)txns->txn_count * sizeof(txns->txns[0]));
}

/* ---- Offsets and epochs ---- */

static int64_t stable(const struct view *v, int64_t from)
{
    int64_t unstable = model_first_unstable(&v->known, v->x->hw, from);
    return unstable < 0 ? v->x->hw : MIN(v->x->hw, MAX(unstable, v->x->log_start));
}

static void check_offsets(struct view *v)
{
    const struct model *m = &v->w->model;
    CHECK(v, plog_end_offset(v->log) == m->end, "ends at %" PRId64 ", not %" PRId64, plog_end_offset(v->log), m->end);
    CHECK(v, plog_start_offset(v->log) == v->x->log_start, "starts at %" PRId64 ", not %" PRId64, plog_start_offset(v->log),
          v->x->log_start);
    CHECK(v, plog_high_watermark(v->log) == v->x->hw, "HW is %" PRId64 ", not %" PRId64, plog_high_watermark(v->log), v->x->hw);
    CHECK(v, plog_segment_count(v->log) == v->segments.count, "%d segments, %d in the folder", plog_segment_count(v->log),
          v->segments.count);
    int64_t lso = plog_last_stable_offset(v->log), low = stable(v, 0), high = stable(v, v->x->txns_from);
    CHECK(v, lso >= low && lso <= high, "LSO is %" PRId64 ", not %" PRId64 "..%" PRId64, lso, low, high);
}

static void check_last_batch(struct view *v)
{
    const struct model *m = &v->w->model;
    const struct model_batch *last = m->count > 0 ? &m->batches[m->count - 1] : NULL;
    /* Its segment may be gone; who knew it knows it still. */
    if (last != NULL && last->base_offset < v->segments.base[0] && plog_last_batch_epoch(v->log) < 0)
        last = NULL;
    int32_t epoch = last != NULL ? last->leader_epoch : -1, barrier_epoch = -2;
    CHECK(v, plog_last_batch_epoch(v->log) == epoch, "the last batch's epoch is %d, not %d", plog_last_batch_epoch(v->log),
          epoch);
    bool barrier = last != NULL && last->kind == MODEL_BARRIER;
    CHECK(v, plog_ends_with_own_barrier(v->log, &barrier_epoch) == barrier, "the last batch is %sthe own barrier",
          barrier ? "" : "not ");
    CHECK(v, !barrier || barrier_epoch == epoch, "the barrier's epoch is %d, not %d", barrier_epoch, epoch);
}

static void check_epochs(struct view *v)
{
    const struct model_epochs *e = v->x->epochs;
    int32_t latest = model_epochs_latest(e);
    CHECK(v, plog_latest_epoch(v->log) == latest, "the latest epoch is %d, not %d", plog_latest_epoch(v->log), latest);
    for (int32_t q = -1; q <= latest + 1; q++) {
        int32_t epoch, should;
        int64_t end, should_end;
        plog_end_offset_for_epoch(v->log, q, &epoch, &end);
        model_epochs_end_offset(e, q, v->w->model.end, &should, &should_end);
        CHECK(v, epoch == should && end == should_end, "epoch %d ends as (%d, %" PRId64 "), not (%d, %" PRId64 ")", q, epoch, end,
              should, should_end);
    }
    for (int i = 0; i < e->count; i++)
        for (int64_t o = MAX(e->items[i].start - 1, 0); o <= e->items[i].start; o++)
            CHECK(v, plog_epoch_of_offset(v->log, o) == model_epochs_of_offset(e, o), "offset %" PRId64 " is of epoch %d, not %d",
                  o, plog_epoch_of_offset(v->log, o), model_epochs_of_offset(e, o));
}

/* ---- Reading ---- */

static int64_t upper_of(const struct view *v, int segment)
{
    return segment + 1 < v->segments.count ? v->segments.base[segment + 1] : INT64_MAX;
}

static int floor_segment(const struct view *v, int64_t offset)
{
    int i = v->segments.count - 1;
    while (i > 0 && v->segments.base[i] > offset)
        i--;
    return i;
}

/* First batch that ends at or behind offset, in this segment; -1 when it has none. */
static int first_in_segment(const struct view *v, int segment, int64_t offset)
{
    const struct model *m = &v->w->model;
    for (int i = 0; i < m->count; i++)
        if (m->batches[i].base_offset >= v->segments.base[segment] && m->batches[i].last_offset >= offset)
            return m->batches[i].base_offset < upper_of(v, segment) ? i : -1;
    return -1;
}

/* The batches that a read must give: *ret_first and so many. */
static int expected_read(const struct view *v, int64_t offset, int64_t upper, size_t most, bool min_one, int *ret_first)
{
    const struct model *m = &v->w->model;
    int segment = floor_segment(v, offset), first = -1, count = 0;
    size_t bytes = 0;
    if (offset >= MIN(upper, m->end))
        return 0;
    while (first < 0 && segment < v->segments.count && v->segments.base[segment] < upper)
        first = first_in_segment(v, segment++, offset);
    if (first < 0)
        return 0;
    for (int i = first; i < m->count && m->batches[i].base_offset < upper_of(v, segment - 1) && m->batches[i].last_offset < upper;
         i++) {
        bytes += m->batches[i].bytes.len;
        if (bytes > most && !(i == first && min_one))
            break;
        count++;
    }
    *ret_first = first;
    return count;
}

static void compare_bytes(struct view *v, const struct plog_slice *slice, int first, int count)
{
    const struct model *m = &v->w->model;
    struct buf bytes = {0}; /* of the slice */
    size_t pos = 0;
    CHECK(v, plog_slice_copy(slice, &bytes) == OK, "a slice cannot be copied");
    for (int i = first; i < first + count; i++) {
        const struct buf *should = &m->batches[i].bytes;
        CHECK(v, pos + should->len <= bytes.len && memcmp(bytes.data + pos, should->data, should->len) == 0,
              "the batch at offset %" PRId64 " is not read as it was written", m->batches[i].base_offset);
        pos += should->len;
    }
    CHECK(v, pos == bytes.len, "a read of %d batches from offset %" PRId64 " gave %zu bytes, not %zu", count,
          m->batches[first].base_offset, bytes.len, pos);
    buf_fini(&bytes);
    int64_t next = first + count < m->count ? m->batches[first + count].base_offset : m->end;
    CHECK(v, slice->end_offset > m->batches[first + count - 1].last_offset && slice->end_offset <= MAX(next, m->end),
          "a slice up to %" PRId64 " says it ends at %" PRId64, m->batches[first + count - 1].last_offset, slice->end_offset);
    CHECK(v, slice->end_offset <= next, "a slice says that it ends at %" PRId64 ", behind the next batch %" PRId64,
          slice->end_offset, next);
}

/* ---- Aborted transactions ---- */

static bool is_aborted(struct view *v, const struct model_batch *b)
{
    const struct model_state *s = &v->w->full;
    for (int i = 0; i < s->txn_count && b->transactional && b->kind == MODEL_DATA; i++)
        if (s->txns[i].producer_id == b->producer_id && s->txns[i].first_offset <= b->base_offset &&
            s->txns[i].marker_offset > b->base_offset)
            return s->txns[i].aborted;
    return false;
}

/* What a consumer does (Java: CompletedFetch): a producer is aborted from the first offset that the list says up to its ABORT marker. */
static void check_consumer(struct view *v, const struct plog_aborted *aborted, int n, int first, int count)
{
    bool used[MODEL_TXNS] = {0};
    int64_t dead[MODEL_PRODUCERS];
    int dead_count = 0;
    for (int i = first; i < first + count; i++) {
        const struct model_batch *b = &v->w->model.batches[i];
        bool hidden = false;
        for (int k = 0; k < n; k++) {
            if (used[k] || aborted[k].first_offset > b->last_offset)
                continue;
            used[k] = true;
            dead[dead_count++ % MODEL_PRODUCERS] = aborted[k].producer_id;
        }
        for (int k = 0; k < dead_count; k++) {
            if (dead[k] != b->producer_id)
                continue;
            hidden = b->kind == MODEL_DATA && b->transactional;
            if (b->kind == MODEL_ABORT)
                dead[k--] = dead[--dead_count];
        }
        CHECK(v, hidden == is_aborted(v, b), "a read_committed consumer from offset %" PRId64 " %s the batch at %" PRId64,
              v->w->model.batches[first].base_offset, hidden ? "does not see" : "sees", b->base_offset);
    }
}

static void check_aborted(struct view *v, int64_t offset, const struct plog_slice *slice, int first, int count)
{
    struct arena arena;
    struct plog_aborted *aborted;
    int n;
    arena_init(&arena, 1 << 20);
    CHECK(v, plog_aborted_for(v->log, offset, slice, &arena, &aborted, &n) == OK, "aborted transactions cannot be found");
    const struct model_state *s = &v->w->full;
    bool named[MODEL_TXNS] = {0};
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < s->txn_count &&
               (s->txns[k].producer_id != aborted[i].producer_id || s->txns[k].first_offset > aborted[i].first_offset ||
                s->txns[k].marker_offset <= aborted[i].first_offset))
            k++;
        CHECK(v, k < s->txn_count && s->txns[k].aborted && !named[k],
              "the transaction of producer %" PRId64 " from offset %" PRId64 " is listed and was not aborted, or is listed twice",
              aborted[i].producer_id, aborted[i].first_offset);
        named[k] = true;
        CHECK(v, s->txns[k].marker_offset >= offset && aborted[i].first_offset < slice->end_offset,
              "the aborted transaction of producer %" PRId64 " from offset %" PRId64 " does not touch %" PRId64 "..%" PRId64,
              aborted[i].producer_id, aborted[i].first_offset, offset, slice->end_offset);
    }
    if (count > 0)
        check_consumer(v, aborted, n, first, count);
    arena_fini(&arena);
}

static void check_read(struct view *v, int64_t offset, int64_t upper, size_t most, bool min_one, int64_t *ret_end)
{
    struct plog_slice slice;
    int first = 0, count = expected_read(v, offset, upper, most, min_one, &first);
    enum error error = plog_read(v->log, offset, upper, most, min_one, &slice);
    CHECK(v, error == OK, "reading at %" PRId64 " failed: %s", offset, error_name(error));
    CHECK(v, (slice.segment != NULL) == (count > 0), "a read at %" PRId64 " below %" PRId64 " of at most %zu bytes gave %s",
          offset, upper, most, count > 0 ? "nothing" : "something");
    if (count > 0)
        compare_bytes(v, &slice, first, count);
    else
        CHECK(v, slice.end_offset == offset, "an empty slice ends at %" PRId64, slice.end_offset);
    check_aborted(v, offset, &slice, first, count);
    if (ret_end != NULL)
        *ret_end = slice.end_offset;
    plog_slice_release(&slice);
}

static void check_random_read(struct view *v)
{
    static const size_t MOST[] = {1 << 20, 1 << 20, 400, 150, 0};
    struct walk *w = v->w;
    const struct model *m = &w->model;
    int64_t offset = v->x->log_start + pick(w, MIN(m->end - v->x->log_start, 2000) + 1), upper = INT64_MAX;
    if (m->count > 0 && chance(w, 2))
        offset = m->batches[pick(w, m->count)].base_offset;
    offset = MAX(offset, v->x->log_start);
    if (chance(w, 3))
        upper = chance(w, 2) ? v->x->hw : plog_last_stable_offset(v->log);
    else if (chance(w, 4))
        upper = v->x->log_start + pick(w, MIN(m->end - v->x->log_start, 2000) + 2);
    size_t most = MOST[pick(w, ARRAY_SIZE(MOST))];
    check_read(v, offset, upper, most, chance(w, 2), NULL);
}

static void check_whole(struct view *v)
{
    struct plog_slice slice;
    int64_t offset = v->x->log_start;
    while (offset < v->w->model.end) {
        int64_t end = -1;
        check_read(v, offset, INT64_MAX, 1 << 20, true, &end);
        if (end <= offset)
            break; /* a gap up to the end */
        offset = end;
    }
    CHECK(v, plog_read(v->log, v->x->log_start - 1, INT64_MAX, 100, true, &slice) == OFFSET_OUT_OF_RANGE,
          "reads below the log start");
    CHECK(v, plog_read(v->log, v->w->model.end + 1, INT64_MAX, 100, true, &slice) == OFFSET_OUT_OF_RANGE, "reads behind the end");
}

/* ---- Times ---- */

static struct plog_time_offset expected_time(const struct view *v, int64_t from, int64_t timestamp, int64_t least_base)
{
    const struct model *m = &v->w->model;
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < m->batches[i].record_count && m->batches[i].base_offset >= least_base; k++)
            if (m->batches[i].records[k].offset >= from && m->batches[i].records[k].timestamp >= timestamp)
                return (struct plog_time_offset){m->batches[i].records[k].timestamp, m->batches[i].records[k].offset,
                                                 m->batches[i].leader_epoch};
    return (struct plog_time_offset){-1, -1, -1};
}

static void compare_time(struct view *v, const char *what, int64_t upper, struct plog_time_offset has,
                         struct plog_time_offset should)
{
    if (should.offset >= upper)
        should = (struct plog_time_offset){-1, -1, -1};
    CHECK(v, has.offset == should.offset && has.timestamp == should.timestamp && has.leader_epoch == should.leader_epoch,
          "%s is (%" PRId64 " at %" PRId64 "), not (%" PRId64 " at %" PRId64 ")", what, has.timestamp, has.offset,
          should.timestamp, should.offset);
}

static void check_times(struct view *v)
{
    struct walk *w = v->w;
    const struct model *m = &w->model;
    struct plog_time_offset has;
    int64_t base = v->segments.base[floor_segment(v, v->x->log_start)], max = -1;
    int64_t upper = chance(w, 2) ? INT64_MAX : v->x->hw, time = w->clock.now_ms - pick(w, 6000) + 1000;
    if (m->count > 0 && chance(w, 2)) {
        time = m->batches[pick(w, m->count)].max_timestamp;
        time += pick(w, 2);
    }
    time = MAX(time, 0);
    CHECK(v, plog_offset_for_time(v->log, time, upper, &has) == OK, "the offset for a time cannot be found");
    compare_time(v, "the first record of that time", upper, has, expected_time(v, v->x->log_start, time, base));
    for (int i = 0; i < m->count; i++)
        if (m->batches[i].base_offset >= base)
            max = MAX(max, m->batches[i].max_timestamp);
    CHECK(v, plog_offset_of_max_time(v->log, upper, &has) == OK, "the newest record cannot be found");
    if (max < 0)
        compare_time(v, "the newest record", upper, has, (struct plog_time_offset){-1, -1, -1});
    else
        compare_time(v, "the newest record", upper, has, expected_time(v, base, max, base));
}

/* ---- All of it ---- */

void walk_compare(struct walk *w, struct plog *log, const struct expected *x)
{
    struct view *v = &view;
    v->w = w;
    v->log = log;
    v->x = x;
    CHECK(v, !plog_failed(log), "the log has failed");
    walk_list_segments(w, x->fs, &v->segments);
    model_replay(&w->model, INT64_MIN, &w->full);
    model_replay(&w->model, x->log_start, &w->least);
    check_producers(v);
    check_offsets(v);
    check_last_batch(v);
    check_epochs(v);
    for (int i = 0; i < x->reads; i++)
        check_random_read(v);
    if (x->reads > 0)
        check_times(v);
    if (x->reads > 2)
        check_whole(v);
}

/* What partition_read must say: HW and LSO as they are, errors by epoch and offset, and of the log what lies below the one or the other. */
void walk_check_fetch(struct walk *w)
{
    struct view *v = &view;
    struct expected x = {"fetch", &w->fs, NULL, &w->model.epochs, w->model.log_start, w->model.hw, 0, 0, INT64_MAX};
    const struct model *m = &w->model;
    v->w = w;
    v->log = w->log;
    v->x = &x;
    walk_list_segments(w, &w->fs, &v->segments);
    model_replay(m, INT64_MIN, &w->full);
    struct partition_read_params params = {.current_epoch = -1, .last_fetched_epoch = -1};
    params.offset = m->log_start - 1 + pick(w, MIN(m->end - m->log_start, 1000) + 3);
    params.max_bytes = chance(w, 3) ? 200 : 1 << 20;
    params.min_one = chance(w, 2);
    params.read_committed = chance(w, 2);
    if (chance(w, 3))
        params.current_epoch = w->replica.leader_epoch - 1 + (int32_t)pick(w, 3);
    if (chance(w, 3))
        params.last_fetched_epoch = (int32_t)pick(w, w->replica.leader_epoch + 2);
    struct partition_read r;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    enum error error = partition_read(w->replica.p, &params, &arena, &r), expected = OK;
    int32_t epoch = -1;
    int64_t end = -1, upper = params.read_committed ? plog_last_stable_offset(w->log) : m->hw;
    if (params.last_fetched_epoch >= 0)
        model_epochs_end_offset(&m->epochs, params.last_fetched_epoch, m->end, &epoch, &end);
    bool diverges = params.last_fetched_epoch >= 0 && (epoch < params.last_fetched_epoch || end < params.offset);
    if (params.current_epoch >= 0 && params.current_epoch != w->replica.leader_epoch)
        expected = params.current_epoch < w->replica.leader_epoch ? FENCED_LEADER_EPOCH : UNKNOWN_LEADER_EPOCH;
    else if (params.offset < m->log_start || (params.offset > m->end && !diverges) ||
             (params.last_fetched_epoch >= 0 && epoch < 0))
        expected = OFFSET_OUT_OF_RANGE;
    CHECK(v, error == expected, "at %" PRId64 " with epochs %d and %d was answered %s, not %s", params.offset,
          params.current_epoch, params.last_fetched_epoch, error_name(error), error_name(expected));
    if (error == OK && diverges)
        CHECK(v, r.diverging_epoch == epoch && r.diverging_end_offset == end && r.slice.segment == NULL,
              "histories part at (%d, %" PRId64 ")", r.diverging_epoch, r.diverging_end_offset);
    if (error == OK && !diverges) {
        int first = 0, count = expected_read(v, params.offset, upper, params.max_bytes, params.min_one, &first);
        CHECK(v,
              r.diverging_epoch == -1 && r.high_watermark == m->hw && r.log_start_offset == m->log_start &&
                  r.last_stable_offset == plog_last_stable_offset(w->log),
              "offsets of the answer are not the partition's");
        CHECK(v, (r.slice.segment != NULL) == (count > 0), "at %" PRId64 " below %" PRId64 " gave %s", params.offset, upper,
              count > 0 ? "nothing" : "something");
        if (count > 0)
            compare_bytes(v, &r.slice, first, count);
        if (count > 0 && params.read_committed)
            check_consumer(v, r.aborted, r.aborted_n, first, count);
    }
    plog_slice_release(&r.slice);
    arena_fini(&arena);
}

void walk_adopt_producers(struct walk *w, int64_t txns_from)
{
    struct model *m = &w->model;
    replica_follow_hw(w);
    m->lead_txns_from = txns_from;
    struct expected x = {"leader", &w->fs, NULL, &m->epochs, m->log_start, m->hw, txns_from, 0, INT64_MAX};
    walk_compare(w, w->log, &x);
    m->lead = view.known;
}

static bool only_logs(const char *path)
{
    size_t n = strlen(path);
    return strcmp(path, "d") == 0 || strcmp(path, WALK_DIR) == 0 || (n > 4 && strcmp(path + n - 4, ".log") == 0);
}

static struct plog *open_copy(struct walk *w, const char *who, struct memory_fs *fs, const struct plog_checkpoint *c, bool clean)
{
    struct plog_params params = w->params;
    struct plog *log;
    struct problem problem;
    params.fs = &fs->fs;
    params.checkpoint = NULL;
    params.recovery_point = c->recovery_point;
    params.log_start_offset = c->log_start_offset;
    params.high_watermark = c->high_watermark;
    params.clean_shutdown = clean;
    enum error error = plog_open(&params, &log, &problem);
    WALK_CHECK(w, error == OK, "%s: cannot be opened: %s; %s", who, problem.message, problem.detail);
    return log;
}

void walk_epochs_on_disk(const struct walk *w, struct memory_fs *fs, const struct plog_checkpoint *c,
                         struct model_epochs *ret_epochs)
{
    const struct model *m = &w->model;
    struct epoch_entry *entries = NULL;
    struct segments now;
    struct problem problem;
    size_t count = 0;
    walk_list_segments((struct walk *)w, fs, &now);
    int64_t start = MAX(c->log_start_offset, now.base[0]);
    if (epoch_checkpoint_read(&fs->fs, WALK_DIR "/" LEADER_EPOCH_CHECKPOINT, &entries, &count, &problem) != OK) {
        model_epochs_replay(m, start, ret_epochs);
        return;
    }
    ASSERT(count <= ARRAY_SIZE(ret_epochs->items));
    *ret_epochs = (struct model_epochs){.count = (int)count};
    for (size_t i = 0; i < count; i++)
        ret_epochs->items[i] = (struct model_epoch){entries[i].epoch, entries[i].start_offset};
    mem_free(entries);
    int first = now.count - 1;
    while (first > 0 && now.base[first] >= c->recovery_point)
        first--;
    for (int i = 0; i < m->count; i++)
        if (m->batches[i].base_offset >= now.base[first] && m->batches[i].last_offset >= start)
            model_epochs_note(ret_epochs, &m->batches[i], i > 0 ? m->batches[i - 1].last_offset + 1 : 0);
}

/* The folder as it is now, opened by a second process. */
static void check_reloaded(struct walk *w, int reads)
{
    struct memory_fs fs;
    struct model_epochs epochs;
    struct plog_checkpoint c = chance(w, 2) ? plog_checkpoint_values(w->log) : w->saved;
    memory_fs_init(&fs);
    memory_fs_copy(&w->fs, &fs, NULL);
    walk_epochs_on_disk(w, &fs, &c, &epochs);
    struct plog *log = open_copy(w, "reloaded", &fs, &c, false);
    struct segments now;
    walk_list_segments(w, &fs, &now);
    int64_t start = MAX(c.log_start_offset, now.base[0]);
    model_epochs_complete(&w->model, start, &epochs);
    struct expected x = {"reloaded",   &fs,   NULL,
                         &epochs,      start, MAX(MIN(c.high_watermark, w->model.end), start),
                         w->model.end, reads, MAX(start, now.base[now.count - 1])};
    walk_compare(w, log, &x);
    if (chance(w, 3)) {
        x.replayed_from = INT64_MAX;
        c = plog_checkpoint_values(log);
        WALK_CHECK(w, plog_close(log, true) == OK, "reloaded: cannot be closed");
        x.who = "reloaded after a clean end";
        log = open_copy(w, x.who, &fs, &c, true);
        walk_compare(w, log, &x);
    }
    (void)plog_close(log, false);
    memory_fs_fini(&fs);
}

/* Nothing but the .log files. */
static void check_recovered(struct walk *w, int reads)
{
    static struct model_state state;
    struct memory_fs fs;
    struct model_epochs epochs;
    struct plog_checkpoint c = plog_checkpoint_values(w->log);
    memory_fs_init(&fs);
    memory_fs_copy(&w->fs, &fs, only_logs);
    c.recovery_point = -1; /* as without a checkpoint file */
    struct plog *log = open_copy(w, "recovered", &fs, &c, false);
    model_replay(&w->model, w->model.log_start, &state);
    model_epochs_replay(&w->model, w->model.log_start, &epochs);
    model_epochs_cut_start(&epochs, w->model.log_start);
    struct expected x = {"recovered", &fs, &state, &epochs, w->model.log_start, w->model.hw, 0, reads, 0};
    walk_compare(w, log, &x);
    (void)plog_close(log, false);
    memory_fs_fini(&fs);
}

void walk_check_all(struct walk *w, bool thorough)
{
    struct model *m = &w->model;
    struct expected x = {"leader", &w->fs, &m->lead, &m->epochs, m->log_start, m->hw, m->lead_txns_from, thorough ? 4 : 2, 0};
    walk_compare(w, w->log, &x);
    if (w->replica.p != NULL)
        for (int i = 0; i < 4; i++)
            walk_check_fetch(w);
    check_reloaded(w, thorough ? 3 : 1);
    check_recovered(w, thorough ? 3 : 1);
}
