#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void buf_fini(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b) { b->len = 0; }

uint8_t *buf_reserve(struct buf *b, size_t more)
{
    ASSERT(more <= SIZE_MAX / 2 - b->len);
    if (b->len + more > b->capacity) {
        size_t capacity = MAX(b->capacity * 2, 64);
        b->capacity = MAX(capacity, b->len + more);
        b->data = mem_realloc(b->data, b->capacity);
    }
    return b->len > 0 ? b->data + b->len : b->data; /* no offset to NULL: an empty buffer that was asked for 0 bytes */
}

void buf_append(struct buf *b, const void *data, size_t len)
{
    if (len == 0)
        return;
    memcpy(buf_reserve(b, len), data, len);
    b->len += len;
}

void buf_append_str(struct buf *b, struct str s) { buf_append(b, s.p, (size_t)s.len); }

void buf_putc(struct buf *b, char c) { buf_append(b, &c, 1); }

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(len >= 0);
    buf_reserve(b, (size_t)len + 1);
    va_start(args, format);
    vsnprintf((char *)b->data + b->len, (size_t)len + 1, format, args);
    va_end(args);
    b->len += (size_t)len;
}

const char *buf_cstr(struct buf *b)
{
    *buf_reserve(b, 1) = '\0';
    return (const char *)b->data;
}
