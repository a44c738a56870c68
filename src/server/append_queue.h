/* What the requests of one round of a loop append. Requests that came together, over one connection or several, are appended together: one lock and one write a
 * partition instead of one a request. Before a request that is none of Produce is handled the queue is emptied, so that the order of what a connection asks
 * for is the order in which it happens.
 *
 * One a loop; all calls on it. */
#ifndef KAGAMI_SERVER_APPEND_QUEUE_H
#define KAGAMI_SERVER_APPEND_QUEUE_H

#include "os/loop.h"
#include "repl/partition.h"

#define APPEND_QUEUE_MAX 64
#define APPEND_QUEUE_BYTES (1024 * 1024) /* of records, about */

struct queued_append { /* embedded; stays valid until it was appended */
    struct partition *partition;
    struct partition_append append; /* the caller's: log.records, acks, waiter */
    bool taken;
    /* append has the outcome; append.log.problem is valid in here only. Must not add to the queue. */
    void (*appended)(struct queued_append *a);
};

struct append_queue {
    struct loop *loop;
    struct loop_task task;
    bool posted, flushing;
    int count;
    size_t bytes;
    struct queued_append *items[APPEND_QUEUE_MAX];
    struct problem problems[APPEND_QUEUE_MAX];
};

void append_queue_init(struct append_queue *q, struct loop *loop);
/* Appended at the end of the round at the latest; at once when the queue is full. */
void append_queue_add(struct append_queue *q, struct queued_append *a);
void append_queue_flush(struct append_queue *q);

#endif
