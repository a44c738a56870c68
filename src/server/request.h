/* One request from the wire on its way through a handler, and the contract of handlers.
 *
 * dispatch.c reads the header, checks version and authorisation, decodes the body into the request's arena and calls the handler of server/handlers.h on
 * the connection's loop. A handler answers exactly once, now or later, on that loop: request_respond, request_respond_chain or request_close. After the call
 * the request is gone. A connection's next request is taken when this one is answered, or has given way (request_give_way).
 *
 * A handler that blocks (disk, metadata writes) uses request_run. When the connection ends while a handler waits, `cancelled` is set and the hook of
 * request_on_cancel runs; the handler still has to end the request (the answer is then dropped). */
#ifndef KAGAMI_SERVER_REQUEST_H
#define KAGAMI_SERVER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/chain.h"
#include "base/error.h"
#include "base/str.h"
#include "os/helpers.h"
#include "os/loop.h"
#include "proto/messages.h"
#include "proto/proto.h"

struct server;
struct conn;
struct conn_place;
struct client;
struct worker;

struct request {
    struct server *server; /* server/server.h */
    struct worker *worker; /* server/worker.h: the loop's */
    struct loop *loop;     /* the connection's; all but `work` of request_run happens on it */
    struct arena arena;    /* decoded body, response and whatever the handler needs; freed after the answer */
    const struct proto_api *api;
    int16_t api_key;
    int16_t version; /* offered: checked */
    int32_t correlation_id;
    struct str client_id; /* null when the client gave none */
    const void *body;     /* struct NAME_request, decoded */
    struct str peer;      /* "ip:port" */
    bool cancelled;       /* the connection ended: no need to work on */
    void *state;          /* the handler's own, e.g. in the arena */

    /* request.c's own */
    struct client *client;
    struct conn *conn;
    struct conn_place *place; /* it gave way; NULL: it did not */
    TAILQ_ENTRY(request) link;
    void (*on_cancel)(struct request *r);
    struct helper_job job;
    void (*work)(struct request *r);
    void (*done)(struct request *r);
};

/* `response` is the struct of the API's response; views in it need to live only until the call returns (record chains are spliced). Ends the request. */
void request_respond(struct request *r, const void *response);
/* Closes the connection without an answer (what Kafka does with what it cannot parse: facts 1). Logs the reason at INFO. Ends the request. */
void request_close(struct request *r, const char *reason);
/* Ends a request that gets no answer (Produce with acks 0); the connection goes on. */
void request_no_response(struct request *r);
/* For a request that has done all that the next one on its connection could depend on, and now only waits: the next one is taken meanwhile, answers
 * keep their order. The frame is freed, and with it all strings and bytes of the body that are views into it: copy first what the answer needs. Does nothing
 * (the frame stays) when the request takes much memory or too many of this connection wait already. */
void request_give_way(struct request *r);
/* The same for one that goes on as soon as those are read that came with it: the frame stays, until request_free_frame or the end. False: the request could not
 * give way. */
bool request_give_way_with_frame(struct request *r);
void request_free_frame(struct request *r);
/* Runs work on a helper thread, then done on the loop. The arena belongs to work meanwhile. */
void request_run(struct request *r, void (*work)(struct request *r), void (*done)(struct request *r));
/* hook runs on the loop when the connection ends before the answer; NULL takes it back. The hook may end the request. */
void request_on_cancel(struct request *r, void (*hook)(struct request *r));

/* Arena memory for handlers: never NULL. What an answer takes is bounded by what was asked and by what the broker has; above the arena's limit the heap
 * gives it, and it is freed with the request too. */
void *request_alloc(struct request *r, size_t size);                /* zeroed */
void *request_calloc(struct request *r, size_t count, size_t size); /* zeroed */
/* The problem's line as a string in the arena, for error_message fields. */
struct str request_problem_text(struct request *r, const struct problem *problem);

/* ---- For server.c: callbacks of net's connections (struct conn_events), arg is the struct server ---- */

void request_free(struct request *r); /* worker.c's: one that is not in use */
void request_conn_opened(void *arg, struct conn *conn);
struct request *request_begin(struct server *server, struct conn *conn);
void request_arrived(void *arg, struct conn *conn, uint8_t *frame, size_t len);
void request_conn_closed(void *arg, struct conn *conn, enum error why);

#endif
