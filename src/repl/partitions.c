/* The registry. Two maps of topics, by name and by id, each in shards with a mutex of its own that is held for a look-up and a reference; apply_mutex is
 * held through a whole partitions_apply and comes before partition locks. A shard's mutex is a leaf: nothing is called under it. */
#include "repl/partitions.h"

#include <stdio.h>
#include <uthash.h>

#include "base/assert.h"
#include "base/logger.h"
#include "meta/config_defs.h"
#include "meta/image.h"
#include "storage/log_manager.h"

#define SHARDS 32
#define OPENERS_MAX 16 /* helpers that open one topic's logs at a time */

struct topic_entry {
    UT_hash_handle by_name, by_id;
    char *name;
    struct uuid id;
    int32_t count;
    struct partition **partitions;  /* NULL: could not be opened */
    const struct image_topic *seen; /* what was applied last; belongs to parts->image */
};

struct shard {
    struct mutex mutex;
    struct topic_entry *topics;
};

struct partitions {
    struct partition_env env;
    struct log_manager *logs;
    struct partitions_callbacks callbacks;
    struct shard by_name[SHARDS], by_id[SHARDS];
    struct mutex apply_mutex;
    const struct image *image; /* applied last */
    struct helper_job failure_job;
    _Atomic bool failed;
    struct mutex failure_mutex;
    struct condition failure_told;
    bool telling_failure; /* the job is on its way */
};

/* ---- A failed disk ---- */

static void fail_one(void *arg, struct partition *p)
{
    struct plog *log = partition_lock(p);
    if (log == NULL)
        return;
    plog_fail(log);
    partition_unlock(p);
}

static void failure_work(struct helper_job *job)
{
    partitions_each(CONTAINER_OF(job, struct partitions, failure_job), fail_one, NULL);
}

static void failure_done(struct helper_job *job)
{
    struct partitions *parts = CONTAINER_OF(job, struct partitions, failure_job);
    mutex_lock(&parts->failure_mutex);
    parts->telling_failure = false;
    condition_broadcast(&parts->failure_told);
    mutex_unlock(&parts->failure_mutex);
}

/* One log failed: the whole directory goes, and everybody who waits in it is told. */
static void storage_failed(void *arg, struct partition *p)
{
    struct partitions *parts = arg;
    if (atomic_exchange(&parts->failed, true))
        return;
    char text[400];
    snprintf(text, sizeof(text), "a write or fdatasync of %s-%d failed", partition_topic(p), partition_index(p));
    log_error("repl", "the disk failed, the log directory is out of service partition=%s-%d", partition_topic(p),
              partition_index(p));
    log_manager_fail(parts->logs, text);
    mutex_lock(&parts->failure_mutex);
    parts->telling_failure = true;
    mutex_unlock(&parts->failure_mutex);
    parts->failure_job.work = failure_work;
    parts->failure_job.done = failure_done;
    helpers_submit(parts->env.helpers, &parts->failure_job);
}

/* ---- Create, destroy ---- */

struct partitions *partitions_create(const struct partitions_params *params)
{
    struct partitions *parts = mem_calloc(1, sizeof(*parts));
    parts->env.clock = params->clock;
    parts->env.helpers = params->helpers;
    atomic_init(&parts->env.flush_acks_all, params->flush_acks_all);
    parts->env.storage_failed = storage_failed;
    parts->env.arg = parts;
    parts->logs = params->logs;
    parts->callbacks = params->callbacks;
    mutex_init(&parts->apply_mutex);
    mutex_init(&parts->failure_mutex);
    condition_init(&parts->failure_told);
    for (int i = 0; i < SHARDS; i++) {
        mutex_init(&parts->by_name[i].mutex);
        mutex_init(&parts->by_id[i].mutex);
    }
    return parts;
}

void partitions_set_flush_acks_all(struct partitions *parts, bool on)
{
    atomic_store(&parts->env.flush_acks_all, on);
}

static struct shard *name_shard(struct partitions *parts, struct str name)
{
    uint32_t h = 2166136261U; /* FNV-1a */
    for (int32_t i = 0; i < name.len; i++)
        h = (h ^ (uint8_t)name.p[i]) * 16777619U;
    return &parts->by_name[h % SHARDS];
}

static struct shard *id_shard(struct partitions *parts, const struct uuid *id)
{
    return &parts->by_id[id->b[15] % SHARDS];
}

static struct topic_entry *find_name(struct shard *shard, struct str name)
{
    struct topic_entry *e = NULL;
    HASH_FIND(by_name, shard->topics, name.p, (unsigned)name.len, e);
    return e;
}

static struct topic_entry *find_id(struct shard *shard, const struct uuid *id)
{
    struct topic_entry *e = NULL;
    HASH_FIND(by_id, shard->topics, id, sizeof(*id), e);
    return e;
}

static void publish_topic(struct partitions *parts, struct topic_entry *e)
{
    struct shard *s = name_shard(parts, str_of(e->name)), *ids = id_shard(parts, &e->id);
    mutex_lock(&s->mutex);
    HASH_ADD_KEYPTR(by_name, s->topics, e->name, strlen(e->name), e);
    mutex_unlock(&s->mutex);
    mutex_lock(&ids->mutex);
    HASH_ADD(by_id, ids->topics, id, sizeof(e->id), e);
    mutex_unlock(&ids->mutex);
}

static void unpublish_topic(struct partitions *parts, struct topic_entry *e)
{
    struct shard *s = name_shard(parts, str_of(e->name)), *ids = id_shard(parts, &e->id);
    mutex_lock(&s->mutex);
    HASH_DELETE(by_name, s->topics, e);
    mutex_unlock(&s->mutex);
    mutex_lock(&ids->mutex);
    HASH_DELETE(by_id, ids->topics, e);
    mutex_unlock(&ids->mutex);
}

static void close_partition(struct partitions *parts, struct partition *p, enum error why)
{
    if (parts->callbacks.closing != NULL)
        parts->callbacks.closing(parts->callbacks.arg, p);
    struct plog *log = partition_lock(p);
    if (log != NULL) {
        partition_unlock(p);
        log_manager_release(parts->logs, log);
    }
    partition_close(p, why);
}

/* The topic is out of the maps: nobody finds it any more. */
static void end_topic(struct partitions *parts, struct topic_entry *e, bool delete_logs)
{
    for (int32_t i = 0; i < e->count; i++) {
        if (e->partitions[i] != NULL)
            close_partition(parts, e->partitions[i], delete_logs ? UNKNOWN_TOPIC_OR_PARTITION : BROKER_NOT_AVAILABLE);
        if (delete_logs) {
            enum error error = log_manager_delete_log(parts->logs, str_of(e->name), i);
            if (error != OK && error != ERR_NOT_FOUND)
                log_error("repl", "the folder of a deleted partition cannot be removed partition=%s-%d error=%s", e->name, i,
                          error_name(error));
        }
        partition_unref(e->partitions[i]);
    }
    mem_free(e->partitions);
    mem_free(e->name);
    mem_free(e);
}

static struct topic_entry *take_any(struct partitions *parts)
{
    for (int i = 0; i < SHARDS; i++) {
        struct topic_entry *e = parts->by_name[i].topics;
        if (e != NULL) {
            unpublish_topic(parts, e);
            return e;
        }
    }
    return NULL;
}

void partitions_destroy(struct partitions *parts)
{
    if (parts == NULL)
        return;
    struct topic_entry *e;
    while ((e = take_any(parts)) != NULL)
        end_topic(parts, e, false);
    mutex_lock(&parts->failure_mutex);
    while (parts->telling_failure) /* a disk that failed just now */
        condition_wait(&parts->failure_told, &parts->failure_mutex);
    mutex_unlock(&parts->failure_mutex);
    condition_fini(&parts->failure_told);
    mutex_fini(&parts->failure_mutex);
    image_unref(parts->image);
    for (int i = 0; i < SHARDS; i++) {
        mutex_fini(&parts->by_name[i].mutex);
        mutex_fini(&parts->by_id[i].mutex);
    }
    mutex_fini(&parts->apply_mutex);
    mem_free(parts);
}

/* ---- Following the image ---- */

/* Metadata decide: a folder of this name that carries another topic's id is left from a topic that is gone. */
static enum error open_log(struct partitions *parts, const struct image_topic *topic, int32_t index,
                           const struct plog_config *config, struct plog **ret_log, struct problem *problem)
{
    enum error error = log_manager_create_log(parts->logs, str_of(topic->name), index, topic->id, config, ret_log, problem);
    if (error != INCONSISTENT_TOPIC_ID)
        return error;
    log_warn("repl", "a folder is left from a deleted topic of the same name, it is removed partition=%s-%d", topic->name, index);
    error = log_manager_delete_log(parts->logs, str_of(topic->name), index);
    if (error != OK)
        return problem_set(problem, error, "the folder of %s-%d is left from another topic and cannot be removed", topic->name,
                           index);
    return log_manager_create_log(parts->logs, str_of(topic->name), index, topic->id, config, ret_log, problem);
}

static struct partition *open_partition(struct partitions *parts, const struct image_topic *topic, int32_t index,
                                        const struct plog_config *config)
{
    struct problem problem = {0};
    struct plog *log;
    struct partition *p = NULL;
    enum error error = open_log(parts, topic, index, config, &log, &problem);
    if (error == OK) {
        error = partition_create(&parts->env, str_of(topic->name), &topic->id, index, topic->partitions[index].leader_epoch,
                                 config, log, &p);
        if (error != OK)
            problem_set(&problem, error, "the leader epoch cannot be stored");
    }
    if (error != OK) {
        char line[1000];
        log_error("repl", "partition cannot be opened partition=%s-%d: %s", topic->name, index,
                  problem_line(&problem, line, sizeof(line)));
        return NULL;
    }
    if (parts->callbacks.opened != NULL)
        parts->callbacks.opened(parts->callbacks.arg, p);
    log_manager_adopt(parts->logs, log, partition_mutex(p));
    return p;
}

/* Opening logs is mostly waiting for the disk, so helpers share the work. Whoever applies works too and waits for nobody who has not begun: it may be a helper itself
 * while all others wait for it. */
struct slot {
    const struct image_topic *topic;
    int32_t index;
    struct growth *growth;
};

/* A topic that gets partitions: new (entry not yet published) or grown. */
struct growth {
    struct topic_entry *entry;
    bool fresh;
    struct plog_config config;
    struct partition **partitions; /* takes the place of the entry's */
    int32_t count;
};

struct opening {
    _Atomic int refs;
    struct partitions *parts;
    struct slot *slots;
    int32_t count;
    _Atomic int32_t next;
    struct mutex mutex;
    struct condition ended;
    int32_t working;
};

struct opening_job {
    struct helper_job job;
    struct opening *o;
};

static void opening_unref(struct opening *o)
{
    if (atomic_fetch_sub(&o->refs, 1) != 1)
        return;
    condition_fini(&o->ended);
    mutex_fini(&o->mutex);
    mem_free(o);
}

static void open_slots(struct opening *o)
{
    int32_t i;
    while ((i = atomic_fetch_add(&o->next, 1)) < o->count) {
        struct slot *s = &o->slots[i];
        s->growth->partitions[s->index] = open_partition(o->parts, s->topic, s->index, &s->growth->config);
    }
}

/* Late ones, whose turn comes when all is done, find `next` at the end: they look at nothing else of the caller's. */
static void opening_work(struct helper_job *job)
{
    struct opening *o = CONTAINER_OF(job, struct opening_job, job)->o;
    mutex_lock(&o->mutex);
    o->working++;
    mutex_unlock(&o->mutex);
    open_slots(o);
    mutex_lock(&o->mutex);
    o->working--;
    condition_signal(&o->ended);
    mutex_unlock(&o->mutex);
}

static void opening_done(struct helper_job *job)
{
    struct opening_job *j = CONTAINER_OF(job, struct opening_job, job);
    opening_unref(j->o);
    mem_free(j);
}

static void open_all(struct partitions *parts, struct slot *slots, int32_t count)
{
    struct opening *o = mem_calloc(1, sizeof(*o));
    *o = (struct opening){.parts = parts, .slots = slots, .count = count};
    int jobs = MAX(MIN(count - 1, OPENERS_MAX), 0);
    atomic_init(&o->refs, 1 + jobs);
    mutex_init(&o->mutex);
    condition_init(&o->ended);
    for (int i = 0; i < jobs; i++) {
        struct opening_job *j = mem_calloc(1, sizeof(*j));
        j->o = o;
        j->job.work = opening_work;
        j->job.done = opening_done;
        helpers_submit(parts->env.helpers, &j->job);
    }
    open_slots(o);
    mutex_lock(&o->mutex);
    while (o->working > 0)
        condition_wait(&o->ended, &o->mutex);
    mutex_unlock(&o->mutex);
    opening_unref(o);
}

static void refresh_partition(struct partition *p, const struct image_topic *topic, int32_t index,
                              const struct plog_config *config)
{
    partition_set_config(p, config);
    enum error error = partition_set_leader_epoch(p, topic->partitions[index].leader_epoch);
    if (error != OK && error != ERR_STATE) /* lower: the log had a higher one when it was opened, and keeps it */
        log_error("repl", "leader epoch cannot be set partition=%s-%d epoch=%d error=%s", topic->name, index,
                  topic->partitions[index].leader_epoch, error_name(error));
}

static void lock_topic(struct partitions *parts, const struct topic_entry *e)
{
    mutex_lock(&name_shard(parts, str_of(e->name))->mutex);
    mutex_lock(&id_shard(parts, &e->id)->mutex);
}

static void unlock_topic(struct partitions *parts, const struct topic_entry *e)
{
    mutex_unlock(&id_shard(parts, &e->id)->mutex);
    mutex_unlock(&name_shard(parts, str_of(e->name))->mutex);
}

/* What one image asks for beyond what is open. */
struct growths {
    struct growth **items;
    int32_t count, capacity;
    struct slot *slots;
    int32_t slot_count, slot_capacity;
};

static void add_growth(struct growths *all, struct topic_entry *e, bool fresh, const struct image_topic *topic,
                       const struct plog_config *config)
{
    struct growth *g = mem_calloc(1, sizeof(*g));
    *g = (struct growth){e, fresh, *config, mem_calloc((size_t)MAX(topic->partition_count, 1), sizeof(struct partition *)),
                         topic->partition_count};
    if (all->count == all->capacity) {
        all->capacity = MAX(all->capacity * 2, 16);
        all->items = mem_realloc(all->items, (size_t)all->capacity * sizeof(*all->items));
    }
    all->items[all->count++] = g;
    for (int32_t i = 0; i < g->count; i++) {
        if (i < e->count && e->partitions[i] != NULL) {
            g->partitions[i] = e->partitions[i];
            continue;
        }
        if (all->slot_count == all->slot_capacity) {
            all->slot_capacity = MAX(all->slot_capacity * 2, 64);
            all->slots = mem_realloc(all->slots, (size_t)all->slot_capacity * sizeof(*all->slots));
        }
        all->slots[all->slot_count++] = (struct slot){topic, i, g};
    }
}

static void apply_topic(struct partitions *parts, const struct image *image, const struct image_topic *topic,
                        bool configs_changed, struct growths *growths)
{
    struct topic_entry *e =
        find_name(name_shard(parts, str_of(topic->name)), str_of(topic->name)); /* only apply changes the maps */
    if (e != NULL && e->seen == topic && !configs_changed)
        return;
    struct plog_config config;
    config_topic_log(image, topic, &config);
    bool fresh = e == NULL;
    if (fresh) {
        e = mem_calloc(1, sizeof(*e));
        e->name = mem_strdup(topic->name);
        e->id = topic->id;
    }
    for (int32_t i = 0; i < MIN(e->count, topic->partition_count); i++)
        if (e->partitions[i] != NULL)
            refresh_partition(e->partitions[i], topic, i, &config);
    if (fresh || topic->partition_count > e->count)
        add_growth(growths, e, fresh, topic, &config);
    e->seen = topic;
}

/* Found only when all its partitions are open, and their lines are in the checkpoints. */
static void publish_growth(struct partitions *parts, struct growth *g)
{
    struct topic_entry *e = g->entry;
    struct partition **before = e->partitions;
    if (!g->fresh)
        lock_topic(parts, e);
    e->partitions = g->partitions;
    e->count = g->count;
    if (g->fresh)
        publish_topic(parts, e);
    else
        unlock_topic(parts, e);
    mem_free(before);
    mem_free(g);
}

static void open_growths(struct partitions *parts, struct growths *all)
{
    if (all->slot_count > 0)
        open_all(parts, all->slots, all->slot_count);
    enum error error = log_manager_settle(parts->logs); /* before anybody can write to a new log */
    if (error != OK)
        log_error("repl", "the checkpoints of the log directory cannot be written error=%s", error_name(error));
    for (int32_t i = 0; i < all->count; i++)
        publish_growth(parts, all->items[i]);
    mem_free(all->items);
    mem_free(all->slots);
}

static bool same_configs(const struct image_configs *a, const struct image_configs *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->items[i].name, b->items[i].name) != 0 || strcmp(a->items[i].value, b->items[i].value) != 0)
            return false;
    return true;
}

static void remove_gone(struct partitions *parts, const struct image *image)
{
    for (int i = 0; i < SHARDS; i++) {
        struct topic_entry *e, *next;
        HASH_ITER (by_name, parts->by_name[i].topics, e, next) {
            const struct image_topic *topic = image_topic(image, str_of(e->name));
            if (topic != NULL && uuid_eq(&topic->id, &e->id))
                continue;
            log_info("repl", "topic is gone, its logs are removed topic=%s partitions=%d", e->name, e->count);
            unpublish_topic(parts, e);
            end_topic(parts, e, true);
        }
    }
}

void partitions_apply(struct partitions *parts, const struct image *image)
{
    mutex_lock(&parts->apply_mutex);
    const struct image *before = parts->image;
    bool configs_changed = before == NULL || !same_configs(&before->broker_configs, &image->broker_configs) ||
                           !same_configs(&before->broker_default_configs, &image->broker_default_configs);
    struct growths growths = {0};
    remove_gone(parts, image);
    for (int i = 0; i < image->topic_count; i++)
        apply_topic(parts, image, image->topics[i], configs_changed, &growths);
    open_growths(parts, &growths);
    parts->image = image_ref(image);
    image_unref(before);
    mutex_unlock(&parts->apply_mutex);
}

/* ---- Looking up ---- */

static struct partition *take(const struct topic_entry *e, int32_t index, enum error missing, enum error *ret_error)
{
    if (e == NULL) {
        *ret_error = missing;
        return NULL;
    }
    if (index < 0 || index >= e->count) {
        *ret_error = UNKNOWN_TOPIC_OR_PARTITION;
        return NULL;
    }
    if (e->partitions[index] == NULL) {
        *ret_error = KAFKA_STORAGE_ERROR;
        return NULL;
    }
    return partition_ref(e->partitions[index]);
}

struct partition *partitions_find(struct partitions *parts, struct str topic, int32_t index, enum error *ret_error)
{
    if (topic.p == NULL) {
        *ret_error = UNKNOWN_TOPIC_OR_PARTITION;
        return NULL;
    }
    struct shard *s = name_shard(parts, topic);
    mutex_lock(&s->mutex);
    struct partition *p = take(find_name(s, topic), index, UNKNOWN_TOPIC_OR_PARTITION, ret_error);
    mutex_unlock(&s->mutex);
    return p;
}

struct partition *partitions_find_by_id(struct partitions *parts, const struct uuid *topic_id, int32_t index,
                                        enum error *ret_error)
{
    struct shard *s = id_shard(parts, topic_id);
    mutex_lock(&s->mutex);
    struct partition *p = take(find_id(s, topic_id), index, UNKNOWN_TOPIC_ID, ret_error);
    mutex_unlock(&s->mutex);
    return p;
}

static int compare(const void *left, const void *right)
{
    const struct partition *a = *(struct partition *const *)left, *b = *(struct partition *const *)right;
    int order = strcmp(partition_topic(a), partition_topic(b));
    return order != 0 ? order : partition_index(a) - partition_index(b);
}

void partitions_each(struct partitions *parts, void (*visit)(void *arg, struct partition *p), void *arg)
{
    struct partition **all = NULL;
    size_t count = 0, capacity = 0;
    for (int i = 0; i < SHARDS; i++) {
        mutex_lock(&parts->by_name[i].mutex);
        for (struct topic_entry *e = parts->by_name[i].topics; e != NULL; e = e->by_name.next)
            for (int32_t k = 0; k < e->count; k++) {
                if (e->partitions[k] == NULL)
                    continue;
                if (count == capacity) {
                    capacity = MAX(capacity * 2, 64);
                    all = mem_realloc(all, capacity * sizeof(struct partition *));
                }
                all[count++] = partition_ref(e->partitions[k]);
            }
        mutex_unlock(&parts->by_name[i].mutex);
    }
    if (count > 0)
        qsort(all, count, sizeof(struct partition *), compare);
    for (size_t i = 0; i < count; i++) {
        visit(arg, all[i]);
        partition_unref(all[i]);
    }
    mem_free(all);
}
