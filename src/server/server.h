/* The broker process as its handlers see it: one struct server with all parts, made by server.c, handed to every request. Fields
 * are set before the first request and stay until the last one ended; each part has its own rules for threads. */
#ifndef KAGAMI_SERVER_SERVER_H
#define KAGAMI_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/uuid.h"
#include "os/file.h"
#include "os/helpers.h"
#include "os/loop.h"
#include "os/random.h"
#include "os/socket.h"

struct meta;           /* meta: store, controller, image */
struct broker_config;  /* meta: settings */
struct partitions;     /* repl */
struct fetch_sessions; /* repl */
struct log_manager;    /* storage */
struct mirrors;        /* mirror */

struct server {
    struct fs *fs;
    const struct clock *clock;
    struct random_source *random;
    struct loop_group *loops;
    struct helpers *helpers; /* flushes, blocking handlers */
    struct log_manager *logs;
    struct partitions *partitions;
    struct fetch_sessions *sessions;
    struct mirrors *mirrors;
    struct host_port advertised; /* what clients are told */
    int32_t node_id;
    char cluster_id[64];
};

#endif
