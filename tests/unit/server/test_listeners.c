/* Addresses in settings. */
#include "server/listeners.h"

#include "base/assert.h"
#include "unit.h"

static void addresses(void **state)
{
    static const struct {
        const char *value;
        enum error error;
        const char *host;
        int port;
    } CASES[] = {
        {"PLAINTEXT://localhost:9092", OK, "localhost", 9092},
        {" PLAINTEXT://127.0.0.1:0 ", OK, "127.0.0.1", 0},
        {"PLAINTEXT://:9092", OK, "", 9092},
        {"PLAINTEXT://[::1]:9092", OK, "::1", 9092},
        {"PLAINTEXT://localhost", INVALID_CONFIG, "", 0},
        {"PLAINTEXT://localhost:99999", INVALID_CONFIG, "", 0},
        {"SSL://localhost:9093", INVALID_CONFIG, "", 0},
        {"localhost:9092", INVALID_CONFIG, "", 0},
        {"", INVALID_CONFIG, "", 0},
        {"PLAINTEXT://a:1,PLAINTEXT://b:2", INVALID_CONFIG, "", 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct host_port address = {0};
        struct problem problem = {0};
        assert_error(listeners_parse("listeners", str_of(CASES[i].value), &address, &problem), CASES[i].error);
        if (CASES[i].error == OK) {
            assert_string_equal(address.host, CASES[i].host);
            assert_int_equal(address.port, CASES[i].port);
        } else {
            assert_non_null(strstr(problem.message, "listeners"));
            assert_true(problem.hint[0] != '\0');
        }
    }
}

static void all_addresses(void **state)
{
    assert_true(listeners_any_address(""));
    assert_true(listeners_any_address("0.0.0.0"));
    assert_true(listeners_any_address("::"));
    assert_false(listeners_any_address("127.0.0.1"));
    char host[SOCKET_HOST_MAX] = "";
    listeners_default_host(host);
    assert_true(host[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(addresses), cmocka_unit_test(all_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
