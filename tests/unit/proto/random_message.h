/* Messages with pseudo-random content, for any message and version of the tables. */
#ifndef KAGAMI_TESTS_RANDOM_MESSAGE_H
#define KAGAMI_TESTS_RANDOM_MESSAGE_H

#include "proto/tables.h"

struct random {
    uint64_t state;
    struct arena *arena;
};

uint32_t random_next(struct random *r);
/* Fills every field that `version` has; the others keep their default. */
void random_message(struct random *r, const struct proto_message *message, int16_t version, void *out);

#endif
