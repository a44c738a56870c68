/* Every message in every version with random content: what is encoded comes back, sizes agree, no shorter input is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "proto/messages.h"
#include "proto/messages_list.h"
#include "random_message.h"

#define ROUNDS 20
#define ARENA_BYTES (8 * 1024 * 1024)

static const struct proto_message *const messages[] = {
#define X(name, message) &message,
    PROTO_MESSAGES(X)
#undef X
};

/* A body of any message. */
union any {
#define X(name, message) struct name name;
    PROTO_MESSAGES(X)
#undef X
};

static void encode(const struct proto_message *m, int16_t version, const void *in, struct buf *out)
{
    struct chain chain;
    size_t size;
    chain_init(&chain);
    assert_int_equal(proto_encode(m, version, in, &chain), OK);
    assert_int_equal(proto_size(m, version, in, &size), OK);
    assert_int_equal(size, chain.len);
    assert_int_equal(chain_read(&chain, out), OK);
    chain_fini(&chain);
}

static void one_round(struct random *r, const struct proto_message *m, int16_t version)
{
    union any in, out;
    struct buf bytes = {0}, again = {0}, json_in = {0}, json_out = {0};
    size_t used;
    random_message(r, m, version, &in);
    encode(m, version, &in, &bytes);
    size_t len = bytes.len;
    buf_append(&bytes, "behind", 6); /* is left alone */
    assert_int_equal(proto_decode(m, version, buf_bytes(&bytes), r->arena, &out, &used), OK);
    assert_int_equal(used, len);
    encode(m, version, &out, &again);
    assert_int_equal(again.len, len);
    assert_memory_equal(bytes.data, again.data, len);
    proto_print_json(m, version, &in, &json_in);
    proto_print_json(m, version, &out, &json_out);
    assert_string_equal(buf_cstr(&json_in), buf_cstr(&json_out));
    buf_fini(&bytes);
    buf_fini(&again);
    buf_fini(&json_in);
    buf_fini(&json_out);
}

static void every_version_round_trips(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    struct random r = {0x9e3779b97f4a7c15ULL, &arena};
    for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
        for (int16_t version = messages[i]->valid_min; version <= messages[i]->valid_max; version++) {
            for (int round = 0; round < ROUNDS; round++) {
                one_round(&r, messages[i], version);
                arena_reset(&arena);
            }
        }
    }
    arena_fini(&arena);
}

static void no_prefix_is_taken(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    struct random r = {42, &arena};
    for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
        for (int16_t version = messages[i]->valid_min; version <= messages[i]->valid_max; version++) {
            union any in, out;
            struct buf bytes = {0};
            random_message(&r, messages[i], version, &in);
            encode(messages[i], version, &in, &bytes);
            for (size_t len = 0; len < bytes.len; len++) {
                /* Memory of exactly this size, so that a read behind the end shows. */
                uint8_t *part = mem_alloc(len + (len == 0));
                memcpy(part, bytes.data, len);
                enum error error = proto_decode(messages[i], version, (struct bytes){part, (int64_t)len}, &arena, &out, NULL);
                mem_free(part);
                if (error != ERR_TRUNCATED && error != ERR_MALFORMED)
                    fail_msg("%s %d: %zu of %zu bytes gave %s", proto_name(messages[i]), version, len, bytes.len,
                             error_name(error));
            }
            buf_fini(&bytes);
            arena_reset(&arena);
        }
    }
    arena_fini(&arena);
}

static void versions_outside_are_refused(void **state)
{
    (void)state;
    union any any;
    struct chain chain;
    struct arena arena;
    size_t size;
    uint8_t zeroes[64] = {0};
    chain_init(&chain);
    arena_init(&arena, ARENA_BYTES);
    for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
        const int16_t outside[] = {-1, (int16_t)(messages[i]->valid_min - 1), (int16_t)(messages[i]->valid_max + 1), INT16_MAX};
        proto_init(messages[i], &any);
        for (size_t k = 0; k < ARRAY_SIZE(outside); k++) {
            assert_int_equal(proto_encode(messages[i], outside[k], &any, &chain), ERR_UNSUPPORTED);
            assert_int_equal(proto_size(messages[i], outside[k], &any, &size), ERR_UNSUPPORTED);
            assert_int_equal(proto_decode(messages[i], outside[k], (struct bytes){zeroes, 64}, &arena, &any, NULL),
                             ERR_UNSUPPORTED);
        }
    }
    assert_int_equal(chain.len, 0);
    arena_fini(&arena);
}

static void table_of_apis(void **state)
{
    (void)state;
    int16_t last = -1;
    size_t n = 0;
    for (const struct proto_api *api; (api = proto_api_at(n)) != NULL; n++) {
        assert_true(api->key > last);
        assert_ptr_equal(proto_api(api->key), api);
        assert_int_equal(api->request->valid_max, api->response->valid_max);
        last = api->key;
    }
    assert_int_equal(n, 29);
    assert_null(proto_api(-1));
    assert_null(proto_api(4));
    assert_null(proto_api(INT16_MAX));
    const struct proto_api *produce = proto_api(API_PRODUCE);
    assert_int_equal(produce->offered_min, 0);
    assert_false(proto_api_served(produce, 2));
    assert_true(proto_api_served(produce, 3));
    assert_true(proto_api_served(produce, 13));
    assert_false(proto_api_served(produce, 14));
    assert_true(proto_api_valid(proto_api(API_INIT_PRODUCER_ID), 6));
    assert_false(proto_api_served(proto_api(API_INIT_PRODUCER_ID), 6));
    assert_false(proto_api_served(proto_api(API_FIND_COORDINATOR), 0));
    assert_string_equal(proto_api(API_STOP_MIRROR_TOPICS)->name, "StopMirrorTopics");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_round_trips),
        cmocka_unit_test(no_prefix_is_taken),
        cmocka_unit_test(versions_outside_are_refused),
        cmocka_unit_test(table_of_apis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
