/* Frames cut out of a stream, and chains written to one. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "fake_transport.h"
#include "net/frame.h"

static uint8_t scratch[FRAME_SCRATCH_BYTES];

static void add_frame(struct buf *b, size_t len, uint8_t seed)
{
    uint8_t *p = buf_reserve(b, len + 4);
    put_u32(p, (uint32_t)len);
    for (size_t i = 0; i < len; i++)
        p[4 + i] = (uint8_t)(seed + i * 31 + (i >> 8));
    b->len += len + 4;
}

/* Reads `expected` frames out of the stream, in reads of at most per_read bytes, and compares all that comes. */
static void read_all(const struct buf *stream, size_t per_read, int expected)
{
    struct fake_transport t;
    struct frame_reader r;
    fake_transport_init(&t, stream->data, stream->len);
    t.per_read = per_read;
    frame_reader_init(&r, 4 << 20);
    size_t pos = 0, in = 0;
    int frames = 0;
    while (frames < expected) {
        uint8_t *data;
        size_t len, got;
        enum error e = frame_reader_next(&r, &t.transport, scratch, &data, &len, &got);
        in += got;
        if (e == ERR_NOT_FOUND)
            continue;
        assert_ok(e);
        assert_int_equal(len, get_u32(stream->data + pos));
        assert_memory_equal(data, stream->data + pos + 4, len);
        pos += 4 + len;
        frames++;
        free(data);
    }
    assert_int_equal(pos, stream->len);
    assert_int_equal(in, stream->len);
    assert_false(frame_reader_inside(&r));
    frame_reader_fini(&r);
    transport_close(&t.transport);
}

static void frames_come_whole_wherever_the_stream_is_cut(void **state)
{
    struct buf b = {0};
    static const size_t sizes[] = {10, 0, 1, 300, 4, 0, 65};
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        add_frame(&b, sizes[i], (uint8_t)(i * 50));
    for (size_t per_read = 1; per_read <= b.len; per_read++)
        read_all(&b, per_read, ARRAY_SIZE(sizes));
    buf_fini(&b);
}

static void large_frames_with_others_behind_them(void **state)
{
    struct buf b = {0};
    add_frame(&b, 5, 1);
    add_frame(&b, 3 << 20, 2);
    add_frame(&b, 70000, 3);
    add_frame(&b, FRAME_EAGER_BYTES, 4);
    add_frame(&b, FRAME_EAGER_BYTES + 1, 5);
    for (int i = 0; i < 100; i++)
        add_frame(&b, 3000, (uint8_t)i);
    static const size_t cuts[] = {1000, 65535, 65536, 65537, 300000, SIZE_MAX};
    for (size_t i = 0; i < ARRAY_SIZE(cuts); i++)
        read_all(&b, cuts[i], 105);
    buf_fini(&b);
}

static void memory_follows_what_has_come(void **state)
{
    uint8_t *stream = calloc(1, 1 << 20);
    struct fake_transport t;
    struct frame_reader r;
    uint8_t *data;
    size_t len, got;
    put_u32(stream, 100 << 20);
    fake_transport_init(&t, stream, 8); /* four bytes of a hundred million */
    frame_reader_init(&r, 200 << 20);
    assert_error(frame_reader_next(&r, &t.transport, scratch, &data, &len, &got), ERR_NOT_FOUND);
    assert_int_equal(got, 8);
    assert_int_equal(r.capacity, FRAME_EAGER_BYTES);
    t.in_len = 1 << 20;
    assert_error(frame_reader_next(&r, &t.transport, scratch, &data, &len, &got), ERR_NOT_FOUND);
    assert_int_equal(r.got, (1 << 20) - 4);
    assert_true(r.capacity < 2 * r.got + FRAME_EAGER_BYTES);
    assert_true(frame_reader_inside(&r));
    frame_reader_fini(&r);
    transport_close(&t.transport);
    free(stream);
}

static void hostile_lengths_end_the_stream(void **state)
{
    static const struct {
        uint32_t length;
        enum error expected;
    } table[] = {
        {0xffffffffU, ERR_MALFORMED}, {0x80000000U, ERR_MALFORMED}, {0x7fffffffU, ERR_TOO_LARGE},
        {1001, ERR_TOO_LARGE},        {1000, ERR_NOT_FOUND},        {0x47455420U /* "GET " */, ERR_TOO_LARGE},
    };
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        for (size_t per_read = 1; per_read <= 5; per_read++) {
            uint8_t stream[10] = {0};
            struct fake_transport t;
            struct frame_reader r;
            uint8_t *data;
            size_t len, got;
            enum error e;
            put_u32(stream, table[i].length);
            fake_transport_init(&t, stream, sizeof(stream));
            t.per_read = per_read;
            frame_reader_init(&r, 1000);
            do
                e = frame_reader_next(&r, &t.transport, scratch, &data, &len, &got);
            while (e == ERR_NOT_FOUND && t.in_pos < t.in_len);
            assert_error(e, table[i].expected);
            frame_reader_fini(&r);
            transport_close(&t.transport);
        }
    }
}

static void a_closed_stream_is_told(void **state)
{
    struct buf b = {0};
    struct fake_transport t;
    struct frame_reader r;
    uint8_t *data;
    size_t len, got;
    add_frame(&b, 10, 1);
    add_frame(&b, 10, 2);
    fake_transport_init(&t, b.data, b.len - 1);
    t.at_end = ERR_CLOSED;
    frame_reader_init(&r, 1000);
    assert_ok(frame_reader_next(&r, &t.transport, scratch, &data, &len, &got)); /* what came before the end counts */
    free(data);
    enum error e;
    do
        e = frame_reader_next(&r, &t.transport, scratch, &data, &len, &got);
    while (e == ERR_NOT_FOUND);
    assert_error(e, ERR_CLOSED);
    assert_true(frame_reader_inside(&r));
    frame_reader_fini(&r);
    transport_close(&t.transport);
    buf_fini(&b);
}

static int releases;
static void release(void *arg)
{
    releases++;
}

static void chains_are_written_through_any_small_window(void **state)
{
    FILE *f = tmpfile();
    for (int i = 0; i < 1000; i++)
        fputc('A' + i % 26, f);
    fflush(f);
    for (size_t window = 1; window < 700; window += window < 20 ? 1 : 97) {
        struct chain c;
        struct buf expected = {0};
        struct fake_transport t;
        chain_init(&c);
        fake_transport_init(&t, NULL, 0);
        t.per_write = window;
        releases = 0;
        chain_append(&c, "header", 6);
        chain_append_file(&c, fileno(f), 100, 333, release, NULL);
        for (int i = 0; i < 100; i++)
            chain_append_ref(&c, "piece of memory", 15, release, NULL);
        chain_append_file(&c, fileno(f), 0, 1, release, NULL);
        chain_append(&c, "end", 3);
        assert_ok(chain_read(&c, &expected));
        size_t written, total = 0;
        enum error e;
        t.per_write = 0;
        assert_error(transport_write_chain(&t.transport, &c, 100, NULL, &written), ERR_NOT_FOUND);
        assert_int_equal(written, 0);
        t.per_write = window;
        do {
            e = transport_write_chain(&t.transport, &c, 64, NULL, &written);
            assert_true(written <= 64 + MIN(window, (size_t)15 * 64));
            total += written;
        } while (e == ERR_NOT_FOUND);
        assert_ok(e);
        assert_int_equal(total, expected.len);
        assert_int_equal(t.out.len, expected.len);
        assert_memory_equal(t.out.data, expected.data, expected.len);
        assert_int_equal(releases, 102);
        assert_true(t.more_writes > 0);
        assert_int_equal(c.len, 0);
        chain_fini(&c);
        buf_fini(&expected);
        transport_close(&t.transport);
    }
    fclose(f);
}

static void a_file_that_ends_early_is_an_error(void **state)
{
    FILE *f = tmpfile();
    fputs("short", f);
    fflush(f);
    struct chain c;
    struct fake_transport t;
    size_t written;
    chain_init(&c);
    chain_append(&c, "x", 1);
    chain_append_file(&c, fileno(f), 3, 10, NULL, NULL);
    fake_transport_init(&t, NULL, 0);
    assert_error(transport_write_chain(&t.transport, &c, 1000, NULL, &written), ERR_TRUNCATED);
    assert_int_equal(written, 1);
    chain_fini(&c);
    transport_close(&t.transport);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_whole_wherever_the_stream_is_cut),
        cmocka_unit_test(large_frames_with_others_behind_them),
        cmocka_unit_test(memory_follows_what_has_come),
        cmocka_unit_test(hostile_lengths_end_the_stream),
        cmocka_unit_test(a_closed_stream_is_told),
        cmocka_unit_test(chains_are_written_through_any_small_window),
        cmocka_unit_test(a_file_that_ends_early_is_an_error),
    };
    return cmocka_run_group_tests_name("net/frame", tests, NULL, NULL);
}
