#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "log_fixture.h"

#define DAY_MS INT64_C(86400000)

static void configure(struct log_fixture *f)
{
    plog_set_config(f->log, &f->params.config);
}

static int retain(struct log_fixture *f)
{
    int removed = -1;
    assert_int_equal(plog_apply_retention(f->log, &removed), OK);
    return removed;
}

static void by_time(void **state)
{
    struct log_fixture *f = *state;
    f->params.config.retention_ms = 3 * DAY_MS;
    configure(f);
    for (int i = 0; i < 5; i++) {
        append_plain(f, 2);
        assert_int_equal(plog_roll(f->log), OK);
        manual_clock_advance(&f->clock, DAY_MS);
    }
    assert_int_equal(retain(f), 0); /* nothing is below the HW */
    commit_all(f);
    assert_int_equal(retain(f), 2); /* ages 5 and 4 days */
    assert_int_equal(plog_start_offset(f->log), 4);
    assert_false(log_fixture_has_file(f, "00000000000000000000.log"));
    assert_true(log_fixture_has_file(f, "00000000000000000000.log.deleted"));
    manual_clock_advance(&f->clock, 60001);
    assert_int_equal(plog_remove_deleted(f->log), OK);
    assert_false(log_fixture_has_file(f, "00000000000000000000.log.deleted"));
    assert_true(log_fixture_has_file(f, "00000000000000000004.log"));
}

static void the_active_segment_goes_by_time_too(void **state)
{
    struct log_fixture *f = *state;
    f->params.config.retention_ms = DAY_MS;
    configure(f);
    append_from(f, 7, 0, 0, 5);
    commit_all(f);
    assert_int_equal(retain(f), 0);
    manual_clock_advance(&f->clock, 2 * DAY_MS);
    assert_int_equal(retain(f), 1);
    assert_int_equal(plog_start_offset(f->log), 5);
    assert_int_equal(plog_end_offset(f->log), 5);
    assert_int_equal(retain(f), 0);
    assert_int_equal(append_from(f, 7, 0, 5, 1), 5); /* the producer is known still */
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_int_equal(plog_start_offset(f->log), 5);
    assert_int_equal(plog_end_offset(f->log), 6);
    struct buf text = {0};
    describe_producers(f, &text);
    assert_string_equal(buf_cstr(&text), "pid=7 epoch=0 seq=5 offset=5 txn=-1 coordinator=-1\n");
    buf_fini(&text);
}

static void by_size(void **state)
{
    struct log_fixture *f = *state;
    for (int i = 0; i < 5; i++) {
        append_plain(f, 2);
        assert_int_equal(plog_roll(f->log), OK);
    }
    commit_all(f);
    int64_t one = (int64_t)plog_size_bytes(f->log) / 5;
    f->params.config.retention_bytes = 3 * one - 1;
    configure(f);
    assert_int_equal(retain(f), 2); /* a segment goes only when what stays is still as large as retention.bytes */
    assert_int_equal(plog_size_bytes(f->log), 3 * one);
    f->params.config.cleanup_delete = false;
    f->params.config.retention_bytes = 0;
    configure(f);
    assert_int_equal(retain(f), 0);
}

static void start_offset_inside_a_batch(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 10);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 10);
    assert_int_equal(plog_set_start_offset(f->log, 5), OFFSET_OUT_OF_RANGE); /* above the HW */
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 5), OK);
    assert_true(plog_recovery_point(f->log) >= 5); /* nothing goes that was not durable: it comes back whole, if at all */
    assert_int_equal(plog_set_start_offset(f->log, 3), OK); /* never falls */
    struct plog_slice slice;
    assert_int_equal(plog_read(f->log, 4, INT64_MAX, 1000, true, &slice), OFFSET_OUT_OF_RANGE);
    assert_int_equal(plog_read(f->log, 5, INT64_MAX, 1000, true, &slice), OK);
    assert_int_equal(slice.pos, 0); /* the whole batch 0 .. 9 */
    plog_slice_release(&slice);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_int_equal(plog_start_offset(f->log), 5);
    assert_int_equal(plog_segment_count(f->log), 2);
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 12), OK);
    assert_int_equal(plog_segment_count(f->log), 1);
    assert_int_equal(plog_set_start_offset(f->log, 20), OK);
    assert_int_equal(plog_segment_count(f->log), 1);
    assert_int_equal(append_plain(f, 1), 20);
}

static void readers_keep_what_was_dropped(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 3);
    commit_all(f);
    struct plog_slice slice;
    struct buf copy = {0};
    assert_int_equal(plog_read(f->log, 0, INT64_MAX, 10000, true, &slice), OK);
    assert_int_equal(plog_set_start_offset(f->log, 4), OK);
    manual_clock_advance(&f->clock, 60001);
    assert_int_equal(plog_remove_deleted(f->log), OK);
    assert_int_equal(plog_slice_copy(&slice, &copy), OK);
    assert_int_equal(copy.len, slice.len);
    plog_slice_release(&slice);
    buf_fini(&copy);
}

static void rolls_by_age_of_the_batches(void **state)
{
    struct log_fixture *f = *state;
    f->params.config.segment_ms = DAY_MS;
    configure(f);
    append_plain(f, 1);
    manual_clock_advance(&f->clock, DAY_MS);
    append_plain(f, 1);
    assert_int_equal(plog_segment_count(f->log), 1);
    manual_clock_advance(&f->clock, 2);
    append_plain(f, 1);
    assert_int_equal(plog_segment_count(f->log), 2);
}

static void rolls_when_an_index_is_full(void **state)
{
    struct log_fixture *f = *state;
    f->params.config.index_interval_bytes = 0;
    f->params.config.segment_index_bytes = 80; /* ten entries */
    configure(f);
    for (int i = 0; i < 40; i++)
        append_plain(f, 1);
    assert_true(plog_segment_count(f->log) > 3);
}

static void rolls_when_offsets_do_not_fit(void **state)
{
    struct log_fixture *f = *state;
    struct buf batch = {0};
    struct batch_spec spec = {.producer_id = -1, .base_sequence = -1, .records = 1};
    append_plain(f, 1);
    make_copied(f, &spec, INT64_C(5000000000), 1, &batch);
    assert_int_equal(append_copied(f, &batch), OK);
    assert_int_equal(plog_segment_count(f->log), 2);
    assert_true(log_fixture_has_file(f, "00000000005000000000.log"));
    /* An empty segment that is too far below goes. */
    assert_int_equal(plog_restart_at(f->log, 0), OK);
    assert_int_equal(append_copied(f, &batch), OK);
    assert_int_equal(plog_segment_count(f->log), 1);
    assert_int_equal(plog_start_offset(f->log), INT64_C(5000000000));
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_int_equal(plog_end_offset(f->log), INT64_C(5000000001));
    buf_fini(&batch);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, log_fixture_setup, log_fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(by_time),
        TEST(the_active_segment_goes_by_time_too),
        TEST(by_size),
        TEST(start_offset_inside_a_batch),
        TEST(readers_keep_what_was_dropped),
        TEST(rolls_by_age_of_the_batches),
        TEST(rolls_when_an_index_is_full),
        TEST(rolls_when_offsets_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
