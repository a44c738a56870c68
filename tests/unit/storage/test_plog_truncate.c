#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codec/record_batch.h"
#include "log_fixture.h"

static void assert_batches(struct log_fixture *f, const char *expected)
{
    struct buf text = {0};
    describe_batches(f, plog_start_offset(f->log), &text);
    assert_string_equal(buf_cstr(&text), expected);
    buf_fini(&text);
}

static void assert_producers(struct log_fixture *f, const char *expected)
{
    struct buf text = {0};
    describe_producers(f, &text);
    assert_string_equal(buf_cstr(&text), expected);
    buf_fini(&text);
}

static void fill(struct log_fixture *f)
{
    for (int i = 0; i < 4; i++) {
        append_from(f, 7, 0, i * 3, 3);
        assert_int_equal(plog_roll(f->log), OK);
    }
    append_from(f, 7, 0, 12, 3);
    commit_all(f);
}

static void cuts_whole_batches(void **state)
{
    struct log_fixture *f = *state;
    fill(f);
    assert_int_equal(plog_truncate_to(f->log, 15), OK);
    assert_int_equal(plog_end_offset(f->log), 15);
    assert_int_equal(plog_truncate_to(f->log, 100), OK);
    assert_int_equal(plog_end_offset(f->log), 15);
    assert_int_equal(plog_truncate_to(f->log, 14), OK); /* inside the batch 12 .. 14 */
    assert_int_equal(plog_end_offset(f->log), 12);
    assert_batches(f, "0 3 6 9");
    assert_int_equal(plog_high_watermark(f->log), 12);
    assert_producers(f, "pid=7 epoch=0 seq=11 offset=11 txn=-1 coordinator=-1\n");
    assert_int_equal(plog_truncate_to(f->log, 7), OK);
    assert_int_equal(plog_end_offset(f->log), 6);
    assert_batches(f, "0 3");
    assert_producers(f, "pid=7 epoch=0 seq=5 offset=5 txn=-1 coordinator=-1\n");
    assert_int_equal(append_from(f, 7, 0, 6, 1), 6);
}

static void is_durable_and_lowers_the_checkpoint(void **state)
{
    struct log_fixture *f = *state;
    fill(f);
    assert_int_equal(plog_flush_now(f->log), OK);
    assert_int_equal(plog_recovery_point(f->log), 15);
    assert_int_equal(plog_truncate_to(f->log, 6), OK);
    assert_int_equal(f->checkpoints, 1);
    assert_int_equal(plog_recovery_point(f->log), 6);
    log_fixture_crash(f);
    f->params.recovery_point = 6;
    log_fixture_open(f);
    assert_batches(f, "0 3");
    assert_producers(f, "pid=7 epoch=0 seq=5 offset=5 txn=-1 coordinator=-1\n");
}

static void snapshots_above_the_end_go(void **state)
{
    struct log_fixture *f = *state;
    fill(f);
    assert_true(log_fixture_has_file(f, "00000000000000000012.snapshot"));
    assert_int_equal(plog_truncate_to(f->log, 6), OK);
    assert_true(log_fixture_has_file(f, "00000000000000000006.snapshot"));
    assert_false(log_fixture_has_file(f, "00000000000000000009.snapshot"));
    assert_false(log_fixture_has_file(f, "00000000000000000012.snapshot"));
}

static void epochs_above_the_end_go(void **state)
{
    struct log_fixture *f = *state;
    assert_int_equal(plog_assign_epoch(f->log, 1), OK);
    append_plain(f, 3);
    assert_int_equal(plog_assign_epoch(f->log, 4), OK);
    append_plain(f, 3);
    assert_int_equal(plog_truncate_to(f->log, 3), OK);
    assert_int_equal(plog_latest_epoch(f->log), 1);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_int_equal(plog_latest_epoch(f->log), 1);
}

static void open_transactions_come_back_open(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 2);
    append_txn(f, 8, 0, 0, 2);
    int64_t marker = append_end_txn(f, 8, 0, false);
    append_plain(f, 1);
    commit_all(f);
    assert_int_equal(plog_last_stable_offset(f->log), 6);
    assert_int_equal(plog_truncate_to(f->log, marker), OK);
    commit_all(f);
    assert_int_equal(plog_last_stable_offset(f->log), 2);
    /* And the index forgot the abort: a commit in its place is one. */
    append_end_txn(f, 8, 0, true);
    commit_all(f);
    struct arena arena;
    struct plog_slice whole = {.end_offset = plog_end_offset(f->log)};
    struct plog_aborted *aborted;
    int count;
    arena_init(&arena, 10000);
    assert_int_equal(plog_aborted_for(f->log, 0, &whole, &arena, &aborted, &count), OK);
    assert_int_equal(count, 0);
    arena_fini(&arena);
}

static void to_the_start_and_below(void **state)
{
    struct log_fixture *f = *state;
    fill(f);
    assert_int_equal(plog_truncate_to(f->log, 0), OK);
    assert_int_equal(plog_end_offset(f->log), 0);
    assert_int_equal(plog_segment_count(f->log), 1);
    assert_producers(f, "");
    append_plain(f, 5);
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 3), OK);
    assert_int_equal(plog_truncate_to(f->log, 1), OK);
    assert_int_equal(plog_start_offset(f->log), 1);
    assert_int_equal(plog_end_offset(f->log), 1);
    assert_int_equal(append_plain(f, 1), 1);
}

static void restart_at_an_offset(void **state)
{
    struct log_fixture *f = *state;
    fill(f);
    assert_int_equal(plog_assign_epoch(f->log, 3), OK);
    assert_int_equal(plog_restart_at(f->log, 500), OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(plog_start_offset(f->log), 500);
        assert_int_equal(plog_end_offset(f->log), 500);
        assert_int_equal(plog_high_watermark(f->log), 500);
        assert_int_equal(plog_latest_epoch(f->log), -1);
        assert_int_equal(plog_last_batch_epoch(f->log), -1);
        assert_producers(f, "");
        if (i == 0)
            log_fixture_crash(f);
        else
            log_fixture_close(f);
        log_fixture_open(f);
    }
    struct buf batch = {0};
    make_copied(f, &(struct batch_spec){.producer_id = -1, .base_sequence = -1, .records = 3}, 510, 4, &batch);
    assert_int_equal(append_copied(f, &batch), OK); /* a gap is legal */
    assert_int_equal(plog_end_offset(f->log), 513);
    buf_fini(&batch);
}

/* A crash after any number of steps leaves a prefix, and the truncation can be done again. */
static void flush_under_way_is_taken_over(void **state)
{
    struct log_fixture *f = *state;
    struct plog_flush flush;
    fill(f);
    plog_flush_begin(f->log, true, &flush);
    assert_int_equal(flush.offset, 15);
    assert_int_equal(plog_truncate_to(f->log, 6), OK);
    append_from(f, 7, 0, 6, 1);
    assert_int_equal(plog_flush_run(&flush), OK);
    assert_int_equal(plog_flush_end(&flush, OK), OK);
    assert_int_equal(plog_recovery_point(f->log), 6); /* not 15: what stands at 6 is not what it synced */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, log_fixture_setup, log_fixture_teardown)

/* Where a reader stopped is remembered, until the log is cut: then other batches begin elsewhere. */
static void what_readers_followed_is_forgotten_with_the_cut(void **state)
{
    struct log_fixture *f = *state;
    struct plog_slice slice;
    struct buf found = {0};
    for (int i = 0; i < 8; i++)
        append_plain(f, 1);
    commit_all(f);
    for (int64_t offset = 0; offset < 8; offset++) {
        assert_int_equal(plog_read(f->log, offset, 8, 1, true, &slice), OK);
        assert_int_equal(slice.end_offset, offset + 1);
        plog_slice_release(&slice);
    }
    assert_int_equal(plog_truncate_to(f->log, 2), OK);
    struct plog_appended a;
    const struct batch_spec larger = {
        .producer_id = NO_PID, .producer_epoch = -1, .base_sequence = -1, .records = 1, .value_bytes = 33};
    for (int i = 0; i < 8; i++)
        assert_int_equal(append(f, &larger, &a), OK);
    commit_all(f);
    for (int64_t offset = 9; offset >= 0; offset--) {
        buf_clear(&found);
        assert_int_equal(plog_read(f->log, offset, 10, 1, true, &slice), OK);
        assert_int_equal(plog_slice_copy(&slice, &found), OK);
        assert_int_equal(batch_base_offset(found.data), offset);
        plog_slice_release(&slice);
    }
    buf_fini(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cuts_whole_batches),
        TEST(is_durable_and_lowers_the_checkpoint),
        TEST(snapshots_above_the_end_go),
        TEST(epochs_above_the_end_go),
        TEST(open_transactions_come_back_open),
        TEST(to_the_start_and_below),
        TEST(restart_at_an_offset),
        TEST(flush_under_way_is_taken_over),
        TEST(what_readers_followed_is_forgotten_with_the_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
