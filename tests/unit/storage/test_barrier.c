/* Spec section 2 at the log's level, with and without the barrier, and the traps of section 5. That every way of building the producer state agrees is what the
 * walks of tests/model show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/hooks.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "log_fixture.h"

static int setup(void **state)
{
    static struct log_fixture f;
    log_fixture_init(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
#if KAGAMI_TEST_HOOKS
    hook_switch_set("suppress-barrier", false);
#endif
    log_fixture_fini(*state);
    return 0;
}

/* ---- Section 2: what happens without the barrier, and does not with it ---- */

/* A stranger's batch, as a mirror copies it. */
static void copy_from_source(struct log_fixture *f, int64_t pid, int16_t epoch, int32_t sequence, int records, bool transactional)
{
    struct buf batch = {0};
    make_copied(f,
                &(struct batch_spec){.producer_id = pid,
                                     .producer_epoch = epoch,
                                     .base_sequence = sequence,
                                     .records = records,
                                     .transactional = transactional},
                plog_end_offset(f->log), 3, &batch);
    assert_int_equal(append_copied(f, &batch), OK);
    buf_fini(&batch);
}

static enum error local_write(struct log_fixture *f, int64_t pid, int16_t epoch, int32_t sequence, int records,
                              bool transactional, struct plog_appended *ret_appended)
{
    return append(f,
                  &(struct batch_spec){.producer_id = pid,
                                       .producer_epoch = epoch,
                                       .base_sequence = sequence,
                                       .records = records,
                                       .transactional = transactional},
                  ret_appended);
}

static void suppress(bool on)
{
#if KAGAMI_TEST_HOOKS
    hook_switch_set("suppress-barrier", on);
#else
    if (on)
        skip();
#endif
}

static void same_epoch_wrong_sequence(struct log_fixture *f, bool suppressed)
{
    struct plog_appended a;
    copy_from_source(f, 7, 0, 0, 10, false);
    suppress(suppressed);
    append_barrier(f, NULL);
    int64_t end = plog_end_offset(f->log);
    enum error error = local_write(f, 7, 0, 0, 3, false, &a);
    assert_int_equal(error, suppressed ? OUT_OF_ORDER_SEQUENCE_NUMBER : OK);
    assert_int_equal(plog_end_offset(f->log), suppressed ? end : end + 3);
}

static void same_epoch_matching_sequence(struct log_fixture *f, bool suppressed)
{
    struct plog_appended a;
    copy_from_source(f, 7, 0, 0, 10, false);
    suppress(suppressed);
    append_barrier(f, NULL);
    int64_t end = plog_end_offset(f->log);
    assert_int_equal(local_write(f, 7, 0, 0, 10, false, &a), OK);
    assert_int_equal(a.duplicate, suppressed); /* acknowledged, and not in the log */
    assert_int_equal(plog_end_offset(f->log), suppressed ? end : end + 10);
}

static void lower_epoch(struct log_fixture *f, bool suppressed)
{
    struct plog_appended a;
    copy_from_source(f, 7, 5, 0, 10, false);
    suppress(suppressed);
    append_barrier(f, NULL);
    assert_int_equal(local_write(f, 7, 0, 0, 1, false, &a), suppressed ? INVALID_PRODUCER_EPOCH : OK);
}

static void higher_epoch(struct log_fixture *f, bool suppressed)
{
    struct plog_appended a;
    copy_from_source(f, 7, 0, 0, 10, false);
    suppress(suppressed);
    append_barrier(f, NULL);
    /* A producer in the middle of its sequences, which comes from elsewhere (facts 16). */
    assert_int_equal(local_write(f, 7, 1, 500, 1, false, &a), suppressed ? OUT_OF_ORDER_SEQUENCE_NUMBER : OK);
    if (!suppressed)
        assert_int_equal(local_write(f, 7, 1, 501, 1, false, &a), OK);
}

static void interleaved_transactions(struct log_fixture *f, bool suppressed)
{
    struct plog_appended a;
    copy_from_source(f, 7, 0, 0, 10, true); /* the stranger's transaction: 0 .. 9 */
    suppress(suppressed);
    append_barrier(f, NULL); /* 10 */
    assert_int_equal(local_write(f, 7, 0, 10, 5, true, &a), OK);
    assert_int_equal(a.base_offset, 11);
    append_end_txn(f, 7, 0, false);
    commit_all(f);
    struct plog_slice slice;
    struct plog_aborted *aborted;
    int count;
    struct arena arena;
    arena_init(&arena, 100000);
    assert_int_equal(plog_read(f->log, 0, INT64_MAX, 1000000, true, &slice), OK);
    assert_int_equal(plog_aborted_for(f->log, 0, &slice, &arena, &aborted, &count), OK);
    assert_int_equal(count, 1);
    /* Without the barrier one producer's abort takes the other's records with it. */
    assert_int_equal(aborted[0].first_offset, suppressed ? 0 : 11);
    plog_slice_release(&slice);
    arena_fini(&arena);
}

#define CORRUPTION(name)                                                                                                         \
    static void name##_without_barrier(void **state)                                                                             \
    {                                                                                                                            \
        name(*state, true);                                                                                                      \
    }                                                                                                                            \
    static void name##_with_barrier(void **state)                                                                                \
    {                                                                                                                            \
        name(*state, false);                                                                                                     \
    }
CORRUPTION(same_epoch_wrong_sequence)
CORRUPTION(same_epoch_matching_sequence)
CORRUPTION(lower_epoch)
CORRUPTION(higher_epoch)
CORRUPTION(interleaved_transactions)

/* ---- Section 5: the traps ---- */

static void assert_producers(struct log_fixture *f, const char *expected)
{
    struct buf text = {0};
    describe_producers(f, &text);
    assert_string_equal(buf_cstr(&text), expected);
    buf_fini(&text);
}

#define PID_8_AT(offset) "pid=8 epoch=0 seq=0 offset=" offset " txn=-1 coordinator=-1\n"

static void producers_earlier_in_the_same_append_stay_gone(void **state)
{
    struct log_fixture *f = *state;
    struct buf chunk = {0};
    make_copied(f, &(struct batch_spec){.producer_id = 7, .records = 2}, 0, 3, &chunk);
    control_build_mirror_pid_reset(&chunk, STR("source"), STR(OWN_CLUSTER), 0, f->clock.now_ms, 2, 4);
    make_copied(f, &(struct batch_spec){.producer_id = 8, .records = 1}, 3, 4, &chunk);
    assert_int_equal(append_copied(f, &chunk), OK);
    assert_producers(f, PID_8_AT("3"));
    buf_fini(&chunk);
}

static void producers_earlier_in_the_same_replay_stay_gone(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 2);
    append_barrier(f, NULL);
    append_from(f, 8, 0, 0, 1);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_producers(f, PID_8_AT("3"));
}

static void snapshot_older_than_the_barrier(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 2);
    assert_int_equal(plog_take_snapshot(f->log), OK);
    append_barrier(f, NULL);
    assert_true(log_fixture_has_file(f, "00000000000000000002.snapshot"));
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_producers(f, "");
    /* A clean end that lost its newest snapshot leaves the older one to start from. */
    log_fixture_close(f);
    log_fixture_open(f);
    assert_producers(f, "");
}

static void old_snapshot_and_replay_in_a_sealed_segment(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 2);
    assert_int_equal(plog_roll(f->log), OK); /* snapshot 2 */
    append_barrier(f, NULL);
    append_from(f, 8, 0, 0, 1);
    log_fixture_close(f); /* snapshot 4 */
    log_fixture_remove_file(f, "00000000000000000004.snapshot");
    assert_true(log_fixture_has_file(f, "00000000000000000002.snapshot"));
    log_fixture_open(f);
    assert_producers(f, PID_8_AT("3"));
}

static void no_snapshot_at_all(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 2);
    assert_int_equal(plog_roll(f->log), OK);
    append_barrier(f, NULL);
    log_fixture_close(f);
    log_fixture_remove_file(f, "00000000000000000002.snapshot");
    log_fixture_remove_file(f, "00000000000000000003.snapshot");
    log_fixture_open(f);
    assert_producers(f, "");
}

static void snapshot_taken_after_it_holds_none_of_them(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 2);
    append_barrier(f, NULL);
    assert_int_equal(plog_take_snapshot(f->log), OK);
    char path[200];
    struct buf content = {0};
    struct producer_entry *entries;
    int count;
    struct problem problem;
    snprintf(path, sizeof(path), "%s/00000000000000000003.snapshot", f->dir);
    assert_int_equal(fs_read_file(fs_system(), path, 100000, &content), OK);
    assert_int_equal(producer_snapshot_decode(buf_bytes(&content), &entries, &count, &problem), OK);
    assert_int_equal(count, 0);
    mem_free(entries);
    buf_fini(&content);
}

static void truncation_below_it_brings_them_back(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 2);
    int64_t barrier = append_barrier(f, NULL);
    append_from(f, 8, 0, 0, 1);
    assert_int_equal(plog_take_snapshot(f->log), OK);
    assert_int_equal(plog_truncate_to(f->log, barrier), OK);
    assert_producers(f, "pid=7 epoch=0 seq=1 offset=1 txn=-1 coordinator=-1\n");
    struct plog_appended a;
    assert_int_equal(local_write(f, 7, 0, 0, 2, false, &a), OK);
    assert_true(a.duplicate);
    append_barrier(f, NULL);
    assert_producers(f, "");
}

static void recovery_of_the_segment_that_holds_it(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 2);
    assert_int_equal(plog_roll(f->log), OK);
    append_from(f, 9, 0, 0, 1);
    append_barrier(f, NULL);
    append_from(f, 8, 0, 0, 1);
    assert_int_equal(plog_flush_now(f->log), OK);
    log_fixture_crash(f);
    f->params.recovery_point = 5;
    buf_clear(&f->events);
    log_fixture_open(f);
    assert_events_have(f, "segment 2 recovered");
    assert_producers(f, PID_8_AT("4"));
}

/* ---- The one rule ---- */

static void foreign_barrier_is_passive(struct log_fixture *f, struct str writer)
{
    struct buf barrier = {0};
    const char *both = "pid=7 epoch=0 seq=1 offset=1 txn=-1 coordinator=-1\n" PID_8_AT("3");
    append_from(f, 7, 0, 0, 2);
    control_build_mirror_pid_reset(&barrier, STR("source"), writer, 0, f->clock.now_ms, 2, 1);
    assert_int_equal(append_copied(f, &barrier), OK);
    append_from(f, 8, 0, 0, 1);
    int32_t epoch;
    assert_producers(f, both);
    assert_false(plog_ends_with_own_barrier(f->log, &epoch));
    log_fixture_close(f);
    log_fixture_open(f);
    assert_producers(f, both);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_producers(f, both);
    assert_int_equal(plog_truncate_to(f->log, 3), OK);
    assert_producers(f, "pid=7 epoch=0 seq=1 offset=1 txn=-1 coordinator=-1\n");
    buf_fini(&barrier);
}

static void another_clusters_barrier_is_passive_everywhere(void **state)
{
    foreign_barrier_is_passive(*state, STR("somebody-else"));
}

static void a_barrier_without_writer_is_foreign(void **state)
{
    foreign_barrier_is_passive(*state, STR_NULL);
}

static void own_barrier_acts_when_it_comes_back_by_copying(void **state)
{
    struct log_fixture *f = *state;
    struct buf barrier = {0};
    append_from(f, 7, 0, 0, 2);
    control_build_mirror_pid_reset(&barrier, STR("source"), STR(OWN_CLUSTER), 0, f->clock.now_ms, 2, 1);
    assert_int_equal(append_copied(f, &barrier), OK);
    assert_producers(f, "");
    buf_fini(&barrier);
}

static void scope_1_takes_negative_ids_only(void **state)
{
    struct log_fixture *f = *state;
    struct plog_appended a;
    int expired;
    copy_from_source(f, -9, 0, 0, 1, false);
    copy_from_source(f, 7, 0, 0, 1, false);
    assert_int_equal(plog_append_barrier(f->log, STR("source"), 1, 9, &a, &expired), OK);
    assert_int_equal(expired, 1);
    assert_producers(f, "pid=7 epoch=0 seq=0 offset=1 txn=-1 coordinator=-1\n");
}

static void last_batch_tells_of_the_own_barrier(void **state)
{
    struct log_fixture *f = *state;
    int32_t epoch = -5;
    int expired;
    append_from(f, 7, 0, 0, 2);
    assert_false(plog_ends_with_own_barrier(f->log, &epoch));
    append_barrier(f, &expired);
    assert_int_equal(expired, 1);
    assert_true(plog_ends_with_own_barrier(f->log, &epoch));
    assert_int_equal(epoch, 1);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_true(plog_ends_with_own_barrier(f->log, &epoch));
    assert_int_equal(epoch, 1);
    log_fixture_close(f);
    log_fixture_open(f);
    assert_true(plog_ends_with_own_barrier(f->log, &epoch));
    append_plain(f, 1);
    assert_false(plog_ends_with_own_barrier(f->log, &epoch));
}

static void barrier_goes_on_as_specified(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 2);
    append_barrier(f, NULL);
    struct buf all = {0};
    read_all(f, 2, &all);
    const uint8_t *b = all.data;
    struct control_record c;
    assert_int_equal(batch_base_offset(b), 2);
    assert_int_equal(batch_attributes(b), BATCH_CONTROL);
    assert_int_equal(batch_producer_id(b), -1);
    assert_int_equal(batch_producer_epoch(b), -1);
    assert_int_equal(batch_base_sequence(b), -1);
    assert_int_equal(batch_count(b), 1);
    assert_int_equal(batch_leader_epoch(b), 1);
    assert_true(batch_verify_crc(b));
    assert_int_equal(control_parse(b, &c), OK);
    assert_int_equal(c.type, 7);
    assert_true(str_is(c.source_cluster_id, "source-cluster"));
    assert_true(str_is(c.writer_cluster_id, OWN_CLUSTER));
    buf_fini(&all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(same_epoch_wrong_sequence_without_barrier),
        TEST(same_epoch_wrong_sequence_with_barrier),
        TEST(same_epoch_matching_sequence_without_barrier),
        TEST(same_epoch_matching_sequence_with_barrier),
        TEST(lower_epoch_without_barrier),
        TEST(lower_epoch_with_barrier),
        TEST(higher_epoch_without_barrier),
        TEST(higher_epoch_with_barrier),
        TEST(interleaved_transactions_without_barrier),
        TEST(interleaved_transactions_with_barrier),
        TEST(producers_earlier_in_the_same_append_stay_gone),
        TEST(producers_earlier_in_the_same_replay_stay_gone),
        TEST(snapshot_older_than_the_barrier),
        TEST(old_snapshot_and_replay_in_a_sealed_segment),
        TEST(no_snapshot_at_all),
        TEST(snapshot_taken_after_it_holds_none_of_them),
        TEST(truncation_below_it_brings_them_back),
        TEST(recovery_of_the_segment_that_holds_it),
        TEST(another_clusters_barrier_is_passive_everywhere),
        TEST(a_barrier_without_writer_is_foreign),
        TEST(own_barrier_acts_when_it_comes_back_by_copying),
        TEST(scope_1_takes_negative_ids_only),
        TEST(last_batch_tells_of_the_own_barrier),
        TEST(barrier_goes_on_as_specified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
