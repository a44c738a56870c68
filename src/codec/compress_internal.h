/* Between compress.c and the four files of the codecs: the bounded output and the per-thread contexts. */
#ifndef KAGAMI_CODEC_COMPRESS_INTERNAL_H
#define KAGAMI_CODEC_COMPRESS_INTERNAL_H

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include "codec/compress.h"

/* Contexts of one thread, made on first use. */
struct codec_thread {
    z_stream *inflater;
    z_stream *deflater;
    int deflater_level;
    LZ4F_dctx *lz4_dctx;
    LZ4F_cctx *lz4_cctx;
    ZSTD_DCtx *zstd_dctx;
    ZSTD_CCtx *zstd_cctx;
};
struct codec_thread *codec_thread(void);

/* A context above this is not kept: an unusual window or level should not cost memory for the rest of the thread's life. */
#define CODEC_KEEP_CONTEXT_BYTES ((size_t)8 * 1024 * 1024)

/* Decompressed bytes, appended to buf, `limit` of them at most. */
struct output {
    struct buf *buf;
    size_t start; /* buf->len at the beginning */
    size_t limit;
    size_t step; /* room to offer next */
};
/* Where the next bytes go, *ret_room >= 1 of them. It goes one byte beyond the limit, so that output_wrote() sees an overrun. */
uint8_t *output_room(struct output *o, size_t *ret_room);
/* ERR_TOO_LARGE when the limit is passed. */
MUST_CHECK enum error output_wrote(struct output *o, size_t bytes);
/* For codecs that announce a block's size and have proved it bearable. ERR_TOO_LARGE when it would not fit. */
MUST_CHECK enum error output_block(struct output *o, size_t bytes, uint8_t **ret_p);

enum error gzip_compress(int level, struct bytes in, struct buf *out);
enum error gzip_decompress(struct bytes in, struct output *out);
enum error snappy_frame_compress(struct bytes in, struct buf *out);
enum error snappy_frame_decompress(struct bytes in, struct output *out);
enum error lz4_compress(int level, struct bytes in, struct buf *out);
enum error lz4_decompress(struct bytes in, struct output *out);
enum error zstd_compress(int level, struct bytes in, struct buf *out);
enum error zstd_decompress(struct bytes in, struct output *out);

#endif
