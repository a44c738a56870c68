#include "storage/batch_reader.h"

#include "base/assert.h"
#include "base/limits.h"
#include "codec/record_batch.h"

void batch_reader_init(struct batch_reader *r, struct file *file, uint64_t pos, uint64_t end, size_t piece_bytes)
{
    ASSERT(piece_bytes >= BATCH_OVERHEAD);
    *r = (struct batch_reader){.file = file, .pos = pos, .end = end, .piece_bytes = piece_bytes};
}

void batch_reader_fini(struct batch_reader *r)
{
    buf_fini(&r->piece);
}

/* len bytes at pos, all of them before the end, in one run of memory. */
static enum error have(struct batch_reader *r, uint64_t pos, size_t len, const uint8_t **ret_data)
{
    if (pos >= r->piece_pos && pos + len <= r->piece_pos + r->piece.len) {
        *ret_data = r->piece.data + (pos - r->piece_pos);
        return OK;
    }
    size_t want = (size_t)MIN(r->end - pos, (uint64_t)MAX(len, r->piece_bytes));
    buf_clear(&r->piece);
    size_t got = 0;
    enum error error = file_pread(r->file, buf_reserve(&r->piece, want), want, pos, &got);
    if (error != OK)
        return error;
    r->piece.len = got;
    r->piece_pos = pos;
    if (got < len) {
        r->reason = "the file ends inside a batch";
        return ERR_TRUNCATED;
    }
    *ret_data = r->piece.data;
    return OK;
}

enum error batch_reader_next(struct batch_reader *r, const uint8_t **ret_header)
{
    if (r->pos >= r->end)
        return ERR_NOT_FOUND;
    uint64_t left = r->end - r->pos;
    if (left < BATCH_MAGIC_END) {
        r->reason = "the file ends inside a batch header";
        return ERR_TRUNCATED;
    }
    const uint8_t *header;
    enum error error = have(r, r->pos, (size_t)MIN(left, (uint64_t)BATCH_OVERHEAD), &header);
    if (error != OK)
        return error;
    int64_t bytes;
    error = batch_check_header(header, (size_t)MIN(left, (uint64_t)BATCH_OVERHEAD), &bytes);
    if (error != OK) {
        r->reason = error == UNSUPPORTED_FOR_MESSAGE_FORMAT ? "a message format before v2" : "length or magic that cannot be";
        return error;
    }
    if ((uint64_t)bytes > left) {
        r->reason = "the file ends inside a batch";
        return ERR_TRUNCATED;
    }
    r->batch_pos = r->pos;
    r->batch_bytes = (uint64_t)bytes;
    r->pos += (uint64_t)bytes;
    *ret_header = header;
    return OK;
}

enum error batch_reader_load(struct batch_reader *r, const uint8_t **ret_batch)
{
    if (r->batch_bytes > LIMIT_RESPONSE_BYTES) {
        r->reason = "a batch above the size limit";
        return ERR_TOO_LARGE;
    }
    return have(r, r->batch_pos, (size_t)r->batch_bytes, ret_batch);
}
