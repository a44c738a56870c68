#include "os/random.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"

static void system_fill(struct random_source *r, void *out, size_t len)
{
    char *p = out;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        ASSERT(n > 0 || (n < 0 && errno == EINTR));
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
}

struct random_source *random_system(void)
{
    static struct random_source system = {.fill = system_fill};
    return &system;
}

/* splitmix64 (Steele, Lea, Flood 2014): one addition and three xor-shift-multiplies a number, every seed has the full period. */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

static void seeded_fill(struct random_source *r, void *out, size_t len)
{
    struct seeded_random *seeded = (struct seeded_random *)r;
    char *p = out;
    while (len > 0) {
        uint64_t v = splitmix64(&seeded->state);
        size_t n = MIN(len, sizeof(v));
        memcpy(p, &v, n);
        p += n;
        len -= n;
    }
}

void seeded_random_init(struct seeded_random *r, uint64_t seed)
{
    *r = (struct seeded_random){.source = {.fill = seeded_fill}, .state = seed};
}

uint64_t random_u64(struct random_source *r)
{
    uint64_t v;
    random_fill(r, &v, sizeof(v));
    return v;
}

uint64_t random_below(struct random_source *r, uint64_t bound)
{
    ASSERT(bound > 0);
    /* The numbers below 2^64 mod bound are drawn again: what is left is a multiple of bound, so that no value comes more often.
     */
    uint64_t refused = -bound % bound;
    uint64_t v;
    do
        v = random_u64(r);
    while (v < refused);
    return v % bound;
}
