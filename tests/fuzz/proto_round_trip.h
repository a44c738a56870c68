/* The oracle of the wire fuzz targets: what decodes can be encoded in the same version, and comes back as the same message and the same bytes. */
#ifndef KAGAMI_TESTS_PROTO_ROUND_TRIP_H
#define KAGAMI_TESTS_PROTO_ROUND_TRIP_H

#include "base/assert.h"
#include "base/limits.h"
#include "proto/messages.h"
#include "proto/messages_list.h"

union any_message {
#define X(name, message) struct name name;
    PROTO_MESSAGES(X)
#undef X
};

static void encode_again(const struct proto_message *m, int16_t version, const void *in, struct buf *out)
{
    struct chain chain;
    size_t size = 0;
    chain_init(&chain);
    ASSERT(proto_encode(m, version, in, &chain) == OK);
    ASSERT(proto_size(m, version, in, &size) == OK && size == chain.len);
    ASSERT(chain_read(&chain, out) == OK);
    chain_fini(&chain);
}

static void round_trip(const struct proto_message *m, int16_t version, const uint8_t *data, size_t size)
{
    struct arena arena;
    union any_message first, second;
    size_t used = 0;
    arena_init(&arena, LIMIT_DECODE_ARENA_BYTES);
    if (proto_decode(m, version, (struct bytes){data, (int64_t)size}, &arena, &first, &used) == OK) {
        struct buf bytes = {0}, again = {0}, json = {0}, json_again = {0};
        ASSERT(used <= size);
        encode_again(m, version, &first, &bytes);
        ASSERT(proto_decode(m, version, buf_bytes(&bytes), &arena, &second, &used) == OK && used == bytes.len);
        encode_again(m, version, &second, &again);
        proto_print_json(m, version, &first, &json);
        proto_print_json(m, version, &second, &json_again);
        ASSERT(bytes.len == again.len && (bytes.len == 0 || memcmp(bytes.data, again.data, bytes.len) == 0));
        ASSERT(str_eq(buf_str(&json), buf_str(&json_again)));
        buf_fini(&bytes);
        buf_fini(&again);
        buf_fini(&json);
        buf_fini(&json_again);
    }
    arena_fini(&arena);
}

/* The first two bytes choose API and version, both folded into what there is. */
static const struct proto_api *choose(const uint8_t *data, int16_t *ret_version)
{
    size_t n = 0;
    while (proto_api_at(n) != NULL)
        n++;
    const struct proto_api *api = proto_api_at(data[0] % n);
    *ret_version = (int16_t)(api->valid_min + data[1] % (api->valid_max - api->valid_min + 1));
    return api;
}

#endif
