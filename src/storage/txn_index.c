#include "storage/txn_index.h"

#include "base/bytes.h"

#define TXN_INDEX_VERSION 0

void txn_index_init(struct txn_index *x, struct fs *fs, const char *path, int64_t base_offset)
{
    index_file_init(&x->file, fs, path, TXN_INDEX_ENTRY_BYTES);
    x->base_offset = base_offset;
}

void txn_index_fini(struct txn_index *x)
{
    index_file_fini(&x->file);
}

void txn_index_decode(const uint8_t *entry, struct aborted_txn *ret_txn)
{
    *ret_txn = (struct aborted_txn){
        .producer_id = get_i64(entry + 2),
        .first_offset = get_i64(entry + 10),
        .last_offset = get_i64(entry + 18),
        .last_stable_offset = get_i64(entry + 26),
    };
}

static enum error get(struct txn_index *x, uint64_t i, struct aborted_txn *ret_txn)
{
    const uint8_t *entry;
    enum error error = index_file_get(&x->file, i, &entry);
    if (error != OK)
        return error;
    if (get_i16(entry) != TXN_INDEX_VERSION)
        return ERR_UNSUPPORTED;
    txn_index_decode(entry, ret_txn);
    return OK;
}

enum error txn_index_append(struct txn_index *x, const struct aborted_txn *txn)
{
    enum error error = index_file_make_writable(&x->file);
    struct aborted_txn last;
    if (error == OK && x->file.count > 0) {
        error = get(x, x->file.count - 1, &last);
        if (error == OK && txn->last_offset <= last.last_offset)
            error = ERR_INVALID;
    }
    if (error != OK)
        return error;
    uint8_t entry[TXN_INDEX_ENTRY_BYTES];
    put_i16(entry, TXN_INDEX_VERSION);
    put_i64(entry + 2, txn->producer_id);
    put_i64(entry + 10, txn->first_offset);
    put_i64(entry + 18, txn->last_offset);
    put_i64(entry + 26, txn->last_stable_offset);
    return index_file_append(&x->file, entry);
}

enum error txn_index_collect(struct txn_index *x, int64_t from, int64_t upper,
                             void (*visit)(void *arg, const struct aborted_txn *txn), void *arg, bool *ret_complete)
{
    enum error error = index_file_load(&x->file);
    if (error != OK)
        return error;
    for (uint64_t i = 0; i < x->file.count; i++) {
        struct aborted_txn txn;
        error = get(x, i, &txn);
        if (error != OK)
            return error;
        if (txn.last_offset >= from && txn.first_offset < upper)
            visit(arg, &txn);
        if (txn.last_stable_offset >= upper) {
            *ret_complete = true;
            return OK;
        }
    }
    *ret_complete = false;
    return OK;
}

enum error txn_index_truncate(struct txn_index *x, int64_t offset)
{
    enum error error = index_file_load(&x->file);
    if (error != OK || x->file.count == 0)
        return error;
    uint64_t kept = 0;
    for (; kept < x->file.count; kept++) {
        struct aborted_txn txn;
        error = get(x, kept, &txn);
        if (error != OK)
            return error;
        if (txn.last_offset >= offset)
            break;
    }
    return kept < x->file.count ? index_file_truncate(&x->file, kept) : OK;
}

enum error txn_index_check(struct txn_index *x)
{
    enum error error = index_file_load(&x->file);
    for (uint64_t i = 0; error == OK && i < x->file.count; i++) {
        struct aborted_txn txn;
        error = get(x, i, &txn);
        if (error == ERR_UNSUPPORTED || (error == OK && (txn.last_offset < x->base_offset || txn.first_offset > txn.last_offset)))
            error = ERR_CORRUPT;
    }
    return error;
}
