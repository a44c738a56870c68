/* A segment whose .log holds anything: recovered, asked, cut. What recovery leaves is sound: a second one cuts nothing. Byte 0: whether the CRCs of the batches are put right
 * first (so that what lies behind them is reached), bytes 1 to 4 an offset to ask for and to cut at. */
#include "memory_fs.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/record_batch.h"
#include "storage/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_crcs(struct buf *log)
{
    struct batch_iter it;
    const uint8_t *batch;
    batch_iter_init(&it, buf_bytes(log));
    while (batch_iter_next(&it, &batch) == BATCH_FOUND)
        batch_update_crc(log->data + (batch - log->data));
}

static void ask(struct segment *s, int64_t offset)
{
    struct segment_position found;
    struct segment_time_offset time;
    uint64_t pos, cut;
    size_t len;
    int64_t next;
    if (segment_find(s, offset, &found) == OK)
        ASSERT(found.last_offset >= offset && found.pos + found.bytes <= segment_size_bytes(s));
    if (segment_read(s, offset, INT64_MAX, 100, true, &pos, &len) == OK)
        ASSERT(len > 0 && pos + len <= segment_size_bytes(s));
    (void)!segment_find_timestamp(s, offset, 0, &time);
    (void)!segment_find_max_timestamp(s, &time);
    ASSERT(segment_truncate(s, offset, &cut) == OK);
    ASSERT(segment_next_offset(s, &next) == OK && (next <= offset || next == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_fs m;
    struct segment *s;
    struct segment_recovery first, second;
    if (size < 5)
        return 0;
    memory_fs_init(&m);
    struct memory_entry *log = memory_put(&m, "d/00000000000000000000.log", data + 5, size - 5);
    if (data[0] & 1)
        fix_crcs(&log->content);
    ASSERT(segment_open(&m.fs, "d", 0, &s) == OK);
    if (segment_recover(s, data[0] & 2 ? 0 : 100, NULL, NULL, &first) == OK) {
        ASSERT(log->content.len == first.valid_bytes);
        ASSERT(segment_recover(s, 100, NULL, NULL, &second) == OK);
        ASSERT(second.valid_bytes == first.valid_bytes && second.cut_bytes == 0 && second.batches == first.batches);
        ASSERT(segment_seal(s) == OK);
        ASSERT(segment_check(s, NULL) == OK);
        ask(s, get_i32(data + 1));
    }
    segment_unref(s);
    memory_fs_fini(&m);
    return 0;
}
