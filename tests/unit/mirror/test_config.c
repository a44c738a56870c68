/* Settings of a mirror: table, refusals by name, JSON and back. */
#include "unit.h"

#include "base/assert.h"
#include "mirror/config.h"

static void defaults_are_the_specs(void **state)
{
    struct mirror_config c;

    mirror_config_init(&c);
    assert_null(c.bootstrap_servers);
    assert_int_equal(c.request_timeout_ms, 30000);
    assert_int_equal(c.fetch_wait_max_ms, 1000);
    assert_int_equal(c.fetch_max_bytes, 10485760);
    assert_int_equal(c.partition_fetch_max_bytes, 1048576);
    assert_int_equal(c.fetchers, 1);
    assert_int_equal(c.throttle_bytes_per_second, -1);
    assert_int_equal(c.open_transactions, MIRROR_TXN_ABORT);
    assert_int_equal(c.on_divergence, MIRROR_DIVERGENCE_FAIL);
    mirror_config_fini(&c);
}

static void wrong_settings_are_refused_by_name(void **state)
{
    static const struct {
        const char *name, *value, *says;
    } rows[] = {
        {"fetch.max.byte", "1", "Did you mean fetch.max.bytes"},
        {"nonsense", "1", "--help"},
        {"fetchers", "0", "between 1 and 64"},
        {"fetchers", "many", "not a whole number"},
        {"fetch.max.bytes", "2147483648", "between"},
        {"on.divergence", "ignore", "fail,truncate"},
        {"producer.ids", "negate", "not supported yet"},
        {"security.protocol", "SASL_SSL", "not supported yet"},
        {"ssl.keystore.location", "/k", "not supported yet"},
        {"groups.include", ".*", "not supported yet"},
    };
    struct mirror_config c;

    mirror_config_init(&c);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct problem p;
        char line[1024];
        assert_error(mirror_config_set(&c, str_of(rows[i].name), str_of(rows[i].value), &p), INVALID_CONFIG);
        problem_line(&p, line, sizeof(line));
        assert_non_null(strstr(line, rows[i].says));
        assert_true(strstr(line, rows[i].name) != NULL || i == 1);
    }
    mirror_config_fini(&c);
}

static void addresses_are_checked(void **state)
{
    static const struct {
        const char *text;
        enum error expected;
    } rows[] = {
        {"h:1", OK}, {"a:9092, b:9093 ,", OK}, {"[::1]:9092", OK}, {"h", INVALID_CONFIG}, {":9092", INVALID_CONFIG}, {"", INVALID_CONFIG},
        {" , ", INVALID_CONFIG}, {"h:0", INVALID_CONFIG}, {"h:70000", INVALID_CONFIG}, {"a:1;b:2", INVALID_CONFIG},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mirror_config c;
        struct problem p;
        mirror_config_init(&c);
        assert_ok(mirror_config_set(&c, STR("bootstrap.servers"), str_of(rows[i].text), &p));
        assert_error(mirror_config_check(&c, &p), rows[i].expected);
        mirror_config_fini(&c);
    }
}

static void json_holds_what_was_set(void **state)
{
    struct mirror_config c, back, copy;
    struct problem p;
    json_t *json;

    mirror_config_init(&c);
    assert_ok(mirror_config_set(&c, STR("bootstrap.servers"), STR("h:1"), &p));
    assert_ok(mirror_config_set(&c, STR("fetchers"), STR(" 4 "), &p));
    assert_ok(mirror_config_set(&c, STR("open.transactions"), STR("truncate"), &p));
    assert_ok(mirror_config_set(&c, STR("fetch.min.bytes"), STR("7"), &p));
    assert_ok(mirror_config_set(&c, STR("fetch.min.bytes"), STR_NULL, &p)); /* back to the default */
    mirror_config_copy(&copy, &c);
    json = mirror_config_to_json(&copy);
    assert_int_equal(json_object_size(json), 3);
    assert_ok(mirror_config_from_json(json, &back, &p));
    assert_int_equal(back.fetchers, 4);
    assert_int_equal(back.fetch_min_bytes, 1);
    assert_int_equal(back.open_transactions, MIRROR_TXN_TRUNCATE);
    assert_string_equal(back.bootstrap_servers, "h:1");
    json_object_set_new(json, "fetchers", json_integer(4));
    assert_error(mirror_config_from_json(json, &back, &p), ERR_CORRUPT);
    json_decref(json);
    mirror_config_fini(&c);
    mirror_config_fini(&copy);
    mirror_config_fini(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_specs),
        cmocka_unit_test(wrong_settings_are_refused_by_name),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(json_holds_what_was_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
