/* Offset, time and transaction index: layouts, lookups, truncation, zero tails, damage. The bytes are held against Kafka's in test_segment.c. */
#include "store_help.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "storage/offset_index.h"

#define BASE 1000

static const char *file_in(void **state, const char *name)
{
    return path_in(((struct scratch *)*state)->dir, name);
}

static void offset_layout_and_lookup(void **state)
{
    static const uint8_t BYTES[] = {0, 0, 0, 5, 0, 0, 0, 100, 0, 0, 0, 9, 0, 0, 1, 0};
    static const struct {
        int64_t offset, expected;
        uint64_t pos;
    } LOOKUPS[] = {{0, BASE, 0},      {1004, BASE, 0},   {1005, 1005, 100},
                   {1008, 1005, 100}, {1009, 1009, 256}, {INT64_MAX, 1009, 256}};
    const char *path = file_in(state, "o.index");
    struct offset_index x;
    struct offset_position found;
    struct buf content = {0};
    offset_index_init(&x, fs_system(), path, BASE);
    assert_ok(offset_index_last(&x, &found));
    assert_int_equal(found.offset, BASE);
    assert_ok(offset_index_append(&x, 1005, 100));
    assert_error(offset_index_append(&x, 1005, 200), ERR_INVALID);
    assert_error(offset_index_append(&x, BASE + (1LL << 31), 200), ERR_INVALID);
    assert_error(offset_index_append(&x, BASE - 1, 200), ERR_INVALID);
    assert_ok(offset_index_append(&x, 1009, 256));
    for (int sealed = 0; sealed < 2; sealed++) {
        for (size_t i = 0; i < ARRAY_SIZE(LOOKUPS); i++) {
            assert_ok(offset_index_lookup(&x, LOOKUPS[i].offset, &found));
            assert_int_equal(found.offset, LOOKUPS[i].expected);
            assert_int_equal(found.pos, LOOKUPS[i].pos);
        }
        assert_ok(offset_index_lookup_pos(&x, 255, &found));
        assert_int_equal(found.pos, 100);
        assert_ok(offset_index_lookup_pos(&x, 99, &found));
        assert_int_equal(found.pos, 0);
        assert_ok(index_file_seal(&x.file, true));
    }
    read_file(path, &content);
    assert_int_equal(content.len, sizeof(BYTES));
    assert_memory_equal(content.data, BYTES, sizeof(BYTES));
    assert_ok(offset_index_truncate(&x, 1009));
    assert_ok(index_file_flush(&x.file, true));
    read_file(path, &content);
    assert_int_equal(content.len, 8);
    buf_fini(&content);
    offset_index_fini(&x);
}

/* More entries than a block, read back through blocks and written block by block. */
static void many_entries(void **state)
{
    const char *path = file_in(state, "many.index");
    struct offset_index x;
    struct offset_position found;
    offset_index_init(&x, fs_system(), path, BASE);
    for (int i = 0; i < 5000; i++)
        assert_ok(offset_index_append(&x, BASE + 3 * i + 1, (uint64_t)i * 10 + 10));
    assert_true(fs_exists(fs_system(), path)); /* full blocks were written before the end */
    assert_ok(index_file_seal(&x.file, true));
    assert_ok(index_file_sync(&x.file));
    offset_index_fini(&x);
    offset_index_init(&x, fs_system(), path, BASE);
    for (int i = 0; i < 5000; i += 7) {
        assert_ok(offset_index_lookup(&x, BASE + 3 * i + 2, &found));
        assert_int_equal(found.offset, BASE + 3 * i + 1);
        assert_int_equal(found.pos, i * 10 + 10);
    }
    assert_ok(offset_index_check(&x, 60000));
    assert_error(offset_index_check(&x, 50000), ERR_CORRUPT); /* points behind the log */
    offset_index_fini(&x);
}

static void time_layout_and_lookup(void **state)
{
    static const uint8_t BYTES[] = {0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 7};
    const char *path = file_in(state, "t.timeindex");
    struct time_index x;
    struct timestamp_offset found;
    struct buf content = {0};
    time_index_init(&x, fs_system(), path, BASE);
    assert_ok(time_index_append(&x, -1, BASE)); /* no timestamp: nothing to say */
    assert_ok(time_index_append(&x, 50, 1003));
    assert_ok(time_index_append(&x, 50, 1006)); /* not newer */
    assert_ok(time_index_append(&x, 40, 1007));
    assert_error(time_index_append(&x, 60, 1002), ERR_INVALID);
    assert_ok(time_index_append(&x, 256, 1007));
    for (int sealed = 0; sealed < 2; sealed++) {
        assert_ok(time_index_lookup(&x, 49, &found));
        assert_int_equal(found.timestamp, -1);
        assert_int_equal(found.offset, BASE);
        assert_ok(time_index_lookup(&x, 255, &found));
        assert_int_equal(found.offset, 1003);
        assert_ok(time_index_last(&x, &found));
        assert_int_equal(found.timestamp, 256);
        assert_ok(index_file_seal(&x.file, true));
    }
    read_file(path, &content);
    assert_int_equal(content.len, sizeof(BYTES));
    assert_memory_equal(content.data, BYTES, sizeof(BYTES));
    assert_ok(time_index_truncate(&x, 1007));
    assert_ok(time_index_last(&x, &found));
    assert_int_equal(found.timestamp, 50);
    buf_fini(&content);
    time_index_fini(&x);
}

struct collected {
    int count;
    int64_t firsts[8];
};

static void collect(void *arg, const struct aborted_txn *txn)
{
    struct collected *c = arg;
    c->firsts[c->count++] = txn->first_offset;
}

static void transactions(void **state)
{
    const char *path = file_in(state, "x.txnindex");
    struct txn_index x;
    static const struct aborted_txn TXNS[] = {{1, 1000, 1010, 1005}, {2, 1005, 1020, 1021}, {3, 1030, 1040, 1041}};
    static const struct {
        int64_t from, upper;
        int count;
        bool complete;
    } TABLE[] = {
        {1000, 1001, 1, true},  {1011, 1012, 1, true},  {1021, 1022, 0, true}, {1000, 2000, 3, false},
        {1011, 2000, 2, false}, {1041, 2000, 0, false}, {1000, 1005, 1, true}, {1000, 1006, 2, true},
    };
    bool complete;
    txn_index_init(&x, fs_system(), path, BASE);
    struct collected none = {0};
    assert_ok(txn_index_collect(&x, 0, 5000, collect, &none, &complete));
    assert_int_equal(none.count, 0);
    assert_false(complete);
    for (size_t i = 0; i < ARRAY_SIZE(TXNS); i++)
        assert_ok(txn_index_append(&x, &TXNS[i]));
    assert_error(txn_index_append(&x, &TXNS[0]), ERR_INVALID);
    for (int sealed = 0; sealed < 2; sealed++) {
        for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
            struct collected c = {0};
            assert_ok(txn_index_collect(&x, TABLE[i].from, TABLE[i].upper, collect, &c, &complete));
            if (c.count != TABLE[i].count || complete != TABLE[i].complete)
                fail_msg("row %zu: %d, %d", i, c.count, complete);
        }
        assert_ok(index_file_seal(&x.file, false));
    }
    assert_ok(txn_index_check(&x));
    assert_ok(txn_index_truncate(&x, 1020));
    struct collected left = {0};
    assert_ok(txn_index_collect(&x, 0, 5000, collect, &left, &complete));
    assert_int_equal(left.count, 1);
    txn_index_fini(&x);

    txn_index_init(&x, fs_system(), file_in(state, "none.txnindex"), BASE);
    assert_ok(index_file_make_writable(&x.file));
    assert_ok(index_file_seal(&x.file, false));
    assert_false(fs_exists(fs_system(), file_in(state, "none.txnindex"))); /* no transaction, no file */
    txn_index_fini(&x);
}

/* A preallocated file, as Kafka leaves it when it is killed. */
static void a_tail_of_zeroes_is_cut_off(void **state)
{
    const char *path = file_in(state, "zero.index");
    uint8_t bytes[4096] = {0};
    put_u32(bytes, 4);
    put_u32(bytes + 4, 300);
    put_u32(bytes + 8, 9);
    put_u32(bytes + 12, 700);
    write_file(path, bytes, sizeof(bytes));
    struct offset_index x;
    struct offset_position last;
    struct buf content = {0};
    offset_index_init(&x, fs_system(), path, BASE);
    assert_ok(offset_index_last(&x, &last));
    assert_int_equal(last.offset, 1009);
    assert_ok(offset_index_append(&x, 1010, 800));
    assert_ok(index_file_seal(&x.file, true));
    read_file(path, &content);
    assert_int_equal(content.len, 24);
    offset_index_fini(&x);
    /* preallocated to a size that is no multiple, nothing in it */
    memset(bytes, 0, sizeof(bytes));
    write_file(path, bytes, 4095);
    offset_index_init(&x, fs_system(), path, BASE);
    assert_ok(offset_index_check(&x, 100));
    assert_int_equal(x.file.count, 0);
    buf_fini(&content);
    offset_index_fini(&x);
}

static void damage(void **state)
{
    const char *path = file_in(state, "bad");
    static const struct {
        uint8_t bytes[34];
        size_t len;
        int kind; /* 0 offset, 1 time, 2 transaction */
    } TABLE[] = {
        {{0, 0, 0, 1, 0, 0, 0, 1, 9}, 9, 0},                                                     /* torn */
        {{0x80, 0, 0, 1, 0, 0, 0, 1}, 8, 0},                                                     /* below the base */
        {{0, 0, 0, 1, 0x80, 0, 0, 1}, 8, 0},                                                     /* negative position */
        {{0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2}, 16, 0},                               /* offsets fall */
        {{0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 2}, 16, 0},                               /* positions fall */
        {{0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 1}, 13, 1},                                        /* torn */
        {{0, 0, 0, 0, 0, 0, 0, 9, 0x80, 0, 0, 1}, 12, 1},                                        /* below the base */
        {{0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 2}, 24, 1},       /* time falls */
        {{0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1}, 11, 1},                                           /* torn */
        {{0, 0, 1}, 3, 2},                                                                       /* torn */
        {{0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0}, 34, 2}, /* another version */
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5}, 34, 2}, /* before the segment */
    };
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        struct offset_index o;
        struct time_index t;
        struct txn_index x;
        write_file(path, TABLE[i].bytes, TABLE[i].len);
        offset_index_init(&o, fs_system(), path, BASE);
        time_index_init(&t, fs_system(), path, BASE);
        txn_index_init(&x, fs_system(), path, BASE);
        enum error error = TABLE[i].kind == 0   ? offset_index_check(&o, 1000)
                           : TABLE[i].kind == 1 ? time_index_check(&t)
                                                : txn_index_check(&x);
        if (error != ERR_CORRUPT)
            fail_msg("row %zu: %s", i, error_name(error));
        offset_index_fini(&o);
        time_index_fini(&t);
        txn_index_fini(&x);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup_teardown(offset_layout_and_lookup, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(many_entries, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(time_layout_and_lookup, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(transactions, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(a_tail_of_zeroes_is_cut_off, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(damage, scratch_setup, scratch_teardown),
};

int main(void)
{
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
