/* See producer_state.h. The rules are those of Kafka's ProducerAppendInfo; what differs: a copied batch is never refused, entries are staged whole, so that a second
 * batch of one append is checked against the first, and the last stable offset of an ended transaction is what it was at its marker, however the log was cut into chunks. */
#include "storage/producer_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "storage/producer_state_private.h"

int32_t producer_entry_last_sequence(const struct producer_entry *e)
{
    return e->batch_count > 0 ? e->batches[e->batch_count - 1].last_sequence : NO_SEQUENCE;
}

int64_t producer_entry_last_offset(const struct producer_entry *e)
{
    return e->batch_count > 0 ? e->batches[e->batch_count - 1].last_offset : -1;
}

int32_t producer_batch_first_sequence(const struct producer_batch *b)
{
    return b->last_sequence < 0 ? NO_SEQUENCE : sequence_decrement(b->last_sequence, b->offset_delta);
}

struct producer_state *producer_state_create(struct fs *fs, const char *dir, int64_t expiration_ms)
{
    struct producer_state *ps = mem_calloc(1, sizeof(*ps));
    ps->fs = fs;
    ps->dir = mem_strdup(dir);
    ps->expiration_ms = expiration_ms;
    return ps;
}

void producer_state_destroy(struct producer_state *ps)
{
    if (ps == NULL)
        return;
    producer_state_clear(ps);
    mem_free(ps->open.items);
    mem_free(ps->staged.open.items);
    mem_free(ps->staged.completed);
    producer_map_fini(&ps->staged.producers);
    mem_free(ps->snapshots);
    mem_free(ps->dir);
    mem_free(ps);
}

void producer_state_set_expiration(struct producer_state *ps, int64_t expiration_ms)
{
    ps->expiration_ms = expiration_ms;
}

void producer_state_clear(struct producer_state *ps)
{
    producer_state_discard(ps);
    producer_map_fini(&ps->producers);
    ps->open.count = 0;
    mem_free(ps->unreplicated);
    ps->unreplicated = NULL;
    ps->unreplicated_count = ps->unreplicated_capacity = 0;
}

/* ---- Open transactions ---- */

static void open_reserve(struct open_txns *t, int count)
{
    if (count <= t->capacity)
        return;
    t->capacity = MAX(count, t->capacity * 2);
    t->items = mem_realloc(t->items, (size_t)t->capacity * sizeof(*t->items));
}

static void open_add(struct open_txns *t, int64_t first_offset, int64_t producer_id)
{
    open_reserve(t, t->count + 1);
    int at = t->count;
    while (at > 0 && t->items[at - 1].first_offset > first_offset)
        at--;
    memmove(&t->items[at + 1], &t->items[at], (size_t)(t->count - at) * sizeof(*t->items));
    t->items[at] = (struct open_txn){first_offset, producer_id};
    t->count++;
}

static void open_remove(struct open_txns *t, int64_t producer_id)
{
    for (int i = 0; i < t->count; i++) {
        if (t->items[i].producer_id != producer_id)
            continue;
        memmove(&t->items[i], &t->items[i + 1], (size_t)(t->count - i - 1) * sizeof(*t->items));
        t->count--;
        return;
    }
}

static struct open_txns *staged_open(struct producer_state *ps)
{
    struct open_txns *t = &ps->staged.open;
    if (!ps->staged.open_changed) {
        open_reserve(t, ps->open.count);
        if (ps->open.count > 0)
            memcpy(t->items, ps->open.items, (size_t)ps->open.count * sizeof(*t->items));
        t->count = ps->open.count;
        ps->staged.open_changed = true;
    }
    return t;
}

/* ---- Staging ---- */

static bool dropped(const struct producer_state *ps, int64_t producer_id)
{
    return ps->staged.drop_all || (ps->staged.drop_negative && producer_id < 0);
}

/* The entry as staging sees it; NULL when the producer is unknown. */
static const struct producer_entry *look(const struct producer_state *ps, int64_t producer_id)
{
    const struct producer_entry *e = producer_map_get(&ps->staged.producers, producer_id);
    if (e != NULL || dropped(ps, producer_id))
        return e;
    return producer_map_get(&ps->producers, producer_id);
}

/* The same, to be changed. */
static struct producer_entry *stage_entry(struct producer_state *ps, int64_t producer_id)
{
    struct producer_entry *e = producer_map_get(&ps->staged.producers, producer_id);
    if (e != NULL)
        return e;
    const struct producer_entry *known = dropped(ps, producer_id) ? NULL : producer_map_get(&ps->producers, producer_id);
    e = producer_map_put(&ps->staged.producers, producer_id);
    if (known != NULL)
        *e = *known;
    return e;
}

static int32_t last_sequence_of(const struct producer_batch_info *info)
{
    return info->base_sequence < 0 ? NO_SEQUENCE
                                   : sequence_increment(info->base_sequence, (int32_t)(info->last_offset - info->base_offset));
}

bool producer_state_find_duplicate(const struct producer_state *ps, const struct producer_batch_info *info,
                                   struct producer_batch *ret_batch)
{
    if (info->producer_id < 0)
        return false;
    const struct producer_entry *e = look(ps, info->producer_id);
    if (e == NULL || e->producer_epoch != info->producer_epoch)
        return false;
    for (int i = 0; i < e->batch_count; i++) {
        const struct producer_batch *b = &e->batches[i];
        if (producer_batch_first_sequence(b) != info->base_sequence || b->last_sequence != last_sequence_of(info))
            continue;
        *ret_batch = *b;
        return true;
    }
    return false;
}

static enum error check_epoch(const struct producer_entry *e, int64_t producer_id, int16_t epoch, int64_t offset,
                              struct problem *problem)
{
    int16_t current = e != NULL ? e->producer_epoch : NO_PRODUCER_EPOCH;
    if (epoch >= current)
        return OK;
    return problem_set(problem, INVALID_PRODUCER_EPOCH,
                       "Producer %lld has epoch %d at offset %lld, but the partition knows epoch %d of it.",
                       (long long)producer_id, epoch, (long long)offset, current);
}

static enum error check_sequence(const struct producer_entry *e, const struct producer_batch_info *info, struct problem *problem)
{
    if (e == NULL || e->producer_epoch == NO_PRODUCER_EPOCH)
        return OK; /* unknown: any sequence (its batches may have gone with retention, or by a barrier) */
    if (e->producer_epoch != info->producer_epoch) {
        if (info->base_sequence == 0)
            return OK;
        return problem_set(problem, OUT_OF_ORDER_SEQUENCE_NUMBER,
                           "Producer %lld starts epoch %d with sequence %d at offset %lld, but a new epoch starts with 0.",
                           (long long)info->producer_id, info->producer_epoch, info->base_sequence, (long long)info->base_offset);
    }
    int32_t last = producer_entry_last_sequence(e);
    if (info->base_sequence == (last == INT32_MAX ? 0 : last + 1))
        return OK;
    return problem_set(problem, OUT_OF_ORDER_SEQUENCE_NUMBER,
                       "Producer %lld sent sequence %d at offset %lld, but %d is the last that the partition has of it.",
                       (long long)info->producer_id, info->base_sequence, (long long)info->base_offset, last);
}

static void set_epoch(struct producer_entry *e, int16_t epoch)
{
    if (e->producer_epoch == epoch)
        return;
    e->producer_epoch = epoch;
    e->batch_count = 0; /* sequences start over */
}

static void remember_batch(struct producer_entry *e, const struct producer_batch_info *info)
{
    if (e->batch_count == PRODUCER_BATCHES) {
        memmove(&e->batches[0], &e->batches[1], (PRODUCER_BATCHES - 1) * sizeof(e->batches[0]));
        e->batch_count--;
    }
    e->batches[e->batch_count++] = (struct producer_batch){
        .last_sequence = last_sequence_of(info),
        .offset_delta = (int32_t)(info->last_offset - info->base_offset),
        .last_offset = info->last_offset,
        .timestamp = info->max_timestamp,
    };
}

enum error producer_state_stage_batch(struct producer_state *ps, enum producer_origin origin,
                                      const struct producer_batch_info *info, struct problem *problem)
{
    if (info->producer_id == NO_PRODUCER_ID)
        return OK;
    if (origin != PRODUCER_COPIED && info->producer_id >= 0) {
        const struct producer_entry *known = look(ps, info->producer_id);
        enum error error = check_epoch(known, info->producer_id, info->producer_epoch, info->base_offset, problem);
        if (error == OK && origin == PRODUCER_CLIENT)
            error = check_sequence(known, info, problem);
        if (error != OK)
            return error;
        if (known != NULL && known->current_txn_first_offset >= 0 && !info->transactional)
            return problem_set(
                problem, INVALID_TXN_STATE,
                "Producer %lld sent a batch without the transactional flag while its transaction is open (since offset %lld).",
                (long long)info->producer_id, (long long)known->current_txn_first_offset);
    }
    struct producer_entry *e = stage_entry(ps, info->producer_id);
    set_epoch(e, info->producer_epoch);
    remember_batch(e, info);
    e->last_timestamp = info->max_timestamp;
    if (info->transactional && e->current_txn_first_offset < 0) {
        e->current_txn_first_offset = info->base_offset;
        open_add(staged_open(ps), info->base_offset, info->producer_id);
    }
    return OK;
}

static void complete(struct producer_state *ps, const struct producer_entry *e, int64_t offset, bool commit)
{
    struct open_txns *open = staged_open(ps);
    open_remove(open, e->producer_id);
    if (ps->staged.completed_count == ps->staged.completed_capacity) {
        ps->staged.completed_capacity = MAX(4, ps->staged.completed_capacity * 2);
        ps->staged.completed =
            mem_realloc(ps->staged.completed, (size_t)ps->staged.completed_capacity * sizeof(*ps->staged.completed));
    }
    ps->staged.completed[ps->staged.completed_count++] = (struct completed_txn){
        .producer_id = e->producer_id,
        .first_offset = e->current_txn_first_offset,
        .last_offset = offset,
        .last_stable_offset = open->count > 0 ? open->items[0].first_offset : offset + 1,
        .aborted = !commit,
    };
}

enum error producer_state_stage_marker(struct producer_state *ps, enum producer_origin origin, int64_t producer_id,
                                       int16_t producer_epoch, bool commit, int32_t coordinator_epoch, int64_t offset,
                                       int64_t timestamp, struct problem *problem)
{
    if (producer_id == NO_PRODUCER_ID)
        return OK;
    if (origin != PRODUCER_COPIED) {
        const struct producer_entry *known = look(ps, producer_id);
        enum error error = check_epoch(known, producer_id, producer_epoch, offset, problem);
        if (error != OK)
            return error;
        if (known != NULL && known->coordinator_epoch > coordinator_epoch)
            return problem_set(
                problem, TRANSACTION_COORDINATOR_FENCED,
                "A marker for producer %lld comes from coordinator epoch %d, but the partition has one from epoch %d.",
                (long long)producer_id, coordinator_epoch, known->coordinator_epoch);
    }
    struct producer_entry *e = stage_entry(ps, producer_id);
    if (e->current_txn_first_offset >= 0)
        complete(ps, e, offset, commit);
    set_epoch(e, producer_epoch);
    e->coordinator_epoch = coordinator_epoch;
    e->last_timestamp = timestamp;
    e->current_txn_first_offset = -1;
    return OK;
}

static bool outside_scope(void *arg, const struct producer_entry *e)
{
    const bool *negative_only = arg;
    return *negative_only && e->producer_id >= 0;
}

int producer_state_stage_barrier(struct producer_state *ps, int8_t scope)
{
    bool negative_only = scope == 1;
    int count = 0;
    for (int32_t i = 0; i < ps->producers.count; i++) {
        const struct producer_entry *e = &ps->producers.entries[i];
        if (!outside_scope(&negative_only, e) && !dropped(ps, e->producer_id) &&
            producer_map_get(&ps->staged.producers, e->producer_id) == NULL)
            count++;
    }
    count += producer_map_filter(&ps->staged.producers, outside_scope, &negative_only);

    struct open_txns *open = staged_open(ps);
    int kept = 0;
    for (int i = 0; i < open->count; i++) {
        if (negative_only && open->items[i].producer_id >= 0)
            open->items[kept++] = open->items[i];
    }
    open->count = kept;
    if (negative_only)
        ps->staged.drop_negative = true;
    else
        ps->staged.drop_all = true;
    return count;
}

int producer_state_completed(const struct producer_state *ps, const struct completed_txn **ret_txns)
{
    *ret_txns = ps->staged.completed;
    return ps->staged.completed_count;
}

void producer_state_discard(struct producer_state *ps)
{
    producer_map_clear(&ps->staged.producers);
    ps->staged.drop_all = ps->staged.drop_negative = ps->staged.open_changed = false;
    ps->staged.open.count = 0;
    ps->staged.completed_count = 0;
}

static void add_unreplicated(struct producer_state *ps, const struct completed_txn *txn)
{
    if (ps->unreplicated_count == ps->unreplicated_capacity) {
        ps->unreplicated_capacity = MAX(8, ps->unreplicated_capacity * 2);
        ps->unreplicated = mem_realloc(ps->unreplicated, (size_t)ps->unreplicated_capacity * sizeof(*ps->unreplicated));
    }
    int at = ps->unreplicated_count++;
    for (; at > 0 && ps->unreplicated[at - 1].first_offset > txn->first_offset; at--)
        ps->unreplicated[at] = ps->unreplicated[at - 1];
    ps->unreplicated[at] = (struct done_txn){txn->first_offset, txn->last_offset};
}

static bool not_dropped(void *arg, const struct producer_entry *e)
{
    return !dropped(arg, e->producer_id);
}

void producer_state_apply(struct producer_state *ps, int64_t end_offset)
{
    if (ps->staged.drop_all || ps->staged.drop_negative)
        (void)producer_map_filter(&ps->producers, not_dropped, ps);
    for (int32_t i = 0; i < ps->staged.producers.count; i++) {
        const struct producer_entry *e = &ps->staged.producers.entries[i];
        struct producer_entry *known = producer_map_get(&ps->producers, e->producer_id);
        if (known == NULL)
            known = producer_map_put(&ps->producers, e->producer_id);
        *known = *e;
    }
    if (ps->staged.open_changed) {
        struct open_txns old = ps->open;
        ps->open = ps->staged.open;
        ps->staged.open = old;
    }
    for (int i = 0; i < ps->staged.completed_count; i++)
        add_unreplicated(ps, &ps->staged.completed[i]);
    ps->end_offset = end_offset;
    producer_state_discard(ps);
}

/* ---- Looking ---- */

int producer_state_count(const struct producer_state *ps)
{
    return ps->producers.count;
}

int producer_state_open_count(const struct producer_state *ps)
{
    return ps->open.count;
}

const struct producer_entry *producer_state_get(const struct producer_state *ps, int64_t producer_id)
{
    return producer_map_get(&ps->producers, producer_id);
}

void producer_state_each(const struct producer_state *ps, bool (*visit)(void *arg, const struct producer_entry *entry), void *arg)
{
    for (int32_t i = 0; i < ps->producers.count; i++) {
        if (!visit(arg, &ps->producers.entries[i]))
            return;
    }
}

int64_t producer_state_first_undecided_offset(const struct producer_state *ps)
{
    return ps->open.count > 0 ? ps->open.items[0].first_offset : -1;
}

int64_t producer_state_first_unstable_offset(const struct producer_state *ps)
{
    int64_t undecided = producer_state_first_undecided_offset(ps);
    if (ps->unreplicated_count == 0)
        return undecided;
    int64_t unreplicated = ps->unreplicated[0].first_offset;
    return undecided < 0 ? unreplicated : MIN(undecided, unreplicated);
}

void producer_state_on_high_watermark(struct producer_state *ps, int64_t high_watermark)
{
    int kept = 0;
    for (int i = 0; i < ps->unreplicated_count; i++) {
        if (ps->unreplicated[i].last_offset >= high_watermark)
            ps->unreplicated[kept++] = ps->unreplicated[i];
    }
    ps->unreplicated_count = kept;
}

void producer_state_on_log_start(struct producer_state *ps, int64_t log_start_offset)
{
    producer_state_on_high_watermark(ps, log_start_offset); /* a log starts at or below its high watermark */
    if (ps->end_offset < log_start_offset)
        ps->end_offset = log_start_offset;
}

int64_t producer_state_end_offset(const struct producer_state *ps)
{
    return ps->end_offset;
}

struct expiry {
    int64_t now_ms;
    int64_t expiration_ms;
};

static bool is_alive(void *arg, const struct producer_entry *e)
{
    const struct expiry *x = arg;
    int64_t idle_ms; /* timestamps come from clients: any number */
    if (__builtin_sub_overflow(x->now_ms, e->last_timestamp, &idle_ms))
        idle_ms = e->last_timestamp < 0 ? INT64_MAX : INT64_MIN;
    return e->current_txn_first_offset >= 0 || idle_ms < x->expiration_ms;
}

int producer_state_expire(struct producer_state *ps, int64_t now_ms)
{
    return producer_map_filter(&ps->producers, is_alive, &(struct expiry){now_ms, ps->expiration_ms});
}

static int by_first_offset(const void *a, const void *b)
{
    const struct open_txn *x = a, *y = b;
    return (x->first_offset > y->first_offset) - (x->first_offset < y->first_offset);
}

void producer_state_fill(struct producer_state *ps, const struct producer_entry *entries, int count, int64_t now_ms)
{
    struct expiry expiry = {now_ms, ps->expiration_ms};
    for (int i = 0; i < count; i++) {
        struct producer_entry *e = producer_map_get(&ps->producers, entries[i].producer_id);
        if (e != NULL || !is_alive(&expiry, &entries[i]))
            continue; /* each producer stands in a snapshot once; a second entry is not believed */
        *producer_map_put(&ps->producers, entries[i].producer_id) = entries[i];
        if (entries[i].current_txn_first_offset >= 0) {
            open_reserve(&ps->open, ps->open.count + 1);
            ps->open.items[ps->open.count++] = (struct open_txn){entries[i].current_txn_first_offset, entries[i].producer_id};
        }
    }
    if (ps->open.count > 1)
        qsort(ps->open.items, (size_t)ps->open.count, sizeof(*ps->open.items), by_first_offset);
}
