#include "storage/time_index.h"

#include "base/bytes.h"

static bool timestamp_at_most(const uint8_t *entry, int64_t key)
{
    return get_i64(entry) <= key;
}

static bool relative_at_most(const uint8_t *entry, int64_t key)
{
    return get_i32(entry + 8) <= key;
}

void time_index_init(struct time_index *x, struct fs *fs, const char *path, int64_t base_offset)
{
    index_file_init(&x->file, fs, path, TIME_INDEX_ENTRY_BYTES);
    x->base_offset = base_offset;
}

void time_index_fini(struct time_index *x)
{
    index_file_fini(&x->file);
}

static enum error entry_before(struct time_index *x, uint64_t n, struct timestamp_offset *ret_entry)
{
    if (n == 0) {
        *ret_entry = (struct timestamp_offset){-1, x->base_offset};
        return OK;
    }
    const uint8_t *entry;
    enum error error = index_file_get(&x->file, n - 1, &entry);
    if (error != OK)
        return error;
    if (get_i32(entry + 8) < 0)
        return ERR_CORRUPT;
    *ret_entry = (struct timestamp_offset){get_i64(entry), x->base_offset + get_i32(entry + 8)};
    return OK;
}

enum error time_index_append(struct time_index *x, int64_t timestamp, int64_t offset)
{
    struct timestamp_offset last;
    enum error error = time_index_last(x, &last);
    if (error != OK || timestamp <= last.timestamp)
        return error;
    int64_t relative = offset - x->base_offset;
    if (relative < 0 || relative > INT32_MAX || offset < last.offset)
        return ERR_INVALID;
    uint8_t entry[TIME_INDEX_ENTRY_BYTES];
    put_i64(entry, timestamp);
    put_i32(entry + 8, (int32_t)relative);
    return index_file_append(&x->file, entry);
}

enum error time_index_lookup(struct time_index *x, int64_t timestamp, struct timestamp_offset *ret_entry)
{
    uint64_t n;
    enum error error = index_file_search(&x->file, timestamp_at_most, timestamp, &n);
    return error != OK ? error : entry_before(x, n, ret_entry);
}

enum error time_index_last(struct time_index *x, struct timestamp_offset *ret_entry)
{
    enum error error = index_file_load(&x->file);
    return error != OK ? error : entry_before(x, x->file.count, ret_entry);
}

enum error time_index_truncate(struct time_index *x, int64_t offset)
{
    uint64_t n = 0;
    if (offset > x->base_offset) {
        enum error error = index_file_search(&x->file, relative_at_most, offset - x->base_offset - 1, &n);
        if (error != OK)
            return error;
    }
    return index_file_truncate(&x->file, n);
}

enum error time_index_check(struct time_index *x)
{
    struct timestamp_offset first, last;
    enum error error = index_file_load(&x->file);
    if (error != OK || x->file.count == 0)
        return error;
    error = entry_before(x, 1, &first);
    if (error == OK)
        error = entry_before(x, x->file.count, &last);
    if (error != OK)
        return error;
    return x->file.count > 1 && (first.timestamp >= last.timestamp || first.offset > last.offset) ? ERR_CORRUPT : OK;
}
