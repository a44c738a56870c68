#include "storage/index_file.h"

#include <string.h>

#include "base/assert.h"

#define BLOCK_BYTES 4096 /* read at once; and so many unwritten bytes are worth a write */

void index_file_init(struct index_file *x, struct fs *fs, const char *path, uint32_t entry_bytes)
{
    ASSERT(entry_bytes > 0 && entry_bytes <= INDEX_MAX_ENTRY);
    *x = (struct index_file){.fs = fs, .path = path, .entry_bytes = entry_bytes, .block_first = UINT64_MAX};
}

void index_file_fini(struct index_file *x)
{
    file_close(x->file);
    buf_fini(&x->entries);
    mem_free(x->block);
    x->block = NULL;
    x->file = NULL;
    x->loaded = x->writable = false;
}

void index_file_moved(struct index_file *x, const char *path)
{
    x->path = path;
}

static bool all_zero(const uint8_t *p, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

/* How many entries stand before the tail of zero entries: the tail is the end of a preallocated file. */
static enum error skip_zero_tail(struct index_file *x, uint64_t *ret_count)
{
    uint8_t block[64 * INDEX_MAX_ENTRY];
    uint64_t count = *ret_count;
    while (count > 0) {
        uint64_t n = MIN(count, 64);
        enum error error = file_pread_all(x->file, block, n * x->entry_bytes, (count - n) * x->entry_bytes);
        if (error != OK)
            return error;
        for (; n > 0; n--, count--) {
            if (!all_zero(block + (n - 1) * x->entry_bytes, x->entry_bytes)) {
                *ret_count = count;
                return OK;
            }
        }
    }
    *ret_count = 0;
    return OK;
}

enum error index_file_load(struct index_file *x)
{
    if (x->loaded)
        return OK;
    enum error error = OK;
    if (x->file == NULL)
        error = fs_open(x->fs, x->path, FILE_WRITE, &x->file);
    uint64_t bytes = 0;
    if (error == OK)
        error = file_size(x->file, &bytes);
    else if (error == ERR_NOT_FOUND)
        error = OK;
    if (error != OK)
        return error;
    if (bytes > INDEX_MAX_BYTES)
        return ERR_CORRUPT;
    uint64_t count = bytes / x->entry_bytes;
    bool odd = bytes % x->entry_bytes != 0;
    if (count > 0) {
        uint64_t all = count;
        error = skip_zero_tail(x, &count);
        if (error != OK)
            return error;
        odd = odd && count == all;
    }
    if (odd)
        return ERR_CORRUPT;
    x->count = x->written = count;
    x->file_bytes = bytes;
    x->loaded = true;
    return OK;
}

enum error index_file_make_writable(struct index_file *x)
{
    enum error error = index_file_load(x);
    if (error != OK || x->writable)
        return error;
    buf_clear(&x->entries);
    size_t bytes = x->count * x->entry_bytes;
    if (bytes > 0) {
        if (x->file == NULL)
            error = fs_open(x->fs, x->path, FILE_WRITE, &x->file);
        if (error != OK)
            return error;
        error = file_pread_all(x->file, buf_reserve(&x->entries, bytes), bytes, 0);
        if (error != OK)
            return error;
        x->entries.len = bytes;
    }
    x->writable = true;
    mem_free(x->block);
    x->block = NULL;
    x->block_first = UINT64_MAX;
    return OK;
}

static enum error read_block(struct index_file *x, uint64_t i)
{
    uint64_t per_block = BLOCK_BYTES / x->entry_bytes;
    uint64_t first = i - i % per_block;
    uint64_t n = MIN(per_block, x->count - first);
    x->block_first = UINT64_MAX;
    if (x->block == NULL)
        x->block = mem_alloc(BLOCK_BYTES);
    enum error error = x->file != NULL ? OK : fs_open(x->fs, x->path, FILE_WRITE, &x->file);
    if (error != OK)
        return error;
    error = file_pread_all(x->file, x->block, n * x->entry_bytes, first * x->entry_bytes);
    if (error != OK)
        return error;
    x->block_first = first;
    x->block_count = (uint32_t)n;
    return OK;
}

enum error index_file_get(struct index_file *x, uint64_t i, const uint8_t **ret_entry)
{
    enum error error = index_file_load(x);
    if (error != OK)
        return error;
    ASSERT(i < x->count);
    if (x->writable) {
        *ret_entry = x->entries.data + i * x->entry_bytes;
        return OK;
    }
    if (x->block_first > i || i - x->block_first >= x->block_count) {
        error = read_block(x, i);
        if (error != OK)
            return error;
    }
    *ret_entry = x->block + (i - x->block_first) * x->entry_bytes;
    return OK;
}

enum error index_file_search(struct index_file *x, bool (*below)(const uint8_t *entry, int64_t key), int64_t key,
                             uint64_t *ret_count)
{
    enum error error = index_file_load(x);
    if (error != OK)
        return error;
    uint64_t low = 0, high = x->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const uint8_t *entry;
        error = index_file_get(x, middle, &entry);
        if (error != OK)
            return error;
        if (below(entry, key))
            low = middle + 1;
        else
            high = middle;
    }
    *ret_count = low;
    return OK;
}

static enum error open_for_write(struct index_file *x)
{
    return x->file != NULL ? OK : fs_open(x->fs, x->path, FILE_WRITE | FILE_CREATE, &x->file);
}

static enum error write_pending(struct index_file *x)
{
    if (x->written == x->count)
        return OK;
    enum error error = open_for_write(x);
    if (error != OK)
        return error;
    uint64_t pos = x->written * x->entry_bytes;
    error = file_pwrite(x->file, x->entries.data + pos, x->entries.len - pos, pos);
    if (error != OK) {
        x->file_bytes = UINT64_MAX; /* not known: some of it may be there, and be cut off from the log before it is tried again */
        return error;
    }
    x->written = x->count;
    x->file_bytes = MAX(x->file_bytes, x->entries.len);
    x->unsynced = true;
    return OK;
}

enum error index_file_append(struct index_file *x, const uint8_t *entry)
{
    enum error error = index_file_make_writable(x);
    if (error != OK)
        return error;
    buf_append(&x->entries, entry, x->entry_bytes);
    x->count++;
    /* A write that fails here is tried again by the next one: the entry is not lost. */
    if ((x->count - x->written) * x->entry_bytes >= BLOCK_BYTES)
        return write_pending(x);
    return OK;
}

enum error index_file_truncate(struct index_file *x, uint64_t count)
{
    enum error error = index_file_make_writable(x);
    if (error != OK)
        return error;
    if (count >= x->count)
        return OK;
    x->count = count;
    x->written = MIN(x->written, count);
    x->entries.len = count * x->entry_bytes;
    return OK;
}

enum error index_file_flush(struct index_file *x, bool create)
{
    enum error error = index_file_make_writable(x);
    if (error == OK && create)
        error = open_for_write(x);
    if (error == OK)
        error = write_pending(x);
    if (error != OK || x->file_bytes == x->entries.len)
        return error;
    error = file_truncate(x->file, x->entries.len);
    if (error != OK)
        return error;
    x->file_bytes = x->entries.len;
    x->unsynced = true;
    return OK;
}

enum error index_file_seal(struct index_file *x, bool create)
{
    enum error error = index_file_flush(x, create);
    if (error != OK)
        return error;
    buf_fini(&x->entries);
    x->writable = false;
    return OK;
}

void index_file_distrust(struct index_file *x)
{
    x->unsynced = true;
}

enum error index_file_sync(struct index_file *x)
{
    if (!x->unsynced || x->file == NULL)
        return OK;
    enum error error = file_sync(x->file);
    if (error == OK)
        x->unsynced = false;
    return error;
}

void index_file_rest(struct index_file *x)
{
    if (x->writable || x->unsynced)
        return;
    file_close(x->file);
    x->file = NULL;
    mem_free(x->block);
    x->block = NULL;
    x->block_first = UINT64_MAX;
}
