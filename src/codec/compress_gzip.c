#include "base/assert.h"
#include "codec/compress_internal.h"

#define GZIP_WINDOW_BITS (15 + 16) /* + 16: a gzip header, and nothing else */
#define GZIP_MEM_LEVEL 8           /* zlib's default */

static z_stream *deflater(int level)
{
    struct codec_thread *t = codec_thread();

    if (t->deflater != NULL && t->deflater_level == level) {
        ASSERT(deflateReset(t->deflater) == Z_OK);
        return t->deflater;
    }
    if (t->deflater != NULL)
        deflateEnd(t->deflater);
    else
        t->deflater = mem_calloc(1, sizeof(*t->deflater));
    *t->deflater = (z_stream){0};
    ASSERT(deflateInit2(t->deflater, level, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEM_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK);
    t->deflater_level = level;
    return t->deflater;
}

enum error gzip_compress(int level, struct bytes in, struct buf *out)
{
    z_stream *z = deflater(level == CODEC_LEVEL_DEFAULT ? Z_DEFAULT_COMPRESSION : level);
    size_t room = deflateBound(z, (uLong)in.len);

    z->next_in = (Bytef *)(uintptr_t)in.p;
    z->avail_in = (uInt)in.len;
    z->next_out = buf_reserve(out, room);
    z->avail_out = (uInt)room;
    ASSERT(deflate(z, Z_FINISH) == Z_STREAM_END);
    out->len += room - z->avail_out;
    return OK;
}

static z_stream *inflater(void)
{
    struct codec_thread *t = codec_thread();

    if (t->inflater != NULL) {
        ASSERT(inflateReset(t->inflater) == Z_OK);
        return t->inflater;
    }
    t->inflater = mem_calloc(1, sizeof(*t->inflater));
    ASSERT(inflateInit2(t->inflater, GZIP_WINDOW_BITS) == Z_OK);
    return t->inflater;
}

enum error gzip_decompress(struct bytes in, struct output *out)
{
    z_stream *z = inflater();

    z->next_in = (Bytef *)(uintptr_t)in.p;
    z->avail_in = (uInt)in.len;
    for (;;) {
        size_t room;
        enum error error;
        int status;

        z->next_out = output_room(out, &room);
        z->avail_out = (uInt)room;
        status = inflate(z, Z_NO_FLUSH);
        error = output_wrote(out, room - z->avail_out);
        if (error != OK)
            return error;
        if (status == Z_STREAM_END) {
            if (z->avail_in == 0)
                return OK;
            ASSERT(inflateReset(z) == Z_OK); /* the next member */
        } else if (status != Z_OK) {
            return ERR_CORRUPT; /* Z_BUF_ERROR: no progress, the input ends too early */
        }
    }
}
