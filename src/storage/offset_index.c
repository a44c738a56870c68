#include "storage/offset_index.h"

#include "base/bytes.h"

static int64_t offset_at(const struct offset_index *x, const uint8_t *entry)
{
    return x->base_offset + get_i32(entry);
}

static bool relative_at_most(const uint8_t *entry, int64_t key)
{
    return get_i32(entry) <= key;
}

static bool pos_at_most(const uint8_t *entry, int64_t key)
{
    return get_i32(entry + 4) <= key;
}

void offset_index_init(struct offset_index *x, struct fs *fs, const char *path, int64_t base_offset)
{
    index_file_init(&x->file, fs, path, OFFSET_INDEX_ENTRY_BYTES);
    x->base_offset = base_offset;
}

void offset_index_fini(struct offset_index *x)
{
    index_file_fini(&x->file);
}

/* Entry n - 1, or the base when n is 0. A negative position is damage. */
static enum error entry_before(struct offset_index *x, uint64_t n, struct offset_position *ret_entry)
{
    if (n == 0) {
        *ret_entry = (struct offset_position){x->base_offset, 0};
        return OK;
    }
    const uint8_t *entry;
    enum error error = index_file_get(&x->file, n - 1, &entry);
    if (error != OK)
        return error;
    if (get_i32(entry) < 0 || get_i32(entry + 4) < 0)
        return ERR_CORRUPT;
    *ret_entry = (struct offset_position){offset_at(x, entry), (uint64_t)get_i32(entry + 4)};
    return OK;
}

enum error offset_index_append(struct offset_index *x, int64_t offset, uint64_t pos)
{
    struct offset_position last;
    enum error error = offset_index_last(x, &last);
    if (error != OK)
        return error;
    int64_t relative = offset - x->base_offset;
    if (relative < 0 || relative > INT32_MAX || pos > INT32_MAX || (x->file.count > 0 && offset <= last.offset))
        return ERR_INVALID;
    uint8_t entry[OFFSET_INDEX_ENTRY_BYTES];
    put_i32(entry, (int32_t)relative);
    put_i32(entry + 4, (int32_t)pos);
    return index_file_append(&x->file, entry);
}

enum error offset_index_lookup(struct offset_index *x, int64_t offset, struct offset_position *ret_entry)
{
    uint64_t n = 0;
    enum error error = OK;
    if (offset >= x->base_offset)
        error = index_file_search(&x->file, relative_at_most, offset - x->base_offset, &n);
    return error != OK ? error : entry_before(x, n, ret_entry);
}

enum error offset_index_lookup_pos(struct offset_index *x, uint64_t pos, struct offset_position *ret_entry)
{
    uint64_t n;
    enum error error = index_file_search(&x->file, pos_at_most, pos > INT64_MAX ? INT64_MAX : (int64_t)pos, &n);
    return error != OK ? error : entry_before(x, n, ret_entry);
}

enum error offset_index_last(struct offset_index *x, struct offset_position *ret_entry)
{
    enum error error = index_file_load(&x->file);
    return error != OK ? error : entry_before(x, x->file.count, ret_entry);
}

enum error offset_index_truncate(struct offset_index *x, int64_t offset)
{
    uint64_t n = 0;
    if (offset > x->base_offset) {
        enum error error = index_file_search(&x->file, relative_at_most, offset - x->base_offset - 1, &n);
        if (error != OK)
            return error;
    }
    return index_file_truncate(&x->file, n);
}

enum error offset_index_check(struct offset_index *x, uint64_t log_bytes)
{
    struct offset_position first, last;
    enum error error = index_file_load(&x->file);
    if (error != OK || x->file.count == 0)
        return error;
    error = entry_before(x, 1, &first);
    if (error == OK)
        error = entry_before(x, x->file.count, &last);
    if (error != OK)
        return error;
    if (last.pos >= log_bytes || (x->file.count > 1 && (first.offset >= last.offset || first.pos >= last.pos)))
        return ERR_CORRUPT;
    return OK;
}
