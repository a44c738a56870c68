/* The partition around the log of a walk. */
#ifndef KAGAMI_TESTS_REPLICA_H
#define KAGAMI_TESTS_REPLICA_H

#include "walk.h"

void replica_start(struct walk *w); /* this walk is one over a partition */
void replica_open(struct walk *w);  /* around w->log */
void replica_close(struct walk *w); /* nothing without one */
/* The model's HW becomes the partition's, if that is what it may be. */
void replica_follow_hw(struct walk *w);

/* b->durable_first is set. */
enum error replica_append_client(struct walk *w, struct validated *v, struct model_batch *b, struct plog_appended *ret_appended,
                                 struct problem *problem);
enum error replica_append_copied(struct walk *w, struct bytes chunk, int32_t max_epoch, struct plog_appended *ret_appended,
                                 struct problem *problem);
void replica_set_epoch(struct walk *w, int32_t epoch);
/* Steps. */
void replica_disk(struct walk *w);
void replica_flush(struct walk *w);
void replica_flip(struct walk *w);
void replica_stop(struct walk *w);

#endif
