/* The mirror's own calls: handed to the mirror layer, which answers on this loop. */
#include "mirror/mirrors.h"
#include "proto/messages.h"
#include "server/handlers.h"
#include "server/server.h"

/* How long create and start wait for a source: below the 30 s after which clients give up. */
#define SOURCE_TIMEOUT_MS 10000

struct pending {
    struct mirror_call call;
    struct request *request;
};

static void done(struct mirror_call *call)
{
    struct pending *p = (struct pending *)call;
    request_respond(p->request, call->response);
}

void handle_mirror(struct request *r)
{
    struct pending *p = request_alloc(r, sizeof(*p));
    p->request = r;
    p->call.api_key = r->api_key;
    p->call.request = r->body;
    p->call.response = request_alloc(r, proto_struct_size(r->api->response));
    p->call.arena = &r->arena;
    p->call.loop = r->loop;
    p->call.done = done;
    p->call.timeout_ms = SOURCE_TIMEOUT_MS;
    proto_init(r->api->response, p->call.response);
    mirrors_call(r->server->mirrors, &p->call);
}
