#include "meta/controller.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "base/assert.h"
#include "meta/controller_internal.h"

/* ---- Small things that its other files need too ---- */

char *meta_key(char out[META_KEY_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(out, META_KEY_MAX, format, args);
    va_end(args);
    ASSERT(len > 0 && len < META_KEY_MAX);
    return out;
}

struct uuid random_uuid(struct random_source *random)
{
    uint8_t bytes[16];
    struct uuid id;
    do
        random_fill(random, bytes, sizeof(bytes));
    while (!uuid_from_random(bytes, &id));
    return id;
}

void topic_result_fail(struct topic_result *result, const struct problem *problem, struct arena *arena)
{
    char line[sizeof(*problem)];
    *result = (struct topic_result){.error = problem->code};
    result->message = arena_str(arena, str_of(problem_line(problem, line, sizeof(line))));
}

struct name_set {
    UT_hash_handle hh;
    struct str name; /* the request's */
};

void name_set_add(struct name_set **set, struct str name)
{
    if (name_set_has(*set, name))
        return;
    struct name_set *item = mem_calloc(1, sizeof(*item));
    item->name = name;
    HASH_ADD_KEYPTR(hh, *set, item->name.p, (size_t)name.len, item);
}

bool name_set_has(struct name_set *set, struct str name)
{
    struct name_set *item;
    HASH_FIND(hh, set, name.p, (size_t)name.len, item);
    return item != NULL;
}

void name_set_fini(struct name_set **set)
{
    struct name_set *item, *next;
    HASH_ITER (hh, *set, item, next) {
        HASH_DEL(*set, item);
        mem_free(item);
    }
}

/* ---- Images out of commits ---- */

static bool concerns_image(const char *key)
{
    static const char *const prefixes[] = {
        KEY_TOPICS,  KEY_PARTITIONS, KEY_CONFIGS_TOPICS, KEY_CONFIGS_BROKERS, KEY_CONFIGS_BROKERS_DEFAULT,
        KEY_BROKERS, KEY_CLUSTER};
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

static void store_changed(struct meta_watch *watch, const struct meta_event *events, int count, int64_t revision)
{
    struct controller *c = CONTAINER_OF(watch, struct controller, watch);
    bool concerned = false;
    for (int i = 0; i < count && !concerned; i++)
        concerned = concerns_image(events[i].key);
    if (!concerned)
        return;
    const struct image *before = image_cell_get(&c->images);
    const struct image *next;
    struct problem problem;
    enum error error = image_apply(before, events, count, revision, &next, &problem);
    ASSERT(error == OK); /* we wrote it */
    image_unref(before);
    image_cell_swap(&c->images, next);
}

struct loading {
    struct meta_event *events;
    int count, capacity;
};

static enum error load_entry(void *arg, const char *key, json_t *value, int64_t mod_revision)
{
    struct loading *l = arg;
    if (!concerns_image(key))
        return OK;
    if (l->count == l->capacity) {
        l->capacity = l->capacity == 0 ? 64 : l->capacity * 2;
        l->events = mem_realloc(l->events, (size_t)l->capacity * sizeof(*l->events));
    }
    l->events[l->count++] =
        (struct meta_event){.key = mem_strdup(key), .value = json_incref(value), .mod_revision = mod_revision};
    return OK;
}

static enum error load_image(struct controller *c, const struct properties *properties, struct problem *problem)
{
    struct loading l = {0};
    struct image *empty = image_create(c->node_id, properties);
    const struct image *image = NULL;
    c->watch = (struct meta_watch){.prefix = "", .changed = store_changed};
    image_cell_init(&c->images, empty);
    enum error error = meta_store_list(c->store, "", load_entry, &l);
    if (error != OK)
        problem_set(problem, error, "The metadata store cannot be read.");
    if (error == OK)
        error = image_apply(empty, l.events, l.count, meta_store_revision(c->store), &image, problem);
    if (error == OK)
        image_cell_swap(&c->images, image);
    if (error == OK) {
        error = meta_store_watch(c->store, &c->watch, NULL, NULL);
        ASSERT(error == OK); /* without an initial visit it cannot fail */
    }
    for (int i = 0; i < l.count; i++) {
        mem_free((char *)l.events[i].key);
        json_decref(l.events[i].value);
    }
    mem_free(l.events);
    return error;
}

/* ---- Cluster and broker ---- */

static enum error ensure_cluster(struct controller *c, const char *wanted, struct problem *problem)
{
    json_t *value;
    struct uuid id;
    char text[UUID_TEXT_SIZE];
    enum error error = meta_store_get(c->store, KEY_CLUSTER, &value, NULL);
    if (error == OK) {
        const char *stored = json_string_value(json_object_get(value, "clusterId"));
        if (wanted != NULL && stored != NULL && strcmp(wanted, stored) != 0) {
            error = problem_set(problem, INCONSISTENT_CLUSTER_ID,
                                "The metadata store belongs to the cluster %.64s, not to %.64s.", stored, wanted);
            problem_hint(problem, "Start with the data folder that belongs to the cluster.");
        }
        json_decref(value);
        return error;
    }
    if (error != ERR_NOT_FOUND)
        return problem_set(problem, error, "The metadata entry " KEY_CLUSTER " cannot be read.");
    if (wanted == NULL)
        id = random_uuid(c->random);
    else if (!uuid_parse(str_of(wanted), &id))
        return problem_set(problem, ERR_INVALID, "'%.64s' is no cluster id: 22 characters of URL-safe base64 are.", wanted);
    struct meta_txn txn = {0};
    meta_txn_check(&txn, KEY_CLUSTER, 0);
    meta_txn_put(&txn, KEY_CLUSTER, json_pack("{s:s}", "clusterId", uuid_text(&id, text)));
    error = meta_store_commit(c->store, &txn, NULL, problem);
    meta_txn_fini(&txn);
    return error;
}

static bool same_broker(const struct image_broker *b, const char *host, int32_t port, const char *rack)
{
    return b != NULL && strcmp(b->host, host) == 0 && b->port == port && (b->rack == NULL) == (rack == NULL) &&
           (rack == NULL || strcmp(b->rack, rack) == 0);
}

static enum error register_locked(struct controller *c, const char *host, int32_t port, const char *rack, struct problem *problem)
{
    char key[META_KEY_MAX];
    const struct image *image = image_cell_get(&c->images);
    bool same = same_broker(image_broker(image, c->node_id), host, port, rack);
    image_unref(image);
    if (same)
        return OK;
    struct meta_txn txn = {0};
    meta_txn_put(&txn, meta_key(key, KEY_BROKERS "%d", c->node_id), image_broker_json(host, port, rack));
    enum error error = meta_store_commit(c->store, &txn, NULL, problem);
    meta_txn_fini(&txn);
    return error;
}

enum error controller_register_broker(struct controller *c, const char *host, int32_t port, struct problem *problem)
{
    mutex_lock(&c->mutex);
    const struct image *image = image_cell_get(&c->images);
    const struct image_broker *self = image_broker(image, c->node_id);
    enum error error = register_locked(c, host, port, self != NULL ? self->rack : NULL, problem);
    image_unref(image);
    mutex_unlock(&c->mutex);
    return error;
}

/* ---- Lifetime ---- */

enum error controller_create(const struct controller_params *params, struct controller **ret_controller, struct problem *problem)
{
    struct controller *c = mem_calloc(1, sizeof(*c));
    c->store = params->store;
    c->random = params->random;
    c->node_id = params->node_id;
    mutex_init(&c->mutex);
    mutex_init(&c->ids_mutex);
    enum error error = ensure_cluster(c, params->cluster_id, problem);
    if (error == OK)
        error = controller_load_producer_ids(c, problem);
    bool watching = false;
    if (error == OK) {
        error = load_image(c, params->properties, problem);
        watching = error == OK;
        if (!watching)
            image_cell_fini(&c->images);
    }
    if (error == OK)
        error = register_locked(c, params->host, params->port, params->rack, problem);
    if (error == OK) {
        *ret_controller = c;
        return OK;
    }
    if (watching) {
        controller_destroy(c);
    } else {
        mutex_fini(&c->mutex);
        mutex_fini(&c->ids_mutex);
        mem_free(c);
    }
    return error;
}

void controller_destroy(struct controller *c)
{
    if (c == NULL)
        return;
    meta_store_unwatch(c->store, &c->watch);
    image_cell_fini(&c->images);
    mutex_fini(&c->mutex);
    mutex_fini(&c->ids_mutex);
    mem_free(c);
}

struct image_cell *controller_images(struct controller *c)
{
    return &c->images;
}

void controller_set_topic_guard(struct controller *c, const struct topic_guard *guard)
{
    c->guard = *guard;
}

enum error controller_topic_change_allowed(struct controller *c, struct str topic, enum topic_change change,
                                           struct problem *problem)
{
    return c->guard.allowed != NULL ? c->guard.allowed(c->guard.arg, topic, change, problem) : OK;
}
