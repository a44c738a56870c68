/* The first byte chooses codec and limit, the rest is compressed data. What comes out stays within the limit, an error leaves the
 * output as it was, and what came out packs and unpacks to the same again. */
#include <string.h>

#include "base/assert.h"
#include "codec/compress.h"

static const size_t LIMITS[] = {0, 100, 100000, 1000000};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out = {0}, packed = {0}, again = {0};
    size_t limit;
    int codec;

    if (size == 0)
        return 0;
    codec = data[0] & 7;
    limit = LIMITS[data[0] >> 3 & 3];
    buf_append(&out, "front", 5);
    if (codec_decompress(codec, (struct bytes){data + 1, (int64_t)size - 1}, limit, &out) == OK) {
        struct bytes plain = {out.data + 5, (int64_t)out.len - 5};

        ASSERT((size_t)plain.len <= limit && codec < CODEC_COUNT);
        ASSERT(codec_compress(codec, CODEC_LEVEL_DEFAULT, plain, &packed) == OK);
        ASSERT(codec_decompress(codec, buf_bytes(&packed), limit, &again) == OK);
        ASSERT(again.len == (size_t)plain.len && (plain.len == 0 || memcmp(again.data, plain.p, again.len) == 0));
    } else {
        ASSERT(out.len == 5);
    }
    ASSERT(memcmp(out.data, "front", 5) == 0);
    buf_fini(&out);
    buf_fini(&packed);
    buf_fini(&again);
    return 0;
}
