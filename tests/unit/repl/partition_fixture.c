#include "partition_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "unit.h"

static void storage_failed(void *arg, struct partition *p)
{
    ((struct partition_fixture *)arg)->storage_failures++;
}

void partition_fixture_init(struct partition_fixture *f, bool flush_acks_all)
{
    char dir[128];
    struct problem problem = {0};
    memset(f, 0, sizeof(*f));
    strcpy(f->root, "/tmp/kagami-partition-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(dir, sizeof(dir), "%s/topic-0", f->root);
    manual_clock_init(&f->clock, INT64_C(1760000000000));
    gate_fs_init(&f->gate);
    arena_init(&f->arena, SIZE_MAX);
    assert_ok(helpers_start(2, &f->helpers));
    assert_ok(loop_create(CLOCK_SYSTEM, &f->loop));
    f->config = (struct plog_config){.segment_bytes = 1024 * 1024,
                                     .segment_ms = INT64_C(604800000),
                                     .segment_index_bytes = 64 * 1024,
                                     .index_interval_bytes = 4096,
                                     .retention_ms = -1,
                                     .retention_bytes = -1,
                                     .cleanup_delete = true,
                                     .file_delete_delay_ms = 60000,
                                     .producer_id_expiration_ms = 86400000,
                                     .validate = validate_config_default()};
    struct plog_params params = {.fs = &f->gate.fs,
                                 .clock = &f->clock.clock,
                                 .dir = dir,
                                 .cluster_id = "own-cluster",
                                 .config = f->config,
                                 .log_start_offset = -1,
                                 .high_watermark = -1};
    enum error error = plog_open(&params, &f->log, &problem);
    if (error != OK)
        fail_msg("plog_open: %s", problem.message);
    f->env.clock = &f->clock.clock;
    f->env.helpers = f->helpers;
    atomic_init(&f->env.flush_acks_all, flush_acks_all);
    f->env.storage_failed = storage_failed;
    f->env.arg = f;
    struct uuid id = {{1}};
    assert_ok(partition_create(&f->env, STR("topic"), &id, 0, 3, &f->config, f->log, &f->p));
    f->gate.entered = f->gate.left = 0; /* the log's creation was synced */
}

void partition_fixture_fini(struct partition_fixture *f)
{
    gate_open(&f->gate);
    partition_close(f->p, BROKER_NOT_AVAILABLE);
    helpers_stop(f->helpers);
    partition_unref(f->p);
    (void)plog_close(f->log, false);
    loop_destroy(f->loop);
    arena_fini(&f->arena);
    gate_fs_fini(&f->gate);
    assert_ok(fs_remove_tree(fs_system(), f->root));
}

/* ---- Waiting ---- */

static struct partition_wake *on_done(struct partition_waiter *waiter, enum error result)
{
    struct waiting *w = CONTAINER_OF(waiter, struct waiting, waiter);
    w->result = result;
    return &w->wake;
}

static void on_wake(struct loop_task *task)
{
    CONTAINER_OF(task, struct waiting, wake.task)->done = true;
}

void waiting_init(struct waiting *w, struct partition_fixture *f)
{
    *w = (struct waiting){.f = f, .wake = {.task = {.run = on_wake}, .loop = f->loop}, .waiter = {.done = on_done}};
}

void await_done(struct waiting *w)
{
    while (!w->done)
        loop_step(w->f->loop, -1);
}

/* ---- Batches ---- */

static void build(struct partition_fixture *f, const struct batch_params *params, int n, struct buf *out)
{
    struct batch_builder builder;
    batch_builder_init(&builder, params);
    for (int i = 0; i < n; i++) {
        struct batch_record record = {.timestamp = f->clock.now_ms, .value = {(const uint8_t *)"value", 5}};
        assert_ok(batch_builder_add(&builder, &record));
    }
    assert_ok(batch_builder_finish(&builder, out));
    batch_builder_fini(&builder);
}

static enum error write(struct partition_fixture *f, int16_t acks, const struct batch_params *params, int n, struct waiting *w,
                        int64_t *ret_base_offset)
{
    struct buf batch = {0};
    struct validated validated;
    struct validate_config config;
    struct partition_appended appended = {0};
    struct problem problem = {0};
    build(f, params, n, &batch);
    waiting_init(w, f);
    partition_get_validate_config(f->p, &config);
    assert_ok(
        validate_records(buf_bytes(&batch), 9, VALIDATE_CLIENT, &config, f->clock.now_ms, &f->arena, &validated, NULL, &problem));
    enum error error = partition_append_client(f->p, &validated, acks, &w->waiter, &appended, &problem);
    validated_fini(&validated);
    buf_fini(&batch);
    w->stands = appended.waiting;
    *ret_base_offset = error == OK ? appended.log.base_offset : -1;
    return error;
}

enum error write_records(struct partition_fixture *f, int16_t acks, int n, struct waiting *w, int64_t *ret_base_offset)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    return write(f, acks, &params, n, w, ret_base_offset);
}

enum error write_sequence(struct partition_fixture *f, int16_t acks, int64_t producer_id, int32_t sequence, struct waiting *w,
                          int64_t *ret_base_offset)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    params.producer_id = producer_id;
    params.producer_epoch = 0;
    params.base_sequence = sequence;
    return write(f, acks, &params, 1, w, ret_base_offset);
}

void make_copied(struct partition_fixture *f, int64_t base_offset, int32_t leader_epoch, int n, struct buf *out)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    params.base_offset = base_offset;
    params.leader_epoch = leader_epoch;
    build(f, &params, n, out);
}

int64_t high_watermark(struct partition_fixture *f)
{
    struct partition_state state;
    partition_get_state(f->p, &state);
    return state.high_watermark;
}
