#include "seeds.h"

#include <stdlib.h>

#include "codec/record_batch.h"

#ifndef SEEDS_DIVISOR
#define SEEDS_DIVISOR 1 /* more in builds that are slow */
#endif

void each_seed(uint64_t usual, void (*run)(uint64_t seed))
{
    const char *one = getenv("KAGAMI_SEED"), *count = getenv("KAGAMI_SEEDS");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t last = one != NULL ? first : count != NULL ? strtoull(count, NULL, 10) : usual / SEEDS_DIVISOR;
    for (uint64_t seed = first; seed <= last; seed++)
        run(seed);
}

const char *trouble_text(enum trouble trouble)
{
    static const char *const TEXTS[] = {"power cut", "kill", "EIO", "failed sync", "ENOSPC", "full disk", "none"};
    return TEXTS[trouble];
}

struct bytes batches_from(struct bytes bytes, int64_t offset)
{
    struct batch_iter it;
    const uint8_t *b;
    batch_iter_init(&it, bytes);
    while (batch_iter_next(&it, &b) == BATCH_FOUND)
        if (batch_last_offset(b) >= offset)
            return (struct bytes){b, bytes.len - (b - bytes.p)};
    return (struct bytes){NULL, 0};
}

int64_t batches_end(struct bytes bytes, int64_t when_empty)
{
    struct batch_iter it;
    const uint8_t *b;
    int64_t end = when_empty;
    batch_iter_init(&it, bytes);
    while (batch_iter_next(&it, &b) == BATCH_FOUND)
        end = batch_next_offset(b);
    return end;
}
