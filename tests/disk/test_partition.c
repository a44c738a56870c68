/* Partitions on a disk that fails: group commit, the high watermark, and what clients and mirrors were told, life after life. One thread: helpers are a queue that the test
 * runs when it likes, and while a file is being synced others append. See README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "log_fixture.h"
#include "os/helpers.h"
#include "os/thread.h"
#include "producer_model.h"
#include "repl/partition.h"
#include "seeds.h"
#include "storage/log_manager.h"

#define DIR "/data/logs"
#define PIDS 4
#define WRITES 400
#define OFFSETS 4000

/* ---- Helpers without threads: in place of os/helpers.c ---- */

struct helpers {
    struct helper_job *jobs[64];
    int count;
    bool working;
};

static struct helpers queue;

enum error helpers_start(int threads, struct helpers **ret_helpers)
{
    *ret_helpers = &queue;
    return OK;
}

void helpers_stop(struct helpers *h) {}

void helpers_submit(struct helpers *h, struct helper_job *job)
{
    ASSERT(h->count < (int)ARRAY_SIZE(h->jobs));
    h->jobs[h->count++] = job;
}

static void work_one(void)
{
    if (queue.count == 0 || queue.working)
        return;
    struct helper_job *job = queue.jobs[0];
    memmove(queue.jobs, queue.jobs + 1, (size_t)--queue.count * sizeof(struct helper_job *));
    queue.working = true;
    job->work(job);
    queue.working = false;
    ASSERT(job->loop == NULL);
    if (job->done != NULL)
        job->done(job);
}

static void work_all(void)
{
    while (queue.count > 0)
        work_one();
}

/* ---- The world ---- */

struct written { /* what a batch at this base offset was, for whoever may have read it */
    int32_t epoch;
    uint32_t crc;
    bool there;
};

struct write_request {
    struct partition_waiter waiter;
    struct part *part;
    int64_t last_offset;
    bool used, ended;
    enum error result;
};

struct part {
    struct world *w;
    int32_t index;
    bool mirrored;
    struct partition *p;
    int32_t stored_epoch; /* in the metadata store, whose commits are atomic and durable */
    int32_t sequences[PIDS], last_records[PIDS];
    bool in_doubt[PIDS]; /* the last batch was not acknowledged: it is sent again */
    struct buf before;
    int64_t before_start, before_end, may_grow, left_over;
    int64_t floor; /* acknowledged with acks=all, or shown though it was written with acks=all */
    struct written written[OFFSETS];
    int64_t strict_from[WRITES], strict_to[WRITES]; /* ranges of this life that may be seen only when durable */
    int strict_count;
};

struct world {
    uint64_t seed;
    struct sim_disk disk;
    struct seeded_random random;
    struct log_fixture f;
    struct log_manager *manager;
    struct partition_env env;
    struct part parts[2];
    struct write_request requests[WRITES];
    int request_count;
    enum trouble trouble;
    const char *doing;
    bool meanwhile; /* a file is being synced by a helper */
    struct buf history, events;
    int failures;
};

static uint64_t pick(struct world *w, uint64_t bound)
{
    return random_below(&w->random.source, bound);
}

static void wrong(const struct part *part, const char *format, ...) PRINTF_LIKE(2, 3);
static void wrong(const struct part *part, const char *format, ...)
{
    struct world *w = part->w;
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s%s", buf_cstr(&w->history), buf_cstr(&w->events));
    fail_msg("seed %" PRIu64 " (%s, during %s, failed at %s): %s partition %s", w->seed, trouble_text(w->trouble), w->doing,
             w->disk.failed_path, part->mirrored ? "mirrored" : "ordinary", text);
}

static void on_event(void *arg, const char *text)
{
    buf_printf(&((struct world *)arg)->events, "%s\n", text);
}

static void on_failed(void *arg, const char *dir, const char *text)
{
    struct world *w = arg;
    w->failures++;
    buf_printf(&w->events, "failed: %s\n", text);
}

static void on_config(void *arg, struct str topic, struct plog_config *ret_config)
{
    *ret_config = ((struct world *)arg)->f.params.config;
}

static void storage_failed(void *arg, struct partition *p)
{
    log_manager_fail(((struct world *)arg)->manager, "a partition failed");
}

static bool failed(struct world *w)
{
    return sim_disk_has_failed(&w->disk);
}

static bool gone(struct world *w)
{
    return w->trouble <= TROUBLE_KILL && failed(w);
}

/* ---- What a partition shows ---- */

static void note_written(struct part *part, struct bytes bytes)
{
    struct batch_iter it;
    const uint8_t *b;
    batch_iter_init(&it, bytes);
    while (batch_iter_next(&it, &b) == BATCH_FOUND) {
        int64_t offset = batch_base_offset(b);
        ASSERT(offset < OFFSETS);
        struct written *at = &part->written[offset], now = {batch_leader_epoch(b), batch_crc(b), true};
        if (at->there && at->epoch == now.epoch && at->crc != now.crc)
            wrong(part, "has two histories at offset %" PRId64 " under epoch %d", offset, now.epoch);
        *at = now;
    }
}

/* All of it, as it stands in memory; and what is visible that must be durable for it. */
static void remember(struct part *part)
{
    struct world *w = part->w;
    struct plog *log = part->p != NULL ? partition_lock(part->p) : NULL;
    if (log == NULL)
        return;
    if (!plog_failed(log)) {
        w->f.log = log;
        w->disk.paused = true;
        buf_clear(&part->before);
        part->before_start = plog_start_offset(log);
        part->before_end = plog_end_offset(log);
        part->may_grow = 0;
        read_all(&w->f, part->before_start, &part->before);
        w->disk.paused = false;
        int64_t hw = plog_high_watermark(log);
        for (int i = 0; i < part->strict_count; i++)
            if (part->strict_from[i] < hw)
                part->floor = MAX(part->floor, part->strict_to[i]);
    }
    partition_unlock(part->p);
    note_written(part, buf_bytes(&part->before));
}

/* No producer's batch is there twice, whatever was sent again. */
static void check_doubles(struct part *part, struct bytes bytes)
{
    struct batch_iter it;
    const uint8_t *b;
    int32_t next[PIDS] = {0};
    int64_t due = 0;
    batch_iter_init(&it, bytes);
    while (batch_iter_next(&it, &b) == BATCH_FOUND) {
        int64_t pid = batch_producer_id(b);
        if (batch_base_offset(b) != due)
            wrong(part, "has a hole before offset %" PRId64, batch_base_offset(b));
        due = batch_next_offset(b);
        if (batch_is_control(b) || pid < 0 || pid >= PIDS)
            continue;
        if (batch_base_sequence(b) != next[pid])
            wrong(part, "has sequence %d of producer %" PRId64 " at offset %" PRId64 " where %d is due", batch_base_sequence(b),
                  pid, batch_base_offset(b), next[pid]);
        next[pid] = batch_base_sequence(b) + batch_count(b);
    }
}

/* Producers go on where the log ends for them; some send their last batch again, as if its answer had been lost. */
static void producers_go_on(struct part *part, struct plog *log)
{
    for (int pid = 0; pid < PIDS; pid++) {
        const struct producer_entry *e = producer_state_get(plog_producers(log), pid);
        int32_t next = e != NULL ? producer_entry_last_sequence(e) + 1 : 0;
        bool again = part->last_records[pid] > 0 && next == part->sequences[pid] && !part->in_doubt[pid] && pick(part->w, 2) == 0;
        if (next != part->sequences[pid] || (part->in_doubt[pid] && !again))
            part->last_records[pid] = 0; /* not known any more */
        part->in_doubt[pid] = again;
        part->sequences[pid] = again ? next - part->last_records[pid] : next;
    }
}

static void check_log(struct part *part, struct plog *log)
{
    struct world *w = part->w;
    struct buf now = {0}, text = {0}, model = {0};
    w->f.log = log;
    int64_t end = plog_end_offset(log), start = MAX(part->before_start, plog_start_offset(log));
    if (end < part->floor)
        wrong(part, "ends at %" PRId64 ", below what was acknowledged or shown as durable, %" PRId64, end, part->floor);
    if (end > part->before_end + MAX(part->may_grow, part->left_over))
        wrong(part, "ends at %" PRId64 ", and %" PRId64 " was the most that was written", end,
              part->before_end + MAX(part->may_grow, part->left_over));
    part->left_over = 0;
    if (start < end)
        read_all(&w->f, start, &now);
    struct bytes expected = batches_from(buf_bytes(&part->before), start);
    size_t same = MIN(now.len, (size_t)expected.len);
    if (same > 0 && memcmp(now.data, expected.p, same) != 0)
        wrong(part,
              "is no prefix of what was written: from %" PRId64 " to %" PRId64 ", it was %" PRId64 " to %" PRId64
              ", first batches at %" PRId64 " and %" PRId64,
              start, end, part->before_start, part->before_end, batch_base_offset(now.data), batch_base_offset(expected.p));
    note_written(part, buf_bytes(&now));
    if (plog_start_offset(log) == 0) {
        buf_clear(&now);
        read_all(&w->f, 0, &now);
        if (!part->mirrored)
            check_doubles(part, buf_bytes(&now));
        describe_producers(&w->f, &text);
        producer_model_describe(buf_bytes(&now), OWN_CLUSTER, &model);
        if (strcmp(buf_cstr(&text), buf_cstr(&model)) != 0)
            wrong(part, "has producers\n%sand not\n%s", buf_cstr(&text), buf_cstr(&model));
    }
    producers_go_on(part, log);
    buf_fini(&now);
    buf_fini(&text);
    buf_fini(&model);
}

/* ---- Steps ---- */

static struct partition_wake *on_done(struct partition_waiter *waiter, enum error result)
{
    struct write_request *r = CONTAINER_OF(waiter, struct write_request, waiter);
    r->ended = true;
    r->result = result;
    if (result == OK)
        r->part->floor = MAX(r->part->floor, r->last_offset + 1);
    return NULL;
}

static struct write_request *new_request(struct part *part)
{
    struct world *w = part->w;
    ASSERT(w->request_count < WRITES);
    struct write_request *r = &w->requests[w->request_count++];
    *r = (struct write_request){.waiter.done = on_done, .part = part};
    return r;
}

static void must_be_durable_to_be_seen(struct part *part, int64_t from, int64_t to)
{
    ASSERT(part->strict_count < WRITES);
    part->strict_from[part->strict_count] = from;
    part->strict_to[part->strict_count++] = to;
}

/* An idempotent producer; it sends again what was not acknowledged. */
static enum error produce(struct part *part, int16_t acks)
{
    struct world *w = part->w;
    int pid = (int)pick(w, PIDS);
    int records = part->in_doubt[pid] ? part->last_records[pid] : 1 + (int)pick(w, 4);
    struct buf batch = {0};
    struct validated v = {0};
    struct problem problem = {0};
    struct partition_appended a = {0};
    struct write_request *r = new_request(part);
    struct batch_spec spec = {.producer_id = pid, .base_sequence = part->sequences[pid], .records = records};
    make_batch(&w->f, &spec, &batch);
    part->may_grow += records;
    part->last_records[pid] = records;
    part->in_doubt[pid] = true;
    enum error error = validate_records(buf_bytes(&batch), 11, VALIDATE_CLIENT, &w->f.params.config.validate, w->f.clock.now_ms,
                                        NULL, &v, NULL, &problem);
    if (error == OK)
        error = partition_append_client(part->p, &v, acks, &r->waiter, &a, &problem);
    validated_fini(&v);
    buf_fini(&batch);
    if (error != OK) {
        part->left_over = MAX(part->left_over, part->may_grow);
        if (problem.message[0] == '\0')
            wrong(part, "refuses a write without a word");
        return error;
    }
    r->used = true;
    r->last_offset = a.log.last_offset;
    if (!a.log.duplicate)
        part->left_over = 0;
    if (acks == -1 && !a.log.duplicate)
        must_be_durable_to_be_seen(part, a.log.base_offset, a.log.last_offset + 1);
    if (acks == -1 && !a.waiting) {
        r->ended = true;
        part->floor = MAX(part->floor, a.log.last_offset + 1); /* answered at once */
    }
    /* To be in doubt about an acks=all answer is to send again; here the next batch follows when this one is in the log. */
    part->sequences[pid] += records;
    part->in_doubt[pid] = false;
    return OK;
}

static enum error marker_or_barrier(struct part *part)
{
    struct plog_appended a;
    int expired;
    enum error error;
    struct write_request *r = new_request(part);
    part->may_grow++;
    if (pick(part->w, 2) == 0)
        error = partition_append_marker(part->p, 77, 0, true, 0, &a);
    else
        error = partition_append_barrier(part->p, STR("other-cluster"), 1, &a, &expired);
    if (error != OK) {
        part->left_over = MAX(part->left_over, part->may_grow);
        return error;
    }
    part->left_over = 0;
    must_be_durable_to_be_seen(part, a.base_offset, a.last_offset + 1);
    r->last_offset = a.last_offset;
    enum error why = OK;
    if (!partition_wait_durable(part->p, a.last_offset + 1, &r->waiter, &why)) {
        r->ended = true;
        if (why == OK)
            part->floor = MAX(part->floor, a.last_offset + 1);
    }
    r->used = true;
    return OK;
}

/* The source's batch at an offset is always the same one. */
static void source_batch(struct world *w, int64_t offset, struct buf *out)
{
    struct batch_spec spec = {
        .producer_id = NO_PID, .records = 1 + (int)(offset % 3), .timestamp = INT64_C(1700000000000) + offset};
    make_copied(&w->f, &spec, offset, (int32_t)(offset / 40), out);
}

static enum error copy(struct part *part)
{
    struct world *w = part->w;
    struct partition_state s;
    struct plog_appended a;
    struct problem problem = {0};
    struct buf bytes = {0};
    partition_get_state(part->p, &s);
    int64_t offset = s.end_offset;
    int count = 1 + (int)pick(w, 5);
    int32_t epoch = 0;
    for (int i = 0; i < count; i++) {
        source_batch(w, offset, &bytes);
        epoch = (int32_t)(offset / 40);
        offset += 1 + offset % 3;
    }
    if (epoch > s.leader_epoch) { /* in the metadata first */
        part->stored_epoch = epoch + 10;
        enum error error = partition_set_leader_epoch(part->p, part->stored_epoch);
        if (error != OK) {
            buf_fini(&bytes);
            return error;
        }
    }
    part->may_grow += offset - s.end_offset;
    enum error error = partition_append_copied(part->p, buf_bytes(&bytes), -1, &a, &problem);
    part->left_over = error != OK ? MAX(part->left_over, part->may_grow) : 0;
    buf_fini(&bytes);
    return error;
}

static enum error step(struct world *w, struct part *part)
{
    int64_t ignored;
    struct problem problem = {0};
    switch (pick(w, 16)) {
    case 0:
    case 1:
    case 2:
        w->doing = "helpers";
        work_one();
        return OK;
    case 3:
        w->doing = "all helpers";
        work_all();
        return OK;
    case 4:
        w->doing = "checkpoint";
        return log_manager_checkpoint(w->manager);
    case 5:
        w->doing = "flush";
        return pick(w, 3) == 0 ? partition_flush(part->p) : OK;
    case 6:
        w->doing = "retention";
        manual_clock_advance(&w->f.clock, 20000);
        log_manager_retention(w->manager);
        return OK;
    case 7:
        w->doing = "delete records";
        return !part->mirrored && w->seed % 4 == 0 ? partition_delete_records(part->p, -1, &ignored, &problem) : OK;
    case 8:
        w->doing = "marker or barrier";
        return part->mirrored ? OK : marker_or_barrier(part);
    case 9:
    case 10:
    case 11:
        if (!part->mirrored) {
            w->doing = "acks=1";
            return produce(part, 1);
        }
        w->doing = "copying";
        return copy(part);
    default:
        if (!part->mirrored) {
            w->doing = "acks=all";
            return produce(part, -1);
        }
        w->doing = "copying";
        return copy(part);
    }
}

static void go_on(void *arg)
{
    struct world *w = arg;
    for (uint64_t i = pick(w, 3); i > 0; i--) {
        struct part *part = &w->parts[pick(w, 2)];
        enum error error = part->mirrored ? copy(part) : produce(part, pick(w, 2) == 0 ? 1 : -1);
        (void)error;
    }
}

/* While the disk works for one flush, clients go on: on a thread of their own, since the one that syncs holds locks of the flush. */
static void on_sync(void *arg, const char *path)
{
    struct world *w = arg;
    size_t n = strlen(path);
    if (!queue.working || w->meanwhile || strcmp(path + n - 4, ".log") != 0 || failed(w))
        return;
    w->meanwhile = true;
    const char *doing = w->doing;
    struct thread clients;
    assert_int_equal(thread_start(&clients, "clients", go_on, w), OK);
    thread_join(&clients);
    w->doing = doing;
    w->meanwhile = false;
}

/* ---- Lives ---- */

static void end_life(struct world *w, bool power, bool clean)
{
    work_all();
    for (int i = 0; i < w->request_count; i++)
        if (w->requests[i].used && !w->requests[i].ended && w->requests[i].waiter.standing)
            wrong(w->requests[i].part, "lets somebody wait for offset %" PRId64 " for ever", w->requests[i].last_offset);
    for (int i = 0; i < 2; i++) {
        struct part *part = &w->parts[i];
        if (!gone(w))
            remember(part);
        if (part->p == NULL)
            continue;
        struct plog *log = partition_lock(part->p);
        partition_unlock(part->p);
        log_manager_release(w->manager, log);
        partition_close(part->p, BROKER_NOT_AVAILABLE);
        work_all();
        partition_unref(part->p);
        part->p = NULL;
        part->strict_count = 0;
    }
    w->request_count = 0;
    log_manager_close(w->manager, clean);
    w->manager = NULL;
    buf_printf(&w->history, "- %s during %s%s%s, then %s\n", trouble_text(w->trouble), w->doing, failed(w) ? ", failed at " : "",
               failed(w) ? w->disk.failed_path : "", power ? "the power went" : "the process was killed");
    w->disk.capacity_bytes = 0;
    if (power)
        sim_disk_power_cut(&w->disk);
    else
        sim_disk_heal(&w->disk);
}

static enum error open_part(struct world *w, struct part *part, bool raise)
{
    struct uuid id = {{9, (uint8_t)part->index}};
    struct plog *log;
    struct problem problem = {0};
    enum error error = log_manager_create_log(w->manager, STR("orders"), part->index, id, &w->f.params.config, &log, &problem);
    if (error == OK)
        error = log_manager_settle(w->manager);
    if (error != OK)
        return error;
    /* As the server's start does after an unclean end, before anybody writes: one commit of the metadata. */
    if (raise)
        part->stored_epoch = MAX(part->stored_epoch, plog_latest_epoch(log)) + 1;
    if (!gone(w))
        check_log(part, log);
    error = partition_create(&w->env, STR("orders"), &id, part->index, part->stored_epoch, &w->f.params.config, log, &part->p);
    if (error != OK) {
        part->p = NULL;
        return error;
    }
    struct problem refusal = {.code = POLICY_VIOLATION};
    if (part->mirrored)
        partition_set_origin(part->p, APPEND_MIRROR, &refusal);
    log_manager_adopt(w->manager, log, partition_mutex(part->p));
    remember(part);
    part->floor = MIN(part->floor, part->before_end);
    return OK;
}

static void open_all(struct world *w)
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
    for (int tries = 0;; tries++) {
        struct problem problem = {0};
        w->doing = "start";
        w->trouble = TROUBLE_NONE;
        buf_clear(&w->events);
        w->failures = 0;
        if (tries < 2 && pick(w, 4) == 0) {
            w->trouble = (enum trouble)pick(w, TROUBLE_FULL);
            sim_disk_fail(&w->disk, w->trouble == TROUBLE_SYNC ? SIM_SYNC : SIM_CHANGES, 1 + pick(w, 60),
                          w->trouble == TROUBLE_NO_SPACE ? ERR_NO_SPACE : ERR_IO, w->trouble <= TROUBLE_KILL);
        }
        enum error error = log_manager_open(&params, &w->manager, &problem);
        if (error != OK)
            w->manager = NULL;
        bool raise = error == OK && !log_manager_was_clean(w->manager);
        for (int i = 0; i < 2 && error == OK; i++)
            error = open_part(w, &w->parts[i], raise);
        if (error == OK && !failed(w))
            break;
        if (!failed(w))
            wrong(&w->parts[0], "needs a hand to start: %s %s (%s)", error_name(error), problem.message, problem.detail);
        end_life(w, w->trouble == TROUBLE_POWER || pick(w, 2) == 0, false);
    }
    sim_disk_heal(&w->disk);
}

static void live(struct world *w)
{
    w->trouble = (enum trouble)pick(w, TROUBLE_NONE + 1);
    if (w->trouble == TROUBLE_FULL)
        w->disk.capacity_bytes = w->disk.used_bytes + pick(w, 3000);
    else if (w->trouble == TROUBLE_SYNC)
        sim_disk_fail(&w->disk, SIM_SYNC, 1 + pick(w, 60), ERR_IO, false);
    else if (w->trouble != TROUBLE_NONE)
        sim_disk_fail(&w->disk, w->trouble == TROUBLE_NO_SPACE ? SIM_WRITE | SIM_CREATE : SIM_CHANGES, 1 + pick(w, 200),
                      w->trouble == TROUBLE_NO_SPACE ? ERR_NO_SPACE : ERR_IO, w->trouble <= TROUBLE_KILL);
    int after = 0;
    for (int i = 0; i < 80 && !gone(w) && after < 6; i++) {
        for (int k = 0; k < 2; k++)
            remember(&w->parts[k]);
        bool out = log_manager_failed(w->manager);
        struct part *part = &w->parts[pick(w, 2)];
        enum error error = step(w, part);
        after += out;
        if (!out && log_manager_failed(w->manager) && (w->trouble == TROUBLE_NO_SPACE || w->trouble == TROUBLE_FULL))
            wrong(part, "goes out of service since the disk is full");
        if (out && error == ERR_IO)
            wrong(part, "answers an I/O error when it is out of service");
        if (w->trouble == TROUBLE_FULL && pick(w, 20) == 0)
            w->disk.capacity_bytes = 0;
        if (error != OK && error != KAFKA_STORAGE_ERROR && error != ERR_NO_SPACE && error != ERR_IO)
            wrong(part, "answers %s", error_name(error));
    }
    if (log_manager_failed(w->manager) && w->failures != 1)
        wrong(&w->parts[0], "is told to have failed %d times", w->failures);
}

static void run_seed(uint64_t seed)
{
    struct world *w = mem_calloc(1, sizeof(*w));
    w->seed = seed;
    seeded_random_init(&w->random, seed);
    sim_disk_init(&w->disk, &w->random.source);
    assert_int_equal(fs_mkdirs(&w->disk.fs, "/data"), OK);
    log_fixture_init_on(&w->f, &w->disk.fs);
    w->f.params.config.segment_bytes = 300 + (int64_t)pick(w, 1500);
    w->disk.on_sync = on_sync;
    w->disk.on_sync_arg = w;
    w->env.clock = &w->f.clock.clock;
    w->env.helpers = &queue;
    atomic_init(&w->env.flush_acks_all, true);
    w->env.storage_failed = storage_failed;
    w->env.arg = w;
    for (int i = 0; i < 2; i++) {
        w->parts[i].w = w;
        w->parts[i].index = i;
        w->parts[i].mirrored = i == 1;
    }
    open_all(w);
    for (int i = 0; i < 5; i++) {
        live(w);
        bool clean = pick(w, 4) == 0 && !gone(w) && !log_manager_failed(w->manager);
        end_life(w, w->trouble == TROUBLE_POWER || (w->trouble != TROUBLE_KILL && pick(w, 2) == 0), clean);
        open_all(w);
    }
    end_life(w, false, false);
    w->f.log = NULL;
    log_fixture_fini(&w->f);
    for (int i = 0; i < 2; i++)
        buf_fini(&w->parts[i].before);
    buf_fini(&w->history);
    buf_fini(&w->events);
    sim_disk_fini(&w->disk);
    mem_free(w);
}

static void what_was_acknowledged_or_shown_as_durable_is_there(void **state)
{
    each_seed(500, run_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_or_shown_as_durable_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
