/* What the files of the controller share. Internal to meta. */
#ifndef KAGAMI_META_CONTROLLER_INTERNAL_H
#define KAGAMI_META_CONTROLLER_INTERNAL_H

#include <stdatomic.h>

#include "meta/config_defs.h"
#include "meta/controller.h"
#include "meta/image_build.h"
#include "os/mutex.h"

#define KEY_PRODUCER_IDS "producer-ids"

struct controller {
    struct meta_store *store;
    struct random_source *random;
    int32_t node_id;
    struct image_cell images;
    struct meta_watch watch; /* makes images out of commits */
    struct topic_guard guard;
    struct mutex mutex; /* one change at a time, from its checks against the image to its commit. Comes before every other lock */

    struct mutex ids_mutex;  /* the three below; never held while the store is called */
    int64_t id_next, id_end; /* what is left of our block */
    int64_t id_unallotted;   /* as in the store: no block holds it or anything above */
    _Atomic int64_t id_floor;
};

MUST_CHECK enum error controller_load_producer_ids(struct controller *c, struct problem *problem);

/* "a" "b" .. put together; ends the process when it does not fit, which checked names cannot cause. */
char *meta_key(char out[META_KEY_MAX], const char *format, ...) PRINTF_LIKE(2, 3);
struct uuid random_uuid(struct random_source *random);

/* Copies the problem's message (and hint) into the arena as what a client is told. */
void topic_result_fail(struct topic_result *result, const struct problem *problem, struct arena *arena);

/* Names seen so far in one request. */
struct name_set;
void name_set_add(struct name_set **set, struct str name);
bool name_set_has(struct name_set *set, struct str name);
void name_set_fini(struct name_set **set);

/* Replicas of `count` partitions from `first` on, one list after the other. */
struct placement {
    int32_t partitions;
    int32_t factor;
    int32_t *replicas; /* partitions * factor */
};
void placement_fini(struct placement *p);
/* By round robin over the brokers. INVALID_REPLICATION_FACTOR. */
MUST_CHECK enum error place_evenly(const struct image *image, int32_t first, int32_t partitions, int32_t factor,
                                   struct placement *ret_placement, struct problem *problem);
/* As told; factor 0: the first list says. INVALID_REPLICA_ASSIGNMENT. */
MUST_CHECK enum error place_as_told(const struct image *image, const struct topic_assignment *assignments, int32_t count,
                                    int32_t factor, struct placement *ret_placement, struct problem *problem);
/* Adds the entries of partitions first .. first + placement.partitions - 1. */
void put_partitions(struct meta_txn *txn, const char *topic, int32_t first, const struct placement *placement);

#endif
