/* Index files with any content: asked, cut, grown and written again. Byte 0 tells which index (modulo 3), bytes 1 to 8 a number to ask for. */
#include "memory_fs.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "storage/offset_index.h"
#include "storage/time_index.h"
#include "storage/txn_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BASE INT64_C(1000)
#define PATH "index"

static void try_offset(struct fs *fs, int64_t key)
{
    struct offset_index x;
    struct offset_position found;
    offset_index_init(&x, fs, PATH, BASE);
    if (offset_index_lookup(&x, key, &found) == OK)
        ASSERT(found.offset >= BASE && found.pos <= INT32_MAX);
    (void)!offset_index_lookup_pos(&x, (uint64_t)key, &found);
    (void)!offset_index_check(&x, (uint64_t)key);
    bool readable = offset_index_last(&x, &found) == OK;
    if (offset_index_truncate(&x, key) == OK && readable) {
        if (offset_index_last(&x, &found) == OK && found.offset < BASE + INT32_MAX && found.pos < INT32_MAX)
            ASSERT(offset_index_append(&x, found.offset + 1, found.pos + 1) == OK);
        ASSERT(index_file_seal(&x.file, true) == OK);
        ASSERT(memory_find(fs, PATH)->content.len == x.file.count * OFFSET_INDEX_ENTRY_BYTES);
    }
    offset_index_fini(&x);
}

static void try_time(struct fs *fs, int64_t key)
{
    struct time_index x;
    struct timestamp_offset found;
    time_index_init(&x, fs, PATH, BASE);
    if (time_index_lookup(&x, key, &found) == OK)
        ASSERT(found.offset >= BASE);
    (void)!time_index_check(&x);
    bool readable = time_index_last(&x, &found) == OK;
    if (time_index_truncate(&x, key) == OK && readable) {
        if (time_index_last(&x, &found) == OK && found.timestamp < INT64_MAX)
            ASSERT(time_index_append(&x, found.timestamp + 1, found.offset) == OK);
        ASSERT(index_file_seal(&x.file, true) == OK);
        ASSERT(memory_find(fs, PATH)->content.len == x.file.count * TIME_INDEX_ENTRY_BYTES);
    }
    time_index_fini(&x);
}

static void visit(void *arg, const struct aborted_txn *txn)
{
    const int64_t *from = arg;
    ASSERT(txn->last_offset >= *from);
}

static void try_txn(struct fs *fs, int64_t key)
{
    struct txn_index x;
    bool complete;
    txn_index_init(&x, fs, PATH, BASE);
    (void)!txn_index_collect(&x, key, INT64_MAX, visit, &key, &complete);
    (void)!txn_index_check(&x);
    if (txn_index_truncate(&x, key) == OK && index_file_seal(&x.file, false) == OK)
        (void)!txn_index_append(&x, &(struct aborted_txn){1, 2, key, 4});
    txn_index_fini(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_fs m;
    if (size < 9)
        return 0;
    memory_fs_init(&m);
    memory_put(&m, PATH, data + 9, size - 9);
    int64_t key = get_i64(data + 1);
    if (data[0] % 3 == 0)
        try_offset(&m.fs, key);
    else if (data[0] % 3 == 1)
        try_time(&m.fs, key);
    else
        try_txn(&m.fs, key);
    memory_fs_fini(&m);
    return 0;
}
