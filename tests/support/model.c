#include "model.h"

#include <string.h>

#include "base/assert.h"

void model_init(struct model *m)
{
    *m = (struct model){0};
}

static void drop_batches(struct model *m, int keep)
{
    while (m->count > keep)
        buf_fini(&m->batches[--m->count].bytes);
}

void model_fini(struct model *m)
{
    drop_batches(m, 0);
    mem_free(m->batches);
    *m = (struct model){0};
}

/* ---- Producer state ---- */

struct model_producer *model_producer_find(struct model_state *s, int64_t id)
{
    for (int i = 0; i < s->producer_count; i++)
        if (s->producers[i].id == id)
            return &s->producers[i];
    return NULL;
}

static struct model_producer *enter_producer(struct model_state *s, int64_t id, int16_t epoch)
{
    struct model_producer *p = model_producer_find(s, id);
    if (p == NULL) {
        ASSERT(s->producer_count < MODEL_PRODUCERS);
        p = &s->producers[s->producer_count++];
        *p = (struct model_producer){.id = id, .epoch = -1, .coordinator_epoch = -1, .txn_first = -1};
    }
    if (p->epoch != epoch)
        p->seen_count = 0;
    p->epoch = epoch;
    return p;
}

/* Sequences count 0 .. 2^31 - 1 and begin again. */
static int32_t last_sequence(const struct model_batch *b)
{
    if (b->base_sequence < 0)
        return -1;
    return (int32_t)((b->base_sequence + (b->last_offset - b->base_offset)) % ((int64_t)1 << 31));
}

static void add_data(struct model_state *s, const struct model_batch *b)
{
    if (b->producer_id == -1)
        return;
    struct model_producer *p = enter_producer(s, b->producer_id, b->producer_epoch);
    if (p->seen_count == MODEL_REMEMBERED)
        memmove(&p->seen[0], &p->seen[1], sizeof(p->seen[0]) * (size_t)--p->seen_count);
    p->seen[p->seen_count++] = (struct model_seen){b->base_sequence < 0 ? -1 : b->base_sequence, last_sequence(b), b->base_offset,
                                                   b->last_offset, b->max_timestamp};
    p->last_timestamp = b->max_timestamp;
    if (b->transactional && p->txn_first < 0)
        p->txn_first = b->base_offset;
}

static void add_marker(struct model_state *s, const struct model_batch *b)
{
    struct model_producer *p = enter_producer(s, b->producer_id, b->producer_epoch);
    if (p->txn_first >= 0) {
        ASSERT(s->txn_count < MODEL_TXNS);
        s->txns[s->txn_count++] = (struct model_txn){b->producer_id, p->txn_first, b->base_offset, b->kind == MODEL_ABORT};
    }
    p->txn_first = -1;
    p->coordinator_epoch = b->coordinator_epoch;
    p->last_timestamp = b->max_timestamp;
}

static void add_barrier(struct model_state *s, int8_t scope)
{
    int kept = 0;
    for (int i = 0; i < s->producer_count; i++)
        if (scope == 1 && s->producers[i].id >= 0)
            s->producers[kept++] = s->producers[i];
    s->producer_count = kept;
}

int model_in_scope(const struct model_state *s, int8_t scope)
{
    int count = 0;
    for (int i = 0; i < s->producer_count; i++)
        if (scope != 1 || s->producers[i].id < 0)
            count++;
    return count;
}

void model_state_add(struct model_state *s, const struct model_batch *b)
{
    if (b->kind == MODEL_DATA)
        add_data(s, b);
    else if (b->kind == MODEL_COMMIT || b->kind == MODEL_ABORT)
        add_marker(s, b);
    else if (b->kind == MODEL_BARRIER)
        add_barrier(s, b->scope);
}

void model_replay(const struct model *m, int64_t from, struct model_state *ret_state)
{
    ret_state->producer_count = ret_state->txn_count = 0;
    for (int i = 0; i < m->count; i++)
        if (m->batches[i].last_offset >= from)
            model_state_add(ret_state, &m->batches[i]);
}

int64_t model_first_unstable(const struct model_state *s, int64_t hw, int64_t from)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < s->producer_count; i++)
        if (s->producers[i].txn_first >= 0)
            first = MIN(first, s->producers[i].txn_first);
    for (int i = 0; i < s->txn_count; i++)
        if (s->txns[i].marker_offset >= hw && s->txns[i].marker_offset >= from)
            first = MIN(first, s->txns[i].first_offset);
    return first == INT64_MAX ? -1 : first;
}

enum error model_check_client(struct model *m, const struct model_batch *b, const struct model_seen **ret_duplicate)
{
    *ret_duplicate = NULL;
    struct model_producer *p = b->producer_id < 0 ? NULL : model_producer_find(&m->lead, b->producer_id);
    if (p == NULL)
        return b->producer_id >= 0 && b->producer_epoch < -1 ? INVALID_PRODUCER_EPOCH : OK;
    for (int i = 0; i < p->seen_count && p->epoch == b->producer_epoch; i++) {
        if (p->seen[i].first_sequence != b->base_sequence || p->seen[i].last_sequence != last_sequence(b))
            continue;
        *ret_duplicate = &p->seen[i];
        return OK;
    }
    if (b->producer_epoch < p->epoch)
        return INVALID_PRODUCER_EPOCH;
    int64_t due = p->seen_count == 0 ? 0 : ((int64_t)p->seen[p->seen_count - 1].last_sequence + 1) % ((int64_t)1 << 31);
    if (b->producer_epoch > p->epoch)
        due = 0;
    if (p->epoch != -1 && b->base_sequence != due)
        return OUT_OF_ORDER_SEQUENCE_NUMBER;
    return p->txn_first >= 0 && !b->transactional ? INVALID_TXN_STATE : OK;
}

enum error model_check_coordinator(struct model *m, const struct model_batch *b)
{
    const struct model_producer *p = b->producer_id < 0 ? NULL : model_producer_find(&m->lead, b->producer_id);
    if (b->producer_id >= 0 && b->producer_epoch < (p == NULL ? -1 : p->epoch))
        return INVALID_PRODUCER_EPOCH;
    return p != NULL && p->txn_first >= 0 && !b->transactional ? INVALID_TXN_STATE : OK;
}

enum error model_check_marker(struct model *m, const struct model_batch *b)
{
    const struct model_producer *p = model_producer_find(&m->lead, b->producer_id);
    if (p != NULL && b->producer_epoch < p->epoch)
        return INVALID_PRODUCER_EPOCH;
    if (p != NULL && b->coordinator_epoch < p->coordinator_epoch)
        return TRANSACTION_COORDINATOR_FENCED;
    return OK;
}

/* ---- The log ---- */

void model_append(struct model *m, struct model_batch *b)
{
    ASSERT(b->base_offset >= m->end && b->last_offset >= b->base_offset);
    if (m->count == m->capacity) {
        m->capacity = MAX(64, m->capacity * 2);
        m->batches = mem_realloc(m->batches, (size_t)m->capacity * sizeof(*m->batches));
    }
    model_epochs_note(&m->epochs, b, m->end);
    model_state_add(&m->lead, b);
    m->end = b->last_offset + 1;
    m->batches[m->count++] = *b;
    b->bytes = (struct buf){0};
}

void model_truncate(struct model *m, int64_t end)
{
    int keep = m->count;
    while (keep > 0 && m->batches[keep - 1].last_offset >= end)
        keep--;
    drop_batches(m, keep);
    m->end = end;
    m->hw = MIN(m->hw, end);
    model_epochs_cut_end(&m->epochs, end);
}

void model_restart(struct model *m, int64_t offset)
{
    drop_batches(m, 0);
    m->log_start = m->end = m->hw = offset;
    m->lead.producer_count = m->lead.txn_count = 0;
    m->lead_txns_from = 0;
    m->epochs.count = 0;
}

void model_set_start(struct model *m, int64_t offset)
{
    m->log_start = MAX(m->log_start, offset);
    model_epochs_cut_start(&m->epochs, m->log_start);
}

/* ---- Leader epochs ---- */

int32_t model_epochs_latest(const struct model_epochs *e)
{
    return e->count == 0 ? -1 : e->items[e->count - 1].epoch;
}

void model_epochs_assign(struct model_epochs *e, int32_t epoch, int64_t start)
{
    if (epoch == model_epochs_latest(e) && start >= e->items[e->count - 1].start)
        return;
    while (e->count > 0 && (e->items[e->count - 1].epoch >= epoch || e->items[e->count - 1].start >= start))
        e->count--;
    ASSERT(e->count < MODEL_EPOCHS);
    e->items[e->count++] = (struct model_epoch){epoch, start};
}

/* An epoch that was assigned in advance and has no batch gives way to a lower one that has. */
void model_epochs_note(struct model_epochs *e, const struct model_batch *b, int64_t previous_end)
{
    if (b->leader_epoch < 0 || b->leader_epoch == model_epochs_latest(e))
        return;
    while (e->count > 0 && e->items[e->count - 1].epoch > b->leader_epoch && e->items[e->count - 1].start >= previous_end &&
           e->items[e->count - 1].start <= b->last_offset)
        e->count--;
    if (b->leader_epoch > model_epochs_latest(e))
        model_epochs_assign(e, b->leader_epoch, b->base_offset);
}

void model_epochs_cut_end(struct model_epochs *e, int64_t end)
{
    while (e->count > 0 && e->items[e->count - 1].start >= end)
        e->count--;
}

void model_epochs_cut_start(struct model_epochs *e, int64_t start)
{
    while (e->count > 1 && e->items[1].start <= start)
        memmove(&e->items[0], &e->items[1], sizeof(e->items[0]) * (size_t)--e->count);
    if (e->count > 0 && e->items[0].start < start)
        e->items[0].start = start;
}

void model_epochs_replay(const struct model *m, int64_t from, struct model_epochs *ret_epochs)
{
    ret_epochs->count = 0;
    for (int i = 0; i < m->count; i++)
        if (m->batches[i].last_offset >= from)
            model_epochs_note(ret_epochs, &m->batches[i], m->batches[i].base_offset);
}

void model_epochs_complete(const struct model *m, int64_t from, struct model_epochs *e)
{
    static struct model_epochs old;
    old = *e;
    e->count = 0;
    for (int i = 0; i < m->count; i++)
        if (m->batches[i].last_offset >= from && (old.count == 0 || m->batches[i].base_offset < old.items[0].start))
            model_epochs_note(e, &m->batches[i], m->batches[i].base_offset);
    for (int i = 0; i < old.count; i++)
        model_epochs_assign(e, old.items[i].epoch, old.items[i].start);
    model_epochs_cut_start(e, from);
}

void model_epochs_end_offset(const struct model_epochs *e, int32_t epoch, int64_t log_end, int32_t *ret_epoch, int64_t *ret_end)
{
    int n = 0;
    while (n < e->count && e->items[n].epoch <= epoch)
        n++;
    *ret_epoch = -1;
    *ret_end = -1;
    if (epoch < 0 || epoch > model_epochs_latest(e))
        return;
    *ret_epoch = n == 0 ? epoch : e->items[n - 1].epoch;
    *ret_end = n == e->count ? log_end : e->items[n].start;
}

int32_t model_epochs_of_offset(const struct model_epochs *e, int64_t offset)
{
    int32_t epoch = -1;
    for (int i = 0; i < e->count && e->items[i].start <= offset; i++)
        epoch = e->items[i].epoch;
    return epoch;
}
