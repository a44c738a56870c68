#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "client/client_internal.h"

struct client_response *client_response_new(int16_t api_key, int16_t version)
{
    struct client_response *r = mem_calloc(1, sizeof(*r));
    r->api_key = api_key;
    r->version = version;
    arena_init(&r->arena, LIMIT_DECODE_ARENA_BYTES);
    return r;
}

struct client_response *client_response_keep(struct client_response *response)
{
    response->kept = true;
    return response;
}

void client_response_free(struct client_response *response)
{
    if (response == NULL)
        return;
    arena_fini(&response->arena);
    mem_free(response->frame);
    mem_free(response);
}

void client_fail(client_done *done, void *arg, int16_t api_key, int16_t version, const struct problem *problem)
{
    struct client_response *r = client_response_new(api_key, version);
    r->error = problem->code;
    r->problem = *problem;
    done(arg, r);
    if (!r->kept)
        client_response_free(r);
}
