#include "fake_broker.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"

static void on_request(void *arg, struct conn *conn, uint8_t *frame, size_t len)
{
    struct fake_broker *b = arg;
    struct fake_request r = {.conn = conn};
    struct bytes in = {frame, (int64_t)len};
    size_t used;
    atomic_fetch_add(&b->requests, 1);
    arena_init(&r.arena, 1 << 20);
    chain_init(&r.answer);
    enum error e = proto_decode_request_header(in, &r.header, &r.api, &used);
    ASSERT(r.api != NULL);
    if (e == OK) {
        void *body = arena_calloc(&r.arena, 1, proto_struct_size(r.api->request));
        ASSERT(proto_decode(r.api->request, r.header.request_api_version, (struct bytes){frame + used, (int64_t)(len - used)},
                            &r.arena, body, NULL) == OK);
        r.body = body;
    }
    b->script(b, &r);
    if (r.refuse) {
        chain_fini(&r.answer);
        conn_refuse(conn);
    } else if (r.answer.len > 0) {
        conn_reply(conn, &r.answer);
    } else {
        conn_set_data(conn, b); /* in flight until the connection ends */
    }
    arena_fini(&r.arena);
}

static void on_opened(void *arg, struct conn *conn)
{
    atomic_fetch_add(&((struct fake_broker *)arg)->connections, 1);
}

static void on_closed(void *arg, struct conn *conn, enum error why)
{
    if (conn_data(conn) != NULL)
        conn_no_reply(conn);
}

void fake_broker_start(struct fake_broker *b, void (*script)(struct fake_broker *b, struct fake_request *r))
{
    struct listener_config config = {
        .address = {.host = "127.0.0.1", .port = 0},
        .conn_limits = {.request_max_bytes = LIMIT_REQUEST_BYTES},
        .events = {.opened = on_opened, .request = on_request, .closed = on_closed},
        .arg = b,
    };
    struct problem problem;
    *b = (struct fake_broker){
        .script = script, .cluster_id = "fake", .highest_api_versions = 5, .fetch_max = 17, .asked_node = -2};
    ASSERT(loop_group_start(CLOCK_SYSTEM, 1, &b->group) == OK);
    ASSERT(listener_start(b->group, &config, &b->listener, &problem) == OK);
    b->port = listener_port(b->listener);
}

void fake_broker_stop(struct fake_broker *b)
{
    listener_destroy(b->listener);
    loop_group_stop(b->group);
}

struct host_port fake_broker_address(const struct fake_broker *b)
{
    struct host_port address = {.host = "127.0.0.1", .port = b->port};
    return address;
}

void fake_answer(struct fake_request *r, int16_t version, const void *body)
{
    ASSERT(proto_encode_response(r->api, version, r->header.correlation_id, body, &r->answer) == OK);
}

static void answer_api_versions(struct fake_broker *b, struct fake_request *r)
{
    struct api_versions_response response;
    proto_init(&PROTO_API_VERSIONS_RESPONSE, &response);
    response.api_keys = api_versions_response_api_keys_new(&r->arena, 200);
    response.api_keys_n = 0;
    for (size_t i = 0; proto_api_at(i) != NULL; i++) {
        const struct proto_api *api = proto_api_at(i);
        struct api_versions_response_api_keys *k = &response.api_keys[response.api_keys_n++];
        k->api_key = api->key;
        k->min_version = api->valid_min;
        k->max_version = api->valid_max;
        if (api->key == API_FETCH)
            k->max_version = b->fetch_max;
        if (api->key == API_API_VERSIONS)
            k->max_version = b->highest_api_versions;
    }
    if (r->header.request_api_version >= 3) {
        response.finalized_features = api_versions_response_finalized_features_new(&r->arena, 1);
        response.finalized_features_n = 1;
        response.finalized_features[0].name = STR("transaction.version");
        response.finalized_features[0].max_version_level = 2;
    }
    if (r->header.request_api_version >= 5) {
        const struct api_versions_request *body = r->body;
        b->asked_node = body->node_id;
        if (body->node_id >= 0 && (body->node_id != b->node_id || !str_is(body->cluster_id, b->cluster_id)))
            response.error_code = REBOOTSTRAP_REQUIRED;
    }
    fake_answer(r, r->header.request_api_version, &response);
}

static void answer_metadata(struct fake_broker *b, struct fake_request *r)
{
    const struct metadata_request *body = r->body;
    struct metadata_response response;
    proto_init(&PROTO_METADATA_RESPONSE, &response);
    response.cluster_id = str_of(b->cluster_id);
    response.controller_id = b->node_id;
    response.brokers_n = b->other_port != 0 ? 2 : 1;
    response.brokers = metadata_response_brokers_new(&r->arena, 2);
    for (int i = 0; i < response.brokers_n; i++) {
        response.brokers[i].node_id = b->node_id + i;
        response.brokers[i].host = STR("127.0.0.1");
        response.brokers[i].port = i == 0 ? b->port : b->other_port;
    }
    response.topics_n = body->topics_n != 0;
    response.topics = metadata_response_topics_new(&r->arena, 1);
    response.topics[0].name = STR("t");
    response.topics[0].partitions = metadata_response_topics_partitions_new(&r->arena, 3);
    response.topics[0].partitions_n = 3;
    for (int i = 0; i < 3; i++) { /* not in order */
        response.topics[0].partitions[i].partition_index = (i + 1) % 3;
        response.topics[0].partitions[i].leader_id = 10 + (i + 1) % 3;
    }
    fake_answer(r, r->header.request_api_version, &response);
}

void fake_ordinary(struct fake_broker *b, struct fake_request *r)
{
    if (r->api->key == API_API_VERSIONS)
        answer_api_versions(b, r);
    else if (r->api->key == API_METADATA)
        answer_metadata(b, r);
}
