/* Producer state: every rule of Kafka's ProducerAppendInfo, staging, barriers, transactions, snapshots. */
#include "store_help.h"

#define DAY_MS (24 * 3600 * 1000LL)

static struct producer_state *fresh(void **state)
{
    return producer_state_create(fs_system(), ((struct scratch *)*state)->dir, DAY_MS);
}

struct send {
    int64_t pid;
    int16_t epoch;
    int32_t sequence;
    int count;
    int64_t offset;
    bool txn;
};

static struct producer_batch_info info_of(struct send s)
{
    return (struct producer_batch_info){
        .producer_id = s.pid,
        .base_offset = s.offset,
        .last_offset = s.offset + (s.count > 0 ? s.count : 1) - 1,
        .max_timestamp = 1000 + s.offset,
        .base_sequence = s.sequence,
        .producer_epoch = s.epoch,
        .transactional = s.txn,
    };
}

static enum error stage(struct producer_state *ps, enum producer_origin origin, struct send s)
{
    struct producer_batch_info info = info_of(s);
    return producer_state_stage_batch(ps, origin, &info, NULL);
}

/* Appends as a client: refused ones change nothing. */
static enum error append(struct producer_state *ps, struct send s)
{
    enum error error = stage(ps, PRODUCER_CLIENT, s);
    if (error == OK)
        producer_state_apply(ps, info_of(s).last_offset + 1);
    else
        producer_state_discard(ps);
    return error;
}

static enum error mark(struct producer_state *ps, enum producer_origin origin, int64_t pid, int16_t epoch, bool commit,
                       int32_t coordinator, int64_t offset)
{
    enum error error = producer_state_stage_marker(ps, origin, pid, epoch, commit, coordinator, offset, 5000 + offset, NULL);
    if (error == OK)
        producer_state_apply(ps, offset + 1);
    else
        producer_state_discard(ps);
    return error;
}

/* pid, epoch, sequence, count, offset, and true for a transaction's */
#define S(...) SIX(__VA_ARGS__, false, 0)
#define SIX(pid, epoch, sequence, count, offset, txn, ...) ((struct send){pid, epoch, sequence, count, offset, txn})

static void sequences(void **state)
{
    static const struct {
        struct send send;
        enum error expected;
        const char *what;
    } TABLE[] = {
        {{7, 0, 17, 3, 0, false}, OK, "an unknown producer starts anywhere"},
        {{7, 0, 20, 1, 3, false}, OK, "the next one"},
        {{7, 0, 22, 1, 4, false}, OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap"},
        {{7, 0, 20, 2, 4, false}, OUT_OF_ORDER_SEQUENCE_NUMBER, "an overlap that is no duplicate"},
        {{7, 0, 21, 1, 4, false}, OK, "the refused ones changed nothing"},
        {{7, 1, 5, 1, 5, false}, OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch starts with 0"},
        {{7, 0, 22, 1, 5, false}, OK, "and the refused epoch is not remembered"},
        {{7, 1, 0, 1, 6, false}, OK, "a new epoch"},
        {{7, 0, 23, 1, 7, false}, INVALID_PRODUCER_EPOCH, "the old epoch is fenced"},
        {{7, 1, 1, 1, 7, false}, OK, ""},
        {{8, 0, INT32_MAX - 1, 2, 8, false}, OK, "up to the largest sequence"},
        {{8, 0, 1, 1, 10, false}, OUT_OF_ORDER_SEQUENCE_NUMBER, "after it comes 0"},
        {{8, 0, 0, 1, 10, false}, OK, "the wrap"},
        {{9, 0, INT32_MAX, 3, 11, false}, OK, "a wrap inside a batch"},
        {{9, 0, 2, 1, 14, false}, OK, "goes on with 2"},
        {{10, -1, 4, 1, 15, false}, OK, "epoch -1 is taken"},
        {{10, -1, 9, 1, 16, false}, OK, "with any sequence"},
        {{10, -2, 10, 1, 17, false}, INVALID_PRODUCER_EPOCH, "-2 is below -1"},
        {{11, -2, 0, 1, 17, false}, INVALID_PRODUCER_EPOCH, "also for an unknown producer"},
        {{-1, 0, 44, 1, 17, false}, OK, "no producer: no check"},
        {{-5, 3, 9, 1, 18, false}, OK, "negative ids are never checked"},
        {{-5, 2, 99, 1, 19, false}, OK, "whatever they say"},
    };
    struct producer_state *ps = fresh(state);
    for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
        enum error error = append(ps, TABLE[i].send);
        if (error != TABLE[i].expected)
            fail_msg("row %zu (%s): %s, expected %s", i, TABLE[i].what, error_name(error), error_name(TABLE[i].expected));
    }
    assert_null(producer_state_get(ps, 11));
    assert_null(producer_state_get(ps, -1));
    assert_non_null(producer_state_get(ps, -5));
    producer_state_destroy(ps);
}

static void duplicates_are_found_among_five(void **state)
{
    struct producer_state *ps = fresh(state);
    struct producer_batch found;
    for (int i = 0; i < 7; i++)
        assert_ok(append(ps, S(1, 0, i * 2, 2, 100 + i * 2)));
    for (int i = 0; i < 7; i++) {
        struct producer_batch_info info = info_of(S(1, 0, i * 2, 2, 500));
        assert_int_equal(producer_state_find_duplicate(ps, &info, &found), i >= 2);
        if (i < 2)
            continue;
        assert_int_equal(producer_batch_first_offset(&found), 100 + i * 2);
        assert_int_equal(found.last_offset, 101 + i * 2);
        assert_int_equal(found.timestamp, 1100 + i * 2);
    }
    struct producer_batch_info shorter = info_of(S(1, 0, 12, 1, 500)), other_epoch = info_of(S(1, 1, 12, 2, 500)),
                               stranger = info_of(S(2, 0, 12, 2, 500));
    assert_false(producer_state_find_duplicate(ps, &shorter, &found));
    assert_false(producer_state_find_duplicate(ps, &other_epoch, &found));
    assert_false(producer_state_find_duplicate(ps, &stranger, &found));
    assert_error(append(ps, S(1, 0, 0, 2, 200)), OUT_OF_ORDER_SEQUENCE_NUMBER); /* older than five */
    assert_ok(append(ps, S(3, 0, INT32_MAX, 2, 200)));
    struct producer_batch_info wrapped = info_of(S(3, 0, INT32_MAX, 2, 300));
    assert_true(producer_state_find_duplicate(ps, &wrapped, &found));
    producer_state_destroy(ps);
}

static void a_new_epoch_forgets_the_batches(void **state)
{
    struct producer_state *ps = fresh(state);
    struct producer_batch found;
    assert_ok(append(ps, S(1, 0, 0, 1, 0)));
    assert_ok(append(ps, S(1, 1, 0, 1, 1)));
    struct producer_batch_info again = info_of(S(1, 1, 0, 1, 9));
    assert_true(producer_state_find_duplicate(ps, &again, &found));
    assert_int_equal(found.last_offset, 1);
    assert_int_equal(producer_state_get(ps, 1)->batch_count, 1);
    producer_state_destroy(ps);
}

static void copied_batches_are_not_checked(void **state)
{
    struct producer_state *ps = fresh(state);
    assert_ok(stage(ps, PRODUCER_COPIED, S(1, 5, 10, 1, 0)));
    assert_ok(stage(ps, PRODUCER_COPIED, S(1, 5, 99, 1, 1)));
    assert_ok(stage(ps, PRODUCER_COPIED, S(1, 2, 3, 1, 2)));
    assert_ok(stage(ps, PRODUCER_COPIED, S(-9, 2, 3, 1, 3, true)));
    producer_state_apply(ps, 4);
    assert_int_equal(producer_state_get(ps, 1)->producer_epoch, 2);
    assert_int_equal(producer_entry_last_sequence(producer_state_get(ps, 1)), 3);
    assert_int_equal(producer_state_first_unstable_offset(ps), 3); /* copied negative ids have transactions */
    assert_ok(append(ps, S(1, 2, 4, 1, 4)));                       /* a client goes on behind them */
    assert_error(append(ps, S(1, 2, 9, 1, 5)), OUT_OF_ORDER_SEQUENCE_NUMBER);
    producer_state_destroy(ps);
}

static void transactional_flags(void **state)
{
    struct producer_state *ps = fresh(state);
    assert_ok(append(ps, S(1, 0, 0, 1, 0, true)));
    assert_error(append(ps, S(1, 0, 1, 1, 1, false)), INVALID_TXN_STATE);
    assert_ok(append(ps, S(1, 0, 1, 1, 1, true))); /* the refused one changed nothing */
    assert_int_equal(producer_state_get(ps, 1)->current_txn_first_offset, 0);
    assert_error(append(ps, S(1, 1, 7, 1, 2, true)), OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_ok(append(ps, S(1, 0, 2, 1, 2, true)));
    producer_state_destroy(ps);
}

static void markers(void **state)
{
    struct producer_state *ps = fresh(state);
    const struct completed_txn *done;
    assert_ok(append(ps, S(1, 0, 0, 2, 0, true)));
    assert_ok(append(ps, S(2, 0, 0, 1, 2, true)));
    assert_int_equal(producer_state_open_count(ps), 2);

    assert_ok(producer_state_stage_marker(ps, PRODUCER_COORDINATOR, 1, 0, false, 4, 3, 77, NULL));
    assert_int_equal(producer_state_completed(ps, &done), 1);
    assert_true(done[0].aborted);
    assert_int_equal(done[0].first_offset, 0);
    assert_int_equal(done[0].last_offset, 3);
    assert_int_equal(done[0].last_stable_offset, 2); /* producer 2 is open */
    producer_state_apply(ps, 4);
    assert_int_equal(producer_state_get(ps, 1)->coordinator_epoch, 4);
    assert_int_equal(producer_state_get(ps, 1)->last_timestamp, 77);
    assert_int_equal(producer_state_get(ps, 1)->current_txn_first_offset, -1);

    assert_error(mark(ps, PRODUCER_COORDINATOR, 1, 0, true, 3, 4), TRANSACTION_COORDINATOR_FENCED);
    assert_ok(mark(ps, PRODUCER_COPIED, 1, 0, true, 3, 4));
    assert_ok(append(ps, S(3, 5, 0, 1, 5)));
    assert_error(mark(ps, PRODUCER_COORDINATOR, 3, 4, true, 3, 6), INVALID_PRODUCER_EPOCH);
    assert_ok(mark(ps, PRODUCER_COORDINATOR, 3, 6, true, 3, 6)); /* a higher epoch: sequences start over */
    assert_error(append(ps, S(3, 6, 1, 1, 7)), OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_ok(append(ps, S(3, 6, 0, 1, 7)));
    assert_ok(mark(ps, PRODUCER_COORDINATOR, 99, 0, true, 0, 8)); /* a stranger's */
    assert_int_equal(producer_state_get(ps, 99)->batch_count, 0);

    assert_ok(producer_state_stage_marker(ps, PRODUCER_COORDINATOR, 2, 0, true, 0, 9, 77, NULL));
    assert_int_equal(producer_state_completed(ps, &done), 1);
    assert_false(done[0].aborted);
    assert_int_equal(done[0].last_stable_offset, 10); /* nothing is open */
    producer_state_apply(ps, 10);
    assert_int_equal(producer_state_open_count(ps), 0);
    producer_state_destroy(ps);
}

static void unstable_until_replicated(void **state)
{
    struct producer_state *ps = fresh(state);
    assert_int_equal(producer_state_first_unstable_offset(ps), -1);
    assert_ok(append(ps, S(1, 0, 0, 1, 10, true)));
    assert_ok(append(ps, S(2, 0, 0, 1, 11, true)));
    assert_ok(mark(ps, PRODUCER_COORDINATOR, 2, 0, true, 0, 12));
    assert_int_equal(producer_state_first_unstable_offset(ps), 10);
    assert_ok(mark(ps, PRODUCER_COORDINATOR, 1, 0, true, 0, 13));
    assert_int_equal(producer_state_first_undecided_offset(ps), -1);
    assert_int_equal(producer_state_first_unstable_offset(ps), 10);
    producer_state_on_high_watermark(ps, 13); /* 2's marker is below, 1's is not */
    assert_int_equal(producer_state_first_unstable_offset(ps), 10);
    producer_state_on_high_watermark(ps, 14);
    assert_int_equal(producer_state_first_unstable_offset(ps), -1);
    producer_state_destroy(ps);
}

/* However the log is cut into chunks, a transaction's last stable offset is the one at its marker. */
static void completed_in_one_chunk(void **state)
{
    struct producer_state *ps = fresh(state);
    const struct completed_txn *done;
    assert_ok(stage(ps, PRODUCER_COPIED, S(1, 0, 0, 1, 0, true)));
    assert_ok(producer_state_stage_marker(ps, PRODUCER_COPIED, 1, 0, false, 0, 1, 1, NULL));
    assert_ok(stage(ps, PRODUCER_COPIED, S(2, 0, 0, 1, 2, true)));
    assert_ok(stage(ps, PRODUCER_COPIED, S(1, 0, 1, 1, 3, true)));
    assert_ok(producer_state_stage_marker(ps, PRODUCER_COPIED, 1, 0, true, 0, 4, 1, NULL));
    assert_int_equal(producer_state_completed(ps, &done), 2);
    assert_int_equal(done[0].last_stable_offset, 2);
    assert_int_equal(done[1].last_stable_offset, 2);
    assert_int_equal(done[1].first_offset, 3);
    producer_state_apply(ps, 5);
    assert_int_equal(producer_state_open_count(ps), 1);
    assert_int_equal(producer_state_first_undecided_offset(ps), 2);
    producer_state_destroy(ps);
}

static void discarding_changes_nothing(void **state)
{
    struct producer_state *ps = fresh(state);
    struct buf before = {0}, after = {0};
    assert_ok(append(ps, S(1, 0, 0, 1, 0, true)));
    assert_ok(append(ps, S(2, 0, 0, 1, 1)));
    producer_state_encode(ps, &before);
    assert_ok(stage(ps, PRODUCER_COPIED, S(1, 3, 0, 1, 2, true)));
    assert_ok(producer_state_stage_marker(ps, PRODUCER_COPIED, 1, 3, true, 0, 3, 1, NULL));
    assert_ok(stage(ps, PRODUCER_COPIED, S(5, 3, 0, 1, 4, true)));
    assert_int_equal(producer_state_stage_barrier(ps, 0), 3);
    assert_ok(stage(ps, PRODUCER_COPIED, S(6, 3, 0, 1, 5, true)));
    producer_state_discard(ps);
    producer_state_encode(ps, &after);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
    assert_int_equal(producer_state_first_unstable_offset(ps), 0);
    assert_int_equal(producer_state_end_offset(ps), 2);
    assert_error(append(ps, S(2, 0, 7, 1, 2)), OUT_OF_ORDER_SEQUENCE_NUMBER);
    buf_fini(&before);
    buf_fini(&after);
    producer_state_destroy(ps);
}

static void a_barrier_drops_all(void **state)
{
    struct producer_state *ps = fresh(state);
    assert_ok(append(ps, S(1, 4, 0, 1, 0, true)));
    assert_ok(append(ps, S(2, 4, 10, 1, 1)));
    assert_ok(append(ps, S(-3, 4, 10, 1, 2, true)));
    assert_int_equal(producer_state_stage_barrier(ps, 0), 3);
    producer_state_apply(ps, 4);
    assert_int_equal(producer_state_count(ps), 0);
    assert_int_equal(producer_state_open_count(ps), 0);
    assert_int_equal(producer_state_first_unstable_offset(ps), -1);
    assert_ok(append(ps, S(2, 0, 77, 1, 4))); /* a stranger with the same id, a lower epoch and any sequence */
    producer_state_destroy(ps);
}

static void a_barrier_of_scope_1_drops_negative_ids(void **state)
{
    struct producer_state *ps = fresh(state);
    assert_ok(append(ps, S(1, 4, 0, 1, 0, true)));
    assert_ok(append(ps, S(-3, 4, 10, 1, 2, true)));
    assert_int_equal(producer_state_stage_barrier(ps, 1), 1);
    producer_state_apply(ps, 4);
    assert_non_null(producer_state_get(ps, 1));
    assert_null(producer_state_get(ps, -3));
    assert_int_equal(producer_state_open_count(ps), 1);
    assert_int_equal(producer_state_first_unstable_offset(ps), 0);
    producer_state_destroy(ps);
}

/* Producers before the barrier in the same chunk do not come back, those behind it start afresh. */
static void a_barrier_in_the_middle_of_a_chunk(void **state)
{
    struct producer_state *ps = fresh(state);
    assert_ok(append(ps, S(1, 4, 8, 1, 0, true)));
    assert_ok(append(ps, S(2, 4, 8, 1, 1)));
    assert_ok(stage(ps, PRODUCER_COPIED, S(1, 4, 9, 1, 2, true)));
    assert_ok(stage(ps, PRODUCER_COPIED, S(3, 0, 0, 1, 3, true)));
    assert_int_equal(producer_state_stage_barrier(ps, 0), 3);
    assert_ok(stage(ps, PRODUCER_CLIENT, S(1, 0, 50, 1, 5, false))); /* no open transaction, no epoch, no sequence */
    assert_int_equal(producer_state_stage_barrier(ps, 0), 1);        /* only what came since */
    assert_ok(stage(ps, PRODUCER_COPIED, S(2, 1, 3, 1, 7, true)));
    producer_state_apply(ps, 8);
    assert_int_equal(producer_state_count(ps), 1);
    assert_int_equal(producer_state_get(ps, 2)->producer_epoch, 1);
    assert_int_equal(producer_state_get(ps, 2)->batch_count, 1);
    assert_int_equal(producer_state_first_unstable_offset(ps), 7);
    producer_state_destroy(ps);
}

static void expiry(void **state)
{
    struct producer_state *ps = fresh(state);
    assert_ok(append(ps, S(1, 0, 0, 1, 0)));
    assert_ok(append(ps, S(2, 0, 0, 1, 1, true)));
    assert_ok(append(ps, S(3, 0, 0, 1, 500)));
    assert_int_equal(producer_state_expire(ps, 1000 + DAY_MS - 1), 0);
    assert_int_equal(producer_state_expire(ps, 1000 + DAY_MS), 1); /* 1; 2 has an open transaction, 3 is younger */
    assert_null(producer_state_get(ps, 1));
    assert_int_equal(producer_state_expire(ps, INT64_MAX), 1);
    assert_int_equal(producer_state_count(ps), 1);
    producer_state_destroy(ps);
}

static void many_producers(void **state)
{
    struct producer_state *ps = fresh(state);
    for (int i = 0; i < 5000; i++)
        assert_ok(stage(ps, PRODUCER_COPIED, S(i * 1000, 0, 0, 1, i)));
    producer_state_apply(ps, 5000);
    assert_int_equal(producer_state_count(ps), 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(producer_entry_last_offset(producer_state_get(ps, i * 1000)), i);
    assert_int_equal(producer_state_expire(ps, 1000 + 2499 + DAY_MS), 2500);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(producer_state_get(ps, i * 1000) != NULL, i >= 2500);
    producer_state_destroy(ps);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup_teardown(sequences, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(duplicates_are_found_among_five, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_new_epoch_forgets_the_batches, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(copied_batches_are_not_checked, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(transactional_flags, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(markers, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(unstable_until_replicated, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(completed_in_one_chunk, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(discarding_changes_nothing, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_barrier_drops_all, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_barrier_of_scope_1_drops_negative_ids, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_barrier_in_the_middle_of_a_chunk, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(expiry, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(many_producers, scratch_setup, scratch_teardown),
};

int main(void)
{
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
