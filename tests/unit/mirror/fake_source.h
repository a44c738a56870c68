/* A broker of another cluster, as a fetcher sees it: one thread, real sockets, a few topics in memory, and answers that a test
 * can bend. */
#ifndef KAGAMI_TESTS_FAKE_SOURCE_H
#define KAGAMI_TESTS_FAKE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/uuid.h"
#include "os/mutex.h"
#include "os/thread.h"

#define FAKE_TOPICS 4
#define FAKE_PARTITIONS 8

struct fake_batch {
    int64_t producer_id; /* -1: none */
    int16_t producer_epoch;
    int32_t base_sequence;
    bool transactional;
    bool end_txn, commit; /* a marker */
    int records;
    int32_t leader_epoch;
};

struct fake_partition {
    struct buf log; /* whole batches */
    int64_t log_start, end;
    int32_t leader_epoch;
    int16_t fetch_error; /* answered in place of data */
};

/* What a fetch session (KIP-227) remembers of a partition. */
struct fake_watched {
    bool in;
    int64_t fetch_offset, told_end, told_start;
    int32_t current_epoch, last_fetched_epoch;
};

struct fake_topic {
    char name[64];
    struct uuid id;
    int partitions_n;
    bool deleted;
    struct fake_partition partitions[FAKE_PARTITIONS];
    struct fake_watched watched[FAKE_PARTITIONS];
};

struct fake_source {
    struct mutex mutex; /* over all below */
    struct fake_topic topics[FAKE_TOPICS];
    int topics_n;
    char cluster_id[32];
    int16_t fetch_max; /* highest version of Fetch that it offers */
    int fetches;
    int full_fetches, named; /* of these that began anew; partitions that were named in all of them */
    int32_t wait_ms;         /* how long the last one may wait */
    int short_waits;         /* fetches that may not wait for 100 ms */
    /* One session at a time, of whoever began one last. */
    bool no_sessions, forget_session; /* the next incremental fetch finds none */
    int32_t session_id, session_epoch;
    /* Changes an honest answer before it is sent; under the mutex. NULL: all are honest. Returns false to send no answer and end the connection. */
    bool (*bend)(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena);
    void *bend_arg;
    int32_t bent_leader_id;
    int listen_fd, port;
    int fds[32];
    int wake[2];
    bool ending;
    struct thread thread;
};

void fake_source_start(struct fake_source *s, const char *cluster_id);
void fake_source_stop(struct fake_source *s);
/* No lock needed for these. */
struct fake_topic *fake_topic_add(struct fake_source *s, const char *name, int partitions);
void fake_append(struct fake_source *s, struct fake_topic *t, int partition, const struct fake_batch *batch);
void fake_append_plain(struct fake_source *s, struct fake_topic *t, int partition, int records, int32_t leader_epoch);
/* The log is cut at an offset that is a batch's, and its history goes on at another epoch. */
void fake_truncate(struct fake_source *s, struct fake_topic *t, int partition, int64_t offset, int32_t next_epoch);
void fake_set_log_start(struct fake_source *s, struct fake_topic *t, int partition, int64_t offset);
int fake_fetches(struct fake_source *s);
void fake_bend(struct fake_source *s,
               bool (*bend)(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena), void *arg);
/* Metadata names this broker as the leader of everything. */
void fake_bend_leaders(struct fake_source *s, int32_t leader_id);

#endif
