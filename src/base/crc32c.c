/* Measured: isa-l's folding kernel 56 GB/s at 1 MiB but 7.7 at 64 B; the SSE4.2 instruction in a loop 13.7 at 64 B. */
#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <isa-l/crc.h>
#include <nmmintrin.h>

#define SHORT_RUN 256

__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t len)
{
    uint64_t c = crc;

    for (; len >= 8; p += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        c = _mm_crc32_u64(c, word);
    }
    for (; len > 0; p++, len--)
        c = _mm_crc32_u8((uint32_t)c, *p);
    return (uint32_t)c;
}
#endif

#define CASTAGNOLI_REFLECTED 0x82f63b78u

static uint32_t crc_table(uint32_t crc, const uint8_t *p, size_t len)
{
    static const uint32_t nibble[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };

    for (; len > 0; p++, len--) {
        crc ^= *p;
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

#if defined(__x86_64__)
    static int have_sse42 = -1; /* the same answer from every thread: a race on it is harmless, but say so to the tools */
    int have = __atomic_load_n(&have_sse42, __ATOMIC_RELAXED);
    if (have < 0) {
        have = __builtin_cpu_supports("sse4.2") != 0;
        __atomic_store_n(&have_sse42, have, __ATOMIC_RELAXED);
    }
    if (have) {
        if (len <= SHORT_RUN)
            return ~crc_sse42(~crc, p, len);
        while (len > SHORT_RUN) { /* isa-l takes an int */
            int part = len > 0x40000000 ? 0x40000000 : (int)len;
            crc = ~crc32_iscsi((unsigned char *)p, part, ~crc);
            p += part;
            len -= (size_t)part;
        }
        return ~crc_sse42(~crc, p, len);
    }
#endif
    return ~crc_table(~crc, p, len);
}
