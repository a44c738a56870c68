#include "golden.h"

#include <string.h>

#include "codec/record_batch.h"

/* The three records of GoldenBatches.data(), from whatever codec. */
static void expect_three(const uint8_t *b, bool log_append_time)
{
    static const char A[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    struct buf scratch = {0};
    struct record_header header;
    struct record_iter it;
    struct record record;
    struct bytes records;
    int64_t sizes = 0;

    assert_ok(batch_records(b, LIMIT_DECOMPRESSED_BYTES, &scratch, &records));
    record_iter_init(&it, b, records);
    assert_true(record_iter_next(&it, &record));
    assert_int_equal(record.offset, 1234);
    assert_int_equal(record.offset_delta, 0);
    assert_int_equal(record.timestamp, log_append_time ? 1700000009999 : 1700000000000);
    assert_bytes(record.key, "k0");
    assert_bytes(record.value, "value zero");
    assert_int_equal(record.header_count, 0);
    assert_false(record_header_next(&record.headers, &header));
    sizes += record.size_bytes;
    assert_true(record_iter_next(&it, &record));
    assert_int_equal(record.offset, 1235);
    assert_int_equal(record.timestamp, log_append_time ? 1700000009999 : 1700000000005);
    assert_null(record.key.p);
    assert_bytes(record.value, A);
    assert_int_equal(record.header_count, 2);
    assert_true(record_header_next(&record.headers, &header));
    assert_true(str_is(header.key, "h1"));
    assert_bytes(header.value, "x");
    assert_true(record_header_next(&record.headers, &header));
    assert_true(str_is(header.key, ""));
    assert_null(header.value.p);
    assert_false(record_header_next(&record.headers, &header));
    sizes += record.size_bytes;
    assert_true(record_iter_next(&it, &record));
    assert_int_equal(record.offset, 1236);
    assert_int_equal(record.offset_delta, 2);
    assert_int_equal(record.timestamp_delta, log_append_time ? 0 - 3 : -3);
    assert_int_equal(record.timestamp, log_append_time ? 1700000009999 : 1699999999997);
    assert_bytes(record.key, "k2");
    assert_null(record.value.p);
    sizes += record.size_bytes;
    assert_int_equal(sizes, records.len);
    assert_false(record_iter_next(&it, &record));
    assert_ok(record_iter_finish(&it));
    buf_fini(&scratch);
}

static void test_every_codec_of_kafka(void **state)
{
    static const char *const NAMES[] = {"none", "gzip", "snappy", "lz4", "zstd"};

    for (int i = 0; i < 5; i++) {
        struct buf buf = {0};

        expect_three(golden_load(NAMES[i], &buf), false);
        buf_fini(&buf);
    }
}

static void test_log_append_time(void **state)
{
    struct buf buf = {0};
    uint8_t *b = golden_load("none", &buf);

    batch_set_max_timestamp(b, true, 1700000009999);
    expect_three(b, true);
    buf_fini(&buf);
}

static void test_several_blocks_of_kafka(void **state)
{
    static const char *const NAMES[] = {"large_gzip", "large_snappy", "large_lz4", "large_zstd"};

    for (int i = 0; i < 4; i++) {
        struct buf buf = {0}, scratch = {0};
        const uint8_t *b = golden_load(NAMES[i], &buf);
        struct record_iter it;
        struct record record;
        struct bytes records;

        assert_error(batch_records(b, 1000, &scratch, &records), ERR_TOO_LARGE);
        assert_ok(batch_records(b, 100000, &scratch, &records));
        record_iter_init(&it, b, records);
        assert_true(record_iter_next(&it, &record));
        assert_int_equal(record.value.len, 70000);
        for (int k = 0; k < 70000; k++)
            assert_true(record.value.p[k] == k % 7);
        assert_false(record_iter_next(&it, &record));
        assert_ok(record_iter_finish(&it));
        buf_fini(&buf);
        buf_fini(&scratch);
    }
}

static void test_empty_batch(void **state)
{
    struct buf buf = {0}, scratch = {0};
    const uint8_t *b = golden_load("empty", &buf);
    struct record_iter it;
    struct record record;
    struct bytes records;

    assert_int_equal(batch_size_bytes(b), BATCH_OVERHEAD);
    assert_int_equal(batch_count(b), 0);
    assert_int_equal(batch_last_offset(b), 104);
    assert_ok(batch_records(b, 0, &scratch, &records));
    record_iter_init(&it, b, records);
    assert_false(record_iter_next(&it, &record));
    assert_ok(record_iter_finish(&it));
    buf_fini(&buf);
    buf_fini(&scratch);
}

/* Walks `records` as if a batch declared `count` of them. */
static enum error walk(struct bytes records, int32_t count, int *ret_seen)
{
    uint8_t header[BATCH_OVERHEAD] = {0};
    struct record_iter it;
    struct record record;

    put_i32(header + BATCH_POS_COUNT, count);
    record_iter_init(&it, header, records);
    *ret_seen = 0;
    while (record_iter_next(&it, &record))
        ++*ret_seen;
    return record_iter_finish(&it);
}

static void test_counts_and_leftovers(void **state)
{
    struct buf buf = {0};
    struct bytes records = batch_payload(golden_load("none", &buf));
    int seen;

    assert_ok(walk(records, 3, &seen));
    assert_error(walk(records, 4, &seen), ERR_CORRUPT); /* one is missing */
    assert_int_equal(seen, 3);
    assert_error(walk(records, 2, &seen), ERR_CORRUPT); /* one too many */
    assert_int_equal(seen, 2);
    assert_error(walk(records, -1, &seen), ERR_CORRUPT);
    assert_int_equal(seen, 0);
    assert_ok(walk((struct bytes){NULL, 0}, 0, &seen));
    assert_error(walk((struct bytes){NULL, 0}, 1, &seen), ERR_CORRUPT);
    for (int64_t len = 0; len < records.len; len++)
        assert_error(walk((struct bytes){records.p, len}, 3, &seen), ERR_CORRUPT);
    buf_fini(&buf);
}

static void expect_damage(struct bytes record, const char *what)
{
    int seen;

    if (walk(record, 1, &seen) != ERR_CORRUPT || seen != 0)
        fail_msg("taken: %s", what);
}

/* Numbers are zigzag varints: 0 is 00, -1 is 01, 1 is 02, -2 is 03. */
static void test_damaged_records(void **state)
{
    int seen;

    assert_ok(walk(BYTES("\x0c\0\0\0\1\1\0"), 1, &seen)); /* null key, null value, no headers */
    assert_ok(walk(BYTES("\x0c\0\0\0\0\0\0"), 1, &seen)); /* empty ones */
    expect_damage(BYTES("\1"), "negative record length");
    expect_damage(BYTES("\0"), "record of no bytes");
    expect_damage(BYTES("\x0e\0\0\0\1\1\0"), "record longer than what is there");
    expect_damage(BYTES("\x0a\0\0\0\1\1\0"), "record shorter than its fields");
    expect_damage(BYTES("\x0e\0\0\0\1\1\0\0"), "bytes behind the headers");
    expect_damage(BYTES("\x0c\0\0\0\3\1\0"), "key length -2");
    expect_damage(BYTES("\x0c\0\0\0\1\3\0"), "value length -2");
    expect_damage(BYTES("\x0c\0\0\0\1\4\0"), "value longer than the record");
    expect_damage(BYTES("\x0c\0\0\0\1\1\1"), "header count -1");
    expect_damage(BYTES("\x0c\0\0\0\1\1\2"), "a header that is not there");
    expect_damage(BYTES("\x10\0\0\0\1\1\2\1\1"), "header with a null key");
    expect_damage(BYTES("\x10\0\0\0\1\1\2\0\3"), "header value length -2");
    expect_damage(BYTES("\x12\0\0\0\1\1\2\0\1\0"), "bytes behind the last header");
    expect_damage(BYTES("\x14\0\0\0\1\1\xfe\xff\xff\xff\x0f"), "two thousand million headers");
    expect_damage(BYTES("\x14\0\0\0\xfe\xff\xff\xff\x0f\1\0"), "key of 2 GiB");
    expect_damage(BYTES("\xfe\xff\xff\xff\x0f\0\0\0\1\1\0"), "record of 2 GiB");
    expect_damage(BYTES("\x1c\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\0\1\1\0"), "timestamp delta of more than 64 bits");
    assert_ok(walk(BYTES("\x10\0\0\0\1\1\2\0\1"), 1, &seen)); /* empty header key, null value */
}

/* Deltas at the ends of their range wrap around without undefined behaviour (the sanitizer looks). */
static void test_hostile_deltas(void **state)
{
    struct buf buf = {0};
    struct bytes bytes = BYTES("\x26\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\xfe\xff\xff\xff\x0f\1\1\0");
    uint8_t *b = golden_load("none", &buf);
    struct record_iter it;
    struct record record;

    batch_set_base_offset(b, INT64_MAX);
    put_i64(b + BATCH_POS_BASE_TIMESTAMP, INT64_MAX);
    record_iter_init(&it, b, bytes);
    assert_true(record_iter_next(&it, &record));
    assert_int_equal(record.offset_delta, INT32_MAX);
    assert_int_equal(record.timestamp_delta, INT64_MAX);
    assert_int_equal(record.timestamp, -2);
    buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_codec_of_kafka),    cmocka_unit_test(test_log_append_time),
        cmocka_unit_test(test_several_blocks_of_kafka), cmocka_unit_test(test_empty_batch),
        cmocka_unit_test(test_counts_and_leftovers),    cmocka_unit_test(test_damaged_records),
        cmocka_unit_test(test_hostile_deltas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
