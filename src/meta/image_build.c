/* Images out of entries. Every touched topic becomes a draft (a private copy), takes its events in their order, and at the end
 * stands as a whole or the image is not built. Entries may come in any order: a first load lists partitions before their
 * topics. */
#include "meta/image_build.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/assert.h"
#include "base/limits.h"
#include "meta/controller.h"

struct draft {
    UT_hash_handle hh;
    struct image_topic *topic; /* ours until the image takes it */
    bool exists;               /* there is a topics/NAME entry */
};

struct build {
    struct image *image;
    struct draft *drafts;
    struct problem *problem;
};

/* ---- Settings ---- */

void image_configs_fini(struct image_configs *configs)
{
    for (int i = 0; i < configs->count; i++) {
        mem_free(configs->items[i].name);
        mem_free(configs->items[i].value);
    }
    mem_free(configs->items);
    *configs = (struct image_configs){0};
}

void image_configs_copy(struct image_configs *dst, const struct image_configs *src)
{
    *dst = (struct image_configs){.items = mem_calloc((size_t)src->count + 1, sizeof(*dst->items)), .count = src->count};
    for (int i = 0; i < src->count; i++) {
        dst->items[i].name = mem_strdup(src->items[i].name);
        dst->items[i].value = mem_strdup(src->items[i].value);
    }
}

void image_configs_set(struct image_configs *configs, struct str name, struct str value)
{
    int i = 0;
    while (i < configs->count && str_cmp(str_of(configs->items[i].name), name) < 0)
        i++;
    bool present = i < configs->count && str_is(name, configs->items[i].name);
    if (present && value.p != NULL) {
        mem_free(configs->items[i].value);
        configs->items[i].value = str_dup(value);
    } else if (present) {
        mem_free(configs->items[i].name);
        mem_free(configs->items[i].value);
        configs->count--;
        memmove(&configs->items[i], &configs->items[i + 1], (size_t)(configs->count - i) * sizeof(*configs->items));
    } else if (value.p != NULL) {
        configs->items = mem_realloc(configs->items, ((size_t)configs->count + 1) * sizeof(*configs->items));
        memmove(&configs->items[i + 1], &configs->items[i], (size_t)(configs->count - i) * sizeof(*configs->items));
        configs->items[i] = (struct image_setting){.name = str_dup(name), .value = str_dup(value)};
        configs->count++;
    }
}

static enum error read_configs(json_t *value, struct image_configs *configs)
{
    const char *name;
    json_t *setting;
    image_configs_fini(configs);
    if (value == NULL)
        return OK;
    if (!json_is_object(value))
        return ERR_CORRUPT;
    json_object_foreach(value, name, setting)
    {
        if (!json_is_string(setting))
            return ERR_CORRUPT;
        image_configs_set(configs, str_of(name), str_of(json_string_value(setting)));
    }
    return OK;
}

/* ---- Values ---- */

static bool read_int(json_t *object, const char *name, int64_t min, int64_t max, int64_t *ret_value)
{
    json_t *value = json_object_get(object, name);
    if (!json_is_integer(value) || json_integer_value(value) < min || json_integer_value(value) > max)
        return false;
    *ret_value = json_integer_value(value);
    return true;
}

static bool read_ids(json_t *object, const char *name, int32_t **ret_ids, int32_t *ret_count)
{
    json_t *array = json_object_get(object, name);
    if (!json_is_array(array))
        return false;
    size_t count = json_array_size(array);
    int32_t *ids = mem_calloc(count + 1, sizeof(*ids));
    for (size_t i = 0; i < count; i++) {
        json_t *id = json_array_get(array, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
            mem_free(ids);
            return false;
        }
        ids[i] = (int32_t)json_integer_value(id);
    }
    *ret_ids = ids;
    *ret_count = (int32_t)count;
    return true;
}

static enum error read_partition(json_t *value, struct image_partition *ret_partition)
{
    struct image_partition p = {0};
    int64_t leader, leader_epoch, partition_epoch;
    if (!read_int(value, "leader", -1, INT32_MAX, &leader) || !read_int(value, "leaderEpoch", 0, INT32_MAX, &leader_epoch) ||
        !read_int(value, "partitionEpoch", 0, INT32_MAX, &partition_epoch) ||
        !read_ids(value, "replicas", &p.replicas, &p.replica_count))
        return ERR_CORRUPT;
    if (!read_ids(value, "isr", &p.isr, &p.isr_count)) {
        mem_free(p.replicas);
        return ERR_CORRUPT;
    }
    p.leader = (int32_t)leader;
    p.leader_epoch = (int32_t)leader_epoch;
    p.partition_epoch = (int32_t)partition_epoch;
    *ret_partition = p;
    return OK;
}

static json_t *ids_json(const int32_t *ids, int32_t count)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(ids[i]));
    return array;
}

json_t *image_topic_json(const struct uuid *id, int32_t partitions)
{
    char text[UUID_TEXT_SIZE];
    return json_pack("{s:s, s:i}", "topicId", uuid_text(id, text), "partitions", partitions);
}

json_t *image_partition_json(const struct image_partition *p)
{
    return json_pack("{s:i, s:i, s:i, s:o, s:o}", "leader", p->leader, "leaderEpoch", p->leader_epoch, "partitionEpoch",
                     p->partition_epoch, "replicas", ids_json(p->replicas, p->replica_count), "isr",
                     ids_json(p->isr, p->isr_count));
}

json_t *image_configs_json(const struct image_configs *configs)
{
    json_t *object = json_object();
    for (int i = 0; i < configs->count; i++)
        json_object_set_new(object, configs->items[i].name, json_string(configs->items[i].value));
    return object;
}

json_t *image_broker_json(const char *host, int32_t port, const char *rack)
{
    return json_pack("{s:s, s:i, s:s?}", "host", host, "port", port, "rack", rack);
}

/* ---- Drafts ---- */

static struct image_topic *topic_copy(const struct image_topic *t)
{
    struct image_topic *copy = mem_calloc(1, sizeof(*copy));
    *copy = (struct image_topic){.refs = 1, .name = mem_strdup(t->name), .id = t->id, .internal = t->internal};
    copy->partition_count = t->partition_count;
    copy->partitions = mem_calloc((size_t)t->partition_count + 1, sizeof(*copy->partitions));
    for (int32_t i = 0; i < t->partition_count; i++) {
        const struct image_partition *from = &t->partitions[i];
        struct image_partition *to = &copy->partitions[i];
        *to = *from;
        to->replicas = mem_calloc((size_t)from->replica_count + 1, sizeof(int32_t));
        to->isr = mem_calloc((size_t)from->isr_count + 1, sizeof(int32_t));
        memcpy(to->replicas, from->replicas, (size_t)from->replica_count * sizeof(int32_t));
        memcpy(to->isr, from->isr, (size_t)from->isr_count * sizeof(int32_t));
    }
    image_configs_copy(&copy->configs, &t->configs);
    return copy;
}

static bool is_internal(struct str name)
{
    return str_is(name, "__consumer_offsets") || str_is(name, "__transaction_state") || str_is(name, "__share_group_state");
}

static struct draft *draft_of(struct build *b, const struct image *before, struct str name)
{
    struct draft *draft;
    HASH_FIND(hh, b->drafts, name.p, (size_t)name.len, draft);
    if (draft != NULL)
        return draft;
    draft = mem_calloc(1, sizeof(*draft));
    const struct image_topic *known = image_topic(before, name);
    draft->exists = known != NULL;
    if (known != NULL) {
        draft->topic = topic_copy(known);
    } else {
        draft->topic = mem_calloc(1, sizeof(*draft->topic));
        *draft->topic = (struct image_topic){.refs = 1, .name = str_dup(name), .internal = is_internal(name)};
    }
    HASH_ADD_KEYPTR(hh, b->drafts, draft->topic->name, (size_t)name.len, draft);
    return draft;
}

/* Room for partition `index`; new ones have no replica, which marks them as missing. */
static void grow_partitions(struct image_topic *t, int32_t count)
{
    if (count <= t->partition_count)
        return;
    t->partitions = mem_realloc(t->partitions, (size_t)count * sizeof(*t->partitions));
    memset(&t->partitions[t->partition_count], 0, (size_t)(count - t->partition_count) * sizeof(*t->partitions));
    t->partition_count = count;
}

static void clear_partition(struct image_partition *p)
{
    mem_free(p->replicas);
    mem_free(p->isr);
    *p = (struct image_partition){0};
}

/* ---- Entries ---- */

static enum error take_topic(struct build *b, const struct image *before, struct str name, json_t *value)
{
    struct draft *draft = draft_of(b, before, name);
    draft->exists = value != NULL;
    if (value == NULL)
        return OK;
    int64_t partitions;
    json_t *id = json_object_get(value, "topicId");
    if (topic_name_check(name, NULL) != OK || !json_is_string(id) ||
        !uuid_parse(str_of(json_string_value(id)), &draft->topic->id) || uuid_is_zero(&draft->topic->id) ||
        !read_int(value, "partitions", 1, LIMIT_PARTITIONS_PER_TOPIC, &partitions))
        return ERR_CORRUPT;
    grow_partitions(draft->topic, (int32_t)partitions);
    for (; draft->topic->partition_count > partitions; draft->topic->partition_count--) {
        struct image_partition *last = &draft->topic->partitions[draft->topic->partition_count - 1];
        if (last->replicas != NULL)
            return ERR_CORRUPT; /* an entry beyond the topic's count */
    }
    return OK;
}

static enum error take_partition(struct build *b, const struct image *before, struct str rest, json_t *value)
{
    struct str name;
    int64_t index;
    if (!str_split(&rest, '/', &name) || !str_to_i64(rest, &index) || index < 0 || index >= LIMIT_PARTITIONS_PER_TOPIC)
        return ERR_CORRUPT;
    struct image_topic *topic = draft_of(b, before, name)->topic;
    grow_partitions(topic, (int32_t)index + 1);
    clear_partition(&topic->partitions[index]);
    return value != NULL ? read_partition(value, &topic->partitions[index]) : OK;
}

static enum error take_broker(struct image *image, struct str rest, json_t *value)
{
    int64_t id, port;
    if (!str_to_i64(rest, &id) || id < 0 || id > INT32_MAX)
        return ERR_CORRUPT;
    int i = 0;
    while (i < image->broker_count && image->brokers[i].id < id)
        i++;
    bool present = i < image->broker_count && image->brokers[i].id == id;
    if (present) {
        mem_free(image->brokers[i].host);
        mem_free(image->brokers[i].rack);
        image->broker_count--;
        memmove(&image->brokers[i], &image->brokers[i + 1], (size_t)(image->broker_count - i) * sizeof(*image->brokers));
    }
    if (value == NULL)
        return OK;
    const char *host = json_string_value(json_object_get(value, "host"));
    const char *rack = json_string_value(json_object_get(value, "rack"));
    if (host == NULL || !read_int(value, "port", 0, 65535, &port))
        return ERR_CORRUPT;
    image->brokers = mem_realloc(image->brokers, ((size_t)image->broker_count + 1) * sizeof(*image->brokers));
    memmove(&image->brokers[i + 1], &image->brokers[i], (size_t)(image->broker_count - i) * sizeof(*image->brokers));
    image->brokers[i] = (struct image_broker){
        .id = (int32_t)id, .host = mem_strdup(host), .port = (int32_t)port, .rack = rack != NULL ? mem_strdup(rack) : NULL};
    image->broker_count++;
    return OK;
}

static enum error take_cluster(struct image *image, json_t *value)
{
    const char *id = json_string_value(json_object_get(value, "clusterId"));
    if (id == NULL || !uuid_parse(str_of(id), &image->cluster_id))
        return ERR_CORRUPT;
    uuid_text(&image->cluster_id, image->cluster_id_text);
    return OK;
}

static bool cut_prefix(struct str *key, const char *prefix)
{
    struct str p = str_of(prefix);
    if (!str_starts(*key, p))
        return false;
    key->p += p.len;
    key->len -= p.len;
    return true;
}

static enum error take(struct build *b, const struct image *before, const struct meta_event *event)
{
    struct str key = str_of(event->key);
    int64_t id;
    if (cut_prefix(&key, KEY_PARTITIONS))
        return take_partition(b, before, key, event->value);
    if (cut_prefix(&key, KEY_TOPICS))
        return take_topic(b, before, key, event->value);
    if (cut_prefix(&key, KEY_CONFIGS_TOPICS))
        return read_configs(event->value, &draft_of(b, before, key)->topic->configs);
    if (cut_prefix(&key, KEY_CONFIGS_BROKERS))
        return str_to_i64(key, &id) && id == b->image->node_id ? read_configs(event->value, &b->image->broker_configs) : OK;
    if (str_is(key, KEY_CONFIGS_BROKERS_DEFAULT))
        return read_configs(event->value, &b->image->broker_default_configs);
    if (cut_prefix(&key, KEY_BROKERS))
        return take_broker(b->image, key, event->value);
    if (str_is(key, KEY_CLUSTER))
        return take_cluster(b->image, event->value);
    return OK; /* another owner's */
}

/* ---- Putting together ---- */

typedef int topic_order(const void *a, const void *b);

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct image_topic *const *)a)->name, (*(struct image_topic *const *)b)->name);
}

static int by_id(const void *a, const void *b)
{
    return memcmp((*(struct image_topic *const *)a)->id.b, (*(struct image_topic *const *)b)->id.b, sizeof(struct uuid));
}

/* The untouched topics of `old` and the drafts, both in order, into out; returns how many. */
static int merge(struct build *b, struct image_topic **old, int old_count, struct image_topic **drafts, int draft_count,
                 topic_order *order, struct image_topic **out)
{
    int count = 0, d = 0;
    for (int o = 0; o < old_count; o++) {
        struct draft *touched;
        HASH_FIND(hh, b->drafts, old[o]->name, strlen(old[o]->name), touched);
        if (touched != NULL)
            continue;
        while (d < draft_count && order(&drafts[d], &old[o]) < 0)
            out[count++] = drafts[d++];
        out[count++] = old[o];
    }
    while (d < draft_count)
        out[count++] = drafts[d++];
    return count;
}

static enum error check_draft(struct build *b, const struct draft *draft)
{
    for (int32_t i = 0; i < draft->topic->partition_count && draft->exists; i++) {
        if (draft->topic->partitions[i].replicas != NULL)
            continue;
        problem_set(b->problem, ERR_CORRUPT, "The metadata entry " KEY_PARTITIONS "%s/%d is missing.", draft->topic->name, i);
        problem_hint(b->problem, "Restore the metadata store from a backup.");
        return ERR_CORRUPT;
    }
    return OK;
}

static enum error put_together(struct build *b, const struct image *before)
{
    struct draft *draft, *next;
    int draft_count = 0;
    int capacity = before->topic_count + (int)HASH_COUNT(b->drafts) + 1;
    struct image_topic **drafts = mem_calloc((size_t)capacity, sizeof(struct image_topic *));
    HASH_ITER (hh, b->drafts, draft, next) {
        enum error error = check_draft(b, draft);
        if (error != OK) {
            mem_free(drafts);
            return error;
        }
        if (draft->exists)
            drafts[draft_count++] = draft->topic;
    }
    struct image *image = b->image;
    image->topics = mem_calloc((size_t)capacity, sizeof(struct image_topic *));
    image->topics_by_id = mem_calloc((size_t)capacity, sizeof(struct image_topic *));
    qsort(drafts, (size_t)draft_count, sizeof(struct image_topic *), by_name);
    image->topic_count = merge(b, before->topics, before->topic_count, drafts, draft_count, by_name, image->topics);
    qsort(drafts, (size_t)draft_count, sizeof(struct image_topic *), by_id);
    merge(b, before->topics_by_id, before->topic_count, drafts, draft_count, by_id, image->topics_by_id);
    mem_free(drafts);
    for (int i = 0; i < image->topic_count; i++)
        atomic_fetch_add_explicit(&image->topics[i]->refs, 1,
                                  memory_order_relaxed); /* a draft's own reference is dropped below */
    return OK;
}

static void drop_drafts(struct build *b)
{
    struct draft *draft, *next;
    HASH_ITER (hh, b->drafts, draft, next) {
        HASH_DEL(b->drafts, draft);
        image_topic_unref(draft->topic);
        mem_free(draft);
    }
}

struct image *image_create(int32_t node_id, const struct properties *static_configs)
{
    struct image *image = mem_calloc(1, sizeof(*image));
    *image = (struct image){.refs = 1, .node_id = node_id, .controller_id = node_id, .static_configs = static_configs};
    image->topics = mem_calloc(1, sizeof(struct image_topic *));
    image->topics_by_id = mem_calloc(1, sizeof(struct image_topic *));
    return image;
}

static struct image *copy_without_topics(const struct image *before)
{
    struct image *image = mem_calloc(1, sizeof(*image));
    *image = (struct image){.refs = 1,
                            .cluster_id = before->cluster_id,
                            .node_id = before->node_id,
                            .controller_id = before->controller_id,
                            .broker_count = before->broker_count,
                            .static_configs = before->static_configs};
    memcpy(image->cluster_id_text, before->cluster_id_text, UUID_TEXT_SIZE);
    image->brokers = mem_calloc((size_t)before->broker_count + 1, sizeof(*image->brokers));
    for (int i = 0; i < before->broker_count; i++) {
        image->brokers[i] = before->brokers[i];
        image->brokers[i].host = mem_strdup(before->brokers[i].host);
        image->brokers[i].rack = before->brokers[i].rack != NULL ? mem_strdup(before->brokers[i].rack) : NULL;
    }
    image_configs_copy(&image->broker_default_configs, &before->broker_default_configs);
    image_configs_copy(&image->broker_configs, &before->broker_configs);
    return image;
}

enum error image_apply(const struct image *before, const struct meta_event *events, int count, int64_t revision,
                       const struct image **ret_image, struct problem *problem)
{
    struct build b = {.image = copy_without_topics(before), .problem = problem};
    b.image->revision = revision;
    enum error error = OK;
    for (int i = 0; i < count && error == OK; i++) {
        error = take(&b, before, &events[i]);
        if (error != OK) {
            problem_set(problem, error, "The metadata entry %s cannot be understood.", events[i].key);
            problem_hint(problem, "Restore the metadata store from a backup, or correct the entry.");
        }
    }
    if (error == OK)
        error = put_together(&b, before);
    drop_drafts(&b);
    if (error != OK) {
        image_unref(b.image);
        return error;
    }
    *ret_image = b.image;
    return OK;
}
