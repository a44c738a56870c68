/* Help, man pages and completion against the command table: nothing that can be asked for is left out of any of them. */
#include "tools/help.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "unit.h"

static void assert_holds(struct out *text, const char *where, const char *what)
{
    if (strstr(buf_cstr(&text->buf), what) == NULL)
        fail_msg("%s does not have \"%s\"", where, what);
}

/* As man pages write it: every dash and backslash escaped. */
static const char *escaped(const char *text, char out[512])
{
    char *to = out;
    for (const char *p = text; *p != '\0' && to < out + 500; p++) {
        if (*p == '-' || *p == '\\')
            *to++ = '\\';
        *to++ = *p == '\\' ? 'e' : *p;
    }
    *to = '\0';
    return out;
}

static void test_every_command_and_option_is_in_the_help(void **state)
{
    (void)state;
    struct out program;
    out_init(&program, -1);
    help_program(&program);
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        assert_holds(&program, "kagami --help", c->words);
        assert_holds(&program, "kagami --help", c->summary);
        struct out help;
        out_init(&help, -1);
        help_command(c, &help);
        for (const struct option_def *o = c->options; o->name != NULL; o++) {
            char dashed[64];
            snprintf(dashed, sizeof(dashed), "--%s", o->name);
            if (o->hidden)
                assert_null(strstr(buf_cstr(&help.buf), dashed));
            else
                assert_holds(&help, c->words, dashed);
        }
        assert_holds(&help, c->words, "--bootstrap-server");
        out_fini(&help);
    }
    out_fini(&program);
}

static void test_every_command_and_option_is_in_a_man_page(void **state)
{
    (void)state;
    struct out all;
    out_init(&all, -1);
    const char *name;
    for (int i = 0; (name = man_page_name(i)) != NULL; i++)
        assert_true(man_page(name, &all));
    assert_false(man_page("kagami-nothing", &all));
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        char text[512], synopsis[512];
        snprintf(text, sizeof(text), "kagami %s", c->words);
        assert_holds(&all, "the man pages", escaped(text, synopsis));
        for (const struct option_def *o = c->options; o->name != NULL; o++) {
            snprintf(text, sizeof(text), "\\fB\\-\\-%s\\fR", escaped(o->name, synopsis));
            if (!o->hidden)
                assert_holds(&all, "the man pages", text);
        }
    }
    out_fini(&all);
}

static void test_every_command_and_option_is_completed(void **state)
{
    (void)state;
    struct out script;
    out_init(&script, -1);
    completion_bash(&script);
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        char text[2048];
        size_t n = (size_t)snprintf(text, sizeof(text), "\"%s\") options+=\"", c->words);
        for (const struct option_def *o = c->options; o->name != NULL; o++) {
            if (!o->hidden)
                n += (size_t)snprintf(text + n, sizeof(text) - n, " --%s", o->name);
        }
        assert_holds(&script, "the completion", text);
    }
    out_fini(&script);
}

/* Kinds of mistakes that a table invites. */
static void test_the_table_is_consistent(void **state)
{
    (void)state;
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        assert_ptr_equal(command_find(c->words), c); /* no words twice */
        assert_non_null(c->run);
        const char *space = strchr(c->words, ' ');
        char word[32] = "";
        if (space != NULL)
            memcpy(word, c->words, (size_t)(space - c->words));
        assert_true(space == NULL || command_group_find(word) != NULL);
        assert_true(space != NULL || command_group_find(c->words) == NULL);
        assert_int_equal(c->arguments[0] == '\0', c->arguments_max == 0);
        for (const struct option_def *o = c->options; o->name != NULL; o++) {
            assert_ptr_equal(command_option(c, o->name, strlen(o->name)), o); /* no name twice */
            assert_int_equal(o->type == OPTION_FLAG, o->value == NULL);
            assert_int_equal(o->type == OPTION_CHOICE, o->choices != NULL);
            assert_true(o->type != OPTION_NUMBER || o->min < o->max);
            assert_int_not_equal(o->doc[strlen(o->doc) - 1], '.');
        }
        assert_int_not_equal(c->summary[strlen(c->summary) - 1], '.');
    }
}

static void test_wrapping(void **state)
{
    (void)state;
    struct out out;
    out_init(&out, -1);
    help_wrap("one two three four\n\nlast", 2, 10, &out);
    assert_string_equal(buf_cstr(&out.buf), "  one two\n  three\n  four\n\n  last\n");
    buf_clear(&out.buf);
    help_wrap("a-word-that-is-longer-than-a-line x", 0, 10, &out); /* ends all the same, loses nothing */
    assert_non_null(strstr(buf_cstr(&out.buf), "x\n"));
    out_fini(&out);
}

static void test_a_page_of_another_programs_help(void **state)
{
    (void)state;
    struct out out;
    out_init(&out, -1);
    man_page_of_help("kagamid", 8, STR("kagamid - a broker\n\nUsage: kagamid --data DIR\n\n  --data DIR  folder\n"), &out);
    assert_holds(&out, "the page", ".TH \"KAGAMID\" 8");
    assert_holds(&out, "the page", "kagamid \\- a broker");
    assert_holds(&out, "the page", "\\-\\-data DIR  folder");
    out_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_command_and_option_is_in_the_help),
        cmocka_unit_test(test_every_command_and_option_is_in_a_man_page),
        cmocka_unit_test(test_every_command_and_option_is_completed),
        cmocka_unit_test(test_the_table_is_consistent),
        cmocka_unit_test(test_wrapping),
        cmocka_unit_test(test_a_page_of_another_programs_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
