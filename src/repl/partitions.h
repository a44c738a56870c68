/* Partitions: the broker's registry of partitions by topic name or id and index (Kafka: ReplicaManager). Follows the metadata
 * image: topics created and deleted, partitions added, configs, leader epochs. Logs are opened, flushed in the background and
 * closed by the log manager (storage/log_manager.h).
 *
 * Threads: lookups from any thread; they lock one of many shards for a few nanoseconds. partitions_apply is serialised by its own
 * mutex and blocks. */
#ifndef KAGAMI_REPL_PARTITIONS_H
#define KAGAMI_REPL_PARTITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "repl/partition.h"

struct partitions;
struct image;
struct log_manager;

/* Upward calls; set before partitions_apply is called first. Each may be NULL. */
struct partitions_callbacks {
    /* Before a partition can be found by anyone: the layer above sets origin and refusal (a mirror topic's partition is never
     * writable for a moment). Also told for partitions that already exist at start. Blocks nobody: no disk. On
     * several threads at once. */
    void (*opened)(void *arg, struct partition *p);
    /* It was removed from the registry and is about to be closed. */
    void (*closing)(void *arg, struct partition *p);
    void *arg;
};

struct partitions_params {
    const struct clock *clock;
    struct helpers *helpers;
    struct log_manager *logs;
    bool flush_acks_all;
    struct partitions_callbacks callbacks;
};

struct partitions *partitions_create(const struct partitions_params *params);
/* Closes all partitions; the logs stay open in the log manager, whose close flushes them. No request is under way. NULL is OK. Blocks. */
void partitions_destroy(struct partitions *parts);
void partitions_set_flush_acks_all(struct partitions *parts, bool on);

/* Makes the registry follow the image: opens what is new, closes and removes what is gone, sets configs and leader epochs. One
 * partition that cannot be opened is logged and answers KAFKA_STORAGE_ERROR; the rest goes on. Blocks; idempotent. Called by the
 * metadata publisher before it reports a change as done, so that a created topic can be used at once. */
void partitions_apply(struct partitions *parts, const struct image *image);

/* A reference, or NULL with the reason: UNKNOWN_TOPIC_OR_PARTITION (by name), UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION
 * (index), KAFKA_STORAGE_ERROR. */
struct partition *partitions_find(struct partitions *parts, struct str topic, int32_t index, enum error *ret_error);
struct partition *partitions_find_by_id(struct partitions *parts, const struct uuid *topic_id, int32_t index,
                                        enum error *ret_error);

/* Calls visit for each open partition (a reference is held during the call), topics and indexes in order; no lock is held. */
void partitions_each(struct partitions *parts, void (*visit)(void *arg, struct partition *p), void *arg);

#endif
