#include "log_fixture.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "codec/control.h"

static void on_event(void *arg, const char *dir, const char *text)
{
    struct log_fixture *f = arg;
    buf_printf(&f->events, "%s\n", text);
}

static enum error on_checkpoint(void *arg)
{
    struct log_fixture *f = arg;
    f->checkpoints++;
    if (f->log != NULL)
        f->checkpointed = plog_recovery_point(f->log);
    return OK;
}

static void on_failed(void *arg, const char *dir, enum error error)
{
    struct log_fixture *f = arg;
    f->failures++;
}

static struct plog_config small_config(void)
{
    return (struct plog_config){
        .segment_bytes = 1024 * 1024,
        .segment_ms = 7 * 24 * 3600 * INT64_C(1000),
        .segment_index_bytes = 64 * 1024,
        .index_interval_bytes = 200,
        .retention_ms = -1,
        .retention_bytes = -1,
        .cleanup_delete = true,
        .file_delete_delay_ms = 60000,
        .producer_id_expiration_ms = 24 * 3600 * INT64_C(1000),
        .validate = validate_config_default(),
    };
}

enum error log_fixture_try_open(struct log_fixture *f, struct problem *problem)
{
    return plog_open(&f->params, &f->log, problem);
}

void log_fixture_open(struct log_fixture *f)
{
    struct problem problem;
    enum error error = log_fixture_try_open(f, &problem);
    if (error != OK)
        fail_msg("plog_open: %s", problem.message);
}

static void set_params(struct log_fixture *f, struct fs *fs)
{
    snprintf(f->dir, sizeof(f->dir), "%s/topic-0", f->root);
    manual_clock_init(&f->clock, INT64_C(1760000000000));
    f->params = (struct plog_params){
        .fs = fs,
        .clock = &f->clock.clock,
        .dir = f->dir,
        .cluster_id = OWN_CLUSTER,
        .config = small_config(),
        .log_start_offset = -1,
        .high_watermark = -1,
        .event = on_event,
        .event_arg = f,
        .checkpoint = on_checkpoint,
        .failed = on_failed,
        .owner_arg = f,
    };
}

void log_fixture_init(struct log_fixture *f)
{
    memset(f, 0, sizeof(*f));
    strcpy(f->root, "/tmp/kagami-plog-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    set_params(f, fs_system());
    log_fixture_open(f);
}

void log_fixture_init_on(struct log_fixture *f, struct fs *fs)
{
    memset(f, 0, sizeof(*f));
    strcpy(f->root, "/sim");
    f->simulated = true;
    set_params(f, fs);
}

void log_fixture_fini(struct log_fixture *f)
{
    (void)plog_close(f->log, false);
    buf_fini(&f->events);
    if (!f->simulated)
        assert_int_equal(fs_remove_tree(fs_system(), f->root), OK);
}

int log_fixture_setup(void **state)
{
    static struct log_fixture f;
    log_fixture_init(&f);
    *state = &f;
    return 0;
}

int log_fixture_teardown(void **state)
{
    log_fixture_fini(*state);
    return 0;
}

void log_fixture_close(struct log_fixture *f)
{
    f->params.log_start_offset = plog_start_offset(f->log);
    f->params.high_watermark = plog_high_watermark(f->log);
    f->params.recovery_point = plog_end_offset(f->log);
    f->params.clean_shutdown = true;
    assert_int_equal(plog_close(f->log, true), OK);
    f->log = NULL;
}

void log_fixture_crash(struct log_fixture *f)
{
    f->params.log_start_offset = plog_start_offset(f->log);
    f->params.high_watermark = plog_high_watermark(f->log);
    f->params.recovery_point = f->checkpointed;
    f->params.clean_shutdown = false;
    (void)plog_close(f->log, false);
    f->log = NULL;
}

void log_fixture_remove_file(struct log_fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    assert_int_equal(unlink(path), 0);
}

bool log_fixture_has_file(struct log_fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    return access(path, F_OK) == 0;
}

struct copying {
    const char *from, *to;
};

static enum error copy_one(void *arg, const char *name, bool is_dir)
{
    const struct copying *c = arg;
    char from[300], to[300];
    struct buf content = {0};
    struct file *file;
    if (is_dir)
        return OK;
    snprintf(from, sizeof(from), "%s/%s", c->from, name);
    snprintf(to, sizeof(to), "%s/%s", c->to, name);
    assert_int_equal(fs_read_file(fs_system(), from, 100 * 1024 * 1024, &content), OK);
    assert_int_equal(fs_open(fs_system(), to, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file), OK);
    assert_int_equal(file_pwrite(file, content.data, content.len, 0), OK);
    file_close(file);
    buf_fini(&content);
    return OK;
}

void log_fixture_copy_dir(const char *from, const char *to)
{
    struct copying c = {from, to};
    assert_int_equal(fs_remove_tree(fs_system(), to), OK);
    assert_int_equal(fs_mkdirs(fs_system(), to), OK);
    assert_int_equal(fs_list(fs_system(), from, copy_one, &c), OK);
}

/* ---- Batches ---- */

static void build(struct log_fixture *f, const struct batch_spec *spec, int64_t base_offset, int32_t leader_epoch,
                  struct buf *out)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    params.base_offset = base_offset;
    params.leader_epoch = leader_epoch;
    params.producer_id = spec->producer_id;
    params.producer_epoch = spec->producer_epoch;
    params.base_sequence = spec->base_sequence;
    params.transactional = spec->transactional;
    params.codec = (enum codec)spec->codec;
    struct batch_builder builder;
    batch_builder_init(&builder, &params);
    int value_bytes = spec->value_bytes > 0 ? spec->value_bytes : 10;
    uint8_t *value = malloc((size_t)value_bytes);
    memset(value, 'v', (size_t)value_bytes);
    for (int i = 0; i < spec->records; i++) {
        struct batch_record record = {
            .timestamp = (spec->timestamp != 0 ? spec->timestamp : f->clock.now_ms) + i,
            .key = {(const uint8_t *)"key", 3},
            .value = {value, value_bytes},
        };
        assert_int_equal(batch_builder_add(&builder, &record), OK);
    }
    assert_int_equal(batch_builder_finish(&builder, out), OK);
    batch_builder_fini(&builder);
    free(value);
}

void make_batch(struct log_fixture *f, const struct batch_spec *spec, struct buf *out)
{
    build(f, spec, 0, -1, out);
}

void make_copied(struct log_fixture *f, const struct batch_spec *spec, int64_t base_offset, int32_t leader_epoch, struct buf *out)
{
    build(f, spec, base_offset, leader_epoch, out);
}

enum error append(struct log_fixture *f, const struct batch_spec *spec, struct plog_appended *ret_appended)
{
    struct buf batch = {0};
    struct validated v = {0};
    struct problem problem;
    make_batch(f, spec, &batch);
    enum error error = validate_records(buf_bytes(&batch), 11, VALIDATE_CLIENT, &f->params.config.validate, f->clock.now_ms, NULL,
                                        &v, NULL, &problem);
    if (error == OK)
        error = plog_append_client(f->log, &v, MAX(plog_latest_epoch(f->log), 0), ret_appended, &problem);
    validated_fini(&v);
    buf_fini(&batch);
    return error;
}

static int64_t append_ok(struct log_fixture *f, const struct batch_spec *spec)
{
    struct plog_appended appended;
    assert_int_equal(append(f, spec, &appended), OK);
    assert_false(appended.duplicate);
    return appended.base_offset;
}

enum error append_next(struct log_fixture *f, int64_t pid, int records, bool transactional)
{
    struct plog_appended a;
    const struct producer_entry *e = producer_state_get(plog_producers(f->log), pid);
    struct batch_spec spec = {.producer_id = pid,
                              .producer_epoch = e != NULL ? e->producer_epoch : 0,
                              .base_sequence = e != NULL ? sequence_increment(producer_entry_last_sequence(e), 1) : 0,
                              .records = records,
                              .transactional = transactional || (e != NULL && e->current_txn_first_offset >= 0)};
    return append(f, &spec, &a);
}

int64_t make_chunk(struct log_fixture *f, struct random_source *random, struct buf *out)
{
    int64_t offset = plog_end_offset(f->log);
    int count = 1 + (int)random_below(random, 6);
    int32_t epoch = MAX(plog_latest_epoch(f->log), 0); /* never falls in a log */
    for (int i = 0; i < count; i++) {
        offset += (int64_t)random_below(random, 3);
        epoch += (int32_t)random_below(random, 2);
        struct batch_spec spec = {.producer_id = (int64_t)random_below(random, 5) - 3, .base_sequence = i, .records = 2};
        make_copied(f, &spec, offset, epoch, out);
        offset += 2;
    }
    return offset;
}

int64_t append_plain(struct log_fixture *f, int n)
{
    return append_ok(f, &(struct batch_spec){.producer_id = NO_PID, .producer_epoch = -1, .base_sequence = -1, .records = n});
}

int64_t append_from(struct log_fixture *f, int64_t producer_id, int16_t epoch, int32_t sequence, int n)
{
    return append_ok(
        f, &(struct batch_spec){.producer_id = producer_id, .producer_epoch = epoch, .base_sequence = sequence, .records = n});
}

int64_t append_txn(struct log_fixture *f, int64_t producer_id, int16_t epoch, int32_t sequence, int n)
{
    return append_ok(
        f,
        &(struct batch_spec){
            .producer_id = producer_id, .producer_epoch = epoch, .base_sequence = sequence, .records = n, .transactional = true});
}

int64_t append_end_txn(struct log_fixture *f, int64_t producer_id, int16_t epoch, bool commit)
{
    struct plog_appended appended;
    assert_int_equal(plog_append_marker(f->log, producer_id, epoch, commit, 0, MAX(plog_latest_epoch(f->log), 0), &appended), OK);
    return appended.base_offset;
}

int64_t append_barrier(struct log_fixture *f, int *ret_expired)
{
    struct plog_appended appended;
    int expired;
    assert_int_equal(plog_append_barrier(f->log, STR("source-cluster"), 0, plog_latest_epoch(f->log) + 1, &appended,
                                         ret_expired != NULL ? ret_expired : &expired),
                     OK);
    return appended.base_offset;
}

enum error append_copied(struct log_fixture *f, const struct buf *batches)
{
    struct plog_appended appended;
    struct problem problem;
    return plog_append_copied(f->log, buf_bytes(batches), &appended, &problem);
}

void commit_all(struct log_fixture *f)
{
    plog_set_high_watermark(f->log, plog_end_offset(f->log));
}

/* ---- Looking ---- */

void read_all(struct log_fixture *f, int64_t offset, struct buf *out)
{
    while (offset < plog_end_offset(f->log)) {
        struct plog_slice slice;
        assert_int_equal(plog_read(f->log, offset, INT64_MAX, 64 * 1024, true, &slice), OK);
        if (slice.segment == NULL)
            break;
        assert_int_equal(plog_slice_copy(&slice, out), OK);
        assert_true(slice.end_offset > offset);
        offset = slice.end_offset;
        plog_slice_release(&slice);
    }
}

static bool add_producer(void *arg, const struct producer_entry *e)
{
    struct buf *rows = arg;
    buf_append(rows, e, sizeof(*e));
    return true;
}

static int compare_entries(const void *a, const void *b)
{
    const struct producer_entry *x = a, *y = b;
    return (x->producer_id > y->producer_id) - (x->producer_id < y->producer_id);
}

void describe_producers(struct log_fixture *f, struct buf *out)
{
    struct buf rows = {0};
    producer_state_each(plog_producers(f->log), add_producer, &rows);
    size_t count = rows.len / sizeof(struct producer_entry);
    struct producer_entry *entries = (struct producer_entry *)(void *)rows.data;
    if (count > 1)
        qsort(entries, count, sizeof(*entries), compare_entries);
    for (size_t i = 0; i < count; i++) {
        const struct producer_entry *e = &entries[i];
        buf_printf(out, "pid=%" PRId64 " epoch=%d seq=%d offset=%" PRId64 " txn=%" PRId64 " coordinator=%d\n", e->producer_id,
                   e->producer_epoch, producer_entry_last_sequence(e), producer_entry_last_offset(e), e->current_txn_first_offset,
                   e->coordinator_epoch);
    }
    buf_fini(&rows);
}

void describe_batches(struct log_fixture *f, int64_t offset, struct buf *out)
{
    struct buf all = {0};
    struct batch_iter it;
    const uint8_t *b;
    read_all(f, offset, &all);
    batch_iter_init(&it, buf_bytes(&all));
    while (batch_iter_next(&it, &b) == BATCH_FOUND)
        buf_printf(out, "%s%" PRId64, out->len > 0 ? " " : "", batch_base_offset(b));
    buf_fini(&all);
}

void assert_events_have(struct log_fixture *f, const char *text)
{
    if (strstr(buf_cstr(&f->events), text) == NULL)
        fail_msg("no event says \"%s\", they are:\n%s", text, buf_cstr(&f->events));
}
