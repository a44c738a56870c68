#include "producer_model.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "model.h"

void model_read_batch(const uint8_t *b, const char *own_cluster, struct model_batch *ret_batch)
{
    struct control_record c;
    struct model_batch m = {.kind = MODEL_DATA,
                            .base_offset = batch_base_offset(b),
                            .last_offset = batch_last_offset(b),
                            .leader_epoch = batch_leader_epoch(b),
                            .producer_id = batch_producer_id(b),
                            .producer_epoch = batch_producer_epoch(b),
                            .base_sequence = batch_base_sequence(b),
                            .transactional = batch_is_transactional(b),
                            .max_timestamp = batch_max_timestamp(b)};
    if (batch_is_control(b)) {
        m.kind = MODEL_PASSIVE;
        if (control_parse(b, &c) == OK && control_is_end_txn(&c)) {
            m.kind = c.type == CONTROL_COMMIT ? MODEL_COMMIT : MODEL_ABORT;
            m.coordinator_epoch = c.coordinator_epoch;
        } else if (control_parse(b, &c) == OK && c.type == CONTROL_MIRROR_PID_RESET && m.producer_id == -1 &&
                   str_is(c.writer_cluster_id, own_cluster)) {
            m.kind = MODEL_BARRIER;
            m.scope = c.scope;
        }
    }
    *ret_batch = m;
}

static int compare(const void *a, const void *b)
{
    const struct model_producer *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

void producer_model_describe(struct bytes log, const char *own_cluster, struct buf *out)
{
    struct model_state *s = mem_calloc(1, sizeof(*s));
    struct model_batch m;
    struct batch_iter it;
    const uint8_t *b;
    batch_iter_init(&it, log);
    while (batch_iter_next(&it, &b) == BATCH_FOUND) {
        model_read_batch(b, own_cluster, &m);
        model_state_add(s, &m);
    }
    qsort(s->producers, (size_t)s->producer_count, sizeof(s->producers[0]), compare);
    for (int i = 0; i < s->producer_count; i++) {
        const struct model_producer *p = &s->producers[i];
        const struct model_seen *last = p->seen_count > 0 ? &p->seen[p->seen_count - 1] : NULL;
        buf_printf(out, "pid=%" PRId64 " epoch=%d seq=%d offset=%" PRId64 " txn=%" PRId64 " coordinator=%d\n", p->id, p->epoch,
                   last != NULL ? last->last_sequence : -1, last != NULL ? last->last_offset : -1, p->txn_first,
                   p->coordinator_epoch);
    }
    mem_free(s);
}
