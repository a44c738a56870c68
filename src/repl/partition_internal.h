/* The inside of a partition, shared by partition*.c only. All fields below the mutex are guarded by it. */
#ifndef KAGAMI_REPL_PARTITION_INTERNAL_H
#define KAGAMI_REPL_PARTITION_INTERNAL_H

#include "base/assert.h"
#include "os/mutex.h"
#include "repl/partition.h"

/* Start of what was appended and must be durable before it is visible: its first offset and how many bytes were appended before it. */
struct undurable {
    int64_t offset; /* -1: nothing */
    int64_t bytes_before;
};

struct partition {
    _Atomic int refs;
    struct partition_env *env;
    char *topic;
    struct uuid topic_id;
    int32_t index;

    struct mutex mutex;
    struct plog *log;  /* NULL when closed */
    enum error closed; /* why; OK while open */
    int32_t leader_epoch;
    enum append_origin origin;
    struct problem refusal; /* code OK: clients may write */
    struct plog_config config;

    /* High watermark and group commit. A flush makes durable what `flushing` marks; what comes in meanwhile is marked by `waiting`. */
    struct undurable flushing, waiting;
    int64_t appended_bytes; /* since the partition was created; counts on, whatever is truncated */
    int64_t visible_bytes;  /* of these, below HW */
    bool flush_wanted, flush_queued, flush_running;
    struct helper_job flush_job;
    struct condition flush_ended;

    TAILQ_HEAD(partition_waiters, partition_waiter) waiters;
    LIST_HEAD(partition_watches, partition_watch) watches;
    int64_t told_hw, told_lso, told_log_start; /* what the watches were told last */
    bool state_changed;
    struct partition_wake *wakes; /* to post when the lock is released, newest first */
    bool failure_told;
};

/* The one way out of the monitor: works out HW, tells watches, releases waiters of a failed log, queues a flush, unlocks, posts. */
void partition_leave(struct partition *p);
/* Locks; on an error (closed, failed) nothing is locked. */
enum error partition_enter(struct partition *p);

/* With the lock held. */
void partition_mark_undurable(struct partition *p, int64_t offset,
                              int64_t bytes_before); /* not visible before a flush, which it asks for */
void partition_stand(struct partition *p, struct partition_waiter *w, int64_t offset);
void partition_end_waiters(struct partition *p, int64_t above_offset, enum error result);
void partition_after_truncation(struct partition *p);
void partition_apply_config(struct partition *p);
enum error partition_check_epoch(const struct partition *p, int32_t current_epoch);

#endif
