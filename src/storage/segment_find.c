/* Finding in a segment: by offset, by size, by time. An index gives a batch at or before the one that is sought; from there the headers are walked. */
#include "base/assert.h"
#include "base/limits.h"
#include "codec/record_batch.h"
#include "storage/segment_private.h"

enum error segment_reader(struct segment *s, uint64_t pos, size_t piece_bytes, struct batch_reader *ret_reader)
{
    struct file *log;
    if (pos > s->size_bytes)
        return ERR_CORRUPT; /* the index points behind the log */
    enum error error = segment_file(s, &log);
    if (error == OK)
        batch_reader_init(ret_reader, log, pos, s->size_bytes, piece_bytes);
    return error;
}

static struct segment_position position_of(const struct batch_reader *r, const uint8_t *header)
{
    return (struct segment_position){
        .pos = r->batch_pos,
        .bytes = r->batch_bytes,
        .base_offset = batch_base_offset(header),
        .last_offset = batch_last_offset(header),
        .max_timestamp = batch_max_timestamp(header),
        .leader_epoch = batch_leader_epoch(header),
    };
}

static struct offset_position *followed(struct segment *s, int64_t offset)
{
    return &s->followed[((uint64_t)offset * UINT64_C(0x9E3779B97F4A7C15)) >> 62];
}

/* A batch at or before the first one whose last offset is not below `offset`, and not far. */
static enum error find_near(struct segment *s, int64_t offset, struct offset_position *ret_near, size_t *ret_piece_bytes)
{
    const struct offset_position *end = followed(s, offset);
    if (offset > 0 && end->offset == offset) {
        *ret_near = *end;
        *ret_piece_bytes = BATCH_OVERHEAD; /* it is that one */
        return OK;
    }
    *ret_piece_bytes = BATCH_READER_LOOKUP_BYTES;
    return offset_index_lookup(&s->index, offset, ret_near);
}

enum error segment_find(struct segment *s, int64_t offset, struct segment_position *ret_position)
{
    struct offset_position near;
    struct batch_reader reader;
    if (s->size_bytes == 0 || (s->next_offset >= 0 && offset >= s->next_offset))
        return ERR_NOT_FOUND;
    size_t piece_bytes;
    enum error error = find_near(s, offset, &near, &piece_bytes);
    if (error == OK)
        error = segment_reader(s, near.pos, piece_bytes, &reader);
    if (error != OK)
        return error;
    const uint8_t *header;
    while ((error = batch_reader_next(&reader, &header)) == OK) {
        if (batch_last_offset(header) < offset)
            continue;
        *ret_position = position_of(&reader, header);
        break;
    }
    batch_reader_fini(&reader);
    return error;
}

/* A range of so many bytes may end where the index has an entry, short of the limit by one part in so many. */
#define INDEXED_END_MIN_BYTES (64 * 1024)
#define INDEXED_END_PART 16

/* The last whole batch that begins at or behind range->pos and ends at or before `limit` becomes the range's end, if there is one. Of a large range it is the
 * last that the index knows to end there: headers at its end are bytes that nobody has read yet, so that looking there waits for the disk, and the kernel takes the
 * jump back to the range's beginning for random reading and does not read ahead. */
static enum error last_end_before(struct segment *s, uint64_t limit, struct segment_range *range)
{
    struct offset_position near;
    struct batch_reader reader;
    enum error error = offset_index_lookup_pos(&s->index, limit, &near);
    if (error == OK && near.pos >= range->pos + INDEXED_END_MIN_BYTES &&
        limit - near.pos <= (limit - range->pos) / INDEXED_END_PART) {
        range->len = (size_t)(near.pos - range->pos);
        /* An entry has a last offset of what begins there (in a log of Kafka's of several batches): behind the range's end, and below the end of all. */
        range->end_offset = MIN(near.offset, range->end_offset - 1);
        return OK;
    }
    if (error == OK)
        error = segment_reader(s, MAX(near.pos, range->pos), BATCH_READER_LOOKUP_BYTES, &reader);
    if (error != OK)
        return error;
    const uint8_t *header;
    uint64_t end = reader.pos;
    int64_t end_offset = -1;
    while ((error = batch_reader_next(&reader, &header)) == OK) {
        if (reader.pos > limit) {
            end_offset = end_offset < 0 ? batch_base_offset(header) : end_offset;
            break;
        }
        end = reader.pos;
        end_offset = batch_next_offset(header);
    }
    batch_reader_fini(&reader);
    if (error != OK && error != ERR_NOT_FOUND)
        return error;
    range->len = (size_t)(end - range->pos);
    range->end_offset = end_offset;
    return OK;
}

/* Where batches end that lie below upper_offset as a whole. */
static enum error end_below(struct segment *s, int64_t upper_offset, uint64_t *ret_end, int64_t *ret_end_offset)
{
    struct segment_position above;
    if (upper_offset < INT64_MAX) {
        enum error error = segment_find(s, upper_offset, &above);
        if (error == OK) {
            *ret_end = above.pos;
            *ret_end_offset = above.base_offset;
            return OK;
        }
        if (error != ERR_NOT_FOUND)
            return error;
    }
    *ret_end = s->size_bytes;
    return segment_next_offset(s, ret_end_offset);
}

enum error segment_find_range(struct segment *s, int64_t offset, int64_t upper_offset, size_t max_bytes, bool min_one,
                              struct segment_range *ret_range)
{
    struct segment_position first;
    struct segment_range range = {0};
    uint64_t end = 0;
    enum error error = segment_find(s, offset, &first);
    if (error == OK)
        error = end_below(s, upper_offset, &end, &range.end_offset);
    if (error != OK)
        return error;
    range.pos = first.pos;
    if (end > first.pos) {
        range.len = (size_t)(end - first.pos);
        if (first.bytes > max_bytes) {
            range.len = min_one ? (size_t)first.bytes : 0;
            range.end_offset = first.last_offset + 1;
        } else if (range.len > max_bytes) {
            error = last_end_before(s, first.pos + max_bytes, &range);
        }
    }
    if (error == OK && range.len > 0)
        *followed(s, range.end_offset) = (struct offset_position){range.end_offset, range.pos + range.len};
    if (error == OK)
        *ret_range = range;
    return error;
}

enum error segment_read(struct segment *s, int64_t offset, int64_t upper_offset, size_t max_bytes, bool min_one,
                        uint64_t *ret_pos, size_t *ret_len)
{
    struct segment_range range;
    enum error error = segment_find_range(s, offset, upper_offset, max_bytes, min_one, &range);
    if (error != OK)
        return error;
    *ret_pos = range.pos;
    *ret_len = range.len;
    return OK;
}

enum error segment_last_batch(struct segment *s, struct segment_position *ret_position)
{
    struct offset_position near;
    struct batch_reader reader;
    enum error error = offset_index_last(&s->index, &near);
    if (error == OK)
        error = segment_reader(s, near.pos, BATCH_READER_LOOKUP_BYTES, &reader);
    if (error != OK)
        return error;
    const uint8_t *header;
    struct segment_position last = {0};
    while ((error = batch_reader_next(&reader, &header)) == OK)
        last = position_of(&reader, header);
    batch_reader_fini(&reader);
    if (error != ERR_NOT_FOUND || last.bytes == 0)
        return error;
    *ret_position = last;
    return OK;
}

enum error segment_load(struct segment *s, uint64_t pos, size_t len, struct buf *out)
{
    ASSERT(s->log != NULL && len <= SEGMENT_MAX_BYTES);
    enum error error = file_pread_all(s->log, buf_reserve(out, len), len, pos);
    if (error == OK)
        out->len += len;
    return error;
}

enum error segment_next_offset(struct segment *s, int64_t *ret_offset)
{
    struct segment_position last;
    if (s->next_offset < 0) {
        enum error error = segment_last_batch(s, &last);
        if (error != OK && error != ERR_NOT_FOUND)
            return error;
        s->next_offset = error == OK ? last.last_offset + 1 : s->base_offset;
    }
    *ret_offset = s->next_offset;
    return OK;
}

/* ---- Time ---- */

/* First record of the batch that the reader stands on with timestamp >= the given one and offset >= from_offset. */
static enum error find_in_batch(struct batch_reader *r, int64_t timestamp, int64_t from_offset,
                                struct segment_time_offset *ret_found)
{
    const uint8_t *batch;
    struct buf scratch = {0};
    struct bytes records;
    struct record_iter it;
    struct record record;
    enum error error = batch_reader_load(r, &batch);
    if (error == OK)
        error = batch_records(batch, LIMIT_DECOMPRESSED_BYTES, &scratch, &records);
    if (error != OK) {
        buf_fini(&scratch);
        return error;
    }
    record_iter_init(&it, batch, records);
    bool found = false;
    while (!found && record_iter_next(&it, &record)) {
        if (record.timestamp < timestamp || record.offset < from_offset)
            continue;
        *ret_found = (struct segment_time_offset){record.timestamp, record.offset, batch_leader_epoch(batch)};
        found = true;
    }
    if (!found)
        error = record_iter_finish(&it);
    buf_fini(&scratch);
    return error != OK ? error : found ? OK : ERR_NOT_FOUND;
}

static enum error find_time_from(struct segment *s, uint64_t pos, int64_t timestamp, int64_t from_offset,
                                 struct segment_time_offset *ret_found)
{
    struct batch_reader reader;
    const uint8_t *header;
    enum error error = segment_reader(s, pos, BATCH_READER_LOOKUP_BYTES, &reader);
    if (error != OK)
        return error;
    while ((error = batch_reader_next(&reader, &header)) == OK) {
        if (batch_max_timestamp(header) < timestamp || batch_last_offset(header) < from_offset)
            continue;
        error = find_in_batch(&reader, timestamp, from_offset, ret_found);
        if (error != ERR_NOT_FOUND)
            break;
    }
    batch_reader_fini(&reader);
    return error;
}

static const struct segment_time_offset NOTHING = {-1, -1, -1};

enum error segment_find_timestamp(struct segment *s, int64_t timestamp, int64_t from_offset,
                                  struct segment_time_offset *ret_found)
{
    struct timestamp_offset near;
    struct offset_position start;
    struct segment_time_offset found = NOTHING;
    enum error error = time_index_lookup(&s->time_index, timestamp, &near);
    if (error == OK)
        error = offset_index_lookup(&s->index, MAX(near.offset, from_offset), &start);
    if (error == OK)
        error = find_time_from(s, start.pos, timestamp, from_offset, &found);
    if (error == ERR_NOT_FOUND)
        error = OK;
    if (error == OK)
        *ret_found = found;
    return error;
}

enum error segment_find_max_timestamp(struct segment *s, struct segment_time_offset *ret_found)
{
    struct timestamp_offset largest;
    struct offset_position start;
    struct segment_time_offset found = NOTHING;
    enum error error = segment_largest_timestamp(s, &largest);
    if (error == OK && largest.timestamp >= 0) {
        error = offset_index_lookup(&s->index, largest.offset, &start);
        if (error == OK)
            error = find_time_from(s, start.pos, largest.timestamp, s->base_offset, &found);
        if (error == ERR_NOT_FOUND)
            error = OK;
    }
    if (error == OK)
        *ret_found = found;
    return error;
}

enum error segment_largest_timestamp(struct segment *s, struct timestamp_offset *ret_largest)
{
    if (!s->largest_known) {
        enum error error = time_index_last(&s->time_index, &s->largest);
        if (error != OK)
            return error;
        s->largest_known = true;
    }
    *ret_largest = s->largest;
    return OK;
}

enum error segment_first_timestamp(struct segment *s, int64_t *ret_timestamp)
{
    struct batch_reader reader;
    const uint8_t *header;
    if (!s->first_known) {
        enum error error = segment_reader(s, 0, BATCH_OVERHEAD, &reader);
        if (error != OK)
            return error;
        error = batch_reader_next(&reader, &header);
        if (error == OK)
            s->first_timestamp = batch_max_timestamp(header);
        batch_reader_fini(&reader);
        if (error == ERR_NOT_FOUND) {
            *ret_timestamp = -1;
            return OK;
        }
        if (error != OK)
            return error;
        s->first_known = true;
    }
    *ret_timestamp = s->first_timestamp;
    return OK;
}

enum error segment_collect_aborted(struct segment *s, int64_t from, int64_t upper,
                                   void (*visit)(void *arg, const struct aborted_txn *txn), void *arg, bool *ret_complete)
{
    return txn_index_collect(&s->txn_index, from, upper, visit, arg, ret_complete);
}

/* ---- All batches ---- */

enum error segment_each(struct segment *s, int64_t from_offset, bool whole, segment_visit *visit, void *arg)
{
    struct segment_position first;
    struct batch_reader reader;
    enum error error = segment_find(s, from_offset, &first);
    if (error == OK)
        error = segment_reader(s, first.pos, BATCH_READER_SCAN_BYTES, &reader);
    if (error != OK)
        return error == ERR_NOT_FOUND ? OK : error;
    const uint8_t *batch;
    while ((error = batch_reader_next(&reader, &batch)) == OK) {
        if (whole || batch_is_control(batch))
            error = batch_reader_load(&reader, &batch);
        if (error == OK)
            error = visit(arg, batch, reader.batch_pos);
        if (error != OK)
            break;
    }
    batch_reader_fini(&reader);
    return error == ERR_NOT_FOUND ? OK : error == ERR_TRUNCATED ? CORRUPT_MESSAGE : error;
}
