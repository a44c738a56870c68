/* Recovery and truncation of a segment, and the check of indexes after a clean end. */
#include <string.h>
#include <zlib.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "storage/segment_private.h"

/* What follows the sound part of a log is cut off, whatever it is: it was never acknowledged as durable, or the disk lost it. The one thing that is not cut is a segment that begins
 * with a message format before v2: that is not damage but data that we don't read. */
static const char *unsound(const struct segment *s, const uint8_t *batch, int64_t next_offset)
{
    if (!batch_verify_crc(batch))
        return "CRC does not match";
    if (batch_check_offsets(batch) != OK)
        return "offsets or counts that cannot be";
    if (batch_base_offset(batch) < next_offset)
        return "offsets do not rise";
    if (!segment_fits_offset(s, batch_last_offset(batch)))
        return "an offset too far from the segment's base";
    return NULL;
}

static enum error reset(struct segment *s, uint64_t size_bytes)
{
    enum error error = index_file_truncate(&s->index.file, 0);
    if (error == OK)
        error = index_file_truncate(&s->time_index.file, 0);
    if (error == OK)
        error = index_file_truncate(&s->txn_index.file, 0);
    s->size_bytes = size_bytes;
    memset(s->followed, 0, sizeof(s->followed));
    s->largest = (struct timestamp_offset){-1, s->base_offset};
    s->largest_known = true;
    s->first_known = false;
    s->bytes_since_index_entry = 0;
    s->next_offset = s->base_offset;
    s->active = true;
    return error;
}

/* A damaged index must not stand in the way of its own repair. */
static enum error open_index_anew(struct segment *s, struct index_file *x, int kind)
{
    enum error error = index_file_make_writable(x);
    if (error != ERR_CORRUPT && error != ERR_TRUNCATED)
        return error;
    index_file_fini(x);
    error = fs_unlink(s->fs, s->paths[kind]);
    if (error != OK)
        return error;
    index_file_init(x, s->fs, s->paths[kind], x->entry_bytes);
    return index_file_make_writable(x);
}

/* A message of format 0 or 1 whose checksum is right (MessageSet v1: offset 8, size 4, CRC-32 of what follows 4, magic 1 ..), and not a batch of ours that a power
 * cut has torn where the magic stands. */
static bool begins_with_old_message(struct segment *s)
{
    uint8_t head[BATCH_MAGIC_END];
    struct buf message = {0};
    if (file_pread_all(s->log, head, sizeof(head), 0) != OK)
        return false;
    int64_t size = batch_length(head);
    if (size < 14 || (uint64_t)size + BATCH_LOG_OVERHEAD > s->size_bytes)
        return false;
    bool sound = segment_load(s, BATCH_POS_MAGIC, (size_t)size - 4, &message) == OK &&
                 crc32(0, message.data, (uInt)message.len) == get_u32(head + BATCH_LOG_OVERHEAD);
    buf_fini(&message);
    return sound;
}

/* One batch: OK, ERR_NOT_FOUND at the end of what is sound, or an error. */
static enum error recover_next(struct segment *s, struct batch_reader *reader, int64_t interval_bytes, segment_visit *visit,
                               void *arg, const char **ret_reason)
{
    const uint8_t *batch;
    enum error error = batch_reader_next(reader, &batch);
    if (error == OK)
        error = batch_reader_load(reader, &batch);
    if (error == UNSUPPORTED_FOR_MESSAGE_FORMAT && reader->pos == 0 && begins_with_old_message(s))
        return error;
    if (error == CORRUPT_MESSAGE || error == ERR_TRUNCATED || error == UNSUPPORTED_FOR_MESSAGE_FORMAT || error == ERR_TOO_LARGE) {
        *ret_reason = reader->reason;
        return ERR_NOT_FOUND;
    }
    if (error != OK)
        return error;
    *ret_reason = unsound(s, batch, s->next_offset);
    if (*ret_reason != NULL)
        return ERR_NOT_FOUND;
    struct segment_batch note = {(uint32_t)reader->batch_bytes, batch_last_offset(batch), batch_max_timestamp(batch)};
    segment_note_batch(s, &note, reader->batch_pos, interval_bytes);
    return visit != NULL ? visit(arg, batch, reader->batch_pos) : OK;
}

void segment_set_durable_below(struct segment *s, int64_t offset)
{
    s->durable_below = offset;
}

enum error segment_forget(struct segment *s)
{
    struct file *log;
    enum error error = segment_file(s, &log);
    if (error == OK)
        file_forget(log);
    return error;
}

enum error segment_recover(struct segment *s, int64_t index_interval_bytes, segment_visit *visit, void *arg,
                           struct segment_recovery *ret_recovery)
{
    struct file *log;
    struct batch_reader reader;
    struct segment_recovery result = {0};
    uint64_t size_bytes;
    enum error error = segment_file(s, &log);
    if (error == OK)
        error = file_size(log, &size_bytes);
    if (error == OK)
        error = open_index_anew(s, &s->index.file, SEGMENT_FILE_INDEX);
    if (error == OK)
        error = open_index_anew(s, &s->time_index.file, SEGMENT_FILE_TIME_INDEX);
    if (error == OK)
        error = open_index_anew(s, &s->txn_index.file, SEGMENT_FILE_TXN_INDEX);
    index_file_distrust(&s->index.file);
    index_file_distrust(&s->time_index.file);
    index_file_distrust(&s->txn_index.file);
    if (error == OK)
        error = reset(s, MIN(size_bytes, (uint64_t)SEGMENT_MAX_BYTES));
    if (error == OK)
        error = segment_reader(s, 0, BATCH_READER_SCAN_BYTES, &reader);
    if (error != OK)
        return error;
    while ((error = recover_next(s, &reader, index_interval_bytes, visit, arg, &result.reason)) == OK) {
        result.valid_bytes = reader.batch_pos + reader.batch_bytes;
        result.batches++;
    }
    batch_reader_fini(&reader);
    if (error != ERR_NOT_FOUND)
        return error;
    result.next_offset = s->next_offset;
    if (result.valid_bytes < size_bytes && s->next_offset < s->durable_below) {
        *ret_recovery = result;
        return CORRUPT_MESSAGE;
    }
    if (result.valid_bytes < size_bytes) {
        error = segment_cut_log(s, result.valid_bytes);
        if (error != OK)
            return error;
    }
    result.cut_bytes = size_bytes - result.valid_bytes;
    *ret_recovery = result;
    return OK;
}

enum error segment_scan_end(struct segment *s, int64_t *ret_next_offset)
{
    struct batch_reader reader;
    const uint8_t *header;
    int64_t next_offset = s->base_offset;
    enum error error = segment_reader(s, 0, BATCH_READER_SCAN_BYTES, &reader);
    if (error != OK)
        return error;
    while ((error = batch_reader_next(&reader, &header)) == OK)
        next_offset = batch_next_offset(header);
    batch_reader_fini(&reader);
    if (error != ERR_NOT_FOUND)
        return error == ERR_TRUNCATED || error == ERR_TOO_LARGE ? CORRUPT_MESSAGE : error;
    *ret_next_offset = next_offset;
    return OK;
}

static enum error check_index(struct segment *s, enum error found, int kind, struct problem *problem)
{
    if (found == ERR_CORRUPT || found == ERR_TRUNCATED)
        return problem_set(problem, ERR_CORRUPT, "%s does not fit its log.", s->paths[kind]);
    if (found != OK)
        return problem_set(problem, found, "%s cannot be read.", s->paths[kind]);
    if (kind != SEGMENT_FILE_TXN_INDEX && s->size_bytes > 0 && !fs_exists(s->fs, s->paths[kind]))
        return problem_set(problem, ERR_CORRUPT, "%s is missing.", s->paths[kind]);
    return OK;
}

enum error segment_check(struct segment *s, struct problem *problem)
{
    enum error error = check_index(s, offset_index_check(&s->index, s->size_bytes), SEGMENT_FILE_INDEX, problem);
    if (error == OK)
        error = check_index(s, time_index_check(&s->time_index), SEGMENT_FILE_TIME_INDEX, problem);
    if (error == OK)
        error = check_index(s, txn_index_check(&s->txn_index), SEGMENT_FILE_TXN_INDEX, problem);
    return error;
}

/* The largest timestamp of what is left: the time index's last entry, or something newer behind it. */
static enum error find_largest_again(struct segment *s)
{
    struct offset_position near;
    struct batch_reader reader;
    const uint8_t *header;
    enum error error = time_index_last(&s->time_index, &s->largest);
    if (error == OK)
        error = offset_index_lookup(&s->index, s->largest.offset, &near);
    if (error == OK)
        error = segment_reader(s, near.pos, BATCH_READER_LOOKUP_BYTES, &reader);
    if (error != OK)
        return error;
    while ((error = batch_reader_next(&reader, &header)) == OK) {
        if (batch_max_timestamp(header) > s->largest.timestamp)
            s->largest = (struct timestamp_offset){batch_max_timestamp(header), batch_last_offset(header)};
    }
    batch_reader_fini(&reader);
    s->largest_known = true;
    return error == ERR_NOT_FOUND ? OK : error;
}

static enum error truncate_indexes(struct segment *s, int64_t offset)
{
    enum error error = offset_index_truncate(&s->index, offset);
    if (error == OK)
        error = time_index_truncate(&s->time_index, offset);
    if (error == OK)
        error = txn_index_truncate(&s->txn_index, offset);
    if (error == OK)
        error = index_file_flush(&s->index.file, true);
    if (error == OK)
        error = index_file_flush(&s->time_index.file, true);
    if (error == OK)
        error = index_file_flush(&s->txn_index.file, false);
    if (error == OK)
        error = index_file_sync(&s->index.file);
    if (error == OK)
        error = index_file_sync(&s->time_index.file);
    if (error == OK)
        error = index_file_sync(&s->txn_index.file);
    return error;
}

/* Indexes first: after a crash in between they are short, which costs a longer walk; the other way round they would point behind the log. */
enum error segment_truncate(struct segment *s, int64_t offset, uint64_t *ret_cut_bytes)
{
    struct segment_position at;
    uint64_t old_size = s->size_bytes;
    enum error error = segment_activate(s);
    if (error != OK)
        return error;
    error = segment_find(s, offset, &at);
    if (error == ERR_NOT_FOUND) {
        *ret_cut_bytes = 0;
        return OK;
    }
    if (error == OK)
        error = truncate_indexes(s, offset);
    if (error == OK)
        error = segment_cut_log(s, at.pos);
    if (error == OK)
        error = file_sync(s->log);
    if (error == OK)
        error = find_largest_again(s);
    if (error != OK)
        return error;
    s->next_offset = -1;
    s->first_known = false;
    struct offset_position last;
    error = offset_index_last(&s->index, &last);
    if (error != OK)
        return error;
    s->bytes_since_index_entry = s->size_bytes - last.pos;
    *ret_cut_bytes = old_size - s->size_bytes;
    return segment_next_offset(s, &s->next_offset);
}
