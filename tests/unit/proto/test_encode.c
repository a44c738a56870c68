/* The encoder: what versions can and cannot express, chains of records, frames, JSON, control records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "base/assert.h"
#include "proto/messages.h"

static void expect_bytes(struct chain *chain, const uint8_t *expected, size_t len)
{
    struct buf out = {0};
    assert_int_equal(chain->len, len);
    assert_int_equal(chain_read(chain, &out), OK);
    assert_memory_equal(out.data, expected, len);
    buf_fini(&out);
    chain_fini(chain);
}

#define EXPECT(chain, ...) expect_bytes(chain, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void plain_and_flexible(void **state)
{
    (void)state;
    struct delete_topics_request_topics topics[1];
    struct str names[] = {STR("a")};
    struct delete_topics_request r;
    struct chain c;
    chain_init(&c);
    proto_init(&PROTO_DELETE_TOPICS_REQUEST, &r);
    r.timeout_ms = 7;
    r.topic_names = names;
    r.topic_names_n = 1;
    assert_int_equal(proto_encode(&PROTO_DELETE_TOPICS_REQUEST, 1, &r, &c), OK);
    EXPECT(&c, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 7);
    assert_int_equal(proto_encode(&PROTO_DELETE_TOPICS_REQUEST, 4, &r, &c), OK);
    EXPECT(&c, 2, 2, 'a', 0, 0, 0, 7, 0);
    topics[0] = (struct delete_topics_request_topics){.name = STR_NULL, .topic_id = {{1}}};
    r.topics = topics;
    r.topics_n = 1;
    assert_int_equal(proto_encode(&PROTO_DELETE_TOPICS_REQUEST, 6, &r, &c), OK); /* the names are ignorable */
    EXPECT(&c, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0);
    assert_int_equal(proto_encode(&PROTO_DELETE_TOPICS_REQUEST, 5, &r, &c), ERR_UNSUPPORTED); /* the ids are not */
    assert_int_equal(c.len, 0);
}

static void versions_that_cannot_express_a_value(void **state)
{
    (void)state;
    struct metadata_request m;
    struct fetch_request q;
    struct fetch_response f;
    struct chain c;
    size_t size;
    chain_init(&c);
    proto_init(&PROTO_METADATA_REQUEST, &m);
    m.allow_auto_topic_creation = false;
    assert_int_equal(proto_size(&PROTO_METADATA_REQUEST, 3, &m, &size), ERR_UNSUPPORTED);
    assert_int_equal(proto_size(&PROTO_METADATA_REQUEST, 4, &m, &size), OK);
    proto_init(&PROTO_FETCH_RESPONSE, &f);
    f.session_id = 3;
    assert_int_equal(proto_encode(&PROTO_FETCH_RESPONSE, 6, &f, &c), ERR_UNSUPPORTED);
    f.session_id = 0;
    f.error_code = 71; /* ignorable */
    assert_int_equal(proto_size(&PROTO_FETCH_RESPONSE, 6, &f, &size), OK);
    proto_init(&PROTO_FETCH_REQUEST, &q);
    q.replica_state.replica_id = 1; /* a tagged struct */
    assert_int_equal(proto_size(&PROTO_FETCH_REQUEST, 14, &q, &size), ERR_UNSUPPORTED);
    assert_int_equal(proto_size(&PROTO_FETCH_REQUEST, 4, &q, &size), ERR_UNSUPPORTED);
    assert_int_equal(proto_size(&PROTO_FETCH_REQUEST, 15, &q, &size), OK);
    assert_int_equal(c.len, 0);
}

static void what_is_never_valid(void **state)
{
    (void)state;
    struct find_coordinator_request r;
    struct metadata_request m;
    size_t size;
    proto_init(&PROTO_FIND_COORDINATOR_REQUEST, &r);
    r.key = STR_NULL;
    assert_int_equal(proto_size(&PROTO_FIND_COORDINATOR_REQUEST, 0, &r, &size), ERR_INVALID);
    r.key = (struct str){"x", -1};
    assert_int_equal(proto_size(&PROTO_FIND_COORDINATOR_REQUEST, 0, &r, &size), ERR_INVALID);
    char *text = mem_calloc(1, 32768);
    r.key = (struct str){text, 32768};
    assert_int_equal(proto_size(&PROTO_FIND_COORDINATOR_REQUEST, 3, &r, &size), ERR_TOO_LARGE);
    r.key.len = 32767;
    assert_int_equal(proto_size(&PROTO_FIND_COORDINATOR_REQUEST, 3, &r, &size), OK);
    mem_free(text);
    proto_init(&PROTO_METADATA_REQUEST, &m);
    m.topics_n = -1;
    assert_int_equal(proto_size(&PROTO_METADATA_REQUEST, 0, &m, &size), ERR_INVALID);
    assert_int_equal(proto_size(&PROTO_METADATA_REQUEST, 1, &m, &size), OK);
    m.topics_n = -2;
    assert_int_equal(proto_size(&PROTO_METADATA_REQUEST, 1, &m, &size), ERR_INVALID);
    m.topics_n = 1; /* and no topics */
    assert_int_equal(proto_size(&PROTO_METADATA_REQUEST, 1, &m, &size), ERR_INVALID);
}

static void tags_come_in_order_and_only_when_needed(void **state)
{
    (void)state;
    struct mirror_pid_reset_record r;
    struct chain c;
    chain_init(&c);
    proto_init(&PROTO_MIRROR_PID_RESET_RECORD, &r);
    r.source_cluster_id = STR("s");
    assert_int_equal(proto_encode(&PROTO_MIRROR_PID_RESET_RECORD, 0, &r, &c), OK);
    EXPECT(&c, 0, 0, 2, 's', 0);
    r.scope = 1;
    r.writer_cluster_id = STR("w");
    assert_int_equal(proto_encode(&PROTO_MIRROR_PID_RESET_RECORD, 0, &r, &c), OK);
    EXPECT(&c, 0, 0, 2, 's', 2, 0, 2, 2, 'w', 1, 1, 1);
}

/* ---- records ---- */

static int released;

static void count_release(void *arg)
{
    (void)arg;
    released++;
}

/* A response with `n` partitions whose records are a referenced chain each. */
static void fetch_with_chains(struct fetch_response *f, struct arena *arena, struct chain *chains, int32_t n)
{
    proto_init(&PROTO_FETCH_RESPONSE, f);
    f->responses_n = 1;
    f->responses = fetch_response_responses_new(arena, 1);
    f->responses[0].topic = STR("t");
    f->responses[0].partitions_n = n;
    f->responses[0].partitions = fetch_response_responses_partitions_new(arena, n);
    for (int32_t i = 0; i < n; i++) {
        chain_init(&chains[i]);
        chain_append_ref(&chains[i], "batch", 5, count_release, NULL);
        f->responses[0].partitions[i].partition_index = i;
        f->responses[0].partitions[i].records.chain = &chains[i];
    }
}

static void chains_are_moved(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    for (int16_t version = 4; version <= 18; version++) { /* 4 to 11 end with records, the others with tags */
        struct chain chains[3], out;
        struct fetch_response f, back;
        struct buf bytes = {0};
        size_t size, used;
        released = 0;
        chain_init(&out);
        fetch_with_chains(&f, &arena, chains, 3);
        assert_int_equal(proto_size(&PROTO_FETCH_RESPONSE, version, &f, &size), OK);
        assert_int_equal(proto_encode(&PROTO_FETCH_RESPONSE, version, &f, &out), OK);
        assert_int_equal(out.len, size);
        assert_int_equal(chains[0].len, 0);
        assert_int_equal(chain_read(&out, &bytes), OK);
        assert_int_equal(proto_decode(&PROTO_FETCH_RESPONSE, version, buf_bytes(&bytes), &arena, &back, &used), OK);
        assert_int_equal(used, size);
        assert_int_equal(back.responses[0].partitions_n, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(back.responses[0].partitions[i].records.len, 5);
            assert_memory_equal(back.responses[0].partitions[i].records.p, "batch", 5);
        }
        while (out.len > 0) /* byte by byte, as a slow peer would: each piece lives until it is gone */
            chain_consume(&out, 1);
        assert_int_equal(released, 3);
        chain_fini(&out);
        buf_fini(&bytes);
    }
    arena_fini(&arena);
}

static void chains_stay_on_error(void **state)
{
    (void)state;
    struct arena arena;
    struct chain chains[2], out;
    struct fetch_response f;
    arena_init(&arena, 1024 * 1024);
    chain_init(&out);
    fetch_with_chains(&f, &arena, chains, 2);
    f.responses[0].partitions[1].preferred_read_replica = 1; /* version 11 */
    assert_int_equal(proto_encode(&PROTO_FETCH_RESPONSE, 10, &f, &out), ERR_UNSUPPORTED);
    assert_int_equal(out.len, 0);
    assert_int_equal(chains[0].len, 5);
    chain_fini(&chains[0]);
    chain_fini(&chains[1]);
    arena_fini(&arena);
}

/* ---- frames ---- */

static void request_frames(void **state)
{
    (void)state;
    struct chain c;
    struct delete_topics_request r;
    chain_init(&c);
    proto_init(&PROTO_DELETE_TOPICS_REQUEST, &r);
    const struct proto_api *api = proto_api(API_DELETE_TOPICS);
    assert_int_equal(proto_encode_request(api, 1, 9, STR("me"), &r, &c), OK);
    EXPECT(&c, 0, 0, 0, 20, 0, 20, 0, 1, 0, 0, 0, 9, 0, 2, 'm', 'e', 0, 0, 0, 0, 0, 0, 0, 0);
    assert_int_equal(proto_encode_request(api, 4, 9, STR_NULL, &r, &c), OK);
    EXPECT(&c, 0, 0, 0, 17, 0, 20, 0, 4, 0, 0, 0, 9, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0);
    assert_int_equal(proto_encode_request(api, 7, 9, STR_NULL, &r, &c), ERR_UNSUPPORTED);
    assert_int_equal(c.len, 0);
}

static void response_frames(void **state)
{
    (void)state;
    struct chain c;
    struct delete_topics_response r;
    struct api_versions_response v;
    chain_init(&c);
    proto_init(&PROTO_DELETE_TOPICS_RESPONSE, &r);
    proto_init(&PROTO_API_VERSIONS_RESPONSE, &v);
    assert_int_equal(proto_encode_response(proto_api(API_DELETE_TOPICS), 4, 5, &r, &c), OK);
    EXPECT(&c, 0, 0, 0, 11, 0, 0, 0, 5, 0, 0, 0, 0, 0, 1, 0);
    v.error_code = 35;
    assert_int_equal(proto_encode_response(proto_api(API_API_VERSIONS), 0, 5, &v, &c), OK);
    EXPECT(&c, 0, 0, 0, 10, 0, 0, 0, 5, 0, 35, 0, 0, 0, 0);
    assert_int_equal(proto_encode_response(proto_api(API_API_VERSIONS), 3, 5, &v, &c), OK); /* header 0 all the same */
    EXPECT(&c, 0, 0, 0, 12, 0, 0, 0, 5, 0, 35, 1, 0, 0, 0, 0, 0);
}

static void empty_request(void **state)
{
    (void)state;
    struct chain c;
    struct api_versions_request r;
    chain_init(&c);
    proto_init(&PROTO_API_VERSIONS_REQUEST, &r);
    assert_int_equal(proto_encode(&PROTO_API_VERSIONS_REQUEST, 0, &r, &c), OK);
    assert_int_equal(c.len, 0);
}

/* ---- JSON ---- */

static void json(void **state)
{
    (void)state;
    struct buf out = {0};
    struct delete_topics_response_responses responses[1];
    struct delete_topics_response r;
    proto_init(&PROTO_DELETE_TOPICS_RESPONSE, &r);
    r.responses = responses;
    r.responses_n = 1;
    responses[0] = (struct delete_topics_response_responses){.name = STR("a\"\\\n\xc3\xa4\xc3(\xed\xa0\x80"), .error_code = -1};
    proto_print_json(&PROTO_DELETE_TOPICS_RESPONSE, 5, &r, &out);
    assert_string_equal(
        buf_cstr(&out),
        "{\"throttleTimeMs\":0,\"responses\":[{\"name\":\"a\\\"\\\\\\u000a\xc3\xa4\\ufffd(\\ufffd\\ufffd\\ufffd\","
        "\"errorCode\":-1,\"errorMessage\":null}]}");
    buf_clear(&out);
    proto_print_json(&PROTO_DELETE_TOPICS_RESPONSE, 6, &r, &out);
    assert_non_null(strstr(buf_cstr(&out), "\"topicId\":\"AAAAAAAAAAAAAAAAAAAAAA\""));
    buf_fini(&out);
}

static void control_records(void **state)
{
    (void)state;
    struct buf out = {0};
    const uint8_t marker[] = {0, 0, 0, 0, 0, 7}, barrier[] = {0, 0, 2, 's', 1, 0, 2, 2, 'w'}, odd[] = {0, 9, 0, 0, 0, 0};
    assert_int_equal(proto_print_control(1, (struct bytes){marker, 6}, &out), OK);
    assert_string_equal(buf_cstr(&out), "{\"coordinatorEpoch\":7}");
    buf_clear(&out);
    assert_int_equal(proto_print_control(7, (struct bytes){barrier, 9}, &out), OK);
    assert_string_equal(buf_cstr(&out), "{\"version\":0,\"sourceClusterId\":\"s\",\"writerClusterId\":\"w\",\"scope\":0}");
    buf_clear(&out);
    assert_int_equal(proto_print_control(8, (struct bytes){marker, 6}, &out), ERR_NOT_FOUND);
    assert_int_equal(proto_print_control(-1, (struct bytes){marker, 6}, &out), ERR_NOT_FOUND);
    assert_int_equal(proto_print_control(0, (struct bytes){odd, 6}, &out), ERR_UNSUPPORTED);
    assert_int_equal(proto_print_control(0, (struct bytes){marker, 5}, &out), ERR_TRUNCATED);
    assert_int_equal(proto_print_control(0, (struct bytes){NULL, 0}, &out), ERR_TRUNCATED);
    assert_int_equal(out.len, 0);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_flexible),  cmocka_unit_test(versions_that_cannot_express_a_value),
        cmocka_unit_test(what_is_never_valid), cmocka_unit_test(tags_come_in_order_and_only_when_needed),
        cmocka_unit_test(chains_are_moved),    cmocka_unit_test(chains_stay_on_error),
        cmocka_unit_test(request_frames),      cmocka_unit_test(response_frames),
        cmocka_unit_test(empty_request),       cmocka_unit_test(json),
        cmocka_unit_test(control_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
