/* What differs between two record batches that should be the same bytes. Any thread. */
#ifndef KAGAMI_TOOLS_BATCH_COMPARE_H
#define KAGAMI_TOOLS_BATCH_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

struct batch_difference {
    const char *field;           /* Kafka's name of it: "partitionLeaderEpoch"; "records" for the bytes behind the header */
    int64_t offset;              /* base offset of the batch (the lower one when these differ) */
    int64_t source, destination; /* values of the field; for records the position of the first byte that differs */
};

/* Whole batches with sound headers. True: they are equal to the byte. */
bool batch_compare(const uint8_t *source, const uint8_t *destination, struct batch_difference *ret_difference);

#endif
