#include "tools/partitioner.h"

#define MURMUR2_SEED 0x9747b28cu
#define MURMUR2_MULTIPLIER 0x5bd1e995u
#define MURMUR2_SHIFT 24

uint32_t murmur2(struct bytes data)
{
    uint32_t hash = MURMUR2_SEED ^ (uint32_t)data.len;
    int64_t whole = data.len & ~INT64_C(3);
    for (int64_t i = 0; i < whole; i += 4) {
        uint32_t k =
            (uint32_t)data.p[i] | (uint32_t)data.p[i + 1] << 8 | (uint32_t)data.p[i + 2] << 16 | (uint32_t)data.p[i + 3] << 24;
        k *= MURMUR2_MULTIPLIER;
        k ^= k >> MURMUR2_SHIFT;
        hash = (hash * MURMUR2_MULTIPLIER) ^ (k * MURMUR2_MULTIPLIER);
    }
    for (int64_t i = data.len - 1; i >= whole; i--)
        hash ^= (uint32_t)data.p[i] << (8 * (i - whole));
    if (whole < data.len)
        hash *= MURMUR2_MULTIPLIER;
    hash ^= hash >> 13;
    hash *= MURMUR2_MULTIPLIER;
    return hash ^ hash >> 15;
}

int32_t partition_for_key(struct bytes key, int32_t partitions)
{
    return (int32_t)(murmur2(key) & 0x7fffffffu) % partitions;
}
