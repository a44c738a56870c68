/* Producer snapshots: see producer_state.h for the layout.
 *
 * Crash argument: a snapshot appears by a rename of a finished file. One that was not synced before the rename may be torn by a power cut; its CRC tells, and an older one (or the
 * log's start) and a longer replay take its place. A snapshot above the LEO, left by a crash or a truncation, is removed before one is loaded. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "codec/record_batch.h"
#include "storage/producer_state_private.h"
#include "storage/segment.h"

#define SNAPSHOT_VERSION 1
#define SNAPSHOT_HEAD_BYTES 10
#define SNAPSHOT_CRC_POS 2
#define SNAPSHOT_DATA_POS 6
#define SNAPSHOT_ENTRY_BYTES 46

/* ---- Bytes ---- */

static int by_producer_id(const void *a, const void *b)
{
    const struct producer_entry *const *x = a, *const *y = b;
    return ((*x)->producer_id > (*y)->producer_id) - ((*x)->producer_id < (*y)->producer_id);
}

static void encode_entry(uint8_t *p, const struct producer_entry *e)
{
    put_i64(p, e->producer_id);
    put_i16(p + 8, e->producer_epoch);
    put_i32(p + 10, producer_entry_last_sequence(e));
    put_i64(p + 14, producer_entry_last_offset(e));
    put_i32(p + 22, e->batch_count > 0 ? e->batches[e->batch_count - 1].offset_delta : 0);
    put_i64(p + 26, e->last_timestamp);
    put_i32(p + 34, e->coordinator_epoch);
    put_i64(p + 38, e->current_txn_first_offset);
}

void producer_state_encode(const struct producer_state *ps, struct buf *out)
{
    int count = ps->producers.count;
    const struct producer_entry **sorted = mem_calloc((size_t)count + 1, sizeof(*sorted));
    for (int i = 0; i < count; i++)
        sorted[i] = &ps->producers.entries[i];
    qsort(sorted, (size_t)count, sizeof(*sorted), by_producer_id);

    size_t bytes = SNAPSHOT_HEAD_BYTES + (size_t)count * SNAPSHOT_ENTRY_BYTES;
    uint8_t *p = buf_reserve(out, bytes);
    put_i16(p, SNAPSHOT_VERSION);
    put_i32(p + SNAPSHOT_DATA_POS, count);
    for (int i = 0; i < count; i++)
        encode_entry(p + SNAPSHOT_HEAD_BYTES + (size_t)i * SNAPSHOT_ENTRY_BYTES, sorted[i]);
    put_u32(p + SNAPSHOT_CRC_POS, crc32c(0, p + SNAPSHOT_DATA_POS, bytes - SNAPSHOT_DATA_POS));
    out->len += bytes;
    mem_free(sorted);
}

static void decode_entry(const uint8_t *p, struct producer_entry *e)
{
    *e = (struct producer_entry){
        .producer_id = get_i64(p),
        .producer_epoch = get_i16(p + 8),
        .last_timestamp = get_i64(p + 26),
        .coordinator_epoch = get_i32(p + 34),
        .current_txn_first_offset = get_i64(p + 38),
    };
    int64_t last_offset = get_i64(p + 14);
    if (last_offset < 0)
        return;
    e->batch_count = 1;
    e->batches[0] = (struct producer_batch){
        .last_sequence = get_i32(p + 10),
        .offset_delta = get_i32(p + 22),
        .last_offset = last_offset,
        .timestamp = e->last_timestamp,
    };
}

/* What no writer of ours or Kafka's makes, though its CRC is right. */
static bool entry_is_sane(const struct producer_entry *e)
{
    const struct producer_batch *b = &e->batches[0];
    return e->producer_id != NO_PRODUCER_ID && e->current_txn_first_offset >= -1 &&
           (e->batch_count == 0 ||
            (b->offset_delta >= 0 && b->offset_delta <= b->last_offset && b->last_sequence >= NO_SEQUENCE));
}

enum error producer_snapshot_decode(struct bytes in, struct producer_entry **ret_entries, int *ret_count, struct problem *problem)
{
    if (in.len < SNAPSHOT_HEAD_BYTES)
        return problem_set(problem, ERR_CORRUPT, "The producer snapshot ends after %lld bytes.", (long long)in.len);
    if (get_i16(in.p) != SNAPSHOT_VERSION)
        return problem_set(problem, ERR_UNSUPPORTED, "The producer snapshot has version %d; known is %d.", get_i16(in.p),
                           SNAPSHOT_VERSION);
    if (get_u32(in.p + SNAPSHOT_CRC_POS) != crc32c(0, in.p + SNAPSHOT_DATA_POS, (size_t)in.len - SNAPSHOT_DATA_POS))
        return problem_set(problem, ERR_CORRUPT, "The CRC of the producer snapshot does not match.");
    int32_t count = get_i32(in.p + SNAPSHOT_DATA_POS);
    if (count < 0 || in.len != SNAPSHOT_HEAD_BYTES + (int64_t)count * SNAPSHOT_ENTRY_BYTES)
        return problem_set(problem, ERR_CORRUPT, "The producer snapshot says %d producers in %lld bytes.", count,
                           (long long)in.len);
    struct producer_entry *entries = mem_calloc((size_t)count + 1, sizeof(*entries));
    for (int32_t i = 0; i < count; i++) {
        decode_entry(in.p + SNAPSHOT_HEAD_BYTES + (int64_t)i * SNAPSHOT_ENTRY_BYTES, &entries[i]);
        if (entry_is_sane(&entries[i]))
            continue;
        enum error error = problem_set(problem, ERR_CORRUPT, "Entry %d of the producer snapshot (producer %lld) cannot be.", i,
                                       (long long)entries[i].producer_id);
        mem_free(entries);
        return error;
    }
    *ret_entries = entries;
    *ret_count = count;
    return OK;
}

/* ---- Files ---- */

static char *snapshot_path(const struct producer_state *ps, int64_t offset, char out[PATH_MAX])
{
    char name[SEGMENT_NAME_MAX];
    snprintf(out, PATH_MAX, "%s/%s", ps->dir, segment_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX, name));
    return out;
}

static int by_offset(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void list_add(struct producer_state *ps, int64_t offset)
{
    if (ps->snapshot_count == ps->snapshot_capacity) {
        ps->snapshot_capacity = MAX(8, ps->snapshot_capacity * 2);
        ps->snapshots = mem_realloc(ps->snapshots, (size_t)ps->snapshot_capacity * sizeof(*ps->snapshots));
    }
    ps->snapshots[ps->snapshot_count++] = offset;
}

static enum error visit_file(void *arg, const char *name, bool is_dir)
{
    int64_t offset;
    if (!is_dir && segment_parse_name(name, PRODUCER_SNAPSHOT_SUFFIX, &offset))
        list_add(arg, offset);
    return OK;
}

enum error producer_state_load_list(struct producer_state *ps)
{
    ps->snapshot_count = 0;
    enum error error = fs_list(ps->fs, ps->dir, visit_file, ps);
    if (ps->snapshot_count > 1)
        qsort(ps->snapshots, (size_t)ps->snapshot_count, sizeof(*ps->snapshots), by_offset);
    return error;
}

static enum error remove_at(struct producer_state *ps, int index)
{
    char path[PATH_MAX];
    enum error error = fs_unlink(ps->fs, snapshot_path(ps, ps->snapshots[index], path));
    if (error != OK && error != ERR_NOT_FOUND)
        return error;
    memmove(&ps->snapshots[index], &ps->snapshots[index + 1], (size_t)(ps->snapshot_count - index - 1) * sizeof(*ps->snapshots));
    ps->snapshot_count--;
    return OK;
}

static enum error load_newest(struct producer_state *ps, int64_t now_ms, struct problem *problem)
{
    char path[PATH_MAX];
    struct buf content = {0};
    struct producer_entry *entries = NULL;
    int count = 0;
    int64_t offset = ps->snapshots[ps->snapshot_count - 1];
    enum error error = fs_read_file(ps->fs, snapshot_path(ps, offset, path), PRODUCER_SNAPSHOT_MAX_BYTES, &content);
    if (error == OK)
        error = producer_snapshot_decode(buf_bytes(&content), &entries, &count, problem);
    else if (error == ERR_TOO_LARGE)
        error = problem_set(problem, ERR_CORRUPT, "The producer snapshot is larger than %d bytes.", PRODUCER_SNAPSHOT_MAX_BYTES);
    buf_fini(&content);
    if (error != OK)
        return error;
    producer_state_fill(ps, entries, count, now_ms);
    mem_free(entries);
    ps->end_offset = ps->last_snapshot_offset = offset;
    return OK;
}

enum error producer_state_reload(struct producer_state *ps, int64_t log_start_offset, int64_t end_offset, int64_t now_ms,
                                 struct problem *ret_note)
{
    if (ret_note != NULL)
        (void)problem_set(ret_note, OK, "%s", "");
    for (int i = ps->snapshot_count - 1; i >= 0; i--) {
        if (ps->snapshots[i] > log_start_offset && ps->snapshots[i] <= end_offset)
            continue;
        enum error error = remove_at(ps, i);
        if (error != OK)
            return error;
    }
    producer_state_clear(ps);
    while (ps->snapshot_count > 0) {
        struct problem damage = {0};
        int64_t offset = ps->snapshots[ps->snapshot_count - 1];
        enum error error = load_newest(ps, now_ms, &damage);
        if (error == OK)
            return OK;
        if (error != ERR_CORRUPT && error != ERR_UNSUPPORTED && error != ERR_NOT_FOUND)
            return error;
        if (ret_note != NULL) {
            (void)problem_set(
                ret_note, ERR_CORRUPT,
                "The producer snapshot at offset %lld in %s was removed: the state is built from an older one or from the log.",
                (long long)offset, ps->dir);
            problem_detail(ret_note, "%s", damage.message);
        }
        error = remove_at(ps, ps->snapshot_count - 1);
        if (error != OK)
            return error;
    }
    ps->end_offset = ps->last_snapshot_offset = log_start_offset;
    return OK;
}

enum error producer_state_restart(struct producer_state *ps, int64_t offset)
{
    producer_state_clear(ps);
    ps->end_offset = ps->last_snapshot_offset = offset;
    while (ps->snapshot_count > 0) {
        enum error error = remove_at(ps, ps->snapshot_count - 1);
        if (error != OK)
            return error;
    }
    return OK;
}

/* Without a sync: appears whole to whoever looks, but a power cut may lose or tear it. */
static enum error write_quick(struct fs *fs, const char *path, const struct buf *content)
{
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    struct file *file;
    enum error error = fs_open(fs, temporary, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file);
    if (error != OK)
        return error;
    error = file_pwrite(file, content->data, content->len, 0);
    file_close(file);
    if (error == OK)
        error = fs_rename(fs, temporary, path);
    if (error != OK)
        (void)!fs_unlink(fs, temporary);
    return error;
}

enum error producer_state_take_snapshot(struct producer_state *ps, bool sync)
{
    if (ps->end_offset <= ps->last_snapshot_offset)
        return OK;
    char path[PATH_MAX];
    struct buf content = {0};
    producer_state_encode(ps, &content);
    snapshot_path(ps, ps->end_offset, path);
    enum error error = sync ? fs_write_atomic(ps->fs, path, content.data, content.len) : write_quick(ps->fs, path, &content);
    buf_fini(&content);
    if (error != OK)
        return error;
    if (ps->snapshot_count == 0 || ps->snapshots[ps->snapshot_count - 1] < ps->end_offset)
        list_add(ps, ps->end_offset);
    ps->last_snapshot_offset = ps->end_offset;
    return OK;
}

enum error producer_state_remove_snapshots_before(struct producer_state *ps, int64_t offset)
{
    while (ps->snapshot_count > 1 && ps->snapshots[0] < offset) {
        enum error error = remove_at(ps, 0);
        if (error != OK)
            return error;
    }
    return OK;
}

enum error producer_state_remove_snapshot(struct producer_state *ps, int64_t offset)
{
    for (int i = 0; i < ps->snapshot_count; i++) {
        if (ps->snapshots[i] == offset)
            return remove_at(ps, i);
    }
    return OK;
}

int producer_state_snapshots(const struct producer_state *ps, const int64_t **ret_offsets)
{
    *ret_offsets = ps->snapshots;
    return ps->snapshot_count;
}
