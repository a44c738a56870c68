/* A directory of logs on a disk that fails: everything that storage does to it, with the trouble of one seed, life after life. See README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "log_fixture.h"
#include "producer_model.h"
#include "seeds.h"
#include "storage/log_manager.h"

#define LOGS 3
#define DIR "/data/logs"

struct one_log {
    const char *topic;
    int32_t index;
    uint8_t generation; /* of its topic id */
    bool must_exist, may_exist;
    struct buf before; /* its bytes, from before_start on, before the step under way */
    int64_t before_start, before_end;
    int64_t may_grow; /* by how many offsets the step under way may bring it further */
    int64_t
        left_over; /* likewise, of steps before that failed: what they wrote is cut off before the next append, or found after a crash */
    int64_t floor;       /* everything below is durable */
    int32_t epoch_floor; /* so is this epoch */
    bool front_gone;     /* the model of producers sees only what is left */
    struct mutex mutex;
    bool adopted;
};

struct world {
    uint64_t seed;
    struct sim_disk disk;
    struct seeded_random random;
    struct log_fixture f; /* for its batches and its clock; its log is the one under the step */
    struct log_manager *manager;
    struct one_log logs[LOGS];
    enum trouble trouble;
    const char *doing;
    int failures; /* times the manager said that its directory failed */
    bool in_step;
    bool expect_clean; /* the last end was a clean one, durably */
    struct buf events, history;
};

static uint64_t pick(struct world *w, uint64_t bound)
{
    return random_below(&w->random.source, bound);
}

static void wrong(const struct world *w, const struct one_log *l, const char *format, ...) PRINTF_LIKE(3, 4);
static void wrong(const struct world *w, const struct one_log *l, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s%s", buf_cstr((struct buf *)&w->history),
            buf_cstr((struct buf *)&w->events)); /* longer than cmocka's lines */
    fail_msg("seed %" PRIu64 " (%s, during %s): %s-%d %s", w->seed, trouble_text(w->trouble), w->doing,
             l != NULL ? l->topic : "the directory", l != NULL ? l->index : 0, text);
}

static bool failed(struct world *w)
{
    return sim_disk_has_failed(&w->disk);
}

static void on_event(void *arg, const char *text)
{
    buf_printf(&((struct world *)arg)->events, "%s\n", text);
}

static void on_failed(void *arg, const char *dir, const char *text)
{
    struct world *w = arg;
    w->failures++;
    if (strcmp(dir, DIR) != 0 || strlen(text) < 10)
        wrong(w, NULL, "the failure is told as '%s'", text);
    buf_printf(&w->events, "failed: %s\n", text);
}

static void on_config(void *arg, struct str topic, struct plog_config *ret_config)
{
    *ret_config = ((struct world *)arg)->f.params.config;
}

static void world_init(struct world *w, uint64_t seed)
{
    static const struct {
        const char *topic;
        int32_t index;
    } NAMES[LOGS] = {{"orders", 0}, {"orders", 1}, {"a.b-c", 12}};
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->doing = "start";
    seeded_random_init(&w->random, seed);
    sim_disk_init(&w->disk, &w->random.source);
    assert_int_equal(fs_mkdir(&w->disk.fs, "/data"), OK);
    assert_int_equal(fs_sync_dir(&w->disk.fs, "/"), OK);
    log_fixture_init_on(&w->f, &w->disk.fs);
    w->f.params.config.segment_bytes = 300 + (int64_t)pick(w, 1500);
    if (seed % 4 == 0)
        w->f.params.config.retention_bytes = 1500;
    for (int i = 0; i < LOGS; i++) {
        w->logs[i] = (struct one_log){.topic = NAMES[i].topic, .index = NAMES[i].index, .generation = 1};
        mutex_init(&w->logs[i].mutex);
    }
}

static void world_fini(struct world *w)
{
    for (int i = 0; i < LOGS; i++) {
        buf_fini(&w->logs[i].before);
        mutex_fini(&w->logs[i].mutex);
    }
    w->f.log = NULL;
    log_fixture_fini(&w->f);
    buf_fini(&w->events);
    buf_fini(&w->history);
    sim_disk_fini(&w->disk);
}

static struct plog *log_of(struct world *w, const struct one_log *l)
{
    struct plog *log = NULL;
    if (log_manager_get(w->manager, str_of(l->topic), l->index, &log) != OK)
        return NULL;
    return log;
}

/* ---- What was there before ---- */

static void forget(struct one_log *l)
{
    buf_clear(&l->before);
    l->before_start = l->before_end = l->may_grow = l->left_over = l->floor = 0;
    l->epoch_floor = -1;
    l->front_gone = false;
}

static void remember(struct world *w, struct one_log *l)
{
    struct plog *log = log_of(w, l);
    if (log == NULL || plog_failed(log))
        return;
    w->f.log = log;
    buf_clear(&l->before);
    l->before_start = plog_start_offset(log);
    l->before_end = plog_end_offset(log);
    l->front_gone = l->front_gone || l->before_start > 0;
    l->floor = MAX(l->floor, plog_recovery_point(log));
    l->epoch_floor = MIN(l->epoch_floor, plog_latest_epoch(log));
    l->may_grow = 0;
    w->disk.paused = true;
    read_all(&w->f, l->before_start, &l->before);
    w->disk.paused = false;
}

/* ---- Steps ---- */

static enum error client(struct world *w, struct one_log *l, int64_t pid, int records, bool transactional)
{
    struct plog_appended a;
    const struct producer_entry *e = producer_state_get(plog_producers(w->f.log), pid);
    if (e != NULL && e->current_txn_first_offset >= 0)
        transactional = true;
    struct batch_spec spec = {.producer_id = pid,
                              .producer_epoch = e != NULL ? e->producer_epoch : 0,
                              .base_sequence = e != NULL ? sequence_increment(producer_entry_last_sequence(e), 1) : 0,
                              .records = records,
                              .transactional = transactional};
    l->may_grow = records;
    return append(&w->f, &spec, &a);
}

static enum error copied(struct world *w, struct one_log *l)
{
    struct buf batches = {0};
    struct plog_appended a;
    int64_t offset = plog_end_offset(w->f.log);
    int count = 1 + (int)pick(w, 6);
    int32_t epoch = MAX(plog_latest_epoch(w->f.log), 0); /* never falls in a log */
    for (int i = 0; i < count; i++) {
        offset += (int64_t)pick(w, 3);
        epoch += (int32_t)pick(w, 2);
        struct batch_spec spec = {.producer_id = (int64_t)pick(w, 5) - 3, .base_sequence = i, .records = 2};
        make_copied(&w->f, &spec, offset, epoch, &batches);
        offset += 2;
    }
    l->may_grow = offset - plog_end_offset(w->f.log);
    l->epoch_floor = -1; /* an epoch without batches gives way to the source's history */
    enum error error = plog_append_copied(w->f.log, buf_bytes(&batches), &a, NULL);
    buf_fini(&batches);
    return error;
}

static enum error truncate(struct world *w, struct one_log *l)
{
    int64_t to = plog_end_offset(w->f.log) - (int64_t)pick(w, 30);
    to = MAX(to, plog_start_offset(w->f.log));
    bool cuts = to < plog_end_offset(w->f.log);
    l->floor = MIN(l->floor, to - 10); /* a batch that contains it goes */
    l->epoch_floor = -1;
    enum error error = plog_truncate_to(w->f.log, to);
    if (error == OK && cuts)
        l->floor = plog_end_offset(w->f.log); /* and what was above does not come back: see check_log */
    return error;
}

static enum error restart(struct world *w, struct one_log *l)
{
    int64_t to = plog_end_offset(w->f.log) + (int64_t)pick(w, 50);
    l->floor = 0;
    l->epoch_floor = -1;
    l->front_gone = true;
    l->may_grow = to - l->before_end;
    enum error error = plog_restart_at(w->f.log, to);
    if (error == OK)
        l->floor = to;
    return error;
}

static enum error raise_start(struct world *w, struct one_log *l)
{
    int64_t to = plog_start_offset(w->f.log) + (int64_t)pick(w, 10);
    to = MIN(to, plog_end_offset(w->f.log));
    /* The epochs below the new start leave the file at once. When the power then takes the tail in which the start lies, no batch is left and no epoch of one. */
    if (to > plog_recovery_point(w->f.log))
        l->epoch_floor = -1;
    return plog_set_start_offset(w->f.log, to);
}

static enum error log_step(struct world *w, struct one_log *l, uint64_t what)
{
    struct plog *log = w->f.log;
    struct plog_appended a;
    enum error error;
    int ignored, records;
    switch (what) {
    case 0:
        w->doing = "flush";
        return plog_flush_now(log);
    case 1:
        w->doing = "marker";
        l->may_grow = 1;
        return plog_append_marker(log, 3, 0, pick(w, 2) == 0, 0, MAX(plog_latest_epoch(log), 0), &a);
    case 2:
        w->doing = "barrier";
        l->may_grow = 1;
        return pick(w, 3) == 0 ? plog_append_barrier(log, STR("source"), 0, plog_latest_epoch(log) + 1, &a, &ignored) : OK;
    case 3:
        w->doing = "roll";
        return plog_roll(log);
    case 4:
        w->doing = "truncate";
        return pick(w, 3) == 0 ? truncate(w, l) : OK;
    case 5:
        w->doing = "snapshot";
        return plog_take_snapshot(log);
    case 6:
        w->doing = "log start";
        plog_set_high_watermark(log, plog_end_offset(log));
        l->front_gone = l->front_gone || w->seed % 3 == 0;
        return w->seed % 3 == 0 ? raise_start(w, l) : OK;
    case 7:
        w->doing = "epoch";
        error = plog_assign_epoch(log, plog_latest_epoch(log) + 1);
        if (error == OK && plog_recovery_point(log) ==
                               plog_end_offset(log)) /* one that begins behind a lost tail goes with it: the metadata have it */
            l->epoch_floor = plog_latest_epoch(log);
        return error;
    case 8:
        w->doing = "restart";
        return pick(w, 8) == 0 ? restart(w, l) : OK;
    case 9:
    case 10:
        w->doing = "copied append";
        return copied(w, l);
    case 11:
    case 12:
        w->doing = "transactional append";
        return client(w, l, 3, 1 + (int)pick(w, 3), true);
    default:
        w->doing = "append";
        records = 1 + (int)pick(w, 4); /* draws stand in an order of their own: a seed is the same life with every compiler */
        return client(w, l, 1 + (int64_t)pick(w, 2), records, false);
    }
}

static struct uuid id_of(const struct one_log *l)
{
    return (struct uuid){{7, (uint8_t)l->index, l->generation}};
}

static enum error create(struct world *w, struct one_log *l)
{
    struct plog *log;
    struct problem problem = {0};
    w->doing = "create";
    bool anew = !l->must_exist && !l->may_exist;
    if (anew)
        forget(l);
    l->may_exist = true;
    enum error error =
        log_manager_create_log(w->manager, str_of(l->topic), l->index, id_of(l), &w->f.params.config, &log, &problem);
    if (error == INCONSISTENT_TOPIC_ID)
        wrong(w, l, "is of a topic that was deleted: %s", problem.message);
    if (error != OK && (problem.code == OK || problem.message[0] == '\0'))
        wrong(w, l, "cannot be created, and no word why");
    if (error != OK)
        return error;
    error = log_manager_settle(w->manager);
    if (error != OK)
        return error;
    l->must_exist = true;
    log_manager_adopt(w->manager, log, &l->mutex);
    l->adopted = true;
    return OK;
}

static enum error remove_log(struct world *w, struct one_log *l)
{
    w->doing = "delete";
    l->must_exist = false;
    struct plog *log = log_of(w, l);
    if (log != NULL && l->adopted)
        log_manager_release(w->manager, log);
    l->adopted = false;
    enum error error = log_manager_delete_log(w->manager, str_of(l->topic), l->index);
    if (error == OK || log_of(w, l) == NULL)
        l->may_exist = error != OK;
    else if (log != NULL && log_of(w, l) == log)
        log_manager_adopt(w->manager, log, &l->mutex);
    if (error == OK) {
        l->generation++;
        forget(l);
    }
    return error;
}

static enum error step(struct world *w)
{
    struct one_log *l = &w->logs[pick(w, LOGS)];
    enum error error;
    w->f.log = log_of(w, l);
    uint64_t what = pick(w, 24);
    if (what >= 20 && w->seed % 5 != 0)
        what -= 10;
    switch (what) {
    case 16:
        w->doing = "checkpoint";
        return log_manager_checkpoint(w->manager);
    case 17:
        w->doing = "retention";
        for (int i = 0; i < LOGS; i++)
            if (w->f.params.config.retention_bytes > 0)
                w->logs[i].front_gone = true;
        log_manager_retention(w->manager);
        return OK;
    case 18:
        w->doing = "removal";
        manual_clock_advance(&w->f.clock, 40000);
        log_manager_remove_deleted(w->manager);
        return OK;
    case 20:
        return l->must_exist && pick(w, 3) == 0 ? remove_log(w, l) : OK;
    default:
        if (!l->must_exist || w->f.log == NULL)
            return create(w, l);
        error = log_step(w, l, what % 16);
        if (error != OK)
            l->left_over = MAX(l->left_over, l->may_grow);
        else if (l->may_grow > 0)
            l->left_over = 0;
        return error;
    }
}

/* ---- Checks ---- */

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

static void check_aborted(struct world *w, const struct one_log *l);

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

static void check(struct world *w)
{
    for (int i = 0; i < LOGS; i++) {
        struct one_log *l = &w->logs[i];
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
        l->epoch_floor = plog_latest_epoch(w->f.log);
        remember(w, l);
        l->may_exist = true; /* one whose creation was not answered is created again */
        if (!l->must_exist)
            continue;
        log_manager_adopt(w->manager, w->f.log, &l->mutex);
        l->adopted = true;
    }
}

/* ---- Lives ---- */

static enum error open_manager(struct world *w, struct problem *problem)
{
    struct log_manager_params params = {.fs = &w->disk.fs,
                                        .clock = &w->f.clock.clock,
                                        .random = &w->random.source,
                                        .dir = DIR,
                                        .cluster_id = OWN_CLUSTER,
                                        .node_id = 1,
                                        .topic_config = on_config,
                                        .event = on_event,
                                        .failed = on_failed,
                                        .arg = w};
    buf_clear(&w->events);
    w->failures = 0;
    enum error error = log_manager_open(&params, &w->manager, problem);
    if (error != OK)
        w->manager = NULL;
    return error;
}

static void end_life(struct world *w, bool power)
{
    for (int i = 0; i < LOGS; i++)
        w->logs[i].adopted = false;
    log_manager_close(w->manager, false);
    w->manager = NULL;
    w->f.log = NULL;
    buf_printf(&w->history, "- %s during %s%s%s, then %s\n", trouble_text(w->trouble), w->doing, failed(w) ? ", failed at " : "",
               failed(w) ? w->disk.failed_path : "", power ? "the power went" : "the process was killed");
    w->disk.capacity_bytes = 0;
    if (power)
        sim_disk_power_cut(&w->disk);
    else
        sim_disk_heal(&w->disk);
}

/* Some log could not be opened. */
static bool all_there(struct world *w)
{
    for (int i = 0; i < LOGS; i++)
        if (w->logs[i].must_exist && log_of(w, &w->logs[i]) == NULL)
            return false;
    return true;
}

/* From an end to a directory that is open and checked. The first tries may have trouble again. */
static void reopen(struct world *w)
{
    for (int tries = 0;; tries++) {
        struct problem problem = {0};
        w->trouble = TROUBLE_NONE;
        w->doing = "start";
        if (tries < 2 && pick(w, 3) == 0) {
            w->trouble = (enum trouble)pick(w, TROUBLE_FULL);
            sim_disk_fail(&w->disk,
                          w->trouble == TROUBLE_SYNC  ? SIM_SYNC | SIM_SYNC_DIR
                          : w->trouble == TROUBLE_EIO ? SIM_ANY
                                                      : SIM_CHANGES,
                          1 + pick(w, 40), w->trouble == TROUBLE_NO_SPACE ? ERR_NO_SPACE : ERR_IO, w->trouble <= TROUBLE_KILL);
        }
        enum error error = open_manager(w, &problem);
        if (error == OK && !failed(w) && w->expect_clean && !log_manager_was_clean(w->manager))
            wrong(w, NULL, "the clean end is forgotten");
        if (error == OK && !failed(w) && w->expect_clean && strstr(buf_cstr(&w->events), "recovered") != NULL)
            wrong(w, NULL, "a clean end left something to recover");
        if (error == OK && !log_manager_failed(w->manager) && all_there(w) && !(w->trouble <= TROUBLE_KILL && failed(w)))
            break;
        if (!failed(w))
            wrong(w, NULL, "the start needs a hand: %s %s (%s)", error_name(error), problem.message, problem.detail);
        if (error != OK && problem.message[0] == '\0')
            wrong(w, NULL, "the start fails without a word");
        w->expect_clean = false;
        end_life(w, w->trouble == TROUBLE_POWER || pick(w, 3) == 0);
    }
    sim_disk_heal(&w->disk);
    w->trouble = TROUBLE_NONE;
    check(w);
}

static void check_answer(struct world *w, enum error error)
{
    bool out = log_manager_failed(w->manager);
    if (error == OK || error == KAFKA_STORAGE_ERROR || w->trouble <= TROUBLE_KILL)
        return;
    if (error == ERR_IO && out)
        return;
    if (error == ERR_IO &&
        (strcmp(w->doing, "create") == 0 || strcmp(w->doing, "delete") == 0 || strcmp(w->doing, "checkpoint") == 0))
        return;
    if (error == ERR_NO_SPACE && w->trouble >= TROUBLE_NO_SPACE)
        return;
    wrong(w, NULL, "answers %s, %s", error_name(error), out ? "out of service" : "in service");
}

static void live(struct world *w)
{
    w->trouble = (enum trouble)pick(w, TROUBLE_NONE + 1);
    switch (w->trouble) {
    case TROUBLE_POWER:
    case TROUBLE_KILL:
        sim_disk_fail(&w->disk, SIM_CHANGES, 1 + pick(w, 200), ERR_IO, true);
        break;
    case TROUBLE_EIO:
        sim_disk_fail(&w->disk, SIM_ANY, 1 + pick(w, 600), ERR_IO, false);
        break;
    case TROUBLE_SYNC:
        sim_disk_fail(&w->disk, SIM_SYNC | SIM_SYNC_DIR, 1 + pick(w, 60), ERR_IO, false);
        break;
    case TROUBLE_NO_SPACE:
        sim_disk_fail(&w->disk, SIM_WRITE | SIM_CREATE, 1 + pick(w, 100), ERR_NO_SPACE, false);
        break;
    case TROUBLE_FULL:
        w->disk.capacity_bytes = w->disk.used_bytes + pick(w, 3000);
        break;
    case TROUBLE_NONE:
        break;
    }
    int after = 0;
    for (int i = 0; i < 100; i++) {
        if (w->trouble <= TROUBLE_KILL && failed(w))
            break;
        if (log_manager_failed(w->manager) && after++ > 5)
            break; /* it answered so a few times */
        for (int k = 0; k < LOGS; k++)
            remember(w, &w->logs[k]);
        check_answer(w, step(w));
        if (log_manager_failed(w->manager) && after == 0 && (w->trouble == TROUBLE_NO_SPACE || w->trouble == TROUBLE_FULL) &&
            strcmp(w->doing, "truncate") != 0 && strcmp(w->doing, "restart") != 0) /* half-way there is no log to go on with */
            wrong(w, NULL, "a full disk takes it out of service");
        if (w->trouble == TROUBLE_FULL && pick(w, 30) == 0)
            w->disk.capacity_bytes = 0; /* there is room again */
    }
    if (log_manager_failed(w->manager) && w->failures != 1)
        wrong(w, NULL, "its failure was told %d times", w->failures);
}

static void end(struct world *w)
{
    bool gone = w->trouble <= TROUBLE_KILL && failed(w);
    for (int k = 0; k < LOGS && !gone; k++)
        remember(w, &w->logs[k]);
    w->expect_clean = false;
    bool clean = pick(w, 3) == 0 && !log_manager_failed(w->manager) && !gone;
    if (clean) {
        w->doing = "clean end";
        w->disk.capacity_bytes = 0;
        bool had_failed = failed(w);
        for (int i = 0; i < LOGS; i++) {
            struct plog *log = log_of(w, &w->logs[i]);
            if (log != NULL)
                log_manager_release(w->manager, log);
        }
        buf_clear(&w->events);
        log_manager_close(w->manager, true);
        w->manager = NULL;
        w->expect_clean = failed(w) == had_failed;
        for (int i = 0; i < LOGS && w->expect_clean; i++) {
            w->logs[i].floor = w->logs[i].before_end;
            if (strstr(buf_cstr(&w->events), "cleanly") != NULL)
                wrong(w, NULL, "the end was not clean");
        }
    }
    end_life(w, w->trouble == TROUBLE_POWER || (w->trouble != TROUBLE_KILL && pick(w, 2) == 0));
}

static void run_seed(uint64_t seed)
{
    struct world w;
    world_init(&w, seed);
    reopen(&w);
    for (int i = 0; i < 5; i++) {
        live(&w);
        end(&w);
        reopen(&w);
    }
    end_life(&w, false);
    world_fini(&w);
}

static void whatever_fails_nothing_is_lost_and_nothing_comes_back(void **state)
{
    each_seed(800, run_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_fails_nothing_is_lost_and_nothing_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
