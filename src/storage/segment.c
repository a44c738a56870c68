/* Life of a segment, appending, files. See segment.h; finding is in segment_find.c, recovery and truncation in segment_recover.c. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "storage/segment_private.h"

static const char *const SUFFIXES[SEGMENT_FILES] = {SEGMENT_LOG_SUFFIX, SEGMENT_INDEX_SUFFIX, SEGMENT_TIME_INDEX_SUFFIX,
                                                    SEGMENT_TXN_INDEX_SUFFIX};

#define NAME_DIGITS 20

char *segment_file_name(int64_t base_offset, const char *suffix, char out[SEGMENT_NAME_MAX])
{
    snprintf(out, SEGMENT_NAME_MAX, "%020lld%s", (long long)base_offset, suffix);
    return out;
}

bool segment_parse_name(const char *name, const char *suffix, int64_t *ret_base_offset)
{
    if (strlen(name) < NAME_DIGITS || strcmp(name + NAME_DIGITS, suffix) != 0)
        return false;
    for (int i = 0; i < NAME_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
    }
    return str_to_i64((struct str){name, NAME_DIGITS}, ret_base_offset);
}

/* ---- Life ---- */

static char *make_path(const char *dir, int64_t base_offset, const char *suffix)
{
    char name[SEGMENT_NAME_MAX], path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, segment_file_name(base_offset, suffix, name));
    return mem_strdup(path);
}

static struct segment *segment_new(struct fs *fs, const char *dir, int64_t base_offset)
{
    struct segment *s = mem_calloc(1, sizeof(*s));
    atomic_init(&s->refs, 1);
    s->fs = fs;
    s->dir = mem_strdup(dir);
    s->base_offset = base_offset;
    s->next_offset = -1;
    for (int i = 0; i < SEGMENT_FILES; i++)
        s->paths[i] = make_path(dir, base_offset, SUFFIXES[i]);
    offset_index_init(&s->index, fs, s->paths[SEGMENT_FILE_INDEX], base_offset);
    time_index_init(&s->time_index, fs, s->paths[SEGMENT_FILE_TIME_INDEX], base_offset);
    txn_index_init(&s->txn_index, fs, s->paths[SEGMENT_FILE_TXN_INDEX], base_offset);
    return s;
}

static void segment_free(struct segment *s)
{
    file_close(s->log);
    offset_index_fini(&s->index);
    time_index_fini(&s->time_index);
    txn_index_fini(&s->txn_index);
    for (int i = 0; i < SEGMENT_FILES; i++)
        mem_free(s->paths[i]);
    mem_free(s->dir);
    mem_free(s);
}

struct segment *segment_ref(struct segment *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void segment_unref(struct segment *s)
{
    if (s != NULL && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        segment_free(s);
}

static enum error create_files(struct segment *s)
{
    uint64_t size = 0;
    int64_t modified_ms;
    bool is_dir;
    enum error error = fs_stat(s->fs, s->paths[SEGMENT_FILE_LOG], &is_dir, &size, &modified_ms);
    if (error == OK && size > 0)
        return ERR_EXISTS;
    if (error != OK && error != ERR_NOT_FOUND)
        return error;
    for (int i = SEGMENT_FILE_INDEX; i < SEGMENT_FILES; i++) {
        error = fs_unlink(s->fs, s->paths[i]);
        if (error != OK && error != ERR_NOT_FOUND)
            return error;
    }
    return fs_open(s->fs, s->paths[SEGMENT_FILE_LOG], FILE_WRITE | FILE_CREATE, &s->log);
}

enum error segment_create(struct fs *fs, const char *dir, int64_t base_offset, struct segment **ret_segment)
{
    struct segment *s = segment_new(fs, dir, base_offset);
    enum error error = create_files(s);
    if (error == OK)
        error = segment_activate(s);
    if (error != OK) {
        segment_unref(s);
        return error;
    }
    s->largest = (struct timestamp_offset){-1, base_offset};
    s->largest_known = true;
    s->next_offset = base_offset;
    *ret_segment = s;
    return OK;
}

enum error segment_open(struct fs *fs, const char *dir, int64_t base_offset, struct segment **ret_segment)
{
    struct segment *s = segment_new(fs, dir, base_offset);
    int64_t modified_ms;
    bool is_dir;
    enum error error = fs_stat(fs, s->paths[SEGMENT_FILE_LOG], &is_dir, &s->size_bytes, &modified_ms);
    if (error == OK && is_dir)
        error = ERR_CORRUPT;
    if (error != OK) {
        segment_unref(s);
        return error;
    }
    *ret_segment = s;
    return OK;
}

enum error segment_file(struct segment *s, struct file **ret_file)
{
    if (s->log == NULL) {
        enum error error = fs_open(s->fs, s->paths[SEGMENT_FILE_LOG], FILE_WRITE, &s->log);
        if (error != OK)
            return error;
    }
    *ret_file = s->log;
    return OK;
}

enum error segment_activate(struct segment *s)
{
    struct file *log;
    struct timestamp_offset largest;
    struct offset_position last;
    enum error error = segment_file(s, &log);
    if (error == OK)
        error = index_file_make_writable(&s->index.file);
    if (error == OK)
        error = index_file_make_writable(&s->time_index.file);
    if (error == OK)
        error = index_file_make_writable(&s->txn_index.file);
    if (error == OK)
        error = segment_largest_timestamp(s, &largest);
    if (error == OK)
        error = offset_index_last(&s->index, &last);
    if (error != OK)
        return error;
    s->bytes_since_index_entry = s->size_bytes > last.pos ? s->size_bytes - last.pos : 0;
    s->active = true;
    return OK;
}

/* What a failed append left behind goes durably before anything takes its place: a power cut that kept the old bytes and lost the new ones would leave two histories at one
 * offset and leader epoch. */
static enum error drop_garbage(struct segment *s)
{
    enum error error = segment_cut_log(s, s->size_bytes);
    if (error != OK)
        return error;
    error = file_sync(s->log);
    s->tail_garbage = error != OK;
    return error == ERR_NO_SPACE ? ERR_IO : error;
}

enum error segment_seal(struct segment *s)
{
    struct timestamp_offset largest;
    enum error error = segment_largest_timestamp(s, &largest);
    if (error == OK && largest.timestamp >= 0)
        error = time_index_append(&s->time_index, largest.timestamp, largest.offset);
    if (error == OK)
        error = index_file_seal(&s->index.file, true);
    if (error == OK)
        error = index_file_seal(&s->time_index.file, true);
    if (error == OK)
        error = index_file_seal(&s->txn_index.file, false);
    if (error == OK && s->tail_garbage)
        error = drop_garbage(s);
    if (error == OK)
        s->active = false;
    return error;
}

void segment_rest(struct segment *s, int holders)
{
    if (s->active || s->tail_garbage || s->deleted || atomic_load_explicit(&s->refs, memory_order_acquire) != holders)
        return;
    index_file_rest(&s->index.file);
    index_file_rest(&s->time_index.file);
    index_file_rest(&s->txn_index.file);
    file_close(s->log);
    s->log = NULL;
}

/* ---- Facts ---- */

int64_t segment_base_offset(const struct segment *s)
{
    return s->base_offset;
}

uint64_t segment_size_bytes(const struct segment *s)
{
    return s->size_bytes;
}

bool segment_is_active(const struct segment *s)
{
    return s->active;
}

bool segment_is_blank(const struct segment *s)
{
    return s->size_bytes == 0 && !s->tail_garbage;
}

void segment_distrust_tail(struct segment *s)
{
    s->tail_garbage = true;
}

uint64_t segment_index_size_bytes(struct segment *s)
{
    if (index_file_load(&s->index.file) != OK || index_file_load(&s->time_index.file) != OK ||
        index_file_load(&s->txn_index.file) != OK)
        return 0;
    return s->index.file.count * OFFSET_INDEX_ENTRY_BYTES + s->time_index.file.count * TIME_INDEX_ENTRY_BYTES +
           s->txn_index.file.count * TXN_INDEX_ENTRY_BYTES;
}

bool segment_fits_offset(const struct segment *s, int64_t last_offset)
{
    return last_offset >= s->base_offset && last_offset - s->base_offset <= INT32_MAX;
}

bool segment_index_full(struct segment *s, int64_t max_index_bytes)
{
    uint64_t max = max_index_bytes < 0 ? 0 : (uint64_t)max_index_bytes;
    /* The time index keeps one place free for its last entry. */
    return s->index.file.count >= max / OFFSET_INDEX_ENTRY_BYTES || s->time_index.file.count + 1 >= max / TIME_INDEX_ENTRY_BYTES;
}

enum error segment_modified_ms(struct segment *s, int64_t *ret_ms)
{
    bool is_dir;
    uint64_t size;
    return fs_stat(s->fs, s->paths[SEGMENT_FILE_LOG], &is_dir, &size, ret_ms);
}

/* ---- Appending ---- */

enum error segment_cut_log(struct segment *s, uint64_t size_bytes)
{
    struct file *log;
    enum error error = segment_file(s, &log);
    if (error == OK)
        error = file_truncate(log, size_bytes);
    if (error != OK) {
        s->tail_garbage = true;
        return error;
    }
    s->size_bytes = size_bytes;
    s->tail_garbage = false;
    memset(s->followed, 0, sizeof(s->followed));
    return OK;
}

/* An index that can't write its entries now keeps them in memory and tries again; segment_seal() reports it. So nothing here fails after the log was written. */
void segment_note_batch(struct segment *s, const struct segment_batch *batch, uint64_t pos, int64_t index_interval_bytes)
{
    if (batch->max_timestamp > s->largest.timestamp)
        s->largest = (struct timestamp_offset){batch->max_timestamp, batch->last_offset};
    if (s->bytes_since_index_entry > (uint64_t)MAX(index_interval_bytes, 0)) {
        (void)!offset_index_append(&s->index, batch->last_offset, pos);
        (void)!time_index_append(&s->time_index, s->largest.timestamp, s->largest.offset);
        s->bytes_since_index_entry = 0;
    }
    s->bytes_since_index_entry += batch->bytes;
    s->next_offset = batch->last_offset + 1;
}

static enum error check_append(const struct segment *s, const struct iovec *iov, int iov_count,
                               const struct segment_batch *batches, int batch_count)
{
    uint64_t given = 0, described = 0;
    for (int i = 0; i < iov_count; i++)
        given += iov[i].iov_len;
    for (int i = 0; i < batch_count; i++) {
        described += batches[i].bytes;
        ASSERT(segment_fits_offset(s, batches[i].last_offset));
        ASSERT(i == 0 || batches[i].last_offset > batches[i - 1].last_offset);
    }
    ASSERT(given == described);
    return s->size_bytes + given > SEGMENT_MAX_BYTES ? ERR_TOO_LARGE : OK;
}

enum error segment_append(struct segment *s, const struct iovec *iov, int iov_count, const struct segment_batch *batches,
                          int batch_count, int64_t index_interval_bytes)
{
    ASSERT(s->active);
    enum error error = check_append(s, iov, iov_count, batches, batch_count);
    if (error == OK && s->tail_garbage)
        error = drop_garbage(s);
    if (error != OK)
        return error;
    error = file_pwritev(s->log, iov, iov_count, s->size_bytes);
    if (error != OK) {
        s->tail_garbage = true;
        return error;
    }
    for (int i = 0; i < batch_count; i++) {
        segment_note_batch(s, &batches[i], s->size_bytes, index_interval_bytes);
        s->size_bytes += batches[i].bytes;
    }
    return OK;
}

enum error segment_append_aborted(struct segment *s, const struct aborted_txn *txn)
{
    ASSERT(s->active);
    return txn_index_append(&s->txn_index, txn);
}

enum error segment_sync(struct segment *s)
{
    enum error error = s->log != NULL ? file_sync(s->log) : OK;
    if (s->active)
        return error;
    if (error == OK)
        error = index_file_sync(&s->index.file);
    if (error == OK)
        error = index_file_sync(&s->time_index.file);
    if (error == OK)
        error = index_file_sync(&s->txn_index.file);
    return error;
}

/* ---- Removal ---- */

static void use_path(struct segment *s, int kind, char *path)
{
    mem_free(s->paths[kind]);
    s->paths[kind] = path;
    if (kind == SEGMENT_FILE_INDEX)
        index_file_moved(&s->index.file, path);
    else if (kind == SEGMENT_FILE_TIME_INDEX)
        index_file_moved(&s->time_index.file, path);
    else if (kind == SEGMENT_FILE_TXN_INDEX)
        index_file_moved(&s->txn_index.file, path);
}

enum error segment_mark_deleted(struct segment *s)
{
    if (s->deleted)
        return OK;
    for (int i = 0; i < SEGMENT_FILES; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s%s", s->paths[i], SEGMENT_DELETED_SUFFIX);
        enum error error = fs_rename(s->fs, s->paths[i], path);
        if (error != OK && error != ERR_NOT_FOUND)
            return error;
        use_path(s, i, mem_strdup(path));
    }
    s->deleted = true;
    return OK;
}

enum error segment_remove_files(struct segment *s)
{
    for (int i = 0; i < SEGMENT_FILES; i++) {
        enum error error = fs_unlink(s->fs, s->paths[i]);
        if (error != OK && error != ERR_NOT_FOUND)
            return error;
    }
    return OK;
}
