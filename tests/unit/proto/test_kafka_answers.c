/* What a real Kafka answered is understood to the last byte, and encoded again gives the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "kafka_answers.h"
#include "proto/messages.h"

static uint8_t nibble(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static struct bytes from_hex(const char *hex, struct arena *arena)
{
    size_t len = strlen(hex) / 2;
    uint8_t *p = arena_alloc(arena, len);
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    return (struct bytes){p, (int64_t)len};
}

static void check(const struct kafka_answer *answer)
{
    struct arena arena;
    struct chain chain;
    struct buf again = {0};
    struct response_header header;
    size_t used;
    arena_init(&arena, 1024 * 1024);
    chain_init(&chain);
    const struct proto_api *api = proto_api(answer->key);
    struct bytes frame = from_hex(answer->hex, &arena);
    void *body = arena_alloc(&arena, proto_struct_size(api->response));
    int16_t header_version = proto_response_header_version(api, answer->version);
    if (proto_decode(&PROTO_RESPONSE_HEADER, header_version, frame, &arena, &header, &used) != OK ||
        proto_decode_response(api, answer->version, header.correlation_id, frame, &arena, body) != OK ||
        proto_encode_response(api, answer->version, header.correlation_id, body, &chain) != OK)
        fail_msg("%s %d does not decode and encode", api->name, answer->version);
    assert_int_equal(chain_read(&chain, &again), OK);
    if (again.len != (size_t)frame.len + 4 || memcmp(again.data + 4, frame.p, (size_t)frame.len) != 0)
        fail_msg("%s %d comes out differently", api->name, answer->version);
    chain_fini(&chain);
    buf_fini(&again);
    arena_fini(&arena);
}

static void every_answer_comes_out_as_it_came_in(void **state)
{
    (void)state;
    for (size_t i = 0; i < kafka_answers_n; i++)
        check(&kafka_answers[i]);
}

static void every_offered_version_is_there(void **state)
{
    (void)state;
    size_t at = 0;
    const struct proto_api *api;
    for (size_t i = 0; (api = proto_api_at(i)) != NULL && api->key < API_CREATE_CLUSTER_MIRROR; i++) {
        for (int16_t version = api->valid_min; version <= api->valid_max; version++) {
            if (!proto_api_served(api, version))
                continue;
            while (at < kafka_answers_n && kafka_answers[at].key < api->key)
                at++;
            while (at < kafka_answers_n && kafka_answers[at].key == api->key && kafka_answers[at].version < version)
                at++;
            if (at == kafka_answers_n || kafka_answers[at].key != api->key || kafka_answers[at].version != version)
                fail_msg("no answer of %s %d", api->name, version);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_comes_out_as_it_came_in),
        cmocka_unit_test(every_offered_version_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
