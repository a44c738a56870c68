/* From a frame to its handler. What cannot be parsed, unknown keys and versions that are not offered close the connection, as in Kafka (facts 1); only
 * ApiVersions answers a version that it doesn't know, in version 0 with UNSUPPORTED_VERSION, so that a newer client learns what to use. */
#include "base/limits.h"
#include "base/stats.h"
#include "net/conn.h"
#include "server/handlers.h"
#include "server/server.h"
#include "server/worker.h"

static const struct {
    int16_t api_key;
    request_handler *handler;
} TABLE[] = {
#define X(key, function) {key, function},
    HANDLERS(X)
#undef X
};

request_handler *handler_find(int16_t api_key)
{
    for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++)
        if (TABLE[i].api_key == api_key)
            return TABLE[i].handler;
    return NULL;
}

/* Body in version 0: this API alone, with the range that may be asked. */
static void answer_unsupported_api_versions(struct request *r)
{
    struct api_versions_response response;
    proto_init(&PROTO_API_VERSIONS_RESPONSE, &response);
    struct api_versions_response_api_keys *key = api_versions_response_api_keys_new(&r->arena, 1);
    key->api_key = r->api_key;
    key->min_version = r->api->offered_min;
    key->max_version = r->api->offered_max;
    response.error_code = UNSUPPORTED_VERSION;
    response.api_keys = key;
    response.api_keys_n = 1;
    r->version = 0;
    request_respond(r, &response);
}

/* NULL, or why the connection is closed. */
static const char *decode(struct request *r, struct bytes frame, struct request_header *header, bool *ret_answered)
{
    const struct proto_api *api = NULL;
    size_t used;
    enum error error = proto_decode_request_header(frame, header, &api, &used);
    r->api = api;
    if (error != OK && error != ERR_UNSUPPORTED)
        return "the request header cannot be read";
    r->api_key = header->request_api_key;
    r->version = header->request_api_version;
    r->correlation_id = header->correlation_id;
    r->client_id = error == OK ? header->client_id : STR_NULL;
    request_handler *handler = api != NULL ? handler_find(api->key) : NULL;
    if (handler == NULL)
        return "unknown API key";
    if (error == ERR_UNSUPPORTED || !proto_api_served(api, r->version)) {
        if (api->key != API_API_VERSIONS)
            return "the version is not supported";
        answer_unsupported_api_versions(r);
        *ret_answered = true;
        return NULL;
    }
    void *body = arena_alloc(&r->arena, proto_struct_size(api->request));
    struct bytes rest = {frame.p + used, frame.len - (int64_t)used};
    /* Bytes behind the body are ignored, as in Kafka (facts 3). */
    if (body == NULL || proto_decode(api->request, r->version, rest, &r->arena, body, NULL) != OK)
        return "the request cannot be parsed";
    r->body = body;
    r->arena.limit_bytes = SIZE_MAX; /* the answer's size follows from the broker's own state */
    return NULL;
}

void request_arrived(void *arg, struct conn *conn, uint8_t *frame, size_t len)
{
    struct request *r = request_begin(arg, conn);
    STAT_ADD(requests, 1);
    struct request_header header;
    bool answered = false;
    const char *refusal = decode(r, (struct bytes){frame, (int64_t)len}, &header, &answered);
    if (refusal != NULL)
        request_close(r, refusal);
    else if (!answered) {
        if (r->api_key != API_PRODUCE)
            append_queue_flush(&r->worker->appends); /* what came before it has happened */
        handler_find(r->api_key)(r);
    }
}
