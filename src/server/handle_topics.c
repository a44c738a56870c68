/* CreateTopics, DeleteTopics, CreatePartitions: what a request says becomes specs for the controller, what the controller says
 * becomes the answer, topic by topic in the order of the request. The timeout is not used: the answer comes when the change is
 * durable and the partitions are open. */
#include "base/assert.h"
#include "base/logger.h"
#include "meta/config_defs.h"
#include "meta/controller.h"
#include "server/handlers.h"
#include "server/server.h"

#define TOO_LARGE "the answer would be too large"

struct topics_state {
    void *specs;
    struct topic_result *results;
    struct str *names; /* DeleteTopics */
    int32_t count;
    struct problem problem;
    enum error error; /* of the store: nothing was done */
    union {
        struct create_topics_response create;
        struct delete_topics_response delete;
        struct create_partitions_response partitions;
    } response;
};

static struct topics_state *begin(struct request *r, int32_t count, size_t spec_size)
{
    struct topics_state *s = request_alloc(r, sizeof(*s));
    s->count = MAX(count, 0);
    s->specs = arena_calloc(&r->arena, (size_t)s->count, spec_size);
    s->results = arena_calloc(&r->arena, (size_t)s->count, sizeof(*s->results));
    s->names = arena_calloc(&r->arena, (size_t)s->count, sizeof(*s->names));
    if (s->specs == NULL || s->results == NULL || s->names == NULL) {
        request_close(r, "the request is too large");
        return NULL;
    }
    r->state = s;
    return s;
}

/* The store failed: every topic says so. */
static void spread_store_error(struct request *r, struct topics_state *s)
{
    char line[1000];
    if (s->error == OK)
        return;
    log_error("server", "metadata could not be changed: %s", problem_line(&s->problem, line, sizeof(line)));
    for (int32_t i = 0; i < s->count; i++) {
        if (s->results[i].error == OK)
            s->results[i] = (struct topic_result){.error = s->error, .message = request_problem_text(r, &s->problem)};
    }
}

static struct topic_assignment *assignments_of(struct request *r, const struct create_topics_request_topics *topic)
{
    struct topic_assignment *out = arena_calloc(&r->arena, (size_t)MAX(topic->assignments_n, 0), sizeof(*out));
    for (int32_t i = 0; i < topic->assignments_n && out != NULL; i++)
        out[i] = (struct topic_assignment){.partition = topic->assignments[i].partition_index,
                                           .broker_ids = topic->assignments[i].broker_ids,
                                           .broker_count = topic->assignments[i].broker_ids_n};
    return out;
}

static struct config_change *configs_of(struct request *r, const struct create_topics_request_topics *topic)
{
    struct config_change *out = arena_calloc(&r->arena, (size_t)MAX(topic->configs_n, 0), sizeof(*out));
    for (int32_t i = 0; i < topic->configs_n && out != NULL; i++)
        out[i] = (struct config_change){.name = topic->configs[i].name, .value = topic->configs[i].value};
    return out;
}

/* ---- CreateTopics ---- */

static void create_work(struct request *r)
{
    const struct create_topics_request *request = r->body;
    struct topics_state *s = r->state;
    s->error = controller_create_topics(r->server->controller, s->specs, s->count, request->validate_only, NULL, &r->arena,
                                        s->results, &s->problem);
}

/* From version 5 on the answer says what the topic's settings are; those that were given with it are known from the spec, so
 * that validate_only has them too. */
static bool fill_configs(struct request *r, const struct image *image, const struct topic_spec *spec,
                         struct create_topics_response_topics *out)
{
    int count;
    const struct config_def *table = config_defs(CONFIG_SCOPE_TOPIC, &count);
    out->configs = create_topics_response_topics_configs_new(&r->arena, count);
    if (out->configs == NULL)
        return false;
    out->configs_n = count;
    for (int i = 0; i < count; i++) {
        struct config_value value;
        config_resolve(image, NULL, &table[i], &value);
        out->configs[i] = (struct create_topics_response_topics_configs){
            .name = str_of(table[i].name), .value = config_value_text(&r->arena, &value), .config_source = (int8_t)value.source};
    }
    for (int32_t i = 0; i < spec->config_count; i++) {
        const struct config_def *def = config_def_find(CONFIG_SCOPE_TOPIC, spec->configs[i].name);
        out->configs[def - table].value = spec->configs[i].value;
        out->configs[def - table].config_source = CONFIG_SOURCE_TOPIC;
    }
    return true;
}

static void log_created(const struct create_topics_request *request, const struct topic_spec *spec,
                        const struct topic_result *result)
{
    char id[UUID_TEXT_SIZE];
    if (!request->validate_only)
        log_info("server", "topic created topic=%.*s id=%s partitions=%d", STR_ARG(spec->name), uuid_text(&result->id, id),
                 result->partitions);
}

static void create_done(struct request *r)
{
    const struct create_topics_request *request = r->body;
    struct topics_state *s = r->state;
    struct create_topics_response *response = &s->response.create;
    proto_init(&PROTO_CREATE_TOPICS_RESPONSE, response);
    spread_store_error(r, s);
    const struct image *image = image_cell_get(r->server->images);
    response->topics_n = s->count;
    response->topics = create_topics_response_topics_new(&r->arena, s->count);
    bool good = response->topics != NULL;
    for (int32_t i = 0; i < s->count && good; i++) {
        const struct topic_spec *spec = &((struct topic_spec *)s->specs)[i];
        const struct topic_result *result = &s->results[i];
        struct create_topics_response_topics *out = &response->topics[i];
        out->name = spec->name;
        out->error_code = error_wire(result->error);
        out->error_message = result->message;
        if (result->error != OK)
            continue;
        out->topic_id = result->id;
        out->num_partitions = result->partitions;
        out->replication_factor = result->replication_factor;
        if (r->version >= 5)
            good = fill_configs(r, image, spec, out);
        log_created(request, spec, result);
    }
    if (good)
        request_respond(r, response);
    else
        request_close(r, TOO_LARGE);
    image_unref(image);
}

void handle_create_topics(struct request *r)
{
    const struct create_topics_request *request = r->body;
    struct topics_state *s = begin(r, request->topics_n, sizeof(struct topic_spec));
    if (s == NULL)
        return;
    for (int32_t i = 0; i < s->count; i++) {
        const struct create_topics_request_topics *topic = &request->topics[i];
        struct topic_spec spec = {
            .name = topic->name,
            .partitions = topic->num_partitions,
            .replication_factor = topic->replication_factor,
            .assignments = assignments_of(r, topic),
            .assignment_count = MAX(topic->assignments_n, 0),
            .configs = configs_of(r, topic),
            .config_count = MAX(topic->configs_n, 0),
        };
        if (spec.assignments == NULL || spec.configs == NULL) {
            request_close(r, "the request is too large");
            return;
        }
        ((struct topic_spec *)s->specs)[i] = spec;
    }
    request_run(r, create_work, create_done);
}

/* ---- DeleteTopics ---- */

static void delete_work(struct request *r)
{
    struct topics_state *s = r->state;
    s->error =
        controller_delete_topics(r->server->controller, s->specs, s->count, NULL, &r->arena, s->results, s->names, &s->problem);
}

static void delete_done(struct request *r)
{
    struct topics_state *s = r->state;
    struct delete_topics_response *response = &s->response.delete;
    proto_init(&PROTO_DELETE_TOPICS_RESPONSE, response);
    spread_store_error(r, s);
    response->responses_n = s->count;
    response->responses = delete_topics_response_responses_new(&r->arena, s->count);
    for (int32_t i = 0; i < s->count && response->responses != NULL; i++) {
        const struct topic_result *result = &s->results[i];
        response->responses[i] = (struct delete_topics_response_responses){.name = s->names[i],
                                                                           .topic_id = result->id,
                                                                           .error_code = error_wire(result->error),
                                                                           .error_message = result->message};
        if (result->error == OK)
            log_info("server", "topic deleted topic=%.*s", STR_ARG(s->names[i]));
    }
    if (response->responses != NULL)
        request_respond(r, response);
    else
        request_close(r, TOO_LARGE);
}

/* delete.topic.enable=false: TOPIC_DELETION_DISABLED where the version has it (Kafka: from 3 on). */
static void delete_refused(struct request *r, struct topics_state *s)
{
    const struct topic_ref *refs = s->specs;
    for (int32_t i = 0; i < s->count; i++) {
        s->names[i] = refs[i].name;
        s->results[i] = (struct topic_result){.id = refs[i].id,
                                              .error = r->version < 3 ? INVALID_REQUEST : TOPIC_DELETION_DISABLED,
                                              .message = STR("Deletion of topics is switched off by delete.topic.enable.")};
    }
    delete_done(r);
}

void handle_delete_topics(struct request *r)
{
    const struct delete_topics_request *request = r->body;
    struct topics_state *s = begin(r, r->version >= 6 ? request->topics_n : request->topic_names_n, sizeof(struct topic_ref));
    if (s == NULL)
        return;
    struct topic_ref *refs = s->specs;
    for (int32_t i = 0; i < s->count; i++) {
        refs[i] = r->version >= 6 ? (struct topic_ref){.name = request->topics[i].name, .id = request->topics[i].topic_id}
                                  : (struct topic_ref){.name = request->topic_names[i]};
    }
    const struct image *image = image_cell_get(r->server->images);
    bool enabled = config_broker_bool(image, "delete.topic.enable");
    image_unref(image);
    if (enabled)
        request_run(r, delete_work, delete_done);
    else
        delete_refused(r, s);
}

/* ---- CreatePartitions ---- */

static void partitions_work(struct request *r)
{
    const struct create_partitions_request *request = r->body;
    struct topics_state *s = r->state;
    s->error = controller_add_partitions(r->server->controller, s->specs, s->count, request->validate_only, false, NULL,
                                         &r->arena, s->results, &s->problem);
}

static void partitions_done(struct request *r)
{
    struct topics_state *s = r->state;
    struct create_partitions_response *response = &s->response.partitions;
    proto_init(&PROTO_CREATE_PARTITIONS_RESPONSE, response);
    spread_store_error(r, s);
    response->results_n = s->count;
    response->results = create_partitions_response_results_new(&r->arena, s->count);
    for (int32_t i = 0; i < s->count && response->results != NULL; i++) {
        const struct partitions_spec *spec = &((struct partitions_spec *)s->specs)[i];
        response->results[i] = (struct create_partitions_response_results){
            .name = spec->topic, .error_code = error_wire(s->results[i].error), .error_message = s->results[i].message};
    }
    if (response->results != NULL)
        request_respond(r, response);
    else
        request_close(r, TOO_LARGE);
}

static struct topic_assignment *new_assignments(struct request *r, const struct create_partitions_request_topics *topic)
{
    struct topic_assignment *out = arena_calloc(&r->arena, (size_t)MAX(topic->assignments_n, 0), sizeof(*out));
    for (int32_t i = 0; i < topic->assignments_n && out != NULL; i++)
        out[i] = (struct topic_assignment){.broker_ids = topic->assignments[i].broker_ids,
                                           .broker_count = topic->assignments[i].broker_ids_n};
    return out;
}

void handle_create_partitions(struct request *r)
{
    const struct create_partitions_request *request = r->body;
    struct topics_state *s = begin(r, request->topics_n, sizeof(struct partitions_spec));
    if (s == NULL)
        return;
    for (int32_t i = 0; i < s->count; i++) {
        const struct create_partitions_request_topics *topic = &request->topics[i];
        struct partitions_spec *spec = &((struct partitions_spec *)s->specs)[i];
        *spec = (struct partitions_spec){.topic = topic->name,
                                         .count = topic->count,
                                         .assignments = new_assignments(r, topic),
                                         .assignment_count = topic->assignments_n};
        if (spec->assignments == NULL) {
            request_close(r, "the request is too large");
            return;
        }
    }
    request_run(r, partitions_work, partitions_done);
}
