/* Partition log: everything that a partition has on disk, in Kafka's format to the byte (Kafka: UnifiedLog, LocalLog, LogLoader).
 *
 * A folder TOPIC-N with segments (.log .index .timeindex .txnindex), producer snapshots (.snapshot), leader-epoch-checkpoint and
 * partition.metadata. It knows no socket, no topic's meaning, no broker.
 *
 * Threads: a log is guarded by its owner's mutex (the partition); every call needs it unless it says "no lock". What a read
 * returns (references to segments) may be used without it. Errors: Kafka's codes where a client is to see them; ERR_IO and
 * ERR_NO_SPACE from the disk. After ERR_IO from a write or a sync the log is failed: every later append, flush and truncation
 * answers KAFKA_STORAGE_ERROR. A failed append changes no state in memory, and what it may have left on disk is cut off before
 * the next one. */
#ifndef KAGAMI_STORAGE_PLOG_H
#define KAGAMI_STORAGE_PLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/chain.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/uuid.h"
#include "codec/record_batch.h"
#include "os/file.h"
#include "storage/leader_epochs.h"
#include "storage/producer_state.h"
#include "storage/segment.h"
#include "storage/validate.h"

/* Topic settings that storage needs; names and meaning are Kafka's (TopicConfig). */
struct plog_config {
    int64_t segment_bytes;
    int64_t segment_ms;
    int64_t segment_index_bytes;
    int64_t index_interval_bytes;
    int64_t retention_ms;    /* -1: none */
    int64_t retention_bytes; /* -1: none */
    bool cleanup_delete;     /* cleanup.policy contains delete */
    bool cleanup_compact;
    int64_t file_delete_delay_ms;
    int64_t producer_id_expiration_ms;
    struct validate_config validate; /* max.message.bytes, compression.type, message.timestamp.*, compact keys */
};

struct plog_params {
    struct fs *fs;
    const struct clock *clock;
    const char *dir;        /* the partition's folder; created when absent */
    const char *cluster_id; /* our own: barriers of this writer act, others are passive (spec section 5) */
    struct uuid topic_id;   /* zero: not known; written to partition.metadata, compared with it (INCONSISTENT_TOPIC_ID) */
    struct plog_config config;
    int64_t recovery_point;   /* from the checkpoint; -1 without one */
    int64_t log_start_offset; /* from the checkpoint; -1 without one */
    int64_t high_watermark;   /* from the checkpoint; -1 without one */
    bool clean_shutdown;      /* no recovery is needed */
    bool foreign;             /* Kafka's, which may have compacted above its recovery point: gaps are no holes */
    bool distrust_cache;      /* a sync failed before the last end: what recovery reads must come from the medium */
    /* Something an operator should know (a torn tail cut off, an index rebuilt, a barrier replayed); the log's owner logs it. May
     * be NULL. */
    void (*event)(void *arg, const char *dir, const char *text);
    void *event_arg;
    /* The recovery point fell (truncation, restart): the owner of the checkpoint files writes them before it returns, since what
     * is written next may lie below the old recovery point (Kafka: LogManager.truncateTo). Called with the log's lock. NULL: the
     * log stands alone. */
    enum error (*checkpoint)(void *arg);
    /* A write or sync failed and the log with it; once. Called with the log's lock. May be NULL. */
    void (*failed)(void *arg, const char *dir, enum error error);
    /* Makes the names in the folder above durable, for a first flush (see plog.c); called without the log's lock. NULL: fs_sync_parent. */
    enum error (*sync_parent)(void *arg);
    void *owner_arg; /* of checkpoint, failed and sync_parent */
};

struct plog;

/* Opens or creates; recovers what an unclean end left (no hand needed). Blocks: run it on a helper. No lock. A new log waits for no disk: its folder, partition.metadata and
 * the name of its first segment are durable with its first flush. Nor does one whose recovery found all as it was left: its recovery point stays where it is then. */
MUST_CHECK enum error plog_open(const struct plog_params *params, struct plog **ret_log, struct problem *problem);
/* clean: flushes, writes the producer snapshot and seals the indexes, so that nothing needs recovery; an error says that the end was not clean after all. Otherwise
 * drops everything, as a crash would. Gone either way. NULL is OK. */
enum error plog_close(struct plog *log, bool clean);
void plog_set_config(struct plog *log, const struct plog_config *config);
const struct plog_config *plog_get_config(const struct plog *log);

/* ---- Appending ---- */

struct plog_appended {
    int64_t base_offset; /* of the first record; for a duplicate: of the batch that was written then */
    int64_t last_offset;
    int64_t log_append_time_ms; /* -1 with CreateTime (a duplicate: its batch's timestamp, as Kafka answers) */
    int64_t log_start_offset;
    bool duplicate;          /* nothing was written */
    int64_t max_producer_id; /* highest PID in what was appended, -1 for none */
    int batches;
};

/* What a client (or coordinator) sent, after validate_records() (no lock) prepared it: offsets and leader epoch are assigned in
 * place, sequences and epochs checked (OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, ..), duplicates found. */
MUST_CHECK enum error plog_append_client(struct plog *log, struct validated *records, int32_t leader_epoch,
                                         struct plog_appended *ret_appended, struct problem *problem);

/* One of several client appends, each with an outcome of its own. */
struct plog_client_append {
    struct validated *records;
    struct problem *problem;       /* what went wrong, when error is not OK; NULL: nobody asks */
    enum error error;              /* out */
    struct plog_appended appended; /* out, when error is OK */
};
/* In their order, as if one by one; neighbours that go into one segment are written at once and succeed or fail together. */
void plog_append_clients(struct plog *log, struct plog_client_append *const *items, int count, int32_t leader_epoch);

/* Whole batches as a leader elsewhere wrote them: stored byte for byte; no client check applies. Base offsets must rise and the
 * first must be >= LEO (a gap is legal). The caller has checked sizes, magic and CRC of each batch (batch_scan). Barriers act by
 * the one rule. When writing fails, whole batches at the front of the chunk may be in the log: plog_end_offset tells. */
MUST_CHECK enum error plog_append_copied(struct plog *log, struct bytes batches, struct plog_appended *ret_appended,
                                         struct problem *problem);

/* Control batches of our own, at the given leader epoch. */
MUST_CHECK enum error plog_append_marker(struct plog *log, int64_t producer_id, int16_t producer_epoch, bool commit,
                                         int32_t coordinator_epoch, int32_t leader_epoch, struct plog_appended *ret_appended);
/* MIRROR_PID_RESET of our own cluster; *ret_expired is the number of producer entries dropped. The append comes first, then the
 * state: a failed append changes nothing. Durable only after the next flush. */
MUST_CHECK enum error plog_append_barrier(struct plog *log, struct str source_cluster_id, int8_t scope, int32_t leader_epoch,
                                          struct plog_appended *ret_appended, int *ret_expired);
/* Whether the last batch is a barrier of this cluster; its leader epoch. */
bool plog_ends_with_own_barrier(struct plog *log, int32_t *ret_leader_epoch);

/* ---- Durability ---- */

/* fdatasync in three steps, so that it blocks nobody: begin (locked) pins what is to be synced; run (no lock, helper) syncs; end (locked) moves the recovery
 * point to the LEO of begin, and must follow every begin. An error of run or end fails the log, but for ERR_NO_SPACE: nothing was
 * lost, and a later flush may succeed. Several may be in flight; one at a time is what pays. A
 * truncation in between takes the flush's work over: run and end then have nothing to do and answer OK. Use one struct for all three calls.
 * epochs false leaves the file of the leader epochs as it is, which saves two of three syncs: what is acknowledged is as durable, but the recovery point of the checkpoint does not pass
 * the epochs' first batch before a flush with epochs (plog_wants_flush). */
struct plog_flush {
    struct plog *log;
    int64_t offset;            /* LEO at begin: everything below is durable after end */
    struct file *active;       /* .log of the active segment */
    struct segment **segments; /* referenced; sealed ones whose files were not synced since, the active one last */
    int count;
    uint32_t truncations; /* of the log, at begin */
    bool sync_dir, fresh, covers_epochs;
    struct epoch_entry *epochs; /* a copy to be written, or NULL */
    size_t epoch_count;
    uint64_t epochs_version;
};
void plog_flush_begin(struct plog *log, bool epochs, struct plog_flush *ret_flush);
enum error plog_flush_run(struct plog_flush *flush);
enum error plog_flush_end(struct plog_flush *flush, enum error run_result);
/* All three at once, with epochs, for callers that may block. */
MUST_CHECK enum error plog_flush_now(struct plog *log);
/* Sealed segments that no flush has made durable, epochs that it left out, or what recovery has found: where nobody asks for acks=all somebody must flush now and then. */
bool plog_wants_flush(const struct plog *log);
bool plog_failed(const struct plog *log); /* no lock */
void plog_fail(struct plog *log);         /* the log directory was taken out of service; no lock */

/* ---- Offsets ---- */

/* What the checkpoint files hold, as it stands this moment. No lock: each is an atomic. */
struct plog_checkpoint {
    int64_t recovery_point, log_start_offset, high_watermark;
};
struct plog_checkpoint plog_checkpoint_values(const struct plog *log);
struct uuid plog_topic_id(const struct plog *log); /* of partition.metadata; zero: none */
/* When it was opened it had no topic id, and nothing in it shows that it was ever flushed: a crash has left it of a partition that nobody can name. */
bool plog_is_of_nobody(const struct plog *log);
/* Gives a log without one its topic id, durably (a log that was never flushed: with its first flush); INCONSISTENT_TOPIC_ID when it has another. */
MUST_CHECK enum error plog_set_topic_id(struct plog *log, struct uuid topic_id);
const char *plog_dir(const struct plog *log); /* no lock */

int64_t plog_start_offset(const struct plog *log);
int64_t plog_end_offset(const struct plog *log); /* LEO */
int64_t plog_high_watermark(const struct plog *log);
void plog_set_high_watermark(struct plog *log, int64_t hw); /* never falls but by truncation; kept in [log start, LEO] */
int64_t plog_last_stable_offset(const struct plog *log); /* min(HW, first offset of an open or not yet replicated transaction) */
int64_t
plog_recovery_point(const struct plog *log); /* everything below is durable; the checkpoint's may be lower (plog_flush_begin) */
uint64_t plog_size_bytes(const struct plog *log); /* no lock */
int plog_segment_count(const struct plog *log);
int32_t plog_latest_epoch(const struct plog *log); /* of the leader-epoch cache, -1 when empty */
/* The leader starts an epoch at the LEO (LeaderEpochFileCache.assign). In leader-epoch-checkpoint with the next flush, before anything of that epoch is durable: an epoch
 * without batches that a crash takes is one that the metadata have. */
MUST_CHECK enum error plog_assign_epoch(struct plog *log, int32_t epoch);
/* OffsetForLeaderEpoch: the largest epoch <= requested and where it ends; (-1, -1) when unknown. */
void plog_end_offset_for_epoch(const struct plog *log, int32_t epoch, int32_t *ret_epoch, int64_t *ret_end_offset);
/* Partition leader epoch of the last batch, -1 in an empty log. */
int32_t plog_last_batch_epoch(const struct plog *log);

struct plog_time_offset {
    int64_t timestamp; /* -1: none found */
    int64_t offset;    /* -1: none found */
    int32_t leader_epoch;
};
/* First record with timestamp >= the given one, below upper_offset. Reads segments: may block. */
MUST_CHECK enum error plog_offset_for_time(struct plog *log, int64_t timestamp, int64_t upper_offset,
                                           struct plog_time_offset *ret_offset);
/* ListOffsets -3: the record with the highest timestamp (the first such); none when it is at or beyond upper_offset. */
MUST_CHECK enum error plog_offset_of_max_time(struct plog *log, int64_t upper_offset, struct plog_time_offset *ret_offset);
int32_t plog_epoch_of_offset(const struct plog *log, int64_t offset); /* -1 unknown */

/* ---- Reading ---- */

struct plog_slice {
    struct segment *segment; /* referenced; NULL for an empty answer */
    uint64_t pos;
    size_t len;         /* whole batches */
    int64_t end_offset; /* behind the last of them, not always next to it (segment_range); the offset asked for when there is none */
};

struct plog_aborted {
    int64_t producer_id;
    int64_t first_offset;
};

/* Batches from the one that holds `offset`, up to max_bytes but never beyond upper_offset, one segment at the most. Ends at a
 * batch boundary, so that nothing is cut; when min_one and the first batch alone is larger, that batch is taken whole.
 * OFFSET_OUT_OF_RANGE outside [log start, LEO]. */
MUST_CHECK enum error plog_read(struct plog *log, int64_t offset, int64_t upper_offset, size_t max_bytes, bool min_one,
                                struct plog_slice *ret_slice);
void plog_slice_release(struct plog_slice *slice); /* no lock */
/* Puts the slice on a chain: up to copy_bytes as memory, which for a few kB costs less than sendfile, else as a range of the file (also as memory
 * when the file has no fd). The chain takes over the reference; after an error it holds bytes of no meaning. No lock. */
MUST_CHECK enum error plog_slice_to_chain(struct plog_slice *slice, size_t copy_bytes, struct chain *out);
/* The slice's bytes behind *out. No lock. */
MUST_CHECK enum error plog_slice_copy(const struct plog_slice *slice, struct buf *out);
/* Aborted transactions that may touch [offset, the end of slice) for a read_committed fetch, in the arena. */
MUST_CHECK enum error plog_aborted_for(struct plog *log, int64_t offset, const struct plog_slice *slice, struct arena *arena,
                                       struct plog_aborted **ret_aborted, int *ret_count);

/* What a cut at `offset` would throw away. Records are offsets here: control records count, and so do those that compaction has removed. */
struct plog_tail {
    int64_t records, bytes;
    int64_t first_timestamp, last_timestamp; /* of its first and its last batch, ms; -1: none, or the batch has no time */
};
/* Two headers are read, not the tail. An offset at or behind the LEO has an empty tail. Caller's lock. */
MUST_CHECK enum error plog_tail(struct plog *log, int64_t offset, struct plog_tail *ret_tail);

/* ---- Truncation, retention ---- */

/* Cuts to LEO <= offset: the end of the last batch that ends at or below it (one that contains it goes). Below the log start: plog_restart_at; when the log start lies inside the last batch to go, at the log start. Producer state is rebuilt: entries that a barrier expired
 * come back when the barrier goes. Durable when it returns. */
MUST_CHECK enum error plog_truncate_to(struct plog *log, int64_t offset);
/* Empties the log and starts it at offset. Durable when it returns. */
MUST_CHECK enum error plog_restart_at(struct plog *log, int64_t offset);
/* DeleteRecords, and the source's log start of a mirror: may fall inside a batch; at most HW. Whole segments below it are
 * removed. */
MUST_CHECK enum error plog_set_start_offset(struct plog *log, int64_t offset);
/* Time and size retention, below HW; how many segments were marked for removal. Rolls the active segment when it is due. */
MUST_CHECK enum error plog_apply_retention(struct plog *log, int *ret_removed);
MUST_CHECK enum error plog_roll(struct plog *log);
/* Removes files marked .deleted whose delay is over (file.delete.delay.ms). Blocks. In two steps for who must not hold the lock meanwhile: take (locked; NULL
 * when there is nothing), then remove (no lock), which consumes it also on an error: what is left goes at the next start. */
MUST_CHECK enum error plog_remove_deleted(struct plog *log);
struct plog_deleted;
struct plog_deleted *plog_take_deleted(struct plog *log);
enum error plog_deleted_remove(struct plog_deleted *deleted);

/* ---- Producers ---- */

struct producer_state *plog_producers(struct plog *log); /* for DescribeProducers, open transactions, tests */
void plog_expire_producers(struct plog *log);            /* by producer.id.expiration.ms */
MUST_CHECK enum error plog_take_snapshot(struct plog *log);

#endif
