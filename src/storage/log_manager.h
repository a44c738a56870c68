/* Log manager: one log directory with the partition logs in it (Kafka: LogManager).
 *
 * Files of the directory, as Kafka has them: .lock, meta.properties, .kafka_cleanshutdown, recovery-point-offset-checkpoint,
 * log-start-offset-checkpoint, replication-offset-checkpoint (high watermarks), and a folder per partition: TOPIC-N;
 * TOPIC-N.UUID-delete for one that is deleted and not yet removed. Anything else is left alone.
 *
 * Threads and locks: every function may be called from any thread. The manager has one mutex of its own, below the partitions':
 * calls may be made with one partition locked unless they say "no partition lock". A log is used under its owner's mutex: that of
 * log_manager_adopt, which the manager's background work takes too (never while it holds its own). */
#ifndef KAGAMI_STORAGE_LOG_MANAGER_H
#define KAGAMI_STORAGE_LOG_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "os/file.h"
#include "os/helpers.h"
#include "os/mutex.h"
#include "os/random.h"
#include "storage/plog.h"

struct log_manager;

struct log_manager_params {
    struct fs *fs;
    const struct clock *clock;
    struct random_source *random; /* names of deleted folders, id of the directory */
    struct helpers *helpers;      /* logs are loaded on all of them at once; NULL: by the caller alone */
    const char *dir;              /* created when absent */
    const char *cluster_id;       /* "" takes what meta.properties says, and fails with ERR_NOT_FOUND without one */
    int32_t node_id;
    bool
        foreign; /* no metadata yet: what stands in the folder is Kafka's, or was ours and has lost them; none of it is taken for remains */

    /* Settings of a topic whose folder is there; called while loading, on helpers. NULL: defaults for all. */
    void (*topic_config)(void *arg, struct str topic, struct plog_config *ret_config);
    /* Something an operator should know: a log recovered, a tail cut off, a folder that can't be opened. On any thread, maybe
     * with a partition locked: only log and return. May be NULL. */
    void (*event)(void *arg, const char *text);
    /* The directory failed (an fsync or a write): it is out of service and every log in it answers KAFKA_STORAGE_ERROR. Once. As
     * event: must not lock partitions, so post it. May be NULL. */
    void (*failed)(void *arg, const char *dir, const char *text);
    void *arg;
};

/* Kafka's defaults of the topic settings. */
struct plog_config plog_config_default(void);

/* Locks the folder, checks or writes meta.properties, loads every log (recovering what an unclean end left). Blocks; may take
 * long. Problems: ERR_LOCKED    another process has the directory ERR_CONFLICT  it belongs to another cluster or node
 * (INCONSISTENT_CLUSTER_ID for the cluster): the problem names both ERR_UNSUPPORTED a version of meta.properties that we don't
 * know A log that can't be opened does not stop the others: log_manager_get answers KAFKA_STORAGE_ERROR for it. */
MUST_CHECK enum error log_manager_open(const struct log_manager_params *params, struct log_manager **ret_manager,
                                       struct problem *problem);
/* Cluster id that an existing directory carries, for a start without a configured one; ERR_NOT_FOUND on a new one. No lock is
 * taken. */
MUST_CHECK enum error log_manager_read_identity(struct fs *fs, const char *dir, char ret_cluster_id[64], int32_t *ret_node_id,
                                                struct problem *problem);
/* clean: flushes and closes every log with its snapshot, writes the checkpoints and the clean-shutdown file. Otherwise drops
 * everything, as a crash would. No log may be in use by anybody any more, no partition lock. NULL is OK. */
void log_manager_close(struct log_manager *manager, bool clean);

/* Whether the last end was clean (design 5: after an unclean one every partition gets a new leader epoch before it takes writes).
 */
bool log_manager_was_clean(const struct log_manager *manager);
const char *log_manager_cluster_id(const struct log_manager *manager);
const struct uuid *log_manager_directory_id(const struct log_manager *manager);
const char *log_manager_dir(const struct log_manager *manager);
bool log_manager_failed(const struct log_manager *manager);
/* Takes the directory out of service. */
void log_manager_fail(struct log_manager *manager, const char *text);

/* ---- Logs ---- */

/* ERR_NOT_FOUND without one; KAFKA_STORAGE_ERROR when it is there and could not be opened, or the directory failed. */
MUST_CHECK enum error log_manager_get(struct log_manager *manager, struct str topic, int32_t partition, struct plog **ret_log);
/* Creates the folder, or returns the log that is there (INCONSISTENT_TOPIC_ID when that has another topic id). Blocks, but waits for no disk: a crash may take what was created and
 * not yet flushed, and who wants the log creates it again. The log may take writes after log_manager_settle. */
MUST_CHECK enum error log_manager_create_log(struct log_manager *manager, struct str topic, int32_t partition,
                                             struct uuid topic_id, const struct plog_config *config, struct plog **ret_log,
                                             struct problem *problem);
/* From now on background work (flush of rolled segments, retention, producer expiry) visits the log, under its owner's mutex. */
void log_manager_adopt(struct log_manager *manager, struct plog *log, struct mutex *lock);
/* Waits for background work on the log and keeps it away: before the mutex goes. No partition lock. The log stays open, and
 * the manager's. */
void log_manager_release(struct log_manager *manager, struct plog *log);
/* Closes the log and renames its folder to TOPIC-N.UUID-delete, durably; its files go after file.delete.delay.ms. Nobody uses the
 * log any more (slices that were read may live on). Works for one that could not be opened. Blocks; no partition lock. */
MUST_CHECK enum error log_manager_delete_log(struct log_manager *manager, struct str topic, int32_t partition);

/* Makes the checkpoint files agree with the logs created and deleted since, and the folders' names durable: once after many, since it writes all lines of all
 * logs. A new log needs its line before its first record, for recovery is strict only about a log whose recovery point it knows. */
MUST_CHECK enum error log_manager_settle(struct log_manager *manager);

struct log_info {
    struct str topic; /* valid during the visit */
    int32_t partition;
    struct plog *log; /* NULL: could not be opened */
    uint64_t size_bytes;
    struct uuid topic_id; /* zero: not known */
};
/* Every log that stands now, in no order; the manager's mutex is not held during visit. For the start (whose topics are gone?)
 * and DescribeLogDirs. */
void log_manager_each(struct log_manager *manager, void (*visit)(void *arg, const struct log_info *info), void *arg);
MUST_CHECK enum error log_manager_space(struct log_manager *manager, uint64_t *ret_total, uint64_t *ret_usable);

/* ---- Background work. The owner calls these on helpers, one at a time each; they block. ---- */

/* Makes rolled segments durable that nobody flushed, then writes recovery points, log starts and high watermarks of all logs (Kafka: log.flush.offset.checkpoint.interval.ms, 60 s;
 * replica.high.watermark. checkpoint.interval.ms, 5 s). */
MUST_CHECK enum error log_manager_checkpoint(struct log_manager *manager);
/* Retention and producer expiry of all adopted logs, removal of what was deleted long enough ago
 * (log.retention.check.interval.ms, 300 s). */
void log_manager_retention(struct log_manager *manager);
/* Removes deleted folders and segments whose delay is over. Part of log_manager_retention; may be called more often. */
void log_manager_remove_deleted(struct log_manager *manager);

#endif
