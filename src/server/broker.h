/* The whole broker: starts and stops all parts in their order. For main_kagamid.c and for tests that run brokers in one process. */
#ifndef KAGAMI_SERVER_BROKER_H
#define KAGAMI_SERVER_BROKER_H

#include "base/clock.h"
#include "base/error.h"
#include "base/properties.h"
#include "os/file.h"
#include "os/random.h"

struct broker;

struct broker_params {
    struct fs *fs;
    const struct clock *clock;
    struct random_source *random;
    const struct properties
        *properties; /* server.properties and --set; checked here. log.dirs is the data folder. Outlives the broker */
};

/* Opens or makes the data folder and serves when it returns. Blocks; a log that an unclean end left is recovered first. Every problem names what it is about and
 * what to do. */
MUST_CHECK enum error broker_start(const struct broker_params *params, struct broker **ret_broker, struct problem *problem);
/* "HOST:PORT" as clients are told, and the cluster's id. */
const char *broker_address(const struct broker *b);
const char *broker_cluster_id(const struct broker *b);
/* Takes no more requests, ends those that wait, closes the logs cleanly. NULL is OK. */
void broker_stop(struct broker *b);

#endif
