/* What each loop has of the server. */
#ifndef KAGAMI_SERVER_WORKER_H
#define KAGAMI_SERVER_WORKER_H

#include "server/append_queue.h"
#include "server/request.h"

#define WORKER_SPARES 64

struct worker {
    struct append_queue appends;
    struct request *spares[WORKER_SPARES]; /* requests that ended, to be used again; request.c's */
    int spare_count;
};

/* One a loop, in the group's order. Before the first connection; destroy when the loops have stopped. NULL is OK. */
struct worker *workers_create(struct loop_group *loops);
void workers_destroy(struct worker *workers, int count);
struct worker *worker_of(struct server *server, const struct loop *loop);

#endif
