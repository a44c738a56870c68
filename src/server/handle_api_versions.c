/* ApiVersions (KIP-35, KIP-511, KIP-584, KIP-1242). No features: those that finalise transaction.version make clients leave out AddPartitionsToTxn, and a
 * broker without them is what every client takes for "as it always was". */
#include <ctype.h>

#include "server/handlers.h"
#include "server/server.h"

/* ApiVersionsRequest.isValid: [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? */
static bool software_text_valid(struct str s)
{
    if (s.len == 0 || !isalnum((unsigned char)s.p[0]) || !isalnum((unsigned char)s.p[s.len - 1]))
        return false;
    for (int32_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '-' && s.p[i] != '.')
            return false;
    return true;
}

/* Version 5 says which cluster and node the client believes to talk to: somebody who followed a name to another cluster must begin anew (spec section 14). One
 * of the two alone is a mistake. */
static enum error check_identity(const struct request *r, const struct api_versions_request *request)
{
    if (r->version >= 3 &&
        (!software_text_valid(request->client_software_name) || !software_text_valid(request->client_software_version)))
        return INVALID_REQUEST;
    if ((request->cluster_id.p != NULL) != (request->node_id != -1))
        return INVALID_REQUEST;
    if (request->cluster_id.p != NULL &&
        (!str_is(request->cluster_id, r->server->cluster_id) || request->node_id != r->server->node_id))
        return REBOOTSTRAP_REQUIRED;
    return OK;
}

void handle_api_versions(struct request *r)
{
    struct api_versions_response response;
    proto_init(&PROTO_API_VERSIONS_RESPONSE, &response);
    response.error_code = (int16_t)check_identity(r, r->body);
    if (response.error_code == OK) {
        size_t count = 0;
        while (proto_api_at(count) != NULL)
            count++;
        response.api_keys = api_versions_response_api_keys_new(&r->arena, (int32_t)count);
        for (size_t i = 0; i < count; i++) {
            const struct proto_api *api = proto_api_at(i);
            if (handler_find(api->key) == NULL || api->offered_min > api->offered_max)
                continue;
            struct api_versions_response_api_keys *key = &response.api_keys[response.api_keys_n++];
            key->api_key = api->key;
            key->min_version = api->offered_min;
            key->max_version = api->offered_max;
        }
    }
    request_respond(r, &response);
}
