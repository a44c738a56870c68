/* Arena: memory that lives and dies together, such as one request's. Blocks grow by doubling; nothing is freed singly. One thread at a
 * time. `limit_bytes` bounds what one arena may take in all: beyond it arena_alloc returns NULL, so that a decoder that allocates by
 * counts from outside fails with an error. */
#ifndef KAGAMI_BASE_ARENA_H
#define KAGAMI_BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    char *next, *end;           /* free part of the newest block */
    size_t used_bytes, limit_bytes;
};

void arena_init(struct arena *a, size_t limit_bytes); /* takes no memory until the first use */
void arena_fini(struct arena *a);
void arena_reset(struct arena *a); /* keeps one block */
/* Aligned for any type, not zeroed. NULL above the limit. size 0 gives a valid pointer. */
void *arena_alloc(struct arena *a, size_t size);
/* count * size, zeroed; NULL on overflow or above the limit. */
void *arena_calloc(struct arena *a, size_t count, size_t size);
/* Copies; a view with p NULL means above the limit (or a null source). */
struct str arena_str(struct arena *a, struct str s);
struct str arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
