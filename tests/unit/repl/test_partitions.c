/* The registry follows the metadata. */
#include "registry_fixture.h"

#include <stdio.h>

#include "base/assert.h"
#include "unit.h"

static int setup(void **state)
{
    struct registry_fixture *f = mem_alloc(sizeof(*f));
    registry_fixture_init(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    registry_fixture_fini(*state);
    mem_free(*state);
    return 0;
}

static void assert_missing(struct registry_fixture *f, const char *topic, int32_t index, enum error expected)
{
    enum error error = OK;
    assert_null(partitions_find(f->partitions, str_of(topic), index, &error));
    assert_error(error, expected);
}

static void a_created_topic_is_found_by_name_and_id(void **state)
{
    struct registry_fixture *f = *state;
    enum error error = OK;
    assert_missing(f, "orders", 0, UNKNOWN_TOPIC_OR_PARTITION);
    struct uuid id = create_topic(f, "orders", 3);
    assert_int_equal(f->opened, 3);
    struct partition *by_name = must_find(f, "orders", 2);
    struct partition *by_id = partitions_find_by_id(f->partitions, &id, 2, &error);
    assert_ptr_equal(by_name, by_id);
    assert_string_equal(partition_topic(by_name), "orders");
    assert_int_equal(partition_index(by_name), 2);
    partition_unref(by_name);
    partition_unref(by_id);
    assert_missing(f, "orders", 3, UNKNOWN_TOPIC_OR_PARTITION);
    assert_missing(f, "orders", -1, UNKNOWN_TOPIC_OR_PARTITION);
    struct uuid stranger = {{9}};
    assert_null(partitions_find_by_id(f->partitions, &stranger, 0, &error));
    assert_error(error, UNKNOWN_TOPIC_ID);
}

static void partitions_are_added(void **state)
{
    struct registry_fixture *f = *state;
    struct problem problem = {0};
    struct topic_result result;
    create_topic(f, "orders", 1);
    write_to(f, "orders", 0);
    struct partitions_spec spec = {.topic = STR("orders"), .count = 4, .assignment_count = -1};
    assert_ok(controller_add_partitions(f->controller, &spec, 1, false, false, NULL, &f->arena, &result, &problem));
    assert_int_equal(f->opened, 4);
    write_to(f, "orders", 3);
    struct partition *p = must_find(f, "orders", 0);
    struct partition_state s;
    partition_get_state(p, &s);
    assert_int_equal(s.end_offset, 1);
    partition_unref(p);
}

static void a_deleted_topic_is_gone_with_its_folder(void **state)
{
    struct registry_fixture *f = *state;
    char folder[128];
    struct partition_state s;
    create_topic(f, "orders", 1);
    struct partition *held = must_find(f, "orders", 0);
    snprintf(folder, sizeof(folder), "%s/orders-0", f->root);
    assert_true(fs_exists(fs_system(), folder));
    delete_topic(f, "orders");
    assert_false(fs_exists(fs_system(), folder));
    assert_int_equal(f->closing, 1);
    assert_missing(f, "orders", 0, UNKNOWN_TOPIC_OR_PARTITION);
    partition_get_state(held, &s);
    assert_error(s.error, UNKNOWN_TOPIC_OR_PARTITION);
    partition_unref(held);
}

static void a_topic_made_anew_starts_empty(void **state)
{
    struct registry_fixture *f = *state;
    struct partition_state s;
    struct uuid before = create_topic(f, "orders", 1);
    write_to(f, "orders", 0);
    delete_topic(f, "orders");
    struct uuid after = create_topic(f, "orders", 1);
    assert_false(uuid_eq(&before, &after));
    struct partition *p = must_find(f, "orders", 0);
    partition_get_state(p, &s);
    assert_int_equal(s.end_offset, 0);
    partition_unref(p);
}

static void a_restart_finds_what_was_there(void **state)
{
    struct registry_fixture *f = *state;
    struct partition_state s;
    create_topic(f, "orders", 2);
    write_to(f, "orders", 1);
    registry_fixture_restart(f);
    struct partition *p = must_find(f, "orders", 1);
    partition_get_state(p, &s);
    assert_int_equal(s.end_offset, 1);
    assert_int_equal(s.high_watermark, 1);
    partition_unref(p);
}

static void epochs_and_configs_follow(void **state)
{
    struct registry_fixture *f = *state;
    struct problem problem = {0};
    struct partition_state s;
    struct validate_config config;
    create_topic(f, "orders", 1);
    struct epoch_raise raise = {.topic = "orders", .at_least = 12};
    assert_ok(controller_raise_leader_epochs(f->controller, &raise, 1, NULL, &problem));
    struct config_op op = {CONFIG_OP_SET, STR("max.message.bytes"), STR("1234")};
    assert_ok(controller_alter_configs(f->controller, 2, STR("orders"), &op, 1, false, false, false, NULL, &problem));
    struct partition *p = must_find(f, "orders", 0);
    partition_get_state(p, &s);
    assert_int_equal(s.leader_epoch, raise.leader_epoch);
    assert_true(s.leader_epoch >= 12);
    partition_get_validate_config(p, &config);
    assert_int_equal(config.max_message_bytes, 1234);
    partition_unref(p);
}

static void collect(void *arg, struct partition *p)
{
    buf_printf(arg, "%s-%d ", partition_topic(p), partition_index(p));
}

static void each_comes_in_order(void **state)
{
    struct registry_fixture *f = *state;
    struct buf names = {0};
    create_topic(f, "b", 2);
    create_topic(f, "a", 1);
    partitions_each(f->partitions, collect, &names);
    assert_string_equal(buf_cstr(&names), "a-0 b-0 b-1 ");
    buf_fini(&names);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_created_topic_is_found_by_name_and_id),
        TEST(partitions_are_added),
        TEST(a_deleted_topic_is_gone_with_its_folder),
        TEST(a_topic_made_anew_starts_empty),
        TEST(a_restart_finds_what_was_there),
        TEST(epochs_and_configs_follow),
        TEST(each_comes_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
