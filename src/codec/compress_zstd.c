#include <zstd_errors.h>

#include "base/assert.h"
#include "codec/compress_internal.h"

#define KAFKA_DEFAULT_LEVEL 3
#define MAX_WINDOW_LOG 27 /* 128 MiB; the memory is taken lazily by the system, and not kept (CODEC_KEEP_CONTEXT_BYTES) */

enum error zstd_compress(int level, struct bytes in, struct buf *out)
{
    struct codec_thread *t = codec_thread();
    size_t room = ZSTD_compressBound((size_t)in.len), used;

    if (t->zstd_cctx == NULL) {
        t->zstd_cctx = ZSTD_createCCtx();
        ASSERT(t->zstd_cctx != NULL);
    }
    used = ZSTD_compressCCtx(t->zstd_cctx, buf_reserve(out, room), room, in.p, (size_t)in.len,
                             level == CODEC_LEVEL_DEFAULT ? KAFKA_DEFAULT_LEVEL : level);
    ASSERT(!ZSTD_isError(used)); /* the room is enough, the level valid; only memory can be short */
    out->len += used;
    if (ZSTD_sizeof_CCtx(t->zstd_cctx) > CODEC_KEEP_CONTEXT_BYTES) {
        ZSTD_freeCCtx(t->zstd_cctx);
        t->zstd_cctx = NULL;
    }
    return OK;
}

static enum error read_frames(ZSTD_DCtx *dctx, struct bytes in, struct output *out)
{
    ZSTD_inBuffer from = {.src = in.p, .size = (size_t)in.len};

    for (;;) {
        size_t room, hint;
        uint8_t *p = output_room(out, &room);
        ZSTD_outBuffer to = {.dst = p, .size = room};
        enum error error;

        hint = ZSTD_decompressStream(dctx, &to, &from);
        if (ZSTD_isError(hint)) {
            ZSTD_ErrorCode code = ZSTD_getErrorCode(hint);

            return code == ZSTD_error_frameParameter_windowTooLarge || code == ZSTD_error_memory_allocation ? ERR_UNSUPPORTED
                                                                                                            : ERR_CORRUPT;
        }
        error = output_wrote(out, to.pos);
        if (error != OK)
            return error;
        if (from.pos < from.size)
            continue;
        if (hint == 0) /* a frame ends with the input */
            return OK;
        if (to.pos < to.size) /* nothing is held back for want of room: the input is cut short */
            return ERR_CORRUPT;
    }
}

enum error zstd_decompress(struct bytes in, struct output *out)
{
    struct codec_thread *t = codec_thread();
    enum error error;

    if (in.len == 0)
        return ERR_CORRUPT;
    if (t->zstd_dctx == NULL) {
        t->zstd_dctx = ZSTD_createDCtx();
        ASSERT(t->zstd_dctx != NULL);
        ASSERT(!ZSTD_isError(ZSTD_DCtx_setParameter(t->zstd_dctx, ZSTD_d_windowLogMax, MAX_WINDOW_LOG)));
    }
    error = read_frames(t->zstd_dctx, in, out);
    if (ZSTD_sizeof_DCtx(t->zstd_dctx) > CODEC_KEEP_CONTEXT_BYTES) {
        ZSTD_freeDCtx(t->zstd_dctx);
        t->zstd_dctx = NULL;
    } else {
        ASSERT(!ZSTD_isError(ZSTD_DCtx_reset(t->zstd_dctx, ZSTD_reset_session_only)));
    }
    return error;
}
