/* What segment.c, segment_find.c and segment_recover.c share. */
#ifndef KAGAMI_STORAGE_SEGMENT_PRIVATE_H
#define KAGAMI_STORAGE_SEGMENT_PRIVATE_H

#include <stdatomic.h>

#include "storage/batch_reader.h"
#include "storage/offset_index.h"
#include "storage/segment.h"

enum segment_file_kind { SEGMENT_FILE_LOG, SEGMENT_FILE_INDEX, SEGMENT_FILE_TIME_INDEX, SEGMENT_FILE_TXN_INDEX, SEGMENT_FILES };

/* Readers that follow the log ask next for what comes behind their last range. */
#define SEGMENT_FOLLOWED 4

struct segment {
    atomic_int refs;
    struct fs *fs;
    char *dir;
    char *paths[SEGMENT_FILES];
    int64_t base_offset;
    struct file *log; /* NULL until first needed; read and write */
    uint64_t size_bytes;
    atomic_bool active;    /* segment_sync reads it without the lock; cleared when the indexes are complete */
    bool tail_garbage;     /* bytes may stand behind size_bytes, if only on the medium: of a failed append, or of what a killed process has cut */
    bool deleted;          /* the files carry .deleted */
    int64_t next_offset;   /* -1: not known without a look */
    int64_t durable_below; /* segment_set_durable_below */
    uint64_t bytes_since_index_entry;
    struct timestamp_offset largest; /* when largest_known */
    bool largest_known;
    int64_t first_timestamp;
    bool first_known;
    struct offset_position followed
        [SEGMENT_FOLLOWED]; /* ends of ranges that were read: where the batch of that offset begins; offset 0: none. Forgotten when the log is cut */
    struct offset_index index;
    struct time_index time_index;
    struct txn_index txn_index;
};

/* Account for a batch that stands at pos: index entries when they are due, largest timestamp, next offset. */
void segment_note_batch(struct segment *s, const struct segment_batch *batch, uint64_t pos, int64_t index_interval_bytes);
/* A reader from pos to the end of the segment. */
MUST_CHECK enum error segment_reader(struct segment *s, uint64_t pos, size_t piece_bytes, struct batch_reader *ret_reader);
/* Cuts the log file; indexes are the caller's. */
MUST_CHECK enum error segment_cut_log(struct segment *s, uint64_t size_bytes);

#endif
