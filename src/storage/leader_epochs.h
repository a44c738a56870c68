/* Leader epochs of a log: at which offset each began (Kafka: LeaderEpochFileCache, KIP-101, KIP-279). From it a log knows where its history and another's part.
 *
 * An epoch begins at its start offset and ends where the next begins; the latest ends at the LEO. Epochs and start offsets rise. Kept in memory and in
 * leader-epoch-checkpoint, which is rewritten durably at every change that a crash must not lose.
 *
 * Crash argument: an entry is written before the batches of its epoch (assign by a leader) or with them (a follower, a mirror); what the file has too much after a crash
 * is cut when the log is opened (truncate_from_end(LEO)), what it has too little is assigned again from the batches that recovery reads.
 * Guarded by the log's lock. */
#ifndef KAGAMI_STORAGE_LEADER_EPOCHS_H
#define KAGAMI_STORAGE_LEADER_EPOCHS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "os/file.h"
#include "storage/checkpoint.h"

struct leader_epochs {
    struct fs *fs;
    char *dir;                   /* owned */
    struct epoch_entry *entries; /* ascending */
    size_t count, capacity;
};

void leader_epochs_init(struct leader_epochs *e, struct fs *fs, const char *dir);
void leader_epochs_fini(struct leader_epochs *e);
/* Reads the checkpoint; a missing one is an empty cache. ERR_CORRUPT as checkpoint.h says (the cache is empty then: recover the log to fill it). */
MUST_CHECK enum error leader_epochs_load(struct leader_epochs *e, struct problem *problem);

int32_t leader_epochs_latest(const struct leader_epochs *e); /* -1 when empty */
int32_t leader_epochs_earliest(const struct leader_epochs *e);
/* Epoch that begins at start_offset. Entries that contradict it (same or higher epoch, or at or behind that offset) are removed, as Kafka does. Nothing happens, and nothing is
 * written, when the latest epoch is this one and begins at or before the offset. An epoch below 0 is ERR_INVALID. */
MUST_CHECK enum error leader_epochs_assign(struct leader_epochs *e, int32_t epoch, int64_t start_offset);
/* The same in memory only, for copying and recovery, where many come; leader_epochs_store() makes them durable. True when something changed. */
bool leader_epochs_assign_quiet(struct leader_epochs *e, int32_t epoch, int64_t start_offset);
MUST_CHECK enum error leader_epochs_store(struct leader_epochs *e);
/* Drops epochs that begin at or behind end_offset (the log was cut there). */
MUST_CHECK enum error leader_epochs_truncate_from_end(struct leader_epochs *e, int64_t end_offset);
/* Drops what ends at or before start_offset; the epoch that holds it then begins there. */
MUST_CHECK enum error leader_epochs_truncate_from_start(struct leader_epochs *e, int64_t start_offset);
MUST_CHECK enum error leader_epochs_clear(struct leader_epochs *e);

/* OffsetForLeaderEpoch: the largest epoch <= requested and the offset where it ends. (-1, -1): requested is -1 or above the latest epoch (unknown here). Requested equal to
 * the latest: (it, log_end_offset). Below the first: (requested, start of the first), as Kafka answers. */
void leader_epochs_end_offset(const struct leader_epochs *e, int32_t requested, int64_t log_end_offset, int32_t *ret_epoch,
                              int64_t *ret_end_offset);
/* Epoch that an offset belongs to; -1 when it lies before the first entry. */
int32_t leader_epochs_for_offset(const struct leader_epochs *e, int64_t offset);
/* Largest epoch below the given one; -1 when there is none. */
int32_t leader_epochs_previous(const struct leader_epochs *e, int32_t epoch);

#endif
