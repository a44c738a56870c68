/* Time index of a segment: from which offset on to look for a timestamp (Kafka: TimeIndex, KIP-33). File %020lld.timeindex, per entry 12 bytes, big endian:
 *
 *   0 int64 largest timestamp of the segment so far    8 int32 last offset of the batch that has it - base offset of the segment
 *
 * Everything after that offset's batch and before the next entry is at most as new as the next entry says. Timestamps rise, offsets don't fall. The last entry of a
 * sealed segment is its largest timestamp. Guarded by the log's lock. */
#ifndef KAGAMI_STORAGE_TIME_INDEX_H
#define KAGAMI_STORAGE_TIME_INDEX_H

#include "storage/index_file.h"

#define TIME_INDEX_ENTRY_BYTES 12

struct time_index {
    struct index_file file;
    int64_t base_offset;
};

struct timestamp_offset {
    int64_t timestamp; /* -1: none */
    int64_t offset;
};

void time_index_init(struct time_index *x, struct fs *fs, const char *path, int64_t base_offset);
void time_index_fini(struct time_index *x);
/* Nothing happens when the timestamp is not above the last one (Kafka: maybeAppend). ERR_INVALID when the offset falls or does not fit 31 bits. */
MUST_CHECK enum error time_index_append(struct time_index *x, int64_t timestamp, int64_t offset);
/* Entry with the largest timestamp <= the given one; (-1, base offset) when there is none. */
MUST_CHECK enum error time_index_lookup(struct time_index *x, int64_t timestamp, struct timestamp_offset *ret_entry);
MUST_CHECK enum error time_index_last(struct time_index *x, struct timestamp_offset *ret_entry);
MUST_CHECK enum error time_index_truncate(struct time_index *x, int64_t offset); /* keeps entries with an offset below */
MUST_CHECK enum error time_index_check(struct time_index *x);

#endif
