/* The stop sequence (spec section 6): STOPPING to STOPPED, over any number of partitions together, phase by phase. Nothing
 * here asks the source anything.
 *
 * Crash argument. Each phase is durable before the next begins, and each looks at what is there before it does anything:
 *   1 STOPPING is stored (with the wanted state and the options): from here on a restart carries on by itself (mirrors_start);
 *   2 the fetchers let go: nothing is appended any more but by us. After a restart no fetcher takes a STOPPING partition;
 *   3+4 what was copied is made durable; then position and new leader epoch are stored in one commit with the epochs
 *     themselves. A repetition finds the position stored and keeps it, though the log has grown by markers since; and it keeps the epoch (a restart after an unclean end
 *     may have raised it further: higher is as good);
 *   5 each marker ends its transaction in the producer state, which is a function of the log: a repetition ends those that are
 *     still open. Truncation: the shorter position is stored first, then the log is cut, until no transaction is open; a
 *     repetition goes on with those that are;
 *   6 the barrier: a repetition sees it as the last batch, at or above the epoch of this stop, and does not write it again,
 *     but waits for it to be durable;
 *   7 the floor of producer ids only ever rises. What the barrier dropped from memory was below the floor before it was
 *     stored;
 *   8 STOPPED is stored with the report; only then is the partition opened to clients.
 * A partition that fails on the way (its disk) goes FAILED with the reason, and the others go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/logger.h"
#include "codec/record_batch.h"
#include "mirror/internal.h"

#define STOP_FLUSH_THREADS 32

struct open_txn {
    int64_t producer_id;
    int64_t first_offset;
    int16_t producer_epoch;
    int32_t coordinator_epoch;
};

struct open_txns {
    struct open_txn *items;
    int count, capacity;
    int64_t max_producer_id;
};

struct stop_item {
    struct mirror_partition *mp; /* referenced */
    struct partition *partition; /* referenced */
    bool dropped;                /* it went FAILED, or never took part */
    struct mirror_stop_report report;
    int32_t position_epoch;
    int64_t position_offset;
    bool has_position;
    int32_t stop_epoch;
    int64_t max_producer_id;
    struct helper_job flush;
    enum error flushed;
};

struct stop {
    struct mirrors *m;
    const struct stop_options *options;
    struct stop_item *items;
    int count;
    const struct partition_list *list;
    bool halted; /* by a unit, where a fault point would kill the process */
};

/* A fault point; its name is also a switch that breaks the sequence off, as a crash would. */
static void passed(struct stop *s, const char *point)
{
    FAULT_POINT(point);
    if (TEST_SWITCH(point))
        s->halted = true;
    (void)point;
}

static void drop(struct stop_item *item, enum error error, const char *what)
{
    struct problem why;
    problem_set(&why, error, "The stop of %s-%d failed at: %s (%s)", item->mp->topic, item->mp->index, what,
                error_message(error));
    problem_hint(&why, "When the cause is gone: kagami mirror stop %s --topics %s", item->mp->mirror->name, item->mp->topic);
    mirror_partition_fail_now(item->mp, &why, error == ERR_NO_SPACE);
    item->dropped = true;
}

static void drop_all(struct stop *s, enum error error, const char *what)
{
    for (int i = 0; i < s->count; i++) {
        if (!s->items[i].dropped)
            drop(&s->items[i], error, what);
    }
}

/* ---- Open transactions ---- */

static bool note_producer(void *arg, const struct producer_entry *entry)
{
    struct open_txns *open = arg;
    open->max_producer_id = MAX(open->max_producer_id, entry->producer_id);
    if (entry->current_txn_first_offset < 0)
        return true;
    if (open->count == open->capacity) {
        open->capacity = MAX(16, open->capacity * 2);
        open->items = mem_realloc(open->items, (size_t)open->capacity * sizeof(*open->items));
    }
    open->items[open->count++] = (struct open_txn){entry->producer_id, entry->current_txn_first_offset, entry->producer_epoch,
                                                   MAX(entry->coordinator_epoch, 0)};
    return true;
}

static int by_first_offset(const void *a, const void *b)
{
    const struct open_txn *x = a, *y = b;
    return x->first_offset < y->first_offset ? -1 : x->first_offset > y->first_offset;
}

static enum error find_open(struct partition *p, struct open_txns *ret_open)
{
    *ret_open = (struct open_txns){.max_producer_id = -1};
    struct plog *log = partition_lock(p);
    if (log == NULL)
        return UNKNOWN_TOPIC_OR_PARTITION;
    producer_state_each(plog_producers(log), note_producer, ret_open);
    partition_unlock(p);
    if (ret_open->count > 0)
        qsort(ret_open->items, (size_t)ret_open->count, sizeof(*ret_open->items), by_first_offset);
    return OK;
}

static bool is_own(const struct open_txns *open, const uint8_t *batch)
{
    for (int i = 0; i < open->count && batch_is_transactional(batch) && !batch_is_control(batch); i++) {
        if (open->items[i].producer_id == batch_producer_id(batch) && batch_base_offset(batch) >= open->items[i].first_offset)
            return true;
    }
    return false;
}

static enum error count_records(struct partition *p, const struct open_txns *open, int64_t from, int64_t *own, int64_t *others)
{
    enum error error = OK;
    struct buf bytes = {0};
    while (error == OK) {
        struct plog_slice slice = {0};
        struct plog *log = partition_lock(p);
        if (log == NULL)
            return UNKNOWN_TOPIC_OR_PARTITION;
        error = plog_read(log, from, plog_end_offset(log), 1024 * 1024, true, &slice);
        partition_unlock(p);
        if (error != OK || slice.segment == NULL || slice.len == 0) {
            plog_slice_release(&slice);
            break;
        }
        struct batch_iter it;
        const uint8_t *batch;
        int64_t begun = from;
        buf_clear(&bytes);
        error = plog_slice_copy(&slice, &bytes);
        batch_iter_init(&it, buf_bytes(&bytes));
        while (error == OK && batch_iter_next(&it, &batch) == BATCH_FOUND) {
            *(is_own(open, batch) ? own : others) += MAX(batch_count(batch), 0);
            from = batch_next_offset(batch);
        }
        if (error == OK && from <= begun)
            error = CORRUPT_MESSAGE;
        plog_slice_release(&slice);
    }
    buf_fini(&bytes);
    return error;
}

enum error stop_truncation_cost(struct partition *p, int64_t *ret_own, int64_t *ret_others)
{
    struct open_txns open;
    int64_t own = 0, others = 0;
    enum error error = find_open(p, &open);
    if (error == OK && open.count > 0)
        error = count_records(p, &open, open.items[0].first_offset, &own, &others);
    mem_free(open.items);
    if (error == OK) {
        *ret_own = own;
        *ret_others = others;
    }
    return error;
}

/* ---- 1: STOPPING ---- */

static void begin_report(struct stop *s, struct stop_item *item, struct mirror_partition_record *r)
{
    int64_t seen = atomic_load(&item->mp->source_seen_ms);
    r->report = (struct mirror_stop_report){.source_high_watermark = atomic_load(&item->mp->source_high_watermark),
                                            .source_age_ms = seen >= 0 ? MAX(clock_mono_ms(s->m->params.clock) - seen, 0) : -1,
                                            .end_offset = -1,
                                            .started_ms = clock_wall_ms(s->m->params.clock)};
    r->has_report = true;
    r->has_position = false;
    r->position_epoch = -1;
    r->position_offset = -1;
    r->stop_leader_epoch = -1;
}

static enum error phase_stopping(struct stop *s, struct problem *problem)
{
    struct change c;
    struct mirror_topic *t, *last = NULL;
    change_begin(&c, s->m);
    for (int i = 0; i < s->count; i++) {
        struct stop_item *item = &s->items[i];
        struct mirror_partition_record *r = change_edit(&c, item->mp);
        if (r->state == MIRROR_FAILED && r->failed_from == MIRROR_STOPPING)
            r->state = MIRROR_STOPPING; /* the same stop goes on: what it has stored stands */
        else if (r->state != MIRROR_STOPPING)
            begin_report(s, item, r);
        r->state = MIRROR_STOPPING;
        r->retries = 0;
        mirror_partition_record_fail(r, OK, NULL, false);
        item->report = r->report;
        item->has_position = r->has_position;
        item->position_epoch = r->position_epoch;
        item->position_offset = r->position_offset;
        item->stop_epoch = r->stop_leader_epoch;
        mutex_lock(&s->m->mutex);
        t = mirrors_topic_locked(s->m, str_of(item->mp->topic));
        if (t != NULL && t != last) {
            struct mirror_topic_record record = t->record;
            record.wanted = MIRROR_STOPPED;
            record.stop_open_transactions = s->options->open_transactions;
            record.stop_force = s->options->force;
            change_put_topic(&c, t->name, &record);
            last = t;
        }
        mutex_unlock(&s->m->mutex);
    }
    enum error error = change_commit(&c, problem);
    if (error == OK) {
        mutex_lock(&s->m->mutex);
        for (int i = 0; i < s->count; i++) {
            t = mirrors_topic_locked(s->m, str_of(s->items[i].mp->topic));
            if (t == NULL)
                continue;
            t->record.wanted = MIRROR_STOPPED;
            t->record.stop_open_transactions = s->options->open_transactions;
            t->record.stop_force = s->options->force;
        }
        mutex_unlock(&s->m->mutex);
    }
    change_end(&c);
    return error;
}

/* ---- 2: fetchers let go ---- */

static void phase_detach(struct stop *s)
{
    const struct partition_list *list = s->list;
    struct latch latch;
    latch_init(&latch, 0);
    for (int i = 0; i < list->count; i++) { /* once for each mirror among them */
        bool first = true;
        for (int j = 0; j < i && first; j++)
            first = list->items[j]->mirror != list->items[i]->mirror;
        if (first)
            link_detach(list->items[i]->mirror->link, list, &latch);
    }
    latch_wait(&latch);
    for (int i = 0; i < s->count; i++) {
        struct stop_item *item = &s->items[i];
        mutex_lock(&s->m->mutex);
        item->partition = item->mp->partition != NULL ? partition_ref(item->mp->partition) : NULL;
        mutex_unlock(&s->m->mutex);
        if (item->partition == NULL)
            drop(item, KAFKA_STORAGE_ERROR, "its log is not open");
    }
}

/* ---- Durability ---- */

static void flush(struct helper_job *job)
{
    struct stop_item *item = CONTAINER_OF(job, struct stop_item, flush);
    item->flushed = partition_flush(item->partition);
}

/* Makes all logs durable. Syncs that wait together share the disk's commits (1 thread did 185 of small files a second where 10 did 1,900 and 32 did 3,700), so they get threads of their
 * own for the moment: those of the broker are fewer, and clients wait for them. */
static void make_durable(struct stop *s, const char *what)
{
    struct helpers *threads = NULL;
    enum error error = s->count > 1 ? helpers_start(MIN(s->count, STOP_FLUSH_THREADS), &threads) : ERR_STATE;
    for (int i = 0; i < s->count; i++) {
        struct stop_item *item = &s->items[i];
        if (item->dropped)
            continue;
        item->flush = (struct helper_job){.work = flush};
        if (error == OK)
            helpers_submit(threads, &item->flush);
        else
            flush(&item->flush);
    }
    helpers_stop(threads); /* when all is done */
    for (int i = 0; i < s->count; i++) {
        if (!s->items[i].dropped && s->items[i].flushed != OK)
            drop(&s->items[i], s->items[i].flushed, what);
    }
}

/* ---- 3 and 4: position, leader epoch ---- */

static void read_position(struct stop_item *item, int32_t *ret_at_least)
{
    struct plog *log = partition_lock(item->partition);
    *ret_at_least = 0;
    if (log == NULL || plog_failed(log)) {
        if (log != NULL)
            partition_unlock(item->partition);
        drop(item, KAFKA_STORAGE_ERROR, "its log cannot be used");
        return;
    }
    int32_t last_epoch = plog_last_batch_epoch(log);
    int64_t end = plog_end_offset(log);
    *ret_at_least = MAX(plog_latest_epoch(log), last_epoch) + 1;
    partition_unlock(item->partition);
    if (!item->has_position) {
        item->position_epoch = last_epoch;
        item->position_offset = last_epoch >= 0 ? end : -1;
        item->has_position = true;
    }
}

static void phase_position(struct stop *s)
{
    struct change c;
    struct problem problem;
    struct epoch_raise *raises = mem_calloc((size_t)s->count + 1, sizeof(*raises));
    int *owners = mem_calloc((size_t)s->count + 1, sizeof(*owners)), n = 0;
    make_durable(s, "making what was copied durable"); /* a position beyond what a power cut keeps would be a lie to the next mirror */
    for (int i = 0; i < s->count; i++) {
        struct stop_item *item = &s->items[i];
        struct partition_state state;
        int32_t at_least;
        if (item->dropped)
            continue;
        read_position(item, &at_least);
        if (item->dropped)
            continue;
        partition_get_state(item->partition, &state);
        if (item->stop_epoch < 0)
            item->stop_epoch = MAX(at_least, state.leader_epoch);
        raises[n] = (struct epoch_raise){.topic = item->mp->topic, .partition = item->mp->index, .at_least = item->stop_epoch};
        owners[n++] = i;
    }
    change_begin(&c, s->m);
    for (int i = 0; i < n; i++) {
        struct stop_item *item = &s->items[owners[i]];
        struct mirror_partition_record *r = change_edit(&c, item->mp);
        r->has_position = true;
        r->position_epoch = item->position_epoch;
        r->position_offset = item->position_offset;
        r->stop_leader_epoch = item->stop_epoch;
    }
    change_seal(&c);
    enum error error = n > 0 ? controller_raise_leader_epochs(s->m->params.controller, raises, n, &c.txn, &problem) : OK;
    if (error == OK)
        change_apply(&c);
    change_end(&c);
    if (error != OK)
        drop_all(s, error, "storing position and leader epoch");
    passed(s, "stop.3");
    for (int i = 0; i < n && error == OK && !s->halted; i++) {
        struct stop_item *item = &s->items[owners[i]];
        enum error each = raises[i].leader_epoch >= 0 ? partition_set_leader_epoch(item->partition, raises[i].leader_epoch) : OK;
        if (each != OK && each != ERR_STATE) /* ERR_STATE: it stands higher already */
            drop(item, each, "raising the leader epoch");
    }
    mem_free(raises);
    mem_free(owners);
}

/* ---- 5: open transactions ---- */

static enum error write_markers(struct stop *s, struct stop_item *item, const struct open_txns *open)
{
    struct plog_appended appended;
    for (int i = 0; i < open->count && !s->halted; i++) {
        const struct open_txn *txn = &open->items[i];
        enum error error = partition_append_marker(item->partition, txn->producer_id, txn->producer_epoch, false,
                                                   txn->coordinator_epoch, &appended);
        if (error != OK)
            return error;
        item->report.aborted_transactions++;
        log_info(MIRROR_AREA,
                 "open transaction aborted topic=%s partition=%d producerId=%lld producerEpoch=%d firstOffset=%lld offset=%lld",
                 item->mp->topic, item->mp->index, (long long)txn->producer_id, txn->producer_epoch, (long long)txn->first_offset,
                 (long long)appended.base_offset);
        passed(s, "stop.5.marker");
    }
    return OK;
}

static enum error store_position(struct stop *s, struct stop_item *item)
{
    struct change c;
    struct problem problem;
    change_begin(&c, s->m);
    struct mirror_partition_record *r = change_edit(&c, item->mp);
    r->position_epoch = item->position_epoch;
    r->position_offset = item->position_offset;
    r->report.truncated_records = item->report.truncated_records;
    enum error error = change_commit(&c, &problem);
    change_end(&c);
    return error;
}

static enum error cut_open(struct stop *s, struct stop_item *item, const struct open_txns *open)
{
    int64_t own = 0, others = 0, lso = open->items[0].first_offset;
    enum error error = count_records(item->partition, open, lso, &own, &others);
    if (error != OK)
        return error;
    if (others > 0 && !s->options->force) {
        struct problem why;
        problem_set(
            &why, INVALID_CLUSTER_MIRROR_STATE,
            "Cutting %s-%d at its first open transaction, offset %lld, would cost %lld records that are not of open transactions",
            item->mp->topic, item->mp->index, (long long)lso, (long long)others);
        problem_hint(&why, "Stop with --open-transactions abort, or with --force to lose them");
        mirror_partition_fail_now(item->mp, &why, false);
        item->dropped = true;
        return OK;
    }
    struct plog *log = partition_lock(item->partition);
    if (log == NULL)
        return UNKNOWN_TOPIC_OR_PARTITION;
    bool rest = lso > plog_start_offset(log);
    if (item->position_offset > lso) { /* else a stop that was broken off has stored this cut */
        item->report.truncated_records += own + others;
        item->position_epoch = rest ? plog_epoch_of_offset(log, lso - 1) : -1;
        item->position_offset = rest ? lso : -1;
    }
    partition_unlock(item->partition);
    error = store_position(s, item);
    if (error == OK)
        error = partition_truncate_to(item->partition, lso);
    if (error == OK)
        log_warn(MIRROR_AREA, "open transactions cut off topic=%s partition=%d offset=%lld records=%lld ofOthers=%lld",
                 item->mp->topic, item->mp->index, (long long)lso, (long long)(own + others), (long long)others);
    return error;
}

static enum error end_transactions(struct stop *s, struct stop_item *item)
{
    bool truncate = s->options->open_transactions == MIRROR_TXN_TRUNCATE, again = true;
    enum error error = OK;
    /* What is cut off may hold the marker of a transaction that began before the cut: it is open then, and the next to go. */
    while (error == OK && again) {
        struct open_txns open;
        error = find_open(item->partition, &open);
        item->max_producer_id = MAX(item->max_producer_id, open.max_producer_id);
        if (error == OK && open.count > 0)
            error = truncate ? cut_open(s, item, &open) : write_markers(s, item, &open);
        again = truncate && open.count > 0 && !item->dropped && !s->halted;
        mem_free(open.items);
    }
    return error;
}

static void phase_transactions(struct stop *s)
{
    for (int i = 0; i < s->count; i++) {
        struct stop_item *item = &s->items[i];
        enum error error = item->dropped ? OK : end_transactions(s, item);
        if (error != OK)
            drop(item, error, "ending its open transactions");
    }
}

/* ---- 6: barrier ---- */

static enum error write_barrier(struct stop_item *item, const char *source_cluster_id)
{
    struct plog_appended appended;
    struct plog *log = partition_lock(item->partition);
    int32_t epoch = -1;
    if (log == NULL)
        return UNKNOWN_TOPIC_OR_PARTITION;
    bool there = plog_ends_with_own_barrier(log, &epoch) && epoch >= item->stop_epoch;
    partition_unlock(item->partition);
    if (there)
        return OK;
    int expired = 0;
    enum error error = partition_append_barrier(item->partition, str_of(source_cluster_id), 0, &appended, &expired);
    if (error != OK)
        return error;
    item->report.expired_producers += expired;
    log_info(MIRROR_AREA, "barrier written topic=%s partition=%d offset=%lld epoch=%d expiredProducers=%d", item->mp->topic,
             item->mp->index, (long long)appended.base_offset, item->stop_epoch, expired);
    return OK;
}

static void phase_barrier(struct stop *s)
{
    for (int i = 0; i < s->count; i++) {
        struct stop_item *item = &s->items[i];
        if (item->dropped)
            continue;
        mutex_lock(&s->m->mutex);
        const char *id = item->mp->mirror->record.source_cluster_id;
        char *source = mem_strdup(id != NULL ? id : "");
        mutex_unlock(&s->m->mutex);
        enum error error = write_barrier(item, source);
        mem_free(source);
        if (error != OK)
            drop(item, error, "writing the barrier");
    }
    passed(s, "stop.6.append");
    if (s->halted)
        return;
    make_durable(s, "making the barrier durable");
}

/* ---- 7: producer ids ---- */

static void phase_producer_ids(struct stop *s)
{
    struct problem problem;
    int64_t max = -1;
    for (int i = 0; i < s->count; i++)
        max = s->items[i].dropped ? max : MAX(max, s->items[i].max_producer_id);
    enum error error = max >= 0 ? controller_producer_ids_raise_above(s->m->params.controller, max, &problem) : OK;
    if (error != OK)
        drop_all(s, error, "raising the floor of producer ids");
}

/* ---- 8: STOPPED ---- */

static void phase_stopped(struct stop *s)
{
    struct change c;
    struct problem problem;
    change_begin(&c, s->m);
    for (int i = 0; i < s->count; i++) {
        struct stop_item *item = &s->items[i];
        struct partition_state state;
        if (item->dropped)
            continue;
        partition_get_state(item->partition, &state);
        struct mirror_partition_record *r = change_edit(&c, item->mp);
        r->state = MIRROR_STOPPED;
        r->position_epoch = item->position_epoch;
        r->position_offset = item->position_offset;
        r->report = item->report;
        r->report.end_offset = state.end_offset;
        r->report.ended_ms = clock_wall_ms(s->m->params.clock);
    }
    enum error error = change_commit(&c, &problem);
    change_end(&c);
    if (error != OK) {
        drop_all(s, error, "storing the state STOPPED");
        return;
    }
    passed(s, "stop.8");
    if (s->halted)
        return;
    mutex_lock(&s->m->mutex);
    for (int i = 0; i < s->count; i++) {
        if (!s->items[i].dropped)
            mirror_partition_apply_locked(s->items[i].mp);
    }
    mutex_unlock(&s->m->mutex);
}

/* ---- All of it ---- */

static void add_time(struct stop *s, struct buf *times, const char *what, int64_t *since_ns)
{
    int64_t now_ns = clock_mono_ns(s->m->params.clock);
    buf_printf(times, " %s=%lld", what, (long long)((now_ns - *since_ns) / 1000000));
    *since_ns = now_ns;
}

static void run(struct stop *s)
{
    struct problem problem;
    struct buf times = {0};
    int64_t since_ns = clock_mono_ns(s->m->params.clock);
    enum error error = phase_stopping(s, &problem);
    if (error != OK) {
        log_error(MIRROR_AREA, "a stop could not begin partitions=%d error=%s: %s", s->count, error_name(error), problem.message);
        for (int i = 0; i < s->count; i++) {
            mutex_lock(&s->m->mutex);
            bool taken_up = s->items[i].mp->record.state == MIRROR_STOPPING;
            mutex_unlock(&s->m->mutex);
            if (taken_up) /* nobody else would go on with it */
                drop(&s->items[i], error, "taking the stop up");
            else
                mirror_partition_note_trouble(s->items[i].mp, &problem);
        }
        return;
    }
    static const struct {
        void (*run)(struct stop *s);
        const char *point; /* behind it */
        const char *name;
    } PHASES[] = {{phase_detach, "stop.2", "detachMs"},
                  {phase_position, "stop.4", "positionMs"},
                  {phase_transactions, "stop.5", "transactionsMs"},
                  {phase_barrier, "stop.6", "barrierMs"},
                  {phase_producer_ids, "stop.7", "producerIdsMs"},
                  {phase_stopped, "stop.end", "stoppedMs"}};
    passed(s, "stop.1");
    add_time(s, &times, "stoppingMs", &since_ns);
    for (size_t i = 0; i < ARRAY_SIZE(PHASES) && !s->halted; i++) {
        PHASES[i].run(s);
        if (!s->halted)
            passed(s, PHASES[i].point);
        add_time(s, &times, PHASES[i].name, &since_ns);
    }
    log_info(MIRROR_AREA, "stop ended partitions=%d%s", s->count, buf_cstr(&times));
    buf_fini(&times);
}

/* Those that nobody stops yet are taken in hand. */
static void claim(struct mirrors *m, const struct partition_list *list, struct partition_list *ret_mine)
{
    mutex_lock(&m->mutex);
    for (int i = 0; i < list->count; i++) {
        struct mirror_partition *mp = list->items[i];
        if (mp->stopping || mirror_state_writable(mp->record.state))
            continue;
        mp->stopping = true;
        partition_list_add(ret_mine, mp);
    }
    mutex_unlock(&m->mutex);
}

static void release_and_wait(struct mirrors *m, const struct partition_list *list, const struct partition_list *mine)
{
    mutex_lock(&m->mutex);
    for (int i = 0; i < mine->count; i++)
        mine->items[i]->stopping = false;
    condition_broadcast(&m->stopped);
    for (int i = 0; i < list->count; i++) {
        while (list->items[i]->stopping)
            condition_wait(&m->stopped, &m->mutex);
    }
    mutex_unlock(&m->mutex);
}

static void stop_mine(struct mirrors *m, struct partition_list *mine, const struct stop_options *options)
{
    struct stop s = {.m = m, .options = options, .list = mine, .count = mine->count};
    s.items = mem_calloc((size_t)mine->count, sizeof(*s.items));
    for (int i = 0; i < mine->count; i++) {
        s.items[i].mp = mine->items[i];
        s.items[i].max_producer_id = -1;
    }
    run(&s);
    for (int i = 0; i < s.count; i++)
        partition_unref(s.items[i].partition);
    mem_free(s.items);
}

/* Of those that another stop had in hand: what failed in it and is to be tried again, with nobody at it now. */
static void left_over(struct mirrors *m, const struct partition_list *list, const struct partition_list *mine,
                      struct partition_list *ret_left)
{
    mutex_lock(&m->mutex);
    for (int i = 0; i < list->count; i++) {
        bool was_mine = false;
        for (int k = 0; k < mine->count && !was_mine; k++)
            was_mine = mine->items[k] == list->items[i];
        if (!was_mine && !list->items[i]->stopping && list->items[i]->record.state == MIRROR_STOPPING)
            partition_list_add(ret_left, list->items[i]);
    }
    mutex_unlock(&m->mutex);
}

void mirrors_stop_partitions(struct mirrors *m, const struct partition_list *list, const struct stop_options *options)
{
    struct partition_list mine = {0}, left = {0};
    claim(m, list, &mine);
    if (mine.count > 0)
        stop_mine(m, &mine, options);
    release_and_wait(m, list, &mine);
    if (mine.count < list->count)
        left_over(m, list, &mine, &left);
    partition_list_fini(&mine);
    if (left.count > 0)
        mirrors_stop_partitions(m, &left, options);
    partition_list_fini(&left);
}
