#include "store_help.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codec/batch_builder.h"
#include "codec/control.h"

int scratch_setup(void **state)
{
    struct scratch *s = calloc(1, sizeof(*s));
    snprintf(s->dir, sizeof(s->dir), "unit-store-XXXXXX");
    *state = s;
    return mkdtemp(s->dir) == NULL;
}

int scratch_teardown(void **state)
{
    struct scratch *s = *state;
    enum error error = fs_remove_tree(fs_system(), s->dir);
    free(s);
    return error;
}

const char *path_in(const char *dir, const char *name)
{
    static char ring[8][PATH_MAX];
    static int next;
    char *out = ring[next++ % 8];
    snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return out;
}

void read_file(const char *path, struct buf *out)
{
    buf_clear(out);
    assert_ok(fs_read_file(fs_system(), path, 64 * 1024 * 1024, out));
}

void write_file(const char *path, const void *data, size_t len)
{
    struct file *file;
    assert_ok(fs_open(fs_system(), path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file));
    if (len > 0)
        assert_ok(file_pwrite(file, data, len, 0));
    file_close(file);
}

void copy_file(const char *from_dir, const char *name, const char *to_dir)
{
    struct buf content = {0};
    read_file(path_in(from_dir, name), &content);
    write_file(path_in(to_dir, name), content.data, content.len);
    buf_fini(&content);
}

void assert_files_equal(const char *path, const char *golden_path)
{
    struct buf ours = {0}, golden = {0};
    read_file(path, &ours);
    read_file(golden_path, &golden);
    assert_int_equal(ours.len, golden.len);
    assert_memory_equal(ours.data, golden.data, golden.len);
    buf_fini(&ours);
    buf_fini(&golden);
}

void put_batch(struct buf *out, int64_t offset, int64_t timestamp, size_t payload)
{
    struct batch_builder builder;
    struct batch_params params = BATCH_PARAMS_INIT;
    uint8_t *value = calloc(1, payload + 1);
    params.base_offset = offset;
    params.leader_epoch = 3;
    batch_builder_init(&builder, &params);
    assert_ok(batch_builder_add(&builder, &(struct batch_record){.timestamp = timestamp, .value = {value, (int64_t)payload}}));
    assert_ok(batch_builder_finish(&builder, out));
    batch_builder_fini(&builder);
    free(value);
}

void put_batch_of(struct buf *out, int64_t offset, int count, int64_t timestamp)
{
    struct batch_builder builder;
    struct batch_params params = BATCH_PARAMS_INIT;
    params.base_offset = offset;
    params.leader_epoch = 3;
    batch_builder_init(&builder, &params);
    for (int i = 0; i < count; i++)
        assert_ok(
            batch_builder_add(&builder, &(struct batch_record){.timestamp = timestamp + i, .value = {(const uint8_t *)"v", 1}}));
    assert_ok(batch_builder_finish(&builder, out));
    batch_builder_fini(&builder);
}

void append_batches(struct segment *s, const struct buf *batches, int64_t index_interval_bytes)
{
    struct segment_batch notes[1024];
    int count = 0;
    struct batch_iter it;
    const uint8_t *batch;
    batch_iter_init(&it, buf_bytes(batches));
    while (batch_iter_next(&it, &batch) == BATCH_FOUND)
        notes[count++] =
            (struct segment_batch){(uint32_t)batch_size_bytes(batch), batch_last_offset(batch), batch_max_timestamp(batch)};
    struct iovec iov = {batches->data, batches->len};
    assert_ok(segment_append(s, &iov, 1, notes, count, index_interval_bytes));
}

enum error replay_batch(void *arg, const uint8_t *batch, uint64_t pos)
{
    struct producer_state *ps = arg;
    if (batch_is_control(batch)) {
        struct control_record control;
        enum error error = control_parse(batch, &control);
        if (error == OK && control_is_end_txn(&control))
            error = producer_state_stage_marker(ps, PRODUCER_COPIED, batch_producer_id(batch), batch_producer_epoch(batch),
                                                control.type == CONTROL_COMMIT, control.coordinator_epoch,
                                                batch_base_offset(batch), control.timestamp, NULL);
        return error;
    }
    struct producer_batch_info info = {
        .producer_id = batch_producer_id(batch),
        .base_offset = batch_base_offset(batch),
        .last_offset = batch_last_offset(batch),
        .max_timestamp = batch_max_timestamp(batch),
        .base_sequence = batch_base_sequence(batch),
        .producer_epoch = batch_producer_epoch(batch),
        .transactional = batch_is_transactional(batch),
    };
    return producer_state_stage_batch(ps, PRODUCER_COPIED, &info, NULL);
}
