/* Partition: a monitor around one log, with what a replica knows beyond the log: leader epoch, who may append, high watermark,
 * and who waits for what (Kafka: Partition, DelayedProduce, DelayedFetch).
 *
 * Now every partition is the leader of one replica. High watermark (design section 5): with flush.acks.all=true records written
 * with acks=all are visible once they are durable, others once they are written and nothing older waits to be durable; with false
 * HW = LEO (Kafka's page-cache rule). Group commit: one fdatasync in flight per log, on a helper; when it ends everyone below its
 * offset is released.
 *
 * Threads: any. Reference-counted; calls are atomic by the partition's own lock (never hold two). Calls that say "blocks" touch
 * the disk for long: run them on a helper thread. Callbacks of watches and waiters run under the lock and may not call back into
 * the partition; what they return is posted after the lock is released. Errors beside those named: KAFKA_STORAGE_ERROR when the
 * log failed, UNKNOWN_TOPIC_OR_PARTITION when the partition was deleted. */
#ifndef KAGAMI_REPL_PARTITION_H
#define KAGAMI_REPL_PARTITION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/uuid.h"
#include "os/helpers.h"
#include "os/loop.h"
#include "os/mutex.h"
#include "storage/plog.h"

struct partition;

/* What all partitions of a broker share. Outlives them. */
struct partition_env {
    const struct clock *clock;
    struct helpers *helpers;     /* flushes run here */
    _Atomic bool flush_acks_all; /* flush.acks.all */
    /* The disk failed under this log (write or fdatasync): takes its log directory out of service. Called once a failure, without
     * the lock. */
    void (*storage_failed)(void *arg, struct partition *partition);
    void *arg;
};

/* Who may append (spec section 4). */
enum append_origin {
    APPEND_CLIENT, /* produce requests, when writable */
    APPEND_MIRROR, /* batches copied from a source: client writes are refused with the reason that partition_set_origin was given
                    */
};

/* Uses the log until partition_close; it stays the log manager's. The partition has one reference, the caller's; clients may write; the leader epoch is
 * max(leader_epoch, the log's latest) and is assigned in the log. What the log holds beyond its recovery point becomes visible when it is durable. Blocks. */
MUST_CHECK enum error partition_create(struct partition_env *env, struct str topic, const struct uuid *topic_id, int32_t index,
                                       int32_t leader_epoch, const struct plog_config *config, struct plog *log,
                                       struct partition **ret_partition);
struct partition *partition_ref(struct partition *p);
void partition_unref(struct partition *p); /* NULL is OK */
/* Ends the use of the log, which nobody touches any more when it returns. Whoever waits, and every later call, gets `why`. Waits for a flush that runs:
 * blocks. */
void partition_close(struct partition *p, enum error why);
struct mutex *partition_mutex(struct partition *p); /* for log_manager_adopt only */

const char *partition_topic(const struct partition *p);           /* without lock, lives as long as the partition */
const struct uuid *partition_topic_id(const struct partition *p); /* likewise */
int32_t partition_index(const struct partition *p);

/* ---- Waking up ---- */

/* A task that is posted to a loop when a watch or waiter says so. Must stay valid from then until it ran. */
struct partition_wake {
    struct loop_task task; /* first; .run set by the owner */
    struct loop *loop;
    struct partition_wake *next;
};

enum partition_change {
    PARTITION_CHANGED_HW = 1,
    PARTITION_CHANGED_LSO = 2,
    PARTITION_CHANGED_LOG_START = 4,
    PARTITION_CHANGED_STATE = 8, /* leader epoch, origin, truncation, failure, closing */
};

/* Stands on a partition until removed: told of everything that changes for a reader. */
struct partition_watch {
    LIST_ENTRY(partition_watch) link;
    /* Under the lock, any thread: quick, lock-free, no calls into the partition. changes: enum partition_change; visible_bytes:
     * how many bytes HW moved over. Returns the wake to post after the lock, or NULL; the same wake may not be returned again
     * before its task ran. */
    struct partition_wake *(*changed)(struct partition_watch *w, int changes, int64_t visible_bytes);
    bool standing;
};
/* seen_hw, seen_lso: what the caller saw last (-1: anything); when either has moved since, or the partition is closed or failed, returns false and does not
 * stand. */
bool partition_watch_add(struct partition *p, struct partition_watch *w, int64_t seen_hw, int64_t seen_lso);
/* No callback comes after it (a wake that was returned before still runs). Not standing is OK. */
void partition_watch_remove(struct partition *p, struct partition_watch *w);

/* Waits once until everything below `offset` is durable. */
struct partition_waiter {
    TAILQ_ENTRY(partition_waiter) link;
    int64_t offset;
    /* Under the lock, any thread; the waiter stands no longer. Returns the wake to post, or NULL. */
    struct partition_wake *(*done)(struct partition_waiter *w, enum error result);
    bool standing;
};
/* True when it was still standing: then done does not come. */
bool partition_waiter_remove(struct partition *p, struct partition_waiter *w);

/* ---- State ---- */

struct partition_state {
    enum error error; /* OK, or why the partition cannot be used */
    int32_t leader_epoch;
    enum append_origin origin;
    bool writable;
    int64_t log_start_offset;
    int64_t end_offset;
    int64_t high_watermark;
    int64_t last_stable_offset;
    int64_t durable_offset; /* everything below is on disk */
    int32_t latest_epoch;   /* of the log's leader-epoch cache, -1 when empty */
    uint64_t size_bytes;
};
void partition_get_state(struct partition *p, struct partition_state *ret_state);

/* Raises the leader epoch (from the metadata image, where the controller has raised it first) and assigns it in the log's epoch
 * cache: durable when it returns. Equal: no-op. Lower: ERR_STATE. Blocks. */
MUST_CHECK enum error partition_set_leader_epoch(struct partition *p, int32_t epoch);
/* Hands the partition to a mirror or back to clients. With APPEND_MIRROR `refusal` is what client writes are answered: a problem
 * with code POLICY_VIOLATION (spec section 4) whose message names topic, mirror and command; copied. With APPEND_CLIENT refusal
 * NULL makes it writable. */
void partition_set_origin(struct partition *p, enum append_origin origin, const struct problem *refusal);
/* What a client write would be answered now: OK or the refusal (for DeleteRecords and others that are refused alike). */
enum error partition_check_writable(struct partition *p, struct problem *ret_problem);
void partition_set_config(struct partition *p, const struct plog_config *config);
/* Settings for validate_records(); what was set last. */
void partition_get_validate_config(struct partition *p, struct validate_config *ret_config);

/* ---- Appending ---- */

struct partition_appended {
    struct plog_appended log;
    bool waiting; /* the waiter stands; done comes later */
};

/* A client's records, after validate_records(). acks: 1, 0 or -1. With acks -1, when they must become durable first, `waiter`
 * (its done set, offset not) is left standing and ret->waiting is true. POLICY_VIOLATION when not writable; plog_append_client's
 * errors. */
MUST_CHECK enum error partition_append_client(struct partition *p, struct validated *records, int16_t acks,
                                              struct partition_waiter *waiter, struct partition_appended *ret_appended,
                                              struct problem *problem);

/* The same for several, in their order, under one lock and with as few writes as can be (plog_append_clients). */
struct partition_append {
    struct plog_client_append log; /* records, problem; out: error, appended */
    int16_t acks;
    struct partition_waiter *waiter;
    bool waiting; /* out */
};
void partition_append_clients(struct partition *p, struct partition_append *const *items, int count);

/* Copied batches: only while the origin is APPEND_MIRROR (ERR_STATE), and none may be of a higher epoch than the partition's
 * leader epoch (ERR_STATE: raise it first; epoch invariant, spec section 7). Visible when written. `required_epoch` fences:
 * another leader epoch gives FENCED_LEADER_EPOCH; -1: any. */
MUST_CHECK enum error partition_append_copied(struct partition *p, struct bytes batches, int32_t required_epoch,
                                              struct plog_appended *ret_appended, struct problem *problem);
/* Control batches of our own at the current leader epoch. Not visible before they are durable: wait with partition_wait_durable.
 */
MUST_CHECK enum error partition_append_marker(struct partition *p, int64_t producer_id, int16_t producer_epoch, bool commit,
                                              int32_t coordinator_epoch, struct plog_appended *ret_appended);
MUST_CHECK enum error partition_append_barrier(struct partition *p, struct str source_cluster_id, int8_t scope,
                                               struct plog_appended *ret_appended, int *ret_expired);
/* Starts a flush where one is needed. True: the waiter stands until all below `offset` is durable (whatever flush.acks.all says).
 * False: it is already, or *ret_error says why it never will be. */
bool partition_wait_durable(struct partition *p, int64_t offset, struct partition_waiter *waiter, enum error *ret_error);
/* All that is in the log now, for callers that may block: each runs the flush itself or waits for the one in flight, on no pool of ours. The mirror's stop
 * has threads of its own for it. */
MUST_CHECK enum error partition_flush(struct partition *p);

/* ---- Reading ---- */

struct partition_read_params {
    int64_t offset;
    size_t max_bytes;
    bool min_one; /* take the first batch whole even when it is larger than max_bytes */
    bool read_committed;
    int32_t current_epoch;      /* what the client believes: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH; -1: not checked */
    int32_t last_fetched_epoch; /* KIP-595 divergence check; -1: none */
};

struct partition_read {
    struct plog_slice slice; /* owned by the caller: plog_slice_release, or plog_slice_to_chain */
    int32_t leader_epoch;
    int64_t high_watermark, last_stable_offset, log_start_offset;
    int32_t diverging_epoch; /* -1 when the histories agree; else nothing is read */
    int64_t diverging_end_offset;
    struct plog_aborted *aborted; /* read_committed: in the arena */
    int aborted_n;                /* -1 for read_uncommitted */
};
/* OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH. On an error ret is filled with -1s but leader_epoch. */
enum error partition_read(struct partition *p, const struct partition_read_params *params, struct arena *arena,
                          struct partition_read *ret_read);

enum list_offsets_time {
    LIST_LATEST = -1,
    LIST_EARLIEST = -2,
    LIST_MAX_TIMESTAMP = -3,
    LIST_EARLIEST_LOCAL = -4,
    LIST_LATEST_TIERED = -5,
    LIST_EARLIEST_PENDING_UPLOAD = -6
};
/* ListOffsets for one partition; timestamp >= 0 or one of the above. Reads segments for times: may block shortly. */
enum error partition_list_offset(struct partition *p, int64_t timestamp, bool read_committed, int32_t current_epoch,
                                 struct plog_time_offset *ret_offset);
/* OffsetForLeaderEpoch; (-1, -1) when unknown. */
enum error partition_offset_for_epoch(struct partition *p, int32_t current_epoch, int32_t epoch, int32_t *ret_epoch,
                                      int64_t *ret_end_offset);

/* ---- Truncation, log start ---- */

/* DeleteRecords: offset -1 means the HW. OFFSET_OUT_OF_RANGE above HW. Blocks. */
MUST_CHECK enum error partition_delete_records(struct partition *p, int64_t offset, int64_t *ret_log_start,
                                               struct problem *problem);
/* The mirror's: allowed only while the origin is APPEND_MIRROR (ERR_STATE). HW falls with the log where it must. All block. */
MUST_CHECK enum error partition_truncate_to(struct partition *p, int64_t offset);
MUST_CHECK enum error partition_restart_at(struct partition *p, int64_t offset);
MUST_CHECK enum error partition_set_start_offset(struct partition *p, int64_t offset); /* cut to HW */

/* ---- The log itself ---- */

/* For what has no call of its own (producer listings, housekeeping): the log under the partition's lock. NULL, and nothing is
 * locked, when the partition is closed. partition_unlock works out HW anew and posts what became due. Never append or flush
 * through it. */
struct plog *partition_lock(struct partition *p);
void partition_unlock(struct partition *p);

#endif
