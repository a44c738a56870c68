#include "base/arena.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/assert.h"

#define ARENA_FIRST_BLOCK 2048
#define ARENA_LARGEST_BLOCK (256 * 1024)

struct arena_block {
    struct arena_block *older;
    size_t size;
    _Alignas(max_align_t) char data[];
};

void arena_init(struct arena *a, size_t limit_bytes) { *a = (struct arena){.limit_bytes = limit_bytes}; }

void arena_fini(struct arena *a)
{
    for (struct arena_block *b = a->blocks; b != NULL;) {
        struct arena_block *older = b->older;
        mem_free(b);
        b = older;
    }
    *a = (struct arena){.limit_bytes = a->limit_bytes};
}

/* Keeps the oldest block, which is the smallest: an arena that served one huge request must not stay huge. */
void arena_reset(struct arena *a)
{
    struct arena_block *keep = a->blocks;

    if (keep == NULL)
        return;
    while (keep->older != NULL) {
        struct arena_block *older = keep->older;
        mem_free(keep);
        keep = older;
    }
    if (keep->size > ARENA_LARGEST_BLOCK) {
        arena_fini(a);
        return;
    }
    a->blocks = keep;
    a->next = keep->data;
    a->end = keep->data + keep->size;
    a->used_bytes = 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    void *p;

    if (size > a->limit_bytes - a->used_bytes)
        return NULL;
    size = (size + align - 1) & ~(align - 1);
    if (a->blocks == NULL || size > (size_t)(a->end - a->next)) {
        size_t block = a->blocks == NULL ? ARENA_FIRST_BLOCK : MIN(a->blocks->size * 2, ARENA_LARGEST_BLOCK);
        block = MAX(block, size);
        struct arena_block *b = mem_alloc(sizeof(*b) + block);
        b->older = a->blocks;
        b->size = block;
        a->blocks = b;
        a->next = b->data;
        a->end = b->data + block;
    }
    p = a->next;
    a->next += size;
    a->used_bytes += MIN(size, a->limit_bytes - a->used_bytes);
    return p;
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
    size_t total;
    void *p;

    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    p = arena_alloc(a, total);
    return p != NULL ? memset(p, 0, total) : NULL;
}

struct str arena_str(struct arena *a, struct str s)
{
    char *copy;

    if (s.p == NULL || (copy = arena_alloc(a, (size_t)s.len + 1)) == NULL)
        return STR_NULL;
    if (s.len > 0)
        memcpy(copy, s.p, (size_t)s.len);
    copy[s.len] = '\0';
    return (struct str){copy, s.len};
}

struct str arena_printf(struct arena *a, const char *format, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0 || (text = arena_alloc(a, (size_t)len + 1)) == NULL)
        return STR_NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return (struct str){text, len};
}
