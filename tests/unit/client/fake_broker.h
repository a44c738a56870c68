/* A broker on a thread of its own that answers by a script of the test's. */
#ifndef KAGAMI_TESTS_UNIT_CLIENT_FAKE_BROKER_H
#define KAGAMI_TESTS_UNIT_CLIENT_FAKE_BROKER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "net/listener.h"
#include "proto/messages.h"
#include "proto/proto.h"

struct fake_broker;

struct fake_request {
    struct conn *conn;
    struct request_header header;
    const struct proto_api *api;
    const void *body; /* decoded; NULL when the version is unknown */
    struct arena arena;
    struct chain answer; /* what the script puts here is sent; nothing: silence until the connection ends */
    bool refuse;         /* close the connection */
};

struct fake_broker {
    struct loop_group *group;
    struct listener *listener;
    int port;
    void (*script)(struct fake_broker *b, struct fake_request *r);
    atomic_int requests, connections;
    /* for the scripts; changed by the test while the broker runs */
    atomic_int node_id, other_port;
    _Atomic(const char *) cluster_id;
    _Atomic int16_t highest_api_versions, fetch_max;
    atomic_int asked_node; /* of the last ApiVersions 5; -2: none */
};

void fake_broker_start(struct fake_broker *b, void (*script)(struct fake_broker *b, struct fake_request *r));
void fake_broker_stop(struct fake_broker *b);
struct host_port fake_broker_address(const struct fake_broker *b);

void fake_answer(struct fake_request *r, int16_t version, const void *body);
/* What a real broker does with ApiVersions (all of our table) and Metadata (itself and, with other_port, broker node_id + 1;
 * one topic "t"); other requests get no answer. */
void fake_ordinary(struct fake_broker *b, struct fake_request *r);

#endif
