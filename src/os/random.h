/* Random numbers behind a vtable: the system's, or a seeded sequence that a test replays. */
#ifndef KAGAMI_OS_RANDOM_H
#define KAGAMI_OS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random_source {
    void (*fill)(struct random_source *r, void *out, size_t len);
};

struct random_source *random_system(void); /* getrandom(2); any thread; static */

struct seeded_random { /* splitmix64; one thread at a time */
    struct random_source source;
    uint64_t state;
};
void seeded_random_init(struct seeded_random *r, uint64_t seed);

static inline void random_fill(struct random_source *r, void *out, size_t len)
{
    r->fill(r, out, len);
}
uint64_t random_u64(struct random_source *r);
uint64_t random_below(struct random_source *r, uint64_t bound); /* 0 .. bound-1, bound > 0 */

#endif
