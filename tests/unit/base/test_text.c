/* error, str, buf, uuid, properties, logger: what is made of text. */
#include "unit.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/logger.h"
#include "base/properties.h"
#include "base/uuid.h"

static void errors_have_names_and_wire_codes(void **state)
{
    assert_string_equal(error_name(0), "NONE");
    assert_string_equal(error_name(44), "POLICY_VIOLATION");
    assert_string_equal(error_name(1137), "UNKNOWN_CLUSTER_MIRROR");
    assert_string_equal(error_name(5000), "ERROR_5000");
    assert_int_equal(error_wire(POLICY_VIOLATION), 44);
    assert_int_equal(error_wire(UNKNOWN_SERVER_ERROR), -1);
    assert_int_equal(error_wire(ERR_IO), KAFKA_STORAGE_ERROR);
    for (int code = -1017; code <= -1001; code++) { /* no local code leaves the process */
        assert_true(error_wire((enum error)code) >= -1);
        assert_true(error_wire((enum error)code) != 0);
        assert_null(strstr(error_name(code), "ERROR_-"));
    }
}

static void a_problem_is_one_line(void **state)
{
    struct problem p;
    char line[1024];

    problem_set(&p, ERR_LOCKED, "The folder %s is in use", "/d");
    assert_string_equal(problem_line(&p, line, sizeof(line)), "The folder /d is in use");
    problem_hint(&p, "Stop the other kagamid");
    assert_string_equal(problem_line(&p, line, sizeof(line)), "The folder /d is in use. Stop the other kagamid");
    problem_detail(&p, "pid 7");
    assert_string_equal(problem_line(&p, line, sizeof(line)), "The folder /d is in use (pid 7). Stop the other kagamid");
    problem_set(&p, ERR_IO, "It failed.");
    problem_hint(&p, "Try again.");
    assert_string_equal(problem_line(&p, line, sizeof(line)), "It failed. Try again.");
    problem_detail(&p, "EIO");
    assert_string_equal(problem_line(&p, line, sizeof(line)), "It failed (EIO). Try again.");
    assert_int_equal(strlen(problem_line(&p, line, 8)), 7);
    problem_set(&p, ERR_IO, "%s", "");
    assert_string_equal(problem_line(&p, line, sizeof(line)), error_message(ERR_IO));
}

static void views_compare_split_and_convert(void **state)
{
    struct str rest = STR("a,,b"), piece;
    int64_t v;

    assert_true(str_split(&rest, ',', &piece) && str_is(piece, "a"));
    assert_true(str_split(&rest, ',', &piece) && str_is(piece, "") && piece.p != NULL);
    assert_true(str_split(&rest, ',', &piece) && str_is(piece, "b"));
    assert_false(str_split(&rest, ',', &piece));
    assert_false(str_eq(STR_NULL, STR("")));
    assert_true(str_eq(STR_NULL, STR_NULL));
    assert_true(str_cmp(STR("ab"), STR("b")) < 0 && str_cmp(STR("ab"), STR("a")) > 0 && str_cmp(STR_NULL, STR("")) < 0);
    assert_true(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("a"), STR("ab")));
    assert_true(str_is(str_trim(STR(" \tx y\r\n")), "x y"));
    assert_true(str_to_i64(STR("-9223372036854775808"), &v) && v == INT64_MIN);
    assert_true(str_to_i64(STR("9223372036854775807"), &v) && v == INT64_MAX);
    static const char *const bad[] = {"", "-", "+", "9223372036854775808", "-9223372036854775809", "1x", " 1", "1 ", "99999999999999999999"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(str_to_i64(str_of(bad[i]), &v));
    assert_int_equal(str_distance(STR("retention.ms"), STR("retention.m")), 1);
    assert_int_equal(str_distance(STR("kitten"), STR("sitting")), 3);
    assert_int_equal(str_distance(STR(""), STR("abc")), 3);
}

static void a_buffer_grows(void **state)
{
    struct buf b = {0};

    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%03d,", i);
    assert_int_equal(b.len, 4000);
    assert_memory_equal(b.data + 3996, "999,", 4);
    assert_int_equal(strlen(buf_cstr(&b)), 4000);
    assert_int_equal(b.len, 4000);
    buf_fini(&b);
}

static void uuids_are_kafkas_text(void **state)
{
    struct uuid u, back;
    char text[UUID_TEXT_SIZE];

    for (int i = 0; i < 16; i++)
        u.b[i] = (uint8_t)i;
    assert_string_equal(uuid_text(&u, text), "AAECAwQFBgcICQoLDA0ODw"); /* base64url of 00 01 .. 0f */
    assert_true(uuid_parse(str_of(text), &back) && uuid_eq(&u, &back));
    assert_false(uuid_parse(STR("AAECAwQFBgcICQoLDA0OD"), &back));
    assert_false(uuid_parse(STR("AAECAwQFBgcICQoLDA0OD!"), &back));
    assert_false(uuid_parse(STR("AAECAwQFBgcICQoLDA0ODx"), &back)); /* bits beyond the 128th */
    uint8_t dash[16] = {0xf8};
    assert_false(uuid_from_random(dash, &back));
    dash[0] = 0;
    assert_true(uuid_from_random(dash, &back));
    assert_int_equal(back.b[6] >> 4, 4);
    assert_int_equal(back.b[8] >> 6, 2);
}

static void properties_are_javas(void **state)
{
    struct properties p = {0};
    struct problem problem;
    static const char text[] = "# comment\n! comment\n\n  key = value with blanks \nempty=\nalone\ncolon:x\nblank y z\n"
                               "long=a,\\\n     b\nesc\\=aped\\ key=\\t\\u00e9\\ud83d\\ude00\\q\r\ntwice=1\ntwice=2\nback=c:\\\\d";

    assert_ok(properties_parse(&p, STR(text), &problem));
    assert_string_equal(properties_get(&p, "key"), "value with blanks ");
    assert_string_equal(properties_get(&p, "empty"), "");
    assert_string_equal(properties_get(&p, "alone"), "");
    assert_string_equal(properties_get(&p, "colon"), "x");
    assert_string_equal(properties_get(&p, "blank"), "y z");
    assert_string_equal(properties_get(&p, "long"), "a,b");
    assert_string_equal(properties_get(&p, "esc=aped key"), "\t\xc3\xa9\xf0\x9f\x98\x80q");
    assert_string_equal(properties_get(&p, "twice"), "2");
    assert_string_equal(properties_get(&p, "back"), "c:\\d");
    assert_null(properties_get(&p, "absent"));
    assert_int_equal(p.items[0].line, 4);
    properties_remove(&p, "twice");
    assert_null(properties_get(&p, "twice"));
    assert_string_equal(properties_get(&p, "back"), "c:\\d");
    assert_error(properties_parse(&p, STR("ok=1\nbad=\\u12"), &problem), ERR_MALFORMED);
    assert_non_null(strstr(problem.message, "Line 2"));
    assert_error(properties_parse(&p, STR("a=\\ud800x"), &problem), ERR_MALFORMED);
    assert_error(properties_parse(&p, (struct str){text, PROPERTIES_MAX_BYTES + 1}, &problem), ERR_TOO_LARGE);
    properties_fini(&p);
}

static void keep_line(void *arg, enum log_level level, const char *line) { snprintf(arg, 4096, "%s", line); }

static void a_log_line_stays_one_line(void **state)
{
    static char line[4096], huge[8192];

    logger_set_sink(keep_line, line);
    log_info("test", "topic=%s", "a\nINFO forged: b");
    assert_non_null(strstr(line, " INFO test: topic=a INFO forged: b"));
    memset(huge, 'x', sizeof(huge) - 1);
    log_warn("test", "%s", huge);
    assert_true(strlen(line) < 2048 && strlen(line) > 2000);
    line[0] = '\0';
    log_debug("test", "not on");
    assert_string_equal(line, "");
    logger_set_sink(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_have_names_and_wire_codes), cmocka_unit_test(a_problem_is_one_line),
        cmocka_unit_test(views_compare_split_and_convert),  cmocka_unit_test(a_buffer_grows),
        cmocka_unit_test(uuids_are_kafkas_text),            cmocka_unit_test(properties_are_javas),
        cmocka_unit_test(a_log_line_stays_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
