#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/limits.h"
#include "codec/batch_builder.h"
#include "codec/control.h"
#include "storage/validate.h"

#define NOW INT64_C(1760000000000)

struct fixture {
    struct validate_config config;
    struct arena arena;
    struct buf batch;
    struct validated v;
    struct validate_errors errors;
    struct problem problem;
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    f.config = validate_config_default();
    arena_init(&f.arena, 1000000);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    validated_fini(&f->v);
    buf_fini(&f->batch);
    arena_fini(&f->arena);
    return 0;
}

struct shape {
    struct batch_params params;
    int records;
    int64_t timestamp; /* of the first; the others one later each */
    bool no_key;       /* of the second */
    int value_bytes;
};

#define SHAPE                                                                                                                    \
    (struct shape)                                                                                                               \
    {                                                                                                                            \
        .params = BATCH_PARAMS_INIT, .records = 3, .timestamp = NOW, .value_bytes = 20                                           \
    }

static void build(struct fixture *f, struct shape shape)
{
    struct batch_builder b;
    uint8_t *value = calloc(1, (size_t)shape.value_bytes + 1);
    batch_builder_init(&b, &shape.params);
    for (int i = 0; i < shape.records; i++) {
        struct batch_record r = {
            .timestamp = shape.timestamp + i, .key = {(const uint8_t *)"k", 1}, .value = {value, shape.value_bytes}};
        if (i == 1 && shape.no_key)
            r.key = (struct bytes){NULL, 0};
        assert_int_equal(batch_builder_add(&b, &r), OK);
    }
    assert_int_equal(batch_builder_finish(&b, &f->batch), OK);
    batch_builder_fini(&b);
    free(value);
}

static enum error validate_version(struct fixture *f, int16_t version)
{
    validated_fini(&f->v);
    return validate_records(buf_bytes(&f->batch), version, VALIDATE_CLIENT, &f->config, NOW, &f->arena, &f->v, &f->errors,
                            &f->problem);
}

static enum error validate(struct fixture *f)
{
    return validate_version(f, 11);
}

/* The batch as it would be written. */
static void stored(struct fixture *f, struct buf *out)
{
    buf_clear(out);
    buf_append(out, f->v.header, sizeof(f->v.header));
    buf_append(out, f->v.rest.p, (size_t)f->v.rest.len);
}

/* Changes a field and makes the CRC right again. */
static void patch(struct fixture *f, int pos, const void *bytes, size_t len)
{
    memcpy(f->batch.data + pos, bytes, len);
    batch_update_crc(f->batch.data);
}

static void patch_i32(struct fixture *f, int pos, int32_t v)
{
    uint8_t b[4];
    put_i32(b, v);
    patch(f, pos, b, 4);
}

static void good_batch_is_taken_without_a_copy(void **state)
{
    struct fixture *f = *state;
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct shape shape = SHAPE;
        shape.params.codec = (enum codec)codec;
        buf_clear(&f->batch);
        build(f, shape);
        assert_int_equal(validate(f), OK);
        assert_ptr_equal(f->v.rest.p, f->batch.data + BATCH_OVERHEAD);
        assert_int_equal(f->v.rest.len, f->batch.len - BATCH_OVERHEAD);
        assert_false(f->v.copied);
        assert_memory_equal(f->v.header, f->batch.data, BATCH_OVERHEAD);
        assert_int_equal(f->v.record_count, 3);
        assert_int_equal(f->v.max_timestamp, NOW + 2);
        assert_int_equal(f->v.offset_delta_of_max, 2);
        assert_int_equal(f->v.log_append_time_ms, -1);
    }
}

static void null_and_empty_are_invalid_records(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(validate(f), INVALID_RECORD);
    assert_int_equal(validate_records((struct bytes){NULL, 0}, 11, VALIDATE_CLIENT, &f->config, NOW, NULL, &f->v, NULL, NULL),
                     INVALID_RECORD);
}

static void every_truncation_is_refused(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    size_t whole = f->batch.len;
    for (size_t len = 0; len < whole; len++) {
        /* A copy of just that size, so that the sanitizer sees a read beyond it. */
        uint8_t *part = malloc(len + 1);
        memcpy(part, f->batch.data, len);
        assert_int_equal(
            validate_records((struct bytes){part, (int64_t)len}, 11, VALIDATE_CLIENT, &f->config, NOW, NULL, &f->v, NULL, NULL),
            INVALID_RECORD);
        free(part);
    }
}

/* Facts 12. */
static void eleven_bytes_behind_are_taken_and_twelve_are_not(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    size_t whole = f->batch.len;
    uint8_t zeroes[12] = {0};
    for (size_t n = 0; n <= 11; n++) {
        f->batch.len = whole;
        buf_append(&f->batch, zeroes, n);
        assert_int_equal(validate(f), OK);
        assert_int_equal(f->v.rest.len, whole - BATCH_OVERHEAD);
    }
    f->batch.len = whole;
    buf_append(&f->batch, zeroes, 12);
    assert_int_equal(validate(f), CORRUPT_MESSAGE);
}

static void second_batch_is_refused(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    build(f, SHAPE);
    assert_int_equal(validate(f), INVALID_RECORD);
}

static void old_and_unknown_formats(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    const struct {
        uint8_t magic;
        enum error error;
    } cases[] = {{0, INVALID_RECORD}, {1, INVALID_RECORD}, {3, CORRUPT_MESSAGE}, {255, CORRUPT_MESSAGE}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        f->batch.data[BATCH_POS_MAGIC] = cases[i].magic;
        assert_int_equal(validate(f), cases[i].error);
    }
}

static void impossible_lengths(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    const int32_t corrupt[] = {0, -1, INT32_MIN, 13, 14, 48};
    for (size_t i = 0; i < ARRAY_SIZE(corrupt); i++) {
        put_i32(f->batch.data + BATCH_POS_LENGTH, corrupt[i]);
        assert_int_equal(validate(f), CORRUPT_MESSAGE);
    }
    put_i32(f->batch.data + BATCH_POS_LENGTH, INT32_MAX);
    assert_int_equal(validate(f), INVALID_RECORD); /* a batch that is not there whole */
}

static void every_flipped_byte_is_noticed(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    for (size_t i = BATCH_POS_CRC; i < f->batch.len; i++) {
        f->batch.data[i] ^= 1;
        assert_int_equal(validate(f), CORRUPT_MESSAGE);
        f->batch.data[i] ^= 1;
    }
    assert_int_equal(validate(f), OK);
}

static void base_offset_must_be_0(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    batch_set_base_offset(f->batch.data, 1);
    assert_int_equal(validate(f), INVALID_RECORD);
}

static void counts_must_agree(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    const int32_t counts[] = {0, -1, 2, 4, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        patch_i32(f, BATCH_POS_COUNT, counts[i]);
        assert_int_equal(validate(f), INVALID_RECORD);
    }
    patch_i32(f, BATCH_POS_COUNT, 3);
    const int32_t deltas[] = {0, -1, 1, 3, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < ARRAY_SIZE(deltas); i++) {
        patch_i32(f, BATCH_POS_LAST_OFFSET_DELTA, deltas[i]);
        assert_int_equal(validate(f), INVALID_RECORD);
    }
    /* Both agree with each other and not with what is there. */
    patch_i32(f, BATCH_POS_COUNT, 4);
    patch_i32(f, BATCH_POS_LAST_OFFSET_DELTA, 3);
    assert_int_equal(validate(f), INVALID_RECORD);
    patch_i32(f, BATCH_POS_COUNT, 2);
    patch_i32(f, BATCH_POS_LAST_OFFSET_DELTA, 1);
    assert_int_equal(validate(f), INVALID_RECORD);
}

static void offset_deltas_must_count_from_0(void **state)
{
    struct fixture *f = *state;
    for (int codec = CODEC_NONE; codec <= CODEC_GZIP; codec++) {
        struct batch_params params = BATCH_PARAMS_INIT;
        struct batch_builder b;
        params.codec = (enum codec)codec;
        buf_clear(&f->batch);
        batch_builder_init(&b, &params);
        struct batch_record r = {.timestamp = NOW, .value = {(const uint8_t *)"v", 1}};
        assert_int_equal(batch_builder_add_at(&b, 0, &r), OK);
        assert_int_equal(batch_builder_add_at(&b, 2, &r), OK);
        assert_int_equal(batch_builder_finish(&b, &f->batch), OK);
        batch_builder_fini(&b);
        patch_i32(f, BATCH_POS_LAST_OFFSET_DELTA, 1);
        assert_int_equal(validate(f), INVALID_RECORD);
    }
}

static void malformed_records_are_invalid(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    uint8_t first = f->batch.data[BATCH_OVERHEAD], bad[] = {0x7e, 0x00, 0x01, 0xff};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        patch(f, BATCH_OVERHEAD, &bad[i], 1);
        assert_int_equal(validate(f), INVALID_RECORD);
    }
    patch(f, BATCH_OVERHEAD, &first, 1);
    assert_int_equal(validate(f), OK);
}

static void control_batches_are_not_for_clients(void **state)
{
    struct fixture *f = *state;
    control_build_mirror_pid_reset(&f->batch, STR("s"), STR("w"), 0, NOW, 0, 0);
    assert_int_equal(validate(f), INVALID_RECORD);
    struct end_txn end = {.commit = true, .producer_id = 7};
    buf_clear(&f->batch);
    control_build_end_txn(&f->batch, &end, NOW, 0, 0);
    assert_int_equal(validate(f), INVALID_RECORD);
}

/* Facts 19 and 20: what is checked is a producer id above -1 with a negative sequence, and nothing else here. */
static void producer_fields(void **state)
{
    struct fixture *f = *state;
    const struct {
        int64_t id;
        int16_t epoch;
        int32_t sequence;
        enum error error;
    } cases[] = {{7, 0, 0, OK},
                 {7, 0, -1, INVALID_RECORD},
                 {0, 0, -5, INVALID_RECORD},
                 {-1, -1, 5, OK},
                 {-3, 0, 0, OK},
                 {-3, 0, -1, OK},
                 {7, -1, 0, OK},
                 {7, -2, 0, OK}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct shape shape = SHAPE;
        shape.params.producer_id = cases[i].id;
        shape.params.producer_epoch = cases[i].epoch;
        shape.params.base_sequence = cases[i].sequence;
        buf_clear(&f->batch);
        build(f, shape);
        assert_int_equal(validate(f), cases[i].error);
        if (cases[i].error == OK)
            assert_int_equal(f->v.producer_id, cases[i].id);
    }
}

static void keys_are_needed_on_compacted_topics(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    shape.no_key = true;
    build(f, shape);
    assert_int_equal(validate(f), OK);
    f->config.compacted = true;
    assert_int_equal(validate(f), INVALID_RECORD);
    assert_int_equal(f->errors.count, 1);
    assert_int_equal(f->errors.items[0].batch_index, 1);
    assert_non_null(f->errors.items[0].message.p);
}

static void timestamps_within_bounds(void **state)
{
    struct fixture *f = *state;
    f->config.timestamp_before_max_ms = 1000;
    f->config.timestamp_after_max_ms = 500;
    const struct {
        int64_t first;
        enum error error;
        int bad;
    } cases[] = {{NOW - 1000, OK, 0},       {NOW - 1001, INVALID_TIMESTAMP, 1}, {NOW - 1003, INVALID_TIMESTAMP, 3},
                 {NOW + 498, OK, 0},        {NOW + 499, INVALID_TIMESTAMP, 1},  {INT64_C(1) << 62, INVALID_TIMESTAMP, 3},
                 {0, INVALID_TIMESTAMP, 3}, {-1000, INVALID_TIMESTAMP, 3}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct shape shape = SHAPE;
        shape.timestamp = cases[i].first;
        buf_clear(&f->batch);
        build(f, shape);
        assert_int_equal(validate(f), cases[i].error);
        assert_int_equal(f->errors.count, cases[i].bad);
    }
}

static void a_timestamp_error_outweighs_a_missing_key(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    shape.no_key = true;
    shape.timestamp = NOW + 3599999; /* the third is too late */
    f->config.compacted = true;
    build(f, shape);
    assert_int_equal(validate(f), INVALID_TIMESTAMP);
    assert_int_equal(f->errors.count, 2);
}

static void no_timestamp_passes_every_bound(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    shape.timestamp = -1;
    shape.records = 1;
    f->config.timestamp_before_max_ms = 1;
    build(f, shape);
    assert_int_equal(validate(f), OK);
    assert_int_equal(f->v.max_timestamp, -1);
}

static void many_record_errors_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    shape.records = VALIDATE_MAX_RECORD_ERRORS + 50;
    shape.timestamp = 0;
    f->config.timestamp_before_max_ms = 1;
    build(f, shape);
    assert_int_equal(validate(f), INVALID_TIMESTAMP);
    assert_int_equal(f->errors.count, VALIDATE_MAX_RECORD_ERRORS);
    assert_int_equal(f->errors.total, VALIDATE_MAX_RECORD_ERRORS + 50);
}

static void sizes(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    f->config.max_message_bytes = (int32_t)f->batch.len;
    f->config.segment_bytes = (int64_t)f->batch.len;
    assert_int_equal(validate(f), OK);
    f->config.segment_bytes--;
    assert_int_equal(validate(f), RECORD_LIST_TOO_LARGE);
    f->config.max_message_bytes--;
    assert_int_equal(validate(f), MESSAGE_TOO_LARGE);
}

/* Facts 14. */
static void log_append_time_sets_flag_and_max_timestamp_only(void **state)
{
    struct fixture *f = *state;
    struct buf out = {0};
    struct shape shape = SHAPE;
    shape.timestamp = 5;
    f->config.log_append_time = true;
    f->config.timestamp_before_max_ms = 1; /* not asked */
    build(f, shape);
    assert_int_equal(validate(f), OK);
    stored(f, &out);
    assert_true(batch_verify_crc(out.data));
    assert_true(batch_is_log_append_time(out.data));
    assert_int_equal(batch_max_timestamp(out.data), NOW);
    assert_int_equal(batch_base_timestamp(out.data), 5);
    assert_int_equal(f->v.log_append_time_ms, NOW);
    assert_int_equal(f->v.max_timestamp, NOW);
    assert_ptr_equal(f->v.rest.p, f->batch.data + BATCH_OVERHEAD);
    assert_false(batch_is_log_append_time(f->batch.data)); /* the sender's bytes are as they were */
    buf_fini(&out);
}

static void log_append_time_flag_of_a_client(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    shape.params.log_append_time = true;
    shape.params.log_append_time_ms = NOW - 7;
    build(f, shape);
    f->config.log_append_time = true;
    assert_int_equal(validate(f), INVALID_TIMESTAMP);
    assert_int_equal(f->errors.count, 3);
    /* On a CreateTime topic Kafka takes it and clears the flag: what counts is what readers see then. */
    f->config.log_append_time = false;
    assert_int_equal(validate(f), OK);
    assert_false(batch_is_log_append_time(f->v.header));
    assert_int_equal(f->v.max_timestamp, NOW + 2);
}

static void wrong_max_timestamp_is_set_right(void **state)
{
    struct fixture *f = *state;
    struct buf out = {0};
    uint8_t wrong[8];
    build(f, SHAPE);
    put_i64(wrong, NOW + 99);
    patch(f, BATCH_POS_MAX_TIMESTAMP, wrong, 8);
    assert_int_equal(validate(f), OK);
    stored(f, &out);
    assert_int_equal(batch_max_timestamp(out.data), NOW + 2);
    assert_true(batch_verify_crc(out.data));
    buf_fini(&out);
}

static void recompression(void **state)
{
    struct fixture *f = *state;
    for (int from = CODEC_NONE; from < CODEC_COUNT; from++) {
        for (int to = CODEC_NONE; to < CODEC_COUNT; to++) {
            struct buf out = {0}, scratch = {0};
            struct bytes records;
            struct record_iter it;
            struct record r;
            struct shape shape = SHAPE;
            int n = 0;
            shape.params.codec = (enum codec)from;
            shape.params.producer_id = 7;
            shape.params.producer_epoch = 1;
            shape.params.base_sequence = 9;
            buf_clear(&f->batch);
            build(f, shape);
            f->config.compression = to;
            assert_int_equal(validate(f), OK);
            assert_int_equal(f->v.copied, from != to);
            stored(f, &out);
            assert_true(batch_verify_crc(out.data));
            assert_int_equal(batch_codec(out.data), to);
            assert_int_equal(batch_size_bytes(out.data), out.len);
            assert_int_equal(batch_base_sequence(out.data), 9);
            assert_int_equal(batch_records(out.data, 100000, &scratch, &records), OK);
            record_iter_init(&it, out.data, records);
            while (record_iter_next(&it, &r))
                assert_int_equal(r.timestamp, NOW + n++);
            assert_int_equal(record_iter_finish(&it), OK);
            assert_int_equal(n, 3);
            buf_fini(&out);
            buf_fini(&scratch);
        }
    }
}

static void size_is_checked_again_after_recompression(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    shape.params.codec = CODEC_GZIP;
    shape.value_bytes = 5000;
    build(f, shape);
    f->config.max_message_bytes = 1000;
    assert_int_equal(validate(f), OK);
    f->config.compression = CODEC_NONE;
    assert_int_equal(validate(f), MESSAGE_TOO_LARGE);
}

/* Facts 13. */
static void undecompressable_is_corrupt(void **state)
{
    struct fixture *f = *state;
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        struct shape shape = SHAPE;
        shape.params.codec = (enum codec)codec;
        buf_clear(&f->batch);
        build(f, shape);
        memset(f->batch.data + BATCH_OVERHEAD, 0xff, f->batch.len - BATCH_OVERHEAD);
        batch_update_crc(f->batch.data);
        assert_int_equal(validate(f), CORRUPT_MESSAGE);
    }
    for (int codec = CODEC_COUNT; codec <= 7; codec++) {
        buf_clear(&f->batch);
        build(f, SHAPE);
        batch_set_attributes(f->batch.data, (int16_t)codec);
        assert_int_equal(validate(f), CORRUPT_MESSAGE);
    }
}

static void zstd_needs_version_7(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    shape.params.codec = CODEC_ZSTD;
    build(f, shape);
    assert_int_equal(validate_version(f, 6), UNSUPPORTED_COMPRESSION_TYPE);
    assert_int_equal(validate_version(f, 7), OK);
}

static void delete_horizon_bit_is_stored_as_sent(void **state)
{
    struct fixture *f = *state;
    build(f, SHAPE);
    batch_set_attributes(f->batch.data, BATCH_DELETE_HORIZON);
    assert_int_equal(validate(f), OK);
    assert_true(batch_has_delete_horizon(f->v.header));
}

static void peeking_at_the_transactional_bit(void **state)
{
    struct fixture *f = *state;
    struct shape shape = SHAPE;
    int64_t id = -9;
    build(f, shape);
    assert_false(validate_peek_transactional(buf_bytes(&f->batch), &id));
    buf_clear(&f->batch);
    shape.params.transactional = true;
    shape.params.producer_id = 7;
    shape.params.base_sequence = 0;
    build(f, shape);
    assert_true(validate_peek_transactional(buf_bytes(&f->batch), &id));
    assert_int_equal(id, 7);
    assert_false(validate_peek_transactional((struct bytes){f->batch.data, BATCH_OVERHEAD - 1}, &id));
    assert_false(validate_peek_transactional((struct bytes){NULL, 0}, &id));
    assert_int_equal(validate(f), OK);
    assert_true(f->v.transactional);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(good_batch_is_taken_without_a_copy),
        TEST(null_and_empty_are_invalid_records),
        TEST(every_truncation_is_refused),
        TEST(eleven_bytes_behind_are_taken_and_twelve_are_not),
        TEST(second_batch_is_refused),
        TEST(old_and_unknown_formats),
        TEST(impossible_lengths),
        TEST(every_flipped_byte_is_noticed),
        TEST(base_offset_must_be_0),
        TEST(counts_must_agree),
        TEST(offset_deltas_must_count_from_0),
        TEST(malformed_records_are_invalid),
        TEST(control_batches_are_not_for_clients),
        TEST(producer_fields),
        TEST(keys_are_needed_on_compacted_topics),
        TEST(timestamps_within_bounds),
        TEST(a_timestamp_error_outweighs_a_missing_key),
        TEST(no_timestamp_passes_every_bound),
        TEST(many_record_errors_are_bounded),
        TEST(sizes),
        TEST(log_append_time_sets_flag_and_max_timestamp_only),
        TEST(log_append_time_flag_of_a_client),
        TEST(wrong_max_timestamp_is_set_right),
        TEST(recompression),
        TEST(size_is_checked_again_after_recompression),
        TEST(undecompressable_is_corrupt),
        TEST(zstd_needs_version_7),
        TEST(delete_horizon_bit_is_stored_as_sent),
        TEST(peeking_at_the_transactional_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
