/* Segment: one .log file of a partition with its indexes (Kafka: LogSegment).
 *
 * %020lld.log holds record batches one behind the other and nothing else; the name is the base offset, which no offset in it is below. Beside it stand .index, .timeindex
 * and (when a transaction was aborted) .txnindex of the same name.
 *
 * The last segment is active: it is appended to and keeps its indexes in memory; the others are sealed. Opening costs a stat: files are opened and indexes read
 * when they are first needed, so that thousands of sealed segments cost little.
 *
 * Crash argument: bytes behind the known size are garbage of a failed append and are cut off before the next one. Within the file, the valid part is what
 * segment_recover() finds: whole batches whose CRC and offsets agree. A sealed segment's indexes are synced with it (segment_sync), an active one's are rebuilt after an unclean
 * end, so a crash never leaves an index that is trusted and wrong.
 *
 * References: the log holds one, each reader one. The last unref closes the files. A segment that the log has dropped stays readable, also after its files were renamed to
 * .deleted or removed.
 * Threads: guarded by the log's lock, but what says "no lock". Errors: ERR_IO, ERR_NO_SPACE; ERR_CORRUPT and CORRUPT_MESSAGE for damage. */
#ifndef KAGAMI_STORAGE_SEGMENT_H
#define KAGAMI_STORAGE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/error.h"
#include "os/file.h"
#include "storage/time_index.h"
#include "storage/txn_index.h"

#define SEGMENT_LOG_SUFFIX ".log"
#define SEGMENT_INDEX_SUFFIX ".index"
#define SEGMENT_TIME_INDEX_SUFFIX ".timeindex"
#define SEGMENT_TXN_INDEX_SUFFIX ".txnindex"
#define SEGMENT_DELETED_SUFFIX ".deleted"
#define SEGMENT_NAME_MAX 48
/* Positions in a segment are int32 (Kafka): no segment grows beyond. */
#define SEGMENT_MAX_BYTES INT32_MAX

struct segment;

/* "%020lld" and the suffix. */
char *segment_file_name(int64_t base_offset, const char *suffix, char out[SEGMENT_NAME_MAX]);
/* The base offset of NAME when it is 20 digits and exactly this suffix. */
bool segment_parse_name(const char *name, const char *suffix, int64_t *ret_base_offset);

/* ---- Life ---- */

/* A new, empty, active segment in dir; what is left of files of that name is removed first when the .log is empty or absent, else ERR_EXISTS. Its name is not
 * durable before the folder is synced, which the log does with its next flush: rolling must not wait for a disk. */
MUST_CHECK enum error segment_create(struct fs *fs, const char *dir, int64_t base_offset, struct segment **ret_segment);
/* One that is there; sealed. ERR_NOT_FOUND without a .log. */
MUST_CHECK enum error segment_open(struct fs *fs, const char *dir, int64_t base_offset, struct segment **ret_segment);
/* Makes a sealed segment active: opens it for writing and loads its indexes. */
MUST_CHECK enum error segment_activate(struct segment *s);
/* Adds the largest timestamp to the time index, writes and cuts the indexes; the segment is sealed. It is durable after the next segment_sync. */
MUST_CHECK enum error segment_seal(struct segment *s);
/* Closes the files of a sealed, not deleted segment that has been synced since, when nobody but `holders` references has it; they are opened again when needed. Without it every
 * segment that was ever written would keep its files open. */
void segment_rest(struct segment *s, int holders);
struct segment *segment_ref(struct segment *s); /* no lock */
void segment_unref(struct segment *s);          /* no lock; NULL is OK */

int64_t segment_base_offset(const struct segment *s);
uint64_t segment_size_bytes(const struct segment *s); /* of the .log */
uint64_t segment_index_size_bytes(struct segment *s);
bool segment_is_active(const struct segment *s);
bool segment_is_blank(const struct segment *s); /* holds nothing, nor what a failed append has left */
/* A process that was killed may have cut the .log without the medium knowing it: the next append, or the seal, cuts it there durably first, as after a failed append. */
void segment_distrust_tail(struct segment *s);
/* The .log, opened if it was not; stays open while a reference is held. For reading without a lock, call this (or segment_read) under the lock first. */
MUST_CHECK enum error segment_file(struct segment *s, struct file **ret_file);
/* Whether last_offset fits in 31 bits behind the base offset: roll before an append when not. */
bool segment_fits_offset(const struct segment *s, int64_t last_offset);
/* Whether an index has no room for another entry under segment.index.bytes: then roll. */
bool segment_index_full(struct segment *s, int64_t max_index_bytes);
/* Modification time of the .log, for retention of segments without timestamps. */
MUST_CHECK enum error segment_modified_ms(struct segment *s, int64_t *ret_ms);

/* ---- Appending (active) ---- */

struct segment_batch {
    uint32_t bytes;
    int64_t last_offset;
    int64_t max_timestamp;
};

/* Writes iov (whole batches, together as long as the sum of batches[].bytes) at the end, then updates the indexes in memory. On an error nothing has changed but
 * bytes behind the end, which the next append cuts off. */
MUST_CHECK enum error segment_append(struct segment *s, const struct iovec *iov, int iov_count,
                                     const struct segment_batch *batches, int batch_count, int64_t index_interval_bytes);
/* An aborted transaction whose marker is in this segment. */
MUST_CHECK enum error segment_append_aborted(struct segment *s, const struct aborted_txn *txn);
/* Makes the segment durable: the .log, and the indexes of a sealed one. No lock, but never beside a truncation of the same segment. */
MUST_CHECK enum error segment_sync(struct segment *s);

/* ---- Finding ---- */

struct segment_position {
    uint64_t pos;
    uint64_t bytes; /* of the whole batch */
    int64_t base_offset;
    int64_t last_offset;
    int64_t max_timestamp;
    int32_t leader_epoch;
};

/* First batch whose last offset is >= offset; ERR_NOT_FOUND when there is none. */
MUST_CHECK enum error segment_find(struct segment *s, int64_t offset, struct segment_position *ret_position);
/* What a fetch takes (plog_read): from the batch that holds offset (or the first behind it), whole batches that begin below upper_offset, together at most max_bytes; the first
 * one even if it is larger when min_one. A batch that begins below upper_offset and ends above it is left out. ERR_NOT_FOUND when the segment has no batch at or
 * behind offset; *ret_len 0 when nothing fits. upper_offset INT64_MAX: to the end. The file is open afterwards. */
MUST_CHECK enum error segment_read(struct segment *s, int64_t offset, int64_t upper_offset, size_t max_bytes, bool min_one,
                                   uint64_t *ret_pos, size_t *ret_len);
struct segment_range {
    uint64_t pos;
    size_t len;
    int64_t end_offset; /* no batch in the range ends behind it; where max_bytes cut it off, not beyond the records that are left */
};
/* The same, with the offset where the range ends. */
MUST_CHECK enum error segment_find_range(struct segment *s, int64_t offset, int64_t upper_offset, size_t max_bytes, bool min_one,
                                         struct segment_range *ret_range);
/* The last batch; ERR_NOT_FOUND in an empty segment. Trusts the offset index: after an unclean end recover first. */
MUST_CHECK enum error segment_last_batch(struct segment *s, struct segment_position *ret_position);
/* The bytes [pos, pos + len) behind *out. No lock. */
MUST_CHECK enum error segment_load(struct segment *s, uint64_t pos, size_t len, struct buf *out);
/* Offset that follows the last one; the base offset of an empty segment. */
MUST_CHECK enum error segment_next_offset(struct segment *s, int64_t *ret_offset);

struct segment_time_offset {
    int64_t timestamp; /* -1: none */
    int64_t offset;    /* -1: none */
    int32_t leader_epoch;
};
/* First record with timestamp >= the given one and offset >= from_offset; -1s when there is none. Decompresses. */
MUST_CHECK enum error segment_find_timestamp(struct segment *s, int64_t timestamp, int64_t from_offset,
                                             struct segment_time_offset *ret_found);
/* First record that has the segment's largest timestamp. */
MUST_CHECK enum error segment_find_max_timestamp(struct segment *s, struct segment_time_offset *ret_found);
/* Largest timestamp and the last offset of its batch; (-1, base offset) when no record has one. */
MUST_CHECK enum error segment_largest_timestamp(struct segment *s, struct timestamp_offset *ret_largest);
/* Max timestamp of the first batch, -1 when empty (Kafka's rollingBasedTimestamp). */
MUST_CHECK enum error segment_first_timestamp(struct segment *s, int64_t *ret_timestamp);
/* txn_index_collect of this segment. */
MUST_CHECK enum error segment_collect_aborted(struct segment *s, int64_t from, int64_t upper,
                                              void (*visit)(void *arg, const struct aborted_txn *txn), void *arg,
                                              bool *ret_complete);

/* ---- Whole segment ---- */

/* Called for each batch in turn: the whole batch, its CRC checked when segment_recover calls. An error ends the walk and is returned. */
typedef enum error segment_visit(void *arg, const uint8_t *batch, uint64_t pos);
/* Batches from the one that holds from_offset up to the end; CORRUPT_MESSAGE at a damaged one. With whole false, `batch` is the header only (BATCH_OVERHEAD bytes) unless it
 * is a control batch: what a replay of producer state needs. */
MUST_CHECK enum error segment_each(struct segment *s, int64_t from_offset, bool whole, segment_visit *visit, void *arg);

struct segment_recovery {
    uint64_t valid_bytes;
    uint64_t cut_bytes; /* behind them, now gone */
    int64_t next_offset;
    int64_t batches;
    const char *reason; /* why it was cut; NULL when it was not. Static */
};
/* What was durable once: segment_recover() cuts nothing that begins below this offset, for no crash has damaged it. It answers CORRUPT_MESSAGE then, with the file as it was and
 * next_offset and reason set in *ret_recovery. 0 at first. */
void segment_set_durable_below(struct segment *s, int64_t offset);
/* What is read of the log's file next comes from the medium. Before segment_recover. */
MUST_CHECK enum error segment_forget(struct segment *s);
/* Walks over everything, checks size, magic, CRC and rising offsets, cuts the file behind the last sound batch and builds the three indexes anew. The transaction index is
 * emptied: visit adds to it with segment_append_aborted(). The segment is active afterwards; nothing is synced. visit may be NULL. */
MUST_CHECK enum error segment_recover(struct segment *s, int64_t index_interval_bytes, segment_visit *visit, void *arg,
                                      struct segment_recovery *ret_recovery);
/* The offset behind the last batch, by the headers from the first byte on and without the indexes; CORRUPT_MESSAGE when the file does not end there,
 * UNSUPPORTED_FOR_MESSAGE_FORMAT where messages older than v2 stand. For a segment that may not be as it was. */
MUST_CHECK enum error segment_scan_end(struct segment *s, int64_t *ret_next_offset);
/* Whether the indexes of a segment that was closed cleanly can be trusted (present, sizes, ends): ERR_CORRUPT says which not. Reads a little of each. */
MUST_CHECK enum error segment_check(struct segment *s, struct problem *problem);
/* Cuts off the batch that holds offset and all behind it, in log and indexes, and syncs them; the segment is active afterwards. *ret_cut_bytes may be 0. */
MUST_CHECK enum error segment_truncate(struct segment *s, int64_t offset, uint64_t *ret_cut_bytes);
/* Renames the files to NAME.deleted; the segment can still be read. */
MUST_CHECK enum error segment_mark_deleted(struct segment *s);
/* Removes the files (missing ones are OK); readers that have the segment open go on. */
MUST_CHECK enum error segment_remove_files(struct segment *s);

#endif
