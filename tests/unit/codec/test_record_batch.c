#include "golden.h"

#include <string.h>

#include "base/crc32c.h"
#include "codec/batch_builder.h"

static void test_fields(void **state)
{
    struct buf buf = {0};
    const uint8_t *b = golden_load("none", &buf);

    assert_int_equal(batch_base_offset(b), 1234);
    assert_int_equal(batch_size_bytes(b), buf.len);
    assert_int_equal(batch_length(b), buf.len - 12);
    assert_int_equal(batch_leader_epoch(b), 7);
    assert_int_equal(batch_magic(b), 2);
    assert_int_equal(batch_crc(b), crc32c(0, b + 21, buf.len - 21));
    assert_int_equal(batch_attributes(b), 0);
    assert_int_equal(batch_codec(b), CODEC_NONE);
    assert_false(batch_is_log_append_time(b) || batch_is_transactional(b) || batch_is_control(b) || batch_has_delete_horizon(b));
    assert_int_equal(batch_last_offset_delta(b), 2);
    assert_int_equal(batch_last_offset(b), 1236);
    assert_int_equal(batch_next_offset(b), 1237);
    assert_int_equal(batch_base_timestamp(b), 1700000000000);
    assert_int_equal(batch_max_timestamp(b), 1700000000005);
    assert_int_equal(batch_producer_id(b), 9001);
    assert_true(batch_has_producer_id(b));
    assert_int_equal(batch_producer_epoch(b), 3);
    assert_int_equal(batch_base_sequence(b), 5);
    assert_int_equal(batch_last_sequence(b), 7);
    assert_int_equal(batch_count(b), 3);
    assert_ptr_equal(batch_payload(b).p, b + 61);
    assert_int_equal(batch_payload(b).len, buf.len - 61);
    buf_fini(&buf);
}

static void test_attribute_bits(void **state)
{
    struct buf buf = {0};
    uint8_t *b;

    assert_int_equal(batch_codec(golden_load("gzip", &buf)), CODEC_GZIP);
    assert_int_equal(batch_codec(golden_load("snappy", &buf)), CODEC_SNAPPY);
    assert_int_equal(batch_codec(golden_load("lz4", &buf)), CODEC_LZ4);
    assert_int_equal(batch_codec(golden_load("zstd", &buf)), CODEC_ZSTD);
    assert_true(batch_is_log_append_time(golden_load("log_append_time", &buf)));
    assert_true(batch_is_transactional(golden_load("sequence_wraps", &buf)));
    assert_false(batch_is_control(golden_load("sequence_wraps", &buf)));
    assert_true(batch_is_control(golden_load("commit", &buf)));
    assert_true(batch_is_transactional(golden_load("commit", &buf)));
    buf_clear(&buf);
    b = golden_load("none", &buf);
    batch_set_attributes(b, BATCH_DELETE_HORIZON);
    assert_true(batch_has_delete_horizon(b));
    assert_true(batch_verify_crc(b));
    buf_fini(&buf);
}

/* The values are what Kafka 4.4's DefaultRecordBatch.incrementSequence and decrementSequence give. */
static void test_sequences_wrap(void **state)
{
    struct buf buf = {0};

    assert_int_equal(sequence_increment(0, 5), 5);
    assert_int_equal(sequence_increment(INT32_MAX, 1), 0);
    assert_int_equal(sequence_increment(INT32_MAX - 4, 10), 5);
    assert_int_equal(sequence_increment(INT32_MAX - 1, 1), INT32_MAX);
    assert_int_equal(sequence_increment(INT32_MAX, INT32_MAX), INT32_MAX - 1);
    assert_int_equal(sequence_decrement(5, 5), 0);
    assert_int_equal(sequence_decrement(0, 1), INT32_MAX);
    assert_int_equal(sequence_decrement(5, 10), INT32_MAX - 4);
    assert_int_equal(sequence_decrement(INT32_MAX, INT32_MAX), 0);
    assert_int_equal(batch_last_sequence(golden_load("sequence_wraps", &buf)), 0); /* INT32_MAX - 1 and two on */
    assert_int_equal(batch_last_sequence(golden_load("commit", &buf)), NO_SEQUENCE);
    buf_fini(&buf);
}

static void test_what_a_broker_rewrites(void **state)
{
    struct buf buf = {0};
    uint8_t *b = golden_load("none", &buf);
    uint32_t crc = batch_crc(b);

    batch_set_base_offset(b, 99);
    batch_set_leader_epoch(b, 100);
    assert_int_equal(batch_base_offset(b), 99);
    assert_int_equal(batch_leader_epoch(b), 100);
    batch_set_last_offset(b, 500);
    assert_int_equal(batch_base_offset(b), 498);
    assert_int_equal(batch_crc(b), crc);
    assert_true(batch_verify_crc(b));
    batch_set_producer_id(b, -9003);
    assert_int_equal(batch_producer_id(b), -9003);
    assert_false(batch_has_producer_id(b));
    assert_int_not_equal(batch_crc(b), crc);
    assert_true(batch_verify_crc(b));
    batch_set_producer_id(b, 9001);
    assert_int_equal(batch_crc(b), crc);
    buf_fini(&buf);
}

/* Flag and max timestamp change, the base timestamp stays the client's: the bytes that Kafka has for it. */
static void test_log_append_time_in_place(void **state)
{
    struct buf buf = {0}, golden = {0};
    uint8_t *b = golden_load("none", &buf);
    uint32_t crc = batch_crc(b);

    batch_set_max_timestamp(b, false, 1700000000005); /* as it is */
    assert_int_equal(batch_crc(b), crc);
    batch_set_max_timestamp(b, true, 1700000009999);
    assert_true(batch_is_log_append_time(b));
    assert_int_equal(batch_base_timestamp(b), 1700000000000);
    assert_memory_equal(b, golden_load("log_append_time", &golden), buf.len);
    batch_set_max_timestamp(b, false, 1700000000005);
    assert_false(batch_is_log_append_time(b));
    assert_int_equal(batch_crc(b), crc);
    buf_fini(&buf);
    buf_fini(&golden);
}

static void test_crc(void **state)
{
    struct buf buf = {0};
    uint8_t *b = golden_load("zstd", &buf);

    assert_true(batch_verify_crc(b));
    for (size_t i = BATCH_POS_CRC; i < buf.len; i++) {
        b[i] ^= 1;
        assert_false(batch_verify_crc(b));
        b[i] ^= 1;
    }
    put_i32(b + BATCH_POS_LENGTH, 10); /* no reading in front of the batch */
    assert_false(batch_verify_crc(b));
    buf_fini(&buf);
}

static void test_check_header(void **state)
{
    struct buf buf = {0};
    uint8_t *b = golden_load("none", &buf);
    int64_t size = 0;

    assert_ok(batch_check_header(b, BATCH_MAGIC_END, &size));
    assert_int_equal(size, buf.len);
    b[BATCH_POS_MAGIC] = 3;
    assert_error(batch_check_header(b, buf.len, &size), CORRUPT_MESSAGE);
    b[BATCH_POS_MAGIC] = 0xff;
    assert_error(batch_check_header(b, buf.len, &size), CORRUPT_MESSAGE);
    b[BATCH_POS_MAGIC] = 1;
    assert_error(batch_check_header(b, buf.len, &size), UNSUPPORTED_FOR_MESSAGE_FORMAT);
    b[BATCH_POS_MAGIC] = 2;
    put_i32(b + BATCH_POS_LENGTH, 48);
    assert_error(batch_check_header(b, buf.len, &size), CORRUPT_MESSAGE);
    put_i32(b + BATCH_POS_LENGTH, -1);
    assert_error(batch_check_header(b, buf.len, &size), CORRUPT_MESSAGE);
    put_i32(b + BATCH_POS_LENGTH, INT32_MAX);
    assert_ok(batch_check_header(b, buf.len, &size));
    assert_int_equal(size, (int64_t)INT32_MAX + 12);
    put_i32(b + BATCH_POS_LENGTH, 49);
    assert_ok(batch_check_header(b, buf.len, &size));
    assert_int_equal(size, 61);
    b[BATCH_POS_MAGIC] = 1;
    put_i32(b + BATCH_POS_LENGTH, 13);
    assert_error(batch_check_header(b, buf.len, &size), CORRUPT_MESSAGE);
    assert_int_equal(size, 61);
    buf_fini(&buf);
}

static void test_check_offsets(void **state)
{
    struct buf buf = {0};
    uint8_t *b = golden_load("none", &buf);

    assert_ok(batch_check_offsets(b));
    batch_set_base_offset(b, -1);
    assert_error(batch_check_offsets(b), CORRUPT_MESSAGE);
    batch_set_base_offset(b, INT64_MAX - 3);
    assert_ok(batch_check_offsets(b));
    batch_set_base_offset(b, INT64_MAX - 2);
    assert_error(batch_check_offsets(b), CORRUPT_MESSAGE);
    assert_int_equal(batch_next_offset(b), INT64_MIN); /* wraps, and no more */
    batch_set_base_offset(b, 0);
    put_i32(b + BATCH_POS_LAST_OFFSET_DELTA, -1);
    assert_error(batch_check_offsets(b), CORRUPT_MESSAGE);
    assert_int_equal(batch_last_sequence(b), NO_SEQUENCE);
    put_i32(b + BATCH_POS_LAST_OFFSET_DELTA, 2);
    put_i32(b + BATCH_POS_COUNT, 4);
    assert_error(batch_check_offsets(b), CORRUPT_MESSAGE);
    put_i32(b + BATCH_POS_COUNT, -1);
    assert_error(batch_check_offsets(b), CORRUPT_MESSAGE);
    put_i32(b + BATCH_POS_COUNT, 0); /* compaction */
    assert_ok(batch_check_offsets(b));
    buf_fini(&buf);
}

/* Two whole batches (61 and 78 bytes and more), then ever more of a third. */
static void test_partial_at_every_length(void **state)
{
    struct buf buf = {0};
    size_t whole, third;

    golden_load("none", &buf);
    golden_load("commit", &buf);
    whole = buf.len;
    batch_set_base_offset(golden_load("zstd", &buf), 5000);
    third = buf.len - whole;
    batch_set_base_offset(buf.data + batch_size_bytes(buf.data), 4000);
    for (size_t more = 0; more <= third; more++) {
        struct bytes run = {buf.data, (int64_t)(whole + more)};
        struct batch_scan scan;
        struct batch_iter it;
        const uint8_t *b = NULL;

        batch_scan(run, BATCH_SCAN_CRC | BATCH_SCAN_OFFSETS, &scan);
        assert_int_equal(scan.end, more == 0 || more == third ? BATCH_END : BATCH_PARTIAL);
        assert_int_equal(scan.error, OK);
        assert_null(scan.reason);
        assert_int_equal(scan.batches, more == third ? 3 : 2);
        assert_int_equal(scan.good_bytes, more == third ? whole + third : whole);
        assert_int_equal(scan.partial_size, more >= 17 && more < third ? third : 0);
        batch_iter_init(&it, run);
        assert_int_equal(batch_iter_next(&it, &b), BATCH_FOUND);
        assert_ptr_equal(b, buf.data);
        assert_int_equal(batch_iter_next(&it, &b), BATCH_FOUND);
        assert_int_equal(batch_base_offset(b), 4000);
        assert_int_equal(it.pos, whole);
        if (more < third) {
            assert_int_equal(batch_iter_next(&it, &b), scan.end);
            assert_int_equal(it.pos, whole);
            assert_int_equal(batch_iter_next(&it, &b), scan.end); /* and again */
        }
    }
    buf_fini(&buf);
}

static void test_scan_sums(void **state)
{
    struct buf buf = {0};
    struct batch_scan scan;

    batch_scan((struct bytes){NULL, 0}, BATCH_SCAN_CRC | BATCH_SCAN_OFFSETS, &scan);
    assert_int_equal(scan.end, BATCH_END);
    assert_int_equal(scan.batches, 0);
    assert_int_equal(scan.base_offset, -1);
    assert_int_equal(scan.last_offset, -1);
    assert_int_equal(scan.max_producer_id, -1);
    golden_load("commit", &buf);          /* 50, epoch 9, pid 9001 */
    golden_load("empty", &buf);           /* 100 to 104, epoch 9, no record */
    golden_load("log_append_time", &buf); /* 1234 to 1236, epoch 7 */
    batch_scan(buf_bytes(&buf), BATCH_SCAN_CRC | BATCH_SCAN_OFFSETS, &scan);
    assert_int_equal(scan.end, BATCH_END);
    assert_int_equal(scan.batches, 3);
    assert_int_equal(scan.good_bytes, buf.len);
    assert_int_equal(scan.base_offset, 50);
    assert_int_equal(scan.last_offset, 1236);
    assert_int_equal(scan.max_leader_epoch, 9);
    assert_int_equal(scan.max_producer_id, 9001);
    assert_int_equal(scan.max_timestamp, 1700000009999);
    assert_int_equal(scan.records, 4);
    buf_fini(&buf);
}

static void expect_bad(struct bytes run, int flags, enum error error, int64_t pos, int64_t offset, const char *word)
{
    struct batch_scan scan;

    batch_scan(run, flags, &scan);
    assert_int_equal(scan.end, BATCH_BAD);
    assert_int_equal(scan.error, error);
    assert_int_equal(scan.good_bytes, pos);
    assert_int_equal(scan.error_offset, offset);
    assert_non_null(strstr(scan.reason, word));
}

static void test_scan_names_the_bad_batch(void **state)
{
    int all = BATCH_SCAN_CRC | BATCH_SCAN_OFFSETS;
    struct buf buf = {0};
    struct batch_scan scan;
    int64_t first;

    golden_load("none", &buf);
    first = (int64_t)buf.len;
    golden_load("magic1", &buf);
    expect_bad(buf_bytes(&buf), 0, UNSUPPORTED_FOR_MESSAGE_FORMAT, first, 77, "older than v2");
    expect_bad((struct bytes){buf.data, first + 17}, 0, UNSUPPORTED_FOR_MESSAGE_FORMAT, first, 77, "older");
    buf.len = (size_t)first;
    golden_load("magic0", &buf);
    expect_bad(buf_bytes(&buf), all, UNSUPPORTED_FOR_MESSAGE_FORMAT, first, 77, "older than v2");
    buf.len = (size_t)first;
    golden_load("gzip", &buf); /* the same offsets again */
    batch_scan(buf_bytes(&buf), BATCH_SCAN_CRC, &scan);
    assert_int_equal(scan.end, BATCH_END);
    expect_bad(buf_bytes(&buf), all, CORRUPT_MESSAGE, first, 1234, "not above");
    batch_set_base_offset(buf.data + first, 1236);
    expect_bad(buf_bytes(&buf), all, CORRUPT_MESSAGE, first, 1236, "not above");
    batch_set_base_offset(buf.data + first, 1237);
    batch_scan(buf_bytes(&buf), all, &scan);
    assert_int_equal(scan.end, BATCH_END);
    buf.data[buf.len - 1] ^= 1;
    batch_scan(buf_bytes(&buf), BATCH_SCAN_OFFSETS, &scan);
    assert_int_equal(scan.end, BATCH_END);
    expect_bad(buf_bytes(&buf), all, CORRUPT_MESSAGE, first, 1237, "CRC");
    buf_fini(&buf);
}

static void test_recompress(void **state)
{
    static const char *const FROM[] = {"none", "gzip", "snappy", "lz4", "zstd"};
    struct buf buf = {0}, scratch = {0}, out = {0}, plain = {0};

    golden_load("none", &plain);
    for (int from = 0; from < 5; from++) {
        for (int to = 0; to < 5; to++) {
            const uint8_t *b, *again;
            struct bytes records;

            buf_clear(&buf);
            buf_clear(&out);
            b = golden_load(FROM[from], &buf);
            assert_ok(batch_records(b, 1000, &scratch, &records));
            assert_ok(batch_recompress(b, records, to, CODEC_LEVEL_DEFAULT, &out));
            again = out.data;
            assert_int_equal(batch_size_bytes(again), out.len);
            assert_true(batch_verify_crc(again));
            assert_int_equal(batch_attributes(again), to);
            assert_memory_equal(again, b, BATCH_POS_LENGTH);
            assert_memory_equal(again + BATCH_POS_LAST_OFFSET_DELTA, b + BATCH_POS_LAST_OFFSET_DELTA,
                                BATCH_OVERHEAD - BATCH_POS_LAST_OFFSET_DELTA);
            assert_ok(batch_records(again, 1000, &scratch, &records));
            assert_int_equal(records.len, plain.len - 61);
            assert_memory_equal(records.p, plain.data + 61, plain.len - 61);
        }
    }
    buf_clear(&out);
    assert_error(batch_recompress(plain.data, batch_payload(plain.data), 5, CODEC_LEVEL_DEFAULT, &out), ERR_UNSUPPORTED);
    assert_int_equal(out.len, 0);
    buf_fini(&buf);
    buf_fini(&scratch);
    buf_fini(&out);
    buf_fini(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_attribute_bits),
        cmocka_unit_test(test_sequences_wrap),
        cmocka_unit_test(test_what_a_broker_rewrites),
        cmocka_unit_test(test_log_append_time_in_place),
        cmocka_unit_test(test_crc),
        cmocka_unit_test(test_check_header),
        cmocka_unit_test(test_check_offsets),
        cmocka_unit_test(test_partial_at_every_length),
        cmocka_unit_test(test_scan_sums),
        cmocka_unit_test(test_scan_names_the_bad_batch),
        cmocka_unit_test(test_recompress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
