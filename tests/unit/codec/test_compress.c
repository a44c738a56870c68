#include "golden.h"

#include <lz4frame.h>
#include <pthread.h>
#include <snappy-c.h>
#include <string.h>
#include <zstd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/compress.h"

#define CODECS 5

/* Data that compresses, with some that doesn't: a linear congruential generator in every fourth stretch. */
static struct bytes make_data(struct buf *out, size_t len)
{
    uint32_t x = 12345;

    buf_clear(out);
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        buf_putc(out, (i / 1000) % 4 == 3 ? (char)(x >> 24) : (char)(i % 13));
    }
    return (struct bytes){out->len > 0 ? out->data : (const uint8_t *)"", (int64_t)out->len};
}

static void round_trip(int codec, int level, struct bytes data)
{
    struct buf packed = {0}, plain = {0};

    buf_append(&packed, "before", 6);
    buf_append(&plain, "front", 5);
    assert_ok(codec_compress(codec, level, data, &packed));
    assert_memory_equal(packed.data, "before", 6);
    assert_int_equal(codec_decompress(codec, (struct bytes){packed.data + 6, (int64_t)packed.len - 6}, (size_t)data.len, &plain),
                     OK);
    assert_int_equal(plain.len, data.len + 5);
    assert_memory_equal(plain.data, "front", 5);
    assert_memory_equal(plain.data + 5, data.p, (size_t)data.len);
    buf_fini(&packed);
    buf_fini(&plain);
}

static void test_round_trips(void **state)
{
    static const size_t SIZES[] = {0, 1, 2, 100, 4095, 4096, 32767, 32768, 32769, 65535, 65536, 65537, 300000, 3000000};
    struct buf buf = {0};

    for (int codec = 0; codec < CODECS; codec++) {
        for (size_t i = 0; i < ARRAY_SIZE(SIZES); i++)
            round_trip(codec, CODEC_LEVEL_DEFAULT, make_data(&buf, SIZES[i]));
    }
    buf_fini(&buf);
}

static void test_levels(void **state)
{
    static const int GZIP[] = {-1, 1, 6, 9}, LZ4[] = {1, 2, 3, 9, 12, 17}, ZSTD[] = {-131072, -1, 1, 3, 19, 22};
    struct buf buf = {0};
    struct bytes data = make_data(&buf, 100000);

    for (size_t i = 0; i < ARRAY_SIZE(GZIP); i++)
        round_trip(CODEC_GZIP, GZIP[i], data);
    for (size_t i = 0; i < ARRAY_SIZE(LZ4); i++)
        round_trip(CODEC_LZ4, LZ4[i], data);
    for (size_t i = 0; i < ARRAY_SIZE(ZSTD); i++)
        round_trip(CODEC_ZSTD, ZSTD[i], data);
    assert_false(codec_level_valid(CODEC_GZIP, 0));
    assert_false(codec_level_valid(CODEC_GZIP, 10));
    assert_false(codec_level_valid(CODEC_LZ4, 0));
    assert_false(codec_level_valid(CODEC_LZ4, 18));
    assert_false(codec_level_valid(CODEC_ZSTD, 23));
    assert_false(codec_level_valid(CODEC_SNAPPY, 1));
    assert_true(codec_level_valid(CODEC_SNAPPY, CODEC_LEVEL_DEFAULT));
    buf_fini(&buf);
}

static void test_level_changes_the_size(void **state)
{
    struct buf buf = {0}, fast = {0}, best = {0};
    struct bytes data = make_data(&buf, 200000);

    assert_ok(codec_compress(CODEC_GZIP, 1, data, &fast));
    assert_ok(codec_compress(CODEC_GZIP, 9, data, &best));
    assert_true(best.len < fast.len);
    buf_fini(&buf);
    buf_fini(&fast);
    buf_fini(&best);
}

/* 64 MiB of zeroes against every limit below; the output's memory must stay near the limit. */
static void test_bombs(void **state)
{
    static const size_t LIMITS[] = {0, 1, 1000, 1000000};
    struct buf zeroes = {0};
    size_t size = 64 * 1024 * 1024;

    memset(buf_reserve(&zeroes, size), 0, size);
    zeroes.len = size;
    for (int codec = 0; codec < CODECS; codec++) {
        struct buf packed = {0};

        assert_ok(codec_compress(codec, CODEC_LEVEL_DEFAULT, buf_bytes(&zeroes), &packed));
        for (size_t i = 0; i < ARRAY_SIZE(LIMITS); i++) {
            struct buf plain = {0};

            assert_error(codec_decompress(codec, buf_bytes(&packed), LIMITS[i], &plain), ERR_TOO_LARGE);
            assert_int_equal(plain.len, 0);
            assert_true(plain.capacity <= 4 * 1024 * 1024);
            buf_fini(&plain);
        }
        buf_fini(&packed);
    }
    buf_fini(&zeroes);
}

static void test_limit_is_exact(void **state)
{
    struct buf buf = {0};
    struct bytes data = make_data(&buf, 70000);

    for (int codec = 0; codec < CODECS; codec++) {
        struct buf packed = {0}, plain = {0};

        assert_ok(codec_compress(codec, CODEC_LEVEL_DEFAULT, data, &packed));
        assert_error(codec_decompress(codec, buf_bytes(&packed), 69999, &plain), ERR_TOO_LARGE);
        assert_ok(codec_decompress(codec, buf_bytes(&packed), 70000, &plain));
        buf_fini(&packed);
        buf_fini(&plain);
    }
    buf_fini(&buf);
}

/* Every proper prefix is an error: at most snappy's framing ends cleanly between two blocks. */
static void test_truncated(void **state)
{
    struct buf buf = {0};
    struct bytes data = make_data(&buf, 40000);

    for (int codec = 1; codec < CODECS; codec++) {
        struct buf packed = {0}, plain = {0};

        assert_ok(codec_compress(codec, CODEC_LEVEL_DEFAULT, data, &packed));
        for (size_t len = 0; len < packed.len; len += len < 300 ? 1 : 97) {
            enum error error = codec_decompress(codec, (struct bytes){packed.data, (int64_t)len}, 1000000, &plain);

            if (codec == CODEC_SNAPPY && error == OK)
                assert_true(len == 16 || plain.len == 32768);
            else
                assert_error(error, ERR_CORRUPT);
            buf_clear(&plain);
        }
        buf_fini(&packed);
        buf_fini(&plain);
    }
    buf_fini(&buf);
}

/* A flipped bit is an error or, where the format has no checksum over it, other data within the limit; never a crash. gzip and
 * nothing else here has a checksum of the content. */
static void test_flipped(void **state)
{
    struct buf buf = {0};
    struct bytes data = make_data(&buf, 5000);

    for (int codec = 1; codec < CODECS; codec++) {
        struct buf packed = {0}, plain = {0};
        int refused = 0;

        assert_ok(codec_compress(codec, CODEC_LEVEL_DEFAULT, data, &packed));
        for (size_t i = 0; i < packed.len; i++) {
            enum error error;

            packed.data[i] ^= 0x10;
            error = codec_decompress(codec, buf_bytes(&packed), 6000, &plain);
            assert_true(plain.len <= 6000);
            refused += error != OK;
            if (codec == CODEC_GZIP && i >= 10)
                assert_int_not_equal(error, OK);
            packed.data[i] ^= 0x10;
            buf_clear(&plain);
        }
        assert_true(refused > 0);
        buf_fini(&packed);
        buf_fini(&plain);
    }
    buf_fini(&buf);
}

static void test_bytes_behind_the_end(void **state)
{
    struct buf buf = {0};
    struct bytes data = make_data(&buf, 100);

    for (int codec = 1; codec < CODECS; codec++) {
        struct buf packed = {0}, plain = {0};

        assert_ok(codec_compress(codec, CODEC_LEVEL_DEFAULT, data, &packed));
        buf_putc(&packed, 0);
        assert_error(codec_decompress(codec, buf_bytes(&packed), 1000, &plain), ERR_CORRUPT);
        assert_int_equal(plain.len, 0);
        buf_fini(&packed);
        buf_fini(&plain);
    }
    buf_fini(&buf);
}

static void test_streams_in_a_row(void **state)
{
    static const int CODEC[] = {CODEC_GZIP, CODEC_SNAPPY, CODEC_ZSTD};

    for (size_t i = 0; i < ARRAY_SIZE(CODEC); i++) {
        struct buf packed = {0}, plain = {0};

        assert_ok(codec_compress(CODEC[i], CODEC_LEVEL_DEFAULT, BYTES("one "), &packed));
        assert_ok(codec_compress(CODEC[i], CODEC_LEVEL_DEFAULT, BYTES("two"), &packed));
        assert_ok(codec_decompress(CODEC[i], buf_bytes(&packed), 100, &plain));
        assert_bytes(buf_bytes(&plain), "one two");
        buf_fini(&packed);
        buf_fini(&plain);
    }
}

static void test_unknown_codec(void **state)
{
    struct buf out = {0};

    for (int codec = -1; codec <= 7; codec += codec == -1 ? 6 : 1) {
        assert_error(codec_compress(codec, CODEC_LEVEL_DEFAULT, BYTES("x"), &out), ERR_UNSUPPORTED);
        assert_error(codec_decompress(codec, BYTES("x"), 10, &out), ERR_UNSUPPORTED);
        assert_string_equal(codec_name(codec), "unknown");
    }
    assert_int_equal(out.len, 0);
    buf_fini(&out);
}

static void test_names(void **state)
{
    enum codec codec = CODEC_NONE;

    assert_true(codec_parse(STR("zstd"), &codec));
    assert_int_equal(codec, CODEC_ZSTD);
    assert_false(codec_parse(STR("producer"), &codec));
    assert_false(codec_parse(STR_NULL, &codec));
    assert_int_equal(codec, CODEC_ZSTD);
    assert_string_equal(codec_name(CODEC_LZ4), "lz4");
}

static void test_snappy_raw_and_claims(void **state)
{
    struct buf buf = {0}, plain = {0};
    struct bytes data = make_data(&buf, 50000);
    char raw[65536];
    size_t len = sizeof(raw);

    assert_int_equal(snappy_compress((const char *)data.p, (size_t)data.len, raw, &len), SNAPPY_OK);
    assert_ok(codec_decompress(CODEC_SNAPPY, (struct bytes){(uint8_t *)raw, (int64_t)len}, 50000, &plain));
    assert_int_equal(plain.len, 50000);
    assert_memory_equal(plain.data, data.p, 50000);
    buf_fini(&plain);
    /* Five bytes that claim 4 GiB: refused before any memory is taken. */
    assert_error(codec_decompress(CODEC_SNAPPY, BYTES("\xff\xff\xff\xff\x0f"), SIZE_MAX / 4, &plain), ERR_CORRUPT);
    assert_int_equal(plain.capacity, 0);
    buf_fini(&buf);
}

static void test_snappy_frame_of_another_version(void **state)
{
    struct buf packed = {0}, plain = {0};

    assert_ok(codec_compress(CODEC_SNAPPY, CODEC_LEVEL_DEFAULT, BYTES("data"), &packed));
    assert_memory_equal(packed.data, "\x82SNAPPY\0\0\0\0\1\0\0\0\1", 16);
    put_i32(packed.data + 8, 0);
    assert_error(codec_decompress(CODEC_SNAPPY, buf_bytes(&packed), 100, &plain), ERR_CORRUPT);
    put_i32(packed.data + 8, 1);
    put_i32(packed.data + 16, -1); /* a block's length */
    assert_error(codec_decompress(CODEC_SNAPPY, buf_bytes(&packed), 100, &plain), ERR_CORRUPT);
    buf_fini(&packed);
    buf_fini(&plain);
}

static size_t lz4_frame(struct bytes data, const LZ4F_preferences_t *preferences, uint8_t *out, size_t room)
{
    size_t len = LZ4F_compressFrame(out, room, data.p, (size_t)data.len, preferences);

    assert_false(LZ4F_isError(len));
    return len;
}

static void test_lz4_frame_kinds(void **state)
{
    LZ4F_preferences_t preferences = LZ4F_INIT_PREFERENCES;
    struct buf buf = {0}, plain = {0};
    struct bytes data = make_data(&buf, 100000);
    static uint8_t frame[400000];
    size_t len;

    preferences.frameInfo.blockMode = LZ4F_blockIndependent;
    preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    preferences.frameInfo.blockChecksumFlag = LZ4F_blockChecksumEnabled;
    preferences.frameInfo.contentSize = 100000;
    preferences.frameInfo.blockSizeID = LZ4F_max4MB;
    len = lz4_frame(data, &preferences, frame, sizeof(frame));
    assert_ok(codec_decompress(CODEC_LZ4, (struct bytes){frame, (int64_t)len}, 100000, &plain));
    assert_memory_equal(plain.data, data.p, 100000);
    frame[len - 1] ^= 1; /* the content's checksum */
    assert_error(codec_decompress(CODEC_LZ4, (struct bytes){frame, (int64_t)len}, 100000, &plain), ERR_CORRUPT);
    preferences.frameInfo.blockMode = LZ4F_blockLinked;
    preferences.frameInfo.blockSizeID = LZ4F_max64KB;
    len = lz4_frame(data, &preferences, frame, sizeof(frame));
    assert_error(codec_decompress(CODEC_LZ4, (struct bytes){frame, (int64_t)len}, 100000, &plain), ERR_UNSUPPORTED);
    /* A skippable frame holds nothing that Kafka would read. */
    assert_error(codec_decompress(CODEC_LZ4, BYTES("\x50\x2a\x4d\x18\4\0\0\0abcd"), 100, &plain), ERR_CORRUPT);
    /* The refused frames leave nothing behind (the linked one still owed its content size). */
    buf_clear(&plain);
    round_trip(CODEC_LZ4, CODEC_LEVEL_DEFAULT, data);
    buf_fini(&buf);
    buf_fini(&plain);
}

static void test_zstd_windows(void **state)
{
    /* Frame headers without content size: window descriptors of 128 MiB (exponent 17), then of 256 MiB; one empty last block. */
    struct bytes bearable = BYTES("\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00");
    struct bytes beyond = BYTES("\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00");
    struct buf plain = {0};

    assert_ok(codec_decompress(CODEC_ZSTD, bearable, 100, &plain));
    assert_int_equal(plain.len, 0);
    assert_error(codec_decompress(CODEC_ZSTD, beyond, 100, &plain), ERR_UNSUPPORTED);
    buf_fini(&plain);
}

static void *on_a_thread(void *arg)
{
    struct bytes *data = arg;

    for (int codec = 0; codec < CODECS; codec++)
        round_trip(codec, CODEC_LEVEL_DEFAULT, *data);
    return NULL;
}

/* Contexts belong to one thread and go with it (the leak checker looks). */
static void test_threads(void **state)
{
    struct buf buf = {0};
    struct bytes data = make_data(&buf, 50000);
    pthread_t threads[3];

    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, on_a_thread, &data), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_level_changes_the_size),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_limit_is_exact),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_bytes_behind_the_end),
        cmocka_unit_test(test_streams_in_a_row),
        cmocka_unit_test(test_unknown_codec),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_snappy_raw_and_claims),
        cmocka_unit_test(test_snappy_frame_of_another_version),
        cmocka_unit_test(test_lz4_frame_kinds),
        cmocka_unit_test(test_zstd_windows),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
