/* What the files of the partition log share. Nobody else includes it. */
#ifndef KAGAMI_STORAGE_PLOG_INTERNAL_H
#define KAGAMI_STORAGE_PLOG_INTERNAL_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "os/mutex.h"
#include "storage/leader_epochs.h"
#include "storage/plog.h"
#include "storage/segment.h"

struct plog_deleted { /* a segment in line for removal */
    TAILQ_ENTRY(plog_deleted) link;
    struct segment *segment;   /* one reference; files carry .deleted */
    int64_t due_ms;            /* by the monotonic clock */
    struct plog_deleted *next; /* of those that were taken */
};

struct plog {
    struct fs *fs;
    const struct clock *clock;
    char *dir;
    char *cluster_id;
    struct uuid topic_id;
    struct plog_config config;
    void (*event)(void *arg, const char *dir, const char *text);
    void *event_arg;
    enum error (*checkpoint)(void *arg);
    void (*failed_callback)(void *arg, const char *dir, enum error error);
    enum error (*sync_parent)(void *arg);
    void *owner_arg;

    struct segment **segments; /* by base offset; the last is active */
    int segment_count, segment_capacity;
    int64_t synced_below;                               /* segments of a lower base offset are sealed, and durable since */
    bool dir_unsynced;                                  /* a segment was created since the folder was synced */
    int dir_flushes;                                    /* flushes under way that sync the folder: it is not yet */
    bool unflushed; /* it holds what a process before this one has written and maybe not flushed; nobody has flushed it since */
    bool fresh; /* no flush has made the folder's own name and partition.metadata durable: see plog.c */
    TAILQ_HEAD(deleted_segments, plog_deleted) deleted; /* by due_ms, nearly */

    struct producer_state *producers;
    struct leader_epochs epochs;
    int64_t end_offset;
    _Atomic int64_t start_offset, high_watermark, recovery_point;
    _Atomic int64_t epochs_point; /* the epochs of everything below are in their file, durably */
    _Atomic uint64_t size_bytes;
    _Atomic bool failed;
    bool distrust_cache;
    int64_t dropped_below; /* while opening: the leader epochs say that the front was dropped up to here */
    bool recovery_point_known; /* while opening: a checkpoint of ours said it */
    bool remains_of_nobody;    /* see plog_is_of_nobody */
    bool repaired;             /* while opening: something is no longer as the last end left it */
    int32_t last_batch_epoch;
    bool ends_with_own_barrier;

    /* Between flushes that run without the owner's lock and those who change what they sync. Innermost lock. */
    struct mutex files;
    struct condition files_idle;
    int flushes_running;
    uint32_t truncations;
    uint64_t epochs_version, epochs_stored;
    struct mutex syncing; /* one flush at a time syncs sealed segments */

    struct buf scratch;        /* control batches of our own */
    struct segment_batch *run; /* PLOG_RUN_BATCHES, for copied appends; NULL until the first */
};

/* Batches of one pwritev of a copied append: bounds the memory that it takes. */
#define PLOG_RUN_BATCHES 1024

/* ---- plog.c ---- */

void plog_event(struct plog *log, const char *format, ...) PRINTF_LIKE(2, 3);
/* Takes the log out of service for an error that leaves disk and memory apart; returns the error. ERR_NO_SPACE passes by: nothing was damaged. */
enum error plog_broken(struct plog *log, enum error error);
struct segment *plog_active(const struct plog *log);
/* Index of the last segment whose base offset is <= offset; 0 when there is none. */
int plog_segment_floor(const struct plog *log, int64_t offset);
/* Where a segment's range ends: the next one's base offset, INT64_MAX for the active one. */
int64_t plog_segment_upper(const struct plog *log, int index);
void plog_add_segment(struct plog *log, struct segment *segment);
void plog_count_bytes(struct plog *log);
int64_t plog_now_ms(const struct plog *log);
/* Writes the epochs that are in memory only. */
MUST_CHECK enum error plog_store_epochs(struct plog *log);
/* Flushes under way end; those that wait have nothing left to do. Called before files shrink or go. */
void plog_stop_flushes(struct plog *log);

/* ---- plog_append.c ---- */

/* Seals the active segment and begins one at base_offset (>= LEO). */
MUST_CHECK enum error plog_roll_at(struct plog *log, int64_t base_offset);
/* What one batch does to the producer state, wherever it comes from: THE place of the one rule (spec section 5). Data goes in with its header alone, control
 * batches whole. *ret_expired (may be NULL): entries that a barrier drops. */
MUST_CHECK enum error plog_stage(struct plog *log, enum producer_origin origin, const uint8_t *batch, int *ret_expired,
                                 struct problem *problem);
/* The batch is a barrier that our own cluster wrote. */
bool plog_is_own_barrier(const struct plog *log, const uint8_t *batch);
/* The epoch of a batch that is in the log now, behind one that ends at previous_end. In memory only. */
void plog_note_epoch(struct plog *log, const uint8_t *batch, int64_t previous_end);

/* ---- plog_folder.c ---- */

/* Adds the segments that the folder holds; what a crash left over is gone afterwards. */
MUST_CHECK enum error plog_open_segments(struct plog *log);

/* ---- plog_recover.c ---- */

/* Empties the producer state and builds it for the log as it stands, from the newest snapshot at or below end_offset and the batches behind it. */
MUST_CHECK enum error plog_rebuild_producers(struct plog *log, int64_t end_offset);
/* Epoch and kind of the last batch. */
MUST_CHECK enum error plog_load_last_batch(struct plog *log);

/* ---- plog_retention.c ---- */

/* Raises the log start offset, with what hangs on it; no segment goes. */
MUST_CHECK enum error plog_raise_start(struct plog *log, int64_t offset);
/* Takes the first `count` segments off, marks their files .deleted and puts them in line for removal. Never the active one. */
MUST_CHECK enum error plog_drop_front(struct plog *log, int count);
/* The same for one at the end, durably; the log is left without an active segment. */
MUST_CHECK enum error plog_drop_last(struct plog *log);

#endif
