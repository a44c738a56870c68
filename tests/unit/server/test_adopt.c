/* What a start makes of the folders that it finds: topics where there are no metadata, and leader epochs above what the logs hold. */
#include "server/adopt.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "meta/controller.h"
#include "os/helpers.h"
#include "storage/log_manager.h"
#include "unit.h"

struct fixture {
    char root[64];
    struct manual_clock clock;
    struct seeded_random random;
    struct properties properties;
    struct meta_store *store;
    struct controller *controller;
    struct log_manager *logs;
};

static int setup(void **state)
{
    struct fixture *f = mem_calloc(1, sizeof(*f));
    char path[128];
    struct problem problem = {0};
    strcpy(f->root, "/tmp/kagami-adopt-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    manual_clock_init(&f->clock, INT64_C(1760000000000));
    seeded_random_init(&f->random, 3);
    snprintf(path, sizeof(path), "%s/metadata.db", f->root);
    assert_ok(meta_store_open_sqlite(path, &f->store, &problem));
    struct controller_params controller = {.store = f->store,
                                           .random = &f->random.source,
                                           .node_id = 1,
                                           .host = "localhost",
                                           .port = 9092,
                                           .properties = &f->properties};
    assert_ok(controller_create(&controller, &f->controller, &problem));
    struct log_manager_params logs = {.fs = fs_system(),
                                      .clock = &f->clock.clock,
                                      .random = &f->random.source,
                                      .dir = f->root,
                                      .cluster_id = "own-cluster",
                                      .node_id = 1};
    assert_ok(log_manager_open(&logs, &f->logs, &problem));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    log_manager_close(f->logs, false);
    controller_destroy(f->controller);
    meta_store_close(f->store);
    assert_ok(fs_remove_tree(fs_system(), f->root));
    mem_free(f);
    return 0;
}

static struct plog *make_log(struct fixture *f, const char *topic, int32_t partition, struct uuid id)
{
    struct plog_config config = plog_config_default();
    struct plog *log;
    assert_ok(log_manager_create_log(f->logs, str_of(topic), partition, id, &config, &log, NULL));
    return log;
}

static const struct image *image_of(struct fixture *f)
{
    return image_cell_get(controller_images(f->controller));
}

static void folders_without_metadata_become_topics(void **state)
{
    struct fixture *f = *state;
    struct uuid id = {{1, 2, 3}};
    make_log(f, "orders", 0, id);
    make_log(f, "orders", 2, id); /* its neighbour was on another broker */
    make_log(f, "__cluster_metadata", 0, (struct uuid){{0, 0, 1}});
    assert_ok(adopt_folders(f->controller, f->logs, true, NULL));
    const struct image *image = image_of(f);
    assert_int_equal(image->topic_count, 1);
    const struct image_topic *topic = image_topic(image, STR("orders"));
    assert_non_null(topic);
    assert_int_equal(topic->partition_count, 3);
    assert_true(uuid_eq(&topic->id, &id));
    image_unref(image);
}

static void folders_that_contradict_each_other_are_left_alone(void **state)
{
    struct fixture *f = *state;
    make_log(f, "orders", 0, (struct uuid){{1}});
    make_log(f, "orders", 1, (struct uuid){{2}});
    make_log(f, "good", 0, (struct uuid){{3}});
    assert_ok(adopt_folders(f->controller, f->logs, true, NULL));
    const struct image *image = image_of(f);
    assert_int_equal(image->topic_count, 1);
    assert_non_null(image_topic(image, STR("good")));
    image_unref(image);
}

/* One may be left from a deletion that a crash cut off: it must not rise again. */
static void unknown_folders_beside_metadata_are_left_alone(void **state)
{
    struct fixture *f = *state;
    make_log(f, "orders", 0, (struct uuid){{1}});
    assert_ok(adopt_folders(f->controller, f->logs, false, NULL));
    const struct image *image = image_of(f);
    assert_int_equal(image->topic_count, 0);
    image_unref(image);
}

static int32_t epoch_of(struct fixture *f)
{
    const struct image *image = image_of(f);
    int32_t epoch = image_topic(image, STR("orders"))->partitions[0].leader_epoch;
    image_unref(image);
    return epoch;
}

static void epochs_rise_above_what_the_log_holds(void **state)
{
    struct fixture *f = *state;
    struct plog *log = make_log(f, "orders", 0, (struct uuid){{1}});
    assert_ok(adopt_folders(f->controller, f->logs, true, NULL));
    assert_ok(plog_assign_epoch(log, 7));
    assert_ok(adopt_leader_epochs(f->controller, f->logs, false, NULL)); /* after a clean end: not below it */
    assert_int_equal(epoch_of(f), 7);
    assert_ok(adopt_leader_epochs(f->controller, f->logs, false, NULL));
    assert_int_equal(epoch_of(f), 7);
    assert_ok(adopt_leader_epochs(f->controller, f->logs, true, NULL)); /* after another end: above it, each time */
    assert_int_equal(epoch_of(f), 8);
    assert_ok(adopt_leader_epochs(f->controller, f->logs, true, NULL));
    assert_int_equal(epoch_of(f), 9);
    /* A power cut took a log that was never flushed: what somebody has read of it had the epoch of the metadata. */
    assert_ok(log_manager_delete_log(f->logs, STR("orders"), 0));
    assert_ok(adopt_leader_epochs(f->controller, f->logs, false, NULL));
    assert_int_equal(epoch_of(f), 9);
    assert_ok(adopt_leader_epochs(f->controller, f->logs, true, NULL));
    assert_int_equal(epoch_of(f), 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folders_without_metadata_become_topics),
        TEST(folders_that_contradict_each_other_are_left_alone),
        TEST(unknown_folders_beside_metadata_are_left_alone),
        TEST(epochs_rise_above_what_the_log_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
