/* The registry: mirrors, topics, partitions, from their records; what the layers below ask of it; start and end. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/logger.h"
#include "mirror/internal.h"
#include "proto/messages.h"

/* Stops, changes of state and epochs must not wait for sources: they have threads of their own. */
#define WORKERS 3
#define CALLERS 4

/* ---- Objects ---- */

struct mirror *mirror_ref(struct mirror *mirror)
{
    atomic_fetch_add(&mirror->refs, 1);
    return mirror;
}

void mirror_unref(struct mirror *mirror)
{
    if (mirror == NULL || atomic_fetch_sub(&mirror->refs, 1) != 1)
        return;
    link_destroy(mirror->link);
    mirror_record_fini(&mirror->record);
    mem_free(mirror->name);
    mem_free(mirror);
}

struct mirror_partition *mirror_partition_ref(struct mirror_partition *mp)
{
    atomic_fetch_add(&mp->refs, 1);
    return mp;
}

void mirror_partition_unref(struct mirror_partition *mp)
{
    if (mp == NULL || atomic_fetch_sub(&mp->refs, 1) != 1)
        return;
    partition_unref(mp->partition);
    mirror_partition_record_fini(&mp->record);
    mirror_unref(mp->mirror);
    mem_free(mp->topic);
    mem_free(mp);
}

static struct mirror_partition *partition_new(struct mirror *mirror, const char *topic, const struct uuid *id, int32_t index)
{
    struct mirror_partition *mp = mem_calloc(1, sizeof(*mp));
    mp->refs = 1;
    mp->mirror = mirror_ref(mirror);
    mp->topic = mem_strdup(topic);
    mp->topic_id = *id;
    mp->index = index;
    mirror_partition_record_init(&mp->record);
    mp->source_high_watermark = mp->source_log_start = mp->source_seen_ms = -1;
    mp->leader = mp->leader_epoch = -1;
    return mp;
}

void partition_list_add(struct partition_list *list, struct mirror_partition *mp)
{
    if (list->count == list->capacity) {
        list->capacity = MAX(16, list->capacity * 2);
        list->items = mem_realloc(list->items, (size_t)list->capacity * sizeof(struct mirror_partition *));
    }
    list->items[list->count++] = mirror_partition_ref(mp);
}

void partition_list_fini(struct partition_list *list)
{
    for (int i = 0; i < list->count; i++)
        mirror_partition_unref(list->items[i]);
    mem_free(list->items);
    *list = (struct partition_list){0};
}

/* ---- Registry, locked ---- */

struct mirror *mirrors_find_locked(struct mirrors *m, struct str name)
{
    struct mirror *found = NULL;
    if (name.len > 0)
        HASH_FIND(hh, m->by_name, name.p, (unsigned)name.len, found);
    return found;
}

struct mirror_topic *mirrors_topic_locked(struct mirrors *m, struct str name)
{
    struct mirror_topic *found = NULL;
    if (name.len > 0)
        HASH_FIND(hh, m->topics, name.p, (unsigned)name.len, found);
    return found;
}

struct mirror *mirrors_add_locked(struct mirrors *m, const char *name, struct mirror_record *record)
{
    struct mirror *mirror = mem_calloc(1, sizeof(*mirror));
    mirror->refs = 1;
    mirror->all = m;
    mirror->name = mem_strdup(name);
    mirror->record = *record;
    *record = (struct mirror_record){0};
    HASH_ADD_KEYPTR(hh, m->by_name, mirror->name, strlen(mirror->name), mirror);
    mirror->link = link_create(mirror);
    return mirror;
}

void mirrors_remove_locked(struct mirrors *m, struct mirror *mirror)
{
    HASH_DEL(m->by_name, mirror);
}

void mirrors_grow_topic_locked(struct mirrors *m, struct mirror_topic *topic, int32_t partitions)
{
    (void)m;
    if (partitions <= topic->partitions_n)
        return;
    topic->partitions = mem_realloc(topic->partitions, (size_t)partitions * sizeof(struct mirror_partition *));
    while (topic->partitions_n < partitions) {
        topic->partitions[topic->partitions_n] =
            partition_new(topic->mirror, topic->name, &topic->record.topic_id, topic->partitions_n);
        topic->partitions_n++;
    }
}

void mirrors_remove_topic_locked(struct mirrors *m, struct mirror_topic *topic)
{
    HASH_DEL(m->topics, topic);
    for (int32_t i = 0; i < topic->partitions_n; i++)
        mirror_partition_unref(topic->partitions[i]);
    mem_free(topic->partitions);
    mirror_topic_record_fini(&topic->record);
    mirror_unref(topic->mirror);
    mem_free(topic->name);
    mem_free(topic);
}

struct mirror_topic *mirrors_add_topic_locked(struct mirrors *m, struct mirror *mirror, struct str name,
                                              struct mirror_topic_record *record, int32_t partitions)
{
    struct mirror_topic *old = mirrors_topic_locked(m, name);
    struct mirror_topic *topic = mem_calloc(1, sizeof(*topic));
    if (old != NULL)
        mirrors_remove_topic_locked(m, old);
    topic->name = str_dup(name);
    topic->mirror = mirror_ref(mirror);
    topic->record = *record;
    *record = (struct mirror_topic_record){0};
    mirrors_grow_topic_locked(m, topic, partitions);
    HASH_ADD_KEYPTR(hh, m->topics, topic->name, strlen(topic->name), topic);
    return topic;
}

bool mirror_topic_busy_locked(const struct mirror_topic *topic)
{
    if (topic->record.wanted != MIRROR_STOPPED)
        return true;
    for (int32_t i = 0; i < topic->partitions_n; i++) {
        if (!mirror_state_writable(topic->partitions[i]->record.state))
            return true;
    }
    return false;
}

void mirrors_partitions(struct mirror *mirror, struct partition_list *ret_list)
{
    struct mirrors *m = mirror->all;
    mutex_lock(&m->mutex);
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
        for (int32_t i = 0; t->mirror == mirror && i < t->partitions_n; i++)
            partition_list_add(ret_list, t->partitions[i]);
    }
    mutex_unlock(&m->mutex);
}

/* ---- Partitions of repl ---- */

/* What clients are told. */
static void refusal_of(const struct mirror *mirror, const char *topic, struct problem *ret_refusal)
{
    problem_set(ret_refusal, MIRROR_WRITE_REFUSED, "Topic %s is read-only here: mirror %s copies it from %s", topic, mirror->name,
                mirror->record.config.bootstrap_servers);
    problem_hint(ret_refusal, "To make it writable: kagami mirror stop %s --topics %s", mirror->name, topic);
}

void mirror_partition_apply_locked(struct mirror_partition *mp)
{
    struct problem refusal;
    if (mp->partition == NULL)
        return;
    if (mp->record.state == MIRROR_STOPPED) {
        partition_set_origin(mp->partition, APPEND_CLIENT, NULL);
        return;
    }
    refusal_of(mp->mirror, mp->topic, &refusal);
    partition_set_origin(mp->partition, APPEND_MIRROR, &refusal);
}

static void bind_locked(struct mirror_partition *mp, struct partition *p)
{
    if (!uuid_eq(partition_topic_id(p), &mp->topic_id)) /* a topic of this name that was made after the mirror's was deleted */
        return;
    if (mp->partition != p) {
        partition_unref(mp->partition);
        mp->partition = partition_ref(p);
    }
    mirror_partition_apply_locked(mp);
}

void mirrors_partition_opened(struct mirrors *m, struct partition *p)
{
    mutex_lock(&m->mutex);
    struct mirror_topic *topic = mirrors_topic_locked(m, str_of(partition_topic(p)));
    if (topic != NULL && partition_index(p) < topic->partitions_n)
        bind_locked(topic->partitions[partition_index(p)], p);
    mutex_unlock(&m->mutex);
}

void mirrors_partition_closing(struct mirrors *m, struct partition *p)
{
    mutex_lock(&m->mutex);
    struct mirror_topic *topic = mirrors_topic_locked(m, str_of(partition_topic(p)));
    struct mirror_partition *mp =
        topic != NULL && partition_index(p) < topic->partitions_n ? topic->partitions[partition_index(p)] : NULL;
    struct partition *dropped = NULL;
    if (mp != NULL && mp->partition == p) {
        dropped = mp->partition;
        mp->partition = NULL;
    }
    mutex_unlock(&m->mutex);
    if (dropped != NULL && !m->ending)
        mirrors_work(m, mirrors_forget_deleted, m);
    partition_unref(dropped);
}

void mirrors_bind_locked(struct mirrors *m, struct mirror_topic *topic)
{
    for (int32_t i = 0; i < topic->partitions_n; i++) {
        enum error error;
        struct partition *p = partitions_find(m->params.partitions, str_of(topic->name), i, &error);
        if (p != NULL)
            bind_locked(topic->partitions[i], p);
        partition_unref(p);
    }
}

enum error mirrors_topic_allowed(void *arg, struct str topic, enum topic_change change, struct problem *problem)
{
    struct mirrors *m = arg;
    enum error error = OK;
    if (change == TOPIC_ALTER_CONFIGS) /* the spec refuses three kinds of changes, not this one */
        return OK;
    mutex_lock(&m->mutex);
    struct mirror_topic *t = mirrors_topic_locked(m, topic);
    if (t != NULL && mirror_topic_busy_locked(t)) {
        refusal_of(t->mirror, t->name, problem);
        error = MIRROR_WRITE_REFUSED;
    }
    mutex_unlock(&m->mutex);
    return error;
}

/* ---- Messages ---- */

struct message {
    struct helper_job job; /* first; its task is the loop's */
    struct mirrors *m;
    void (*run)(void *arg);
    void *arg;
};

static struct message *message_new(struct mirrors *m, void (*run)(void *arg), void *arg)
{
    struct message *message = mem_calloc(1, sizeof(*message));
    message->m = m;
    message->run = run;
    message->arg = arg;
    atomic_fetch_add(&m->messages, 1);
    return message;
}

static void message_run(struct message *message)
{
    struct mirrors *m = message->m;
    message->run(message->arg);
    mem_free(message);
    atomic_fetch_sub(&m->messages, 1);
}

static void run_on_loop(struct loop_task *task)
{
    message_run(CONTAINER_OF(task, struct message, job.task));
}

static void run_on_helper(struct helper_job *job)
{
    message_run(CONTAINER_OF(job, struct message, job));
}

void mirrors_post(struct mirrors *m, struct loop *loop, void (*run)(void *arg), void *arg)
{
    struct message *message = message_new(m, run, arg);
    message->job.task.run = run_on_loop;
    loop_post(loop, &message->job.task);
}

static void submit(struct mirrors *m, struct helpers *pool, void (*run)(void *arg), void *arg)
{
    struct message *message = message_new(m, run, arg);
    message->job.work = run_on_helper;
    helpers_submit(pool, &message->job);
}

void mirrors_work(struct mirrors *m, void (*run)(void *arg), void *arg)
{
    submit(m, m->workers, run, arg);
}
void mirrors_work_slow(struct mirrors *m, void (*run)(void *arg), void *arg)
{
    submit(m, m->callers, run, arg);
}

struct loop *mirrors_next_loop(struct mirrors *m)
{
    unsigned n = (unsigned)atomic_fetch_add(&m->next_loop, 1);
    return loop_group_at(m->params.loops, (int)(n % (unsigned)loop_group_count(m->params.loops)));
}

void latch_init(struct latch *l, int count)
{
    mutex_init(&l->mutex);
    condition_init(&l->condition);
    l->count = count;
}

void latch_add(struct latch *l, int n)
{
    mutex_lock(&l->mutex);
    l->count += n;
    mutex_unlock(&l->mutex);
}

void latch_down(struct latch *l)
{
    mutex_lock(&l->mutex);
    if (--l->count == 0)
        condition_broadcast(&l->condition);
    mutex_unlock(&l->mutex);
}

void latch_wait(struct latch *l)
{
    mutex_lock(&l->mutex);
    while (l->count > 0)
        condition_wait(&l->condition, &l->mutex);
    mutex_unlock(&l->mutex);
    condition_fini(&l->condition);
    mutex_fini(&l->mutex);
}

/* ---- Reading the records ---- */

struct loading {
    struct mirrors *m;
    struct problem *problem;
};

static enum error bad_record(struct loading *l, const char *key, enum error error, const struct problem *why)
{
    problem_set(l->problem, error, "The metadata entry %.260s of a mirror cannot be understood", key);
    problem_detail(l->problem, "%.300s", why->message);
    return error;
}

static enum error load_mirror(void *arg, const char *key, json_t *value, int64_t revision)
{
    struct loading *l = arg;
    struct mirror_record record;
    struct problem why = {0};
    (void)revision;
    enum error error = mirror_record_from_json(value, &record, &why);
    if (error != OK)
        return bad_record(l, key, ERR_CORRUPT, &why);
    mirrors_add_locked(l->m, key + strlen("mirrors/"), &record);
    return OK;
}

static enum error load_topic(void *arg, const char *key, json_t *value, int64_t revision)
{
    struct loading *l = arg;
    struct mirror_topic_record record;
    struct problem why = {0};
    (void)revision;
    enum error error = mirror_topic_record_from_json(value, &record, &why);
    if (error != OK)
        return bad_record(l, key, ERR_CORRUPT, &why);
    struct mirror *mirror = mirrors_find_locked(l->m, str_of(record.mirror));
    if (mirror == NULL) {
        problem_set(&why, ERR_CORRUPT, "It names the mirror %.200s, which is not there", record.mirror);
        mirror_topic_record_fini(&record);
        return bad_record(l, key, ERR_CORRUPT, &why);
    }
    mirrors_add_topic_locked(l->m, mirror, str_of(key + strlen("mirror-topics/")), &record, 0);
    return OK;
}

static enum error load_partition(void *arg, const char *key, json_t *value, int64_t revision)
{
    struct loading *l = arg;
    struct mirror_partition_record record;
    struct problem why = {0};
    (void)revision;
    const char *name = key + strlen("mirror-partitions/"), *slash = strrchr(name, '/');
    int64_t index = -1;
    struct mirror_topic *topic = NULL;
    if (slash != NULL && str_to_i64(str_of(slash + 1), &index) && index >= 0 && index < INT32_MAX)
        topic = mirrors_topic_locked(l->m, (struct str){name, (int32_t)(slash - name)});
    if (topic == NULL) {
        problem_set(&why, ERR_CORRUPT, "It belongs to no topic of a mirror");
        return bad_record(l, key, ERR_CORRUPT, &why);
    }
    enum error error = mirror_partition_record_from_json(value, &record, &why);
    if (error != OK)
        return bad_record(l, key, ERR_CORRUPT, &why);
    mirrors_grow_topic_locked(l->m, topic, (int32_t)index + 1);
    mirror_partition_record_fini(&topic->partitions[index]->record);
    topic->partitions[index]->record = record;
    return OK;
}

static enum error load(struct mirrors *m, struct problem *problem)
{
    struct loading l = {m, problem};
    enum error error = meta_store_list(m->params.store, "mirrors/", load_mirror, &l);
    if (error == OK)
        error = meta_store_list(m->params.store, "mirror-topics/", load_topic, &l);
    if (error == OK)
        error = meta_store_list(m->params.store, "mirror-partitions/", load_partition, &l);
    if (error != OK && problem->code == OK)
        problem_set(problem, error, "The records of the mirrors cannot be read");
    return error;
}

/* ---- Start and end ---- */

enum error mirrors_create(const struct mirrors_params *params, struct mirrors **ret_mirrors, struct problem *problem)
{
    struct mirrors *m = mem_calloc(1, sizeof(*m));
    m->params = *params;
    mutex_init(&m->change_mutex);
    mutex_init(&m->mutex);
    condition_init(&m->stopped);
    *problem = (struct problem){0};
    enum error error = helpers_start(WORKERS, &m->workers);
    if (error == OK)
        error = helpers_start(CALLERS, &m->callers);
    if (error != OK)
        problem_set(problem, error, "The threads of the mirrors cannot be started");
    if (error == OK)
        error = load(m, problem);
    if (error != OK) {
        mirrors_destroy(m);
        return error;
    }
    *ret_mirrors = m;
    return OK;
}

/* What a crash or an ordinary end interrupted: stops and pauses are carried on with the options that their topics' records
 * keep. */
static void carry_on(void *arg)
{
    struct mirrors *m = arg;
    struct partition_list stops[2][2] = {0}, pauses = {0};
    struct problem problem;
    mutex_lock(&m->mutex);
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
        struct partition_list *list = &stops[t->record.stop_open_transactions == MIRROR_TXN_TRUNCATE][t->record.stop_force];
        for (int32_t i = 0; i < t->partitions_n; i++) {
            if (t->partitions[i]->record.state == MIRROR_STOPPING)
                partition_list_add(list, t->partitions[i]);
            else if (t->partitions[i]->record.state == MIRROR_PAUSING)
                partition_list_add(&pauses, t->partitions[i]);
        }
    }
    mutex_unlock(&m->mutex);
    for (int truncate = 0; truncate < 2; truncate++) {
        for (int force = 0; force < 2; force++) {
            struct stop_options options = {truncate ? MIRROR_TXN_TRUNCATE : MIRROR_TXN_ABORT, force != 0};
            if (stops[truncate][force].count > 0) {
                log_info(MIRROR_AREA, "stops that were interrupted go on partitions=%d", stops[truncate][force].count);
                mirrors_stop_partitions(m, &stops[truncate][force], &options);
            }
            partition_list_fini(&stops[truncate][force]);
        }
    }
    if (pauses.count > 0 && mirrors_pause(m, &pauses, &problem) != OK)
        log_warn(MIRROR_AREA, "pauses that were interrupted could not be completed: %s", problem.message);
    partition_list_fini(&pauses);
}

static void schedule_retries_locked(struct mirrors *m)
{
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
        for (int32_t i = 0; i < t->partitions_n; i++) {
            struct mirror_partition_record *r = &t->partitions[i]->record;
            if (r->state == MIRROR_FAILED && r->retryable)
                t->partitions[i]->retry_at_ms =
                    clock_mono_ms(m->params.clock) + mirror_retry_delay_ms(r->retries + 1, m->params.random);
        }
    }
}

void mirrors_start(struct mirrors *m)
{
    mutex_lock(&m->mutex);
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next)
        mirrors_bind_locked(m, t);
    schedule_retries_locked(m);
    m->started = true;
    for (struct mirror *mirror = m->by_name; mirror != NULL; mirror = mirror->hh.next)
        link_start(mirror->link);
    mutex_unlock(&m->mutex);
    mirrors_work(m, mirrors_forget_deleted, m);
    mirrors_work(m, carry_on, m);
}

static void nothing(void *arg)
{
    (void)arg;
}

void mirrors_stop(struct mirrors *m)
{
    struct mirror **all;
    int n = 0;
    m->ending = true;
    mutex_lock(&m->mutex);
    all = mem_calloc(HASH_COUNT(m->by_name) + 1, sizeof(struct mirror *));
    for (struct mirror *mirror = m->by_name; mirror != NULL; mirror = mirror->hh.next)
        all[n++] = mirror_ref(mirror);
    mutex_unlock(&m->mutex);
    while (atomic_load(&m->messages) > 0) /* workers first: a stop that is under way needs the links */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i < n; i++)
        link_close(all[i]->link);
    while (atomic_load(&m->messages) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i < loop_group_count(m->params.loops); i++) /* the last message of each loop has returned, too */
        loop_call(loop_group_at(m->params.loops, i), nothing, NULL);
    for (int i = 0; i < n; i++)
        mirror_unref(all[i]);
    mem_free(all);
}

void mirrors_destroy(struct mirrors *m)
{
    if (m == NULL)
        return;
    m->ending = true;
    helpers_stop(m->callers);
    helpers_stop(m->workers);
    while (m->topics != NULL)
        mirrors_remove_topic_locked(m, m->topics);
    while (m->by_name != NULL) {
        struct mirror *mirror = m->by_name;
        HASH_DEL(m->by_name, mirror);
        mirror_unref(mirror);
    }
    condition_fini(&m->stopped);
    mutex_fini(&m->mutex);
    mutex_fini(&m->change_mutex);
    mem_free(m);
}

/* ---- Calls ---- */

static void finished(struct loop_task *task)
{
    struct mirror_call *call = CONTAINER_OF(task, struct mirror_call, task);
    call->done(call);
}

struct running_call {
    struct mirrors *m;
    struct mirror_call *call;
    void (*run)(struct mirrors *m, struct mirror_call *call);
};

static void run_call(void *arg)
{
    struct running_call *r = arg;
    r->run(r->m, r->call);
    r->call->task.run = finished;
    loop_post(r->call->loop, &r->call->task);
    mem_free(r);
}

static const struct {
    int16_t key;
    void (*run)(struct mirrors *m, struct mirror_call *call);
    enum { AT_ONCE, WORKER, CALLER } where;
} CALLS[] = {
    {API_CREATE_CLUSTER_MIRROR, calls_create, CALLER},
    {API_START_MIRROR_TOPICS, calls_start, CALLER},
    {API_STOP_MIRROR_TOPICS, calls_stop, WORKER},
    {API_LIST_CLUSTER_MIRRORS, calls_list, AT_ONCE},
    {API_DESCRIBE_CLUSTER_MIRRORS, calls_describe, AT_ONCE},
    {API_PAUSE_MIRROR_TOPICS, calls_pause, WORKER},
    {API_RESUME_MIRROR_TOPICS, calls_resume, WORKER},
    {API_DELETE_CLUSTER_MIRROR, calls_delete, WORKER},
    {API_RECOVER_MIRROR_TOPICS, calls_recover, WORKER},
};

static bool waits_for_source(const struct mirror_call *call)
{
    return call->api_key == API_STOP_MIRROR_TOPICS && ((const struct stop_mirror_topics_request *)call->request)->drain;
}

void mirrors_call(struct mirrors *m, struct mirror_call *call)
{
    for (size_t i = 0; i < ARRAY_SIZE(CALLS); i++) {
        if (CALLS[i].key != call->api_key)
            continue;
        struct running_call *r = mem_alloc(sizeof(*r));
        *r = (struct running_call){m, call, CALLS[i].run};
        if (CALLS[i].where == AT_ONCE)
            run_call(r);
        else if (CALLS[i].where == WORKER && !waits_for_source(call))
            mirrors_work(m, run_call, r);
        else
            mirrors_work_slow(m, run_call, r);
        return;
    }
    UNREACHABLE();
}
