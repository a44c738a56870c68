#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codec/record_batch.h"
#include "log_fixture.h"

static void offsets_follow_each_other(void **state)
{
    struct log_fixture *f = *state;
    assert_int_equal(append_plain(f, 3), 0);
    assert_int_equal(append_plain(f, 2), 3);
    assert_int_equal(plog_end_offset(f->log), 5);
    assert_int_equal(plog_high_watermark(f->log), 0);
    plog_set_high_watermark(f->log, 5);
    assert_int_equal(plog_last_stable_offset(f->log), 5);
    struct buf text = {0};
    describe_batches(f, 0, &text);
    assert_string_equal(buf_cstr(&text), "0 3");
    buf_clear(&text);
    describe_batches(f, 4, &text);
    assert_string_equal(buf_cstr(&text), "3");
    buf_fini(&text);
}

static void flush_moves_the_recovery_point(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    assert_int_equal(plog_recovery_point(f->log), 0);
    assert_int_equal(plog_flush_now(f->log), OK);
    assert_int_equal(plog_recovery_point(f->log), 3);
}

static void a_clean_end_and_start_keep_everything(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 3);
    append_plain(f, 2);
    commit_all(f);
    struct buf before = {0}, after = {0};
    read_all(f, 0, &before);
    log_fixture_close(f);
    log_fixture_open(f);
    read_all(f, 0, &after);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
    assert_int_equal(plog_end_offset(f->log), 5);
    assert_int_equal(plog_high_watermark(f->log), 5);
    buf_clear(&after);
    describe_producers(f, &after);
    assert_string_equal(buf_cstr(&after), "pid=7 epoch=0 seq=2 offset=2 txn=-1 coordinator=-1\n");
    buf_fini(&before);
    buf_fini(&after);
}

static void a_crash_keeps_what_is_written(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 3);
    append_plain(f, 2);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_int_equal(plog_end_offset(f->log), 5);
    assert_int_equal(plog_recovery_point(f->log), 0); /* it may be in the page cache only */
    assert_events_have(f, "recovered: 2 batches");
    assert_int_equal(plog_flush_now(f->log), OK);
    assert_int_equal(plog_recovery_point(f->log), 5);
}

static void many_segments_read_back(void **state)
{
    struct log_fixture *f = *state;
    f->params.config.segment_bytes = 500;
    plog_set_config(f->log, &f->params.config);
    for (int i = 0; i < 100; i++)
        append_plain(f, 1 + i % 3);
    assert_true(plog_segment_count(f->log) > 10);
    struct buf before = {0}, after = {0};
    read_all(f, 0, &before);
    log_fixture_crash(f);
    log_fixture_open(f);
    read_all(f, 0, &after);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
    log_fixture_close(f);
    buf_clear(&f->events);
    log_fixture_open(f);
    assert_int_equal(f->events.len, 0);
    buf_fini(&before);
    buf_fini(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(offsets_follow_each_other, log_fixture_setup, log_fixture_teardown),
        cmocka_unit_test_setup_teardown(flush_moves_the_recovery_point, log_fixture_setup, log_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_clean_end_and_start_keep_everything, log_fixture_setup, log_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_crash_keeps_what_is_written, log_fixture_setup, log_fixture_teardown),
        cmocka_unit_test_setup_teardown(many_segments_read_back, log_fixture_setup, log_fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
