/* One connection against scripted brokers. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "client/client.h"
#include "fake_broker.h"

struct world {
    struct loop *loop;
    struct client_conn *conn;
    bool ready, closed;
    struct problem problem; /* of closed */
    int answers;
    enum error errors[8];
    struct client_response *kept;
    bool destroy_in_answer, destroy_in_closed;
};

static void on_ready(void *arg, struct client_conn *conn)
{
    ((struct world *)arg)->ready = true;
}

static void on_closed(void *arg, struct client_conn *conn, const struct problem *problem)
{
    struct world *w = arg;
    assert_false(w->closed);
    w->closed = true;
    w->problem = *problem;
    if (w->destroy_in_closed) {
        client_conn_destroy(w->conn);
        w->conn = NULL;
    }
}

static void on_answer(void *arg, struct client_response *r)
{
    struct world *w = arg;
    assert_false(w->closed); /* requests end before the connection */
    assert_int_equal(r->error == OK, r->body != NULL);
    w->errors[w->answers++] = r->error;
    if (r->error == OK && w->kept == NULL)
        w->kept = client_response_keep(r);
    if (w->destroy_in_answer) {
        client_conn_destroy(w->conn);
        w->conn = NULL;
    }
}

static void connect_to(struct world *w, const struct host_port *address, const struct client_options *options)
{
    static const struct client_conn_events events = {.ready = on_ready, .closed = on_closed};
    *w = (struct world){0};
    assert_ok(loop_create(CLOCK_SYSTEM, &w->loop));
    w->conn = client_conn_create(w->loop, address, options, &events, w);
    assert_false(w->closed || w->ready);
}

static void run_until_up_or_down(struct world *w)
{
    while (!w->ready && !w->closed)
        loop_step(w->loop, 1000);
}

static void finish(struct world *w)
{
    client_response_free(w->kept);
    client_conn_destroy(w->conn);
    loop_destroy(w->loop);
}

static void connect_and_wait(struct world *w, const struct fake_broker *b)
{
    struct host_port address = fake_broker_address(b);
    struct client_options options = {0};
    connect_to(w, &address, &options);
    run_until_up_or_down(w);
}

static void send_metadata(struct world *w, int64_t timeout_ms)
{
    struct metadata_request request;
    struct problem problem;
    proto_init(&PROTO_METADATA_REQUEST, &request);
    request.topics_n = -1;
    int before = w->answers;
    assert_ok(client_conn_send(w->conn, API_METADATA, -1, &request, timeout_ms, on_answer, w, &problem));
    assert_int_equal(w->answers, before);
}

static void a_handshake_and_requests(void **state)
{
    struct fake_broker b;
    struct world w;
    fake_broker_start(&b, fake_ordinary);
    connect_and_wait(&w, &b);
    assert_true(w.ready);
    assert_int_equal(client_conn_feature(w.conn, "transaction.version"), 2);
    assert_int_equal(client_conn_feature(w.conn, "unknown"), -1);
    for (int i = 0; i < 5; i++)
        send_metadata(&w, 0);
    assert_int_equal(client_conn_in_flight(w.conn), 5);
    while (w.answers < 5)
        loop_step(w.loop, 1000);
    const struct metadata_response *body = w.kept->body; /* outlives the callback, and the connection */
    client_conn_destroy(w.conn);
    w.conn = NULL;
    assert_str(body->cluster_id, "fake");
    assert_int_equal(body->topics[0].partitions_n, 3);
    finish(&w);
    fake_broker_stop(&b);
}

static void versions_are_the_highest_in_common(void **state)
{
    struct fake_broker b;
    struct world w;
    struct problem problem;
    int16_t version = -1;
    fake_broker_start(&b, fake_ordinary);
    b.fetch_max = 5;
    connect_and_wait(&w, &b);
    assert_ok(client_conn_version(w.conn, API_FETCH, 4, -1, &version, &problem));
    assert_int_equal(version, 5);
    assert_ok(client_conn_version(w.conn, API_METADATA, 0, 7, &version, &problem));
    assert_int_equal(version, 7);
    assert_error(client_conn_version(w.conn, API_FETCH, 11, 12, &version, &problem), ERR_UNSUPPORTED);
    assert_non_null(strstr(problem.message, "Fetch"));
    assert_non_null(strstr(problem.detail, "4 to 5"));
    assert_non_null(strstr(problem.detail, "11 to 12"));
    assert_error(client_conn_version(w.conn, 999, 0, -1, &version, &problem), ERR_UNSUPPORTED);
    assert_int_equal(version, 7);
    finish(&w);
    fake_broker_stop(&b);
}

/* Knows ApiVersions up to 2 (or, with highest_api_versions -1, does not even say so) and answers 3 as KIP-511 wants. */
static void old_broker(struct fake_broker *b, struct fake_request *r)
{
    if (r->api->key == API_API_VERSIONS && r->header.request_api_version > MAX((int16_t)b->highest_api_versions, 0)) {
        struct api_versions_response response;
        struct api_versions_response_api_keys key = {API_API_VERSIONS, 0, b->highest_api_versions};
        proto_init(&PROTO_API_VERSIONS_RESPONSE, &response);
        response.error_code = UNSUPPORTED_VERSION;
        response.api_keys = &key;
        response.api_keys_n = b->highest_api_versions >= 0;
        fake_answer(r, 0, &response);
        return;
    }
    b->asked_node = r->header.request_api_version;
    fake_ordinary(b, r);
}

static void the_handshake_falls_back_for_old_brokers(void **state)
{
    for (int16_t highest = -1; highest <= 2; highest += 3) {
        struct fake_broker b;
        struct world w;
        fake_broker_start(&b, old_broker);
        b.highest_api_versions = highest;
        connect_and_wait(&w, &b);
        assert_true(w.ready);
        assert_int_equal(b.asked_node, MAX(highest, 0));
        assert_int_equal(b.requests, 2);
        finish(&w);
        fake_broker_stop(&b);
    }
}

static const char *garbage;
static size_t garbage_len;
static void send_garbage(struct fake_broker *b, struct fake_request *r)
{
    chain_append(&r->answer, garbage, garbage_len);
}

static void what_is_no_broker_is_told_so(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *hint;
    } table[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28, "PLAINTEXT"},
        {"\x15\x03\x03\x00\x02\x02\x32", 7, "TLS"},
        {"\xff\xff\xff\xff", 4, "PLAINTEXT"},
        {"\0\0\0\2ab", 6, "PLAINTEXT"},                        /* too short for an answer */
        {"\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0", 14, "PLAINTEXT"}, /* another correlation id */
        {"\0\0\0\x09\0\0\0\0\0\0\x7f\xff\xff", 13, "PLAINTEXT"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct fake_broker b;
        struct world w;
        garbage = table[i].bytes;
        garbage_len = table[i].len;
        fake_broker_start(&b, send_garbage);
        connect_and_wait(&w, &b);
        assert_true(w.closed);
        assert_error(w.problem.code, ERR_MALFORMED);
        assert_non_null(strstr(w.problem.message, "not a Kafka broker"));
        assert_non_null(strstr(w.problem.hint, table[i].hint));
        finish(&w);
        fake_broker_stop(&b);
    }
}

static void refuse(struct fake_broker *b, struct fake_request *r)
{
    r->refuse = true;
}
static void silence(struct fake_broker *b, struct fake_request *r) {}

static void the_peer_closes_in_the_handshake(void **state)
{
    struct fake_broker b;
    struct world w;
    fake_broker_start(&b, refuse);
    connect_and_wait(&w, &b);
    assert_error(w.problem.code, ERR_CLOSED);
    assert_non_null(strstr(w.problem.message, "handshake"));
    finish(&w);
    fake_broker_stop(&b);
}

static void a_silent_peer_times_out(void **state)
{
    struct fake_broker b;
    struct world w;
    fake_broker_start(&b, silence);
    struct host_port address = fake_broker_address(&b);
    struct client_options options = {.connect_timeout_ms = 20};
    connect_to(&w, &address, &options);
    w.destroy_in_closed = true;
    run_until_up_or_down(&w);
    assert_error(w.problem.code, ERR_TIMED_OUT);
    assert_non_null(strstr(w.problem.message, "20 ms"));
    finish(&w);
    fake_broker_stop(&b);
}

static void nobody_listens(void **state)
{
    struct fake_broker b;
    struct world w;
    fake_broker_start(&b, silence);
    struct host_port address = fake_broker_address(&b);
    fake_broker_stop(&b);
    struct client_options options = {0};
    connect_to(&w, &address, &options);
    run_until_up_or_down(&w);
    assert_error(w.problem.code, ERR_UNREACHABLE);
    assert_non_null(strstr(w.problem.hint, "Nobody listens"));
    finish(&w);
    /* A name, with and without helpers. */
    for (int with = 0; with < 2; with++) {
        struct helpers *helpers = NULL;
        if (with)
            assert_ok(helpers_start(1, &helpers));
        address = (struct host_port){.host = "no such host", .port = 1};
        options.helpers = helpers;
        connect_to(&w, &address, &options);
        run_until_up_or_down(&w);
        assert_error(w.problem.code, ERR_UNREACHABLE);
        assert_non_null(strstr(w.problem.message, "no such host"));
        struct world second; /* destroyed while the helper looks the name up */
        connect_to(&second, &address, &options);
        loop_step(second.loop, 10);
        client_conn_destroy(second.conn);
        second.conn = NULL;
        helpers_stop(helpers); /* the loops outlive the helpers that post to them */
        loop_step(second.loop, 0);
        finish(&second);
        finish(&w);
    }
}

/* Ordinary but for Metadata. */
static void metadata_closes(struct fake_broker *b, struct fake_request *r)
{
    if (r->api->key == API_METADATA && b->requests > 2)
        r->refuse = true;
    else
        fake_ordinary(b, r);
}

static void metadata_silence(struct fake_broker *b, struct fake_request *r)
{
    if (r->api->key != API_METADATA)
        fake_ordinary(b, r);
}

static void metadata_of_another_request(struct fake_broker *b, struct fake_request *r)
{
    if (r->api->key == API_METADATA)
        r->header.correlation_id += 7;
    fake_ordinary(b, r);
}

static void metadata_too_large(struct fake_broker *b, struct fake_request *r)
{
    if (r->api->key == API_METADATA)
        put_u32(chain_extend(&r->answer, 4), 0x7fffffff);
    else
        fake_ordinary(b, r);
}

static void requests_in_flight_end_with_the_connection(void **state)
{
    static const struct {
        void (*script)(struct fake_broker *b, struct fake_request *r);
        int64_t timeout_ms;
        enum error expected;
        int answered; /* before it */
    } table[] = {
        {metadata_closes, 0, ERR_CLOSED, 1},
        {metadata_silence, 20, ERR_TIMED_OUT, 0},
        {metadata_of_another_request, 0, ERR_MALFORMED, 0},
        {metadata_too_large, 0, ERR_TOO_LARGE, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct fake_broker b;
        struct world w;
        fake_broker_start(&b, table[i].script);
        connect_and_wait(&w, &b);
        assert_true(w.ready);
        for (int k = 0; k < 3; k++) {
            send_metadata(&w, table[i].timeout_ms);
            /* A peer that closes over bytes it has not read resets the connection, and answers under way are lost with it. */
            while (k < table[i].answered && w.answers <= k)
                loop_step(w.loop, 1000);
        }
        while (!w.closed)
            loop_step(w.loop, 1000);
        assert_error(w.problem.code, table[i].expected);
        assert_int_equal(w.answers, 3);
        for (int k = 0; k < 3; k++)
            assert_error(w.errors[k], k < table[i].answered ? OK : table[i].expected);
        struct metadata_request request;
        proto_init(&PROTO_METADATA_REQUEST, &request);
        assert_error(client_conn_send(w.conn, API_METADATA, -1, &request, 0, on_answer, &w, NULL), ERR_STATE);
        finish(&w);
        fake_broker_stop(&b);
    }
}

static void the_owner_may_destroy_it_in_any_callback(void **state)
{
    for (int way = 0; way < 3; way++) {
        struct fake_broker b;
        struct world w;
        fake_broker_start(&b, way == 0 ? fake_ordinary : metadata_silence);
        connect_and_wait(&w, &b);
        w.destroy_in_answer = true;
        for (int k = 0; k < 3; k++)
            send_metadata(&w, 0);
        while (way == 0 && w.answers == 0)
            loop_step(w.loop, 1000);
        if (way == 1)
            client_conn_close(w.conn, NULL);
        if (way == 2) {
            client_conn_destroy(w.conn);
            w.conn = NULL;
        }
        assert_int_equal(w.answers, way == 2 ? 0 : 1); /* the others are dropped */
        assert_false(w.closed);
        finish(&w);
        fake_broker_stop(&b);
    }
}

/* Fetch answers of 3 MB of records. */
static void an_unused_connection_ends_and_a_used_one_stays(void **state)
{
    struct fake_broker b;
    struct world w;
    struct host_port address;
    fake_broker_start(&b, fake_ordinary);
    address = fake_broker_address(&b);
    struct client_options options = {.idle_timeout_ms = 20};
    connect_to(&w, &address, &options);
    run_until_up_or_down(&w);
    send_metadata(&w, 0);
    while (w.answers < 1) /* does not end while it waits for an answer */
        loop_step(w.loop, 1000);
    assert_int_equal(w.errors[0], OK);
    while (!w.closed)
        loop_step(w.loop, 1000);
    assert_int_equal(w.problem.code, ERR_CLOSED);
    assert_non_null(strstr(w.problem.message, "not used"));
    finish(&w);
    fake_broker_stop(&b);
}

static void large_fetch(struct fake_broker *b, struct fake_request *r)
{
    if (r->api->key != API_FETCH) {
        fake_ordinary(b, r);
        return;
    }
    static uint8_t records[3 << 20];
    for (size_t i = 0; i < sizeof(records); i++)
        records[i] = (uint8_t)(i * 5 + (i >> 9));
    struct fetch_response response;
    proto_init(&PROTO_FETCH_RESPONSE, &response);
    response.responses = fetch_response_responses_new(&r->arena, 1);
    response.responses_n = 1;
    response.responses[0].topic = STR("t");
    response.responses[0].partitions = fetch_response_responses_partitions_new(&r->arena, 1);
    response.responses[0].partitions_n = 1;
    response.responses[0].partitions[0].records = (struct records){.p = records, .len = sizeof(records)};
    fake_answer(r, r->header.request_api_version, &response);
}

static void records_are_views_into_the_frame(void **state)
{
    struct fake_broker b;
    struct world w;
    struct problem problem;
    fake_broker_start(&b, large_fetch);
    connect_and_wait(&w, &b);
    struct fetch_request request;
    proto_init(&PROTO_FETCH_REQUEST, &request);
    request.topics_n = 0;
    assert_ok(client_conn_send(w.conn, API_FETCH, 11, &request, 0, on_answer, &w, &problem));
    while (w.answers == 0)
        loop_step(w.loop, 1000);
    const struct fetch_response *body = w.kept->body;
    const struct records *records = &body->responses[0].partitions[0].records;
    assert_int_equal(records->len, 3 << 20);
    assert_true(records->p >= w.kept->frame && records->p + records->len <= w.kept->frame + w.kept->frame_len);
    for (size_t i = 0; i < 3 << 20; i += 1013)
        assert_int_equal(records->p[i], (uint8_t)(i * 5 + (i >> 9)));
    finish(&w);
    fake_broker_stop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handshake_and_requests),
        cmocka_unit_test(versions_are_the_highest_in_common),
        cmocka_unit_test(the_handshake_falls_back_for_old_brokers),
        cmocka_unit_test(what_is_no_broker_is_told_so),
        cmocka_unit_test(the_peer_closes_in_the_handshake),
        cmocka_unit_test(a_silent_peer_times_out),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(requests_in_flight_end_with_the_connection),
        cmocka_unit_test(the_owner_may_destroy_it_in_any_callback),
        cmocka_unit_test(an_unused_connection_ends_and_a_used_one_stays),
        cmocka_unit_test(records_are_views_into_the_frame),
    };
    return cmocka_run_group_tests_name("client/conn", tests, NULL, NULL);
}
