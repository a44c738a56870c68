#include "golden.h"

#include <string.h>

#include "codec/batch_builder.h"

static const struct batch_params KAFKAS = {
    .base_offset = 1234,
    .leader_epoch = 7,
    .producer_id = 9001,
    .producer_epoch = 3,
    .base_sequence = 5,
    .level = CODEC_LEVEL_DEFAULT,
    .log_append_time_ms = NO_TIMESTAMP,
};

/* The records of GoldenBatches.data(). */
static void add_three(struct batch_builder *builder)
{
    struct record_header headers[] = {{STR("h1"), BYTES("x")}, {STR(""), {NULL, 0}}};
    uint8_t a[200];

    memset(a, 'a', sizeof(a));
    assert_ok(batch_builder_add(
        builder, &(struct batch_record){.timestamp = 1700000000000, .key = BYTES("k0"), .value = BYTES("value zero")}));
    assert_ok(batch_builder_add(
        builder, &(struct batch_record){.timestamp = 1700000000005, .value = {a, 200}, .headers = headers, .header_count = 2}));
    assert_ok(batch_builder_add(builder, &(struct batch_record){.timestamp = 1699999999997, .key = BYTES("k2")}));
}

static void expect_golden(const struct batch_params *params, const char *name)
{
    struct batch_builder builder;
    struct buf out = {0}, golden = {0};

    golden_load(name, &golden);
    batch_builder_init(&builder, params);
    add_three(&builder);
    assert_ok(batch_builder_finish(&builder, &out));
    assert_int_equal(out.len, golden.len);
    assert_memory_equal(out.data, golden.data, golden.len);
    batch_builder_fini(&builder);
    buf_fini(&out);
    buf_fini(&golden);
}

static void test_same_bytes_as_kafka(void **state)
{
    struct batch_params params = KAFKAS;

    expect_golden(&params, "none");
    params.base_sequence = INT32_MAX - 1;
    params.transactional = true;
    expect_golden(&params, "sequence_wraps");
    params = KAFKAS;
    params.log_append_time = true;
    params.log_append_time_ms = 1700000009999;
    expect_golden(&params, "log_append_time");
}

static void test_codecs(void **state)
{
    struct buf golden = {0};

    golden_load("none", &golden);
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        struct batch_params params = KAFKAS;
        struct batch_builder builder;
        struct buf out = {0}, scratch = {0};
        struct bytes records;

        params.codec = (enum codec)codec;
        batch_builder_init(&builder, &params);
        add_three(&builder);
        assert_ok(batch_builder_finish(&builder, &out));
        assert_true(batch_verify_crc(out.data));
        assert_int_equal(batch_codec(out.data), codec);
        assert_int_equal(batch_size_bytes(out.data), out.len);
        assert_ok(batch_records(out.data, 1000, &scratch, &records));
        assert_int_equal(records.len, golden.len - BATCH_OVERHEAD);
        assert_memory_equal(records.p, golden.data + BATCH_OVERHEAD, golden.len - BATCH_OVERHEAD);
        batch_builder_fini(&builder);
        buf_fini(&out);
        buf_fini(&scratch);
    }
    buf_fini(&golden);
}

static void test_goes_on_behind(void **state)
{
    struct batch_params params = KAFKAS;
    struct batch_builder builder;
    struct buf out = {0};
    struct batch_scan scan;
    const uint8_t *second;

    params.base_sequence = INT32_MAX - 2;
    batch_builder_init(&builder, &params);
    add_three(&builder);
    assert_int_equal(batch_builder_count(&builder), 3);
    assert_ok(batch_builder_finish(&builder, &out));
    assert_int_equal(batch_builder_count(&builder), 0);
    assert_int_equal(batch_builder_size_bytes(&builder), BATCH_OVERHEAD);
    add_three(&builder);
    assert_ok(batch_builder_finish(&builder, &out));
    second = out.data + batch_size_bytes(out.data);
    assert_int_equal(batch_last_sequence(out.data), INT32_MAX);
    assert_int_equal(batch_base_sequence(second), 0);
    assert_int_equal(batch_base_offset(second), 1237);
    batch_scan(buf_bytes(&out), BATCH_SCAN_CRC | BATCH_SCAN_OFFSETS, &scan);
    assert_int_equal(scan.end, BATCH_END);
    assert_int_equal(scan.batches, 2);
    batch_builder_fini(&builder);
    buf_fini(&out);
}

static void test_gaps_as_of_compaction(void **state)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_builder builder;
    struct buf out = {0};
    struct record_iter it;
    struct record record;

    batch_builder_init(&builder, &params);
    assert_ok(batch_builder_add_at(&builder, 3, &(struct batch_record){.timestamp = 1, .key = BYTES("a")}));
    assert_ok(batch_builder_add_at(&builder, 7, &(struct batch_record){.timestamp = 2, .key = BYTES("b")}));
    batch_builder_set_last_offset_delta(&builder, 9);
    assert_ok(batch_builder_finish(&builder, &out));
    assert_int_equal(batch_last_offset(out.data), 9);
    assert_int_equal(batch_count(out.data), 2);
    assert_ok(batch_check_offsets(out.data));
    record_iter_init(&it, out.data, batch_payload(out.data));
    assert_true(record_iter_next(&it, &record));
    assert_int_equal(record.offset, 3);
    assert_true(record_iter_next(&it, &record));
    assert_int_equal(record.offset, 7);
    batch_builder_fini(&builder);
    buf_fini(&out);
}

/* Kafka writes an empty batch's max timestamp as it was; ours has only what its records had. The rest is the same. */
static void test_empty_batch(void **state)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_builder builder;
    struct buf out = {0}, golden = {0};

    golden_load("empty", &golden);
    params.base_offset = 100;
    params.leader_epoch = 9;
    params.producer_id = 9001;
    params.producer_epoch = 4;
    params.base_sequence = 8;
    params.transactional = true;
    params.codec = CODEC_ZSTD;
    batch_builder_init(&builder, &params);
    batch_builder_set_last_offset_delta(&builder, 4);
    assert_ok(batch_builder_finish(&builder, &out));
    assert_int_equal(out.len, golden.len);
    assert_true(batch_verify_crc(out.data));
    assert_memory_equal(out.data, golden.data, BATCH_POS_CRC);
    assert_memory_equal(out.data + BATCH_POS_ATTRIBUTES, golden.data + BATCH_POS_ATTRIBUTES,
                        BATCH_POS_BASE_TIMESTAMP - BATCH_POS_ATTRIBUTES);
    assert_memory_equal(out.data + BATCH_POS_PRODUCER_ID, golden.data + BATCH_POS_PRODUCER_ID,
                        BATCH_POS_BASE_SEQUENCE - BATCH_POS_PRODUCER_ID);
    batch_builder_fini(&builder);
    buf_fini(&out);
    buf_fini(&golden);
}

static void test_too_large_leaves_the_rest(void **state)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_builder builder;
    struct buf out = {0};
    struct bytes claimed = {(const uint8_t *)"", LIMIT_DECOMPRESSED_BYTES};

    batch_builder_init(&builder, &params);
    assert_ok(batch_builder_add(&builder, &(struct batch_record){.value = BYTES("small")}));
    assert_error(batch_builder_add(&builder, &(struct batch_record){.value = claimed}), ERR_TOO_LARGE);
    claimed.len = INT64_MAX / 4;
    assert_error(batch_builder_add(&builder, &(struct batch_record){.value = claimed}), ERR_TOO_LARGE);
    assert_int_equal(batch_builder_count(&builder), 1);
    assert_ok(batch_builder_finish(&builder, &out));
    assert_int_equal(batch_count(out.data), 1);
    batch_builder_fini(&builder);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes_as_kafka),

        cmocka_unit_test(test_codecs),
        cmocka_unit_test(test_goes_on_behind),
        cmocka_unit_test(test_gaps_as_of_compaction),
        cmocka_unit_test(test_empty_batch),
        cmocka_unit_test(test_too_large_leaves_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
