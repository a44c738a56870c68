/* Reading: resolves an offset to a range of one segment's file under the owner's lock; the bytes are sent without it. Costs one binary search over the
 * segments, one in the offset index, and a walk over headers within one index interval; nothing grows with what is not touched. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/limits.h"
#include "codec/record_batch.h"
#include "storage/plog_internal.h"

/* A disk that can't be read takes the log out of service; damage in what it holds is the reader's to hear of. */
static enum error read_error(struct plog *log, enum error error)
{
    return error == ERR_IO ? plog_broken(log, error) : error;
}

/* ---- Slices ---- */

/* Index of the first segment that may have a batch at or behind offset. */
static enum error resolve(struct plog *log, int64_t offset, int64_t upper_offset, size_t max_bytes, bool min_one, int *ret_index,
                          struct plog_slice *slice)
{
    for (int i = plog_segment_floor(log, offset); i < log->segment_count; i++) {
        struct segment *s = log->segments[i];
        if (segment_base_offset(s) >= upper_offset)
            break;
        struct segment_range range;
        enum error error = segment_find_range(s, offset, upper_offset, max_bytes, min_one, &range);
        if (error == ERR_NOT_FOUND)
            continue; /* offset lies in a gap behind its last batch */
        if (error != OK)
            return error;
        if (range.len > 0)
            *slice = (struct plog_slice){segment_ref(s), range.pos, range.len, range.end_offset};
        *ret_index = i;
        return OK;
    }
    return ERR_NOT_FOUND;
}

enum error plog_read(struct plog *log, int64_t offset, int64_t upper_offset, size_t max_bytes, bool min_one,
                     struct plog_slice *ret_slice)
{
    struct plog_slice slice = {.end_offset = offset};
    int index;
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    if (offset < plog_start_offset(log) || offset > log->end_offset)
        return OFFSET_OUT_OF_RANGE;
    if (offset < MIN(upper_offset, log->end_offset)) {
        enum error error = resolve(log, offset, upper_offset, max_bytes, min_one, &index, &slice);
        if (error != OK && error != ERR_NOT_FOUND)
            return read_error(log, error);
    }
    if (slice.segment == NULL)
        slice = (struct plog_slice){.end_offset = offset};
    *ret_slice = slice;
    return OK;
}

void plog_slice_release(struct plog_slice *slice)
{
    segment_unref(slice->segment);
    *slice = (struct plog_slice){.end_offset = slice->end_offset};
}

static void release_segment(void *arg)
{
    segment_unref(arg);
}

enum error plog_slice_to_chain(struct plog_slice *slice, size_t copy_bytes, struct chain *out)
{
    struct file *file;
    if (slice->segment == NULL)
        return OK;
    /* plog_read has opened the file, and it stays open while we hold the segment: no lock is needed. */
    enum error error = segment_file(slice->segment, &file);
    if (error != OK)
        return error;
    if (slice->len <= copy_bytes || file_fd(file) < 0) {
        error = file_pread_all(file, chain_extend(out, slice->len), slice->len, slice->pos);
        if (error == OK)
            plog_slice_release(slice);
        return error;
    }
    chain_append_file(out, file_fd(file), slice->pos, slice->len, release_segment, slice->segment);
    slice->segment = NULL;
    slice->len = 0;
    return OK;
}

enum error plog_slice_copy(const struct plog_slice *slice, struct buf *out)
{
    return slice->segment == NULL ? OK : segment_load(slice->segment, slice->pos, slice->len, out);
}

/* ---- What a cut would throw away ---- */

/* The header of the first batch of a slice. */
static enum error slice_header(const struct plog_slice *slice, struct buf *out)
{
    buf_clear(out);
    return slice->len < BATCH_OVERHEAD ? ERR_CORRUPT : segment_load(slice->segment, slice->pos, BATCH_OVERHEAD, out);
}

static enum error tail_ends(struct plog *log, int64_t offset, struct plog_tail *tail)
{
    struct plog_slice first = {0}, last = {0};
    struct buf header = {0};
    enum error error = plog_read(log, offset, log->end_offset, 1, true, &first);
    if (error == OK && first.segment != NULL) {
        error = slice_header(&first, &header);
        if (error == OK) {
            tail->records = log->end_offset - batch_base_offset(header.data);
            tail->first_timestamp = batch_base_timestamp(header.data);
        }
    }
    if (error == OK)
        error = plog_read(log, log->end_offset - 1, log->end_offset, 1, true, &last);
    if (error == OK && last.segment != NULL) {
        error = slice_header(&last, &header);
        if (error == OK)
            tail->last_timestamp = batch_max_timestamp(header.data);
    }
    plog_slice_release(&first);
    plog_slice_release(&last);
    buf_fini(&header);
    return error;
}

enum error plog_tail(struct plog *log, int64_t offset, struct plog_tail *ret_tail)
{
    struct plog_tail tail = {.first_timestamp = -1, .last_timestamp = -1};
    enum error error = OK;
    offset = MAX(offset, plog_start_offset(log));
    if (offset < log->end_offset) {
        tail.records = log->end_offset - offset;
        error = tail_ends(log, offset, &tail);
    }
    while (error == OK && offset < log->end_offset) {
        struct plog_slice slice;
        error = plog_read(log, offset, log->end_offset, SIZE_MAX, true, &slice);
        if (error != OK || slice.segment == NULL)
            break;
        tail.bytes += (int64_t)slice.len;
        offset = slice.end_offset;
        plog_slice_release(&slice);
    }
    if (error == OK)
        *ret_tail = tail;
    return error;
}

/* ---- Aborted transactions ---- */

struct aborted_list {
    struct arena *arena;
    struct plog_aborted *items;
    int count, capacity;
    bool full;
};

static void add_aborted(void *arg, const struct aborted_txn *txn)
{
    struct aborted_list *list = arg;
    if (list->full)
        return;
    if (list->count == list->capacity) {
        int capacity = MAX(8, list->capacity * 2);
        struct plog_aborted *items = arena_alloc(list->arena, (size_t)capacity * sizeof(*items));
        if (items == NULL) {
            list->full = true;
            return;
        }
        if (list->count > 0)
            memcpy(items, list->items, (size_t)list->count * sizeof(*items));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = (struct plog_aborted){txn->producer_id, txn->first_offset};
}

/* An aborted transaction stands in the index of the segment that holds its marker, at or behind the slice: the search goes on until an entry says that what
 * follows began later (Kafka: UnifiedLog.collectAbortedTransactions). */
enum error plog_aborted_for(struct plog *log, int64_t offset, const struct plog_slice *slice, struct arena *arena,
                            struct plog_aborted **ret_aborted, int *ret_count)
{
    struct aborted_list list = {.arena = arena};
    bool complete = slice->end_offset <= offset;
    for (int i = plog_segment_floor(log, offset); i < log->segment_count && !complete; i++) {
        enum error error = segment_collect_aborted(log->segments[i], offset, slice->end_offset, add_aborted, &list, &complete);
        if (error != OK)
            return read_error(log, error);
    }
    if (list.full)
        return ERR_TOO_LARGE;
    *ret_aborted = list.items;
    *ret_count = list.count;
    return OK;
}

/* ---- By time ---- */

enum error plog_offset_for_time(struct plog *log, int64_t timestamp, int64_t upper_offset, struct plog_time_offset *ret_offset)
{
    int64_t from = plog_start_offset(log);
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    for (int i = plog_segment_floor(log, from); i < log->segment_count; i++) {
        struct segment *s = log->segments[i];
        struct timestamp_offset largest;
        struct segment_time_offset found;
        enum error error = segment_largest_timestamp(s, &largest);
        if (error == OK && largest.timestamp < timestamp)
            continue;
        if (error == OK)
            error = segment_find_timestamp(s, timestamp, from, &found);
        if (error != OK)
            return read_error(log, error);
        if (found.offset < 0)
            continue; /* its newest record lies below the log start */
        if (found.offset >= upper_offset)
            break;
        *ret_offset = (struct plog_time_offset){found.timestamp, found.offset, found.leader_epoch};
        return OK;
    }
    *ret_offset = (struct plog_time_offset){-1, -1, -1};
    return OK;
}

enum error plog_offset_of_max_time(struct plog *log, int64_t upper_offset, struct plog_time_offset *ret_offset)
{
    struct segment *newest = NULL;
    int64_t max = -1;
    if (plog_failed(log))
        return KAFKA_STORAGE_ERROR;
    for (int i = plog_segment_floor(log, plog_start_offset(log)); i < log->segment_count; i++) {
        struct timestamp_offset largest;
        enum error error = segment_largest_timestamp(log->segments[i], &largest);
        if (error != OK)
            return read_error(log, error);
        if (largest.timestamp > max) {
            max = largest.timestamp;
            newest = log->segments[i];
        }
    }
    *ret_offset = (struct plog_time_offset){-1, -1, -1};
    if (newest == NULL)
        return OK;
    struct segment_time_offset found;
    enum error error = segment_find_max_timestamp(newest, &found);
    if (error != OK)
        return read_error(log, error);
    if (found.offset >= 0 && found.offset < upper_offset)
        *ret_offset = (struct plog_time_offset){found.timestamp, found.offset, found.leader_epoch};
    return OK;
}
