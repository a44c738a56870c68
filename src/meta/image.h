/* The metadata image: what a broker knows about its cluster, immutable, reference counted, swapped as a whole (Kafka:
 * MetadataImage).
 *
 * Get a reference from the cell, look up without any lock for as long as you hold it, drop it. Topics are shared between
 * images: the same pointer in two images means that nothing of the topic (partitions, epochs, configs) changed.
 * Threads: any; an image never changes. The cell's own mutex is held for a pointer copy only. */
#ifndef KAGAMI_META_IMAGE_H
#define KAGAMI_META_IMAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/properties.h"
#include "base/str.h"
#include "base/uuid.h"
#include "os/mutex.h"

struct image_broker {
    int32_t id;
    char *host;
    int32_t port;
    char *rack; /* NULL for none */
};

struct image_partition {
    int32_t leader; /* -1 for none */
    int32_t leader_epoch;
    int32_t partition_epoch;
    int32_t replica_count, isr_count;
    int32_t *replicas; /* in the order of the assignment */
    int32_t *isr;
};

struct image_setting { /* a setting that was given, not a default */
    char *name;
    char *value;
};

struct image_configs { /* sorted by name */
    struct image_setting *items;
    int count;
};

struct image_topic {
    _Atomic int refs; /* the images that share it */
    char *name;
    struct uuid id;
    int32_t partition_count;
    struct image_partition *partitions; /* by index */
    struct image_configs configs;       /* dynamic topic configs */
    bool internal;                      /* __consumer_offsets, __transaction_state, __share_group_state */
};

struct image {
    _Atomic int refs;
    int64_t revision; /* of the store */
    struct uuid cluster_id;
    char cluster_id_text[UUID_TEXT_SIZE];
    int32_t node_id;       /* our own */
    int32_t controller_id; /* -1 for none */
    int broker_count, topic_count;
    struct image_broker *brokers;                /* by id */
    struct image_topic **topics;                 /* by name */
    struct image_topic **topics_by_id;           /* by id */
    struct image_configs broker_default_configs; /* dynamic, for all brokers */
    struct image_configs broker_configs;         /* dynamic, for this broker */
    const struct properties *static_configs;     /* server.properties and --set; outlives every image */
};

const struct image_topic *image_topic(const struct image *image, struct str name);             /* NULL when unknown */
const struct image_topic *image_topic_by_id(const struct image *image, const struct uuid *id); /* NULL when unknown */
const struct image_partition *image_partition(const struct image_topic *topic, int32_t index); /* NULL out of range */
const struct image_broker *image_broker(const struct image *image, int32_t id);                /* NULL when unknown */
const char *image_config(const struct image_configs *configs, const char *name);               /* NULL when not set */

const struct image *image_ref(const struct image *image);
void image_unref(const struct image *image); /* NULL is OK */

/* What differs between two images, for a listener: topics only. before or after is NULL for a topic that came or went; a topic
 * that was deleted and created again under its name (other id) is reported as gone, then as come. */
void image_diff(const struct image *before, const struct image *after,
                void (*visit)(void *arg, const struct image_topic *before, const struct image_topic *after), void *arg);

/* ---- The cell that holds the current image ---- */

/* Told of every swap, after it, in order, on the thread that committed and before its commit returns (so what a listener does,
 * such as opening a partition's log, is done when the creation of a topic is answered). May block; must not write to the
 * store. */
struct image_listener { /* embedded in its owner */
    TAILQ_ENTRY(image_listener) link;
    void (*changed)(struct image_listener *listener, const struct image *before, const struct image *after);
};

struct image_cell {
    struct mutex mutex; /* for the pointer */
    const struct image *current;
    struct mutex swap_mutex; /* for the order of swaps, and the listeners; comes before every other lock but the store's */
    TAILQ_HEAD(image_listeners, image_listener) listeners;
};

void image_cell_init(struct image_cell *cell, const struct image *first); /* takes over the reference */
void image_cell_fini(struct image_cell *cell);
const struct image *image_cell_get(struct image_cell *cell);             /* a reference: image_unref */
void image_cell_swap(struct image_cell *cell, const struct image *next); /* takes over the reference */
/* Called at once with before NULL for the current image, then for every swap. */
void image_cell_listen(struct image_cell *cell, struct image_listener *listener);
void image_cell_unlisten(struct image_cell *cell, struct image_listener *listener);

#endif
