#include "golden.h"

#include <string.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "codec/control.h"

static void test_markers_of_kafka(void **state)
{
    struct buf buf = {0};
    struct control_record control;

    assert_ok(control_parse(golden_load("commit", &buf), &control));
    assert_int_equal(control.type, CONTROL_COMMIT);
    assert_true(control_is_end_txn(&control));
    assert_int_equal(control.key_version, 0);
    assert_int_equal(control.value_version, 0);
    assert_int_equal(control.coordinator_epoch, 12);
    assert_int_equal(control.offset, 50);
    assert_int_equal(control.timestamp, 1700000000123);
    assert_null(control.source_cluster_id.p);
    assert_ok(control_parse(golden_load("abort_", &buf), &control));
    assert_int_equal(control.type, CONTROL_ABORT);
    assert_int_equal(control.coordinator_epoch, 13);
    assert_ok(control_parse(golden_load("leader_change", &buf), &control));
    assert_int_equal(control.type, CONTROL_LEADER_CHANGE);
    assert_false(control_is_end_txn(&control));
    assert_int_equal(control.value_version, -1);
    assert_int_equal(control.coordinator_epoch, -1);
    assert_true(control.value.len > 0);
    buf_fini(&buf);
}

static void test_same_markers_as_kafka(void **state)
{
    struct buf buf = {0}, golden = {0};

    golden_load("commit", &golden);
    golden_load("abort_", &golden);
    control_build_end_txn(&buf, &(struct end_txn){true, 9001, 4, 12}, 1700000000123, 50, 9);
    control_build_end_txn(&buf, &(struct end_txn){false, 9001, 4, 13}, 1700000000124, 51, 9);
    assert_int_equal(buf.len, golden.len);
    assert_memory_equal(buf.data, golden.data, golden.len);
    buf_fini(&buf);
    buf_fini(&golden);
}

static void test_names(void **state)
{
    assert_string_equal(control_type_name(0), "ABORT");
    assert_string_equal(control_type_name(1), "COMMIT");
    assert_string_equal(control_type_name(6), "KRAFT_VOTERS");
    assert_string_equal(control_type_name(7), "MIRROR_PID_RESET");
    assert_string_equal(control_type_name(8), "UNKNOWN");
    assert_string_equal(control_type_name(-1), "UNKNOWN");
}

/* Spec section 5, to the byte. */
static void test_barrier_bytes(void **state)
{
    struct buf buf = {0};
    struct record_iter it;
    struct record record;

    control_build_mirror_pid_reset(&buf, STR("src"), STR("wrt"), MIRROR_PID_RESET_NEGATIVE, 1700000000000, 77, 15);
    assert_int_equal(batch_size_bytes(buf.data), buf.len);
    assert_true(batch_verify_crc(buf.data));
    assert_int_equal(batch_attributes(buf.data), BATCH_CONTROL);
    assert_int_equal(batch_base_offset(buf.data), 77);
    assert_int_equal(batch_last_offset(buf.data), 77);
    assert_int_equal(batch_leader_epoch(buf.data), 15);
    assert_int_equal(batch_producer_id(buf.data), -1);
    assert_int_equal(batch_producer_epoch(buf.data), -1);
    assert_int_equal(batch_base_sequence(buf.data), -1);
    assert_int_equal(batch_count(buf.data), 1);
    assert_int_equal(batch_max_timestamp(buf.data), 1700000000000);
    record_iter_init(&it, buf.data, batch_payload(buf.data));
    assert_true(record_iter_next(&it, &record));
    assert_bytes(record.key, "\0\0\0\7");
    assert_bytes(record.value, "\0\0\4src\2\0\4\4wrt\1\1\1");
    assert_int_equal(record.header_count, 0);
    buf_fini(&buf);
}

static void expect_barrier(const uint8_t *b, struct str source, struct str writer, int8_t scope)
{
    struct control_record control;

    assert_ok(control_parse(b, &control));
    assert_int_equal(control.type, CONTROL_MIRROR_PID_RESET);
    assert_int_equal(control.value_version, 0);
    assert_true(str_eq(control.source_cluster_id, source));
    assert_true(str_eq(control.writer_cluster_id, writer));
    assert_int_equal(control.scope, scope);
}

static void test_barrier_round_trip(void **state)
{
    static char longest[LIMIT_CLUSTER_ID];
    struct str ids[] = {STR("MkU3OEVBNTcwNTJENDM2Qg"), STR(""), {longest, LIMIT_CLUSTER_ID}};

    memset(longest, 'x', sizeof(longest));
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(ids); k++) {
            struct buf buf = {0};

            control_build_mirror_pid_reset(&buf, ids[i], ids[k], 0, 1, 2, 3);
            expect_barrier(buf.data, ids[i], ids[k], 0);
            buf_clear(&buf);
            control_build_mirror_pid_reset(&buf, ids[i], STR_NULL, 1, 1, 2, 3);
            expect_barrier(buf.data, ids[i], STR_NULL, 1);
            buf_fini(&buf);
        }
    }
}

/* A control batch with this key and value. */
static void build(struct buf *out, struct bytes key, struct bytes value)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_builder builder;

    params.control = true;
    buf_clear(out);
    batch_builder_init(&builder, &params);
    assert_ok(batch_builder_add(&builder, &(struct batch_record){.key = key, .value = value}));
    assert_ok(batch_builder_finish(&builder, out));
    batch_builder_fini(&builder);
}

static void test_barrier_tags(void **state)
{
    struct bytes key = BYTES("\0\0\0\7");
    struct buf buf = {0};

    build(&buf, key, BYTES("\0\0\4src\0")); /* none: foreign, all entries */
    expect_barrier(buf.data, STR("src"), STR_NULL, 0);
    build(&buf, key, BYTES("\0\0\4src\2\0\4\4wrt\1\1\0")); /* scope given as 0 */
    expect_barrier(buf.data, STR("src"), STR("wrt"), 0);
    build(&buf, key, BYTES("\0\0\4src\3\0\4\4wrt\1\1\1\2\5abcde")); /* one more behind */
    expect_barrier(buf.data, STR("src"), STR("wrt"), 1);
    build(&buf, key, BYTES("\0\0\4src\2\1\1\1\xff\xff\xff\xff\x0f\0")); /* an empty one with the highest number */
    expect_barrier(buf.data, STR("src"), STR_NULL, 1);
    build(&buf, key, BYTES("\0\0\4src\1\x05\2xy")); /* only an unknown one */
    expect_barrier(buf.data, STR("src"), STR_NULL, 0);
    build(&buf, key, BYTES("\0\0\1\0")); /* empty source id */
    expect_barrier(buf.data, STR(""), STR_NULL, 0);
    buf_fini(&buf);
}

static void test_damaged_barriers(void **state)
{
    static const struct {
        const char *what;
        struct bytes value;
    } CASES[] = {
        {"nothing", {(const uint8_t *)"", 0}},
        {"null", {NULL, 0}},
        {"half a version", {(const uint8_t *)"\0", 1}},
        {"negative version", {(const uint8_t *)"\xff\xff\4src\0", 7}},
        {"no source id", {(const uint8_t *)"\0\0", 2}},
        {"null source id", {(const uint8_t *)"\0\0\0\0", 4}},
        {"source id cut short", {(const uint8_t *)"\0\0\4sr", 5}},
        {"source id of 4 GiB", {(const uint8_t *)"\0\0\xff\xff\xff\xff\x0fsrc\0", 11}},
        {"no tag count", {(const uint8_t *)"\0\0\4src", 6}},
        {"fewer tags than counted", {(const uint8_t *)"\0\0\4src\2\1\1\1", 10}},
        {"4 G tags", {(const uint8_t *)"\0\0\4src\xff\xff\xff\xff\x0f\5\0", 13}},
        {"tag cut short", {(const uint8_t *)"\0\0\4src\1\0\4\4wr", 12}},
        {"tag without size", {(const uint8_t *)"\0\0\4src\1\0", 8}},
        {"writer id shorter than its tag", {(const uint8_t *)"\0\0\4src\1\0\5\4wrt!", 14}},
        {"writer id longer than its tag", {(const uint8_t *)"\0\0\4src\1\0\3\4wrt", 13}},
        {"null writer id", {(const uint8_t *)"\0\0\4src\1\0\1\0", 10}},
        {"scope of two bytes", {(const uint8_t *)"\0\0\4src\1\1\2\0\1", 11}},
        {"scope of no byte", {(const uint8_t *)"\0\0\4src\1\1\0", 9}},
        {"the same tag twice", {(const uint8_t *)"\0\0\4src\2\1\1\1\1\1\0", 13}},
        {"tags that fall", {(const uint8_t *)"\0\0\4src\2\1\1\1\0\4\4wrt", 16}},
        {"bytes behind", {(const uint8_t *)"\0\0\4src\0\0", 8}},
    };
    struct buf buf = {0};
    struct control_record control;

    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        build(&buf, BYTES("\0\0\0\7"), CASES[i].value);
        if (control_parse(buf.data, &control) != ERR_CORRUPT)
            fail_msg("taken: %s", CASES[i].what);
    }
    buf_fini(&buf);
}

static void test_keys_and_versions(void **state)
{
    struct buf buf = {0};
    struct control_record control = {.type = 99};

    build(&buf, BYTES("\0\0\0\x2a"), BYTES("whatever"));
    assert_ok(control_parse(buf.data, &control)); /* a type that we don't know */
    assert_int_equal(control.type, 42);
    assert_bytes(control.value, "whatever");
    build(&buf, BYTES("\0\1\0\1\7\7"), BYTES("\0\1\0\0\0\5more"));
    assert_ok(control_parse(buf.data, &control)); /* later versions of key and value, longer than ours */
    assert_int_equal(control.key_version, 1);
    assert_int_equal(control.value_version, 1);
    assert_int_equal(control.coordinator_epoch, 5);
    control.type = 99;
    build(&buf, BYTES("\0\0\0"), BYTES("\0\0\0\0\0\5"));
    assert_error(control_parse(buf.data, &control), ERR_CORRUPT); /* key cut short */
    build(&buf, (struct bytes){NULL, 0}, BYTES("\0\0\0\0\0\5"));
    assert_error(control_parse(buf.data, &control), ERR_CORRUPT);
    build(&buf, BYTES("\xff\xff\0\1"), BYTES("\0\0\0\0\0\5"));
    assert_error(control_parse(buf.data, &control), ERR_CORRUPT); /* negative version */
    build(&buf, BYTES("\0\0\0\1"), BYTES("\xff\xff\0\0\0\5"));
    assert_error(control_parse(buf.data, &control), ERR_CORRUPT);
    build(&buf, BYTES("\0\0\0\0"), BYTES("\0\0\0\0\0"));
    assert_error(control_parse(buf.data, &control), ERR_CORRUPT); /* epoch cut short */
    build(&buf, BYTES("\0\0\0\0"), (struct bytes){NULL, 0});
    assert_error(control_parse(buf.data, &control), ERR_CORRUPT);
    assert_int_equal(control.type, 99); /* written only on success */
    buf_fini(&buf);
}

static void test_batches_without_a_record_to_read(void **state)
{
    struct buf buf = {0};
    struct control_record control;
    uint8_t *b = golden_load("empty", &buf);

    batch_set_attributes(b, BATCH_TRANSACTIONAL | BATCH_CONTROL);
    assert_error(control_parse(b, &control), ERR_NOT_FOUND);
    buf_clear(&buf);
    b = golden_load("commit", &buf);
    batch_set_attributes(b, (int16_t)(batch_attributes(b) | CODEC_GZIP));
    assert_error(control_parse(b, &control), ERR_UNSUPPORTED);
    batch_set_attributes(b, (int16_t)(batch_attributes(b) & ~BATCH_CODEC_MASK));
    put_i32(b + BATCH_POS_COUNT, 0); /* a record that is not counted */
    assert_error(control_parse(b, &control), ERR_CORRUPT);
    put_i32(b + BATCH_POS_COUNT, 1);
    b[BATCH_OVERHEAD] ^= 2;
    assert_error(control_parse(b, &control), ERR_CORRUPT);
    buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markers_of_kafka),
        cmocka_unit_test(test_same_markers_as_kafka),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_barrier_bytes),
        cmocka_unit_test(test_barrier_round_trip),
        cmocka_unit_test(test_barrier_tags),
        cmocka_unit_test(test_damaged_barriers),
        cmocka_unit_test(test_keys_and_versions),
        cmocka_unit_test(test_batches_without_a_record_to_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
