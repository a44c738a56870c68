/* Metadata and DescribeCluster (KIP-700): who the brokers are, which topics there are and who leads them. All of it comes from
 * one image. A topic that a client asks for by name may come into being here; its first answer is UNKNOWN_TOPIC_OR_PARTITION
 * all the same, as Kafka answers (facts 7). */
#include <uthash.h>

#include "base/assert.h"
#include "base/logger.h"
#include "meta/config_defs.h"
#include "meta/controller.h"
#include "server/handlers.h"
#include "server/server.h"

/* Without an authoriser everybody may do everything: a bit for each AclOperation that Kafka has for the resource. */
enum { ALL_TOPIC_OPERATIONS = 0xdf8, ALL_CLUSTER_OPERATIONS = 0x1fa0 };

#define TOO_LARGE "the answer would be too large"

struct metadata_state {
    struct metadata_response response;
    const struct image *image;
    /* Topics to be created */
    struct topic_spec *specs;
    struct topic_result *results;
    int32_t *spec_topics; /* index of each spec's topic in the response */
    int32_t specs_n;
    struct problem problem;
    enum error create_error;
};

static void fill_brokers(struct request *r, const struct image *image, struct metadata_response *response)
{
    response->brokers = metadata_response_brokers_new(&r->arena, image->broker_count);
    response->brokers_n = image->broker_count;
    for (int i = 0; i < image->broker_count && response->brokers != NULL; i++) {
        const struct image_broker *b = &image->brokers[i];
        response->brokers[i] = (struct metadata_response_brokers){
            .node_id = b->id, .host = str_of(b->host), .port = b->port, .rack = str_of(b->rack)};
    }
}

static bool fill_topic(struct request *r, const struct image_topic *topic, struct metadata_response_topics *out)
{
    const struct metadata_request *request = r->body;
    out->name = str_of(topic->name);
    out->topic_id = topic->id;
    out->is_internal = topic->internal;
    out->error_code = OK;
    if (request->include_topic_authorized_operations)
        out->topic_authorized_operations = ALL_TOPIC_OPERATIONS;
    out->partitions = metadata_response_topics_partitions_new(&r->arena, topic->partition_count);
    if (out->partitions == NULL)
        return false;
    out->partitions_n = topic->partition_count;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        const struct image_partition *p = &topic->partitions[i];
        out->partitions[i] = (struct metadata_response_topics_partitions){
            .error_code = p->leader < 0 ? LEADER_NOT_AVAILABLE : OK,
            .partition_index = i,
            .leader_id = p->leader,
            .leader_epoch = p->leader_epoch,
            .replica_nodes = p->replicas,
            .replica_nodes_n = p->replica_count,
            .isr_nodes = p->isr,
            .isr_nodes_n = p->isr_count,
        };
    }
    return true;
}

static bool fill_all(struct request *r, struct metadata_state *s)
{
    s->response.topics_n = s->image->topic_count;
    s->response.topics = metadata_response_topics_new(&r->arena, s->image->topic_count);
    bool good = s->response.topics != NULL;
    for (int i = 0; i < s->image->topic_count && good; i++)
        good = fill_topic(r, s->image->topics[i], &s->response.topics[i]);
    return good;
}

/* Every topic of the request answers the error: what Kafka does when a request makes no sense. */
static bool fill_error(struct request *r, struct metadata_state *s, enum error error)
{
    const struct metadata_request *request = r->body;
    s->response.topics_n = request->topics_n;
    s->response.topics = metadata_response_topics_new(&r->arena, request->topics_n);
    for (int32_t i = 0; i < request->topics_n && s->response.topics != NULL; i++) {
        struct metadata_response_topics *out = &s->response.topics[i];
        out->error_code = (int16_t)error;
        out->name = request->topics[i].name.p != NULL ? request->topics[i].name : STR("");
        out->topic_id = request->topics[i].topic_id;
    }
    return s->response.topics != NULL;
}

/* ---- Topics that were asked for ---- */

static bool may_create(const struct request *r, const struct metadata_state *s, struct str name)
{
    const struct metadata_request *request = r->body;
    return request->allow_auto_topic_creation && config_broker_bool(s->image, "auto.create.topics.enable") &&
           !str_starts(name, STR("__"));
}

static void fill_unknown(struct request *r, struct metadata_state *s, struct str name, int32_t index,
                         struct metadata_response_topics *out)
{
    out->name = name;
    out->error_code = topic_name_check(name, NULL) == OK ? UNKNOWN_TOPIC_OR_PARTITION : INVALID_TOPIC_EXCEPTION;
    if (out->error_code == UNKNOWN_TOPIC_OR_PARTITION && may_create(r, s, name)) {
        s->spec_topics[s->specs_n] = index;
        s->specs[s->specs_n++] = (struct topic_spec){.name = name, .partitions = -1, .replication_factor = -1};
    }
}

/* A topic that is named twice is answered once (Kafka: a set). */
struct asked {
    UT_hash_handle hh;
};

static bool fill_asked(struct request *r, struct metadata_state *s, bool by_id)
{
    const struct metadata_request *request = r->body;
    size_t n = (size_t)request->topics_n;
    struct metadata_response_topics *topics = metadata_response_topics_new(&r->arena, request->topics_n);
    struct asked *items = arena_calloc(&r->arena, n, sizeof(*items));
    struct asked *set = NULL, *present;
    s->specs = arena_calloc(&r->arena, n, sizeof(*s->specs));
    s->spec_topics = arena_calloc(&r->arena, n, sizeof(*s->spec_topics));
    bool good = topics != NULL && items != NULL && s->specs != NULL && s->spec_topics != NULL;
    int32_t count = 0;
    for (int32_t i = 0; i < request->topics_n && good; i++) {
        struct str name = request->topics[i].name;
        const struct uuid *id = &request->topics[i].topic_id;
        if (by_id && uuid_is_zero(id))
            continue; /* names beside ids are passed over (facts 6) */
        const void *key = by_id ? (const void *)id : (const void *)name.p;
        size_t key_len = by_id ? sizeof(*id) : (size_t)name.len;
        HASH_FIND(hh, set, key, key_len, present);
        if (present != NULL)
            continue;
        HASH_ADD_KEYPTR(hh, set, key, key_len, &items[i]);
        const struct image_topic *topic = by_id ? image_topic_by_id(s->image, id) : image_topic(s->image, name);
        struct metadata_response_topics *out = &topics[count++];
        if (topic != NULL) {
            good = fill_topic(r, topic, out);
        } else if (by_id) {
            out->name = STR_NULL;
            out->topic_id = *id;
            out->error_code = UNKNOWN_TOPIC_ID;
        } else {
            fill_unknown(r, s, name, count - 1, out);
        }
    }
    HASH_CLEAR(hh, set);
    s->response.topics = topics;
    s->response.topics_n = count;
    return good;
}

static bool fill_topics(struct request *r, struct metadata_state *s)
{
    const struct metadata_request *request = r->body;
    if (request->topics_n < 0 || (request->topics_n == 0 && r->version == 0))
        return fill_all(r, s);
    bool any_id = false, neither = false, null_name = false;
    for (int32_t i = 0; i < request->topics_n; i++) {
        bool has_id = !uuid_is_zero(&request->topics[i].topic_id);
        any_id = any_id || has_id;
        null_name = null_name || request->topics[i].name.p == NULL;
        neither = neither || (!has_id && request->topics[i].name.p == NULL);
    }
    if (r->version < 12 && (any_id || null_name))
        return fill_error(r, s, INVALID_REQUEST);
    if (neither)
        return fill_error(r, s, UNKNOWN_SERVER_ERROR);
    return fill_asked(r, s, any_id);
}

/* ---- Metadata ---- */

static void metadata_respond(struct request *r, struct metadata_state *s)
{
    const struct image *image = s->image;
    request_respond(r, &s->response);
    image_unref(image);
}

static void metadata_create(struct request *r)
{
    struct metadata_state *s = r->state;
    s->create_error =
        controller_create_topics(r->server->controller, s->specs, s->specs_n, false, NULL, &r->arena, s->results, &s->problem);
}

/* What can't be created says why; the rest stays unknown for this answer. */
static void metadata_created(struct request *r)
{
    struct metadata_state *s = r->state;
    char line[1000];
    if (s->create_error != OK)
        log_error("server", "topics could not be created: %s", problem_line(&s->problem, line, sizeof(line)));
    for (int32_t i = 0; i < s->specs_n && s->create_error == OK; i++) {
        const struct topic_result *result = &s->results[i];
        if (result->error == OK)
            log_info("server", "topic created because a client asked for it topic=%.*s partitions=%d", STR_ARG(s->specs[i].name),
                     result->partitions);
        else if (result->error != TOPIC_ALREADY_EXISTS)
            s->response.topics[s->spec_topics[i]].error_code = error_wire(result->error);
    }
    metadata_respond(r, s);
}

void handle_metadata(struct request *r)
{
    const struct metadata_request *request = r->body;
    struct metadata_state *s = request_alloc(r, sizeof(*s));
    proto_init(&PROTO_METADATA_RESPONSE, &s->response);
    r->state = s;
    s->image = image_cell_get(r->server->images);
    fill_brokers(r, s->image, &s->response);
    s->response.cluster_id = str_of(s->image->cluster_id_text);
    s->response.controller_id = s->image->controller_id;
    if (request->include_cluster_authorized_operations)
        s->response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS;
    if (s->response.brokers == NULL || !fill_topics(r, s)) {
        image_unref(s->image);
        request_close(r, TOO_LARGE);
        return;
    }
    if (s->specs_n == 0) {
        metadata_respond(r, s);
        return;
    }
    s->results = request_calloc(r, (size_t)s->specs_n, sizeof(*s->results));
    request_run(r, metadata_create, metadata_created);
}

/* ---- DescribeCluster ---- */

enum { ENDPOINT_BROKERS = 1, ENDPOINT_CONTROLLERS = 2 };

void handle_describe_cluster(struct request *r)
{
    const struct describe_cluster_request *request = r->body;
    struct describe_cluster_response response;
    proto_init(&PROTO_DESCRIBE_CLUSTER_RESPONSE, &response);
    const struct image *image = image_cell_get(r->server->images);
    response.endpoint_type = request->endpoint_type;
    response.cluster_id = str_of(image->cluster_id_text);
    if (request->endpoint_type != ENDPOINT_BROKERS) {
        bool controllers = request->endpoint_type == ENDPOINT_CONTROLLERS;
        response.error_code = controllers ? MISMATCHED_ENDPOINT_TYPE : UNSUPPORTED_ENDPOINT_TYPE;
        response.error_message = controllers ? STR("This is a listener for clients: there is no separate one for controllers.")
                                             : STR("The endpoint type is unknown.");
    } else {
        response.controller_id = image->controller_id;
        response.brokers = describe_cluster_response_brokers_new(&r->arena, image->broker_count);
        ASSERT(response.brokers != NULL);
        response.brokers_n = image->broker_count;
        for (int i = 0; i < image->broker_count; i++) {
            const struct image_broker *b = &image->brokers[i];
            response.brokers[i] = (struct describe_cluster_response_brokers){
                .broker_id = b->id, .host = str_of(b->host), .port = b->port, .rack = str_of(b->rack)};
        }
        if (request->include_cluster_authorized_operations)
            response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS;
    }
    request_respond(r, &response);
    image_unref(image);
}
