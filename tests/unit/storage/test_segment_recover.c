/* Recovery of torn, damaged and hostile segments: the sound part stays, the rest goes, indexes are built anew. */
#include <zlib.h>

#include "store_help.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/record_batch.h"

#define BATCHES 10
#define INTERVAL 100

static const char *dir_of(void **state)
{
    return ((struct scratch *)*state)->dir;
}

static const char *file_of(void **state, const char *suffix)
{
    char name[SEGMENT_NAME_MAX];
    return path_in(dir_of(state), segment_file_name(50, suffix, name));
}

static size_t make_log(struct buf *log)
{
    buf_clear(log);
    for (int i = 0; i < BATCHES; i++)
        put_batch_of(log, 50 + 2 * i, 2, 1000 + i);
    return log->len / BATCHES;
}

static struct segment_recovery recover(void **state, const struct buf *log)
{
    struct segment *s;
    struct segment_recovery result;
    struct buf content = {0};
    write_file(file_of(state, ".log"), log->data, log->len);
    assert_ok(segment_open(fs_system(), dir_of(state), 50, &s));
    assert_ok(segment_recover(s, INTERVAL, NULL, NULL, &result));
    assert_ok(segment_seal(s));
    assert_ok(segment_check(s, NULL));
    segment_unref(s);
    read_file(file_of(state, ".log"), &content);
    assert_int_equal(content.len, result.valid_bytes);
    buf_fini(&content);
    return result;
}

static void torn_at_every_byte(void **state)
{
    struct buf log = {0};
    size_t bytes = make_log(&log), all = log.len;
    for (size_t len = all - 2 * bytes; len <= all; len++) {
        log.len = len;
        struct segment_recovery result = recover(state, &log);
        assert_int_equal(result.valid_bytes, len / bytes * bytes);
        assert_int_equal(result.cut_bytes, len % bytes);
        assert_int_equal(result.next_offset, 50 + 2 * (int64_t)(len / bytes));
        assert_int_equal(result.reason != NULL, len % bytes != 0);
    }
    buf_fini(&log);
}

/* One byte of batch 5 flipped, at each place: what does not matter to the sums stays, all else is cut there. */
static void every_byte_counts(void **state)
{
    struct buf log = {0};
    size_t bytes = make_log(&log);
    for (size_t at = 0; at < bytes; at++) {
        make_log(&log);
        log.data[5 * bytes + at] ^= 0x40;
        struct segment_recovery result = recover(state, &log);
        bool outside_the_sum = at >= BATCH_POS_LEADER_EPOCH && at < BATCH_POS_MAGIC;
        bool still_rising = at < 8; /* a base offset far above: the next batches are below it, or it does not fit */
        if (outside_the_sum)
            assert_int_equal(result.batches, BATCHES);
        else if (still_rising)
            assert_in_range(result.batches, 5, 6);
        else
            assert_int_equal(result.batches, 5);
    }
    buf_fini(&log);
}

static void hostile(void **state)
{
    static const struct {
        int pos;
        int bytes;
        int64_t value;
        bool fix_crc;
        const char *reason;
    } TABLE[] = {
        {BATCH_POS_LENGTH, 4, 0, false, "length or magic that cannot be"},
        {BATCH_POS_LENGTH, 4, -1, false, "length or magic that cannot be"},
        {BATCH_POS_LENGTH, 4, 48, false, "length or magic that cannot be"},
        {BATCH_POS_LENGTH, 4, INT32_MAX, false, "the file ends inside a batch"},
        {BATCH_POS_MAGIC, 1, 1, false, "a message format before v2"},
        {BATCH_POS_MAGIC, 1, 3, false, "length or magic that cannot be"},
        {BATCH_POS_CRC, 4, 7, false, "CRC does not match"},
        {BATCH_POS_BASE_OFFSET, 8, 59, false, "offsets do not rise"},
        {BATCH_POS_BASE_OFFSET, 8, 3, false, "offsets do not rise"},
        {BATCH_POS_BASE_OFFSET, 8, -5, false, "offsets or counts that cannot be"},
        {BATCH_POS_BASE_OFFSET, 8, 1LL << 32, false, "an offset too far from the segment's base"},
        {BATCH_POS_BASE_OFFSET, 8, INT64_MAX, false, "offsets or counts that cannot be"},
        {BATCH_POS_LAST_OFFSET_DELTA, 4, -1, true, "offsets or counts that cannot be"},
        {BATCH_POS_LAST_OFFSET_DELTA, 4, INT32_MIN, true, "offsets or counts that cannot be"},
        {BATCH_POS_COUNT, 4, -1, true, "offsets or counts that cannot be"},
        {BATCH_POS_COUNT, 4, 100, true, "offsets or counts that cannot be"},
    };
    struct buf log = {0};
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        size_t bytes = make_log(&log);
        uint8_t *batch = log.data + 5 * bytes;
        uint8_t value[8];
        put_i64(value, TABLE[i].value);
        memcpy(batch + TABLE[i].pos, value + 8 - TABLE[i].bytes, (size_t)TABLE[i].bytes);
        if (TABLE[i].fix_crc)
            batch_update_crc(batch);
        struct segment_recovery result = recover(state, &log);
        if (result.batches != 5 || result.reason == NULL || strcmp(result.reason, TABLE[i].reason) != 0)
            fail_msg("row %zu: %d batches, %s", i, (int)result.batches, result.reason != NULL ? result.reason : "nothing");
    }
    buf_fini(&log);
}

static void zeroes_at_the_end(void **state)
{
    struct buf log = {0};
    size_t bytes = make_log(&log);
    memset(buf_reserve(&log, 5000), 0, 5000);
    log.len += 5000;
    struct segment_recovery result = recover(state, &log);
    assert_int_equal(result.valid_bytes, BATCHES * bytes);
    assert_int_equal(result.cut_bytes, 5000);
    log.len = 0;
    result = recover(state, &log);
    assert_int_equal(result.next_offset, 50);
    buf_fini(&log);
}

/* An old format is data that we don't read, not damage: nothing is cut. It must be one: a torn batch may look alike where the magic stands. */
static void an_old_format_is_kept(void **state)
{
    /* A message of format 1: offset, size 25, CRC-32, magic, attributes, timestamp, key and value, null both. */
    uint8_t message[37] = {[11] = 25, [16] = 1, [26] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct buf log = {0}, content = {0};
    struct segment *s;
    struct segment_recovery result;
    buf_append(&log, message, sizeof(message));
    result = recover(state, &log); /* without its CRC */
    assert_int_equal(result.valid_bytes, 0);
    put_u32(log.data + 12, (uint32_t)crc32(0, log.data + 16, 21));
    write_file(file_of(state, ".log"), log.data, log.len);
    assert_ok(segment_open(fs_system(), dir_of(state), 50, &s));
    assert_error(segment_recover(s, INTERVAL, NULL, NULL, &result), UNSUPPORTED_FOR_MESSAGE_FORMAT);
    segment_unref(s);
    read_file(file_of(state, ".log"), &content);
    assert_int_equal(content.len, log.len);
    buf_fini(&log);
    buf_fini(&content);
}

/* What was durable once is not cut: no crash has damaged it. */
static void what_was_durable_is_not_cut(void **state)
{
    struct buf log = {0}, content = {0};
    struct segment *s;
    struct segment_recovery result = {0};
    size_t bytes = make_log(&log);
    log.data[5 * bytes + 70] ^= 1;
    write_file(file_of(state, ".log"), log.data, log.len);
    assert_ok(segment_open(fs_system(), dir_of(state), 50, &s));
    segment_set_durable_below(s, 61);
    assert_error(segment_recover(s, INTERVAL, NULL, NULL, &result), CORRUPT_MESSAGE);
    assert_int_equal(result.next_offset, 60);
    assert_string_equal(result.reason, "CRC does not match");
    read_file(file_of(state, ".log"), &content);
    assert_int_equal(content.len, log.len);
    segment_set_durable_below(s, 60);
    assert_ok(segment_recover(s, INTERVAL, NULL, NULL, &result));
    assert_int_equal(result.valid_bytes, 5 * bytes);
    segment_unref(s);
    buf_fini(&log);
    buf_fini(&content);
}

static void damaged_indexes_are_built_anew(void **state)
{
    struct buf log = {0}, sound = {0};
    struct segment *s;
    struct segment_recovery result;
    make_log(&log);
    recover(state, &log);
    read_file(file_of(state, ".index"), &sound);
    assert_true(sound.len > 0);
    static const struct {
        const char *suffix;
        const char *bytes;
        int len; /* -1: remove the file */
    } TABLE[] = {
        {".index", "torn", 4},     {".index", "\x7f\0\0\0\x7f\0\0\0", 8},
        {".timeindex", "torn", 4}, {".txnindex", "torn", 4},
        {".index", "", -1},        {".timeindex", "", -1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        struct problem problem = {0};
        struct buf again = {0};
        if (TABLE[i].len < 0)
            assert_ok(fs_unlink(fs_system(), file_of(state, TABLE[i].suffix)));
        else
            write_file(file_of(state, TABLE[i].suffix), TABLE[i].bytes, (size_t)TABLE[i].len);
        assert_ok(segment_open(fs_system(), dir_of(state), 50, &s));
        assert_error(segment_check(s, &problem), ERR_CORRUPT);
        assert_non_null(strstr(problem.message, TABLE[i].suffix));
        assert_ok(segment_recover(s, INTERVAL, NULL, NULL, &result));
        assert_int_equal(result.batches, BATCHES);
        assert_ok(segment_seal(s));
        segment_unref(s);
        read_file(file_of(state, ".index"), &again);
        assert_int_equal(again.len, sound.len);
        assert_memory_equal(again.data, sound.data, sound.len);
        buf_fini(&again);
    }
    buf_fini(&log);
    buf_fini(&sound);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup_teardown(torn_at_every_byte, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(every_byte_counts, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(hostile, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(zeroes_at_the_end, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(an_old_format_is_kept, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(what_was_durable_is_not_cut, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(damaged_indexes_are_built_anew, scratch_setup, scratch_teardown),
};

int main(void)
{
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
