/* JSON, escaping for terminals, errors of writing. */
#include "tools/out.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/assert.h"
#include "unit.h"

static void test_json(void **state)
{
    (void)state;
    struct out out;
    out_init(&out, -1);
    out_begin(&out, '{');
    out_field_i64(&out, "n", INT64_MIN);
    out_field_bool(&out, "b", true);
    out_field_text(&out, "t", STR("a\"b\\c\n\x01"));
    out_field_text(&out, "null", STR_NULL);
    out_key(&out, "list");
    out_begin(&out, '[');
    out_i64(&out, 1);
    out_begin(&out, '{');
    out_end(&out, '}');
    out_text(&out, STR("x"));
    out_end(&out, ']');
    out_field_data(&out, "data", (struct bytes){(const uint8_t *)"\xff\x00z", 3});
    out_field_data(&out, "key", (struct bytes){(const uint8_t *)"k", 1});
    out_end(&out, '}');
    out_begin(&out, '[');
    out_end(&out, ']');
    assert_string_equal(
        buf_cstr(&out.buf),
        "{\"n\":-9223372036854775808,\"b\":true,\"t\":\"a\\\"b\\\\c\\u000a\\u0001\",\"null\":null,\"list\":[1,{},\"x\"],"
        "\"data\":null,\"dataBase64\":\"/wB6\",\"key\":\"k\"}\n[]\n");
    out_fini(&out);
}

static void test_base64(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"", "\"\"\n"}, {"f", "\"Zg==\"\n"}, {"fo", "\"Zm8=\"\n"}, {"foo", "\"Zm9v\"\n"}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct out out;
        out_init(&out, -1);
        out_base64(&out, (struct bytes){(const uint8_t *)cases[i][0], (int64_t)strlen(cases[i][0])});
        out_char(&out, '\n');
        assert_string_equal(buf_cstr(&out.buf), cases[i][1]);
        out_fini(&out);
    }
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"", true},          {"plain", true}, {"\xc3\xa9", true},         {"\xe2\x82\xac", true},  {"\xf0\x9f\x98\x80", true},
        {"\xc0\xaf", false}, {"\xc3", false}, {"\xe0\x80\xaf", false},    {"\xed\xa0\x80", false}, {"\xf4\x90\x80\x80", false},
        {"\x80", false},     {"\xff", false}, {"\xf0\x80\x80\xaf", false}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(text_is_utf8((struct bytes){(const uint8_t *)cases[i].text, (int64_t)strlen(cases[i].text)}),
                         cases[i].good);
}

/* Data must not move the cursor of who looks at it, in none of the ways. */
static void test_terminals_are_safe(void **state)
{
    (void)state;
    struct out out;
    out_init(&out, -1);
    static const char text[] = "a\x1b[2J\n\t\r\x7f\xc2\x9b"
                               "31m\xff\xc3\xa9";
    out_safe(&out, (struct bytes){(const uint8_t *)text, sizeof(text) - 1});
    assert_string_equal(buf_cstr(&out.buf), "a\\x1b[2J\\n\\t\\r\\x7f\\xc2\\x9b31m\\xff\xc3\xa9");
    out_fini(&out);
}

static void test_a_full_disk_is_an_error(void **state)
{
    (void)state;
    struct out out;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        skip();
    out_init(&out, fd);
    out_printf(&out, "text");
    assert_false(out_flush(&out));
    assert_int_not_equal(out.error, 0);
    assert_false(out.closed);
    out_fini(&out);
    close(fd);
}

static void test_a_reader_that_left_is_none(void **state)
{
    (void)state;
    struct out out;
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    out_init(&out, ends[1]);
    out_printf(&out, "text");
    assert_false(out_flush(&out));
    assert_true(out.closed);
    assert_int_equal(out.error, 0);
    out_fini(&out);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_terminals_are_safe),
        cmocka_unit_test(test_a_full_disk_is_an_error),
        cmocka_unit_test(test_a_reader_that_left_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
