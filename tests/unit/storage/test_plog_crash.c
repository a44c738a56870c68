/* The crash arguments of the log, tried: a simulated disk fails or loses power at any operation, and what is opened afterwards must be a prefix of what was
 * written that holds all that was durable, with the producer state of a plain replay. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "log_fixture.h"
#include "producer_model.h"
#include "sim_disk.h"

struct world {
    struct sim_disk disk;
    struct log_fixture f;
    struct seeded_random random;
    struct plog_checkpoint checkpoint; /* in the files */
    bool front;                        /* the front of the log may go: then the model cannot tell the producers */
    struct buf before;                 /* the log before the step under way, from before_start on */
    int64_t before_start;
    int64_t floor; /* below is durable */
    uint64_t seed;
};

static uint64_t pick(struct world *w, uint64_t bound)
{
    return random_below(&w->random.source, bound);
}

static bool dead(struct world *w)
{
    return sim_disk_has_failed(&w->disk);
}

static enum error on_checkpoint(void *arg)
{
    struct world *w = arg;
    if (dead(w))
        return ERR_IO;
    if (w->f.log != NULL)
        w->checkpoint = plog_checkpoint_values(w->f.log);
    return OK;
}

static void world_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    seeded_random_init(&w->random, seed);
    sim_disk_init(&w->disk, &w->random.source);
    assert_int_equal(fs_mkdirs(&w->disk.fs, "/sim"), OK);
    assert_int_equal(fs_sync_dir(&w->disk.fs, "/"), OK);
    log_fixture_init_on(&w->f, &w->disk.fs);
    w->f.params.checkpoint = on_checkpoint;
    w->f.params.failed = NULL;
    w->f.params.owner_arg = w;
    w->f.params.config.segment_bytes = 300 + (int64_t)pick(w, 1500);
    w->front = seed % 3 == 0;
    w->checkpoint = (struct plog_checkpoint){0, -1, -1};
}

static void world_fini(struct world *w)
{
    log_fixture_fini(&w->f);
    sim_disk_fini(&w->disk);
    buf_fini(&w->before);
}

static enum error copied(struct world *w)
{
    struct buf batches = {0};
    struct plog_appended a;
    make_chunk(&w->f, &w->random.source, &batches);
    enum error error = plog_append_copied(w->f.log, buf_bytes(&batches), &a, NULL);
    buf_fini(&batches);
    return error;
}

static enum error step(struct world *w)
{
    struct plog *log = w->f.log;
    struct plog_appended a;
    int ignored, records;
    switch (pick(w, 16)) {
    case 0:
        return plog_flush_now(log);
    case 1:
        w->checkpoint = plog_checkpoint_values(log);
        return OK;
    case 2:
        return plog_append_marker(log, 3, 0, pick(w, 2) == 0, 0, 0, &a);
    case 3:
        return pick(w, 3) == 0 ? plog_append_barrier(log, STR("source"), 0, plog_latest_epoch(log) + 1, &a, &ignored) : OK;
    case 4:
        return plog_roll(log);
    case 5: {
        if (pick(w, 3) != 0)
            return OK;
        int64_t to = MAX(plog_end_offset(log) - (int64_t)pick(w, 30), plog_start_offset(log));
        w->floor = MIN(w->floor, to - 10); /* a batch that contains it goes */
        return plog_truncate_to(log, to);
    }
    case 6:
        return plog_take_snapshot(log);
    case 7:
        plog_set_high_watermark(log, plog_end_offset(log));
        return w->front ? plog_set_start_offset(log, plog_start_offset(log) + (int64_t)pick(w, 10)) : OK;
    case 8:
        return plog_assign_epoch(log, plog_latest_epoch(log) + 1);
    case 9:
    case 10:
        return copied(w);
    case 11:
        manual_clock_advance(&w->f.clock, 40000);
        return plog_remove_deleted(log);
    case 12:
        return append_next(&w->f, 3, 1 + (int)pick(w, 3), true);
    default:
        records = 1 + (int)pick(w, 4);
        return append_next(&w->f, 1 + (int64_t)pick(w, 2), records, false);
    }
}

static void remember(struct world *w)
{
    buf_clear(&w->before);
    w->before_start = plog_start_offset(w->f.log);
    w->floor = MAX(w->floor, plog_recovery_point(w->f.log));
    read_all(&w->f, w->before_start, &w->before);
}

/* The batches of bytes that end at or behind offset. */
static struct bytes from_offset(struct bytes bytes, int64_t offset)
{
    struct batch_iter it;
    const uint8_t *b;
    batch_iter_init(&it, bytes);
    while (batch_iter_next(&it, &b) == BATCH_FOUND)
        if (batch_last_offset(b) >= offset)
            return (struct bytes){b, bytes.len - (b - bytes.p)};
    return (struct bytes){NULL, 0};
}

static void check(struct world *w)
{
    struct log_fixture *f = &w->f;
    int64_t start = MAX(w->before_start, plog_start_offset(f->log));
    struct buf now = {0}, text = {0}, model = {0};
    if (plog_end_offset(f->log) < w->floor)
        fail_msg("seed %" PRIu64 ": end %" PRId64 " is below what was durable, %" PRId64, w->seed, plog_end_offset(f->log),
                 w->floor);
    if (start < plog_end_offset(f->log))
        read_all(f, start, &now);
    struct bytes expected = from_offset(buf_bytes(&w->before), start);
    size_t same = MIN(now.len, (size_t)expected.len);
    if (same > 0 && memcmp(now.data, expected.p, same) != 0)
        fail_msg("seed %" PRIu64 ": the log is no prefix of what was written", w->seed);
    if (!w->front) {
        buf_clear(&now);
        read_all(f, 0, &now);
        describe_producers(f, &text);
        producer_model_describe(buf_bytes(&now), OWN_CLUSTER, &model);
        if (strcmp(buf_cstr(&text), buf_cstr(&model)) != 0)
            fail_msg("seed %" PRIu64 ": producers\n%sand not\n%s", w->seed, buf_cstr(&text), buf_cstr(&model));
    }
    buf_fini(&now);
    buf_fini(&text);
    buf_fini(&model);
}

/* From a crash to a log that is open and checked. The first tries may die again. */
static void reopen(struct world *w)
{
    for (int tries = 0;; tries++) {
        struct problem problem;
        w->f.params.recovery_point = w->checkpoint.recovery_point;
        w->f.params.log_start_offset = w->checkpoint.log_start_offset;
        w->f.params.high_watermark = w->checkpoint.high_watermark;
        sim_disk_fail(&w->disk, SIM_CHANGES, tries < 2 && pick(w, 3) == 0 ? 1 + pick(w, 12) : 0, ERR_IO, true);
        enum error error = plog_open(&w->f.params, &w->f.log, &problem);
        if (error == OK)
            break;
        w->f.log = NULL;
        if (!dead(w))
            fail_msg("seed %" PRIu64 ": %s (%s)", w->seed, problem.message, problem.detail);
        sim_disk_power_cut(&w->disk);
    }
    sim_disk_heal(&w->disk);
    check(w);
    w->checkpoint = plog_checkpoint_values(w->f.log);
    w->floor = 0; /* a truncation that was under way may have lowered it */
}

static void live(struct world *w)
{
    enum error error = OK;
    sim_disk_fail(&w->disk, SIM_CHANGES, 1 + pick(w, 150), ERR_IO, true);
    for (int i = 0; i < 80 && !dead(w); i++) {
        remember(w);
        error = step(w);
    }
    if (!dead(w))
        remember(w);
    (void)error;
    (void)plog_close(w->f.log, false);
    w->f.log = NULL;
}

static void power_cuts_at_any_operation(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct world w;
        world_init(&w, seed);
        reopen(&w);
        for (int i = 0; i < 4; i++) {
            live(&w);
            if (pick(&w, 4) != 0)
                sim_disk_power_cut(&w.disk);
            reopen(&w); /* after kill -9 alone: everything that was written is there */
        }
        world_fini(&w);
    }
}

/* ---- Single failures, the process lives on ---- */

static struct seeded_random fixed;

static void disk_init(struct sim_disk *disk)
{
    seeded_random_init(&fixed, 1);
    sim_disk_init(disk, &fixed.source);
    assert_int_equal(fs_mkdirs(&disk->fs, "/sim"), OK);
}

static void a_full_disk_changes_nothing_and_passes(void **state)
{
    struct sim_disk disk;
    struct log_fixture f;
    for (uint64_t k = 1; k < 40; k++) {
        struct plog_appended a;
        struct buf before = {0}, after = {0};
        disk_init(&disk);
        log_fixture_init_on(&f, &disk.fs);
        f.params.config.segment_bytes = 250;
        log_fixture_open(&f);
        sim_disk_fail(&disk, SIM_CHANGES, k, ERR_NO_SPACE, false);
        for (int i = 0; i < 12; i++) {
            struct batch_spec spec = {.producer_id = 7, .base_sequence = 2 * i, .records = 2};
            describe_producers(&f, &before);
            int64_t end = plog_end_offset(f.log);
            enum error error = append(&f, &spec, &a);
            if (error != OK) {
                assert_int_equal(error, ERR_NO_SPACE);
                assert_int_equal(plog_end_offset(f.log), end);
                describe_producers(&f, &after);
                assert_string_equal(buf_cstr(&after), buf_cstr(&before));
                assert_false(plog_failed(f.log));
                assert_int_equal(append(&f, &spec, &a), OK); /* there is room again */
            }
            assert_false(a.duplicate);
            assert_int_equal(a.base_offset, 2 * i);
            buf_clear(&before);
            buf_clear(&after);
        }
        buf_clear(&before);
        read_all(&f, 0, &before);
        log_fixture_crash(&f);
        log_fixture_open(&f);
        assert_int_equal(plog_end_offset(f.log), 24);
        read_all(&f, 0, &after);
        assert_int_equal(before.len, after.len);
        assert_memory_equal(before.data, after.data, before.len);
        log_fixture_fini(&f);
        sim_disk_fini(&disk);
        buf_fini(&before);
        buf_fini(&after);
    }
}

static void a_failed_write_takes_the_log_out_of_service(void **state)
{
    struct sim_disk disk;
    struct log_fixture f;
    struct plog_appended a;
    disk_init(&disk);
    log_fixture_init_on(&f, &disk.fs);
    log_fixture_open(&f);
    append_from(&f, 7, 0, 0, 2);
    sim_disk_fail(&disk, SIM_CHANGES, 1, ERR_IO, false);
    struct batch_spec spec = {.producer_id = 7, .base_sequence = 2, .records = 2};
    assert_int_equal(append(&f, &spec, &a), ERR_IO);
    assert_int_equal(f.failures, 1);
    assert_true(plog_failed(f.log));
    assert_int_equal(plog_end_offset(f.log), 2);
    assert_int_equal(append(&f, &spec, &a), KAFKA_STORAGE_ERROR);
    assert_int_equal(plog_flush_now(f.log), KAFKA_STORAGE_ERROR);
    assert_int_equal(plog_truncate_to(f.log, 0), KAFKA_STORAGE_ERROR);
    struct plog_slice slice;
    assert_int_equal(plog_read(f.log, 0, INT64_MAX, 100, true, &slice), KAFKA_STORAGE_ERROR);
    log_fixture_crash(&f);
    log_fixture_open(&f);
    assert_int_equal(plog_end_offset(f.log), 2);
    log_fixture_fini(&f);
    sim_disk_fini(&disk);
}

static void a_failed_barrier_expires_nobody(void **state)
{
    struct sim_disk disk;
    struct log_fixture f;
    struct plog_appended a;
    struct buf before = {0}, after = {0};
    int expired;
    disk_init(&disk);
    log_fixture_init_on(&f, &disk.fs);
    log_fixture_open(&f);
    append_from(&f, 7, 0, 0, 2);
    describe_producers(&f, &before);
    sim_disk_fail(&disk, SIM_CHANGES, 1, ERR_NO_SPACE, false);
    assert_int_equal(plog_append_barrier(f.log, STR("source"), 0, 1, &a, &expired), ERR_NO_SPACE);
    describe_producers(&f, &after);
    assert_string_equal(buf_cstr(&before), buf_cstr(&after));
    assert_int_equal(plog_end_offset(f.log), 2);
    assert_int_equal(plog_append_barrier(f.log, STR("source"), 0, 1, &a, &expired), OK);
    assert_int_equal(expired, 1);
    buf_fini(&before);
    buf_fini(&after);
    log_fixture_fini(&f);
    sim_disk_fini(&disk);
}

static void a_failed_sync_takes_the_log_out_of_service(void **state)
{
    struct sim_disk disk;
    struct log_fixture f;
    disk_init(&disk);
    log_fixture_init_on(&f, &disk.fs);
    log_fixture_open(&f);
    append_plain(&f, 2);
    sim_disk_fail(&disk, SIM_CHANGES, 1, ERR_IO, false);
    assert_int_equal(plog_flush_now(f.log), ERR_IO);
    assert_int_equal(f.failures, 1);
    assert_int_equal(plog_recovery_point(f.log), 0);
    assert_int_equal(plog_flush_now(f.log), KAFKA_STORAGE_ERROR); /* a second try would say OK and lie */
    log_fixture_fini(&f);
    sim_disk_fini(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_cuts_at_any_operation),
        cmocka_unit_test(a_full_disk_changes_nothing_and_passes),
        cmocka_unit_test(a_failed_write_takes_the_log_out_of_service),
        cmocka_unit_test(a_failed_barrier_expires_nobody),
        cmocka_unit_test(a_failed_sync_takes_the_log_out_of_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
