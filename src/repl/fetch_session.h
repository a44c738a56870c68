/* Fetches: the partitions that one Fetch request asks for, incremental fetch sessions (KIP-227; Kafka: FetchSession, FetchSessionCache), and the long poll
 * over all of them.
 *
 * A session remembers what the client asked for and what it was told last. Its partitions are watched all the time: what changes puts itself on a list, so a
 * fetch costs what changed and not what the session holds; a thousand idle partitions cost nothing.
 *
 * Threads: a fetch belongs to the loop of its request. Sessions are found in one of a few shards, each with a mutex; a session in use by a request (busy) is touched
 * by that request alone. Watches report through atomics. */
#ifndef KAGAMI_REPL_FETCH_SESSION_H
#define KAGAMI_REPL_FETCH_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uthash.h>

#include "base/clock.h"
#include "base/error.h"
#include "os/random.h"
#include "proto/messages.h"
#include "repl/partition.h"
#include "repl/partitions.h"

struct fetch_poll;

/* One partition of a fetch. */
struct fetch_partition {
    /* As the client asked. */
    struct str topic;     /* null from Fetch 13 on, until the partition is found */
    struct uuid topic_id; /* zero below Fetch 13 */
    int32_t index;
    int64_t fetch_offset;
    int32_t max_bytes;
    int32_t current_epoch;
    int32_t last_fetched_epoch;

    struct partition *partition;                 /* a reference; NULL: look it up */
    enum error error;                            /* of the last look-up or read */
    struct partition_read read;                  /* of the last read; its slice is owned */
    int64_t told_high_watermark, told_log_start; /* session: what the client was told last; -1: nothing */

    /* fetch_session.c's */
    TAILQ_ENTRY(fetch_partition) link; /* active list */
    bool active;
    bool talks; /* has something to say in this answer */
    bool watched;
    struct partition_watch watch;
    struct fetch_poll *poll;
    _Atomic bool dirty;
    struct fetch_partition *next_dirty;
    UT_hash_handle by_key;
    int key_len;
    uint8_t *key;
};

TAILQ_HEAD(fetch_partitions, fetch_partition);

/* A fetch that may wait. Armed, it is woken once: when enough bytes came, or something changed that must be looked at. */
struct fetch_poll {
    struct partition_wake wake;
    void *owner; /* whoever armed it */
    _Atomic int state;
    _Atomic int64_t missing_bytes;
    _Atomic bool read_committed;
    _Atomic(struct fetch_partition *) dirty; /* a stack */
};

struct fetch_session;
struct fetch_sessions;

struct fetch_sessions *fetch_sessions_create(struct partitions *partitions, const struct clock *clock,
                                             struct random_source *random, int slots, int64_t eviction_ms);
void fetch_sessions_destroy(struct fetch_sessions *cache); /* no fetch is under way; NULL is OK. Before the partitions go */
int fetch_sessions_count(struct fetch_sessions *cache);

/* ---- One fetch ---- */

enum fetch_kind { FETCH_SESSIONLESS, FETCH_FULL, FETCH_INCREMENTAL };

struct fetch {
    enum fetch_kind kind;
    struct fetch_sessions *cache;
    struct arena *arena;
    struct fetch_session *session; /* FULL: not in the cache yet; INCREMENTAL: busy with us */
    int32_t session_id;            /* for the answer; 0: none */
    struct fetch_poll own_poll;    /* SESSIONLESS */
    struct fetch_poll *poll;
    struct fetch_partitions active; /* to be read next */
    struct fetch_partition *all;    /* SESSIONLESS: in the arena */
    int32_t all_n;
    bool read_committed;
    bool topic_ids; /* Fetch 13 and later */
    int64_t min_bytes;
    size_t max_bytes; /* of the whole answer */
    size_t bytes;     /* read so far */
    bool at_once;     /* an error, a divergence, the end of a segment: nothing to wait for */
};

/* Takes the request apart. Errors of the whole request: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR, INVALID_REQUEST (LIMIT_REQUEST_PARTITIONS); then there is
 * nothing to end. The request's strings must live until fetch_end. */
MUST_CHECK enum error fetch_begin(struct fetch_sessions *cache, const struct fetch_request *request, int16_t version,
                                  size_t max_bytes, struct arena *arena, struct fetch *ret_fetch);
/* Reads what has not been read or has changed since; only disarmed or from the woken task. True: answer now (enough bytes, an error, or nothing was asked for). */
bool fetch_read(struct fetch *f);
/* Arms the poll; wake.task runs on `loop` when it is worth to read again. False: something has changed meanwhile, read again. */
bool fetch_arm(struct fetch *f, struct loop *loop, void (*run)(struct loop_task *task), void *owner);
/* True: disarmed, the task does not run. False: it was posted and will run. */
bool fetch_disarm(struct fetch *f);
/* For the task: the poll that was armed. */
struct fetch_poll *fetch_poll_of(struct loop_task *task);

/* The partitions that the answer names, in order: all of a full fetch, those with news of an incremental one. NULL begins; NULL ends. */
struct fetch_partition *fetch_next(struct fetch *f, struct fetch_partition *after);
/* The answer is made (done) or dropped: settles the session (a full one enters the cache before, see fetch_admit), frees slices that were not moved. */
void fetch_end(struct fetch *f);
/* A full fetch asks for a session: before the answer is made, puts it in the cache and sets session_id; 0 when the cache is full of better ones. */
void fetch_admit(struct fetch *f);

#endif
