/* InitProducerId without a transactional id: a new producer id, epoch 0. Producer id, epoch and timeout in the request mean nothing then, and Kafka ignores them
 * (one client sends 0 and 0: believing it would give all its producers one id; facts/clients).
 *
 * With a transactional id: this version has no transaction coordinator. UNSUPPORTED_VERSION is final in every client; COORDINATOR_NOT_AVAILABLE would be tried
 * again until the application's time is over. (Most clients don't get here: they need FindCoordinator first, which is not offered.) */
#include "base/logger.h"
#include "meta/controller.h"
#include "server/handlers.h"
#include "server/server.h"

static void allot(struct request *r)
{
    struct init_producer_id_response *response = r->state;
    struct problem problem = {0};
    char line[1000];
    enum error error = controller_allot_producer_id(r->server->controller, &response->producer_id, &problem);
    response->error_code = error_wire(error);
    if (error != OK)
        log_error("server", "no producer id could be allotted: %s", problem_line(&problem, line, sizeof(line)));
}

static void respond(struct request *r)
{
    request_respond(r, r->state);
}

void handle_init_producer_id(struct request *r)
{
    const struct init_producer_id_request *request = r->body;
    struct init_producer_id_response *response = request_alloc(r, sizeof(*response));
    proto_init(&PROTO_INIT_PRODUCER_ID_RESPONSE, response);
    r->state = response;
    if (request->transactional_id.p != NULL) {
        response->error_code = request->transactional_id.len == 0 ? INVALID_REQUEST : UNSUPPORTED_VERSION;
        response->producer_epoch = -1;
        respond(r);
        return;
    }
    if (controller_next_producer_id(r->server->controller, &response->producer_id))
        respond(r);
    else
        request_run(r, allot, respond);
}
