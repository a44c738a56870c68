/* Segments: files as Kafka writes them, finding, reading within limits, failed appends, truncation, references. */
#include "store_help.h"

#include <fcntl.h>

#include "base/assert.h"
#include "codec/record_batch.h"

#define INTERVAL 200 /* index.interval.bytes of the golden topic */

static const char *dir_of(void **state)
{
    return ((struct scratch *)*state)->dir;
}

static const char *file_of(const char *dir, int64_t base, const char *suffix)
{
    char name[SEGMENT_NAME_MAX];
    return path_in(dir, segment_file_name(base, suffix, name));
}

static void names(void **state)
{
    char name[SEGMENT_NAME_MAX];
    int64_t base;
    assert_string_equal(segment_file_name(33, ".log", name), "00000000000000000033.log");
    assert_string_equal(segment_file_name(INT64_MAX, ".index", name), "09223372036854775807.index");
    assert_true(segment_parse_name("00000000000000000033.log", ".log", &base));
    assert_int_equal(base, 33);
    assert_false(segment_parse_name("00000000000000000033.log.deleted", ".log", &base));
    assert_false(segment_parse_name("0000000000000000003.log", ".log", &base));
    assert_false(segment_parse_name("-0000000000000000033.log", ".log", &base));
    assert_false(segment_parse_name("99999999999999999999.log", ".log", &base));
    assert_false(segment_parse_name("", ".log", &base));
}

/* ---- Against Kafka ---- */

struct rebuild {
    struct producer_state *ps;
    struct segment *segment;
};

static enum error rebuild_batch(void *arg, const uint8_t *batch, uint64_t pos)
{
    struct rebuild *r = arg;
    const struct completed_txn *done;
    enum error error = replay_batch(r->ps, batch, pos);
    int count = producer_state_completed(r->ps, &done);
    for (int i = 0; error == OK && i < count; i++) {
        struct aborted_txn txn = {done[i].producer_id, done[i].first_offset, done[i].last_offset, done[i].last_stable_offset};
        if (done[i].aborted)
            error = segment_append_aborted(r->segment, &txn);
    }
    producer_state_apply(r->ps, batch_next_offset(batch));
    return error;
}

/* Only Kafka's .log files: recovery builds Kafka's three indexes to the byte. */
static void recovery_builds_kafkas_indexes(void **state)
{
    static const int64_t BASES[] = {0, 33};
    struct producer_state *ps = producer_state_create(fs_system(), dir_of(state), INT64_MAX / 2);
    for (int i = 0; i < 2; i++) {
        char name[SEGMENT_NAME_MAX];
        struct segment_recovery result;
        struct rebuild rebuild = {.ps = ps};
        copy_file(GOLDEN_STOPPED, segment_file_name(BASES[i], ".log", name), dir_of(state));
        assert_ok(segment_open(fs_system(), dir_of(state), BASES[i], &rebuild.segment));
        assert_ok(segment_recover(rebuild.segment, INTERVAL, rebuild_batch, &rebuild, &result));
        assert_null(result.reason);
        assert_int_equal(result.cut_bytes, 0);
        assert_int_equal(result.next_offset, i == 0 ? 33 : 46);
        assert_ok(segment_seal(rebuild.segment));
        assert_ok(segment_sync(rebuild.segment));
        assert_files_equal(file_of(dir_of(state), BASES[i], ".log"), file_of(GOLDEN_STOPPED, BASES[i], ".log"));
        assert_files_equal(file_of(dir_of(state), BASES[i], ".index"), file_of(GOLDEN_STOPPED, BASES[i], ".index"));
        assert_files_equal(file_of(dir_of(state), BASES[i], ".timeindex"), file_of(GOLDEN_STOPPED, BASES[i], ".timeindex"));
        if (i == 1)
            assert_files_equal(file_of(dir_of(state), BASES[i], ".txnindex"), file_of(GOLDEN_STOPPED, BASES[i], ".txnindex"));
        else
            assert_false(fs_exists(fs_system(), file_of(dir_of(state), BASES[i], ".txnindex")));
        segment_unref(rebuild.segment);
    }
    producer_state_destroy(ps);
}

/* The same by appending batch after batch. */
static void appending_builds_kafkas_indexes(void **state)
{
    struct segment *s;
    struct buf log = {0}, one = {0};
    struct batch_iter it;
    const uint8_t *batch;
    read_file(file_of(GOLDEN_STOPPED, 0, ".log"), &log);
    assert_ok(segment_create(fs_system(), dir_of(state), 0, &s));
    batch_iter_init(&it, buf_bytes(&log));
    while (batch_iter_next(&it, &batch) == BATCH_FOUND) {
        buf_clear(&one);
        buf_append(&one, batch, (size_t)batch_size_bytes(batch));
        append_batches(s, &one, INTERVAL);
    }
    assert_ok(segment_seal(s));
    assert_files_equal(file_of(dir_of(state), 0, ".log"), file_of(GOLDEN_STOPPED, 0, ".log"));
    assert_files_equal(file_of(dir_of(state), 0, ".index"), file_of(GOLDEN_STOPPED, 0, ".index"));
    assert_files_equal(file_of(dir_of(state), 0, ".timeindex"), file_of(GOLDEN_STOPPED, 0, ".timeindex"));
    segment_unref(s);
    buf_fini(&log);
    buf_fini(&one);
}

/* What a running Kafka has on disk: preallocated indexes with a tail of zeroes. */
static void a_killed_kafkas_segment_opens(void **state)
{
    static const char *const FILES[] = {".log", ".index", ".timeindex", ".txnindex"};
    struct segment *s;
    struct segment_position found;
    char name[SEGMENT_NAME_MAX];
    for (size_t i = 0; i < ARRAY_SIZE(FILES); i++)
        copy_file(GOLDEN_RUNNING, segment_file_name(33, FILES[i], name), dir_of(state));
    assert_ok(segment_open(fs_system(), dir_of(state), 33, &s));
    assert_ok(segment_check(s, NULL));
    assert_ok(segment_activate(s));
    assert_ok(segment_find(s, 45, &found));
    assert_int_equal(found.base_offset, 45);
    assert_ok(segment_seal(s));
    assert_files_equal(file_of(dir_of(state), 33, ".index"), file_of(GOLDEN_STOPPED, 33, ".index"));
    segment_unref(s);
}

static void kafkas_segment_by_time(void **state)
{
    /* from 1700000001000 on in steps of a second, the fourth of every seven 500 s ahead */
    static const struct {
        int64_t base, timestamp, from, expected;
    } TABLE[] = {
        {0, 0, 0, 0},
        {0, 1700000001000, 0, 0},
        {0, 1700000001001, 0, 1},
        {0, 1700000004000, 0, 3}, /* 3 is ahead */
        {0, 1700000020000, 0, 3},
        {0, 1700000020000, 4, 10},
        {0, 1700000030000, 25, 29},
        {0, 1700000504000, 0, 3},
        {0, 1700000504001, 0, 10},
        {0, 1700000525001, 0, -1},
        {33, 1700000000000, 35, 35},
    };
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        struct segment *s;
        struct segment_time_offset found;
        assert_ok(segment_open(fs_system(), GOLDEN_STOPPED, TABLE[i].base, &s));
        assert_ok(segment_find_timestamp(s, TABLE[i].timestamp, TABLE[i].from, &found));
        if (found.offset != TABLE[i].expected)
            fail_msg("row %zu: %lld", i, (long long)found.offset);
        segment_unref(s);
    }
    struct segment *s;
    struct segment_time_offset newest;
    struct timestamp_offset largest;
    int64_t first;
    assert_ok(segment_open(fs_system(), GOLDEN_STOPPED, 0, &s));
    assert_ok(segment_find_max_timestamp(s, &newest));
    assert_int_equal(newest.offset, 24);
    assert_int_equal(newest.timestamp, 1700000525000);
    assert_int_equal(newest.leader_epoch, 0);
    assert_ok(segment_largest_timestamp(s, &largest));
    assert_int_equal(largest.timestamp, 1700000525000);
    assert_ok(segment_first_timestamp(s, &first));
    assert_int_equal(first, 1700000001000);
    segment_unref(s);
}

/* ---- Finding and reading ---- */

/* Batches of two records: offsets 100 101, 103 104, 106 107 .. (gaps), 40 of them. */
static struct segment *make_segment(void **state, uint64_t *ret_batch_bytes)
{
    struct segment *s;
    struct buf batches = {0};
    assert_ok(segment_create(fs_system(), dir_of(state), 100, &s));
    for (int i = 0; i < 40; i++)
        put_batch_of(&batches, 100 + 3 * i, 2, 1000 + 10 * i);
    append_batches(s, &batches, INTERVAL);
    *ret_batch_bytes = batches.len / 40;
    buf_fini(&batches);
    return s;
}

static void finding(void **state)
{
    uint64_t bytes;
    struct segment *s = make_segment(state, &bytes);
    struct segment_position found;
    int64_t next;
    for (int sealed = 0; sealed < 3; sealed++) {
        for (int64_t offset = 0; offset < 219; offset++) {
            int64_t index = offset < 102 ? 0 : (offset - 99) / 3;
            assert_ok(segment_find(s, offset, &found));
            assert_int_equal(found.base_offset, 100 + 3 * index);
            assert_int_equal(found.pos, (uint64_t)index * bytes);
            assert_int_equal(found.bytes, bytes);
            assert_int_equal(found.leader_epoch, 3);
        }
        assert_error(segment_find(s, 219, &found), ERR_NOT_FOUND);
        assert_ok(segment_last_batch(s, &found));
        assert_int_equal(found.base_offset, 217);
        assert_ok(segment_next_offset(s, &next));
        assert_int_equal(next, 219);
        if (sealed == 0)
            assert_ok(segment_seal(s));
        if (sealed == 1) {
            segment_unref(s);
            assert_ok(segment_open(fs_system(), dir_of(state), 100, &s));
        }
    }
    segment_unref(s);
}

static void reading(void **state)
{
    uint64_t bytes;
    struct segment *s = make_segment(state, &bytes);
    const struct {
        int64_t offset, upper;
        size_t max;
        bool min_one;
        enum error error;
        int first, count;
    } TABLE[] = {
        {100, INT64_MAX, 1000000, false, OK, 0, 40},
        {0, INT64_MAX, 1000000, false, OK, 0, 40},
        {101, INT64_MAX, bytes, false, OK, 0, 1},
        {101, INT64_MAX, bytes - 1, false, OK, 0, 0},
        {101, INT64_MAX, bytes - 1, true, OK, 0, 1},
        {101, INT64_MAX, 0, true, OK, 0, 1},
        {102, INT64_MAX, 3 * bytes + 5, true, OK, 1, 3},
        {150, INT64_MAX, 20 * bytes, true, OK, 17, 20},
        {150, INT64_MAX, 23 * bytes, true, OK, 17, 23},
        {150, 160, 20 * bytes, true, OK, 17, 3}, /* 160 begins a batch */
        {150, 161, 20 * bytes, true, OK, 17, 3}, /* falls inside it: left out */
        {150, 162, 20 * bytes, true, OK, 17, 4},
        {150, 152, 20 * bytes, true, OK, 17, 0}, /* the first one reaches above */
        {150, 0, 20 * bytes, true, OK, 17, 0},
        {150, 219, 1000000, true, OK, 17, 23},
        {217, INT64_MAX, 1000000, true, OK, 39, 1},
        {219, INT64_MAX, 1000000, true, ERR_NOT_FOUND, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        uint64_t pos = 0;
        size_t len = 0;
        enum error error = segment_read(s, TABLE[i].offset, TABLE[i].upper, TABLE[i].max, TABLE[i].min_one, &pos, &len);
        if (error != TABLE[i].error || pos != (uint64_t)TABLE[i].first * bytes || len != (size_t)TABLE[i].count * bytes)
            fail_msg("row %zu: %s, %d batches from %d", i, error_name(error), (int)(len / bytes), (int)(pos / bytes));
    }
    segment_unref(s);
}

/* Nothing is read where a large range ends: the index says where a batch begins there. */
static void large_ranges_end_at_an_entry_of_the_index(void **state)
{
    struct segment *s;
    struct segment_range range;
    struct segment_position at;
    struct buf batches = {0};
    assert_ok(segment_create(fs_system(), dir_of(state), 0, &s));
    for (int i = 0; i < 1000; i++)
        put_batch(&batches, i * 2, 1000, 1100);
    append_batches(s, &batches, 4096); /* an entry for every fourth */
    uint64_t bytes = segment_size_bytes(s) / 1000;
    for (int64_t first = 0; first < 40; first++) {
        assert_ok(segment_find_range(s, first * 2, INT64_MAX, 200 * bytes + 7, true, &range));
        int64_t end = (int64_t)((range.pos + range.len) / bytes);
        assert_int_equal(range.pos, (uint64_t)first * bytes);
        assert_int_equal((range.pos + range.len) % bytes, 0);
        assert_int_equal(end, (first + 200) / 4 * 4);
        assert_true(range.end_offset >= end * 2);
        assert_ok(segment_find(s, range.end_offset, &at)); /* who goes on there misses nothing */
        assert_int_equal(at.base_offset, end * 2);
        assert_ok(segment_find_range(s, first * 2, INT64_MAX, 11 * bytes + 7, true, &range)); /* a small one is filled up */
        assert_int_equal(range.len, 11 * bytes);
        assert_in_range(range.end_offset, (first + 11) * 2 - 1, (first + 11) * 2);
    }
    segment_unref(s);
    buf_fini(&batches);
}

static enum error count_batch(void *arg, const uint8_t *batch, uint64_t pos)
{
    int *count = arg;
    return ++*count == 7 ? ERR_CANCELLED : OK;
}

static void walking(void **state)
{
    uint64_t bytes;
    struct segment *s = make_segment(state, &bytes);
    int count = 100;
    assert_ok(segment_each(s, 160, true, count_batch, &count));
    assert_int_equal(count, 120);
    assert_ok(segment_each(s, 500, true, count_batch, &count));
    assert_int_equal(count, 120);
    count = 0;
    assert_error(segment_each(s, 0, false, count_batch, &count), ERR_CANCELLED);
    segment_unref(s);
}

/* A batch larger than the pieces in which headers are read. */
static void large_batches(void **state)
{
    struct segment *s;
    struct segment_position found;
    struct buf batches = {0};
    uint64_t pos;
    size_t len;
    assert_ok(segment_create(fs_system(), dir_of(state), 0, &s));
    for (int i = 0; i < 4; i++)
        put_batch(&batches, i, 1000 + i, i == 1 ? 3000000 : 20);
    append_batches(s, &batches, 4096);
    assert_ok(segment_find(s, 3, &found));
    assert_int_equal(found.base_offset, 3);
    assert_ok(segment_read(s, 1, INT64_MAX, 1000, true, &pos, &len));
    assert_true(len > 3000000);
    struct segment_recovery result;
    assert_ok(segment_recover(s, 4096, NULL, NULL, &result));
    assert_int_equal(result.batches, 4);
    segment_unref(s);
    buf_fini(&batches);
}

/* ---- Truncation ---- */

static void truncating(void **state)
{
    uint64_t bytes, cut;
    struct segment *s = make_segment(state, &bytes);
    struct timestamp_offset largest;
    int64_t next;
    assert_ok(segment_append_aborted(s, &(struct aborted_txn){1, 100, 110, 111}));
    assert_ok(segment_append_aborted(s, &(struct aborted_txn){1, 120, 160, 161}));
    assert_ok(segment_seal(s));
    assert_ok(segment_truncate(s, 300, &cut));
    assert_int_equal(cut, 0);
    assert_ok(segment_truncate(s, 161, &cut)); /* inside a batch: it goes */
    assert_int_equal(cut, 20 * bytes);
    assert_int_equal(segment_size_bytes(s), 20 * bytes);
    assert_true(segment_is_active(s));
    assert_ok(segment_next_offset(s, &next));
    assert_int_equal(next, 159);
    assert_ok(segment_largest_timestamp(s, &largest));
    assert_int_equal(largest.timestamp, 1191);
    assert_int_equal(largest.offset, 158);
    /* what comes now is indexed as if nothing had been there */
    struct buf batches = {0}, golden = {0}, ours = {0};
    for (int i = 20; i < 40; i++)
        put_batch_of(&batches, 100 + 3 * i, 2, 1000 + 10 * i);
    append_batches(s, &batches, INTERVAL);
    assert_ok(segment_seal(s));
    segment_unref(s);
    read_file(file_of(dir_of(state), 100, ".index"), &ours);
    assert_ok(fs_unlink(fs_system(), file_of(dir_of(state), 100, ".index")));
    struct segment_recovery result;
    assert_ok(segment_open(fs_system(), dir_of(state), 100, &s));
    assert_ok(segment_recover(s, INTERVAL, NULL, NULL, &result));
    assert_ok(segment_seal(s));
    segment_unref(s);
    read_file(file_of(dir_of(state), 100, ".index"), &golden);
    assert_int_equal(ours.len, golden.len);
    assert_memory_equal(ours.data, golden.data, golden.len);
    buf_fini(&batches);
    buf_fini(&golden);
    buf_fini(&ours);
}

static void truncating_to_nothing(void **state)
{
    uint64_t bytes, cut;
    struct segment *s = make_segment(state, &bytes);
    struct segment_position found;
    int64_t next, first;
    assert_ok(segment_first_timestamp(s, &first));
    assert_int_equal(first, 1001);
    assert_ok(segment_truncate(s, 0, &cut));
    assert_int_equal(segment_size_bytes(s), 0);
    assert_error(segment_find(s, 0, &found), ERR_NOT_FOUND);
    assert_error(segment_last_batch(s, &found), ERR_NOT_FOUND);
    assert_ok(segment_next_offset(s, &next));
    assert_int_equal(next, 100);
    assert_ok(segment_first_timestamp(s, &first));
    assert_int_equal(first, -1);
    segment_unref(s);
}

/* ---- Failed appends ---- */

struct failing_file {
    struct file file;
    struct file *inner;
    bool *fail;
};

static void failing_close(struct file *f)
{
    struct failing_file *x = (struct failing_file *)f;
    file_close(x->inner);
    mem_free(x);
}
static enum error failing_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    return file_pread(((struct failing_file *)f)->inner, out, len, pos, ret_read);
}
static enum error failing_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    struct failing_file *x = (struct failing_file *)f;
    if (!*x->fail)
        return file_pwritev(x->inner, iov, iov_count, pos);
    (void)!file_pwrite(x->inner, iov[0].iov_base, iov[0].iov_len / 2, pos); /* torn */
    return ERR_NO_SPACE;
}
static enum error failing_truncate(struct file *f, uint64_t size)
{
    return file_truncate(((struct failing_file *)f)->inner, size);
}
static enum error failing_sync(struct file *f)
{
    return file_sync(((struct failing_file *)f)->inner);
}
static enum error failing_size(struct file *f, uint64_t *ret_size)
{
    return file_size(((struct failing_file *)f)->inner, ret_size);
}
static int failing_fd(struct file *f)
{
    return -1;
}

static const struct file_ops FAILING = {failing_close, failing_pread, failing_pwritev, failing_truncate,
                                        failing_sync,  failing_size,  failing_fd,    NULL};

struct failing_fs {
    struct fs fs;
    bool fail;
};

static enum error failing_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    struct file *inner;
    enum error error = fs_open(fs_system(), path, flags, &inner);
    if (error != OK)
        return error;
    struct failing_file *x = mem_calloc(1, sizeof(*x));
    *x = (struct failing_file){{&FAILING}, inner, &((struct failing_fs *)fs)->fail};
    *ret_file = &x->file;
    return OK;
}

static void a_failed_append_is_cut_off(void **state)
{
    struct fs_ops ops = *fs_system()->ops;
    struct failing_fs fs = {{&ops}, false};
    struct segment *s;
    struct buf first = {0}, second = {0}, third = {0}, content = {0};
    struct timestamp_offset largest;
    int64_t next;
    ops.open = failing_open;
    put_batch(&first, 0, 1000, 50);
    put_batch(&second, 1, 5000, 500);
    put_batch(&third, 1, 2000, 10);
    assert_ok(segment_create(&fs.fs, dir_of(state), 0, &s));
    append_batches(s, &first, 0);
    fs.fail = true;
    struct segment_batch note = {(uint32_t)second.len, 1, 5000};
    assert_error(segment_append(s, &(struct iovec){second.data, second.len}, 1, &note, 1, 0), ERR_NO_SPACE);
    fs.fail = false;
    assert_int_equal(segment_size_bytes(s), first.len);
    assert_ok(segment_next_offset(s, &next));
    assert_int_equal(next, 1);
    assert_ok(segment_largest_timestamp(s, &largest));
    assert_int_equal(largest.timestamp, 1000);
    append_batches(s, &third, 0);
    read_file(file_of(dir_of(state), 0, ".log"), &content);
    assert_int_equal(content.len, first.len + third.len);
    assert_memory_equal(content.data + first.len, third.data, third.len);
    segment_unref(s);
    buf_fini(&first);
    buf_fini(&second);
    buf_fini(&third);
    buf_fini(&content);
}

/* ---- Files ---- */

static void removal_under_a_reader(void **state)
{
    uint64_t bytes;
    struct segment *s = make_segment(state, &bytes);
    struct buf content = {0};
    uint64_t pos;
    size_t len;
    assert_ok(segment_seal(s));
    assert_ok(segment_read(s, 100, INT64_MAX, 1000000, true, &pos, &len));
    struct segment *reader = segment_ref(s);
    assert_ok(segment_mark_deleted(s));
    assert_ok(segment_mark_deleted(s));
    assert_true(fs_exists(fs_system(), file_of(dir_of(state), 100, ".log.deleted")));
    assert_true(fs_exists(fs_system(), file_of(dir_of(state), 100, ".index.deleted")));
    assert_false(fs_exists(fs_system(), file_of(dir_of(state), 100, ".log")));
    assert_ok(segment_remove_files(s));
    assert_ok(segment_remove_files(s));
    assert_false(fs_exists(fs_system(), file_of(dir_of(state), 100, ".log.deleted")));
    segment_unref(s);
    assert_ok(segment_load(reader, pos, len, &content));
    assert_int_equal(content.len, 40 * bytes);
    segment_unref(reader);
    buf_fini(&content);
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void a_resting_segment_holds_no_file(void **state)
{
    int before = open_files();
    uint64_t bytes, pos;
    size_t len;
    struct segment *s = make_segment(state, &bytes);
    struct segment_position found;
    struct segment_time_offset time;
    assert_ok(segment_append_aborted(s, &(struct aborted_txn){1, 100, 110, 111}));
    segment_rest(s, 1); /* not while it is active */
    assert_true(open_files() > before);
    assert_ok(segment_seal(s));
    assert_ok(segment_sync(s));
    struct segment *reader = segment_ref(s);
    segment_rest(s, 1); /* not under a reader */
    assert_true(open_files() > before);
    segment_unref(reader);
    for (int i = 0; i < 2; i++) {
        segment_rest(s, 1);
        assert_int_equal(open_files(), before);
        assert_ok(segment_find(s, 200, &found));
        assert_int_equal(found.base_offset, 199);
        assert_ok(segment_read(s, 150, 160, 1000000, true, &pos, &len));
        assert_int_equal(len, 3 * bytes);
        assert_ok(segment_find_timestamp(s, 1100, 0, &time));
        assert_int_equal(time.offset, 130);
    }
    segment_rest(s, 1);
    assert_ok(segment_truncate(s, 160, &pos));
    assert_true(segment_is_active(s));
    segment_unref(s);
    assert_int_equal(open_files(), before);
}

static void creating(void **state)
{
    uint64_t bytes;
    struct segment *s = make_segment(state, &bytes), *again;
    assert_ok(segment_seal(s));
    segment_unref(s);
    assert_error(segment_create(fs_system(), dir_of(state), 100, &again), ERR_EXISTS);
    assert_error(segment_open(fs_system(), dir_of(state), 101, &again), ERR_NOT_FOUND);
    /* an empty .log with old indexes beside it, as a crash leaves it */
    write_file(file_of(dir_of(state), 100, ".log"), "", 0);
    assert_ok(segment_create(fs_system(), dir_of(state), 100, &again));
    assert_false(fs_exists(fs_system(), file_of(dir_of(state), 100, ".index")));
    assert_int_equal(segment_index_size_bytes(again), 0);
    segment_unref(again);
}

/* An entry when more than the interval lies behind the last one, not when as much does. */
static void index_interval(void **state)
{
    struct segment *s;
    struct buf batches = {0};
    assert_ok(segment_create(fs_system(), dir_of(state), 0, &s));
    for (int i = 0; i < 40; i++)
        put_batch_of(&batches, 2 * i, 2, 1000 + 10 * i);
    append_batches(s, &batches, (int64_t)batches.len / 40);
    assert_int_equal(segment_index_size_bytes(s), 19 * (8 + 12)); /* at the batches 2, 4 .. 38 */
    segment_unref(s);
    buf_fini(&batches);
}

static void limits(void **state)
{
    struct segment *s;
    assert_ok(segment_create(fs_system(), dir_of(state), 100, &s));
    assert_true(segment_fits_offset(s, 100 + (int64_t)INT32_MAX));
    assert_false(segment_fits_offset(s, 101 + (int64_t)INT32_MAX));
    assert_false(segment_fits_offset(s, 99));
    assert_false(segment_index_full(s, 24));
    assert_true(segment_index_full(s, 12)); /* the time index keeps one place free */
    assert_true(segment_index_full(s, 0));
    segment_unref(s);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(names),
    cmocka_unit_test_setup_teardown(recovery_builds_kafkas_indexes, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(appending_builds_kafkas_indexes, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_killed_kafkas_segment_opens, scratch_setup, scratch_teardown),
    cmocka_unit_test(kafkas_segment_by_time),
    cmocka_unit_test_setup_teardown(finding, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(reading, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(large_ranges_end_at_an_entry_of_the_index, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(walking, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(large_batches, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(truncating, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(truncating_to_nothing, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_failed_append_is_cut_off, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(removal_under_a_reader, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_resting_segment_holds_no_file, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(creating, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(index_interval, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(limits, scratch_setup, scratch_teardown),
};

int main(void)
{
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
