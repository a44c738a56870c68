/* The model (model.h) fed with the bytes of a log, for tests that have nothing else. */
#ifndef KAGAMI_TESTS_PRODUCER_MODEL_H
#define KAGAMI_TESTS_PRODUCER_MODEL_H

#include "base/buf.h"
#include "base/str.h"
#include "model.h"

/* A whole batch as the model sees it; without its records and bytes. */
void model_read_batch(const uint8_t *batch, const char *own_cluster, struct model_batch *ret_batch);
/* What describe_producers() of the storage units' fixture prints, for a log of these batches on the cluster own_cluster. */
void producer_model_describe(struct bytes log, const char *own_cluster, struct buf *out);

#endif
