/* Assertions that stay on in release builds, and the allocator.
 *
 * An assertion states what this program guarantees by itself; what comes from outside is checked and answered with an error. A failed
 * one prints file, line and text and aborts: start-up after a crash needs no hand, a wrong log does. Any thread. */
#ifndef KAGAMI_BASE_ASSERT_H
#define KAGAMI_BASE_ASSERT_H

#include <stddef.h>

#define ASSERT(condition)                                                                                                        \
    do {                                                                                                                         \
        if (__builtin_expect(!(condition), 0))                                                                                   \
            assert_failed(__FILE__, __LINE__, #condition);                                                                       \
    } while (0)
#define UNREACHABLE() assert_failed(__FILE__, __LINE__, "unreachable")

_Noreturn void assert_failed(const char *file, int line, const char *text);

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Memory whose size this program chose or checked against a limit: never NULL, ends the process when there is none. mem_free
 * takes NULL. mem_calloc zeroes and checks count * size for overflow. */
void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_calloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_realloc(void *p, size_t size) __attribute__((returns_nonnull));
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull));
void mem_free(void *p);

#endif
