/* bytes, arena, chain, crc32c, clock, hooks: what is made of memory. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/chain.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/hooks.h"

static void varints_round_trip(void **state)
{
    static const int64_t values[] = {0, -1, 1, 63, -64, 64, 8191, -8193, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    uint8_t out[VARLONG_MAX];
    int64_t l;
    int32_t v;

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        int used = put_varlong(out, values[i]);
        assert_int_equal(uvarlong_size(zigzag64(values[i])), used);
        assert_int_equal(get_varlong(out, out + used, &l), used);
        assert_true(l == values[i]);
        assert_int_equal(get_varlong(out, out + used - 1, &l), 0); /* cut short */
        if (values[i] >= INT32_MIN && values[i] <= INT32_MAX) {
            assert_int_equal(put_varint(out, (int32_t)values[i]), used);
            assert_int_equal(get_varint(out, out + used, &v), used);
            assert_int_equal(v, values[i]);
        }
    }
}

static void overlong_varints_are_refused(void **state)
{
    static const uint8_t ff[11] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const uint8_t bits33[] = {0xff, 0xff, 0xff, 0xff, 0x1f}, bits65[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03};
    uint32_t v;
    uint64_t l;

    assert_int_equal(get_uvarint(ff, ff + sizeof(ff), &v), 0);
    assert_int_equal(get_uvarlong(ff, ff + sizeof(ff), &l), 0);
    assert_int_equal(get_uvarint(bits33, bits33 + sizeof(bits33), &v), 0);
    assert_int_equal(get_uvarlong(bits65, bits65 + sizeof(bits65), &l), 0);
    assert_int_equal(get_uvarint(ff, ff, &v), 0);
}

static void an_arena_keeps_its_limit(void **state)
{
    struct arena a;

    arena_init(&a, 100000);
    for (int i = 0; i < 10; i++) {
        char *p = arena_alloc(&a, 5000);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        memset(p, i, 5000);
    }
    assert_null(arena_alloc(&a, 60000));
    assert_null(arena_calloc(&a, SIZE_MAX / 2, 4));
    assert_non_null(arena_alloc(&a, 40000));
    assert_null(arena_alloc(&a, 20000));
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 90000));
    assert_true(str_is(arena_printf(&a, "%s-%d", "topic", 7), "topic-7"));
    assert_null(arena_str(&a, STR_NULL).p);
    arena_fini(&a);
}

static void count_release(void *arg) { ++*(int *)arg; }

static void a_chain_keeps_order_and_releases(void **state)
{
    char path[] = "/tmp/kagami-chain-XXXXXX";
    int fd = mkstemp(path), released = 0;
    struct chain c, d;
    struct buf out = {0};

    assert_int_equal(write(fd, "0123456789", 10), 10);
    unlink(path);
    chain_init(&c);
    chain_init(&d);
    chain_append(&c, "head ", 5);
    uint8_t *patch = chain_extend(&c, 4);
    chain_append_ref(&c, "ref ", 4, count_release, &released);
    chain_append_file(&d, fd, 3, 4, count_release, &released);
    chain_append(&d, " tail", 5);
    chain_append_ref(&d, "", 0, count_release, &released); /* empty: released at once */
    assert_int_equal(released, 1);
    chain_splice(&c, &d);
    memcpy(patch, "len ", 4);
    assert_int_equal(c.len, 22);
    assert_int_equal(d.len, 0);
    assert_ok(chain_read(&c, &out));
    assert_string_equal(buf_cstr(&out), "head len ref 3456 tail");
    chain_consume(&c, 11); /* into the referenced piece */
    buf_clear(&out);
    assert_ok(chain_read(&c, &out));
    assert_string_equal(buf_cstr(&out), "f 3456 tail");
    assert_int_equal(released, 1);
    chain_consume(&c, 4); /* into the file range */
    assert_int_equal(released, 2);
    buf_clear(&out);
    assert_ok(chain_read(&c, &out));
    assert_string_equal(buf_cstr(&out), "56 tail");
    for (int i = 0; i < 3000; i++)
        chain_append(&c, "block", 5);
    assert_int_equal(c.len, 7 + 15000);
    chain_consume(&c, c.len);
    assert_true(TAILQ_EMPTY(&c.pieces));
    assert_int_equal(released, 3);
    chain_append_ref(&c, "x", 1, count_release, &released);
    chain_fini(&c);
    assert_int_equal(released, 4);
    chain_fini(&d);
    buf_fini(&out);
    close(fd);
}

/* Bit by bit, from the polynomial: the plainest definition. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *p, size_t len)
{
    crc = ~crc;
    for (; len > 0; p++, len--) {
        crc ^= *p;
        for (int i = 0; i < 8; i++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static void crc32c_is_castagnoli(void **state)
{
    static uint8_t data[5000];

    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283); /* the check value of the published parameters */
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t len = 0; len < sizeof(data); len += len < 300 ? 1 : 997) {
        assert_int_equal(crc32c(0, data, len), slow_crc(0, data, len));
        assert_int_equal(crc32c(crc32c(0, data, len / 3), data + len / 3, len - len / 3), slow_crc(0, data, len));
    }
}

static void a_manual_clock_stands_still(void **state)
{
    struct manual_clock m;

    manual_clock_init(&m, 1000);
    assert_int_equal(clock_wall_ms(&m.clock), 1000);
    int64_t before = clock_mono_ns(&m.clock);
    manual_clock_advance(&m, 5);
    assert_int_equal(clock_wall_ms(&m.clock), 1005);
    assert_int_equal(clock_mono_ns(&m.clock) - before, 5000000);
}

static void switches_are_off_until_set(void **state)
{
#if KAGAMI_TEST_HOOKS
    assert_false(hook_switch("some-switch"));
    hook_switch_set("some-switch", true);
    assert_true(TEST_SWITCH("some-switch"));
    hook_switch_set("some-switch", false);
    assert_false(TEST_SWITCH("some-switch"));
#else
    assert_false(TEST_SWITCH("some-switch"));
#endif
    FAULT_POINT("not-asked-for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints_round_trip),        cmocka_unit_test(overlong_varints_are_refused),
        cmocka_unit_test(an_arena_keeps_its_limit),  cmocka_unit_test(a_chain_keeps_order_and_releases),
        cmocka_unit_test(crc32c_is_castagnoli),      cmocka_unit_test(a_manual_clock_stands_still),
        cmocka_unit_test(switches_are_off_until_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
