#include "producer_model.h"

#include <inttypes.h>
#include <stdlib.h>

#include "codec/control.h"
#include "codec/record_batch.h"

#define MODEL_PRODUCERS 64

struct model_producer {
    int64_t id;
    int epoch, sequence, coordinator;
    int64_t offset, txn;
};

struct model {
    struct model_producer items[MODEL_PRODUCERS];
    int count;
};

static struct model_producer *find(struct model *m, int64_t id)
{
    for (int i = 0; i < m->count; i++)
        if (m->items[i].id == id)
            return &m->items[i];
    if (m->count == MODEL_PRODUCERS)
        abort();
    m->items[m->count] = (struct model_producer){id, -1, -1, -1, -1, -1};
    return &m->items[m->count++];
}

static void set_epoch(struct model_producer *p, int epoch)
{
    if (p->epoch == epoch)
        return;
    p->epoch = epoch;
    p->sequence = -1;
    p->offset = -1;
}

static void replay_control(struct model *m, const uint8_t *b, const char *own_cluster)
{
    struct control_record c;
    if (control_parse(b, &c) != OK)
        return;
    if (c.type == CONTROL_MIRROR_PID_RESET && batch_producer_id(b) == -1 && str_is(c.writer_cluster_id, own_cluster)) {
        int kept = 0;
        for (int i = 0; i < m->count; i++)
            if (c.scope == MIRROR_PID_RESET_NEGATIVE && m->items[i].id >= 0)
                m->items[kept++] = m->items[i];
        m->count = kept;
    } else if (control_is_end_txn(&c)) {
        struct model_producer *p = find(m, batch_producer_id(b));
        set_epoch(p, batch_producer_epoch(b));
        p->txn = -1;
        p->coordinator = c.coordinator_epoch;
    }
}

static void replay_data(struct model *m, const uint8_t *b)
{
    struct model_producer *p = find(m, batch_producer_id(b));
    set_epoch(p, batch_producer_epoch(b));
    p->sequence = batch_last_sequence(b);
    p->offset = batch_last_offset(b);
    if (batch_is_transactional(b) && p->txn < 0)
        p->txn = batch_base_offset(b);
}

static int compare(const void *a, const void *b)
{
    const struct model_producer *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

void producer_model_describe(struct bytes log, const char *own_cluster, struct buf *out)
{
    struct model m = {.count = 0};
    struct batch_iter it;
    const uint8_t *b;
    batch_iter_init(&it, log);
    while (batch_iter_next(&it, &b) == BATCH_FOUND) {
        if (batch_is_control(b))
            replay_control(&m, b, own_cluster);
        else if (batch_producer_id(b) != -1)
            replay_data(&m, b);
    }
    qsort(m.items, (size_t)m.count, sizeof(m.items[0]), compare);
    for (int i = 0; i < m.count; i++)
        buf_printf(out, "pid=%" PRId64 " epoch=%d seq=%d offset=%" PRId64 " txn=%" PRId64 " coordinator=%d\n", m.items[i].id,
                   m.items[i].epoch, m.items[i].sequence, m.items[i].offset, m.items[i].txn, m.items[i].coordinator);
}
