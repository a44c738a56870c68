/* The producer state as the specification tells it, in the plainest way: replays the bytes of a log over a list. Shares nothing with producer_state.c. */
#ifndef KAGAMI_TESTS_PRODUCER_MODEL_H
#define KAGAMI_TESTS_PRODUCER_MODEL_H

#include "base/buf.h"
#include "base/str.h"

/* What describe_producers() of the fixture prints, for a log of these batches on the cluster own_cluster. */
void producer_model_describe(struct bytes log, const char *own_cluster, struct buf *out);

#endif
