/* Decisions without I/O: what of an answer may be stored, and where two histories part. */
#include "base/buf.h"
#include "codec/batch_builder.h"
#include "mirror/divergence.h"
#include "mirror/judge.h"
#include "unit.h"

static void add(struct buf *out, int64_t base, int records, int32_t epoch, int64_t producer_id)
{
    struct batch_builder b;
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_record r = {.timestamp = 1, .value = {(const uint8_t *)"v", 1}};
    params.base_offset = base;
    params.leader_epoch = epoch;
    params.producer_id = producer_id;
    batch_builder_init(&b, &params);
    for (int i = 0; i < records; i++)
        assert_ok(batch_builder_add(&b, &r));
    assert_ok(batch_builder_finish(&b, out));
    batch_builder_fini(&b);
}

static void whole_batches_from_the_asked_offset_on_are_taken(void **state)
{
    struct buf run = {0};
    struct judged j;
    (void)state;
    add(&run, 0, 3, 1, -1);
    size_t second = run.len;
    add(&run, 3, 2, 1, 7);
    add(&run, 9, 1, 2, -1); /* a gap of compaction */
    size_t whole = run.len;
    add(&run, 10, 4, 2, -1);
    judge_records((struct bytes){run.data, (int64_t)whole + 20}, 3, &j);
    assert_int_equal(j.fault, JUDGED_SOUND);
    assert_ptr_equal(j.batches.p, run.data + second);
    assert_int_equal(j.batches.len, whole - second);
    assert_int_equal(j.batch_count, 2);
    assert_int_equal(j.next_offset, 10);
    assert_int_equal(j.last_epoch, 2);
    assert_int_equal(j.max_producer_id, 7);
    assert_int_equal(j.overlap_base, -1);
    judge_records((struct bytes){run.data, (int64_t)whole}, 4, &j); /* asked for the inside of a batch */
    assert_int_equal(j.overlap_base, 3);
    judge_records((struct bytes){run.data, (int64_t)whole}, 10, &j); /* nothing new */
    assert_int_equal(j.batches.len, 0);
    assert_int_equal(j.next_offset, 10);
    assert_int_equal(j.partial_size, -1);
    judge_records((struct bytes){run.data, 40}, 0, &j);
    assert_int_equal(j.batches.len, 0);
    assert_int_equal(j.partial_size, second);
    buf_fini(&run);
}

static void what_is_bad_is_named_and_what_is_before_it_is_taken(void **state)
{
    struct buf run = {0};
    struct judged j;
    (void)state;
    add(&run, 0, 1, 0, -1);
    size_t good = run.len;
    add(&run, 1, 1, 0, -1);
    run.data[good + BATCH_OVERHEAD + 3] ^= 1;
    judge_records(buf_bytes(&run), 0, &j);
    assert_int_equal(j.fault, JUDGED_DAMAGED);
    assert_int_equal(j.fault_offset, 1);
    assert_int_equal(j.batches.len, good);
    assert_int_equal(j.next_offset, 1);
    run.data[good + BATCH_POS_MAGIC] = 1;
    judge_records(buf_bytes(&run), 0, &j);
    assert_int_equal(j.fault, JUDGED_OLD_FORMAT);
    assert_int_equal(j.fault_offset, 1);
    buf_clear(&run);
    add(&run, 5, 1, INT32_MAX, -1);
    judge_records(buf_bytes(&run), 0, &j);
    assert_int_equal(j.fault, JUDGED_IMPOSSIBLE);
    assert_int_equal(j.batches.len, 0);
    buf_clear(&run);
    add(&run, 5, 1, 0, INT64_MAX - 1);
    judge_records(buf_bytes(&run), 0, &j);
    assert_int_equal(j.fault, JUDGED_IMPOSSIBLE);
    buf_fini(&run);
}

static void histories(void **state)
{
    static const struct {
        struct divergence_view view;
        struct divergence_step step;
    } CASES[] = {
        /* end, source start, asked, source epoch and end, local epoch and end */
        {{10, 11, 3, 3, 20, 3, 10}, {DIVERGENCE_GAP, 0, 0}},
        {{10, 0, 3, 3, 20, 3, 10}, {DIVERGENCE_NONE, 0, 0}},
        {{10, 0, 3, 3, 10, 3, 10}, {DIVERGENCE_NONE, 0, 0}},
        {{10, 0, 3, 3, 8, 3, 10}, {DIVERGENCE_TRUNCATE, 8, 0}}, /* the source lost the end of the epoch */
        {{10, 0, 3, 2, 6, 2, 5}, {DIVERGENCE_TRUNCATE, 5, 0}},  /* it never had epoch 3: the shorter end of 2 */
        {{10, 0, 3, 2, 4, 2, 5}, {DIVERGENCE_TRUNCATE, 4, 0}},
        {{10, 0, 3, 2, 4, 1, 3}, {DIVERGENCE_ASK, 0, 1}}, /* we never had its 2 */
        {{10, 0, 3, -1, -1, -1, -1}, {DIVERGENCE_NOTHING, 0, 0}},
        {{10, 0, 3, 1, 4, -1, -1}, {DIVERGENCE_NOTHING, 0, 0}},
        {{10, 6, 3, 2, 4, 2, 5}, {DIVERGENCE_NOTHING, 0, 0}},   /* what was shared is gone there */
        {{10, 0, 3, 4, 20, 3, 10}, {DIVERGENCE_NOTHING, 0, 0}}, /* an answer that makes no sense */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct divergence_step step = divergence_judge(&CASES[i].view);
        if (step.verdict != CASES[i].step.verdict || step.offset != CASES[i].step.offset || step.epoch != CASES[i].step.epoch)
            fail_msg("case %zu: %d %lld %d", i, step.verdict, (long long)step.offset, step.epoch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_batches_from_the_asked_offset_on_are_taken),
        cmocka_unit_test(what_is_bad_is_named_and_what_is_before_it_is_taken),
        cmocka_unit_test(histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
