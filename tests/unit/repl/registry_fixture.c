#include "registry_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "unit.h"

static void opened(void *arg, struct partition *p)
{
    ((struct registry_fixture *)arg)->opened++;
}
static void closing(void *arg, struct partition *p)
{
    ((struct registry_fixture *)arg)->closing++;
}

static void image_changed(struct image_listener *listener, const struct image *before, const struct image *after)
{
    partitions_apply(CONTAINER_OF(listener, struct registry_fixture, listener)->partitions, after);
}

static void begin(struct registry_fixture *f)
{
    char path[128];
    struct problem problem = {0};
    snprintf(path, sizeof(path), "%s/metadata.db", f->root);
    assert_ok(meta_store_open_sqlite(path, &f->store, &problem));
    struct controller_params controller = {.store = f->store,
                                           .random = &f->random.source,
                                           .node_id = 1,
                                           .host = "localhost",
                                           .port = 9092,
                                           .properties = &f->properties,
                                           .cluster_id = NULL};
    assert_ok(controller_create(&controller, &f->controller, &problem));
    struct log_manager_params logs = {.fs = fs_system(),
                                      .clock = &f->clock.clock,
                                      .random = &f->random.source,
                                      .helpers = f->helpers,
                                      .dir = f->root,
                                      .cluster_id = "own-cluster",
                                      .node_id = 1};
    assert_ok(log_manager_open(&logs, &f->logs, &problem));
    struct partitions_params params = {.clock = &f->clock.clock,
                                       .helpers = f->helpers,
                                       .logs = f->logs,
                                       .flush_acks_all = true,
                                       .callbacks = {.opened = opened, .closing = closing, .arg = f}};
    f->partitions = partitions_create(&params);
    f->listener.changed = image_changed;
    image_cell_listen(controller_images(f->controller), &f->listener);
}

static void end(struct registry_fixture *f)
{
    image_cell_unlisten(controller_images(f->controller), &f->listener);
    partitions_destroy(f->partitions);
    log_manager_close(f->logs, true);
    controller_destroy(f->controller);
    meta_store_close(f->store);
}

void registry_fixture_init(struct registry_fixture *f)
{
    memset(f, 0, sizeof(*f));
    strcpy(f->root, "/tmp/kagami-registry-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    manual_clock_init(&f->clock, INT64_C(1760000000000));
    seeded_random_init(&f->random, 7);
    arena_init(&f->arena, SIZE_MAX);
    assert_ok(helpers_start(2, &f->helpers));
    assert_ok(loop_create(CLOCK_SYSTEM, &f->loop));
    begin(f);
}

void registry_fixture_fini(struct registry_fixture *f)
{
    end(f);
    helpers_stop(f->helpers);
    loop_destroy(f->loop);
    arena_fini(&f->arena);
    properties_fini(&f->properties);
    assert_ok(fs_remove_tree(fs_system(), f->root));
}

void registry_fixture_restart(struct registry_fixture *f)
{
    end(f);
    begin(f);
}

struct uuid create_topic(struct registry_fixture *f, const char *name, int32_t partitions)
{
    struct problem problem = {0};
    struct topic_spec spec = {.name = str_of(name), .partitions = partitions, .replication_factor = 1};
    struct topic_result result;
    assert_ok(controller_create_topics(f->controller, &spec, 1, false, NULL, &f->arena, &result, &problem));
    assert_ok(result.error);
    return result.id;
}

void delete_topic(struct registry_fixture *f, const char *name)
{
    struct problem problem = {0};
    struct topic_ref ref = {.name = str_of(name)};
    struct topic_result result;
    struct str deleted;
    assert_ok(controller_delete_topics(f->controller, &ref, 1, NULL, &f->arena, &result, &deleted, &problem));
    assert_ok(result.error);
}

struct partition *must_find(struct registry_fixture *f, const char *topic, int32_t index)
{
    enum error error;
    struct partition *p = partitions_find(f->partitions, str_of(topic), index, &error);
    assert_non_null(p);
    return p;
}

void write_to(struct registry_fixture *f, const char *topic, int32_t index)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_builder builder;
    struct batch_record record = {.timestamp = f->clock.now_ms, .value = {(const uint8_t *)"value", 5}};
    struct buf batch = {0};
    struct validated validated;
    struct validate_config config;
    struct partition_appended appended;
    struct partition *p = must_find(f, topic, index);
    batch_builder_init(&builder, &params);
    assert_ok(batch_builder_add(&builder, &record));
    assert_ok(batch_builder_finish(&builder, &batch));
    batch_builder_fini(&builder);
    partition_get_validate_config(p, &config);
    assert_ok(
        validate_records(buf_bytes(&batch), 9, VALIDATE_CLIENT, &config, f->clock.now_ms, &f->arena, &validated, NULL, NULL));
    assert_ok(partition_append_client(p, &validated, 1, NULL, &appended, NULL));
    validated_fini(&validated);
    buf_fini(&batch);
    partition_unref(p);
}
