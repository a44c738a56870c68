/* What must be there after a start. See world.h. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "producer_model.h"

static void check_producers(struct world *w, const struct one_log *l)
{
    struct buf now = {0}, text = {0}, model = {0};
    read_all(&w->f, 0, &now);
    describe_producers(&w->f, &text);
    producer_model_describe(buf_bytes(&now), OWN_CLUSTER, &model);
    if (strcmp(buf_cstr(&text), buf_cstr(&model)) != 0)
        wrong(w, l, "has producers\n%sand not\n%s", buf_cstr(&text), buf_cstr(&model));
    buf_fini(&now);
    buf_fini(&text);
    buf_fini(&model);
}

/* ---- Aborted transactions, from the bytes ---- */

struct txns {
    struct {
        int64_t producer_id, first_offset, last_offset; /* last_offset -1: open */
        bool committed;
    } items[300];
    int count;
};

static void replay_txns(struct bytes bytes, struct txns *t)
{
    struct batch_iter it;
    const uint8_t *b;
    struct control_record control;
    batch_iter_init(&it, bytes);
    t->count = 0;
    while (batch_iter_next(&it, &b) == BATCH_FOUND) {
        int64_t pid = batch_producer_id(b);
        int i = t->count - 1;
        while (i >= 0 && (t->items[i].producer_id != pid || t->items[i].last_offset >= 0))
            i--;
        if (pid == NO_PID && batch_is_control(b) && control_parse(b, &control) == OK &&
            control.type == CONTROL_MIRROR_PID_RESET) {
            if (!str_is(control.writer_cluster_id, OWN_CLUSTER))
                continue;
            for (i = 0; i < t->count; i++) /* the producers are forgotten, their transactions with them */
                if (t->items[i].last_offset < 0) {
                    t->items[i].last_offset = batch_last_offset(b);
                    t->items[i].committed = true;
                }
        } else if (batch_is_control(b) && i >= 0 && control_parse(b, &control) == OK) {
            t->items[i].last_offset = batch_last_offset(b);
            t->items[i].committed = control.type == CONTROL_COMMIT;
        } else if (!batch_is_control(b) && batch_is_transactional(b) && i < 0 && t->count < (int)ARRAY_SIZE(t->items)) {
            t->items[t->count].producer_id = pid;
            t->items[t->count].first_offset = batch_base_offset(b);
            t->items[t->count].last_offset = -1;
            t->items[t->count++].committed = false;
        }
    }
}

static bool listed(const struct plog_aborted *aborted, int n, int64_t pid, int64_t first)
{
    for (int i = 0; i < n; i++)
        if (aborted[i].producer_id == pid && aborted[i].first_offset == first)
            return true;
    return false;
}

/* A read_committed consumer would be shown what was aborted when its entry in the transaction index is lost. */
static void check_aborted(struct world *w, const struct one_log *l)
{
    struct plog *log = w->f.log;
    struct buf now = {0};
    struct txns t;
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    read_all(&w->f, 0, &now);
    replay_txns(buf_bytes(&now), &t);
    buf_fini(&now);
    for (int64_t at = 0; at < plog_end_offset(log);) {
        struct plog_slice slice = {0};
        struct plog_aborted *aborted = NULL;
        int n = 0;
        enum error error = plog_read(log, at, plog_end_offset(log), 1 << 20, true, &slice);
        if (error == OK)
            error = plog_aborted_for(log, at, &slice, &arena, &aborted, &n);
        if (error != OK || slice.len == 0)
            wrong(w, l, "cannot be read at %" PRId64 ": %s", at, error_name(error));
        for (int i = 0; i < t.count; i++)
            if (!t.items[i].committed && t.items[i].last_offset >= at && t.items[i].first_offset < slice.end_offset &&
                !listed(aborted, n, t.items[i].producer_id, t.items[i].first_offset))
                wrong(w, l, "has lost the aborted transaction of %" PRId64 " from %" PRId64 " to %" PRId64,
                      t.items[i].producer_id, t.items[i].first_offset, t.items[i].last_offset);
        at = slice.end_offset;
        plog_slice_release(&slice);
    }
    arena_fini(&arena);
}

static void check_log(struct world *w, struct one_log *l)
{
    struct plog *log = w->f.log;
    struct buf now = {0};
    int64_t start = MAX(l->before_start, plog_start_offset(log)), end = plog_end_offset(log);
    if (end < l->floor)
        wrong(w, l, "ends at %" PRId64 ", below what was durable, %" PRId64, end, l->floor);
    int64_t grown = MAX(l->may_grow, l->left_over);
    l->left_over = 0;
    if (end > l->before_end + grown)
        wrong(w, l, "ends at %" PRId64 ", but nobody wrote more than up to %" PRId64, end, l->before_end + grown);
    if (plog_high_watermark(log) > end || plog_high_watermark(log) < plog_start_offset(log))
        wrong(w, l, "has the high watermark %" PRId64 " and ends at %" PRId64, plog_high_watermark(log), end);
    bool anew =
        end == plog_start_offset(log) && end > 0; /* the log start was ahead of a lost tail: no batch is left that has an epoch */
    if (plog_latest_epoch(log) < l->epoch_floor && !anew && grown == 0) /* what a refused append left may be of an older epoch */
        wrong(w, l, "is at epoch %d and was at %d", plog_latest_epoch(log), l->epoch_floor);
    if (start < end)
        read_all(&w->f, start, &now);
    struct bytes expected = batches_from(buf_bytes(&l->before), start);
    size_t same = MIN(now.len, (size_t)expected.len);
    if (same > 0 && memcmp(now.data, expected.p, same) != 0)
        wrong(w, l, "is no prefix of what was written");
    if (batches_end(buf_bytes(&now), end) != end)
        wrong(w, l, "does not end with its last batch");
    buf_fini(&now);
    if (!l->front_gone && plog_start_offset(log) == 0)
        check_producers(w, l);
    if (!l->front_gone && plog_start_offset(log) == 0)
        check_aborted(w, l);
}

/* As the server does when it applies the metadata: a log that they know and that a crash has taken, or its topic id, is made anew. */
static void create_again(struct world *w, struct one_log *l)
{
    struct plog *log = NULL;
    enum error error = log_manager_get(w->manager, str_of(l->topic), l->index, &log);
    struct uuid id = log != NULL ? plog_topic_id(log) : UUID_ZERO;
    if (!l->must_exist || !uuid_is_zero(&id) || error == KAFKA_STORAGE_ERROR)
        return;
    error = create(w, l);
    if (error != OK)
        wrong(w, l, "cannot be created again: %s", error_name(error));
}

void check(struct world *w)
{
    for (int i = 0; i < LOGS; i++) {
        struct one_log *l = &w->logs[i];
        create_again(w, l);
        w->f.log = log_of(w, l);
        if (w->f.log == NULL && l->must_exist)
            wrong(w, l, "is gone");
        if (w->f.log != NULL && !l->must_exist && !l->may_exist)
            wrong(w, l, "was deleted and is back");
        if (w->f.log == NULL) {
            struct plog *log;
            if (log_manager_get(w->manager, str_of(l->topic), l->index, &log) != ERR_NOT_FOUND)
                continue; /* it is there, and its files could not be read just now */
            l->may_exist = false;
            forget(l);
            continue;
        }
        struct uuid id = id_of(l), has = plog_topic_id(w->f.log);
        if (!uuid_eq(&has, &id) && (l->must_exist || !uuid_is_zero(&has)))
            wrong(w, l, "has another topic's id");
        check_log(w, l);
        l->floor = 0; /* a truncation that was under way may have lowered it; remember() takes what is durable now */
        l->epoch_floor = MIN(l->epoch_floor, plog_latest_epoch(w->f.log));
        remember(w, l);
        l->may_exist = true; /* one whose creation was not answered is created again */
        if (!l->must_exist)
            continue;
        log_manager_adopt(w->manager, w->f.log, &l->mutex);
        l->adopted = true;
    }
}
