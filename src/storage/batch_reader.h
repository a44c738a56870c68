/* Walks over the batches of a .log file, reading in large pieces: headers only, or whole batches on demand. Headers that are in one piece cost no read of their
 * own; a batch larger than the piece costs one read for the next header.
 *
 * Memory: one piece; batch_reader_load() grows it to the batch, which is bounded by what is left of the file and by LIMIT_RESPONSE_BYTES. One thread at a time. */
#ifndef KAGAMI_STORAGE_BATCH_READER_H
#define KAGAMI_STORAGE_BATCH_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "os/file.h"

#define BATCH_READER_LOOKUP_BYTES (8 * 1024) /* a lookup passes one index interval */
#define BATCH_READER_SCAN_BYTES (1024 * 1024)

struct batch_reader {
    struct file *file;
    uint64_t pos; /* of the next batch */
    uint64_t end; /* what lies behind does not exist */
    size_t piece_bytes;
    struct buf piece;
    uint64_t piece_pos;
    uint64_t batch_pos; /* of the batch that next() gave */
    uint64_t batch_bytes;
    const char *reason; /* after CORRUPT_MESSAGE, ERR_TRUNCATED, UNSUPPORTED_FOR_MESSAGE_FORMAT: static text */
};

void batch_reader_init(struct batch_reader *r, struct file *file, uint64_t pos, uint64_t end, size_t piece_bytes);
void batch_reader_fini(struct batch_reader *r);
/* Goes to the next batch: *ret_header has BATCH_OVERHEAD bytes (codec/record_batch.h), valid until the next call; r->batch_pos and batch_bytes say where it is. ERR_NOT_FOUND at
 * the end; ERR_TRUNCATED when the rest is no whole batch; CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT (pos stays in front of it). No CRC is checked. */
MUST_CHECK enum error batch_reader_next(struct batch_reader *r, const uint8_t **ret_header);
/* The whole batch that next() gave; valid until the next call. Headers given before move. */
MUST_CHECK enum error batch_reader_load(struct batch_reader *r, const uint8_t **ret_batch);

#endif
