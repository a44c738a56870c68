/* Calls that change mirrors or the wanted state of topics: create, delete, pause, resume, recover. */
#include <stdio.h>
#include <string.h>

#include "base/logger.h"
#include "client/client.h"
#include "mirror/calls.h"

#define SOURCE_TIMEOUT_MS 10000

/* ---- Create, delete ---- */

static enum error read_config(const struct create_cluster_mirror_request *r, struct mirror_config *config,
                              struct problem *problem)
{
    enum error error = OK;
    for (int32_t i = 0; i < r->config_n && error == OK; i++)
        error = mirror_config_set(config, r->config[i].name, r->config[i].value, problem);
    return error == OK ? mirror_config_check(config, problem) : error;
}

static enum error exists(struct str name, struct problem *problem)
{
    problem_set(problem, CLUSTER_MIRROR_ALREADY_EXISTS, "There is a mirror %.*s already", STR_ARG(name));
    problem_hint(problem, "Choose another name, or delete it first: kagami mirror delete %.*s", STR_ARG(name));
    return CLUSTER_MIRROR_ALREADY_EXISTS;
}

static enum error store_mirror(struct mirrors *m, struct str name, struct mirror_record *record, struct problem *problem)
{
    char text[MIRROR_NAME_MAX + 1], key[MIRROR_KEY_MAX];
    struct meta_txn txn = {0};
    snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
    meta_txn_check(&txn, mirror_key(key, text), 0);
    meta_txn_put(&txn, key, mirror_record_to_json(record));
    mutex_lock(&m->change_mutex);
    enum error error = meta_store_commit(m->params.store, &txn, NULL, problem);
    if (error == OK) {
        mutex_lock(&m->mutex);
        struct mirror *mirror = mirrors_add_locked(m, text, record);
        log_info(MIRROR_AREA, "mirror created mirror=%s source=%s sourceClusterId=%s", text,
                 mirror->record.config.bootstrap_servers, mirror->record.source_cluster_id);
        if (m->started)
            link_start(mirror->link);
        mutex_unlock(&m->mutex);
    } else if (error == ERR_CONFLICT) {
        error = exists(name, problem);
    }
    mutex_unlock(&m->change_mutex);
    meta_txn_fini(&txn);
    return error;
}

void calls_create(struct mirrors *m, struct mirror_call *call)
{
    const struct create_cluster_mirror_request *request = call->request;
    struct create_cluster_mirror_response *response = call->response;
    struct mirror_record record = {0};
    struct client_sync *client = NULL;
    struct problem problem = {0};
    mirror_config_init(&record.config);
    record.created_ms = clock_wall_ms(m->params.clock);
    response->source_cluster_id = STR("");
    enum error error = mirror_name_check(request->mirror_name, &problem);
    if (error == OK) {
        mutex_lock(&m->mutex);
        if (mirrors_find_locked(m, request->mirror_name) != NULL)
            error = exists(request->mirror_name, &problem);
        mutex_unlock(&m->mutex);
    }
    if (error == OK)
        error = read_config(request, &record.config, &problem);
    if (error == OK)
        error = source_connect(m, &record.config, call->timeout_ms > 0 ? call->timeout_ms : SOURCE_TIMEOUT_MS, &client,
                               &record.source_cluster_id, &problem);
    client_sync_destroy(client);
    if (error == OK) {
        response->source_cluster_id = arena_str(call->arena, str_of(record.source_cluster_id));
        error = store_mirror(m, request->mirror_name, &record, &problem);
    }
    if (error != OK)
        CALL_FAIL(call, response, &problem);
    mirror_record_fini(&record);
}

static enum error delete_records(struct mirrors *m, struct mirror *mirror, struct problem *problem)
{
    char key[MIRROR_KEY_MAX + 8];
    struct meta_txn txn = {0};
    enum error error = OK;
    mutex_lock(&m->change_mutex);
    mutex_lock(&m->mutex);
    meta_txn_check(&txn, mirror_key(key, mirror->name), META_PRESENT);
    meta_txn_delete(&txn, key);
    for (struct mirror_topic *t = m->topics; t != NULL && error == OK; t = t->hh.next) {
        if (t->mirror != mirror)
            continue;
        if (mirror_topic_busy_locked(t)) {
            error = problem_set(problem, CLUSTER_MIRROR_NOT_EMPTY, "Mirror %s still has topic %s, which is not STOPPED",
                                mirror->name, t->name);
            problem_hint(problem, "Stop its topics first: kagami mirror stop %s", mirror->name);
        }
        meta_txn_delete(&txn, mirror_topic_key(key, t->name));
        snprintf(key, sizeof(key), "mirror-partitions/%s/", t->name);
        meta_txn_delete_prefix(&txn, key);
    }
    mutex_unlock(&m->mutex);
    if (error == OK)
        error = meta_store_commit(m->params.store, &txn, NULL, problem);
    if (error == ERR_CONFLICT)
        error = problem_set(problem, UNKNOWN_CLUSTER_MIRROR, "There is no mirror %s", mirror->name);
    if (error == OK) {
        struct mirror_topic *t, *next;
        mutex_lock(&m->mutex);
        for (t = m->topics; t != NULL; t = next) {
            next = t->hh.next;
            if (t->mirror == mirror)
                mirrors_remove_topic_locked(m, t);
        }
        mirrors_remove_locked(m, mirror);
        mutex_unlock(&m->mutex);
        log_info(MIRROR_AREA, "mirror deleted mirror=%s", mirror->name);
    }
    mutex_unlock(&m->change_mutex);
    meta_txn_fini(&txn);
    return error;
}

void calls_delete(struct mirrors *m, struct mirror_call *call)
{
    const struct delete_cluster_mirror_request *request = call->request;
    struct delete_cluster_mirror_response *response = call->response;
    struct problem problem = {0};
    struct mirror *mirror = find_mirror(m, request->mirror_name, &problem);
    enum error error = mirror != NULL ? delete_records(m, mirror, &problem) : problem.code;
    if (error == OK) {
        link_close(mirror->link);
        mirror_unref(mirror); /* the registry's */
    } else {
        CALL_FAIL(call, response, &problem);
    }
    mirror_unref(mirror);
}

/* ---- Pause, resume, recover ---- */

struct wanted_state {
    enum mirror_state wanted;
    bool any_failed, all_stopped, any_stopping;
};

static struct wanted_state state_of(struct mirrors *m, struct str topic)
{
    struct wanted_state s = {.wanted = MIRROR_STOPPED, .all_stopped = true};
    mutex_lock(&m->mutex);
    struct mirror_topic *t = mirrors_topic_locked(m, topic);
    if (t != NULL)
        s.wanted = t->record.wanted;
    for (int32_t i = 0; t != NULL && i < t->partitions_n; i++) {
        enum mirror_state state = t->partitions[i]->record.state;
        s.any_failed = s.any_failed || state == MIRROR_FAILED;
        s.any_stopping = s.any_stopping || state == MIRROR_STOPPING;
        s.all_stopped = s.all_stopped && mirror_state_writable(state);
    }
    mutex_unlock(&m->mutex);
    return s;
}

static enum error set_wanted(struct mirrors *m, struct selected *topic, enum mirror_state wanted, struct problem *problem)
{
    struct change c;
    struct mirror_topic_record record = {0};
    change_begin(&c, m);
    mutex_lock(&m->mutex);
    struct mirror_topic *t = mirrors_topic_locked(m, topic->name);
    char *name = t != NULL && t->record.wanted != MIRROR_STOPPED ? mem_strdup(t->name) : NULL;
    if (name != NULL) {
        record = t->record;
        record.wanted = wanted;
        change_put_topic(&c, name, &record);
    }
    mutex_unlock(&m->mutex);
    for (int i = 0; name != NULL && wanted == MIRROR_MIRRORING && i < topic->partitions.count; i++) {
        struct mirror_partition_record *r = change_edit(&c, topic->partitions.items[i]);
        if (r->state == MIRROR_PAUSED)
            r->state = MIRROR_MIRRORING;
    }
    enum error error =
        name != NULL ? change_commit(&c, problem)
                     : problem_set(problem, MIRROR_TOPIC_BEING_STOPPED, "Topic %.*s is being stopped", STR_ARG(topic->name));
    if (error == OK) {
        mutex_lock(&m->mutex);
        t = mirrors_topic_locked(m, topic->name);
        if (t != NULL)
            t->record.wanted = wanted;
        mutex_unlock(&m->mutex);
    }
    change_end(&c);
    mem_free(name);
    return error;
}

static enum error refuse_stopped(struct selected *topic, const struct wanted_state *s, struct problem *problem)
{
    if (s->all_stopped) {
        problem_set(problem, INVALID_CLUSTER_MIRROR_STATE, "Topic %.*s is STOPPED", STR_ARG(topic->name));
        problem_hint(problem, "A stopped topic is an ordinary one; `kagami mirror start` mirrors it again");
        return problem->code;
    }
    if (s->wanted == MIRROR_STOPPED)
        return problem_set(problem, MIRROR_TOPIC_BEING_STOPPED, "Topic %.*s is being stopped", STR_ARG(topic->name));
    return OK;
}

static enum error pause_one(struct mirrors *m, struct selected *topic, struct problem *problem)
{
    struct wanted_state s = state_of(m, topic->name);
    enum error error = refuse_stopped(topic, &s, problem);
    if (error == OK && s.wanted == MIRROR_PAUSED)
        error = problem_set(problem, MIRROR_TOPIC_ALREADY_PAUSED, "Topic %.*s is paused already", STR_ARG(topic->name));
    if (error == OK)
        error = set_wanted(m, topic, MIRROR_PAUSED, problem);
    return error == OK ? mirrors_pause(m, &topic->partitions, problem) : error;
}

static enum error resume_one(struct mirrors *m, struct selected *topic, struct problem *problem)
{
    struct wanted_state s = state_of(m, topic->name);
    enum error error = refuse_stopped(topic, &s, problem);
    if (error == OK && s.wanted != MIRROR_PAUSED)
        error = problem_set(problem, MIRROR_TOPIC_NOT_PAUSED, "Topic %.*s is not paused", STR_ARG(topic->name));
    return error == OK ? set_wanted(m, topic, MIRROR_MIRRORING, problem) : error;
}

static enum error recover_one(struct mirrors *m, struct selected *topic, struct problem *problem)
{
    struct wanted_state s = state_of(m, topic->name);
    struct partition_list list = {0};
    if (!s.any_failed) {
        enum error error = refuse_stopped(topic, &s, problem);
        return error != OK ? error
                           : problem_set(problem, INVALID_CLUSTER_MIRROR_STATE, "No partition of topic %.*s is FAILED",
                                         STR_ARG(topic->name));
    }
    for (int i = 0; i < topic->partitions.count; i++)
        partition_list_add(&list, topic->partitions.items[i]);
    mirrors_recover(m, &list, true);
    return OK;
}

/* Named topics answer each for itself; when all of the mirror are meant, those that it does not fit are left out. */
static void act(struct mirrors *m, struct selection *s, bool all,
                enum error (*one)(struct mirrors *m, struct selected *topic, struct problem *problem))
{
    int kept = 0;
    for (int i = 0; i < s->count; i++) {
        struct selected *topic = &s->topics[i];
        struct problem problem = {0};
        if (topic->problem.code == OK && one(m, topic, &problem) != OK) {
            topic->problem = problem;
            bool unfit = problem.code == MIRROR_TOPIC_ALREADY_PAUSED || problem.code == MIRROR_TOPIC_NOT_PAUSED ||
                         problem.code == INVALID_CLUSTER_MIRROR_STATE || problem.code == MIRROR_TOPIC_BEING_STOPPED;
            if (all && unfit) {
                partition_list_fini(&topic->partitions);
                continue;
            }
        }
        if (kept != i)
            s->topics[kept] = *topic;
        kept++;
    }
    s->count = kept;
    link_refresh(s->mirror->link);
}

#define ACT(NAME, function)                                                                                                      \
    void calls_##NAME(struct mirrors *m, struct mirror_call *call)                                                               \
    {                                                                                                                            \
        const struct NAME##_mirror_topics_request *request = call->request;                                                      \
        struct NAME##_mirror_topics_response *response = call->response;                                                         \
        struct problem problem = {0};                                                                                            \
        struct selection s;                                                                                                      \
        int n = MAX(request->topics_n, 0);                                                                                       \
        struct str *names = arena_calloc(call->arena, (size_t)n + 1, sizeof(*names));                                            \
        for (int i = 0; i < n; i++)                                                                                              \
            names[i] = request->topics[i].topic_name;                                                                            \
        if (select_topics(m, call, request->mirror_name, names, n, NULL, 0, &s, &problem) != OK) {                               \
            CALL_FAIL(call, response, &problem);                                                                                 \
            return;                                                                                                              \
        }                                                                                                                        \
        act(m, &s, n == 0, function);                                                                                            \
        response->topics = NAME##_mirror_topics_response_topics_new(call->arena, s.count);                                       \
        response->topics_n = s.count;                                                                                            \
        for (int i = 0; i < s.count; i++) {                                                                                      \
            response->topics[i].name = s.topics[i].name;                                                                         \
            if (s.topics[i].problem.code != OK)                                                                                  \
                CALL_FAIL(call, &response->topics[i], &s.topics[i].problem);                                                     \
        }                                                                                                                        \
        selection_fini(&s);                                                                                                      \
    }

ACT(pause, pause_one)
ACT(resume, resume_one)
ACT(recover, recover_one)
