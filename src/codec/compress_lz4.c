#include "base/assert.h"
#include "codec/compress_internal.h"

/* Kafka's default level, 9, is its fast compressor, every other one its high compressor. liblz4's fast one is 0. */
#define KAFKA_DEFAULT_LEVEL 9

enum error lz4_compress(int level, struct bytes in, struct buf *out)
{
    struct codec_thread *t = codec_thread();
    LZ4F_preferences_t preferences = LZ4F_INIT_PREFERENCES;
    size_t room, used;
    uint8_t *p;

    preferences.frameInfo.blockSizeID = LZ4F_max64KB; /* as Kafka writes */
    preferences.frameInfo.blockMode = LZ4F_blockIndependent;
    preferences.compressionLevel = level == CODEC_LEVEL_DEFAULT || level == KAFKA_DEFAULT_LEVEL ? 0 : level;
    if (t->lz4_cctx == NULL)
        ASSERT(!LZ4F_isError(LZ4F_createCompressionContext(&t->lz4_cctx, LZ4F_VERSION)));
    room = LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound((size_t)in.len, &preferences);
    p = buf_reserve(out, room);
    used = LZ4F_compressBegin(t->lz4_cctx, p, room, &preferences);
    ASSERT(!LZ4F_isError(used));
    for (int step = 0; step < 2; step++) {
        size_t more = step == 0 ? LZ4F_compressUpdate(t->lz4_cctx, p + used, room - used, in.p, (size_t)in.len, NULL)
                                : LZ4F_compressEnd(t->lz4_cctx, p + used, room - used, NULL);

        ASSERT(!LZ4F_isError(more));
        used += more;
    }
    out->len += used;
    return OK;
}

static enum error read_frame(LZ4F_dctx *dctx, struct bytes in, struct output *out)
{
    LZ4F_frameInfo_t info;
    size_t pos = (size_t)in.len;
    size_t hint = LZ4F_getFrameInfo(dctx, &info, in.p, &pos);

    if (LZ4F_isError(hint) || info.frameType != LZ4F_frame)
        return ERR_CORRUPT;
    if (info.blockMode != LZ4F_blockIndependent)
        return ERR_UNSUPPORTED;
    for (;;) {
        size_t used = (size_t)in.len - pos, room;
        uint8_t *to = output_room(out, &room);
        size_t offered = room;
        enum error error;

        hint = LZ4F_decompress(dctx, to, &room, in.p + pos, &used, NULL);
        if (LZ4F_isError(hint))
            return ERR_CORRUPT;
        pos += used;
        error = output_wrote(out, room);
        if (error != OK)
            return error;
        if (hint == 0) /* the frame is complete, its checksum right */
            return pos == (size_t)in.len ? OK : ERR_CORRUPT;
        if (used == 0 && room < offered && pos == (size_t)in.len)
            return ERR_CORRUPT;
    }
}

enum error lz4_decompress(struct bytes in, struct output *out)
{
    struct codec_thread *t = codec_thread();
    enum error error;

    if (t->lz4_dctx == NULL)
        ASSERT(!LZ4F_isError(LZ4F_createDecompressionContext(&t->lz4_dctx, LZ4F_VERSION)));
    error = read_frame(t->lz4_dctx, in, out);
    if (error != OK) {
        /* liblz4 1.9.4's reset keeps the content size that an unfinished frame still owed, and holds the next frame to it. */
        LZ4F_freeDecompressionContext(t->lz4_dctx);
        t->lz4_dctx = NULL;
    }
    return error;
}
