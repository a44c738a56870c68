/* The decoder on bytes written by hand: types, nulls, tags, counts, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "proto/messages.h"

#define BYTES(...) ((struct bytes){(const uint8_t[]){__VA_ARGS__}, (int64_t)sizeof((const uint8_t[]){__VA_ARGS__})})

struct fixture {
    struct arena arena;
};

static int setup(void **state)
{
    struct fixture *f = mem_calloc(1, sizeof(*f));
    arena_init(&f->arena, 1024 * 1024);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    arena_fini(&f->arena);
    mem_free(f);
    return 0;
}

static enum error decode(void **state, const struct proto_message *m, int16_t version, struct bytes in, void *out)
{
    struct fixture *f = *state;
    size_t used = 0;
    enum error error = proto_decode(m, version, in, &f->arena, out, &used);
    if (error == OK)
        assert_int_equal(used, in.len);
    return error;
}

/* ---- types ---- */

static void plain_types(void **state)
{
    struct list_offsets_request r;
    const struct bytes in = BYTES(0xff, 0xff, 0xff, 0xfe,     /* replica id -2 */
                                  1,                          /* isolation level */
                                  0, 0, 0, 1, 0, 2, 'a', 'b', /* one topic */
                                  0, 0, 0, 1, 0, 0, 0, 7,     /* one partition */
                                  0x7f, 0xff, 0xff, 0xff,     /* leader epoch */
                                  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd /* timestamp -3 */);
    assert_int_equal(decode(state, &PROTO_LIST_OFFSETS_REQUEST, 4, in, &r), OK);
    assert_int_equal(r.replica_id, -2);
    assert_int_equal(r.isolation_level, 1);
    assert_int_equal(r.topics_n, 1);
    assert_true(str_is(r.topics[0].name, "ab"));
    assert_ptr_equal(r.topics[0].name.p, in.p + 11); /* a view */
    assert_int_equal(r.topics[0].partitions_n, 1);
    assert_int_equal(r.topics[0].partitions[0].partition_index, 7);
    assert_int_equal(r.topics[0].partitions[0].current_leader_epoch, INT32_MAX);
    assert_int_equal(r.topics[0].partitions[0].timestamp, -3);
    assert_int_equal(r.timeout_ms, 0);
}

static void fields_of_other_versions_have_their_default(void **state)
{
    struct fetch_request r;
    const struct bytes in = BYTES(0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, /* up to isolation level */
                                  0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1,                             /* a topic, a partition */
                                  0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 4, 0);
    assert_int_equal(decode(state, &PROTO_FETCH_REQUEST, 4, in, &r), OK);
    assert_int_equal(r.session_epoch, -1);
    assert_true(r.rack_id.p != NULL && r.rack_id.len == 0);
    assert_null(r.cluster_id.p);
    assert_int_equal(r.replica_state.replica_epoch, -1);
    const struct fetch_request_topics_partitions *p = &r.topics[0].partitions[0];
    assert_int_equal(p->fetch_offset, 9);
    assert_int_equal(p->partition_max_bytes, 1024);
    assert_int_equal(p->current_leader_epoch, -1);
    assert_int_equal(p->last_fetched_epoch, -1);
    assert_int_equal(p->high_watermark, INT64_MAX);
    assert_true(uuid_is_zero(&r.topics[0].topic_id));
}

static void booleans_are_true_when_not_zero(void **state)
{
    struct metadata_request r;
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 4, BYTES(0, 0, 0, 0, 7), &r), OK);
    assert_true(r.allow_auto_topic_creation);
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 4, BYTES(0, 0, 0, 0, 0), &r), OK);
    assert_false(r.allow_auto_topic_creation);
}

/* ---- nulls ---- */

static void null_arrays(void **state)
{
    struct metadata_request r;
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 1, BYTES(0xff, 0xff, 0xff, 0xff), &r), OK);
    assert_int_equal(r.topics_n, -1);
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 1, BYTES(0, 0, 0, 0), &r), OK);
    assert_int_equal(r.topics_n, 0);
    /* version 0 has no null */
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 0, BYTES(0xff, 0xff, 0xff, 0xff), &r), ERR_MALFORMED);
    /* compact: 0 = null */
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 9, BYTES(0, 1, 0, 0, 0), &r), OK);
    assert_int_equal(r.topics_n, -1);
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 9, BYTES(1, 1, 0, 0, 0), &r), OK);
    assert_int_equal(r.topics_n, 0);
}

static void null_strings(void **state)
{
    struct init_producer_id_request r;
    assert_int_equal(decode(state, &PROTO_INIT_PRODUCER_ID_REQUEST, 0, BYTES(0xff, 0xff, 0, 0, 0, 1), &r), OK);
    assert_null(r.transactional_id.p);
    assert_int_equal(decode(state, &PROTO_INIT_PRODUCER_ID_REQUEST, 0, BYTES(0, 0, 0, 0, 0, 1), &r), OK);
    assert_non_null(r.transactional_id.p);
    assert_int_equal(r.transactional_id.len, 0);
    struct find_coordinator_request f;
    assert_int_equal(decode(state, &PROTO_FIND_COORDINATOR_REQUEST, 0, BYTES(0xff, 0xff), &f), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_FIND_COORDINATOR_REQUEST, 3, BYTES(0, 0, 0), &f), ERR_MALFORMED);
}

static void null_structs(void **state)
{
    struct describe_topic_partitions_request r;
    assert_int_equal(decode(state, &PROTO_DESCRIBE_TOPIC_PARTITIONS_REQUEST, 0, BYTES(1, 0, 0, 0, 5, 0xff, 0), &r), OK);
    assert_null(r.cursor);
    assert_int_equal(
        decode(state, &PROTO_DESCRIBE_TOPIC_PARTITIONS_REQUEST, 0, BYTES(1, 0, 0, 0, 5, 1, 2, 'x', 0, 0, 0, 3, 0, 0), &r), OK);
    assert_true(str_is(r.cursor->topic_name, "x"));
    assert_int_equal(r.cursor->partition_index, 3);
}

static void null_records(void **state)
{
    struct produce_request r;
    const struct bytes head =
        BYTES(0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff);
    assert_int_equal(decode(state, &PROTO_PRODUCE_REQUEST, 3, head, &r), OK);
    assert_null(r.topic_data[0].partition_data[0].records.p);
    assert_null(r.topic_data[0].partition_data[0].records.chain);
}

/* ---- malformed ---- */

static void lengths_below_minus_one(void **state)
{
    struct metadata_request m;
    struct init_producer_id_request i;
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 1, BYTES(0xff, 0xff, 0xff, 0xfe), &m), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 1, BYTES(0x80, 0, 0, 0), &m), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 9, BYTES(0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0), &m),
                     ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_INIT_PRODUCER_ID_REQUEST, 0, BYTES(0xff, 0xfe, 0, 0, 0, 1), &i), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_INIT_PRODUCER_ID_REQUEST, 0, BYTES(0x80, 0, 0, 0, 0, 1), &i), ERR_MALFORMED);
}

static void counts_that_the_rest_cannot_hold(void **state)
{
    struct fixture *f = *state;
    struct metadata_request r;
    size_t before = f->arena.used_bytes;
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 1, BYTES(0x7f, 0xff, 0xff, 0xff, 0, 0), &r), ERR_TRUNCATED);
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 1, BYTES(0, 0, 0, 3, 0, 0, 0, 0, 0), &r),
                     ERR_TRUNCATED); /* 3 need 6 */
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 9, BYTES(0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0), &r), ERR_TRUNCATED);
    assert_int_equal(f->arena.used_bytes, before); /* nothing was taken */
}

static void arena_limit(void **state)
{
    (void)state;
    struct arena small;
    struct metadata_request r;
    uint8_t *in = mem_calloc(1, 4 + 2000);
    put_i32(in, 1000); /* empty names */
    arena_init(&small, 4096);
    assert_int_equal(proto_decode(&PROTO_METADATA_REQUEST, 0, (struct bytes){in, 2004}, &small, &r, NULL), ERR_TOO_LARGE);
    arena_fini(&small);
    mem_free(in);
}

static void long_strings(void **state)
{
    struct find_coordinator_request r;
    uint8_t *in = mem_calloc(1, 40000);
    in[0] = 0x81; /* 32768 + 1 */
    in[1] = 0x80;
    in[2] = 0x02;
    assert_int_equal(decode(state, &PROTO_FIND_COORDINATOR_REQUEST, 3, (struct bytes){in, 40000}, &r), ERR_MALFORMED);
    in[0] = 0x80; /* 32767 + 1, then key type and tags */
    assert_int_equal(decode(state, &PROTO_FIND_COORDINATOR_REQUEST, 3, (struct bytes){in, 3 + 32767 + 2}, &r), OK);
    assert_int_equal(r.key.len, 32767);
    mem_free(in);
}

static void varints_that_do_not_end(void **state)
{
    struct metadata_request r;
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 9, BYTES(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0), &r), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_METADATA_REQUEST, 9, BYTES(0x80, 0x80), &r), ERR_TRUNCATED);
}

/* ---- tags ---- */

/* Name and version empty, cluster id null, node id -1, then tags. */
#define API_VERSIONS_5 1, 1, 0, 0xff, 0xff, 0xff, 0xff

static void unknown_tags_are_skipped(void **state)
{
    struct api_versions_request r;
    assert_int_equal(decode(state, &PROTO_API_VERSIONS_REQUEST, 5, BYTES(API_VERSIONS_5, 2, 3, 2, 'h', 'i', 0x80, 1, 0), &r), OK);
    assert_int_equal(r.node_id, -1);
}

static void tags_repeat_or_descend(void **state)
{
    struct api_versions_request r;
    assert_int_equal(decode(state, &PROTO_API_VERSIONS_REQUEST, 5, BYTES(API_VERSIONS_5, 2, 3, 0, 3, 0), &r), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_API_VERSIONS_REQUEST, 5, BYTES(API_VERSIONS_5, 2, 3, 0, 2, 0), &r), ERR_MALFORMED);
}

static void tags_longer_than_the_rest(void **state)
{
    struct api_versions_request r;
    assert_int_equal(decode(state, &PROTO_API_VERSIONS_REQUEST, 5, BYTES(API_VERSIONS_5, 1, 3, 2, 'h'), &r), ERR_TRUNCATED);
    assert_int_equal(
        decode(state, &PROTO_API_VERSIONS_REQUEST, 5, BYTES(API_VERSIONS_5, 1, 3, 0xff, 0xff, 0xff, 0xff, 0x0f, 0), &r),
        ERR_TRUNCATED);
    assert_int_equal(decode(state, &PROTO_API_VERSIONS_REQUEST, 5, BYTES(API_VERSIONS_5, 0xff, 0xff, 0xff, 0xff, 0x0f), &r),
                     ERR_TRUNCATED);
}

/* MirrorPidResetRecord: version 0, source cluster "s", then tags. */
#define RESET 0, 0, 2, 's'

static void known_tags(void **state)
{
    struct mirror_pid_reset_record r;
    assert_int_equal(decode(state, &PROTO_MIRROR_PID_RESET_RECORD, 0, BYTES(RESET, 3, 0, 2, 2, 'w', 1, 1, 1, 9, 1, 0), &r), OK);
    assert_true(str_is(r.source_cluster_id, "s"));
    assert_true(str_is(r.writer_cluster_id, "w"));
    assert_int_equal(r.scope, 1);
    assert_int_equal(decode(state, &PROTO_MIRROR_PID_RESET_RECORD, 0, BYTES(RESET, 0), &r), OK);
    assert_int_equal(r.writer_cluster_id.len, 0);
    assert_int_equal(r.scope, 0);
}

static void known_tags_fill_their_size(void **state)
{
    struct mirror_pid_reset_record r;
    assert_int_equal(decode(state, &PROTO_MIRROR_PID_RESET_RECORD, 0, BYTES(RESET, 1, 1, 2, 1, 0), &r), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_MIRROR_PID_RESET_RECORD, 0, BYTES(RESET, 1, 1, 0), &r), ERR_MALFORMED);
    assert_int_equal(decode(state, &PROTO_MIRROR_PID_RESET_RECORD, 0, BYTES(RESET, 1, 0, 1, 9, 'w'), &r), ERR_MALFORMED);
}

static void known_tags_of_another_version(void **state)
{
    struct produce_response r; /* node endpoints: tag 0 from version 10 */
    assert_int_equal(decode(state, &PROTO_PRODUCE_RESPONSE, 10, BYTES(1, 0, 0, 0, 0, 1, 0, 1, 1), &r), OK);
    assert_int_equal(decode(state, &PROTO_PRODUCE_RESPONSE, 9, BYTES(1, 0, 0, 0, 0, 1, 0, 1, 1), &r), ERR_MALFORMED);
}

/* ---- headers ---- */

static void request_headers(void **state)
{
    (void)state;
    struct request_header h;
    const struct proto_api *api = NULL;
    size_t used = 0;
    assert_int_equal(proto_decode_request_header(BYTES(0, 18, 0, 0, 0, 0, 0, 9, 0, 1, 'c', 1, 1), &h, &api, &used), OK);
    assert_int_equal(used, 11);
    assert_int_equal(api->key, API_API_VERSIONS);
    assert_int_equal(h.correlation_id, 9);
    assert_true(str_is(h.client_id, "c"));
    /* flexible: the client id stays plain, tags follow */
    assert_int_equal(proto_decode_request_header(BYTES(0, 18, 0, 3, 0, 0, 0, 9, 0xff, 0xff, 1, 4, 1, 7, 1), &h, &api, &used), OK);
    assert_int_equal(used, 14);
    assert_null(h.client_id.p);
    assert_int_equal(proto_decode_request_header(BYTES(0, 18, 0, 3, 0, 0, 0, 9, 0xff, 0xfe, 0), &h, &api, &used), ERR_MALFORMED);
    assert_int_equal(proto_decode_request_header(BYTES(0, 18, 0, 3, 0, 0, 0), &h, &api, &used), ERR_TRUNCATED);
    assert_int_equal(proto_decode_request_header(BYTES(0, 18, 0, 3, 0, 0, 0, 9, 0, 9), &h, &api, &used), ERR_TRUNCATED);
}

static void request_headers_that_nobody_knows(void **state)
{
    (void)state;
    struct request_header h;
    const struct proto_api *api = NULL;
    size_t used = 77;
    assert_int_equal(proto_decode_request_header(BYTES(0, 18, 0, 99, 1, 2, 3, 4), &h, &api, &used), ERR_UNSUPPORTED);
    assert_int_equal(api->key, API_API_VERSIONS);
    assert_int_equal(h.request_api_version, 99);
    assert_int_equal(h.correlation_id, 0x01020304);
    assert_int_equal(proto_decode_request_header(BYTES(0x7f, 0xff, 0, 0, 0, 0, 0, 1), &h, &api, &used), ERR_UNSUPPORTED);
    assert_null(api);
    assert_int_equal(h.request_api_key, INT16_MAX);
    assert_int_equal(used, 77);
}

static void responses(void **state)
{
    struct fixture *f = *state;
    struct delete_topics_response r;
    const struct proto_api *api = proto_api(API_DELETE_TOPICS);
    const struct bytes in = BYTES(0, 0, 0, 5, 0, 0, 0, 0, 8, 1, 0);
    assert_int_equal(proto_decode_response(api, 4, 5, in, &f->arena, &r), OK);
    assert_int_equal(r.throttle_time_ms, 8);
    assert_int_equal(proto_decode_response(api, 4, 6, in, &f->arena, &r), ERR_MALFORMED);
    assert_int_equal(proto_decode_response(api, 7, 5, in, &f->arena, &r), ERR_UNSUPPORTED);
    /* ApiVersions: no tags in the header, in any version */
    struct api_versions_response v;
    const struct bytes versions = BYTES(0, 0, 0, 5, 0, 35, 1, 0, 0, 0, 0, 0);
    assert_int_equal(proto_decode_response(proto_api(API_API_VERSIONS), 3, 5, versions, &f->arena, &v), OK);
    assert_int_equal(v.error_code, UNSUPPORTED_VERSION);
    assert_int_equal(v.finalized_features_epoch, -1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(plain_types),
        T(fields_of_other_versions_have_their_default),
        T(booleans_are_true_when_not_zero),
        T(null_arrays),
        T(null_strings),
        T(null_structs),
        T(null_records),
        T(lengths_below_minus_one),
        T(counts_that_the_rest_cannot_hold),
        T(arena_limit),
        T(long_strings),
        T(varints_that_do_not_end),
        T(unknown_tags_are_skipped),
        T(tags_repeat_or_descend),
        T(tags_longer_than_the_rest),
        T(known_tags),
        T(known_tags_fill_their_size),
        T(known_tags_of_another_version),
        T(request_headers),
        T(request_headers_that_nobody_knows),
        T(responses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
