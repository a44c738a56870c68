#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codec/record_batch.h"
#include "log_fixture.h"

struct answer {
    int64_t first; /* base offset of the first batch, -1: empty */
    int64_t last;  /* last offset of the last one */
    size_t len;
    int64_t end_offset;
};

static struct answer read_at(struct log_fixture *f, int64_t offset, int64_t upper, size_t max_bytes, bool min_one)
{
    struct plog_slice slice;
    struct buf bytes = {0};
    struct answer a = {-1, -1, 0, 0};
    struct batch_iter it;
    const uint8_t *b;
    assert_int_equal(plog_read(f->log, offset, upper, max_bytes, min_one, &slice), OK);
    assert_int_equal(plog_slice_copy(&slice, &bytes), OK);
    assert_int_equal(bytes.len, slice.len);
    a.len = slice.len;
    a.end_offset = slice.end_offset;
    batch_iter_init(&it, buf_bytes(&bytes));
    enum batch_found found;
    while ((found = batch_iter_next(&it, &b)) == BATCH_FOUND) {
        a.first = a.first < 0 ? batch_base_offset(b) : a.first;
        a.last = batch_last_offset(b);
    }
    assert_int_equal(found, BATCH_END); /* never a cut batch */
    plog_slice_release(&slice);
    buf_fini(&bytes);
    return a;
}

static void limits_of_size(void **state)
{
    struct log_fixture *f = *state;
    for (int i = 0; i < 20; i++)
        append_plain(f, 3);
    size_t one = plog_size_bytes(f->log) / 20;
    for (size_t max = 0; max < 21 * one; max += one / 3) {
        for (int64_t offset = 0; offset < 60; offset += 7) {
            struct answer a = read_at(f, offset, INT64_MAX, max, false);
            size_t left = (size_t)(20 - offset / 3);
            size_t fit = max / one < left ? max / one : left;
            assert_int_equal(a.len, fit * one);
            if (fit > 0) {
                assert_int_equal(a.first, offset / 3 * 3);
                assert_int_equal(a.end_offset, a.last + 1);
            }
            a = read_at(f, offset, INT64_MAX, max, true);
            assert_int_equal(a.len, (fit > 0 ? fit : 1) * one);
            assert_int_equal(a.end_offset, a.last + 1);
        }
    }
}

static void the_first_batch_comes_whole(void **state)
{
    struct log_fixture *f = *state;
    struct plog_appended appended;
    append_plain(f, 1);
    assert_int_equal(
        append(f,
               &(struct batch_spec){
                   .producer_id = -1, .producer_epoch = -1, .base_sequence = -1, .records = 1, .value_bytes = 500000},
               &appended),
        OK);
    append_plain(f, 1);
    struct answer a = read_at(f, 1, INT64_MAX, 10, true);
    assert_true(a.len > 500000);
    assert_int_equal(a.first, 1);
    assert_int_equal(a.last, 1);
    assert_int_equal(read_at(f, 1, INT64_MAX, 10, false).len, 0);
    a = read_at(f, 0, INT64_MAX, 10000, true); /* what follows is too large */
    assert_int_equal(a.last, 0);
}

static void nothing_above_the_upper_offset(void **state)
{
    struct log_fixture *f = *state;
    for (int i = 0; i < 20; i++)
        append_plain(f, 3);
    for (int64_t upper = 0; upper <= 60; upper++) {
        struct answer a = read_at(f, 0, upper, 1000000, true);
        assert_int_equal(a.last, upper / 3 * 3 - 1);
    }
    assert_int_equal(read_at(f, 30, 30, 1000000, true).len, 0);
    assert_int_equal(read_at(f, 30, 10, 1000000, true).len, 0);
}

static void append_at(struct log_fixture *f, int64_t timestamp)
{
    struct plog_appended a;
    assert_int_equal(
        append(f,
               &(struct batch_spec){
                   .producer_id = -1, .producer_epoch = -1, .base_sequence = -1, .records = 3, .timestamp = timestamp},
               &a),
        OK);
}

static void what_a_cut_throws_away(void **state)
{
    struct log_fixture *f = *state;
    struct plog_tail t;
    int64_t sizes[3];
    for (int i = 0; i < 3; i++) {
        int64_t before = plog_size_bytes(f->log);
        append_at(f, 1000 + 10 * i);
        sizes[i] = plog_size_bytes(f->log) - before;
        if (i == 1)
            assert_int_equal(plog_roll(f->log), OK);
    }
    assert_int_equal(plog_tail(f->log, 0, &t), OK);
    assert_int_equal(t.records, 9);
    assert_int_equal(t.bytes, sizes[0] + sizes[1] + sizes[2]);
    assert_int_equal(t.first_timestamp, 1000);
    assert_int_equal(t.last_timestamp, 1022);       /* a record a millisecond */
    assert_int_equal(plog_tail(f->log, 4, &t), OK); /* inside the second batch: all of it goes */
    assert_int_equal(t.records, 6);
    assert_int_equal(t.bytes, sizes[1] + sizes[2]);
    assert_int_equal(t.first_timestamp, 1010);
    for (int64_t offset = 9; offset < 11; offset++) {
        assert_int_equal(plog_tail(f->log, offset, &t), OK);
        assert_int_equal(t.records, 0);
        assert_int_equal(t.bytes, 0);
        assert_int_equal(t.first_timestamp, -1);
        assert_int_equal(t.last_timestamp, -1);
    }
}

static void one_segment_at_a_time(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    append_plain(f, 3);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 3);
    assert_int_equal(read_at(f, 0, INT64_MAX, 1000000, true).last, 5); /* facts 28 */
    assert_int_equal(read_at(f, 6, INT64_MAX, 1000000, true).last, 8);
}

static void out_of_range(void **state)
{
    struct log_fixture *f = *state;
    struct plog_slice slice;
    append_plain(f, 3);
    assert_int_equal(plog_read(f->log, -1, INT64_MAX, 100, true, &slice), OFFSET_OUT_OF_RANGE);
    assert_int_equal(plog_read(f->log, 4, INT64_MAX, 100, true, &slice), OFFSET_OUT_OF_RANGE);
    assert_int_equal(read_at(f, 3, INT64_MAX, 100, true).len, 0);
}

static void gaps_are_read_over(void **state)
{
    struct log_fixture *f = *state;
    struct batch_spec spec = {.producer_id = -1, .base_sequence = -1, .records = 2};
    struct buf batches = {0};
    make_copied(f, &spec, 10, 1, &batches);
    make_copied(f, &spec, 20, 1, &batches);
    assert_int_equal(append_copied(f, &batches), OK);
    assert_int_equal(plog_roll(f->log), OK);
    buf_clear(&batches);
    make_copied(f, &spec, 50, 1, &batches);
    assert_int_equal(append_copied(f, &batches), OK);
    assert_int_equal(read_at(f, 0, INT64_MAX, 10000, true).first, 10);
    assert_int_equal(read_at(f, 12, INT64_MAX, 10000, true).first, 20);
    assert_int_equal(read_at(f, 22, INT64_MAX, 10000, true).first, 50);
    assert_int_equal(read_at(f, 49, INT64_MAX, 10000, true).first, 50);
    assert_int_equal(read_at(f, 22, 50, 10000, true).len, 0);
    buf_fini(&batches);
}

static void copied_batches_must_rise(void **state)
{
    struct log_fixture *f = *state;
    struct batch_spec spec = {.producer_id = -1, .base_sequence = -1, .records = 2};
    struct buf batches = {0};
    append_plain(f, 3);
    make_copied(f, &spec, 2, 1, &batches);
    assert_int_equal(append_copied(f, &batches), CORRUPT_MESSAGE);
    buf_clear(&batches);
    make_copied(f, &spec, 3, 1, &batches);
    make_copied(f, &spec, 4, 1, &batches);
    assert_int_equal(append_copied(f, &batches), CORRUPT_MESSAGE);
    batches.len /= 2;
    batches.len--;
    assert_int_equal(append_copied(f, &batches), CORRUPT_MESSAGE);
    assert_int_equal(plog_end_offset(f->log), 3); /* nothing of them is in */
    buf_fini(&batches);
}

static void chain_takes_the_slice_over(void **state)
{
    struct log_fixture *f = *state;
    struct plog_slice slice;
    struct chain chain;
    struct buf expected = {0}, got = {0};
    append_plain(f, 3);
    read_all(f, 0, &expected);
    for (int copied = 0; copied < 2; copied++) { /* as a range of the file, and as memory */
        assert_int_equal(plog_read(f->log, 0, INT64_MAX, 10000, true, &slice), OK);
        chain_init(&chain);
        assert_int_equal(plog_slice_to_chain(&slice, slice.len - (copied == 0), &chain), OK);
        assert_null(slice.segment);
        assert_int_equal(TAILQ_FIRST(&chain.pieces)->kind, copied == 0 ? CHAIN_FILE : CHAIN_OWNED);
        if (copied != 0)
            assert_int_equal(plog_restart_at(f->log, 0), OK);
        buf_clear(&got);
        assert_int_equal(chain_read(&chain, &got), OK);
        assert_int_equal(got.len, expected.len);
        assert_memory_equal(got.data, expected.data, got.len);
        chain_fini(&chain);
    }
    buf_fini(&expected);
    buf_fini(&got);
}

static void chain_holds_the_file_of_a_log_that_was_cut(void **state)
{
    struct log_fixture *f = *state;
    struct plog_slice slice;
    struct chain chain;
    struct buf expected = {0}, got = {0};
    append_plain(f, 3);
    read_all(f, 0, &expected);
    assert_int_equal(plog_read(f->log, 0, INT64_MAX, 10000, true, &slice), OK);
    chain_init(&chain);
    assert_int_equal(plog_slice_to_chain(&slice, 0, &chain), OK);
    assert_int_equal(plog_restart_at(f->log, 0), OK);
    assert_int_equal(chain_read(&chain, &got), OK);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.data, expected.data, got.len);
    chain_fini(&chain);
    buf_fini(&expected);
    buf_fini(&got);
}

/* ---- Transactions ---- */

static void aborted_of(struct log_fixture *f, int64_t offset, int64_t end_offset, struct buf *out)
{
    struct arena arena;
    struct plog_slice slice = {.end_offset = end_offset};
    struct plog_aborted *aborted;
    int count;
    arena_init(&arena, 100000);
    assert_int_equal(plog_aborted_for(f->log, offset, &slice, &arena, &aborted, &count), OK);
    buf_clear(out);
    for (int i = 0; i < count; i++)
        buf_printf(out, "%lld@%lld ", (long long)aborted[i].producer_id, (long long)aborted[i].first_offset);
    arena_fini(&arena);
}

static void last_stable_offset_and_aborted_transactions(void **state)
{
    struct log_fixture *f = *state;
    struct buf text = {0};
    append_plain(f, 2);
    append_txn(f, 8, 0, 0, 2); /* 2 3 */
    append_txn(f, 9, 0, 0, 2); /* 4 5 */
    commit_all(f);
    assert_int_equal(plog_last_stable_offset(f->log), 2);
    assert_int_equal(plog_roll(f->log), OK);
    append_end_txn(f, 8, 0, false);                       /* 6 */
    assert_int_equal(plog_last_stable_offset(f->log), 2); /* the marker is above the HW */
    commit_all(f);
    assert_int_equal(plog_last_stable_offset(f->log), 4);
    append_end_txn(f, 9, 0, true); /* 7 */
    commit_all(f);
    assert_int_equal(plog_last_stable_offset(f->log), 8);
    aborted_of(f, 0, 8, &text);
    assert_string_equal(buf_cstr(&text), "8@2 ");
    aborted_of(f, 3, 4, &text);
    assert_string_equal(buf_cstr(&text), "8@2 ");
    aborted_of(f, 0, 2, &text);
    assert_string_equal(buf_cstr(&text), "");
    aborted_of(f, 7, 8, &text);
    assert_string_equal(buf_cstr(&text), "");
    buf_fini(&text);
}

static void duplicates_are_answered_with_their_first_offset(void **state)
{
    struct log_fixture *f = *state;
    struct batch_spec spec = {.producer_id = 7, .base_sequence = 0, .records = 2};
    struct plog_appended a;
    append_plain(f, 5);
    for (int i = 0; i < 6; i++) {
        spec.base_sequence = 2 * i;
        assert_int_equal(append(f, &spec, &a), OK);
    }
    spec.base_sequence = 4;
    spec.timestamp = f->clock.now_ms;
    manual_clock_advance(&f->clock, 1000);
    assert_int_equal(append(f, &spec, &a), OK);
    assert_true(a.duplicate);
    assert_int_equal(a.base_offset, 9);
    assert_int_equal(a.last_offset, 10);
    assert_int_equal(a.log_append_time_ms, spec.timestamp + 1); /* facts 17: its batch's, CreateTime or not */
    assert_int_equal(plog_end_offset(f->log), 17);
    spec.base_sequence = 0;                                               /* older than five */
    assert_int_equal(append(f, &spec, &a), OUT_OF_ORDER_SEQUENCE_NUMBER); /* facts 18 */
}

/* ---- By time ---- */

static int64_t at_time(struct log_fixture *f, int64_t timestamp, int64_t upper)
{
    struct plog_time_offset found;
    assert_int_equal(plog_offset_for_time(f->log, timestamp, upper, &found), OK);
    return found.offset;
}

static void offsets_by_time(void **state)
{
    struct log_fixture *f = *state;
    struct plog_time_offset found;
    append_at(f, 1000); /* 0: 1000, 1: 1001, 2: 1002 */
    append_at(f, 2000);
    assert_int_equal(plog_roll(f->log), OK);
    append_at(f, 1500); /* late */
    append_at(f, 3000); /* 9 .. 11 */
    assert_int_equal(plog_roll(f->log), OK);
    append_at(f, 2500);
    assert_int_equal(at_time(f, 0, INT64_MAX), 0);
    assert_int_equal(at_time(f, 1001, INT64_MAX), 1);
    assert_int_equal(at_time(f, 1003, INT64_MAX), 3);
    assert_int_equal(at_time(f, 2003, INT64_MAX), 9);
    assert_int_equal(at_time(f, 3002, INT64_MAX), 11);
    assert_int_equal(at_time(f, 3003, INT64_MAX), -1);
    assert_int_equal(at_time(f, 3002, 11), -1);
    assert_int_equal(at_time(f, 3002, 12), 11);
    assert_int_equal(plog_offset_of_max_time(f->log, INT64_MAX, &found), OK);
    assert_int_equal(found.offset, 11);
    assert_int_equal(found.timestamp, 3002);
    assert_int_equal(plog_offset_of_max_time(f->log, 11, &found), OK); /* facts 34 */
    assert_int_equal(found.offset, -1);
    commit_all(f);
    assert_int_equal(plog_set_start_offset(f->log, 2), OK);
    assert_int_equal(at_time(f, 0, INT64_MAX), 2);
    log_fixture_close(f);
    log_fixture_open(f);
    assert_int_equal(at_time(f, 1003, INT64_MAX), 3);
    assert_int_equal(at_time(f, 2003, INT64_MAX), 9);
    assert_int_equal(plog_offset_of_max_time(f->log, INT64_MAX, &found), OK);
    assert_int_equal(found.offset, 11);
}

static void empty_log_has_no_times(void **state)
{
    struct log_fixture *f = *state;
    struct plog_time_offset found;
    assert_int_equal(at_time(f, 0, INT64_MAX), -1);
    assert_int_equal(plog_offset_of_max_time(f->log, INT64_MAX, &found), OK);
    assert_int_equal(found.offset, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, log_fixture_setup, log_fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(limits_of_size),
        TEST(the_first_batch_comes_whole),
        TEST(nothing_above_the_upper_offset),
        TEST(one_segment_at_a_time),
        TEST(what_a_cut_throws_away),
        TEST(out_of_range),
        TEST(gaps_are_read_over),
        TEST(copied_batches_must_rise),
        TEST(chain_takes_the_slice_over),
        TEST(chain_holds_the_file_of_a_log_that_was_cut),
        TEST(last_stable_offset_and_aborted_transactions),
        TEST(duplicates_are_answered_with_their_first_offset),
        TEST(offsets_by_time),
        TEST(empty_log_has_no_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
