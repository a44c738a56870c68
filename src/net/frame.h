/* Cuts a byte stream into Kafka's frames: int32 length, then that many bytes. For both sides of a connection.
 *
 * Small frames are read many at once into a scratch buffer that connections share, and copied to memory of their exact size;
 * of a larger one the rest is read straight into its place. Behind a large frame another one of its size is expected: memory is
 * there before its length is, and nothing of it is copied. Memory follows what has come (at most twice of it above
 * FRAME_EAGER_BYTES), never what a length promises. What came behind a frame is kept until the next one is asked for: at most
 * FRAME_EAGER_BYTES. One thread at a time. */
#ifndef KAGAMI_NET_FRAME_H
#define KAGAMI_NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/transport.h"

#define FRAME_SCRATCH_BYTES (64 * 1024)
#define FRAME_EAGER_BYTES (256 * 1024)
#define FRAME_LARGE_BYTES (16 * 1024)

struct frame_reader {
    size_t limit_bytes;
    uint8_t length[4];
    uint32_t length_got;
    uint8_t *data; /* NULL until the length is known */
    size_t size, got, capacity;
    uint8_t *behind; /* bytes behind the frame; NULL: none */
    size_t behind_pos, behind_len;
    size_t last_size; /* of the frame before */
    bool short_read;  /* the last one */
};

void frame_reader_init(struct frame_reader *r, size_t limit_bytes);
void frame_reader_fini(struct frame_reader *r);
/* Goes on to read; scratch has FRAME_SCRATCH_BYTES and holds nothing between calls. OK: a whole frame, owned by the caller
 * (mem_free). ERR_NOT_FOUND: more has to come. ERR_CLOSED: the peer closed. ERR_MALFORMED: a negative length. ERR_TOO_LARGE:
 * above the limit. After another error than ERR_NOT_FOUND the stream is of no more use. *ret_read: bytes taken off the
 * transport, in every case. */
MUST_CHECK enum error frame_reader_next(struct frame_reader *r, struct transport *t, uint8_t *scratch, uint8_t **ret_data,
                                        size_t *ret_len, size_t *ret_read);
/* The last read did not fill its room, and nothing of it is left: the transport has to become readable before another one finds something. */
bool frame_reader_drained(const struct frame_reader *r);
/* Whether a frame has begun to come (a peer that closes now cuts it). */
bool frame_reader_inside(const struct frame_reader *r);

#endif
