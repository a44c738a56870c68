#include "base/assert.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void assert_failed(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, text);
    abort();
}

static void *checked(void *p, size_t size)
{
    if (p == NULL) {
        fprintf(stderr, "out of memory: %zu bytes are not to be had\n", size);
        abort();
    }
    return p;
}

void *mem_alloc(size_t size) { return checked(malloc(size > 0 ? size : 1), size); }

void *mem_calloc(size_t count, size_t size)
{
    ASSERT(size == 0 || count <= SIZE_MAX / size);
    return checked(calloc(count > 0 ? count : 1, size > 0 ? size : 1), count * size);
}

void *mem_realloc(void *p, size_t size) { return checked(realloc(p, size > 0 ? size : 1), size); }

char *mem_strdup(const char *s)
{
    size_t size = strlen(s) + 1;

    return memcpy(mem_alloc(size), s, size);
}

void mem_free(void *p) { free(p); }
