#include <snappy-c.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/compress_internal.h"

static const uint8_t MAGIC[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
#define FRAME_HEADER_BYTES 16
#define FRAME_VERSION 1
#define BLOCK_BYTES 32768
/* No element of the format yields more than 64 bytes from 3: a claim of more is damage. This bounds what a claim can cost. */
#define MAX_RATIO 22

enum error snappy_frame_compress(struct bytes in, struct buf *out)
{
    uint8_t *header = buf_reserve(out, FRAME_HEADER_BYTES);

    memcpy(header, MAGIC, sizeof(MAGIC));
    put_i32(header + 8, FRAME_VERSION);
    put_i32(header + 12, FRAME_VERSION);
    out->len += FRAME_HEADER_BYTES;
    for (int64_t pos = 0; pos < in.len; pos += BLOCK_BYTES) {
        size_t bytes = (size_t)MIN(in.len - pos, BLOCK_BYTES);
        size_t room = snappy_max_compressed_length(bytes);
        uint8_t *p = buf_reserve(out, 4 + room);

        ASSERT(snappy_compress((const char *)in.p + pos, bytes, (char *)p + 4, &room) == SNAPPY_OK);
        put_i32(p, (int32_t)room);
        out->len += 4 + room;
    }
    return OK;
}

static enum error raw_block(const uint8_t *p, size_t len, struct output *out)
{
    size_t claimed;
    enum error error;
    uint8_t *to;

    if (snappy_uncompressed_length((const char *)p, len, &claimed) != SNAPPY_OK || claimed / MAX_RATIO > len)
        return ERR_CORRUPT;
    error = output_block(out, claimed, &to);
    if (error != OK)
        return error;
    if (snappy_uncompress((const char *)p, len, (char *)to, &claimed) != SNAPPY_OK)
        return ERR_CORRUPT;
    return output_wrote(out, claimed);
}

/* snappy-java lets streams follow each other: a header may stand wherever a block may. */
static bool frame_header(const uint8_t *p, int64_t left)
{
    return left >= FRAME_HEADER_BYTES && memcmp(p, MAGIC, sizeof(MAGIC)) == 0;
}

enum error snappy_frame_decompress(struct bytes in, struct output *out)
{
    const uint8_t *p = in.p;
    int64_t left = in.len;

    if (!frame_header(p, left))
        return raw_block(p, (size_t)left, out);
    while (left > 0) {
        int32_t block;
        enum error error;

        if (frame_header(p, left)) {
            if (get_i32(p + 8) < FRAME_VERSION)
                return ERR_CORRUPT;
            p += FRAME_HEADER_BYTES;
            left -= FRAME_HEADER_BYTES;
            continue;
        }
        if (left < 4)
            return ERR_CORRUPT;
        block = get_i32(p);
        if (block < 0 || block > left - 4)
            return ERR_CORRUPT;
        error = raw_block(p + 4, (size_t)block, out);
        if (error != OK)
            return error;
        p += 4 + block;
        left -= 4 + block;
    }
    return OK;
}
