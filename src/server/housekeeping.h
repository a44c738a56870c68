/* Chores on a clock: checkpoints, retention, removal of deleted files. Each runs on a helper, one at a time, timed by the first loop. */
#ifndef KAGAMI_SERVER_HOUSEKEEPING_H
#define KAGAMI_SERVER_HOUSEKEEPING_H

#include <stdint.h>

#include "server/server.h"

struct housekeeping;

struct housekeeping_times {
    int64_t checkpoint_ms; /* recovery points, log starts, high watermarks */
    int64_t retention_ms;
    int64_t removal_ms;
};

struct housekeeping *housekeeping_start(struct server *server, const struct housekeeping_times *times);
/* Waits for what runs. Not from a loop's or helper's thread; NULL is OK. */
void housekeeping_stop(struct housekeeping *h);

#endif
