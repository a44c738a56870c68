#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "meta/config_defs.h"
#include "meta/image_build.h"
#include "storage/plog.h"
#include "unit.h"

static void test_tables_are_sound(void **state)
{
    for (int scope = CONFIG_SCOPE_BROKER; scope <= CONFIG_SCOPE_TOPIC; scope++) {
        int count;
        struct problem problem;
        const struct config_def *table = config_defs(scope, &count);
        for (int i = 0; i < count; i++) {
            const struct config_def *def = &table[i];
            assert_true(i == 0 || strcmp(table[i - 1].name, def->name) < 0);
            assert_ptr_equal(config_def_find(scope, str_of(def->name)), def);
            assert_true(def->doc != NULL && def->doc[0] != '\0');
            assert_ok(config_check(def, str_of(def->default_value), &problem));
            for (size_t f = 0; f < ARRAY_SIZE(def->fallbacks) && def->fallbacks[f].name != NULL; f++) {
                const struct config_def *other = config_def_find(CONFIG_SCOPE_BROKER, str_of(def->fallbacks[f].name));
                assert_non_null(other);
                assert_true(def->fallbacks[f].factor != 1 || other->type == def->type || other->type == CONFIG_STRING);
            }
        }
    }
}

/* What Apache Kafka 4.4 answered to the same values. */
static void test_values(void **state)
{
    static const struct {
        const char *name, *value, *reason; /* NULL: legal */
    } cases[] = {
        {"retention.ms", "-1", NULL},
        {"retention.ms", "+5", NULL},
        {"retention.ms", " 5 ", NULL},
        {"retention.ms", "abc", "Not a number of type LONG"},
        {"retention.ms", "", "Not a number of type LONG"},
        {"retention.ms", "0x10", "Not a number of type LONG"},
        {"retention.ms", "1.5", "Not a number of type LONG"},
        {"retention.ms", "-2", "Value must be at least -1"},
        {"retention.ms", "9223372036854775808", "Not a number of type LONG"},
        {"segment.bytes", "1", "Value must be at least 1048576"},
        {"segment.bytes", "99999999999", "Not a number of type INT"},
        {"segment.bytes", " 1048576 ", NULL},
        {"cleanup.policy", "foo", "String must be one of: compact, delete"},
        {"cleanup.policy", "", NULL},
        {"cleanup.policy", "compact,delete", NULL},
        {"cleanup.policy", " delete , compact ", NULL},
        {"cleanup.policy", "delete,delete", NULL},
        {"cleanup.policy", "delete,,compact", "String must be one of: compact, delete"},
        {"compression.type", "bzip", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
        {"compression.type", "zstd", NULL},
        {"min.cleanable.dirty.ratio", "2", "Value must be no more than 1"},
        {"min.cleanable.dirty.ratio", "0.75", NULL},
        {"min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"},
        {"min.cleanable.dirty.ratio", "0x1p-1", "Not a number of type DOUBLE"},
        {"preallocate", "yes", "Expected value to be either true or false"},
        {"preallocate", "TRUE", NULL},
        {"preallocate", " true ", NULL},
        {"message.timestamp.type", "Foo", "String must be one of: CreateTime, LogAppendTime"},
        {"min.insync.replicas", "0", "Value must be at least 1"},
        {"max.message.bytes", "-1", "Value must be at least 0"},
        {"segment.index.bytes", "3", "Value must be at least 4"},
        {"segment.ms", "0", "Value must be at least 1"},
        {"compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"},
        {"compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"},
        {"compression.gzip.level", "-1", NULL},
        {"compression.lz4.level", "18", "Value must be no more than 17"},
        {"compression.zstd.level", "-131073", "Value must be at least -131072"},
        {"follower.replication.throttled.replicas", "a", "must be the literal '*' or a list of replicas"},
        {"follower.replication.throttled.replicas", "*", NULL},
        {"follower.replication.throttled.replicas", "0:1,1:2", NULL},
        {"leader.replication.throttled.replicas", "0:1:2", "must be the literal '*' or a list of replicas"},
        {"retention.bytes", "-5", NULL},
        {"local.retention.ms", "-3", "Value must be at least -2"},
        {"flush.messages", "0", "Value must be at least 1"},
        {"max.compaction.lag.ms", "0", "Value must be at least 1"},
        {"remote.storage.enable", "true", "There is no tiered storage"},
        {"remote.storage.enable", "false", NULL},
        {"remote.copy.lag.ms", "-2", "Value must be at least -1"},
        {"max.decompressed.message.bytes", "-1", "Value must be at least 1"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct problem problem = {0};
        const struct config_def *def = config_def_find(CONFIG_SCOPE_TOPIC, str_of(cases[i].name));
        assert_non_null(def);
        enum error error = config_check(def, str_of(cases[i].value), &problem);
        assert_error(error, cases[i].reason != NULL ? INVALID_CONFIG : OK);
        if (cases[i].reason != NULL && strstr(problem.message, cases[i].reason) == NULL)
            fail_msg("%s=%s: \"%s\" lacks \"%s\"", cases[i].name, cases[i].value, problem.message, cases[i].reason);
        if (cases[i].reason != NULL)
            assert_non_null(strstr(problem.message, cases[i].name));
    }
    struct problem problem;
    const struct config_def *def = config_def_find(CONFIG_SCOPE_TOPIC, STR("compression.type"));
    assert_error(config_check(def, (struct str){"zstd\0x", 6}, &problem), INVALID_CONFIG);
    assert_error(config_check(def, STR_NULL, &problem), INVALID_CONFIG);
}

static void test_nearest(void **state)
{
    assert_string_equal(config_nearest(CONFIG_SCOPE_TOPIC, STR("retention.mss")), "retention.ms");
    assert_string_equal(config_nearest(CONFIG_SCOPE_BROKER, STR("num.partition")), "num.partitions");
    assert_string_equal(config_nearest(CONFIG_SCOPE_BROKER, STR("auto.create.topic.enable")), "auto.create.topics.enable");
    assert_null(config_nearest(CONFIG_SCOPE_TOPIC, STR("something.else.entirely")));
    assert_null(config_nearest(CONFIG_SCOPE_TOPIC, STR("")));
}

static void test_static_settings(void **state)
{
    static const struct {
        const char *text, *expected, *hint; /* NULL: fine */
    } cases[] = {
        {"num.partitions=3\nlog.retention.hours=1\n", NULL, NULL},
        {"# nothing\n", NULL, NULL},
        {"num.partition=3\n", "There is no setting num.partition.", "Did you mean num.partitions?"},
        {"node.id=1\nnum.partitions=x\n", "Invalid value x for configuration num.partitions: Not a number of type INT", NULL},
        {"zzzzzzzzzzzz=1\n", "There is no setting zzzzzzzzzzzz.", "manual page"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct properties p = {0};
        struct problem problem = {0};
        assert_ok(properties_parse(&p, str_of(cases[i].text), &problem));
        assert_error(config_check_static(&p, &problem), cases[i].expected != NULL ? INVALID_CONFIG : OK);
        if (cases[i].expected != NULL) {
            assert_string_equal(problem.message, cases[i].expected);
            assert_non_null(strstr(problem.detail, "line "));
        }
        if (cases[i].hint != NULL)
            assert_non_null(strstr(problem.hint, cases[i].hint));
        properties_fini(&p);
    }
}

/* ---- Values in force ---- */

struct world {
    struct properties properties;
    struct image *image;
    struct image_topic topic;
};

static void world_init(struct world *w)
{
    *w = (struct world){0};
    w->image = image_create(1, &w->properties);
}

static void world_fini(struct world *w)
{
    image_unref(w->image);
    image_configs_fini(&w->topic.configs);
    properties_fini(&w->properties);
}

static void set(struct image_configs *configs, const char *name, const char *value)
{
    image_configs_set(configs, str_of(name), str_of(value));
}

static void assert_value(struct world *w, const char *name, int64_t expected, enum config_source source)
{
    struct config_value value;
    config_resolve(w->image, &w->topic, config_def_find(CONFIG_SCOPE_TOPIC, str_of(name)), &value);
    assert_int_equal(value.source, source);
    assert_true(config_topic_long(w->image, &w->topic, name) == expected);
}

static void test_where_a_value_comes_from(void **state)
{
    struct world w;
    world_init(&w);
    assert_value(&w, "retention.ms", 604800000, CONFIG_SOURCE_DEFAULT);
    properties_set(&w.properties, STR("log.retention.hours"), STR("2"));
    assert_value(&w, "retention.ms", 7200000, CONFIG_SOURCE_STATIC_BROKER);
    properties_set(&w.properties, STR("log.retention.minutes"), STR("3"));
    assert_value(&w, "retention.ms", 180000, CONFIG_SOURCE_STATIC_BROKER);
    properties_set(&w.properties, STR("log.retention.ms"), STR("4"));
    assert_value(&w, "retention.ms", 4, CONFIG_SOURCE_STATIC_BROKER);
    set(&w.image->broker_default_configs, "log.retention.ms", "5");
    assert_value(&w, "retention.ms", 5, CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER);
    set(&w.image->broker_configs, "log.retention.ms", "6");
    assert_value(&w, "retention.ms", 6, CONFIG_SOURCE_DYNAMIC_BROKER);
    set(&w.topic.configs, "retention.ms", "7");
    assert_value(&w, "retention.ms", 7, CONFIG_SOURCE_TOPIC);

    struct config_value synonyms[CONFIG_SYNONYMS_MAX];
    int count = config_synonyms(w.image, &w.topic, config_def_find(CONFIG_SCOPE_TOPIC, STR("retention.ms")), synonyms,
                                CONFIG_SYNONYMS_MAX);
    assert_int_equal(count, 6); /* log.retention.ms has no default of its own to list */
    assert_string_equal(synonyms[0].name, "retention.ms");
    assert_string_equal(synonyms[1].name, "log.retention.ms");
    assert_int_equal(synonyms[4].factor, 60000);
    assert_int_equal(synonyms[5].source, CONFIG_SOURCE_STATIC_BROKER);
    count = config_synonyms(w.image, &w.topic, config_def_find(CONFIG_SCOPE_TOPIC, STR("segment.bytes")), synonyms, 16);
    assert_int_equal(count, 1);
    assert_string_equal(synonyms[0].name, "log.segment.bytes");
    assert_int_equal(synonyms[0].source, CONFIG_SOURCE_DEFAULT);
    world_fini(&w);
}

static void test_special_numbers(void **state)
{
    struct world w;
    world_init(&w);
    properties_set(&w.properties, STR("log.retention.minutes"), STR("-1")); /* no limit, in any unit */
    assert_value(&w, "retention.ms", -1, CONFIG_SOURCE_STATIC_BROKER);
    properties_set(&w.properties, STR("log.roll.hours"), STR("2147483647"));
    assert_value(&w, "segment.ms", 2147483647LL * 3600000, CONFIG_SOURCE_STATIC_BROKER);
    assert_int_equal(config_broker_long(w.image, "num.network.threads"), -1);
    properties_set(&w.properties, STR("broker.id"), STR("7"));
    assert_int_equal(config_static_long(&w.properties, "node.id"), 7);
    properties_set(&w.properties, STR("node.id"), STR("8"));
    assert_int_equal(config_static_long(&w.properties, "node.id"), 8);
    assert_true(config_static_bool(&w.properties, "auto.create.topics.enable"));
    assert_null(config_static_string(&w.properties, "log.dirs"));
    properties_set(&w.properties, STR("log.dir"), STR("/x"));
    assert_string_equal(config_static_string(&w.properties, "log.dirs"), "/x");
    world_fini(&w);
}

static void test_rules_between_settings(void **state)
{
    struct world w;
    struct problem problem;
    world_init(&w);
    set(&w.topic.configs, "min.compaction.lag.ms", "100");
    assert_ok(config_check_topic(w.image, &w.topic.configs, &problem));
    set(&w.topic.configs, "max.compaction.lag.ms", "50");
    assert_error(config_check_topic(w.image, &w.topic.configs, &problem), INVALID_CONFIG);
    assert_string_equal(problem.message,
                        "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)");
    world_fini(&w);
}

static void test_settings_of_a_log(void **state)
{
    struct world w;
    struct plog_config c;
    world_init(&w);
    config_topic_log(w.image, NULL, &c);
    assert_int_equal(c.segment_bytes, 1073741824);
    assert_int_equal(c.segment_ms, 604800000);
    assert_int_equal(c.retention_ms, 604800000);
    assert_int_equal(c.retention_bytes, -1);
    assert_true(c.cleanup_delete && !c.cleanup_compact && !c.validate.compacted);
    assert_int_equal(c.validate.max_message_bytes, 1048588);
    assert_int_equal(c.validate.compression, VALIDATE_COMPRESSION_PRODUCER);
    assert_false(c.validate.log_append_time);
    assert_int_equal(c.producer_id_expiration_ms, 86400000);

    set(&w.topic.configs, "cleanup.policy", " compact ");
    set(&w.topic.configs, "compression.type", "zstd");
    set(&w.topic.configs, "compression.zstd.level", "7");
    set(&w.topic.configs, "message.timestamp.type", "LogAppendTime");
    set(&w.topic.configs, "message.timestamp.after.max.ms", "5");
    set(&w.topic.configs, "segment.bytes", "1048577");
    set(&w.topic.configs, "retention.bytes", "-7");
    set(&w.topic.configs, "max.message.bytes", "99");
    set(&w.image->broker_configs, "log.segment.delete.delay.ms", "3");
    set(&w.image->broker_configs, "producer.id.expiration.ms", "4");
    config_topic_log(w.image, &w.topic, &c);
    assert_true(!c.cleanup_delete && c.cleanup_compact && c.validate.compacted);
    assert_int_equal(c.validate.compression, 4);
    assert_int_equal(c.validate.compression_level, 7);
    assert_true(c.validate.log_append_time);
    assert_int_equal(c.validate.timestamp_after_max_ms, 5);
    assert_int_equal(c.segment_bytes, 1048577);
    assert_int_equal(c.validate.segment_bytes, 1048577);
    assert_int_equal(c.retention_bytes, -1);
    assert_int_equal(c.validate.max_message_bytes, 99);
    assert_int_equal(c.file_delete_delay_ms, 3);
    assert_int_equal(c.producer_id_expiration_ms, 4);

    set(&w.topic.configs, "compression.type", "uncompressed");
    set(&w.topic.configs, "cleanup.policy", "");
    config_topic_log(w.image, &w.topic, &c);
    assert_int_equal(c.validate.compression, 0);
    assert_int_equal(c.validate.compression_level, INT_MIN);
    assert_true(!c.cleanup_delete && !c.cleanup_compact);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_sound),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_static_settings),
        cmocka_unit_test(test_where_a_value_comes_from),
        cmocka_unit_test(test_special_numbers),
        cmocka_unit_test(test_rules_between_settings),
        cmocka_unit_test(test_settings_of_a_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
