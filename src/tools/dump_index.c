/* The index files of a segment, read block by block without the code that writes them: dump-log opens nothing for writing. */
#include "base/assert.h"
#include "base/bytes.h"
#include "storage/offset_index.h"
#include "storage/segment.h"
#include "storage/time_index.h"
#include "storage/txn_index.h"
#include "tools/dump.h"

#define BLOCK_ENTRIES 256

struct index_reader {
    struct dump *d;
    struct file *file;
    uint32_t entry_bytes;
    int64_t base_offset; /* of the segment, from the name */
    uint64_t entries;    /* without the tail of zeroes of a preallocated file */
    uint64_t size;
    int64_t last[2]; /* of the entry before, by the kind of index */
};

static bool all_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

/* Number of entries up to the last that is not all zeroes. */
static enum error count_entries(struct index_reader *x)
{
    uint8_t block[BLOCK_ENTRIES * INDEX_MAX_ENTRY];
    uint64_t all = x->size / x->entry_bytes;
    x->entries = 0;
    for (uint64_t i = 0; i < all; i += BLOCK_ENTRIES) {
        uint64_t n = MIN(all - i, BLOCK_ENTRIES);
        enum error error = file_pread_all(x->file, block, n * x->entry_bytes, i * x->entry_bytes);
        if (error != OK)
            return error;
        for (uint64_t k = 0; k < n; k++) {
            if (!all_zero(block + k * x->entry_bytes, x->entry_bytes))
                x->entries = i + k + 1;
        }
    }
    return OK;
}

static bool each_entry(struct index_reader *x, bool (*print)(struct index_reader *x, const uint8_t *entry, int64_t position))
{
    uint8_t block[BLOCK_ENTRIES * INDEX_MAX_ENTRY];
    bool good = true;
    for (uint64_t i = 0; i < x->entries && good && out_ok(x->d->out); i += BLOCK_ENTRIES) {
        uint64_t n = MIN(x->entries - i, BLOCK_ENTRIES);
        enum error error = file_pread_all(x->file, block, n * x->entry_bytes, i * x->entry_bytes);
        if (error != OK)
            return dump_unreadable(x->d, error);
        for (uint64_t k = 0; k < n && good; k++)
            good = print(x, block + k * x->entry_bytes, (int64_t)((i + k) * x->entry_bytes));
    }
    if (good && x->size % x->entry_bytes != 0 && x->entries == x->size / x->entry_bytes)
        good = dump_damage(x->d, (int64_t)(x->entries * x->entry_bytes), "the file ends inside an entry");
    return good;
}

static bool dump_index(struct dump *d, const char *suffix, uint32_t entry_bytes,
                       bool (*print)(struct index_reader *x, const uint8_t *entry, int64_t position))
{
    struct index_reader x = {.d = d, .entry_bytes = entry_bytes, .last = {-1, -1}};
    if (!segment_parse_name(d->name, suffix, &x.base_offset)) {
        struct problem problem = {0};
        problem_set(&problem, ERR_INVALID,
                    "The name of %s does not say the segment's base offset, to which its entries are relative.", d->path);
        problem_hint(&problem, "A segment's files are called by 20 digits: 00000000000000000000%s", suffix);
        return dump_problem(d, &problem);
    }
    enum error error = fs_open(d->fs, d->path, FILE_READ, &x.file);
    if (error != OK)
        return dump_unreadable(d, error);
    error = file_size(x.file, &x.size);
    if (error == OK)
        error = count_entries(&x);
    bool good = error != OK ? dump_unreadable(d, error) : each_entry(&x, print);
    file_close(x.file);
    return good;
}

static bool print_offset_entry(struct index_reader *x, const uint8_t *entry, int64_t position)
{
    int32_t relative = get_i32(entry), pos = get_i32(entry + 4);
    int64_t offset = x->base_offset + relative;
    dump_begin(x->d);
    dump_i64(x->d, "offset", offset);
    dump_i64(x->d, "position", pos);
    dump_end(x->d);
    if (relative < 0 || pos < 0 || offset <= x->last[0] || pos <= x->last[1])
        return dump_damage(x->d, position, "offsets and positions do not rise");
    x->last[0] = offset;
    x->last[1] = pos;
    return true;
}

bool dump_offset_index(struct dump *d)
{
    return dump_index(d, SEGMENT_INDEX_SUFFIX, OFFSET_INDEX_ENTRY_BYTES, print_offset_entry);
}

static bool print_time_entry(struct index_reader *x, const uint8_t *entry, int64_t position)
{
    int64_t timestamp = get_i64(entry), offset = x->base_offset + get_i32(entry + 8);
    dump_begin(x->d);
    dump_i64(x->d, "timestamp", timestamp);
    dump_i64(x->d, "offset", offset);
    dump_end(x->d);
    if (get_i32(entry + 8) < 0 || timestamp <= x->last[0] || offset < x->last[1])
        return dump_damage(x->d, position, "timestamps do not rise, or offsets fall");
    x->last[0] = timestamp;
    x->last[1] = offset;
    return true;
}

bool dump_time_index(struct dump *d)
{
    return dump_index(d, SEGMENT_TIME_INDEX_SUFFIX, TIME_INDEX_ENTRY_BYTES, print_time_entry);
}

static bool print_txn_entry(struct index_reader *x, const uint8_t *entry, int64_t position)
{
    int16_t version = get_i16(entry);
    if (version != 0)
        return dump_damage(x->d, position, "an entry of version %d; known is 0", version);
    struct aborted_txn txn;
    txn_index_decode(entry, &txn);
    dump_begin(x->d);
    dump_i64(x->d, "version", version);
    dump_i64(x->d, "producerId", txn.producer_id);
    dump_i64(x->d, "firstOffset", txn.first_offset);
    dump_i64(x->d, "lastOffset", txn.last_offset);
    dump_i64(x->d, "lastStableOffset", txn.last_stable_offset);
    dump_end(x->d);
    if (txn.first_offset < 0 || txn.last_offset < txn.first_offset || txn.last_offset <= x->last[0])
        return dump_damage(x->d, position, "offsets that cannot be");
    x->last[0] = txn.last_offset;
    return true;
}

bool dump_txn_index(struct dump *d)
{
    return dump_index(d, SEGMENT_TXN_INDEX_SUFFIX, TXN_INDEX_ENTRY_BYTES, print_txn_entry);
}
