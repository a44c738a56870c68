/* Producer state of a partition: who wrote what last, which transactions are open (Kafka: ProducerStateManager, ProducerAppendInfo, KIP-98).
 *
 * For each producer id: producer epoch, coordinator epoch, the last five batches, the first offset of the open transaction. It is a function of the log and of
 * the own cluster id alone (spec section 5): the caller feeds every batch of the log, in order, and decides by the cluster id whether a barrier acts.
 *
 * Changes are staged and then applied or discarded as a whole, so that an append that is refused or fails changes nothing. Staging sees what was staged before it:
 * the second batch of an append is checked against the first, and a producer that comes after a barrier in the same chunk starts afresh.
 *
 *     producer_state_stage_batch / _marker / _barrier ..    once per batch, in the order of the log
 *     (write the batches)
 *     producer_state_completed                               transactions that ended: aborted ones go to the transaction index
 *     producer_state_apply(ps, end_offset)  or  producer_state_discard(ps)
 *
 * Producer ids: -1 is "none" and never has state. Ids <= -2 come from mirrors that negate (spec section 8): they have state and are never checked, whatever
 * wrote them (a client that sends one meets no check and no duplicate detection, as on Kafka; but its state is kept, or a reload would differ).
 *
 * Threads: guarded by the log's lock. Errors: Kafka's codes from staging, the file system's from snapshots. */
#ifndef KAGAMI_STORAGE_PRODUCER_STATE_H
#define KAGAMI_STORAGE_PRODUCER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "os/file.h"

#define PRODUCER_BATCHES 5 /* remembered per producer (ProducerStateEntry.NUM_BATCHES_TO_RETAIN) */
#define PRODUCER_SNAPSHOT_SUFFIX ".snapshot"
/* A snapshot of a million producers; more is damage. */
#define PRODUCER_SNAPSHOT_MAX_BYTES (64 * 1024 * 1024)

struct producer_batch {
    int32_t last_sequence; /* -1: none */
    int32_t offset_delta;  /* last offset - first offset */
    int64_t last_offset;
    int64_t timestamp;
};

struct producer_entry {
    int64_t producer_id;
    int64_t last_timestamp;
    int64_t current_txn_first_offset; /* -1: no open transaction */
    int32_t coordinator_epoch;        /* -1: no marker seen */
    int16_t producer_epoch;           /* -1: unknown */
    int16_t batch_count;
    struct producer_batch batches[PRODUCER_BATCHES]; /* oldest first */
};

int32_t producer_entry_last_sequence(const struct producer_entry *e); /* -1 without batches */
int64_t producer_entry_last_offset(const struct producer_entry *e);   /* of data; -1 without batches */
int32_t producer_batch_first_sequence(const struct producer_batch *b);
static inline int64_t producer_batch_first_offset(const struct producer_batch *b)
{
    return b->last_offset - b->offset_delta;
}

/* A transaction that a marker ended. */
struct completed_txn {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset;        /* the marker's */
    int64_t last_stable_offset; /* at its end, as the transaction index keeps it */
    bool aborted;
};

/* Who wrote a batch: decides which checks apply. */
enum producer_origin {
    PRODUCER_CLIENT,      /* all checks */
    PRODUCER_COORDINATOR, /* markers and offset commits of our own: epochs are checked, sequences are not */
    PRODUCER_COPIED,      /* from a leader elsewhere, or replayed from the log: no checks */
};

/* What a data batch says about its producer. */
struct producer_batch_info {
    int64_t producer_id;
    int64_t base_offset; /* as it will be stored */
    int64_t last_offset;
    int64_t max_timestamp;
    int32_t base_sequence; /* -1: none */
    int16_t producer_epoch;
    bool transactional;
};

struct producer_state;

/* An empty state for the log in dir (copied) with no snapshots known; takes no memory per producer until there are some. */
struct producer_state *producer_state_create(struct fs *fs, const char *dir, int64_t expiration_ms);
void producer_state_destroy(struct producer_state *ps); /* NULL is OK */
void producer_state_set_expiration(struct producer_state *ps, int64_t expiration_ms);

/* ---- Staging ---- */

/* The remembered batch that this one repeats: same producer epoch, same first and last sequence. For client batches, asked before staging; what is staged
 * counts. *ret_batch is a copy. */
bool producer_state_find_duplicate(const struct producer_state *ps, const struct producer_batch_info *info,
                                   struct producer_batch *ret_batch);

/* A data batch. For PRODUCER_CLIENT: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE (a batch without the transactional flag while the
 * producer's transaction is open). A producer that has no state may start at any sequence. On error nothing is staged by this call; the caller discards. */
MUST_CHECK enum error producer_state_stage_batch(struct producer_state *ps, enum producer_origin origin,
                                                 const struct producer_batch_info *info, struct problem *problem);
/* A COMMIT or ABORT marker at offset. INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED unless copied. */
MUST_CHECK enum error producer_state_stage_marker(struct producer_state *ps, enum producer_origin origin, int64_t producer_id,
                                                  int16_t producer_epoch, bool commit, int32_t coordinator_epoch, int64_t offset,
                                                  int64_t timestamp, struct problem *problem);
/* A barrier of our own cluster: scope 1 drops the entries of producer ids < 0, any other all of them; open transactions go with their producers. Returns how
 * many entries it drops. Barriers of other clusters are not staged at all. */
int producer_state_stage_barrier(struct producer_state *ps, int8_t scope);
/* Transactions completed by what is staged, in the order of the log; valid until apply or discard. */
int producer_state_completed(const struct producer_state *ps, const struct completed_txn **ret_txns);
/* Takes over what is staged; the state now stands for the log up to end_offset (also with nothing staged: every append moves it). Never fails. */
void producer_state_apply(struct producer_state *ps, int64_t end_offset);
void producer_state_discard(struct producer_state *ps);

/* ---- Looking (what is applied) ---- */

int producer_state_count(const struct producer_state *ps);
int producer_state_open_count(const struct producer_state *ps); /* producers with an open transaction */
/* NULL when unknown; valid until the next apply, expire or reload. */
const struct producer_entry *producer_state_get(const struct producer_state *ps, int64_t producer_id);
/* Each entry in no order; visit returns false to stop. */
void producer_state_each(const struct producer_state *ps, bool (*visit)(void *arg, const struct producer_entry *entry),
                         void *arg);
/* First offset of the transactions that are open, or ended by a marker at or above the high watermark; -1 when none. */
int64_t producer_state_first_unstable_offset(const struct producer_state *ps);
/* First offset of the open transactions; -1 when none. */
int64_t producer_state_first_undecided_offset(const struct producer_state *ps);
/* The high watermark moved: transactions whose marker is below it are stable (Kafka: onHighWatermarkUpdated). */
void producer_state_on_high_watermark(struct producer_state *ps, int64_t high_watermark);
void producer_state_on_log_start(struct producer_state *ps, int64_t log_start_offset);
int64_t producer_state_end_offset(const struct producer_state *ps); /* what it stands for (Kafka: mapEndOffset) */
/* Drops what was idle for the expiration time and has no open transaction; returns how many. */
int producer_state_expire(struct producer_state *ps, int64_t now_ms);

/* ---- Snapshots: DIR/%020lld.snapshot, the state up to that offset ----
 *
 * big endian: version int16 = 1, crc uint32 (CRC-32C of all that follows), count int32, then per producer 46 bytes: producer id int64, producer epoch int16,
 * last sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator epoch int32, current txn first offset int64.
 * Only the last batch is kept (Kafka: ProducerSnapshot.json). A torn or stale file is found by its CRC and passed over. */

/* Reads the list of snapshot files; removes none. */
MUST_CHECK enum error producer_state_load_list(struct producer_state *ps);
/* Empties the state, drops snapshot files outside (log_start_offset, end_offset] and loads the newest one that is sound; damaged ones are removed, and *ret_note
 * (may be NULL) says so (code OK: nothing to say). Afterwards producer_state_end_offset() is where the caller replays from: the snapshot's offset or log_start_offset. */
MUST_CHECK enum error producer_state_reload(struct producer_state *ps, int64_t log_start_offset, int64_t end_offset,
                                            int64_t now_ms, struct problem *ret_note);
/* Empties the state and removes all snapshot files; it then stands for offset. */
MUST_CHECK enum error producer_state_restart(struct producer_state *ps, int64_t offset);
/* Writes the state at its end offset, unless the newest snapshot stands there already. sync false: a crash may lose or tear it. */
MUST_CHECK enum error producer_state_take_snapshot(struct producer_state *ps, bool sync);
/* Removes the snapshot files below offset (their segments are gone); the newest is always kept. */
MUST_CHECK enum error producer_state_remove_snapshots_before(struct producer_state *ps, int64_t offset);
/* Removes the one at offset, if there is one (its segment is going). */
MUST_CHECK enum error producer_state_remove_snapshot(struct producer_state *ps, int64_t offset);
/* Snapshot offsets, ascending; valid until the next call that changes them. */
int producer_state_snapshots(const struct producer_state *ps, const int64_t **ret_offsets);

/* The file's content behind *out, producers in ascending order: two states are equal exactly when these bytes are (what a reload cannot know, the older of the
 * five batches, is not in it). */
void producer_state_encode(const struct producer_state *ps, struct buf *out);
/* Decodes a snapshot; *ret_entries is to be freed with mem_free. ERR_CORRUPT (problem says where), ERR_UNSUPPORTED for another version. */
MUST_CHECK enum error producer_snapshot_decode(struct bytes in, struct producer_entry **ret_entries, int *ret_count,
                                               struct problem *problem);

#endif
