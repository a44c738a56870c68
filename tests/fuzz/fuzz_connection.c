/* What a stranger's bytes do on a connection: frames, then request headers. The same stream cut in two ways gives the same
 * frames and the same end, and the memory for a frame follows what has come. Input: size of the reads, then the stream. */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "net/frame.h"
#include "proto/messages.h"
#include "proto/proto.h"

#define LIMIT_BYTES (1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct source {
    struct transport transport; /* first */
    const uint8_t *p;
    size_t len, pos, per_read;
};

static enum error source_readv(struct transport *t, const struct iovec *iov, int iov_count, size_t *ret_read)
{
    struct source *s = (struct source *)t;
    size_t left = MIN(s->per_read, s->len - s->pos), got = 0;
    if (left == 0)
        return ERR_CLOSED;
    for (int i = 0; i < iov_count && left > 0; i++) {
        size_t part = MIN(iov[i].iov_len, left);
        memcpy(iov[i].iov_base, s->p + s->pos, part);
        s->pos += part;
        got += part;
        left -= part;
    }
    *ret_read = got;
    return OK;
}

/* Where the frames end and how the stream does, read off the whole of it. */
static enum error expected_frame(const uint8_t *p, size_t left, size_t *ret_len)
{
    if (left < 4)
        return ERR_CLOSED;
    int32_t len = get_i32(p);
    if (len < 0)
        return ERR_MALFORMED;
    if (len > LIMIT_BYTES)
        return ERR_TOO_LARGE;
    if ((size_t)len > left - 4)
        return ERR_CLOSED;
    *ret_len = (size_t)len;
    return OK;
}

static void look_at_header(const uint8_t *frame, size_t len)
{
    struct request_header header;
    const struct proto_api *api;
    size_t used = 0;
    if (proto_decode_request_header((struct bytes){frame, (int64_t)len}, &header, &api, &used) == OK)
        ASSERT(used <= len && api != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct transport_ops ops = {.readv = source_readv};
    static uint8_t scratch[FRAME_SCRATCH_BYTES];
    if (size < 2)
        return 0;
    struct source s = {
        .transport = {.ops = &ops, .fd = -1}, .p = data + 2, .len = size - 2, .per_read = (size_t)get_u16(data) + 1};
    struct frame_reader r;
    frame_reader_init(&r, LIMIT_BYTES);
    size_t pos = 0;
    for (;;) {
        uint8_t *frame;
        size_t len, got;
        enum error e = frame_reader_next(&r, &s.transport, scratch, &frame, &len, &got);
        ASSERT(r.data == NULL || r.capacity <= MAX(2 * r.got, (size_t)FRAME_EAGER_BYTES));
        if (e == ERR_NOT_FOUND)
            continue; /* a short read */
        size_t expected_len = 0;
        ASSERT(e == expected_frame(s.p + pos, s.len - pos, &expected_len));
        if (e != OK)
            break;
        ASSERT(len == expected_len && memcmp(frame, s.p + pos + 4, len) == 0);
        pos += 4 + len;
        look_at_header(frame, len);
        mem_free(frame);
    }
    frame_reader_fini(&r);
    return 0;
}
