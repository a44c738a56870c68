/* Partitions as requests name them: which are named twice, is one among them. For requests whose work must grow with what they ask and not with its square. */
#ifndef KAGAMI_SERVER_NAMED_H
#define KAGAMI_SERVER_NAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct named {
    struct str topic;
    int32_t partition;
    bool *twice; /* may be NULL */
};

void named_sort(struct named *named, size_t count);
/* Sorts, and sets *twice of each that stands there more than once. */
void named_mark_twice(struct named *named, size_t count);
/* In a sorted array. */
bool named_has(const struct named *named, size_t count, struct str topic, int32_t partition);

#endif
