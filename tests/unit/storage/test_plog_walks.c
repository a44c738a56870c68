/* Walks of tests/model that failed once, in their shortest form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "codec/control.h"
#include "log_fixture.h"

static void copy(struct log_fixture *f, int64_t offset, int32_t epoch, int records)
{
    struct buf batch = {0};
    make_copied(f, &(struct batch_spec){.producer_id = 5, .records = records}, offset, epoch, &batch);
    assert_int_equal(append_copied(f, &batch), OK);
    buf_fini(&batch);
}

static void cut_below_a_start_inside_a_batch(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 2);
    append_plain(f, 6);
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 5), OK);
    assert_int_equal(plog_truncate_to(f->log, 6), OK); /* the batch 2..7 goes, and with it all that the log had */
    assert_int_equal(plog_start_offset(f->log), 5);
    assert_int_equal(plog_end_offset(f->log), 5);
    assert_int_equal(plog_high_watermark(f->log), 5);
    log_fixture_close(f);
    log_fixture_open(f);
    assert_int_equal(plog_end_offset(f->log), 5);
}

static void recovery_remembers_batches_over_a_gap_between_segments(void **state)
{
    struct log_fixture *f = *state;
    struct plog_appended a;
    append_from(f, 7, 0, 0, 1);
    append_from(f, 7, 0, 1, 1);
    append_txn(f, 8, 0, 0, 1);
    commit_all(f);
    append_end_txn(f, 8, 0, true); /* at the HW: not stable yet */
    copy(f, 4 + (INT64_C(1) << 31), 0, 1);
    assert_int_equal(plog_segment_count(f->log), 2);
    assert_int_equal(plog_last_stable_offset(f->log), 2);
    log_fixture_crash(f);
    f->params.recovery_point = -1; /* no checkpoint: all is recovered, and gaps are believed */
    log_fixture_open(f);
    assert_int_equal(plog_last_stable_offset(f->log), 2);
    assert_int_equal(append(f, &(struct batch_spec){.producer_id = 7, .base_sequence = 0, .records = 1}, &a), OK);
    assert_true(a.duplicate);
}

static void epochs_of_a_front_that_came_back(void **state)
{
    struct log_fixture *f = *state;
    copy(f, 0, 1, 1);
    copy(f, 1, 2, 1);
    copy(f, 2, 3, 1);
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 2), OK);
    log_fixture_crash(f);
    f->params.log_start_offset = 0; /* the checkpoint of before */
    log_fixture_open(f);
    assert_int_equal(plog_start_offset(f->log), 0);
    assert_int_equal(plog_epoch_of_offset(f->log, 0), 1);
    assert_int_equal(plog_truncate_to(f->log, 1), OK);
    assert_int_equal(plog_latest_epoch(f->log), 1);
}

static void epoch_assigned_ahead_does_not_come_back_behind_a_gap(void **state)
{
    struct log_fixture *f = *state;
    copy(f, 0, 1, 3);
    assert_int_equal(plog_assign_epoch(f->log, 11), OK); /* as a mirror does before it copies */
    copy(f, 10 + (INT64_C(1) << 31), 2, 1);              /* in a segment of its own */
    assert_int_equal(plog_latest_epoch(f->log), 2);
    log_fixture_crash(f);
    f->params.recovery_point = -1;
    log_fixture_open(f);
    assert_int_equal(plog_end_offset(f->log), 11 + (INT64_C(1) << 31));
    assert_int_equal(plog_latest_epoch(f->log), 2);
}

static void high_watermark_follows_a_start_that_the_first_batch_moves(void **state)
{
    struct log_fixture *f = *state;
    int64_t first = 10 + (INT64_C(1) << 31);
    assert_int_equal(plog_assign_epoch(f->log, 0), OK);
    copy(f, first, 1, 1);
    assert_int_equal(plog_start_offset(f->log), first);
    assert_int_equal(plog_high_watermark(f->log), first);
    assert_int_equal(plog_epoch_of_offset(f->log, first), 1);
}

static void epochs_from_batches_behind_a_damaged_index(void **state)
{
    struct log_fixture *f = *state;
    copy(f, 0, 1, 1);
    assert_int_equal(plog_roll(f->log), OK);
    copy(f, 1, 2, 1);
    log_fixture_close(f);
    char path[200];
    struct file *file;
    snprintf(path, sizeof(path), "%s/00000000000000000000.index", f->dir);
    assert_int_equal(fs_open(fs_system(), path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file), OK);
    assert_int_equal(file_pwrite(file, "odd", 3, 0), OK);
    file_close(file);
    log_fixture_remove_file(f, "leader-epoch-checkpoint");
    log_fixture_open(f);
    assert_int_equal(plog_latest_epoch(f->log), 2);
    assert_int_equal(plog_epoch_of_offset(f->log, 0), 1);
}

static void epochs_that_begin_behind_the_new_log_start_are_still_owed(void **state)
{
    struct log_fixture *f = *state;
    copy(f, 0, -1, 5); /* no epoch: the first entry begins behind the log start */
    copy(f, 5, 1, 5);
    assert_int_equal(plog_flush_now(f->log), OK); /* the file is there */
    copy(f, 20, 2, 5);
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 2), OK); /* changes no entry */
    assert_int_equal(plog_roll(f->log), OK); /* recovery will not read the batches again */
    copy(f, 25, 2, 5);
    assert_int_equal(plog_flush_now(f->log), OK);
    f->checkpointed = plog_recovery_point(f->log);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_int_equal(plog_epoch_of_offset(f->log, 7), 1);
    assert_int_equal(plog_epoch_of_offset(f->log, 22), 2);
}

static void no_snapshot_with_a_hole_behind_it(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 1);
    assert_int_equal(plog_roll(f->log), OK); /* snapshot 1 */
    append_from(f, 7, 0, 1, 1);
    assert_int_equal(plog_roll(f->log), OK); /* snapshot 2 */
    append_plain(f, 1);
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 2), OK);
    assert_int_equal(plog_segment_count(f->log), 1);
    log_fixture_crash(f);
    f->params.log_start_offset = 0;
    /* Snapshot 2 is lost; one from below the log's front has no way to its end. */
    char from[200], to[200];
    snprintf(from, sizeof(from), "%s/00000000000000000002.snapshot", f->dir);
    snprintf(to, sizeof(to), "%s/00000000000000000001.snapshot", f->dir);
    assert_int_equal(fs_rename(fs_system(), from, to), OK);
    log_fixture_open(f);
    assert_int_equal(plog_start_offset(f->log), 2);
    assert_int_equal(producer_state_count(plog_producers(f->log)), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, log_fixture_setup, log_fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cut_below_a_start_inside_a_batch),
        TEST(recovery_remembers_batches_over_a_gap_between_segments),
        TEST(epochs_of_a_front_that_came_back),
        TEST(epoch_assigned_ahead_does_not_come_back_behind_a_gap),
        TEST(high_watermark_follows_a_start_that_the_first_batch_moves),
        TEST(epochs_from_batches_behind_a_damaged_index),
        TEST(epochs_that_begin_behind_the_new_log_start_are_still_owed),
        TEST(no_snapshot_with_a_hole_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
