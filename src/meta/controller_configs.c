/* Changing settings (Kafka: ConfigurationControlManager), with Kafka's messages. */
#include <uthash.h>

#include "base/assert.h"
#include "base/buf.h"
#include "meta/controller_internal.h"

struct alteration {
    struct controller *c;
    const struct image *image;
    const struct image_topic *topic; /* NULL for a broker's */
    enum config_scope scope;
    char key[META_KEY_MAX];
    struct image_configs configs; /* being changed */
};

static enum error find_topic(struct alteration *a, struct str name, bool unguarded, struct problem *problem)
{
    if (name.p == NULL || name.len == 0)
        return problem_set(problem, INVALID_REQUEST, "Default topic resources are not allowed.");
    enum error error = topic_name_check(name, problem);
    if (error != OK)
        return error;
    a->topic = image_topic(a->image, name);
    if (a->topic == NULL)
        return problem_set(problem, UNKNOWN_TOPIC_OR_PARTITION, "The topic '%.*s' does not exist.", STR_ARG(name));
    a->scope = CONFIG_SCOPE_TOPIC;
    meta_key(a->key, KEY_CONFIGS_TOPICS "%s", a->topic->name);
    image_configs_copy(&a->configs, &a->topic->configs);
    return unguarded ? OK : controller_topic_change_allowed(a->c, name, TOPIC_ALTER_CONFIGS, problem);
}

static enum error find_broker(struct alteration *a, struct str name, struct problem *problem)
{
    int64_t id;
    a->scope = CONFIG_SCOPE_BROKER;
    if (name.len == 0) {
        meta_key(a->key, KEY_CONFIGS_BROKERS_DEFAULT);
        image_configs_copy(&a->configs, &a->image->broker_default_configs);
        return OK;
    }
    if (!str_to_i64(name, &id))
        return problem_set(problem, INVALID_REQUEST, "Node id must be an integer, but it is: %.*s", MIN(name.len, 100), name.p);
    if (id != a->c->node_id)
        return problem_set(problem, INVALID_REQUEST, "Unexpected broker id, expected %d or empty string, but received %.*s",
                           a->c->node_id, MIN(name.len, 100), name.p);
    meta_key(a->key, KEY_CONFIGS_BROKERS "%d", a->c->node_id);
    image_configs_copy(&a->configs, &a->image->broker_configs);
    return OK;
}

static enum error find_resource(struct alteration *a, int8_t type, struct str name, bool unguarded, struct problem *problem)
{
    switch (type) {
    case CONFIG_RESOURCE_TOPIC:
        return find_topic(a, name, unguarded, problem);
    case CONFIG_RESOURCE_BROKER:
        return find_broker(a, name, problem);
    case CONFIG_RESOURCE_BROKER_LOGGER:
        return problem_set(problem, INVALID_REQUEST, "There are no loggers to set: log.level of the broker is the one level.");
    case CONFIG_RESOURCE_CLIENT_METRICS:
        return problem_set(problem, INVALID_REQUEST, "Client metrics are not supported.");
    case CONFIG_RESOURCE_GROUP:
        return problem_set(problem, INVALID_REQUEST, "Settings of groups are not supported.");
    default:
        return problem_set(problem, INVALID_REQUEST, "Unknown resource type %d", type);
    }
}

/* A broker's setting that is wrong is INVALID_REQUEST in Kafka, a topic's INVALID_CONFIG. */
static enum error wrong(const struct alteration *a, struct problem *problem)
{
    if (a->scope == CONFIG_SCOPE_BROKER)
        problem->code = INVALID_REQUEST;
    return problem->code;
}

static enum error find_def(const struct alteration *a, struct str name, const struct config_def **ret_def,
                           struct problem *problem)
{
    const struct config_def *def = config_def_find(a->scope, name);
    if (def == NULL) {
        const char *near = config_nearest(a->scope, name);
        problem_set(problem, INVALID_CONFIG, "Unknown %s config name: %.*s", a->scope == CONFIG_SCOPE_TOPIC ? "topic" : "broker",
                    MIN(name.len, 100), name.p != NULL ? name.p : "");
        if (near != NULL)
            problem_hint(problem, "Did you mean %s?", near);
        return INVALID_CONFIG;
    }
    if (a->scope == CONFIG_SCOPE_BROKER && def->read_only) {
        problem_set(problem, INVALID_REQUEST, "Cannot update these configs dynamically: [%s]", def->name);
        problem_hint(problem, "Set it in the configuration file or with --set, and start the broker again.");
        return INVALID_REQUEST;
    }
    *ret_def = def;
    return OK;
}

static bool list_has(const struct buf *list, struct str wanted)
{
    struct str rest = buf_str(list), item;
    if (rest.len == 0)
        return false;
    while (str_split(&rest, ',', &item)) {
        if (str_eq(item, wanted))
            return true;
    }
    return false;
}

/* `from`'s items that are not in `without`, each once, behind *list. */
static void add_items(struct buf *list, struct str from, const struct buf *without)
{
    struct str item;
    if (str_trim(from).len == 0)
        return;
    while (str_split(&from, ',', &item)) {
        item = str_trim(item);
        if (item.len == 0 || list_has(list, item) || (without != NULL && list_has(without, item)))
            continue;
        if (list->len > 0)
            buf_putc(list, ',');
        buf_append_str(list, item);
    }
}

static enum error change_list(struct alteration *a, const struct config_def *def, const struct config_op *op,
                              struct problem *problem)
{
    bool append = op->kind == CONFIG_OP_APPEND;
    if (def->type != CONFIG_LIST) {
        problem_set(problem, INVALID_CONFIG, "Can't %s to key %s because its type is not LIST.", append ? "APPEND" : "SUBTRACT",
                    def->name);
        return INVALID_CONFIG;
    }
    struct config_value now;
    struct buf list = {0}, without = {0};
    const char *own = image_config(&a->configs, def->name);
    config_resolve(a->image, a->topic, def, &now);
    if (!append)
        add_items(&without, op->value, NULL);
    add_items(&list, str_of(own != NULL ? own : now.value), &without);
    if (append)
        add_items(&list, op->value, NULL);
    struct str value = list.len > 0 ? buf_str(&list) : STR("");
    enum error error = config_check(def, value, problem);
    if (error == OK)
        image_configs_set(&a->configs, op->name, value);
    else
        error = wrong(a, problem);
    buf_fini(&list);
    buf_fini(&without);
    return error;
}

static enum error apply_op(struct alteration *a, const struct config_op *op, struct problem *problem)
{
    const struct config_def *def;
    if (op->kind == CONFIG_OP_DELETE) { /* of any name: Kafka takes unknown ones too */
        if (op->name.p != NULL)
            image_configs_set(&a->configs, op->name, STR_NULL);
        return OK;
    }
    enum error error = find_def(a, op->name, &def, problem);
    if (error != OK)
        return error;
    if (op->value.p == NULL)
        return problem_set(problem, INVALID_REQUEST, "Null value not supported for : %s", def->name);
    if (op->kind == CONFIG_OP_APPEND || op->kind == CONFIG_OP_SUBTRACT)
        return change_list(a, def, op, problem);
    if (op->kind != CONFIG_OP_SET)
        return problem_set(problem, INVALID_REQUEST, "Unknown operation %d for the config %s", (int)op->kind, def->name);
    error = config_check(def, op->value, problem);
    if (error != OK)
        return wrong(a, problem);
    image_configs_set(&a->configs, op->name, op->value);
    return OK;
}

static enum error apply_ops(struct alteration *a, const struct config_op *ops, int count, bool replace, struct problem *problem)
{
    struct name_set *seen = NULL;
    enum error error = OK;
    if (replace)
        image_configs_fini(&a->configs);
    for (int i = 0; i < count && error == OK; i++) {
        struct str name = ops[i].name.p != NULL ? ops[i].name : STR("");
        if (name_set_has(seen, name))
            error = problem_set(problem, INVALID_REQUEST, "Error due to duplicate config keys: %.*s", MIN(name.len, 100), name.p);
        else
            error = apply_op(a, &ops[i], problem);
        name_set_add(&seen, name);
    }
    name_set_fini(&seen);
    if (error == OK && a->scope == CONFIG_SCOPE_TOPIC)
        error = config_check_topic(a->image, &a->configs, problem);
    return error;
}

enum error controller_alter_configs(struct controller *c, int8_t resource_type, struct str resource_name,
                                    const struct config_op *ops, int count, bool replace, bool validate_only, bool unguarded,
                                    const struct meta_txn *also, struct problem *problem)
{
    struct problem own = {0};
    if (problem == NULL)
        problem = &own;
    mutex_lock(&c->mutex);
    struct alteration a = {.c = c, .image = image_cell_get(&c->images)};
    enum error error = find_resource(&a, resource_type, resource_name, unguarded, problem);
    if (error == OK)
        error = apply_ops(&a, ops, count, replace, problem);
    if (error == OK && !validate_only) {
        struct meta_txn txn = {0};
        if (a.configs.count > 0)
            meta_txn_put(&txn, a.key, image_configs_json(&a.configs));
        else
            meta_txn_delete(&txn, a.key);
        meta_txn_append(&txn, also);
        error = meta_store_commit(c->store, &txn, NULL, problem);
        meta_txn_fini(&txn);
    }
    mutex_unlock(&c->mutex);
    image_configs_fini(&a.configs);
    image_unref(a.image);
    return error;
}
