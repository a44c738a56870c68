/* Producer snapshots: Kafka's bytes, files in a folder, damage. */
#include "store_help.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"

#define FOREVER_MS (INT64_MAX / 2)

static struct producer_state *state_of(const char *dir)
{
    return producer_state_create(fs_system(), dir, FOREVER_MS);
}

static void add(struct producer_state *ps, int64_t pid, int64_t offset, bool txn)
{
    struct producer_batch_info info = {pid, offset, offset, 1000 + offset, (int32_t)offset, 0, txn};
    assert_ok(producer_state_stage_batch(ps, PRODUCER_COPIED, &info, NULL));
    producer_state_apply(ps, offset + 1);
}

static bool on_disk(const char *dir, int64_t offset)
{
    char name[SEGMENT_NAME_MAX];
    return fs_exists(fs_system(), path_in(dir, segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX, name)));
}

/* A log that Kafka wrote, replayed, gives the bytes of Kafka's snapshot; reading these gives the same state. */
static void golden(void **state)
{
    struct scratch *scratch = *state;
    struct producer_state *ps = state_of(scratch->dir), *read = state_of(scratch->dir);
    struct buf ours = {0}, kafka = {0}, again = {0};
    struct segment *s;
    static const int64_t BASES[] = {0, 33}, ENDS[] = {33, 46};
    static const char *const NAMES[] = {"00000000000000000033.snapshot", "00000000000000000046.snapshot"};
    for (int i = 0; i < 2; i++) {
        assert_ok(segment_open(fs_system(), GOLDEN_STOPPED, BASES[i], &s));
        assert_ok(segment_each(s, 0, false, replay_batch, ps));
        producer_state_apply(ps, ENDS[i]);
        segment_unref(s);
        buf_clear(&ours);
        producer_state_encode(ps, &ours);
        read_file(path_in(GOLDEN_STOPPED, NAMES[i]), &kafka);
        assert_int_equal(ours.len, kafka.len);
        assert_memory_equal(ours.data, kafka.data, kafka.len);
    }
    assert_int_equal(producer_state_first_unstable_offset(ps), 30); /* no high watermark yet */
    copy_file(GOLDEN_STOPPED, NAMES[1], scratch->dir);
    assert_ok(producer_state_load_list(read));
    assert_ok(producer_state_reload(read, 0, 46, 0, NULL));
    assert_int_equal(producer_state_end_offset(read), 46);
    assert_int_equal(producer_state_first_undecided_offset(read), 44);
    producer_state_encode(read, &again);
    assert_int_equal(again.len, kafka.len);
    assert_memory_equal(again.data, kafka.data, kafka.len);
    buf_fini(&ours);
    buf_fini(&kafka);
    buf_fini(&again);
    producer_state_destroy(ps);
    producer_state_destroy(read);
}

static void files(void **state)
{
    const char *dir = ((struct scratch *)*state)->dir;
    struct producer_state *ps = state_of(dir);
    const int64_t *offsets;
    struct problem note;
    assert_ok(producer_state_load_list(ps));
    assert_ok(producer_state_take_snapshot(ps, true)); /* nothing to keep */
    assert_int_equal(producer_state_snapshots(ps, &offsets), 0);
    for (int i = 0; i < 4; i++) {
        add(ps, i, 10 * i, i == 3);
        assert_ok(producer_state_take_snapshot(ps, i % 2 == 0));
        assert_ok(producer_state_take_snapshot(ps, true)); /* stands there already */
    }
    assert_int_equal(producer_state_snapshots(ps, &offsets), 4);
    assert_int_equal(offsets[3], 31);

    struct producer_state *again = state_of(dir);
    assert_ok(producer_state_load_list(again));
    assert_ok(producer_state_reload(again, 0, 100, 0, &note));
    assert_int_equal(note.code, OK);
    assert_int_equal(producer_state_end_offset(again), 31);
    assert_int_equal(producer_state_count(again), 4);
    assert_int_equal(producer_state_first_unstable_offset(again), 30);

    /* truncation to 25: what lies above is removed, the state comes from below */
    assert_ok(producer_state_reload(again, 0, 25, 0, NULL));
    assert_int_equal(producer_state_end_offset(again), 21);
    assert_int_equal(producer_state_count(again), 3);
    assert_false(on_disk(dir, 31));
    /* the log now starts at 11: that snapshot and what is below go */
    assert_ok(producer_state_reload(again, 11, 25, 0, NULL));
    assert_false(on_disk(dir, 1));
    assert_false(on_disk(dir, 11));
    assert_true(on_disk(dir, 21));
    assert_ok(producer_state_remove_snapshots_before(again, 1000));
    assert_true(on_disk(dir, 21)); /* the newest stays */
    assert_ok(producer_state_remove_snapshot(again, 21));
    assert_false(on_disk(dir, 21));
    assert_ok(producer_state_reload(again, 11, 25, 0, NULL));
    assert_int_equal(producer_state_end_offset(again), 11);
    assert_int_equal(producer_state_count(again), 0);
    producer_state_destroy(again);

    assert_ok(producer_state_restart(ps, 500));
    assert_int_equal(producer_state_count(ps), 0);
    assert_int_equal(producer_state_end_offset(ps), 500);
    producer_state_destroy(ps);
}

static void a_damaged_one_is_passed_over(void **state)
{
    const char *dir = ((struct scratch *)*state)->dir;
    struct producer_state *ps = state_of(dir);
    struct problem note;
    add(ps, 1, 0, false);
    assert_ok(producer_state_take_snapshot(ps, true));
    add(ps, 2, 10, false);
    assert_ok(producer_state_take_snapshot(ps, true));
    write_file(path_in(dir, "00000000000000000011.snapshot"), "\0\1torn", 6);
    assert_ok(producer_state_reload(ps, 0, 100, 0, &note));
    assert_int_equal(note.code, ERR_CORRUPT);
    assert_non_null(strstr(note.message, "offset 11"));
    assert_int_equal(producer_state_end_offset(ps), 1);
    assert_int_equal(producer_state_count(ps), 1);
    assert_false(on_disk(dir, 11));
    producer_state_destroy(ps);
}

static void expired_ones_are_not_loaded(void **state)
{
    const char *dir = ((struct scratch *)*state)->dir;
    struct producer_state *ps = state_of(dir);
    add(ps, 1, 0, false);
    add(ps, 2, 10, true);
    add(ps, 3, 500, false);
    assert_ok(producer_state_take_snapshot(ps, true));
    producer_state_set_expiration(ps, 100);
    assert_ok(producer_state_reload(ps, 0, 1000, 1550, NULL));
    assert_null(producer_state_get(ps, 1));
    assert_non_null(producer_state_get(ps, 2));
    assert_non_null(producer_state_get(ps, 3));
    producer_state_destroy(ps);
}

/* Hostile and torn content, by table: bytes to change in Kafka's snapshot, with or without a CRC that fits. */
static void hostile(void **state)
{
    static const struct {
        size_t pos;
        int bytes;
        uint8_t value;
        bool fix_crc;
        enum error expected;
    } TABLE[] = {
        {0, 2, 0, false, ERR_UNSUPPORTED},      {1, 1, 2, false, ERR_UNSUPPORTED}, {2, 4, 0, false, ERR_CORRUPT},
        {6, 4, 0x7f, true, ERR_CORRUPT},        {6, 4, 0xff, true, ERR_CORRUPT},   {9, 1, 5, true, ERR_CORRUPT},
        {9, 1, 3, true, ERR_CORRUPT},           {10, 8, 0xff, true, ERR_CORRUPT},  {32, 4, 0xff, true, ERR_CORRUPT},
        {32, 4, 0x7f, true, ERR_CORRUPT},       {48, 8, 0x80, true, ERR_CORRUPT},  {20, 4, 0x80, true, ERR_CORRUPT},
        {36, 8, 0x80, true, OK /* any time */},
    };
    struct buf kafka = {0}, bad = {0};
    struct producer_entry *entries;
    int count;
    read_file(path_in(GOLDEN_STOPPED, "00000000000000000046.snapshot"), &kafka);
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        struct problem problem = {0};
        buf_clear(&bad);
        buf_append(&bad, kafka.data, kafka.len);
        memset(bad.data + TABLE[i].pos, TABLE[i].value, (size_t)TABLE[i].bytes);
        if (TABLE[i].fix_crc)
            put_u32(bad.data + 2, crc32c(0, bad.data + 6, bad.len - 6));
        enum error error = producer_snapshot_decode(buf_bytes(&bad), &entries, &count, &problem);
        if (error != TABLE[i].expected)
            fail_msg("row %zu: %s", i, error_name(error));
        if (error == OK)
            mem_free(entries);
        else
            assert_string_not_equal(problem.message, "");
    }
    for (size_t len = 0; len < kafka.len; len++)
        assert_int_not_equal(producer_snapshot_decode((struct bytes){kafka.data, (int64_t)len}, &entries, &count, NULL), OK);
    buf_fini(&kafka);
    buf_fini(&bad);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup_teardown(golden, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(files, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_damaged_one_is_passed_over, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(expired_ones_are_not_loaded, scratch_setup, scratch_teardown),
    cmocka_unit_test(hostile),
};

int main(void)
{
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
