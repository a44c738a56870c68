/* A growable byte buffer: owned memory, for building what is then written or copied. Not for sizes from outside that were not checked. One
 * thread at a time. Zero-initialised is empty and valid. */
#ifndef KAGAMI_BASE_BUF_H
#define KAGAMI_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct buf {
    uint8_t *data;
    size_t len;
    size_t capacity;
};

void buf_fini(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
/* Room for `more` bytes behind len; returns where they go. The caller then adds to len. */
uint8_t *buf_reserve(struct buf *b, size_t more);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_append_str(struct buf *b, struct str s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
/* The content as a terminated string; valid until the next change. */
const char *buf_cstr(struct buf *b);
static inline struct bytes buf_bytes(const struct buf *b) { return (struct bytes){b->data, (int64_t)b->len}; }
static inline struct str buf_str(const struct buf *b) { return (struct str){(const char *)b->data, (int32_t)b->len}; }

#endif
