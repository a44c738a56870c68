#include "codec/compress.h"

#include <pthread.h>

#include "base/assert.h"
#include "codec/compress_internal.h"

/* More room than this is never offered at once: the step doubles with what was really produced. */
#define OUTPUT_STEP_MIN ((size_t)4096)
#define OUTPUT_STEP_MAX ((size_t)1024 * 1024)

static const char *const NAMES[CODEC_COUNT] = {"none", "gzip", "snappy", "lz4", "zstd"};

const char *codec_name(int codec)
{
    return codec >= 0 && codec < CODEC_COUNT ? NAMES[codec] : "unknown";
}

bool codec_parse(struct str name, enum codec *ret_codec)
{
    for (int i = 0; i < CODEC_COUNT; i++) {
        if (str_is(name, NAMES[i])) {
            *ret_codec = (enum codec)i;
            return true;
        }
    }
    return false;
}

bool codec_level_valid(enum codec codec, int level)
{
    if (level == CODEC_LEVEL_DEFAULT)
        return true;
    switch (codec) {
    case CODEC_GZIP:
        return level == -1 || (level >= 1 && level <= 9);
    case CODEC_LZ4:
        return level >= 1 && level <= 17;
    case CODEC_ZSTD:
        return level >= -131072 && level <= 22;
    default:
        return false;
    }
}

/* ---- Contexts of a thread ---- */

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void thread_free(void *arg)
{
    struct codec_thread *t = arg;

    if (t->inflater != NULL)
        inflateEnd(t->inflater);
    mem_free(t->inflater);
    if (t->deflater != NULL)
        deflateEnd(t->deflater);
    mem_free(t->deflater);
    LZ4F_freeDecompressionContext(t->lz4_dctx);
    LZ4F_freeCompressionContext(t->lz4_cctx);
    ZSTD_freeDCtx(t->zstd_dctx);
    ZSTD_freeCCtx(t->zstd_cctx);
    mem_free(t);
}

static void thread_key_make(void)
{
    ASSERT(pthread_key_create(&thread_key, thread_free) == 0);
}

struct codec_thread *codec_thread(void)
{
    struct codec_thread *t;

    pthread_once(&thread_once, thread_key_make);
    t = pthread_getspecific(thread_key);
    if (t == NULL) {
        t = mem_calloc(1, sizeof(*t));
        ASSERT(pthread_setspecific(thread_key, t) == 0);
    }
    return t;
}

/* ---- Bounded output ---- */

uint8_t *output_room(struct output *o, size_t *ret_room)
{
    size_t left = o->limit - (o->buf->len - o->start);

    *ret_room = left >= o->step ? o->step : left + 1;
    return buf_reserve(o->buf, *ret_room);
}

enum error output_wrote(struct output *o, size_t bytes)
{
    o->buf->len += bytes;
    o->step = MIN(MAX(o->step, o->buf->len - o->start), OUTPUT_STEP_MAX);
    return o->buf->len - o->start > o->limit ? ERR_TOO_LARGE : OK;
}

enum error output_block(struct output *o, size_t bytes, uint8_t **ret_p)
{
    if (bytes > o->limit - (o->buf->len - o->start))
        return ERR_TOO_LARGE;
    *ret_p = buf_reserve(o->buf, bytes);
    return OK;
}

/* ---- The two entries ---- */

enum error codec_compress(int codec, int level, struct bytes in, struct buf *out)
{
    size_t start = out->len;
    enum error error;

    if (codec < 0 || codec >= CODEC_COUNT)
        return ERR_UNSUPPORTED;
    ASSERT(codec_level_valid((enum codec)codec, level));
    if (in.len > LIMIT_DECOMPRESSED_BYTES)
        return ERR_TOO_LARGE;
    switch (codec) {
    case CODEC_GZIP:
        error = gzip_compress(level, in, out);
        break;
    case CODEC_SNAPPY:
        error = snappy_frame_compress(in, out);
        break;
    case CODEC_LZ4:
        error = lz4_compress(level, in, out);
        break;
    case CODEC_ZSTD:
        error = zstd_compress(level, in, out);
        break;
    default:
        buf_append(out, in.p, (size_t)in.len);
        error = OK;
    }
    if (error != OK)
        out->len = start;
    return error;
}

enum error codec_decompress(int codec, struct bytes in, size_t limit_bytes, struct buf *out)
{
    struct output o = {.buf = out, .start = out->len, .limit = limit_bytes};
    enum error error;

    if (codec < 0 || codec >= CODEC_COUNT)
        return ERR_UNSUPPORTED;
    if (in.len > INT32_MAX)
        return ERR_TOO_LARGE;
    o.step = MIN(MAX((size_t)in.len * 4, OUTPUT_STEP_MIN), OUTPUT_STEP_MAX);
    switch (codec) {
    case CODEC_GZIP:
        error = gzip_decompress(in, &o);
        break;
    case CODEC_SNAPPY:
        error = snappy_frame_decompress(in, &o);
        break;
    case CODEC_LZ4:
        error = lz4_decompress(in, &o);
        break;
    case CODEC_ZSTD:
        error = zstd_decompress(in, &o);
        break;
    default:
        if ((size_t)in.len > limit_bytes)
            return ERR_TOO_LARGE;
        buf_append(out, in.p, (size_t)in.len);
        return OK;
    }
    if (error != OK)
        out->len = o.start;
    return error;
}
