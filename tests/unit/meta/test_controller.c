#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "meta/config_defs.h"
#include "meta_temp.h"
#include "os/random.h"
#include "unit.h"

static struct cluster cluster;

static int start(void **state)
{
    temp_remove();
    cluster_start(&cluster);
    return 0;
}

static int stop(void **state)
{
    cluster_stop(&cluster);
    return 0;
}

static void restart(void)
{
    cluster_stop(&cluster);
    cluster_start(&cluster);
}

static struct topic_result create(struct topic_spec spec, bool validate_only)
{
    struct topic_result result;
    struct problem problem;
    assert_ok(controller_create_topics(cluster.controller, &spec, 1, validate_only, NULL, &cluster.arena, &result, &problem));
    return result;
}

static void create_simple(const char *name, int32_t partitions)
{
    struct topic_result result =
        create((struct topic_spec){.name = str_of(name), .partitions = partitions, .replication_factor = 1}, false);
    assert_ok(result.error);
}

static int32_t partitions_of(const char *name) /* -1: no such topic */
{
    const struct image *image = cluster_image(&cluster);
    const struct image_topic *topic = image_topic(image, str_of(name));
    int32_t count = topic != NULL ? topic->partition_count : -1;
    image_unref(image);
    return count;
}

static int32_t epoch_of(const char *name, int32_t index)
{
    const struct image *image = cluster_image(&cluster);
    int32_t epoch = image_partition(image_topic(image, str_of(name)), index)->leader_epoch;
    image_unref(image);
    return epoch;
}

static void assert_message(struct str message, const char *part)
{
    char text[1000];
    snprintf(text, sizeof(text), "%.*s", STR_ARG(message));
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

/* ---- Start ---- */

static void test_a_new_store_and_again(void **state)
{
    const struct image *image = cluster_image(&cluster);
    char id[UUID_TEXT_SIZE];
    strcpy(id, image->cluster_id_text);
    assert_int_equal(strlen(id), 22);
    assert_int_equal(image->broker_count, 1);
    assert_string_equal(image_broker(image, 1)->host, "localhost");
    int64_t revision = image->revision;
    image_unref(image);
    restart();
    image = cluster_image(&cluster);
    assert_string_equal(image->cluster_id_text, id);
    assert_int_equal(image->revision, revision); /* nothing was written for an unchanged broker */
    image_unref(image);
    assert_ok(controller_register_broker(cluster.controller, "other", 1234, NULL));
    image = cluster_image(&cluster);
    assert_string_equal(image_broker(image, 1)->host, "other");
    assert_int_equal(image_broker(image, 1)->port, 1234);
    image_unref(image);
}

static void test_cluster_id_of_another(void **state)
{
    struct controller *c;
    struct problem problem;
    struct controller_params params = {.store = cluster.store,
                                       .random = &cluster.random.source,
                                       .node_id = 1,
                                       .host = "h",
                                       .port = 1,
                                       .properties = &cluster.properties};
    params.cluster_id = "AAAAAAAAAAAAAAAAAAAAAQ";
    assert_error(controller_create(&params, &c, &problem), INCONSISTENT_CLUSTER_ID);
    assert_non_null(strstr(problem.message, "AAAAAAAAAAAAAAAAAAAAAQ"));
}

static void test_damaged_entry_is_named(void **state)
{
    struct controller *c;
    struct problem problem;
    struct meta_txn txn = {0};
    controller_destroy(cluster.controller);
    meta_txn_put(&txn, "topics/bad", json_integer(1));
    assert_ok(meta_store_commit(cluster.store, &txn, NULL, NULL));
    struct controller_params params = {.store = cluster.store,
                                       .random = &cluster.random.source,
                                       .node_id = 1,
                                       .host = "h",
                                       .port = 1,
                                       .properties = &cluster.properties};
    assert_error(controller_create(&params, &c, &problem), ERR_CORRUPT);
    assert_non_null(strstr(problem.message, "topics/bad"));
    meta_txn_fini(&txn);
    meta_txn_delete(&txn, "topics/bad");
    assert_ok(meta_store_commit(cluster.store, &txn, NULL, NULL));
    meta_txn_fini(&txn);
    assert_ok(controller_create(&params, &cluster.controller, &problem));
}

/* ---- Topics ---- */

static void test_topic_names(void **state)
{
    static const struct {
        const char *name, *message; /* NULL: legal */
    } cases[] = {
        {"a", NULL},
        {"A.b_c-9", NULL},
        {"...", NULL},
        {"", "the empty string is not allowed"},
        {".", "'.' is not allowed"},
        {"..", "'..' is not allowed"},
        {"a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
        {"a/b", "contains one or more characters"},
        {"\xc3\xa9", "contains one or more characters"},
    };
    struct problem problem;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_error(topic_name_check(str_of(cases[i].name), &problem), cases[i].message != NULL ? INVALID_TOPIC_EXCEPTION : OK);
        if (cases[i].message != NULL)
            assert_message(str_of(problem.message), cases[i].message);
    }
    char name[251];
    memset(name, 'x', 250);
    name[249] = '\0';
    assert_ok(topic_name_check(str_of(name), NULL));
    name[249] = 'x';
    name[250] = '\0';
    assert_error(topic_name_check(str_of(name), &problem), INVALID_TOPIC_EXCEPTION);
    assert_message(str_of(problem.message), "longer than the max allowed length 249");
    assert_error(topic_name_check((struct str){"a\0b", 3}, NULL), INVALID_TOPIC_EXCEPTION);
    assert_error(topic_name_check(STR_NULL, NULL), INVALID_TOPIC_EXCEPTION);
}

static const int32_t one[] = {1}, two[] = {2}, twice[] = {1, 1};
#define ASSIGN(index, ids)                                                                                                       \
    {                                                                                                                            \
        .partition = (index), .broker_ids = (ids), .broker_count = ARRAY_SIZE(ids)                                               \
    }

/* What Apache Kafka 4.4 answers. */
static void test_create_topic_rules(void **state)
{
    static const struct topic_assignment good[] = {ASSIGN(1, one), ASSIGN(0, one)};
    static const struct topic_assignment hole[] = {ASSIGN(0, one), ASSIGN(2, one)};
    static const struct topic_assignment from_one[] = {ASSIGN(1, one)};
    static const struct topic_assignment stranger[] = {ASSIGN(0, two)};
    static const struct topic_assignment doubled[] = {ASSIGN(0, twice)};
    static const struct topic_assignment same[] = {ASSIGN(0, one), ASSIGN(0, one)};
    static const struct topic_assignment none[] = {{.partition = 0}};
    static const struct config_change unknown[] = {{STR("retention.mss"), STR("1")}};
    static const struct config_change bad[] = {{STR("retention.ms"), STR("x")}};
    static const struct config_change null[] = {{STR("retention.ms"), STR_NULL}};
    static const struct config_change fine[] = {{STR("retention.ms"), STR("5")}};
    static const struct config_change clash[] = {{STR("min.compaction.lag.ms"), STR("5")},
                                                 {STR("max.compaction.lag.ms"), STR("4")}};
    static const struct {
        struct topic_spec spec;
        enum error expected;
        const char *message;
        int32_t partitions;
    } cases[] = {
        {{.name = STR("n"), .partitions = 3, .replication_factor = 1}, OK, NULL, 3},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1}, OK, NULL, 1},
        {{.name = STR("n"), .partitions = 0, .replication_factor = 1},
         INVALID_PARTITIONS,
         "Number of partitions was set to an invalid non-positive value.",
         0},
        {{.name = STR("n"), .partitions = -2, .replication_factor = 1}, INVALID_PARTITIONS, "non-positive", 0},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 0}, INVALID_REPLICATION_FACTOR, "must be larger than 0", 0},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 2},
         INVALID_REPLICATION_FACTOR,
         "only 1 broker(s) are registered",
         0},
        {{.name = STR("n"), .partitions = 1000000, .replication_factor = 1},
         POLICY_VIOLATION,
         "Excessively large number of partitions per request",
         0},
        {{.name = STR("a b"), .partitions = 1, .replication_factor = 1}, INVALID_TOPIC_EXCEPTION, "'a b' contains", 0},
        {{.name = STR("there"), .partitions = 1, .replication_factor = 1},
         TOPIC_ALREADY_EXISTS,
         "Topic 'there' already exists.",
         0},
        {{.name = STR("with_dot"), .partitions = 1, .replication_factor = 1},
         INVALID_TOPIC_EXCEPTION,
         "Topic 'with_dot' collides with existing topic: with.dot",
         0},
        {{.name = STR("__cluster_metadata"), .partitions = 1, .replication_factor = 1}, INVALID_REQUEST, "is prohibited", 0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1, .assignments = good, .assignment_count = 2}, OK, NULL, 2},
        {{.name = STR("n"), .partitions = 2, .replication_factor = -1, .assignments = good, .assignment_count = 2},
         INVALID_REQUEST,
         "numPartitions was not set to -1",
         0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = 1, .assignments = good, .assignment_count = 2},
         INVALID_REQUEST,
         "replication factor was not set to -1",
         0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1, .assignments = hole, .assignment_count = 2},
         INVALID_REPLICA_ASSIGNMENT,
         "consecutive 0-based",
         0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1, .assignments = from_one, .assignment_count = 1},
         INVALID_REPLICA_ASSIGNMENT,
         "consecutive 0-based",
         0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1, .assignments = stranger, .assignment_count = 1},
         INVALID_REPLICA_ASSIGNMENT,
         "includes broker 2, but no such broker",
         0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1, .assignments = doubled, .assignment_count = 1},
         INVALID_REPLICA_ASSIGNMENT,
         "includes the broker 1 more than once",
         0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1, .assignments = same, .assignment_count = 2},
         INVALID_REPLICA_ASSIGNMENT,
         "multiple manual partition assignments",
         0},
        {{.name = STR("n"), .partitions = -1, .replication_factor = -1, .assignments = none, .assignment_count = 1},
         INVALID_REPLICA_ASSIGNMENT,
         "includes an empty replica list",
         0},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 1, .configs = fine, .config_count = 1}, OK, NULL, 1},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 1, .configs = unknown, .config_count = 1},
         INVALID_CONFIG,
         "Unknown topic config name: retention.mss",
         0},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 1, .configs = unknown, .config_count = 1},
         INVALID_CONFIG,
         "Did you mean retention.ms?",
         0},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 1, .configs = bad, .config_count = 1},
         INVALID_CONFIG,
         "Invalid value x for configuration retention.ms: Not a number of type LONG",
         0},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 1, .configs = null, .config_count = 1},
         INVALID_CONFIG,
         "Null value not supported for topic configs: retention.ms",
         0},
        {{.name = STR("n"), .partitions = 1, .replication_factor = 1, .configs = clash, .config_count = 2},
         INVALID_CONFIG,
         "conflict topic config setting",
         0},
    };
    create_simple("there", 1);
    create_simple("with.dot", 1);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (int validate_only = 1; validate_only >= 0; validate_only--) {
            struct topic_result result = create(cases[i].spec, validate_only == 1);
            if (result.error != cases[i].expected)
                fail_msg("case %zu: %s, not %s", i, error_name(result.error), error_name(cases[i].expected));
            if (cases[i].message != NULL)
                assert_message(result.message, cases[i].message);
            else
                assert_int_equal(result.partitions, cases[i].partitions);
            bool made = cases[i].expected == OK && validate_only == 0;
            assert_int_equal(partitions_of("n"), made ? cases[i].partitions : -1);
            if (made) {
                struct topic_ref ref = {.name = STR("n")};
                struct str name;
                assert_ok(controller_delete_topics(cluster.controller, &ref, 1, NULL, &cluster.arena, &result, &name, NULL));
                assert_ok(result.error);
                assert_int_equal(partitions_of("n"), -1);
            }
        }
    }
}

static void test_many_topics_in_one_request(void **state)
{
    const struct topic_spec specs[] = {
        {.name = STR("a"), .partitions = 1, .replication_factor = 1},
        {.name = STR("d"), .partitions = 1, .replication_factor = 1},
        {.name = STR("d"), .partitions = 2, .replication_factor = 1},
        {.name = STR("x.y"), .partitions = 1, .replication_factor = 1},
        {.name = STR("x_y"), .partitions = 1, .replication_factor = 1},
        {.name = STR("z"), .partitions = 99999, .replication_factor = 1},
    };
    static const enum error expected[] = {OK, INVALID_REQUEST, INVALID_REQUEST, OK, INVALID_TOPIC_EXCEPTION, POLICY_VIOLATION};
    struct topic_result results[ARRAY_SIZE(specs)];
    int64_t revision = meta_store_revision(cluster.store);
    assert_ok(controller_create_topics(cluster.controller, specs, ARRAY_SIZE(specs), false, NULL, &cluster.arena, results, NULL));
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++)
        assert_error(results[i].error, expected[i]);
    assert_int_equal(meta_store_revision(cluster.store), revision + 1); /* one write */
    assert_message(results[1].message, "Duplicate topic name.");
    assert_int_equal(partitions_of("d"), -1);
    assert_int_equal(partitions_of("x.y"), 1);
}

static void test_explicit_ids_and_what_survives(void **state)
{
    struct uuid id;
    assert_true(uuid_parse(STR("AAAAAAAAAAAAAAAAAAAAAQ"), &id));
    static const struct config_change configs[] = {{STR("cleanup.policy"), STR("compact")}};
    struct topic_spec spec = {
        .name = STR("m"), .id = id, .partitions = 2, .replication_factor = 1, .configs = configs, .config_count = 1};
    struct topic_result result = create(spec, false);
    assert_ok(result.error);
    assert_true(uuid_eq(&result.id, &id));
    spec.name = STR("other");
    result = create(spec, false);
    assert_error(result.error, TOPIC_ALREADY_EXISTS);
    assert_message(result.message, "belongs to the topic 'm'");
    create_simple("random", 1);
    restart();
    const struct image *image = cluster_image(&cluster);
    const struct image_topic *m = image_topic_by_id(image, &id);
    assert_non_null(m);
    assert_string_equal(m->name, "m");
    assert_int_equal(m->partition_count, 2);
    assert_int_equal(m->partitions[1].leader, 1);
    assert_string_equal(image_config(&m->configs, "cleanup.policy"), "compact");
    assert_false(uuid_is_zero(&image_topic(image, STR("random"))->id));
    image_unref(image);
}

static void test_deleting(void **state)
{
    create_simple("a", 2);
    create_simple("b", 1);
    create_simple("c", 1);
    const struct image *image = cluster_image(&cluster);
    struct uuid b_id = image_topic(image, STR("b"))->id, c_id = image_topic(image, STR("c"))->id, unknown = b_id;
    unknown.b[3] ^= 1;
    image_unref(image);
    const struct topic_ref refs[] = {{.name = STR("a")}, {.id = b_id}, {.name = STR("zz")}, {.id = unknown},
                                     {.name = STR("c")}, {.id = c_id}, {.name = STR("")}};
    static const enum error expected[] = {
        OK, OK, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_REQUEST, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION};
    struct topic_result results[ARRAY_SIZE(refs)];
    struct str names[ARRAY_SIZE(refs)];
    assert_ok(controller_delete_topics(cluster.controller, refs, ARRAY_SIZE(refs), NULL, &cluster.arena, results, names, NULL));
    for (size_t i = 0; i < ARRAY_SIZE(refs); i++)
        assert_error(results[i].error, expected[i]);
    assert_str(names[1], "b");
    assert_true(uuid_eq(&results[0].id, &results[0].id) && !uuid_is_zero(&results[0].id));
    assert_null(names[3].p);
    assert_int_equal(partitions_of("a"), -1);
    assert_int_equal(partitions_of("c"), 1);
    restart();
    assert_int_equal(partitions_of("a"), -1);
    create_simple("a", 1); /* again, with another count */
    assert_int_equal(partitions_of("a"), 1);
}

static struct topic_result add(const char *topic, int32_t count, const struct topic_assignment *assignments, int32_t n)
{
    struct topic_result result;
    struct partitions_spec spec = {.topic = str_of(topic), .count = count, .assignments = assignments, .assignment_count = n};
    assert_ok(controller_add_partitions(cluster.controller, &spec, 1, false, false, NULL, &cluster.arena, &result, NULL));
    return result;
}

static void test_adding_partitions(void **state)
{
    static const struct topic_assignment a_one[] = {ASSIGN(0, one)}, a_two[] = {ASSIGN(0, one), ASSIGN(0, two)};
    static const struct topic_assignment a_twice[] = {ASSIGN(0, one), ASSIGN(0, twice)},
                                         a_good[] = {ASSIGN(0, one), ASSIGN(0, one)};
    static const struct topic_assignment a_empty[] = {ASSIGN(0, one), {.partition = 0}};
    static const struct {
        const char *topic;
        int32_t count;
        const struct topic_assignment *assignments;
        int32_t n;
        enum error expected;
        const char *message;
    } cases[] = {
        {"t", 4, NULL, -1, INVALID_PARTITIONS, "Topic already has 4 partition(s)."},
        {"t", 3, NULL, -1, INVALID_PARTITIONS, "The topic t currently has 4 partition(s); 3 would not be an increase."},
        {"t", -1, NULL, -1, INVALID_PARTITIONS, "-1 would not be an increase."},
        {"zz", 4, NULL, -1, UNKNOWN_TOPIC_OR_PARTITION, "zz"},
        {"t", 6, a_one, 1, INVALID_REPLICA_ASSIGNMENT,
         "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
        {"t", 6, a_two, 2, INVALID_REPLICA_ASSIGNMENT, "includes broker 2, but no such broker"},
        {"t", 6, a_twice, 2, INVALID_REPLICA_ASSIGNMENT, "more than once"},
        {"t", 6, a_empty, 2, INVALID_REPLICA_ASSIGNMENT, "an empty replica list"},
        {"t", 2000000, NULL, -1, POLICY_VIOLATION, "Excessively large number of additional partitions per request"},
        {"t", 6, a_good, 2, OK, NULL},
        {"t", 7, NULL, -1, OK, NULL},
    };
    create_simple("t", 4);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct topic_result result = add(cases[i].topic, cases[i].count, cases[i].assignments, cases[i].n);
        assert_error(result.error, cases[i].expected);
        if (cases[i].message != NULL)
            assert_message(result.message, cases[i].message);
    }
    restart();
    assert_int_equal(partitions_of("t"), 7);
}

/* ---- With a mirror's keys ---- */

static void test_changes_with_keys_of_others(void **state)
{
    struct meta_txn also = {0};
    json_t *value;
    meta_txn_check(&also, "mirror-topics/m", 0);
    meta_txn_put(&also, "mirror-topics/m", json_integer(1));
    struct topic_spec specs[] = {{.name = STR("m"), .partitions = 1, .replication_factor = 1},
                                 {.name = STR("bad name"), .partitions = 1, .replication_factor = 1}};
    struct topic_result results[2];
    struct problem problem;
    assert_ok(controller_create_topics(cluster.controller, specs, 2, false, &also, &cluster.arena, results, &problem));
    assert_error(results[0].error, OPERATION_NOT_ATTEMPTED); /* all or nothing */
    assert_int_equal(partitions_of("m"), -1);
    assert_ok(controller_create_topics(cluster.controller, specs, 1, false, &also, &cluster.arena, results, &problem));
    assert_int_equal(partitions_of("m"), 1);
    assert_ok(meta_store_get(cluster.store, "mirror-topics/m", &value, NULL));
    json_decref(value);
    specs[0].name = STR("m2");
    assert_error(controller_create_topics(cluster.controller, specs, 1, false, &also, &cluster.arena, results, &problem),
                 ERR_CONFLICT);
    assert_int_equal(partitions_of("m2"), -1);
    meta_txn_fini(&also);
}

static enum error guard_m(void *arg, struct str topic, enum topic_change change, struct problem *problem)
{
    *(int *)arg |= 1 << change;
    return str_is(topic, "m") ? problem_set(problem, POLICY_VIOLATION, "The topic 'm' mirrors.") : OK;
}

static void test_the_guard_is_asked(void **state)
{
    int asked = 0;
    create_simple("m", 1);
    create_simple("free", 1);
    controller_set_topic_guard(cluster.controller, &(struct topic_guard){.allowed = guard_m, .arg = &asked});
    const struct topic_ref refs[] = {{.name = STR("m")}, {.name = STR("free")}};
    struct topic_result results[2];
    struct str names[2];
    assert_ok(controller_delete_topics(cluster.controller, refs, 2, NULL, &cluster.arena, results, names, NULL));
    assert_error(results[0].error, POLICY_VIOLATION);
    assert_message(results[0].message, "The topic 'm' mirrors.");
    assert_ok(results[1].error);
    assert_error(add("m", 2, NULL, -1).error, POLICY_VIOLATION);
    struct problem problem;
    struct config_op op = {.kind = CONFIG_OP_SET, .name = STR("retention.ms"), .value = STR("5")};
    assert_error(controller_alter_configs(cluster.controller, CONFIG_RESOURCE_TOPIC, STR("m"), &op, 1, false, false, false, NULL,
                                          &problem),
                 POLICY_VIOLATION);
    assert_ok(controller_alter_configs(cluster.controller, CONFIG_RESOURCE_TOPIC, STR("m"), &op, 1, false, false, true, NULL,
                                       &problem));
    assert_error(controller_topic_change_allowed(cluster.controller, STR("m"), TOPIC_DELETE_RECORDS, &problem), POLICY_VIOLATION);
    assert_int_equal(asked, 1 << TOPIC_DELETE | 1 << TOPIC_ADD_PARTITIONS | 1 << TOPIC_ALTER_CONFIGS | 1 << TOPIC_DELETE_RECORDS);
    struct partitions_spec spec = {.topic = STR("m"), .count = 3, .assignment_count = -1};
    assert_ok(controller_add_partitions(cluster.controller, &spec, 1, false, true, NULL, &cluster.arena, results,
                                        NULL)); /* the mirror's own */
    assert_int_equal(partitions_of("m"), 3);
}

/* ---- Leader epochs ---- */

static void test_leader_epochs(void **state)
{
    create_simple("a", 2);
    create_simple("b", 1);
    struct epoch_raise raises[] = {
        {.topic = "a", .partition = 0, .at_least = 7, .always = true},
        {.topic = "a", .partition = 1, .at_least = 0, .always = true},
        {.topic = "b", .partition = 0, .at_least = 0, .always = false},
        {.topic = "gone", .partition = 0, .always = true},
        {.topic = "b", .partition = 5, .always = true},
    };
    int64_t revision = meta_store_revision(cluster.store);
    assert_ok(controller_raise_leader_epochs(cluster.controller, raises, ARRAY_SIZE(raises), NULL, NULL));
    assert_int_equal(meta_store_revision(cluster.store), revision + 1);
    assert_int_equal(raises[0].leader_epoch, 7);
    assert_int_equal(raises[1].leader_epoch, 1);
    assert_int_equal(raises[2].leader_epoch, 0);
    assert_int_equal(raises[3].leader_epoch, -1);
    assert_int_equal(raises[4].leader_epoch, -1);
    struct epoch_raise lower = {.topic = "a", .partition = 0, .at_least = 3, .always = true}; /* never falls */
    assert_ok(controller_raise_leader_epochs(cluster.controller, &lower, 1, NULL, NULL));
    assert_int_equal(lower.leader_epoch, 8);
    int count;
    assert_ok(controller_raise_all_leader_epochs(cluster.controller, &count, NULL));
    assert_int_equal(count, 3);
    restart();
    assert_int_equal(epoch_of("a", 0), 9);
    assert_int_equal(epoch_of("a", 1), 2);
    assert_int_equal(epoch_of("b", 0), 1);
}

static void test_a_thousand_epochs_are_one_write(void **state)
{
    struct epoch_raise raises[1000];
    create_simple("big", 1000);
    int64_t revision = meta_store_revision(cluster.store);
    for (int i = 0; i < 1000; i++)
        raises[i] = (struct epoch_raise){.topic = "big", .partition = i, .always = true};
    assert_ok(controller_raise_leader_epochs(cluster.controller, raises, 1000, NULL, NULL));
    assert_int_equal(meta_store_revision(cluster.store), revision + 1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(epoch_of("big", i), 1);
}

/* ---- Producer ids ---- */

static int64_t allot(void)
{
    int64_t id;
    assert_ok(controller_allot_producer_id(cluster.controller, &id, NULL));
    return id;
}

static void test_producer_ids(void **state)
{
    int64_t id, revision;
    assert_false(controller_next_producer_id(cluster.controller, &id)); /* no block yet */
    assert_int_equal(allot(), 0);
    revision = meta_store_revision(cluster.store);
    for (int i = 1; i < PRODUCER_ID_BLOCK; i++) {
        assert_true(controller_next_producer_id(cluster.controller, &id));
        assert_int_equal(id, i);
    }
    assert_int_equal(meta_store_revision(cluster.store), revision); /* a block is one write */
    assert_false(controller_next_producer_id(cluster.controller, &id));
    assert_int_equal(allot(), PRODUCER_ID_BLOCK);
    assert_int_equal(controller_producer_id_floor(cluster.controller), PRODUCER_ID_BLOCK + 1);
    restart();
    assert_int_equal(controller_producer_id_floor(cluster.controller), 2 * PRODUCER_ID_BLOCK);
    assert_int_equal(allot(), 2 * PRODUCER_ID_BLOCK); /* what was left of the block is given up */
}

static void test_producer_ids_stay_above_mirrored_ones(void **state)
{
    static const int64_t mirrored[] = {5, 999, 1000, 150000, 4294967296};
    int64_t last = allot();
    for (size_t i = 0; i < ARRAY_SIZE(mirrored); i++) {
        assert_ok(controller_producer_ids_raise_above(cluster.controller, mirrored[i], NULL));
        assert_true(controller_producer_id_floor(cluster.controller) > mirrored[i]);
        int64_t id = allot();
        assert_true(id > mirrored[i] && id > last);
        last = id;
        assert_true(controller_next_producer_id(cluster.controller, &id));
        assert_int_equal(id, ++last);
    }
    int64_t revision = meta_store_revision(cluster.store), floor = controller_producer_id_floor(cluster.controller);
    for (int64_t id = mirrored[4]; id < mirrored[4] + 1000; id++)
        assert_ok(controller_producer_ids_raise_above(cluster.controller, id, NULL)); /* rare writes */
    assert_int_equal(meta_store_revision(cluster.store), revision);
    restart();
    assert_true(controller_producer_id_floor(cluster.controller) >= floor);
    assert_ok(controller_producer_ids_raise_above(cluster.controller, -1, NULL));
    assert_error(controller_producer_ids_raise_above(cluster.controller, INT64_MAX, NULL), ERR_INVALID);
    assert_ok(controller_producer_ids_raise_above(cluster.controller, PRODUCER_ID_RAISE_MAX, NULL));
    assert_true(controller_producer_id_floor(cluster.controller) > PRODUCER_ID_RAISE_MAX);
}

/* ---- Settings ---- */

static enum error alter(int8_t type, const char *name, enum config_op_kind kind, const char *key, const char *value,
                        struct problem *problem)
{
    struct config_op op = {.kind = kind, .name = str_of(key), .value = str_of(value)};
    return controller_alter_configs(cluster.controller, type, str_of(name), &op, 1, false, false, false, NULL, problem);
}

static const char *config_of(const char *key) /* of topic t */
{
    static char value[100];
    const struct image *image = cluster_image(&cluster);
    const char *set = image_config(&image_topic(image, STR("t"))->configs, key);
    snprintf(value, sizeof(value), "%s", set != NULL ? set : "-");
    image_unref(image);
    return value;
}

static void test_altering(void **state)
{
    static const struct {
        int8_t type;
        const char *resource;
        enum config_op_kind kind;
        const char *key, *value;
        enum error expected;
        const char *message, *after; /* of the topic's setting */
    } cases[] = {
        {2, "t", CONFIG_OP_SET, "retention.ms", "5", OK, NULL, "5"},
        {2, "t", CONFIG_OP_SET, "retention.ms", "x", INVALID_CONFIG, "Invalid value x for configuration retention.ms", "5"},
        {2, "t", CONFIG_OP_SET, "retention.ms", NULL, INVALID_REQUEST, "Null value not supported", "5"},
        {2, "t", CONFIG_OP_SET, "nope", "1", INVALID_CONFIG, "Unknown topic config name: nope", "-"},
        {2, "t", CONFIG_OP_APPEND, "retention.ms", "1", INVALID_CONFIG,
         "Can't APPEND to key retention.ms because its type is not LIST.", "5"},
        {2, "t", CONFIG_OP_SUBTRACT, "retention.ms", "1", INVALID_CONFIG,
         "Can't SUBTRACT to key retention.ms because its type is not LIST.", "5"},
        {2, "t", CONFIG_OP_DELETE, "retention.ms", NULL, OK, NULL, "-"},
        {2, "t", CONFIG_OP_DELETE, "nope", "", OK, NULL, "-"},
        {2, "t", CONFIG_OP_APPEND, "cleanup.policy", "compact", OK, NULL, "delete,compact"}, /* to the default */
        {2, "t", CONFIG_OP_APPEND, "cleanup.policy", "compact", OK, NULL, "delete,compact"},
        {2, "t", CONFIG_OP_APPEND, "cleanup.policy", "x", INVALID_CONFIG, "String must be one of", "delete,compact"},
        {2, "t", CONFIG_OP_SUBTRACT, "cleanup.policy", "delete", OK, NULL, "compact"},
        {2, "t", CONFIG_OP_SUBTRACT, "cleanup.policy", "compact", OK, NULL, ""},
        {2, "t", (enum config_op_kind)9, "retention.ms", "1", INVALID_REQUEST, "Unknown operation 9", "-"},
        {2, "unknown", CONFIG_OP_SET, "retention.ms", "1", UNKNOWN_TOPIC_OR_PARTITION, "The topic 'unknown' does not exist.",
         "-"},
        {2, "a/b", CONFIG_OP_SET, "retention.ms", "1", INVALID_TOPIC_EXCEPTION, "Topic name is invalid", "-"},
        {2, "", CONFIG_OP_SET, "retention.ms", "1", INVALID_REQUEST, "Default topic resources are not allowed.", "-"},
        {4, "1", CONFIG_OP_SET, "log.retention.ms", "x", INVALID_REQUEST, "Invalid value x", "-"},
        {4, "1", CONFIG_OP_SET, "node.id", "4", INVALID_REQUEST, "Cannot update these configs dynamically: [node.id]", "-"},
        {4, "", CONFIG_OP_SET, "num.partitions", "4", INVALID_REQUEST,
         "Cannot update these configs dynamically: [num.partitions]", "-"},
        {4, "9", CONFIG_OP_SET, "log.retention.ms", "1", INVALID_REQUEST,
         "Unexpected broker id, expected 1 or empty string, but received 9", "-"},
        {4, "x", CONFIG_OP_SET, "log.retention.ms", "1", INVALID_REQUEST, "Node id must be an integer, but it is: x", "-"},
        {4, "1", CONFIG_OP_SET, "log.retention.m", "1", INVALID_CONFIG, "Unknown broker config name: log.retention.m", "-"},
        {7, "1", CONFIG_OP_SET, "a", "1", INVALID_REQUEST, "Unknown resource type 7", "-"},
        {32, "g", CONFIG_OP_SET, "a", "1", INVALID_REQUEST, "not supported", "-"},
    };
    create_simple("t", 1);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct problem problem = {0};
        enum error error = alter(cases[i].type, cases[i].resource, cases[i].kind, cases[i].key, cases[i].value, &problem);
        if (error != cases[i].expected)
            fail_msg("case %zu: %s, not %s", i, error_name(error), error_name(cases[i].expected));
        if (cases[i].message != NULL)
            assert_message(str_of(problem.message), cases[i].message);
        assert_string_equal(config_of(cases[i].key), cases[i].after);
    }
    restart();
    assert_string_equal(config_of("cleanup.policy"), "");
}

static void test_altering_as_a_whole(void **state)
{
    struct problem problem;
    create_simple("t", 1);
    const struct config_op mixed[] = {{CONFIG_OP_SET, STR("retention.ms"), STR("5")},
                                      {CONFIG_OP_SET, STR("segment.ms"), STR("0")}};
    assert_error(controller_alter_configs(cluster.controller, CONFIG_RESOURCE_TOPIC, STR("t"), mixed, 2, false, false, false,
                                          NULL, &problem),
                 INVALID_CONFIG);
    assert_string_equal(config_of("retention.ms"), "-");
    const struct config_op same[] = {{CONFIG_OP_SET, STR("retention.ms"), STR("5")},
                                     {CONFIG_OP_SET, STR("retention.ms"), STR("6")}};
    assert_error(controller_alter_configs(cluster.controller, CONFIG_RESOURCE_TOPIC, STR("t"), same, 2, false, false, false, NULL,
                                          &problem),
                 INVALID_REQUEST);
    assert_message(str_of(problem.message), "Error due to duplicate config keys");
    assert_ok(controller_alter_configs(cluster.controller, CONFIG_RESOURCE_TOPIC, STR("t"), mixed, 1, false, true, false, NULL,
                                       &problem));
    assert_string_equal(config_of("retention.ms"), "-"); /* validated only */
    assert_ok(controller_alter_configs(cluster.controller, CONFIG_RESOURCE_TOPIC, STR("t"), mixed, 1, false, false, false, NULL,
                                       &problem));
    const struct config_op other[] = {{CONFIG_OP_SET, STR("flush.ms"), STR("7")}};
    assert_ok(controller_alter_configs(cluster.controller, CONFIG_RESOURCE_TOPIC, STR("t"), other, 1, true, false, false, NULL,
                                       &problem));
    assert_string_equal(config_of("retention.ms"), "-"); /* replaced */
    assert_string_equal(config_of("flush.ms"), "7");
}

static void test_broker_settings(void **state)
{
    struct problem problem;
    assert_ok(alter(CONFIG_RESOURCE_BROKER, "", CONFIG_OP_SET, "log.retention.ms", "5", &problem));
    assert_ok(alter(CONFIG_RESOURCE_BROKER, "1", CONFIG_OP_SET, "message.max.bytes", "77", &problem));
    restart();
    const struct image *image = cluster_image(&cluster);
    assert_int_equal(config_topic_long(image, NULL, "retention.ms"), 5);
    assert_int_equal(config_topic_long(image, NULL, "max.message.bytes"), 77);
    image_unref(image);
}

/* ---- Listeners ---- */

struct opened {
    struct image_listener listener;
    int topics;
};

static void count_topics(struct image_listener *listener, const struct image *before, const struct image *after)
{
    CONTAINER_OF(listener, struct opened, listener)->topics = after->topic_count;
}

static void test_listeners_have_run_when_the_call_returns(void **state)
{
    struct opened opened = {.listener = {.changed = count_topics}};
    image_cell_listen(controller_images(cluster.controller), &opened.listener);
    create_simple("a", 1);
    assert_int_equal(opened.topics, 1);
    create_simple("b", 1);
    assert_int_equal(opened.topics, 2);
    struct meta_txn txn = {0};
    meta_txn_put(&txn, "mirrors/x", json_integer(1)); /* another owner's: no new image */
    const struct image *before = cluster_image(&cluster);
    assert_ok(meta_store_commit(cluster.store, &txn, NULL, NULL));
    const struct image *after = cluster_image(&cluster);
    assert_ptr_equal(before, after);
    image_unref(before);
    image_unref(after);
    meta_txn_fini(&txn);
    image_cell_unlisten(controller_images(cluster.controller), &opened.listener);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_store_and_again),
        TEST(test_cluster_id_of_another),
        TEST(test_damaged_entry_is_named),
        TEST(test_topic_names),
        TEST(test_create_topic_rules),
        TEST(test_many_topics_in_one_request),
        TEST(test_explicit_ids_and_what_survives),
        TEST(test_deleting),
        TEST(test_adding_partitions),
        TEST(test_changes_with_keys_of_others),
        TEST(test_the_guard_is_asked),
        TEST(test_leader_epochs),
        TEST(test_a_thousand_epochs_are_one_write),
        TEST(test_producer_ids),
        TEST(test_producer_ids_stay_above_mirrored_ones),
        TEST(test_altering),
        TEST(test_altering_as_a_whole),
        TEST(test_broker_settings),
        TEST(test_listeners_have_run_when_the_call_returns),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_remove();
    return failed;
}
