/* StartMirrorTopics: looks at the source first, then takes each topic in one commit: the topic with the source's id, its
 * mirror's records, PREPARING. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/logger.h"
#include "client/client.h"
#include "mirror/calls.h"

#define SOURCE_TIMEOUT_MS 10000

struct starting {
    struct mirrors *m;
    struct mirror_call *call;
    struct mirror *mirror; /* referenced */
    const struct client_metadata *metadata;
    struct client_response *loops; /* what a Kagami source says that it mirrors from us; NULL: no Kagami, or nothing */
    bool discard;
    /* Of the topic in hand: what its local partitions held. */
    struct mirror_truncation *discarded;
    int32_t discarded_n;
};

/* ---- Checks ---- */

static bool mirrored_from_us(const struct starting *s, struct str topic)
{
    if (s->loops == NULL)
        return false;
    const struct describe_cluster_mirrors_response *r = s->loops->body;
    for (int32_t i = 0; i < r->mirrors_n; i++) {
        for (int32_t t = 0; t < r->mirrors[i].topics_n; t++) {
            const struct describe_cluster_mirrors_response_mirrors_topics *theirs = &r->mirrors[i].topics[t];
            for (int32_t p = 0; str_eq(theirs->topic_name, topic) && p < theirs->partitions_n; p++) {
                if (!str_is(theirs->partitions[p].state, "STOPPED"))
                    return true;
            }
        }
    }
    return false;
}

static enum error check_source_topic(const struct starting *s, struct str name, const struct client_topic **ret_topic,
                                     struct problem *problem)
{
    char text[LIMIT_TOPIC_NAME + 1];
    const struct client_topic *t = NULL;
    enum error error = topic_name_check(name, problem);
    if (error != OK)
        return error;
    if (str_starts(name, STR("__"))) {
        problem_set(problem, INVALID_TOPIC_EXCEPTION, "Topic %.*s is internal: internal topics are never mirrored",
                    STR_ARG(name));
        problem_hint(problem, "Group offsets and the like are carried over through APIs, not as logs");
        return INVALID_TOPIC_EXCEPTION;
    }
    snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
    t = client_metadata_topic(s->metadata, text);
    if (t == NULL || t->error_code == UNKNOWN_TOPIC_OR_PARTITION) {
        problem_set(problem, UNKNOWN_TOPIC_OR_PARTITION, "The source has no topic %s", text);
        problem_hint(problem, "Check the name; the source of mirror %s is %s", s->mirror->name,
                     s->mirror->record.config.bootstrap_servers);
        return UNKNOWN_TOPIC_OR_PARTITION;
    }
    if (t->error_code != OK)
        return problem_set(problem, (enum error)t->error_code, "The source answers %s for topic %s", error_name(t->error_code),
                           text);
    if (t->internal)
        return problem_set(problem, INVALID_TOPIC_EXCEPTION,
                           "Topic %s is internal at the source: internal topics are never mirrored", text);
    if (t->partitions_n <= 0 || t->partitions_n > LIMIT_PARTITIONS_PER_TOPIC)
        return problem_set(problem, INVALID_PARTITIONS, "The source says that topic %s has %d partitions", text, t->partitions_n);
    if (mirrored_from_us(s, name)) {
        problem_set(problem, INVALID_CLUSTER_MIRROR_STATE, "Topic %s goes in a ring: the source %s mirrors it from this cluster",
                    text, s->mirror->record.config.bootstrap_servers);
        problem_hint(problem, "Stop the mirror at the source first");
        return INVALID_CLUSTER_MIRROR_STATE;
    }
    *ret_topic = t;
    return OK;
}

static enum error check_not_mirrored_locked(struct mirrors *m, struct str name, struct problem *problem)
{
    struct mirror_topic *t = mirrors_topic_locked(m, name);
    if (t == NULL || !mirror_topic_busy_locked(t))
        return OK;
    if (t->record.wanted == MIRROR_STOPPED)
        return problem_set(problem, MIRROR_TOPIC_BEING_STOPPED, "Topic %s is being stopped", t->name);
    problem_set(problem, TOPIC_ALREADY_IN_CLUSTER_MIRROR, "Topic %s belongs to mirror %s already", t->name, t->mirror->name);
    problem_hint(problem, "See its state with: kagami mirror describe %s", t->mirror->name);
    return TOPIC_ALREADY_IN_CLUSTER_MIRROR;
}

/* ---- A topic of this name that exists here ---- */

static void allow_writes_again(struct starting *s, const struct image_topic *topic)
{
    for (int32_t i = 0; i < topic->partition_count; i++) {
        enum error found;
        struct partition *p = partitions_find(s->m->params.partitions, str_of(topic->name), i, &found);
        if (p != NULL)
            partition_set_origin(p, APPEND_CLIENT, NULL);
        partition_unref(p);
    }
}

/* What is thrown away, for the records of the mirrored partitions. */
static void find_discarded(struct starting *s, const struct image_topic *topic)
{
    struct mirrors *m = s->m;
    s->discarded = arena_calloc(s->call->arena, (size_t)topic->partition_count + 1, sizeof(*s->discarded));
    s->discarded_n = topic->partition_count;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        enum error error, found;
        struct mirror_truncation *cut = &s->discarded[i];
        struct partition *p = partitions_find(m->params.partitions, str_of(topic->name), i, &found);
        if (p == NULL)
            continue;
        error = mirror_truncation_find(m, p, 0, cut);
        partition_unref(p);
        if (error != OK) { /* a log that cannot be read is thrown away all the same */
            log_warn(MIRROR_AREA, "what is thrown away cannot be told topic=%s partition=%d: %s", topic->name, i,
                     error_message(error));
            *cut = (struct mirror_truncation){0};
        } else if (cut->records > 0) {
            log_warn(MIRROR_AREA, "local data is thrown away, as asked mirror=%s topic=%s partition=%d records=%lld bytes=%lld",
                     s->mirror->name, topic->name, i, (long long)cut->records, (long long)cut->bytes);
        }
    }
}

/* Client writes are refused before the look at the data, so that nothing can slip in between; on a refusal they are allowed
 * again. */
static enum error check_local_data(struct starting *s, const struct image_topic *topic, struct problem *problem)
{
    struct mirrors *m = s->m;
    struct problem refusal;
    int64_t records = 0;
    enum error error = OK;
    problem_set(&refusal, MIRROR_WRITE_REFUSED, "Topic %s is being handed to mirror %s", topic->name, s->mirror->name);
    for (int32_t i = 0; i < topic->partition_count; i++) {
        struct partition_state state;
        enum error found;
        struct partition *p = partitions_find(m->params.partitions, str_of(topic->name), i, &found);
        if (p == NULL)
            continue;
        partition_set_origin(p, APPEND_MIRROR, &refusal);
        partition_get_state(p, &state);
        records += state.end_offset - state.log_start_offset;
        partition_unref(p);
    }
    if (records == 0 || s->discard) {
        find_discarded(s, topic);
        return OK;
    }
    allow_writes_again(s, topic);
    error = problem_set(problem, TOPIC_ALREADY_EXISTS, "Topic %s exists here and holds data (%lld offsets)", topic->name,
                        (long long)records);
    problem_hint(problem, "To throw that data away: kagami mirror start %s --topics %s --discard-local-data", s->mirror->name,
                 topic->name);
    return error;
}

static struct config_change *copy_configs(struct starting *s, const struct image_topic *topic)
{
    struct config_change *out = arena_calloc(s->call->arena, (size_t)topic->configs.count + 1, sizeof(*out));
    for (int i = 0; i < topic->configs.count; i++) {
        out[i].name = arena_str(s->call->arena, str_of(topic->configs.items[i].name));
        out[i].value = arena_str(s->call->arena, str_of(topic->configs.items[i].value));
    }
    return out;
}

/* Removes it; what was set for it is kept for its successor. The topic is then made anew in a commit of its own: after a crash
 * in between it is gone, which is what the operator asked for (or it was empty), and the start, never answered, is to be
 * repeated. */
static enum error remove_local(struct starting *s, struct str name, struct topic_spec *spec, struct problem *problem)
{
    struct mirrors *m = s->m;
    const struct image *image = image_cell_get(controller_images(m->params.controller));
    const struct image_topic *topic = image_topic(image, name);
    enum error error = OK;
    if (topic != NULL) {
        struct topic_ref ref = {.name = name};
        struct topic_result result;
        struct str removed;
        error = check_local_data(s, topic, problem);
        if (error == OK) {
            spec->configs = copy_configs(s, topic);
            spec->config_count = topic->configs.count;
            error = controller_delete_topics(m->params.controller, &ref, 1, NULL, s->call->arena, &result, &removed, problem);
            if (error == OK && result.error != OK)
                error = problem_set(problem, result.error, "%.*s", STR_ARG(result.message));
            if (error != OK)
                allow_writes_again(s, topic);
        }
    }
    image_unref(image);
    return error;
}

/* ---- One topic ---- */

static enum error take_topic(struct starting *s, struct str name, const struct client_topic *source,
                             const struct topic_spec *spec, struct problem *problem)
{
    struct mirrors *m = s->m;
    struct change c = {.m = m}; /* change_mutex is held by the caller */
    struct topic_result result = {0};
    struct mirror_topic_record record = {.mirror = mem_strdup(s->mirror->name),
                                         .topic_id = spec->id,
                                         .wanted = MIRROR_MIRRORING,
                                         .discard_local_data = s->discard};
    char key[MIRROR_KEY_MAX + 8];
    snprintf(key, sizeof(key), "mirror-partitions/%s/", source->name);
    meta_txn_delete_prefix(&c.txn, key); /* of an earlier time, maybe with more partitions */
    change_put_topic(&c, source->name, &record);
    mutex_lock(&m->mutex); /* known before the partitions open: they are never writable for a moment */
    struct mirror_topic *topic = mirrors_add_topic_locked(m, s->mirror, name, &record, source->partitions_n);
    struct partition_list list = {0};
    for (int32_t i = 0; i < topic->partitions_n; i++)
        partition_list_add(&list, topic->partitions[i]);
    mutex_unlock(&m->mutex);
    for (int i = 0; i < list.count; i++) {
        struct mirror_partition_record *r = change_edit(&c, list.items[i]);
        r->state = MIRROR_PREPARING;
        r->has_truncation = i < s->discarded_n && s->discarded[i].records > 0;
        if (r->has_truncation)
            r->truncation = s->discarded[i];
    }
    change_seal(&c);
    enum error error = controller_create_topics(m->params.controller, spec, 1, false, &c.txn, s->call->arena, &result, problem);
    if (error == OK && result.error != OK)
        error =
            problem_set(problem, result.error, "Topic %.*s cannot be created here: %.*s", STR_ARG(name), STR_ARG(result.message));
    if (error == OK) {
        change_apply(&c);
    } else {
        mutex_lock(&m->mutex);
        mirrors_remove_topic_locked(m, topic);
        mutex_unlock(&m->mutex);
    }
    partition_list_fini(&list);
    for (int i = 0; i < c.count; i++) {
        mirror_partition_record_fini(&c.items[i].record);
        mirror_partition_unref(c.items[i].mp);
    }
    mem_free(c.items);
    meta_txn_fini(&c.txn);
    return error;
}

static struct uuid some_id(struct mirrors *m)
{
    uint8_t random[16];
    struct uuid id;
    do
        random_fill(m->params.random, random, sizeof(random));
    while (!uuid_from_random(random, &id));
    return id;
}

static enum error start_one(struct starting *s, struct str name, struct start_mirror_topics_response_topics *out,
                            struct problem *problem)
{
    struct mirrors *m = s->m;
    const struct client_topic *source = NULL;
    enum error error = check_source_topic(s, name, &source, problem);
    if (error != OK)
        return error;
    s->discarded_n = 0;
    struct topic_spec spec = {.name = name, .id = source->id, .partitions = source->partitions_n, .replication_factor = -1};
    if (uuid_is_zero(&spec.id))
        spec.id = some_id(m);
    mutex_lock(&m->change_mutex);
    mutex_lock(&m->mutex);
    error = check_not_mirrored_locked(m, name, problem);
    mutex_unlock(&m->mutex);
    if (error == OK)
        error = remove_local(s, name, &spec, problem);
    if (error == OK)
        error = take_topic(s, name, source, &spec, problem);
    mutex_unlock(&m->change_mutex);
    if (error == OK) {
        out->topic_id = spec.id;
        out->partitions = source->partitions_n;
        log_info(MIRROR_AREA, "topic started mirror=%s topic=%s partitions=%d", s->mirror->name, source->name,
                 source->partitions_n);
    }
    return error;
}

/* ---- The call ---- */

static void look_for_loops(struct starting *s, struct client_sync *client, int32_t timeout_ms)
{
    struct describe_cluster_mirrors_request request;
    struct problem problem;
    proto_init(&PROTO_DESCRIBE_CLUSTER_MIRRORS_REQUEST, &request);
    request.mirror_names_n = -1;
    request.topics_n = -1;
    request.cluster_id = str_of(s->m->params.cluster_id);
    /* Any Kafka up to 4.4 does not know the call: no ring of mirrors can be there. */
    if (client_sync_call(client, CLIENT_ANY, API_DESCRIBE_CLUSTER_MIRRORS, 0, -1, &request, timeout_ms, &s->loops, &problem) !=
        OK)
        s->loops = NULL;
}

static int collect_names(struct starting *s, const struct start_mirror_topics_request *r, const struct name_patterns *patterns,
                         struct str **ret_names)
{
    int n = 0, room = MAX(r->topics_n, 0) + s->metadata->topics_n;
    struct str *names = arena_calloc(s->call->arena, (size_t)room + 1, sizeof(*names));
    for (int32_t i = 0; i < r->topics_n; i++) {
        bool twice = false;
        for (int j = 0; j < n && !twice; j++)
            twice = str_eq(names[j], r->topics[i].topic_name);
        if (!twice)
            names[n++] = r->topics[i].topic_name;
    }
    for (int32_t i = 0; i < s->metadata->topics_n; i++) {
        const struct client_topic *t = &s->metadata->topics[i];
        bool there = false;
        for (int j = 0; j < n && !there; j++)
            there = str_is(names[j], t->name);
        if (!there && !t->internal && strncmp(t->name, "__", 2) != 0 && name_patterns_match(patterns, t->name))
            names[n++] = str_of(t->name);
    }
    *ret_names = names;
    return n;
}

static enum error check_cluster(struct mirror *mirror, const char *cluster_id, struct problem *problem)
{
    enum error error = OK;
    mutex_lock(&mirror->all->mutex);
    const char *known = mirror->record.source_cluster_id;
    if (known != NULL && strcmp(known, cluster_id) != 0) {
        error = problem_set(problem, INCONSISTENT_CLUSTER_ID, "The cluster at %.200s is %s, and mirror %s copies %s",
                            mirror->record.config.bootstrap_servers, cluster_id, mirror->name, known);
        problem_hint(problem, "Make a new mirror for the new cluster");
    }
    mutex_unlock(&mirror->all->mutex);
    return error;
}

static void start_all(struct starting *s, const struct start_mirror_topics_request *request, const struct name_patterns *patterns)
{
    struct start_mirror_topics_response *response = s->call->response;
    struct str *names;
    struct problem problem = {0};
    int n = collect_names(s, request, patterns, &names);
    if (n == 0) {
        problem_set(&problem, UNKNOWN_TOPIC_OR_PARTITION, "No topic of the source matches");
        problem_hint(&problem, "Name topics or patterns with --topics");
        CALL_FAIL(s->call, response, &problem);
        return;
    }
    response->topics = start_mirror_topics_response_topics_new(s->call->arena, n);
    response->topics_n = n;
    for (int i = 0; i < n; i++) {
        problem = (struct problem){0};
        response->topics[i].name = arena_str(s->call->arena, names[i]);
        if (start_one(s, names[i], &response->topics[i], &problem) != OK)
            CALL_FAIL(s->call, &response->topics[i], &problem);
    }
    link_refresh(s->mirror->link);
}

void calls_start(struct mirrors *m, struct mirror_call *call)
{
    const struct start_mirror_topics_request *request = call->request;
    struct start_mirror_topics_response *response = call->response;
    struct client_sync *client = NULL;
    struct problem problem = {0};
    struct name_patterns *patterns = NULL;
    char *cluster_id = NULL;
    int32_t timeout_ms = call->timeout_ms > 0 ? call->timeout_ms : SOURCE_TIMEOUT_MS;
    struct starting s = {.m = m, .call = call, .discard = request->discard_local_data};
    s.mirror = find_mirror(m, request->mirror_name, &problem);
    enum error error = s.mirror != NULL
                           ? name_patterns_create(request->patterns, MAX(request->patterns_n, 0), &patterns, &problem)
                           : problem.code;
    if (error == OK)
        error = source_connect(m, &s.mirror->record.config, timeout_ms, &client, &cluster_id, &problem);
    if (error == OK)
        error = check_cluster(s.mirror, cluster_id, &problem);
    if (error == OK) {
        int n = MAX(request->topics_n, 0);
        struct str *names = arena_calloc(call->arena, (size_t)n + 1, sizeof(*names));
        for (int i = 0; i < n; i++)
            names[i] = request->topics[i].topic_name;
        look_for_loops(&s, client, timeout_ms);
        error = client_sync_refresh(client, names, request->patterns_n > 0 ? -1 : n, &problem);
    }
    if (error == OK) {
        s.metadata = client_sync_metadata(client);
        start_all(&s, request, patterns);
    } else {
        CALL_FAIL(call, response, &problem);
    }
    client_response_free(s.loops);
    client_sync_destroy(client);
    name_patterns_destroy(patterns);
    mem_free(cluster_id);
    mirror_unref(s.mirror);
}
