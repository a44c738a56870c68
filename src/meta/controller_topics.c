/* Creating and deleting topics, adding partitions, raising leader epochs. Each call collects what it may do in one
 * transaction: what is refused is answered in its result, the rest is committed as a whole. Messages are Kafka's where Kafka
 * has one. */
#include <stdio.h>
#include <uthash.h>

#include "base/assert.h"
#include "base/limits.h"
#include "meta/controller_internal.h"

/* One request may not make more partitions than this (Kafka: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH is a tenth):
 * against typing errors. */
#define PARTITIONS_PER_REQUEST_MAX LIMIT_PARTITIONS_PER_TOPIC

struct change { /* one call's work */
    struct controller *c;
    const struct image *image;
    struct meta_txn txn;
    struct arena *arena;
    struct name_set *twice;      /* names that the request has more than once */
    struct name_set *collisions; /* names with '.' as '_', of all topics that have either; made when first needed */
    bool collisions_made;
    int64_t new_partitions;
    int accepted;
};

static void change_begin(struct change *ch, struct controller *c, struct arena *arena)
{
    mutex_lock(&c->mutex);
    *ch = (struct change){.c = c, .image = image_cell_get(&c->images), .arena = arena};
}

/* What belongs together with `also` is done as a whole: one refusal stops the others. */
static void refuse_rest(struct change *ch, struct topic_result *results, int count)
{
    for (int i = 0; i < count; i++) {
        if (results[i].error == OK)
            results[i] = (struct topic_result){.error = OPERATION_NOT_ATTEMPTED,
                                               .message = STR("Another topic of the same change was refused.")};
    }
    ch->accepted = 0;
}

static enum error change_end(struct change *ch, bool commit, const struct meta_txn *also, struct problem *problem)
{
    enum error error = OK;
    if (commit && ch->accepted > 0) {
        meta_txn_append(&ch->txn, also);
        error = meta_store_commit(ch->c->store, &ch->txn, NULL, problem);
    }
    mutex_unlock(&ch->c->mutex);
    meta_txn_fini(&ch->txn);
    image_unref(ch->image);
    name_set_fini(&ch->twice);
    name_set_fini(&ch->collisions);
    return error;
}

/* Fills ch->twice. */
static void find_twice(struct change *ch, const char *first, size_t stride, int count)
{
    struct name_set *seen = NULL;
    for (int i = 0; i < count; i++) {
        struct str name = *(const struct str *)(const void *)(first + (size_t)i * stride);
        if (name.p == NULL)
            continue;
        if (name_set_has(seen, name))
            name_set_add(&ch->twice, name);
        name_set_add(&seen, name);
    }
    name_set_fini(&seen);
}

/* ---- Creating ---- */

static bool has_collision_letter(struct str name)
{
    return memchr(name.p, '.', (size_t)name.len) != NULL || memchr(name.p, '_', (size_t)name.len) != NULL;
}

static struct str collision_form(struct arena *arena, struct str name)
{
    struct str form = arena_str(arena, name);
    for (int32_t i = 0; form.p != NULL && i < form.len; i++) {
        if (form.p[i] == '.')
            ((char *)form.p)[i] = '_';
    }
    return form;
}

/* Topics whose metrics would have one name ('.' becomes '_' there): Kafka refuses the second. */
static enum error check_collision(struct change *ch, struct str name, struct problem *problem)
{
    if (!has_collision_letter(name))
        return OK;
    if (!ch->collisions_made) {
        for (int i = 0; i < ch->image->topic_count; i++) {
            struct str other = str_of(ch->image->topics[i]->name);
            struct str other_form = has_collision_letter(other) ? collision_form(ch->arena, other) : STR_NULL;
            if (other_form.p != NULL)
                name_set_add(&ch->collisions, other_form);
        }
        ch->collisions_made = true;
    }
    struct str form = collision_form(ch->arena, name);
    if (form.p == NULL)
        return problem_set(problem, INVALID_REQUEST, "The request is too large.");
    if (!name_set_has(ch->collisions, form)) {
        name_set_add(&ch->collisions, form);
        return OK;
    }
    for (int i = 0; i < ch->image->topic_count; i++) {
        struct str other = str_of(ch->image->topics[i]->name);
        if (has_collision_letter(other) && str_eq(form, collision_form(ch->arena, other)))
            return problem_set(problem, INVALID_TOPIC_EXCEPTION, "Topic '%.*s' collides with existing topic: %.*s", STR_ARG(name),
                               STR_ARG(other));
    }
    return problem_set(problem, INVALID_TOPIC_EXCEPTION, "Topic '%.*s' collides with another topic of the same request.",
                       STR_ARG(name));
}

static enum error check_new_name(struct change *ch, const struct topic_spec *spec, struct problem *problem)
{
    if (spec->name.p != NULL && name_set_has(ch->twice, spec->name))
        return problem_set(problem, INVALID_REQUEST, "Duplicate topic name.");
    enum error error = topic_name_check(spec->name, problem);
    if (error != OK)
        return error;
    if (str_is(spec->name, "__cluster_metadata"))
        return problem_set(problem, INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited.");
    if (image_topic(ch->image, spec->name) != NULL)
        return problem_set(problem, TOPIC_ALREADY_EXISTS, "Topic '%.*s' already exists.", STR_ARG(spec->name));
    const struct image_topic *same_id = image_topic_by_id(ch->image, &spec->id);
    if (same_id != NULL)
        return problem_set(problem, TOPIC_ALREADY_EXISTS, "The topic id of '%.*s' belongs to the topic '%s' here.",
                           STR_ARG(spec->name), same_id->name);
    return check_collision(ch, spec->name, problem);
}

static enum error collect_configs(struct change *ch, const struct topic_spec *spec, struct image_configs *configs,
                                  struct problem *problem)
{
    for (int32_t i = 0; i < spec->config_count; i++) {
        const struct config_change *change = &spec->configs[i];
        const struct config_def *def = config_def_find(CONFIG_SCOPE_TOPIC, change->name);
        if (def == NULL) {
            const char *near = config_nearest(CONFIG_SCOPE_TOPIC, change->name);
            problem_set(problem, INVALID_CONFIG, "Unknown topic config name: %.*s", STR_ARG(change->name));
            if (near != NULL)
                problem_hint(problem, "Did you mean %s?", near);
            return INVALID_CONFIG;
        }
        if (change->value.p == NULL)
            return problem_set(problem, INVALID_CONFIG, "Null value not supported for topic configs: %s", def->name);
        enum error error = config_check(def, change->value, problem);
        if (error != OK)
            return error;
        image_configs_set(configs, change->name, change->value);
    }
    return config_check_topic(ch->image, configs, problem);
}

static enum error check_consecutive(const struct topic_spec *spec, struct topic_assignment **ret_in_order, struct arena *arena,
                                    struct problem *problem)
{
    struct topic_assignment *in_order = arena_calloc(arena, (size_t)spec->assignment_count, sizeof(*in_order));
    if (in_order == NULL)
        return problem_set(problem, INVALID_REQUEST, "The request is too large.");
    for (int32_t i = 0; i < spec->assignment_count; i++) {
        int32_t p = spec->assignments[i].partition;
        bool taken = p >= 0 && p < spec->assignment_count && in_order[p].broker_ids != NULL;
        if (taken)
            return problem_set(problem, INVALID_REPLICA_ASSIGNMENT,
                               "Found multiple manual partition assignments for partition %d", p);
        if (p < 0 || p >= spec->assignment_count)
            return problem_set(problem, INVALID_REPLICA_ASSIGNMENT,
                               "partitions should be a consecutive 0-based integer sequence");
        in_order[p] = spec->assignments[i];
        if (in_order[p].broker_ids == NULL) /* an empty list: found again by the placement */
            in_order[p].broker_ids = &spec->assignments[i].partition;
    }
    *ret_in_order = in_order;
    return OK;
}

static enum error too_many(const char *what, struct problem *problem)
{
    problem_set(problem, POLICY_VIOLATION, "Excessively large number of %spartitions per request.", what);
    problem_detail(problem, "the limit is %d", PARTITIONS_PER_REQUEST_MAX);
    return POLICY_VIOLATION;
}

static enum error place_new_topic(struct change *ch, const struct topic_spec *spec, struct placement *ret_placement,
                                  struct problem *problem)
{
    int64_t partitions = spec->partitions == -1 ? config_broker_long(ch->image, "num.partitions") : spec->partitions;
    int64_t factor =
        spec->replication_factor == -1 ? config_broker_long(ch->image, "default.replication.factor") : spec->replication_factor;
    if (spec->assignment_count > 0) {
        if (spec->replication_factor != -1)
            return problem_set(problem, INVALID_REQUEST,
                               "A manual partition assignment was specified, but replication factor was not set to -1.");
        if (spec->partitions != -1)
            return problem_set(problem, INVALID_REQUEST,
                               "A manual partition assignment was specified, but numPartitions was not set to -1.");
        partitions = spec->assignment_count;
    }
    if (factor <= 0)
        return problem_set(problem, INVALID_REPLICATION_FACTOR,
                           "Replication factor must be larger than 0, or -1 to use the default value.");
    if (partitions <= 0)
        return problem_set(problem, INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.");
    if (ch->new_partitions + partitions > PARTITIONS_PER_REQUEST_MAX)
        return too_many("", problem);
    enum error error;
    if (spec->assignment_count > 0) {
        struct topic_assignment *in_order = NULL;
        error = check_consecutive(spec, &in_order, ch->arena, problem);
        if (error == OK)
            error = place_as_told(ch->image, in_order, spec->assignment_count, 0, ret_placement, problem);
    } else {
        error = place_evenly(ch->image, 0, (int32_t)partitions, (int32_t)factor, ret_placement, problem);
    }
    if (error == OK)
        ch->new_partitions += partitions;
    return error;
}

static void put_topic(struct change *ch, const struct topic_spec *spec, const struct uuid *id, const struct placement *placement,
                      const struct image_configs *configs)
{
    char key[META_KEY_MAX], name[LIMIT_TOPIC_NAME + 1];
    snprintf(name, sizeof(name), "%.*s", STR_ARG(spec->name));
    meta_key(key, KEY_TOPICS "%s", name);
    meta_txn_check(&ch->txn, key, 0);
    meta_txn_put(&ch->txn, key, image_topic_json(id, placement->partitions));
    put_partitions(&ch->txn, name, 0, placement);
    if (configs->count > 0)
        meta_txn_put(&ch->txn, meta_key(key, KEY_CONFIGS_TOPICS "%s", name), image_configs_json(configs));
}

static enum error create_one(struct change *ch, const struct topic_spec *spec, bool validate_only, struct topic_result *result,
                             struct problem *problem)
{
    struct image_configs configs = {0};
    struct placement placement = {0};
    enum error error = check_new_name(ch, spec, problem);
    if (error == OK)
        error = collect_configs(ch, spec, &configs, problem);
    if (error == OK)
        error = place_new_topic(ch, spec, &placement, problem);
    if (error == OK) {
        *result = (struct topic_result){.partitions = placement.partitions, .replication_factor = (int16_t)placement.factor};
        if (!validate_only) {
            result->id = uuid_is_zero(&spec->id) ? random_uuid(ch->c->random) : spec->id;
            put_topic(ch, spec, &result->id, &placement, &configs);
        }
        ch->accepted++;
    }
    placement_fini(&placement);
    image_configs_fini(&configs);
    return error;
}

enum error controller_create_topics(struct controller *c, const struct topic_spec *specs, int count, bool validate_only,
                                    const struct meta_txn *also, struct arena *arena, struct topic_result *results,
                                    struct problem *problem)
{
    struct change ch;
    struct problem own;
    if (count == 0)
        return OK;
    change_begin(&ch, c, arena);
    find_twice(&ch, (const char *)&specs[0].name, sizeof(*specs), count);
    for (int i = 0; i < count; i++) {
        if (create_one(&ch, &specs[i], validate_only, &results[i], &own) != OK)
            topic_result_fail(&results[i], &own, arena);
    }
    if (also != NULL && ch.accepted < count)
        refuse_rest(&ch, results, count);
    return change_end(&ch, !validate_only, also, problem);
}

/* ---- Deleting ---- */

static const struct image_topic *resolve(struct change *ch, const struct topic_ref *ref, struct problem *problem)
{
    const struct image_topic *topic =
        ref->name.p != NULL ? image_topic(ch->image, ref->name) : image_topic_by_id(ch->image, &ref->id);
    if (topic == NULL && ref->name.p != NULL)
        problem_set(problem, UNKNOWN_TOPIC_OR_PARTITION, "There is no topic '%.*s' here.", MIN(ref->name.len, 260), ref->name.p);
    else if (topic == NULL)
        problem_set(problem, UNKNOWN_TOPIC_ID, "There is no topic with this id here.");
    return topic;
}

static void delete_one(struct change *ch, const struct image_topic *topic)
{
    char key[META_KEY_MAX];
    meta_key(key, KEY_TOPICS "%s", topic->name);
    meta_txn_check(&ch->txn, key, META_PRESENT);
    meta_txn_delete(&ch->txn, key);
    meta_txn_delete_prefix(&ch->txn, meta_key(key, KEY_PARTITIONS "%s/", topic->name));
    meta_txn_delete(&ch->txn, meta_key(key, KEY_CONFIGS_TOPICS "%s", topic->name));
    ch->accepted++;
}

enum error controller_delete_topics(struct controller *c, const struct topic_ref *refs, int count, const struct meta_txn *also,
                                    struct arena *arena, struct topic_result *results, struct str *ret_names,
                                    struct problem *problem)
{
    struct change ch;
    struct problem own;
    struct name_set *seen = NULL;
    change_begin(&ch, c, arena);
    for (int pass = 0; pass < 2; pass++) { /* first find what comes twice, by name or id; then delete the others */
        for (int i = 0; i < count; i++) {
            own = (struct problem){0};
            const struct image_topic *topic = resolve(&ch, &refs[i], &own);
            struct str name = topic != NULL ? str_of(topic->name) : STR_NULL;
            if (pass == 0 && topic != NULL) {
                name_set_add(name_set_has(seen, name) ? &ch.twice : &seen, name);
                continue;
            }
            if (pass == 0)
                continue;
            ret_names[i] = topic != NULL ? arena_str(arena, name) : refs[i].name;
            results[i] = (struct topic_result){.id = topic != NULL ? topic->id : refs[i].id};
            if (topic != NULL && name_set_has(ch.twice, name))
                problem_set(&own, INVALID_REQUEST, "Duplicate topic name.");
            else if (topic != NULL && controller_topic_change_allowed(c, name, TOPIC_DELETE, &own) == OK)
                delete_one(&ch, topic);
            if (own.code != OK) {
                struct uuid id = results[i].id;
                topic_result_fail(&results[i], &own, arena);
                results[i].id = id;
            }
        }
    }
    name_set_fini(&seen);
    if (also != NULL && ch.accepted < count)
        refuse_rest(&ch, results, count);
    return change_end(&ch, true, also, problem);
}

/* ---- Partitions ---- */

static enum error add_to_one(struct change *ch, const struct partitions_spec *spec, bool unguarded, struct problem *problem)
{
    if (spec->topic.p != NULL && name_set_has(ch->twice, spec->topic))
        return problem_set(problem, INVALID_REQUEST, "Duplicate topic name.");
    const struct image_topic *topic = image_topic(ch->image, spec->topic);
    if (topic == NULL)
        return problem_set(problem, UNKNOWN_TOPIC_OR_PARTITION, "There is no topic '%.*s' here.", MIN(spec->topic.len, 260),
                           spec->topic.p);
    if (spec->count == topic->partition_count)
        return problem_set(problem, INVALID_PARTITIONS, "Topic already has %d partition(s).", spec->count);
    if (spec->count < topic->partition_count)
        return problem_set(problem, INVALID_PARTITIONS,
                           "The topic %s currently has %d partition(s); %d would not be an increase.", topic->name,
                           topic->partition_count, spec->count);
    int32_t more = spec->count - topic->partition_count;
    if (spec->assignment_count >= 0 && spec->assignment_count != more)
        return problem_set(problem, INVALID_REPLICA_ASSIGNMENT,
                           "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more,
                           spec->assignment_count);
    if (spec->count > LIMIT_PARTITIONS_PER_TOPIC || ch->new_partitions + more > PARTITIONS_PER_REQUEST_MAX)
        return too_many("additional ", problem);
    enum error error = unguarded ? OK : controller_topic_change_allowed(ch->c, spec->topic, TOPIC_ADD_PARTITIONS, problem);
    int32_t factor = topic->partitions[0].replica_count;
    struct placement placement = {0};
    if (error == OK && spec->assignment_count >= 0)
        error = place_as_told(ch->image, spec->assignments, spec->assignment_count, factor, &placement, problem);
    else if (error == OK)
        error = place_evenly(ch->image, topic->partition_count, more, factor, &placement, problem);
    if (error == OK) {
        char key[META_KEY_MAX];
        meta_key(key, KEY_TOPICS "%s", topic->name);
        meta_txn_check(&ch->txn, key, META_PRESENT);
        meta_txn_put(&ch->txn, key, image_topic_json(&topic->id, spec->count));
        put_partitions(&ch->txn, topic->name, topic->partition_count, &placement);
        ch->new_partitions += more;
        ch->accepted++;
    }
    placement_fini(&placement);
    return error;
}

enum error controller_add_partitions(struct controller *c, const struct partitions_spec *specs, int count, bool validate_only,
                                     bool unguarded, const struct meta_txn *also, struct arena *arena,
                                     struct topic_result *results, struct problem *problem)
{
    struct change ch;
    struct problem own;
    if (count == 0)
        return OK;
    change_begin(&ch, c, arena);
    find_twice(&ch, (const char *)&specs[0].topic, sizeof(*specs), count);
    for (int i = 0; i < count; i++) {
        results[i] = (struct topic_result){.partitions = specs[i].count};
        if (add_to_one(&ch, &specs[i], unguarded, &own) != OK)
            topic_result_fail(&results[i], &own, arena);
    }
    if (also != NULL && ch.accepted < count)
        refuse_rest(&ch, results, count);
    return change_end(&ch, !validate_only, also, problem);
}

/* ---- Leader epochs ---- */

static void put_leader_epoch(struct change *ch, const struct image_topic *topic, int32_t index, int32_t epoch)
{
    char key[META_KEY_MAX];
    struct image_partition p = topic->partitions[index];
    p.leader_epoch = epoch;
    p.partition_epoch++;
    meta_key(key, KEY_PARTITIONS "%s/%d", topic->name, index);
    meta_txn_check(&ch->txn, key, META_PRESENT);
    meta_txn_put(&ch->txn, key, image_partition_json(&p));
    ch->accepted++;
}

enum error controller_raise_leader_epochs(struct controller *c, struct epoch_raise *raises, int count,
                                          const struct meta_txn *also, struct problem *problem)
{
    struct change ch;
    change_begin(&ch, c, NULL);
    for (int i = 0; i < count; i++) {
        struct epoch_raise *r = &raises[i];
        const struct image_topic *topic = image_topic(ch.image, str_of(r->topic));
        const struct image_partition *p = topic != NULL ? image_partition(topic, r->partition) : NULL;
        r->leader_epoch = p != NULL ? p->leader_epoch : -1;
        if (p == NULL || (!r->always && p->leader_epoch >= r->at_least))
            continue;
        ASSERT(p->leader_epoch < INT32_MAX);
        r->leader_epoch = r->always ? MAX(p->leader_epoch + 1, r->at_least) : r->at_least;
        put_leader_epoch(&ch, topic, r->partition, r->leader_epoch);
    }
    if (also != NULL && also->count > 0)
        ch.accepted++;
    return change_end(&ch, true, also, problem);
}

enum error controller_raise_all_leader_epochs(struct controller *c, int *ret_count, struct problem *problem)
{
    struct change ch;
    change_begin(&ch, c, NULL);
    for (int t = 0; t < ch.image->topic_count; t++) {
        const struct image_topic *topic = ch.image->topics[t];
        for (int32_t p = 0; p < topic->partition_count; p++) {
            if (topic->partitions[p].leader == c->node_id)
                put_leader_epoch(&ch, topic, p, topic->partitions[p].leader_epoch + 1);
        }
    }
    int raised = ch.accepted;
    enum error error = change_end(&ch, true, NULL, problem);
    if (error == OK)
        *ret_count = raised;
    return error;
}
