/* Offset index of a segment: finds the place in the .log near an offset (Kafka: OffsetIndex). File %020lld.index, per entry 8 bytes, big endian:
 *
 *   0 int32 offset - base offset of the segment    4 int32 position in the .log
 *
 * An entry is made for the first batch that begins more than index.interval.bytes behind the last entry's; its offset is the batch's LAST one, so a lookup of any
 * offset that follows lands on a batch at or before it. Both columns rise. Guarded by the log's lock. */
#ifndef KAGAMI_STORAGE_OFFSET_INDEX_H
#define KAGAMI_STORAGE_OFFSET_INDEX_H

#include "storage/index_file.h"

#define OFFSET_INDEX_ENTRY_BYTES 8

struct offset_index {
    struct index_file file;
    int64_t base_offset;
};

struct offset_position {
    int64_t offset;
    uint64_t pos;
};

void offset_index_init(struct offset_index *x, struct fs *fs, const char *path, int64_t base_offset);
void offset_index_fini(struct offset_index *x);
/* ERR_INVALID when the offset is not above the last one or does not fit 31 bits. */
MUST_CHECK enum error offset_index_append(struct offset_index *x, int64_t offset, uint64_t pos);
/* Entry with the largest offset <= the given one; (base offset, 0) when there is none. */
MUST_CHECK enum error offset_index_lookup(struct offset_index *x, int64_t offset, struct offset_position *ret_entry);
/* Entry with the largest position <= the given one; (base offset, 0) when there is none. */
MUST_CHECK enum error offset_index_lookup_pos(struct offset_index *x, uint64_t pos, struct offset_position *ret_entry);
/* The last entry; (base offset, 0) when there is none. */
MUST_CHECK enum error offset_index_last(struct offset_index *x, struct offset_position *ret_entry);
/* Keeps the entries with an offset below the given one. */
MUST_CHECK enum error offset_index_truncate(struct offset_index *x, int64_t offset);
/* ERR_CORRUPT when it cannot belong to a log of log_bytes: last entry outside, columns that fall (checked at both ends of the file, as Kafka does). */
MUST_CHECK enum error offset_index_check(struct offset_index *x, uint64_t log_bytes);

#endif
