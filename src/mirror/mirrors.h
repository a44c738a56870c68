/* Mirrors: all links of this broker to source clusters, their topics and partitions, and the calls that operate them (spec
 * sections 3 to 7, 11).
 *
 * One instance per broker. It sits on repl (partitions) and client (connections to sources), keeps its records in the metadata
 * store and is told of partitions by the registry's callbacks. Each link has a home loop, on which its control runs (metadata
 * of the source, states, stops); copying runs on the loops of its fetchers. What blocks (metadata writes, truncations, leader
 * epochs) runs on helpers.
 *
 * Threads: any, but mirrors_create / start / stop / destroy, which belong to the main thread. */
#ifndef KAGAMI_MIRROR_MIRRORS_H
#define KAGAMI_MIRROR_MIRRORS_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "meta/controller.h"
#include "meta/store.h"
#include "os/helpers.h"
#include "os/loop.h"
#include "os/random.h"
#include "repl/partitions.h"

struct mirrors;

struct mirrors_params {
    const struct clock *clock;
    struct random_source *random;
    struct loop_group *loops;
    struct helpers *helpers;
    struct meta_store *store;
    struct controller *controller;
    struct partitions *partitions;
    const char *cluster_id; /* our own */
    int32_t node_id;
};

/* Reads the records, before partitions are opened. ERR_CORRUPT names the key. */
MUST_CHECK enum error mirrors_create(const struct mirrors_params *params, struct mirrors **ret_mirrors, struct problem *problem);
/* Begins to connect and to copy, and takes up stops that a crash interrupted; partitions are open. */
void mirrors_start(struct mirrors *m);
/* Ends all copying; returns when no callback of ours runs any more. Partitions are still open. */
void mirrors_stop(struct mirrors *m);
void mirrors_destroy(struct mirrors *m); /* NULL is OK */

/* For partitions_callbacks: a mirror topic's partition is refused to clients from its first moment. */
void mirrors_partition_opened(struct mirrors *m, struct partition *p);
void mirrors_partition_closing(struct mirrors *m, struct partition *p);
/* For controller_set_topic_guard: DeleteTopics, CreatePartitions, DeleteRecords on a topic that is not STOPPED are
 * POLICY_VIOLATION with topic, mirror and command named. */
enum error mirrors_topic_allowed(void *m, struct str topic, enum topic_change change, struct problem *problem);

/* One call of the mirror's API (spec section 11), on its way. Embedded in its owner; lives until done ran. */
struct mirror_call {
    struct loop_task task; /* first */
    int16_t api_key;       /* enum mirror_api_key */
    const void *request;   /* struct NAME_request; lives until done */
    void *response;        /* struct NAME_response, initialised by proto_init; filled before done, what it points to is in the arena */
    struct arena *arena;   /* belongs to the call until done */
    struct loop *loop;     /* where done runs */
    void (*done)(struct mirror_call *call);
    int32_t timeout_ms;    /* how long the source may be waited for */
};
void mirrors_call(struct mirrors *m, struct mirror_call *call);

#endif
