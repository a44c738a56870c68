/* The parser, by table: a command line and what it means, or what is wrong with it. */
#include "tools/args.h"

#include <string.h>

#include "base/assert.h"
#include "unit.h"

#define WORDS_MAX 16

/* Splits at blanks; the words stay in `text`. */
static int split(char *text, const char *argv[WORDS_MAX])
{
    int argc = 0;
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    return argc;
}

static enum error parse(const char *line, char text[256], struct args *args, struct problem *problem)
{
    const char *argv[WORDS_MAX];
    strcpy(text, line);
    memset(problem, 0, sizeof(*problem));
    return args_parse(split(text, argv), argv, args, problem);
}

static void test_commands_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words, *arguments;
    } cases[] = {
        {"mirror stop dc2", "mirror stop", "dc2"},
        {"--json mirror stop dc2", "mirror stop", "dc2"},
        {"mirror --json stop dc2", "mirror stop", "dc2"},
        {"--bootstrap-server h:1 mirror stop --drain dc2", "mirror stop", "dc2"},
        {"--bootstrap-server=h:1 topic describe a b c", "topic describe", "a b c"},
        {"dump-log -- --strange", "dump-log", "--strange"},
        {"consume -", "consume", "-"},
        {"mirror list", "mirror list", ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256], arguments[256] = "";
        struct args args;
        struct problem problem;
        assert_ok(parse(cases[i].line, text, &args, &problem));
        assert_string_equal(args.command->words, cases[i].words);
        for (int k = 0; k < args.word_count; k++) {
            strcat(arguments, k > 0 ? " " : "");
            strcat(arguments, args.words[k]);
        }
        assert_string_equal(arguments, cases[i].arguments);
        args_fini(&args);
    }
}

static void test_mistakes_are_named_with_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message, *hint;
    } cases[] = {
        {"", "A command is missing", "kagami --help"},
        {"mirror", "needs a command", "kagami mirror --help"},
        {"miror list", "\"kagami miror\"", "\"kagami mirror\""},
        {"mirror lst", "\"kagami mirror lst\"", "\"kagami mirror list\""},
        {"mirror entirely-else", "entirely-else", "kagami mirror --help"},
        {"mirror stop dc2 --darin", "--darin", "--drain"},
        {"mirror stop dc2 --jsn", "--jsn", "--json"},
        {"--watch mirror describe", "--watch", "behind it"},
        {"mirror stop", "needs NAME", "kagami mirror stop --help"},
        {"mirror list dc2", "does not understand \"dc2\"", "kagami mirror list --help"},
        {"mirror stop dc2 --topics", "--topics needs a value", "--topics LIST"},
        {"mirror stop dc2 --drain=yes", "--drain takes no value", ""},
        {"mirror stop dc2 --timeout 60", "--timeout cannot be \"60\"", "30s"},
        {"mirror stop dc2 --open-transactions commit", "cannot be \"commit\"", "abort|truncate"},
        {"topic create t --partitions 0", "cannot be \"0\"", "from 1 to"},
        {"topic create t --partitions many", "cannot be \"many\"", "number"},
        {"topic list -x", "-x", "two dashes"},
        {"dump-log", "needs FILE", "kagami dump-log --help"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256];
        struct args args;
        struct problem problem;
        assert_error(parse(cases[i].line, text, &args, &problem), ERR_INVALID);
        if (strstr(problem.message, cases[i].message) == NULL || strstr(problem.hint, cases[i].hint) == NULL)
            fail_msg("\"%s\": \"%s\" \"%s\"", cases[i].line, problem.message, problem.hint);
    }
}

static void test_values(void **state)
{
    (void)state;
    char text[256];
    struct args args;
    struct problem problem;
    assert_ok(parse("mirror create dc2 --set a=1 --set=b=2 --config f --json", text, &args, &problem));
    assert_string_equal(args_text_at(&args, "set", 0), "a=1");
    assert_string_equal(args_text_at(&args, "set", 1), "b=2");
    assert_null(args_text_at(&args, "set", 2));
    assert_string_equal(args_text(&args, "config"), "f");
    assert_null(args_text(&args, "source"));
    assert_true(args_flag(&args, "json"));
    args_fini(&args);

    assert_ok(parse("topic create t --partitions 3 --partitions 7", text, &args, &problem));
    assert_int_equal(args_number(&args, "partitions", -1), 7); /* the last one counts */
    assert_int_equal(args_number(&args, "replication-factor", -1), -1);
    assert_int_equal(args_number(&args, "timeout", -1), 30000);
    args_fini(&args);
}

static void test_a_commands_own_option_stands_before_the_global_one(void **state)
{
    (void)state;
    char text[256];
    struct args args;
    struct problem problem;
    assert_ok(parse("mirror stop dc2", text, &args, &problem));
    assert_int_equal(args_number(&args, "timeout", -1), 60000);
    args_fini(&args);
    assert_ok(parse("--timeout 5s mirror stop dc2", text, &args, &problem));
    assert_int_equal(args_number(&args, "timeout", -1), 5000);
    args_fini(&args);
}

static void test_help_needs_no_arguments(void **state)
{
    (void)state;
    static const char *const lines[] = {"--help",         "mirror --help", "mirror stop --help",
                                        "mirror stop -h", "--version",     "dump-log --help"};
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        char text[256];
        struct args args;
        struct problem problem;
        assert_ok(parse(lines[i], text, &args, &problem));
        assert_true(args_flag(&args, "help") || args_flag(&args, "version"));
        args_fini(&args);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands_are_found),
        cmocka_unit_test(test_mistakes_are_named_with_what_to_do),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_a_commands_own_option_stands_before_the_global_one),
        cmocka_unit_test(test_help_needs_no_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
