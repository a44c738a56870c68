/* The API table, header versions, defaults. */
#include "proto/tables.h"

#include <string.h>

#include "proto/messages.h"

const struct proto_api *proto_api(int16_t key)
{
    size_t low = 0, high = proto_apis_n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (proto_apis[mid].key == key)
            return &proto_apis[mid];
        if (proto_apis[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

const struct proto_api *proto_api_at(size_t index)
{
    return index < proto_apis_n ? &proto_apis[index] : NULL;
}

bool proto_api_valid(const struct proto_api *api, int16_t version)
{
    return version >= api->valid_min && version <= api->valid_max;
}

bool proto_api_served(const struct proto_api *api, int16_t version)
{
    return proto_api_valid(api, version) && version >= api->offered_min && version <= api->offered_max;
}

int16_t proto_request_header_version(const struct proto_api *api, int16_t version)
{
    return version >= api->flexible_min ? 2 : 1;
}

int16_t proto_response_header_version(const struct proto_api *api, int16_t version)
{
    /* A client that asks with a version that the broker does not know must be able to read the answer (KIP-511). */
    return version >= api->flexible_min && api->key != API_API_VERSIONS ? 1 : 0;
}

const char *proto_name(const struct proto_message *message)
{
    return message->name;
}

bool proto_valid(const struct proto_message *message, int16_t version)
{
    return version >= message->valid_min && version <= message->valid_max;
}

size_t proto_struct_size(const struct proto_message *message)
{
    return message->body->size;
}

void proto_init(const struct proto_message *message, void *ret_message)
{
    memcpy(ret_message, message->body->defaults, message->body->size);
}

void *proto_new(const struct proto_struct *type, struct arena *arena, int32_t n)
{
    size_t size;
    if (n < 0 || __builtin_mul_overflow((size_t)n, (size_t)type->size, &size))
        return NULL;
    char *elements = arena_alloc(arena, size);
    for (int32_t i = 0; elements != NULL && i < n; i++)
        memcpy(elements + (size_t)i * type->size, type->defaults, type->size);
    return elements;
}
