/* The broker process as its handlers see it: one struct server with all parts, made by server.c, handed to every request. Fields
 * are set before the first request and stay until the last one ended; each part has its own rules for threads. */
#ifndef KAGAMI_SERVER_SERVER_H
#define KAGAMI_SERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/uuid.h"
#include "os/file.h"
#include "os/helpers.h"
#include "os/loop.h"
#include "os/random.h"
#include "os/socket.h"

struct controller;     /* meta: what changes metadata */
struct image_cell;     /* meta: what is known */
struct partitions;     /* repl */
struct fetch_sessions; /* repl */
struct log_manager;    /* storage */
struct mirrors;        /* mirror */

struct server {
    struct fs *fs;
    const struct clock *clock;
    struct random_source *random;
    struct loop_group *loops;
    struct worker *workers;  /* one a loop, in their order */
    struct helpers *helpers; /* flushes, blocking handlers */
    struct helpers *readers; /* cold reads: they wait behind each other, and no flush behind them */
    struct log_manager *logs;
    struct controller *controller;
    struct image_cell *images; /* image_cell_get: a reference to the current image */
    struct partitions *partitions;
    struct fetch_sessions *sessions;
    struct mirrors *mirrors;
    struct host_port advertised; /* what clients are told */
    int32_t node_id;
    char cluster_id[64];
    size_t fetch_max_bytes; /* fetch.max.bytes */
    _Atomic int64_t requests_in_flight;
    _Atomic int64_t full_disk_logged_ms; /* clock_mono_ms, 0: never. A full disk refuses every write, the log need not say each */
};

#endif
