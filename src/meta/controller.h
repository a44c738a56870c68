/* The controller: every change of the cluster's metadata, checked by Kafka's rules, written to the store, seen in the image
 * when the call returns (Kafka: ReplicationControlManager, ConfigurationControlManager, ProducerIdControlManager).
 *
 * Keys it owns: cluster, brokers/ID, topics/NAME, partitions/TOPIC/N, configs/topics/NAME, configs/brokers/ID,
 * configs/brokers-default, producer-ids.
 *
 * Threads: any. Every call that changes something blocks on the disk (run it on a helper) and returns when the change is
 * durable and all image listeners have run; the caller holds no lock that a listener takes. Changes that several threads ask
 * for are made one after the other. */
#ifndef KAGAMI_META_CONTROLLER_H
#define KAGAMI_META_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/properties.h"
#include "base/str.h"
#include "base/uuid.h"
#include "meta/image.h"
#include "meta/store.h"
#include "os/random.h"

struct controller;

struct controller_params {
    struct meta_store *store; /* outlives the controller */
    struct random_source *random;
    int32_t node_id;
    const char *host; /* advertised */
    int32_t port;
    const char *rack;                    /* NULL for none */
    const struct properties *properties; /* server.properties and --set, checked (config_check_static); outlives the controller */
    const char *cluster_id;              /* for a new store: this id and no random one; NULL: random */
};

/* Reads the store, gives a new one its cluster id, registers the broker, builds the first image. INCONSISTENT_CLUSTER_ID when
 * cluster_id is given and is not the store's. ERR_CORRUPT names the key that can't be read. */
MUST_CHECK enum error controller_create(const struct controller_params *params, struct controller **ret_controller,
                                        struct problem *problem);
void controller_destroy(struct controller *c); /* NULL is OK */
struct image_cell *controller_images(struct controller *c);
/* Registers host and port anew: for a listener whose port is known only when it listens. */
MUST_CHECK enum error controller_register_broker(struct controller *c, const char *host, int32_t port, struct problem *problem);

/* ---- What others say about changes of a topic ---- */

enum topic_change { TOPIC_DELETE, TOPIC_ADD_PARTITIONS, TOPIC_DELETE_RECORDS, TOPIC_ALTER_CONFIGS };

/* Set by the mirror: a mirror topic that is not STOPPED refuses. Returns OK, or the wire code with the problem set. Any
 * thread; under the controller's lock, so it must not call the controller. */
struct topic_guard {
    enum error (*allowed)(void *arg, struct str topic, enum topic_change change, struct problem *problem);
    void *arg;
};
void controller_set_topic_guard(struct controller *c, const struct topic_guard *guard); /* before requests are served */
/* Asks the guard; OK without one. For handlers that change a topic elsewhere (DeleteRecords). Does not block. */
MUST_CHECK enum error controller_topic_change_allowed(struct controller *c, struct str topic, enum topic_change change,
                                                      struct problem *problem);

/* ---- Topics ---- */

/* Whether Kafka takes the name: INVALID_TOPIC_EXCEPTION with Kafka's message. Collisions ('.' and '_') are looked at by the
 * creation. */
MUST_CHECK enum error topic_name_check(struct str name, struct problem *problem);

struct topic_assignment {
    int32_t partition;
    const int32_t *broker_ids;
    int32_t broker_count;
};

struct config_change {
    struct str name;
    struct str value; /* null: back to the default */
};

struct topic_spec {
    struct str name;
    struct uuid id;                             /* zero: a random one */
    int32_t partitions;                         /* -1: num.partitions */
    int16_t replication_factor;                 /* -1: default.replication.factor */
    const struct topic_assignment *assignments; /* with these, partitions and replication_factor are -1 */
    int32_t assignment_count;
    const struct config_change *configs;
    int32_t config_count;
};

struct topic_result {
    enum error error;
    struct str message; /* in the arena; null when OK */
    struct uuid id;
    int32_t partitions;
    int16_t replication_factor;
};

/* Creates those that are valid, in one commit; results[i] answers specs[i]. A name that comes twice is refused each time. With
 * validate_only nothing is written. `also` (may be NULL) is committed with them, atomically (a mirror's own keys); it must not
 * touch the controller's keys; with it one refusal stops all (OPERATION_NOT_ATTEMPTED). ERR_* only when the store failed, or
 * ERR_CONFLICT from `also`: then nothing was created. */
MUST_CHECK enum error controller_create_topics(struct controller *c, const struct topic_spec *specs, int count,
                                               bool validate_only, const struct meta_txn *also, struct arena *arena,
                                               struct topic_result *results, struct problem *problem);

struct topic_ref { /* by name, or by id when name is null */
    struct str name;
    struct uuid id;
};
/* Deletes the topics with their partitions and configs, in one commit. ret name: results[i].id and names via ret_names (arena;
 * null when unknown). */
MUST_CHECK enum error controller_delete_topics(struct controller *c, const struct topic_ref *refs, int count,
                                               const struct meta_txn *also, struct arena *arena, struct topic_result *results,
                                               struct str *ret_names, struct problem *problem);

struct partitions_spec {
    struct str topic;
    int32_t count;                              /* in all, after the change */
    const struct topic_assignment *assignments; /* of the new ones only; partition numbers are not used */
    int32_t assignment_count;                   /* -1: none given */
};
/* unguarded: the mirror's own change, the topic guard is not asked. */
MUST_CHECK enum error controller_add_partitions(struct controller *c, const struct partitions_spec *specs, int count,
                                                bool validate_only, bool unguarded, const struct meta_txn *also,
                                                struct arena *arena, struct topic_result *results, struct problem *problem);

/* ---- Leader epochs ---- */

struct epoch_raise {
    const char *topic;
    int32_t partition;
    int32_t at_least; /* the new epoch is max(current + 1, at_least), or stays when !always and it is >= at_least already */
    bool always;
    int32_t leader_epoch; /* result: the epoch in force, -1 when there is no such partition */
};
/* All in one commit, however many; `also` with them. Partitions that are gone are skipped. */
MUST_CHECK enum error controller_raise_leader_epochs(struct controller *c, struct epoch_raise *raises, int count,
                                                     const struct meta_txn *also, struct problem *problem);
/* Every partition that this broker leads, by one; after an unclean end, before anything takes writes. One commit. */
MUST_CHECK enum error controller_raise_all_leader_epochs(struct controller *c, int *ret_count, struct problem *problem);

/* ---- Producer ids ---- */

/* Ids are allotted to this broker in blocks of 1000 (Kafka: ProducerIdsBlock). next: false when the block is used up, does not
 * block. allot: takes a new block when needed, blocks. */
bool controller_next_producer_id(struct controller *c, int64_t *ret_producer_id);
MUST_CHECK enum error controller_allot_producer_id(struct controller *c, int64_t *ret_producer_id, struct problem *problem);
/* The lowest id that may still be handed out to anybody: every mirrored id must be below it. No lock. */
int64_t controller_producer_id_floor(struct controller *c);
/* Raises the floor above producer_id, in a step large enough to be rare; durable when it returns (spec section 6, step 7).
 * Returns at once when it is above already. ERR_INVALID for an id above PRODUCER_ID_RAISE_MAX. */
#define PRODUCER_ID_BLOCK 1000
#define PRODUCER_ID_RAISE_STEP 100000
#define PRODUCER_ID_RAISE_MAX (INT64_MAX - 2 * (int64_t)PRODUCER_ID_RAISE_STEP)
MUST_CHECK enum error controller_producer_ids_raise_above(struct controller *c, int64_t producer_id, struct problem *problem);

/* ---- Settings ---- */

enum config_op_kind {
    CONFIG_OP_SET = 0,
    CONFIG_OP_DELETE = 1,
    CONFIG_OP_APPEND = 2,
    CONFIG_OP_SUBTRACT = 3
}; /* IncrementalAlterConfigs' numbers */

struct config_op {
    enum config_op_kind kind;
    struct str name;
    struct str value;
};

/* A topic's settings or (resource_type CONFIG_RESOURCE_BROKER) a broker's, name "" for all brokers'. replace: what is not
 * named goes back to its default (AlterConfigs). All or nothing. INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST,
 * POLICY_VIOLATION. unguarded: the mirror's own change. */
MUST_CHECK enum error controller_alter_configs(struct controller *c, int8_t resource_type, struct str resource_name,
                                               const struct config_op *ops, int count, bool replace, bool validate_only,
                                               bool unguarded, const struct meta_txn *also, struct problem *problem);

#endif
