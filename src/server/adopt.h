/* What a start does to metadata by what it finds in the log directory. */
#ifndef KAGAMI_SERVER_ADOPT_H
#define KAGAMI_SERVER_ADOPT_H

#include "base/error.h"

struct controller;
struct log_manager;

/* Partition folders in a data folder that had no metadata yet (written by Apache Kafka, or by a Kagami whose metadata.db is gone) become topics: id from
 * partition.metadata, as many partitions as the highest folder says. Later, unknown folders are left alone and named in the log: one may be left from a deletion
 * that a crash cut off. Kafka's own __cluster_metadata is never adopted. */
MUST_CHECK enum error adopt_folders(struct controller *controller, struct log_manager *logs, bool new_store,
                                    struct problem *problem);
/* No leader epoch of the metadata may lie below what a log holds, and after an unclean end every partition gets a new one before it takes writes (design section
 * 5). One commit. */
MUST_CHECK enum error adopt_leader_epochs(struct controller *controller, struct log_manager *logs, bool raise_all,
                                          struct problem *problem);
/* No new producer may get an id that a log knows: in folders that were taken over a stranger has it. Costs nothing where the ids are our own. */
MUST_CHECK enum error adopt_producer_ids(struct controller *controller, struct log_manager *logs, struct problem *problem);

#endif
