/* Responses of every API and version, and the values of control records: what a source may send to the mirror. Input: API, version, body. */
#include "proto_round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int16_t version;
    struct buf out = {0};
    if (size < 2)
        return 0;
    if (proto_print_control((int16_t)(data[0] % 9), (struct bytes){data + 1, (int64_t)size - 1}, &out) != OK)
        ASSERT(out.len == 0);
    buf_fini(&out);
    const struct proto_api *api = choose(data, &version);
    round_trip(api->response, version, data + 2, size - 2);
    return 0;
}
