/* A partition's folder that holds anything: plog_open must survive it, and what it opens must be a log that serves, takes writes and opens again. Input: flags (1 clean end,
 * 2 CRCs of the .log files are put right, 4 recovery point known), then files: kind, base offset in tens, length in two bytes, content. */
#include <stdio.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/batch_builder.h"
#include "memory_fs.h"
#include "storage/plog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const KINDS[] = {
    ".log",      ".index",       ".timeindex",  ".txnindex",   ".snapshot", "leader-epoch-checkpoint", "partition.metadata",
    ".log.swap", ".log.cleaned", ".index.swap", ".log.deleted"};

static void put_file(struct memory_fs *d, const char *path, const uint8_t *data, size_t len, bool fix)
{
    struct file *file;
    ASSERT(fs_open(&d->fs, path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file) == OK);
    struct buf copy = {0};
    buf_append(&copy, data, len);
    struct batch_iter it;
    const uint8_t *batch;
    batch_iter_init(&it, buf_bytes(&copy));
    while (fix && batch_iter_next(&it, &batch) == BATCH_FOUND)
        batch_update_crc(copy.data + (batch - copy.data));
    ASSERT(len == 0 || file_pwrite(file, copy.data, len, 0) == OK);
    buf_fini(&copy);
    file_close(file);
}

static void put_files(struct memory_fs *d, const uint8_t *data, size_t size, bool fix)
{
    for (int files = 0; size >= 4 && files < 20; files++) {
        const char *kind = KINDS[data[0] % ARRAY_SIZE(KINDS)];
        size_t len = MIN((size_t)get_u16(data + 2), size - 4);
        char path[100];
        int64_t base = data[1] == 255 ? INT64_MAX : (int64_t)data[1] * 10;
        if (kind[0] == '.')
            snprintf(path, sizeof(path), "/sim/t-0/%020lld%s", (long long)base, kind);
        else
            snprintf(path, sizeof(path), "/sim/t-0/%s", kind);
        put_file(d, path, data + 4, len, fix && strstr(kind, ".log") != NULL);
        data += 4 + len;
        size -= 4 + len;
    }
}

static void read_through(struct plog *log)
{
    struct plog_slice slice;
    struct plog_time_offset found;
    struct plog_aborted *aborted;
    struct arena arena;
    struct buf bytes = {0};
    int count;
    int64_t offset = plog_start_offset(log);
    arena_init(&arena, 1 << 20);
    for (int i = 0; i < 100 && plog_read(log, offset, INT64_MAX, 1000, true, &slice) == OK && slice.segment != NULL; i++) {
        buf_clear(&bytes);
        (void)!plog_slice_copy(&slice, &bytes);
        (void)!plog_aborted_for(log, offset, &slice, &arena, &aborted, &count);
        bool on = slice.end_offset > offset;
        offset = slice.end_offset;
        plog_slice_release(&slice);
        if (!on)
            break;
    }
    (void)!plog_offset_for_time(log, 5, INT64_MAX, &found);
    (void)!plog_offset_of_max_time(log, INT64_MAX, &found);
    (void)plog_last_stable_offset(log);
    buf_fini(&bytes);
    arena_fini(&arena);
}

static void write_something(struct plog *log)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_builder builder;
    struct buf batch = {0};
    struct plog_appended appended;
    int expired;
    params.base_offset = MIN(plog_end_offset(log), INT64_MAX - 10);
    params.producer_id = 7;
    params.producer_epoch = 0;
    params.base_sequence = 0;
    batch_builder_init(&builder, &params);
    ASSERT(batch_builder_add(&builder, &(struct batch_record){.timestamp = 5}) == OK);
    ASSERT(batch_builder_finish(&builder, &batch) == OK);
    batch_builder_fini(&builder);
    (void)!plog_append_copied(log, buf_bytes(&batch), &appended, NULL);
    (void)!plog_roll(log);
    (void)!plog_append_barrier(log, STR("source"), 0, 99, &appended, &expired);
    buf_fini(&batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_fs d;
    struct plog *log;
    struct problem problem;
    if (size < 1)
        return 0;
    memory_fs_init(&d);
    ASSERT(fs_mkdirs(&d.fs, "/sim/t-0") == OK);
    put_files(&d, data + 1, size - 1, data[0] & 2);
    struct plog_params params = {
        .fs = &d.fs,
        .clock = CLOCK_SYSTEM,
        .dir = "/sim/t-0",
        .cluster_id = "own",
        .config = {.segment_bytes = 100000,
                   .segment_ms = INT64_MAX,
                   .segment_index_bytes = 10000,
                   .index_interval_bytes = 100,
                   .retention_ms = -1,
                   .retention_bytes = -1},
        .recovery_point = data[0] & 4 ? 10 : -1,
        .log_start_offset = -1,
        .high_watermark = -1,
        .clean_shutdown = data[0] & 1,
    };
    if (plog_open(&params, &log, &problem) == OK) {
        read_through(log);
        write_something(log);
        (void)!plog_truncate_to(log, plog_end_offset(log) - 1);
        bool failed = plog_failed(log);
        (void)plog_close(log, false);
        params.recovery_point = 0;
        params.clean_shutdown = false;
        if (!failed) {
            ASSERT(plog_open(&params, &log, &problem) == OK);
            (void)plog_close(log, true);
        }
    }
    memory_fs_fini(&d);
    return 0;
}
