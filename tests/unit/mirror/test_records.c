/* Records of the metadata store: there and back, and what is damaged is refused by the field's name. */
#include "unit.h"

#include <stdio.h>

#include "base/assert.h"
#include "mirror/records.h"

static struct mirror_partition_record full_record(void)
{
    struct mirror_partition_record r;

    mirror_partition_record_init(&r);
    r.state = MIRROR_FAILED;
    r.state_epoch = 7;
    r.leader_epoch = 12;
    r.has_position = true;
    r.position_epoch = 3;
    r.position_offset = 1000;
    r.stop_leader_epoch = 13;
    r.failed_from = MIRROR_MIRRORING;
    mirror_partition_record_fail(&r, CORRUPT_MESSAGE, "orders-0: the batch at offset 7 is damaged", false);
    r.retries = 2;
    mirror_partition_record_add_gap(&r, 10, 20, 99);
    r.has_truncation = true;
    r.truncation = (struct mirror_truncation){6, 700, 11, 13, 17};
    r.has_report = true;
    r.report = (struct mirror_stop_report){1100, 250, 1, 4, 0, 1002, 5, 9};
    return r;
}

static void a_partition_record_round_trips(void **state)
{
    struct mirror_partition_record r = full_record(), back;
    struct problem p;
    json_t *json = mirror_partition_record_to_json(&r), *again;

    assert_ok(mirror_partition_record_from_json(json, &back, &p));
    assert_int_equal(back.state, MIRROR_FAILED);
    assert_int_equal(back.failed_from, MIRROR_MIRRORING);
    assert_int_equal(back.error_code, CORRUPT_MESSAGE);
    assert_string_equal(back.error, r.error);
    assert_int_equal(back.gaps[0].to, 20);
    assert_int_equal(back.report.end_offset, 1002);
    assert_true(back.has_truncation);
    assert_int_equal(back.truncation.last_timestamp, 13);
    again = mirror_partition_record_to_json(&back);
    assert_true(json_equal(json, again));
    json_decref(json);
    json_decref(again);
    mirror_partition_record_fini(&r);
    mirror_partition_record_fini(&back);
}

static void damaged_fields_are_refused_by_name(void **state)
{
    static const char *const needed[] = {"state", "stateEpoch", "leaderEpoch", "stopLeaderEpoch", "retries", "gaps", "gapsTotal", "failedFrom", "retryable"};
    struct mirror_partition_record r = full_record(), back;

    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        for (int damage = 0; damage < 2; damage++) {
            struct problem p;
            json_t *json = mirror_partition_record_to_json(&r);
            if (damage == 0)
                json_object_del(json, needed[i]);
            else
                json_object_set_new(json, needed[i], json_real(0.5));
            assert_error(mirror_partition_record_from_json(json, &back, &p), ERR_CORRUPT);
            assert_non_null(strstr(p.message, needed[i]));
            json_decref(json);
        }
    }
    mirror_partition_record_fini(&r);
}

static void the_newest_gaps_are_kept_and_all_are_counted(void **state)
{
    struct mirror_partition_record r;

    mirror_partition_record_init(&r);
    for (int i = 0; i < MIRROR_GAPS_MAX + 5; i++)
        mirror_partition_record_add_gap(&r, i, i + 1, i);
    assert_int_equal(r.gap_count, MIRROR_GAPS_MAX);
    assert_int_equal(r.gaps[0].from, 5);
    assert_int_equal(r.gaps[MIRROR_GAPS_MAX - 1].from, MIRROR_GAPS_MAX + 4);
    assert_int_equal(r.gaps_total, MIRROR_GAPS_MAX + 5);
    mirror_partition_record_fini(&r);
}

static void topics_and_mirrors_round_trip(void **state)
{
    struct mirror_topic_record t = {.mirror = mem_strdup("dr"), .wanted = MIRROR_STOPPED, .discard_local_data = true,
                                    .stop_open_transactions = MIRROR_TXN_TRUNCATE, .stop_force = true}, t2;
    struct mirror_record m = {.source_cluster_id = mem_strdup("abc"), .created_ms = 77}, m2;
    struct problem p;
    json_t *json;

    t.topic_id.b[3] = 9;
    json = mirror_topic_record_to_json(&t);
    assert_ok(mirror_topic_record_from_json(json, &t2, &p));
    assert_string_equal(t2.mirror, "dr");
    assert_true(uuid_eq(&t.topic_id, &t2.topic_id));
    assert_true(t2.wanted == MIRROR_STOPPED && t2.discard_local_data && t2.stop_force && t2.stop_open_transactions == MIRROR_TXN_TRUNCATE);
    json_object_set_new(json, "wanted", json_string("STOPPING"));
    mirror_topic_record_fini(&t);
    assert_error(mirror_topic_record_from_json(json, &t, &p), ERR_CORRUPT);
    json_decref(json);
    mirror_topic_record_fini(&t2);
    mirror_config_init(&m.config);
    assert_ok(mirror_config_set(&m.config, STR("bootstrap.servers"), STR("h:1"), &p));
    json = mirror_record_to_json(&m);
    assert_ok(mirror_record_from_json(json, &m2, &p));
    assert_string_equal(m2.source_cluster_id, "abc");
    assert_int_equal(m2.created_ms, 77);
    assert_string_equal(m2.config.bootstrap_servers, "h:1");
    json_decref(json);
    mirror_record_fini(&m);
    mirror_record_fini(&m2);
}

static void names_follow_the_rules_of_topic_names(void **state)
{
    static const char *const good[] = {"dr", "a.b_c-D9", "..."}, *const bad[] = {"", ".", "..", "a b", "a/b", "\xc3\xa9"};
    char long_name[MIRROR_NAME_MAX + 2];
    struct problem p;

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_ok(mirror_name_check(str_of(good[i]), &p));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_error(mirror_name_check(str_of(bad[i]), &p), INVALID_CLUSTER_MIRROR_NAME);
    memset(long_name, 'a', sizeof(long_name));
    assert_ok(mirror_name_check((struct str){long_name, MIRROR_NAME_MAX}, &p));
    assert_error(mirror_name_check((struct str){long_name, MIRROR_NAME_MAX + 1}, &p), INVALID_CLUSTER_MIRROR_NAME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_record_round_trips),
        cmocka_unit_test(damaged_fields_are_refused_by_name),
        cmocka_unit_test(the_newest_gaps_are_kept_and_all_are_counted),
        cmocka_unit_test(topics_and_mirrors_round_trip),
        cmocka_unit_test(names_follow_the_rules_of_topic_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
