/* Durations, sizes and times, both ways; tables. */
#include "tools/text.h"

#include "base/assert.h"
#include "tools/table.h"
#include "unit.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {{-1, "-"},         {0, "0 B"},        {1023, "1023 B"},     {1024, "1.0 KiB"},
                 {1536, "1.5 KiB"}, {10240, "10 KiB"}, {5 << 20, "5.0 MiB"}, {INT64_MAX, "8.0 EiB"}};
    char out[TEXT_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_string_equal(text_bytes(cases[i].bytes, out), cases[i].text);
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{-1, "-"},
                 {0, "0ms"},
                 {999, "999ms"},
                 {1500, "1.5s"},
                 {12345, "12s"},
                 {3 * MINUTE + 20 * SECOND, "3m20s"},
                 {2 * HOUR + 5 * MINUTE, "2h05m"},
                 {4 * DAY + 3 * HOUR, "4d03h"}};
    char out[TEXT_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_string_equal(text_duration(cases[i].ms, out), cases[i].text);
}

static void test_durations_that_people_write(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: none */
    } cases[] = {{"0", 0},
                 {"500ms", 500},
                 {"30s", 30 * SECOND},
                 {"1.5s", 1500},
                 {"2m", 2 * MINUTE},
                 {"1m30s", 90 * SECOND},
                 {"1h", HOUR},
                 {"1d", DAY},
                 {"1d2h3m4s5ms", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5},
                 {"", -1},
                 {"5", -1},
                 {"s", -1},
                 {"-5s", -1},
                 {"5 s", -1},
                 {"5sec", -1},
                 {"1.s", -1},
                 {".5s", -1},
                 {"1s1m", -1},
                 {"1s1s", -1},
                 {"9999999999999999999s", -1},
                 {"99999999d", -1},
                 {"1e3s", -1}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t ms = -1;
        bool good = parse_duration(str_of(cases[i].text), &ms);
        if (good != (cases[i].ms >= 0) || (good && ms != cases[i].ms))
            fail_msg("\"%s\" is %lld", cases[i].text, (long long)ms);
    }
}

static void test_times(void **state)
{
    (void)state;
    char out[TEXT_SIZE];
    assert_string_equal(text_time(1700000000123, out), "2023-11-14T22:13:20.123Z");
    assert_string_equal(text_time(-1, out), "-");
    assert_string_equal(text_time(INT64_MAX, out), "-");
    static const struct {
        const char *text;
        int64_t ms; /* -1: none */
    } cases[] = {{"1700000000123", 1700000000123},
                 {"2023-11-14T22:13:20.123Z", 1700000000123},
                 {"2023-11-14T22:13:20", 1700000000000},
                 {"2023-11-14T23:13:20+01:00", 1700000000000},
                 {"2023-11-14T22:13", 1699999980000},
                 {"2023-11-14", 1699920000000},
                 {"2023-13-14", -1},
                 {"2023-11-14T25:00", -1},
                 {"2023-11-14 22:13", -1},
                 {"yesterday", -1},
                 {"", -1}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t ms = -1;
        bool good = parse_time(str_of(cases[i].text), &ms);
        if (good != (cases[i].ms >= 0) || (good && ms != cases[i].ms))
            fail_msg("\"%s\" is %lld", cases[i].text, (long long)ms);
    }
}

static void test_a_table(void **state)
{
    (void)state;
    static const char *const titles[] = {"TOPIC", ">LAG", "STATE"};
    struct table t;
    struct out out;
    out_init(&out, -1);
    table_init(&t, titles, 3);
    table_print(&t, &out);
    assert_int_equal(out.buf.len, 0); /* no rows: nothing */
    table_str(&t, STR("orders"));
    table_count(&t, 12345);
    table_str(&t, STR("MIRRORING"));
    table_str(&t, STR("caf\xc3\xa9\x1b[2J"));
    table_count(&t, -1);
    table_str(&t, STR_NULL);
    table_print(&t, &out);
    assert_string_equal(buf_cstr(&out.buf), "TOPIC          LAG  STATE\n"
                                            "orders       12345  MIRRORING\n"
                                            "caf\xc3\xa9\\x1b[2J      -  -\n");
    table_fini(&t);
    out_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_durations), cmocka_unit_test(test_durations_that_people_write),
        cmocka_unit_test(test_times), cmocka_unit_test(test_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
