#include "meta/store.h"

#include <string.h>

#include "base/assert.h"
#include "meta/store_backend.h"

void meta_store_init(struct meta_store *store, const struct meta_store_ops *ops)
{
    store->ops = ops;
    mutex_init(&store->commit_mutex);
    TAILQ_INIT(&store->watches);
}

void meta_store_fini(struct meta_store *store)
{
    ASSERT(TAILQ_EMPTY(&store->watches));
    mutex_fini(&store->commit_mutex);
}

void meta_store_close(struct meta_store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

enum error meta_store_get(struct meta_store *store, const char *key, json_t **ret_value, int64_t *ret_mod_revision)
{
    int64_t unused;
    return store->ops->get(store, key, ret_value, ret_mod_revision != NULL ? ret_mod_revision : &unused);
}

enum error meta_store_list(struct meta_store *store, const char *prefix,
                           enum error (*visit)(void *arg, const char *key, json_t *value, int64_t mod_revision), void *arg)
{
    return store->ops->list(store, prefix, visit, arg);
}

int64_t meta_store_revision(struct meta_store *store)
{
    return store->ops->revision(store);
}

/* ---- Transactions ---- */

static struct meta_op *add_op(struct meta_txn *txn, enum meta_op_kind kind, const char *key)
{
    if (txn->count == txn->capacity) {
        txn->capacity = txn->capacity == 0 ? 8 : txn->capacity * 2;
        txn->ops = mem_realloc(txn->ops, (size_t)txn->capacity * sizeof(*txn->ops));
    }
    struct meta_op *op = &txn->ops[txn->count++];
    *op = (struct meta_op){.kind = kind, .key = mem_strdup(key)};
    return op;
}

void meta_txn_fini(struct meta_txn *txn)
{
    for (int i = 0; i < txn->count; i++) {
        mem_free(txn->ops[i].key);
        json_decref(txn->ops[i].value);
    }
    mem_free(txn->ops);
    *txn = (struct meta_txn){0};
}

void meta_txn_check(struct meta_txn *txn, const char *key, int64_t mod_revision)
{
    add_op(txn, META_CHECK, key)->mod_revision = mod_revision;
}

void meta_txn_put(struct meta_txn *txn, const char *key, json_t *value)
{
    ASSERT(value != NULL);
    add_op(txn, META_PUT, key)->value = value;
}

void meta_txn_delete(struct meta_txn *txn, const char *key)
{
    add_op(txn, META_DELETE, key);
}

void meta_txn_delete_prefix(struct meta_txn *txn, const char *prefix)
{
    add_op(txn, META_DELETE_PREFIX, prefix);
}

void meta_txn_append(struct meta_txn *txn, const struct meta_txn *more)
{
    for (int i = 0; more != NULL && i < more->count; i++) {
        struct meta_op *op = add_op(txn, more->ops[i].kind, more->ops[i].key);
        op->value = json_incref(more->ops[i].value);
        op->mod_revision = more->ops[i].mod_revision;
    }
}

/* ---- Commit and watches ---- */

void meta_events_add(struct meta_events *events, const char *key, json_t *value, int64_t mod_revision)
{
    if (events->count == events->capacity) {
        events->capacity = events->capacity == 0 ? 8 : events->capacity * 2;
        events->items = mem_realloc(events->items, (size_t)events->capacity * sizeof(*events->items));
    }
    events->items[events->count++] =
        (struct meta_event){.key = mem_strdup(key), .value = json_incref(value), .mod_revision = mod_revision};
}

static void events_fini(struct meta_events *events)
{
    for (int i = 0; i < events->count; i++) {
        mem_free((char *)events->items[i].key);
        json_decref(events->items[i].value);
    }
    mem_free(events->items);
}

static void tell_watches(struct meta_store *store, const struct meta_events *events, int64_t revision)
{
    struct meta_event *matching = mem_alloc((size_t)events->count * sizeof(*matching));
    struct meta_watch *watch;
    TAILQ_FOREACH (watch, &store->watches, link) {
        size_t prefix_len = strlen(watch->prefix);
        int count = 0;
        for (int i = 0; i < events->count; i++) {
            if (strncmp(events->items[i].key, watch->prefix, prefix_len) == 0)
                matching[count++] = events->items[i];
        }
        if (count > 0)
            watch->changed(watch, matching, count, revision);
    }
    mem_free(matching);
}

enum error meta_store_commit(struct meta_store *store, const struct meta_txn *txn, int64_t *ret_revision, struct problem *problem)
{
    ASSERT(!mutex_held(&store->commit_mutex)); /* a watch callback must not write */
    struct meta_events events = {0};
    int64_t revision = 0;
    mutex_lock(&store->commit_mutex);
    enum error error = store->ops->commit(store, txn, &events, &revision, problem);
    if (error == OK && events.count > 0)
        tell_watches(store, &events, revision);
    mutex_unlock(&store->commit_mutex);
    events_fini(&events);
    if (error == OK && ret_revision != NULL)
        *ret_revision = revision;
    return error;
}

enum error meta_store_watch(struct meta_store *store, struct meta_watch *watch,
                            enum error (*initial)(void *arg, const char *key, json_t *value, int64_t mod_revision), void *arg)
{
    mutex_lock(&store->commit_mutex); /* no commit between the listing and the first event */
    enum error error = initial != NULL ? store->ops->list(store, watch->prefix, initial, arg) : OK;
    if (error == OK)
        TAILQ_INSERT_TAIL(&store->watches, watch, link);
    mutex_unlock(&store->commit_mutex);
    return error;
}

void meta_store_unwatch(struct meta_store *store, struct meta_watch *watch)
{
    mutex_lock(&store->commit_mutex);
    TAILQ_REMOVE(&store->watches, watch, link);
    mutex_unlock(&store->commit_mutex);
}

static void write_work(struct helper_job *job)
{
    struct meta_write *write = (struct meta_write *)job;
    write->result = meta_store_commit(write->store, &write->txn, &write->revision, &write->problem);
    meta_txn_fini(&write->txn);
}

static void write_done(struct helper_job *job)
{
    struct meta_write *write = (struct meta_write *)job;
    write->done(write);
}

void meta_store_commit_async(struct meta_store *store, struct helpers *helpers, struct loop *loop, struct meta_write *write)
{
    write->store = store;
    write->result = OK;
    write->revision = 0;
    write->problem = (struct problem){0};
    write->job = (struct helper_job){.work = write_work, .done = write_done, .loop = loop};
    helpers_submit(helpers, &write->job);
}
