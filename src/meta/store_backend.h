/* What a backend of the metadata store provides; store.c does the rest (transactions, watches, the helper job). Internal to
 * meta. */
#ifndef KAGAMI_META_STORE_BACKEND_H
#define KAGAMI_META_STORE_BACKEND_H

#include "meta/store.h"
#include "os/mutex.h"

struct meta_events;

struct meta_store_ops {
    void (*close)(struct meta_store *store); /* frees the store */
    enum error (*get)(struct meta_store *store, const char *key, json_t **ret_value, int64_t *ret_mod_revision);
    enum error (*list)(struct meta_store *store, const char *prefix,
                       enum error (*visit)(void *arg, const char *key, json_t *value, int64_t mod_revision), void *arg);
    int64_t (*revision)(struct meta_store *store);
    /* Under the commit mutex. Adds to *events what changed, in the order of the operations. */
    enum error (*commit)(struct meta_store *store, const struct meta_txn *txn, struct meta_events *events, int64_t *ret_revision,
                         struct problem *problem);
};

struct meta_events {
    struct meta_event *items; /* keys and values are owned */
    int count, capacity;
};
void meta_events_add(struct meta_events *events, const char *key, json_t *value,
                     int64_t mod_revision); /* copies key, references value */

struct meta_store {
    const struct meta_store_ops *ops;
    struct mutex commit_mutex; /* one commit at a time, until its watches have run: they see revisions in order. Guards watches */
    TAILQ_HEAD(meta_watches, meta_watch) watches;
};

void meta_store_init(struct meta_store *store, const struct meta_store_ops *ops);
void meta_store_fini(struct meta_store *store);

#endif
