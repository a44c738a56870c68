/* Record batches as Apache Kafka writes them (golden.c, made by GoldenBatches.java), and small helpers of this folder's tests. */
#ifndef KAGAMI_TESTS_CODEC_GOLDEN_H
#define KAGAMI_TESTS_CODEC_GOLDEN_H

#include "base/buf.h"
#include "unit.h"

struct golden {
    const char *name;
    const char *hex;
};
extern const struct golden GOLDEN[];
extern const int GOLDEN_COUNT;

/* Appends the named batch to *out; returns where it begins (valid until the next change of *out). */
uint8_t *golden_load(const char *name, struct buf *out);

#define assert_bytes(b, text)                                                                                                    \
    do {                                                                                                                         \
        struct bytes bytes_ = (b);                                                                                               \
        assert_non_null(bytes_.p);                                                                                               \
        assert_int_equal(bytes_.len, sizeof(text) - 1);                                                                          \
        assert_memory_equal(bytes_.p, text, sizeof(text) - 1);                                                                   \
    } while (0)
#define BYTES(text) ((struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

#endif
