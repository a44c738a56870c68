/* Requests of every API and version, and the request header: what a stranger may send to the broker. Input: API, version, body. */
#include "proto_round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int16_t version;
    struct request_header header;
    const struct proto_api *api;
    size_t used = 0;
    if (size < 2)
        return 0;
    if (proto_decode_request_header((struct bytes){data, (int64_t)size}, &header, &api, &used) == OK)
        ASSERT(used >= 10 && used <= size && api->key == header.request_api_key);
    api = choose(data, &version);
    round_trip(api->request, version, data + 2, size - 2);
    return 0;
}
