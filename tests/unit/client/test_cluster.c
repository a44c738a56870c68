/* Brokers of a cluster, and the blocking form. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "client/client.h"
#include "fake_broker.h"

static void bootstrap_addresses_are_checked(void **state)
{
    struct host_port out[CLIENT_BOOTSTRAP_MAX];
    struct problem problem;
    int count = 0;
    assert_ok(client_bootstrap_parse("a:1, [::1]:2 ,b:65535", out, &count, &problem));
    assert_int_equal(count, 3);
    assert_string_equal(out[1].host, "::1");
    assert_int_equal(out[2].port, 65535);
    static const char *const bad[] = {
        "",         "a",     "a:0",   ":1",
        "a:1,,b:2", "a:1,b", "::1:2", "a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_error(client_bootstrap_parse(bad[i], out, &count, &problem), ERR_INVALID);
        assert_non_null(strstr(problem.hint, "HOST:PORT"));
        assert_int_equal(count, 3);
    }
}

struct cluster_world {
    struct fake_broker first, second;
    struct loop *loop;
    struct client_cluster *cluster;
    int refreshed, answered;
    struct problem problem;
    enum error error;
    int32_t answered_by; /* controller id of a Metadata answer */
};

/* Second of the two: answers Metadata as a cluster of itself, so that answers can be told apart. */
static int begin(void **state)
{
    struct cluster_world *w = calloc(1, sizeof(*w));
    *state = w;
    fake_broker_start(&w->first, fake_ordinary);
    fake_broker_start(&w->second, fake_ordinary);
    w->first.node_id = 5;
    w->second.node_id = 6;
    w->first.other_port = w->second.port;
    struct host_port bootstrap = fake_broker_address(&w->first);
    struct client_options options = {0};
    assert_ok(loop_create(CLOCK_SYSTEM, &w->loop));
    w->cluster = client_cluster_create(w->loop, &bootstrap, 1, &options);
    return 0;
}

static int end(void **state)
{
    struct cluster_world *w = *state;
    client_cluster_destroy(w->cluster);
    loop_destroy(w->loop);
    fake_broker_stop(&w->first);
    fake_broker_stop(&w->second);
    free(w);
    return 0;
}

static void on_refreshed(void *arg, const struct problem *problem)
{
    struct cluster_world *w = arg;
    w->refreshed++;
    w->error = OK;
    if (problem != NULL) {
        w->problem = *problem;
        w->error = problem->code;
    }
}

static enum error refresh(struct cluster_world *w, int32_t n)
{
    struct str name = STR("t");
    int before = w->refreshed;
    client_cluster_refresh(w->cluster, &name, n, on_refreshed, w);
    assert_int_equal(w->refreshed, before);
    while (w->refreshed == before)
        loop_step(w->loop, 1000);
    return w->error;
}

static void on_answered(void *arg, struct client_response *r)
{
    struct cluster_world *w = arg;
    w->answered++;
    w->error = r->error;
    w->problem = r->problem;
    if (r->error == OK)
        w->answered_by = ((const struct metadata_response *)r->body)->controller_id;
}

static enum error call(struct cluster_world *w, int32_t id)
{
    struct metadata_request request;
    proto_init(&PROTO_METADATA_REQUEST, &request);
    request.topics_n = -1;
    int before = w->answered;
    client_cluster_call(w->cluster, id, API_METADATA, 4, 12, &request, 0, on_answered, w);
    assert_int_equal(w->answered, before);
    while (w->answered == before)
        loop_step(w->loop, 1000);
    return w->error;
}

static void metadata_is_read_and_copied(void **state)
{
    struct cluster_world *w = *state;
    assert_null(client_cluster_metadata(w->cluster));
    assert_ok(refresh(w, 0));
    const struct client_metadata *m = client_cluster_metadata(w->cluster);
    assert_int_equal(m->topics_n, 0);
    assert_string_equal(m->cluster_id, "fake");
    assert_int_equal(m->controller, 5);
    assert_int_equal(m->brokers_n, 2);
    assert_int_equal(client_metadata_broker(m, 6)->address.port, w->second.port);
    assert_null(client_metadata_broker(m, 7));
    assert_ok(refresh(w, 1));
    m = client_cluster_metadata(w->cluster);
    const struct client_topic *t = client_metadata_topic(m, "t");
    assert_int_equal(t->partitions_n, 3);
    for (int i = 0; i < 3; i++) { /* by index, whatever the order of the answer */
        assert_int_equal(t->partitions[i].index, i);
        assert_int_equal(t->partitions[i].leader, 10 + i);
    }
    assert_null(client_metadata_topic(m, "u"));
    assert_int_equal(w->first.connections, 1);
}

static void calls_go_to_the_broker_that_is_meant(void **state)
{
    struct cluster_world *w = *state;
    assert_error(call(w, 6), ERR_UNREACHABLE); /* nothing known yet */
    assert_ok(refresh(w, 0));
    assert_ok(call(w, 6));
    assert_int_equal(w->answered_by, 6);
    assert_int_equal(w->second.asked_node, 6); /* it was asked whether it is */
    assert_ok(call(w, CLIENT_CONTROLLER));
    assert_int_equal(w->answered_by, 5);
    assert_ok(call(w, 6));
    assert_ok(call(w, CLIENT_ANY));
    assert_int_equal(w->first.connections, 1);
    assert_int_equal(w->second.connections, 1);
    assert_error(call(w, 9), ERR_UNREACHABLE);
    assert_non_null(strstr(w->problem.message, "Broker 9"));
}

static void another_broker_at_the_address_is_noticed(void **state)
{
    /* By ApiVersions 5, and by Metadata where the broker does not know that. */
    for (int16_t highest = 5; highest >= 4; highest--) {
        void *s = NULL;
        if (highest == 4)
            begin(&s);
        struct cluster_world *w = highest == 4 ? s : *state;
        w->second.highest_api_versions = highest;
        w->second.node_id = 8;
        assert_ok(refresh(w, 0));
        assert_error(call(w, 6), ERR_CONFLICT);
        assert_non_null(strstr(w->problem.message, "broker 6"));
        w->second.node_id = 6;
        w->second.cluster_id = "other";
        assert_error(call(w, 6), ERR_CONFLICT);
        w->second.cluster_id = "fake";
        assert_ok(call(w, 6));
        if (highest == 4)
            end(&s);
    }
}

static void another_cluster_is_noticed(void **state)
{
    struct cluster_world *w = *state;
    assert_ok(refresh(w, 0));
    w->first.cluster_id = "other";
    assert_error(refresh(w, 0), ERR_CONFLICT);
    assert_non_null(strstr(w->problem.message, "other"));
    assert_string_equal(client_cluster_metadata(w->cluster)->cluster_id, "fake"); /* not taken over */
    client_cluster_expect(w->cluster, "other");
    assert_ok(refresh(w, 0));
    client_cluster_expect(w->cluster, "a third");
    assert_error(refresh(w, 0), ERR_CONFLICT);
}

static void dead_addresses_are_passed_over(void **state)
{
    struct cluster_world *w = *state;
    struct fake_broker dead;
    fake_broker_start(&dead, fake_ordinary);
    struct host_port bootstrap[3] = {
        fake_broker_address(&dead), {.host = "no such host", .port = 9}, fake_broker_address(&w->first)};
    fake_broker_stop(&dead);
    struct client_options options = {0};
    struct client_cluster *kept = w->cluster;
    w->cluster = client_cluster_create(w->loop, bootstrap, 3, &options);
    assert_ok(refresh(w, 0));
    client_cluster_destroy(w->cluster);
    w->cluster = client_cluster_create(w->loop, bootstrap, 2, &options);
    assert_error(refresh(w, 0), ERR_UNREACHABLE);
    assert_non_null(strstr(w->problem.message, "no such host")); /* the last one's */
    client_cluster_destroy(w->cluster);
    w->cluster = kept;
}

static void silence(struct fake_broker *b, struct fake_request *r) {}

static void destroying_drops_what_is_under_way(void **state)
{
    struct cluster_world *w = *state;
    struct fake_broker silent;
    fake_broker_start(&silent, silence);
    struct host_port bootstrap = fake_broker_address(&silent);
    struct client_options options = {0};
    struct client_cluster *cluster = client_cluster_create(w->loop, &bootstrap, 1, &options);
    struct str name = STR("t");
    for (int rounds = 0; rounds < 3; rounds++) {
        client_cluster_refresh(cluster, &name, 1, on_refreshed, w);
        loop_step(w->loop, 10);
    }
    client_cluster_refresh(cluster, &name, 1, on_refreshed, w);
    client_cluster_destroy(cluster);
    loop_step(w->loop, 0);
    assert_int_equal(w->refreshed, 0);
    fake_broker_stop(&silent);
}

static void the_blocking_form(void **state)
{
    struct cluster_world *w = *state;
    char bootstrap[64];
    struct client_options options = {.request_timeout_ms = 50};
    struct client_sync *client;
    struct problem problem;
    snprintf(bootstrap, sizeof(bootstrap), "127.0.0.1:1,127.0.0.1:%d", w->first.port);
    assert_error(client_sync_create("nonsense", &options, &client, &problem), ERR_INVALID);
    assert_error(client_sync_create("127.0.0.1:1", &options, &client, &problem), ERR_UNREACHABLE);
    assert_ok(client_sync_create(bootstrap, &options, &client, &problem));
    assert_int_equal(client_sync_metadata(client)->brokers_n, 2);
    assert_ok(client_sync_refresh(client, NULL, -1, &problem));
    assert_non_null(client_metadata_topic(client_sync_metadata(client), "t"));
    struct describe_cluster_request request;
    struct client_response *response = NULL;
    proto_init(&PROTO_DESCRIBE_CLUSTER_REQUEST, &request);
    assert_error(client_sync_call(client, 6, API_DESCRIBE_CLUSTER, 0, -1, &request, 0, &response, &problem), ERR_TIMED_OUT);
    assert_null(response);
    assert_non_null(strstr(problem.message, "DescribeCluster"));
    struct metadata_request metadata;
    proto_init(&PROTO_METADATA_REQUEST, &metadata);
    metadata.topics_n = -1;
    assert_ok(client_sync_call(client, CLIENT_ANY, API_METADATA, 0, -1, &metadata, 0, &response, &problem));
    assert_str(((const struct metadata_response *)response->body)->cluster_id, "fake");
    client_response_free(response);
    client_response_free(NULL);
    client_sync_destroy(client);
    client_sync_destroy(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bootstrap_addresses_are_checked),
        TEST(metadata_is_read_and_copied),
        TEST(calls_go_to_the_broker_that_is_meant),
        TEST(another_broker_at_the_address_is_noticed),
        TEST(another_cluster_is_noticed),
        TEST(dead_addresses_are_passed_over),
        TEST(destroying_drops_what_is_under_way),
        TEST(the_blocking_form),
    };
    return cmocka_run_group_tests_name("client/cluster", tests, NULL, NULL);
}
