/* What stands before the bodies, from outside: the request header, whose version depends on what it says itself, and responses. */
#include "base/arena.h"
#include "base/bytes.h"
#include "proto/messages.h"

/* API key, version, correlation id: at the same place in every version. */
#define FIXED_HEADER_BYTES 8

enum error proto_decode_request_header(struct bytes in, struct request_header *ret_header, const struct proto_api **ret_api,
                                       size_t *ret_used)
{
    if (in.p == NULL || in.len < FIXED_HEADER_BYTES)
        return ERR_TRUNCATED;
    int16_t version = get_i16(in.p + 2);
    const struct proto_api *api = proto_api(get_i16(in.p));
    if (api == NULL || !proto_api_valid(api, version)) {
        proto_init(&PROTO_REQUEST_HEADER, ret_header);
        ret_header->request_api_key = get_i16(in.p);
        ret_header->request_api_version = version;
        ret_header->correlation_id = get_i32(in.p + 4);
        *ret_api = api;
        return ERR_UNSUPPORTED;
    }
    struct request_header header;
    struct arena none; /* a header has no arrays */
    arena_init(&none, 0);
    size_t used;
    enum error error = proto_decode(&PROTO_REQUEST_HEADER, proto_request_header_version(api, version), in, &none, &header, &used);
    arena_fini(&none);
    if (error != OK)
        return error;
    *ret_header = header;
    *ret_api = api;
    *ret_used = used;
    return OK;
}

enum error proto_decode_response(const struct proto_api *api, int16_t version, int32_t correlation_id, struct bytes in,
                                 struct arena *arena, void *out)
{
    struct response_header header;
    size_t used;
    if (!proto_api_valid(api, version))
        return ERR_UNSUPPORTED;
    enum error error =
        proto_decode(&PROTO_RESPONSE_HEADER, proto_response_header_version(api, version), in, arena, &header, &used);
    if (error != OK)
        return error;
    if (header.correlation_id != correlation_id)
        return ERR_MALFORMED;
    return proto_decode(api->response, version, (struct bytes){in.p + used, in.len - (int64_t)used}, arena, out, NULL);
}
