#include "tools/args.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "tools/text.h"

#define WORDS_MAX 128

struct parser {
    int argc, at;
    const char *const *argv;
    struct args *args;
    char words[WORDS_MAX]; /* of the command, so far */
    bool options_ended;
    struct problem *problem;
};

void args_fini(struct args *args)
{
    mem_free(args->options);
    mem_free(args->words);
    *args = (struct args){0};
}

/* ---- The nearest name ---- */

struct nearest {
    struct str wanted;
    const char *best;
    int distance;
};

static void consider(struct nearest *n, const char *candidate)
{
    int distance = str_distance(n->wanted, str_of(candidate));
    if (distance < n->distance) {
        n->distance = distance;
        n->best = candidate;
    }
}

/* Half of the letters may differ, at most three: beyond that a suggestion is a guess. */
static bool is_near(const struct nearest *n)
{
    return n->best != NULL && n->distance <= MIN(3, MAX(1, n->wanted.len / 2));
}

static void consider_options(struct nearest *n, const struct option_def *list)
{
    for (const struct option_def *o = list; o != NULL && o->name != NULL; o++) {
        if (!o->hidden)
            consider(n, o->name);
    }
}

static enum error unknown_option(struct parser *p, const char *name, size_t len)
{
    const struct command *c = p->args->command;
    struct nearest n = {{name, (int32_t)len}, NULL, INT_MAX};
    consider_options(&n, GLOBAL_OPTIONS);
    consider_options(&n, c != NULL ? c->options : NULL);
    problem_set(p->problem, ERR_INVALID, c != NULL ? "Unknown option --%.*s of \"kagami %s\"." : "Unknown option --%.*s%s.",
                (int)len, name, c != NULL ? c->words : "");
    if (is_near(&n))
        problem_hint(p->problem, "Did you mean --%s?", n.best);
    else if (c == NULL)
        problem_hint(p->problem, "Options of a command stand behind it. Try: kagami --help");
    else
        problem_hint(p->problem, "Try: kagami %s --help", c->words);
    return ERR_INVALID;
}

static enum error unknown_command(struct parser *p, const char *word)
{
    const struct command_group *group = p->args->group;
    struct nearest n = {str_of(word), NULL, INT_MAX};
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        if (group != NULL && command_in_group(c, group))
            consider(&n, c->words + strlen(group->word) + 1);
        else if (group == NULL && strchr(c->words, ' ') == NULL)
            consider(&n, c->words);
    }
    for (const struct command_group *g = COMMAND_GROUPS; group == NULL && g->word != NULL; g++)
        consider(&n, g->word);
    const char *in = group != NULL ? group->word : "", *space = group != NULL ? " " : "";
    problem_set(p->problem, ERR_INVALID, "There is no command \"kagami %s%s%s\".", in, space, word);
    if (is_near(&n))
        problem_hint(p->problem, "Did you mean \"kagami %s%s%s\"?", in, space, n.best);
    else
        problem_hint(p->problem, "Try: kagami %s%s--help", in, space);
    return ERR_INVALID;
}

/* ---- Values ---- */

static bool is_choice(const char *choices, const char *text)
{
    struct str rest = str_of(choices), piece;
    while (str_split(&rest, '|', &piece)) {
        if (str_is(piece, text))
            return true;
    }
    return false;
}

static enum error check_value(const struct option_def *o, const char *text, struct problem *problem)
{
    int64_t number;
    if (o->type == OPTION_CHOICE && !is_choice(o->choices, text)) {
        problem_set(problem, ERR_INVALID, "--%s cannot be \"%s\".", o->name, text);
        problem_hint(problem, "It is one of %s.", o->choices);
        return ERR_INVALID;
    }
    if (o->type == OPTION_NUMBER && (!str_to_i64(str_of(text), &number) || number < o->min || number > o->max)) {
        problem_set(problem, ERR_INVALID, "--%s cannot be \"%s\".", o->name, text);
        problem_hint(problem, "It is a number from %lld to %lld.", (long long)o->min, (long long)o->max);
        return ERR_INVALID;
    }
    if (o->type == OPTION_DURATION && !parse_duration(str_of(text), &number)) {
        problem_set(problem, ERR_INVALID, "--%s cannot be \"%s\".", o->name, text);
        problem_hint(problem, "It is a duration with its unit: 500ms, 30s, 2m, 1h.");
        return ERR_INVALID;
    }
    return OK;
}

/* ---- Walking ---- */

static enum error take_option(struct parser *p)
{
    const char *name = p->argv[p->at] + 2;
    if (p->argv[p->at][1] != '-') { /* the one short option that everybody tries */
        if (strcmp(p->argv[p->at], "-h") != 0) {
            problem_set(p->problem, ERR_INVALID, "Unknown option %s.", p->argv[p->at]);
            problem_hint(p->problem, "Options have two dashes. Try: kagami --help");
            return ERR_INVALID;
        }
        name = "help";
    }
    const char *equals = strchr(name, '=');
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option_def *o = command_option(p->args->command, name, len);
    if (o == NULL)
        return unknown_option(p, name, len);
    const char *text = NULL;
    if (o->value == NULL && equals != NULL)
        return problem_set(p->problem, ERR_INVALID, "--%s takes no value.", o->name);
    if (o->value != NULL) {
        text = equals != NULL ? equals + 1 : p->at + 1 < p->argc ? p->argv[++p->at] : NULL;
        if (text == NULL) {
            problem_set(p->problem, ERR_INVALID, "--%s needs a value.", o->name);
            problem_hint(p->problem, "Write --%s %s.", o->name, o->value);
            return ERR_INVALID;
        }
        enum error error = check_value(o, text, p->problem);
        if (error != OK)
            return error;
    }
    p->args->options[p->args->option_count++] = (struct arg_option){o, text};
    return OK;
}

static enum error take_word(struct parser *p, const char *word)
{
    struct args *a = p->args;
    if (a->command != NULL) {
        a->words[a->word_count++] = word;
        return OK;
    }
    size_t len = strlen(p->words);
    if (len + strlen(word) + 2 > sizeof(p->words))
        return unknown_command(p, "..");
    snprintf(p->words + len, sizeof(p->words) - len, "%s%s", len > 0 ? " " : "", word);
    a->command = command_find(p->words);
    if (a->command != NULL) {
        a->group = NULL;
        return OK;
    }
    const struct command_group *group = a->group == NULL ? command_group_find(word) : NULL;
    if (group == NULL)
        return unknown_command(p, word);
    a->group = group;
    return OK;
}

static enum error check_counts(const struct args *a, struct problem *problem)
{
    const struct command *c = a->command;
    if (c == NULL) {
        problem_set(problem, ERR_INVALID,
                    a->group != NULL ? "\"kagami %s\" needs a command behind it." : "A command is missing%s.",
                    a->group != NULL ? a->group->word : "");
        problem_hint(problem, a->group != NULL ? "Try: kagami %s --help" : "Try: kagami%s --help",
                     a->group != NULL ? a->group->word : "");
        return ERR_INVALID;
    }
    if (a->word_count < c->arguments_min)
        problem_set(problem, ERR_INVALID, "\"kagami %s\" needs %s.", c->words, c->arguments);
    else if (c->arguments_max >= 0 && a->word_count > c->arguments_max)
        problem_set(problem, ERR_INVALID, "\"kagami %s\" does not understand \"%s\".", c->words, a->words[c->arguments_max]);
    else
        return OK;
    problem_hint(problem, "Try: kagami %s --help", c->words);
    return ERR_INVALID;
}

enum error args_parse(int argc, const char *const *argv, struct args *ret_args, struct problem *problem)
{
    struct args args = {0};
    struct parser p = {.argc = argc, .argv = argv, .args = &args, .problem = problem};
    args.options = mem_calloc((size_t)argc + 1, sizeof(*args.options));
    args.words = mem_calloc((size_t)argc + 1, sizeof(*args.words));
    enum error error = OK;
    for (; p.at < argc && error == OK; p.at++) {
        const char *word = argv[p.at];
        if (!p.options_ended && strcmp(word, "--") == 0)
            p.options_ended = true;
        else if (!p.options_ended && word[0] == '-' && word[1] != '\0')
            error = take_option(&p);
        else
            error = take_word(&p, word);
    }
    if (error == OK && !args_flag(&args, "help") && !args_flag(&args, "version"))
        error = check_counts(&args, problem);
    if (error != OK) {
        args_fini(&args);
        return error;
    }
    *ret_args = args;
    return OK;
}

/* ---- Looking ---- */

static const struct option_def *known(const struct args *args, const char *name)
{
    const struct option_def *o = command_option(args->command, name, strlen(name));
    ASSERT(o != NULL);
    return o;
}

bool args_given(const struct args *args, const char *name)
{
    (void)known(args, name);
    for (int i = 0; i < args->option_count; i++) {
        if (strcmp(args->options[i].def->name, name) == 0)
            return true;
    }
    return false;
}

bool args_flag(const struct args *args, const char *name)
{
    return args_given(args, name);
}

const char *args_text(const struct args *args, const char *name)
{
    const char *text = known(args, name)->default_text;
    for (int i = 0; i < args->option_count; i++) {
        if (strcmp(args->options[i].def->name, name) == 0)
            text = args->options[i].text;
    }
    return text;
}

const char *args_text_at(const struct args *args, const char *name, int i)
{
    (void)known(args, name);
    for (int k = 0; k < args->option_count; k++) {
        if (strcmp(args->options[k].def->name, name) == 0 && i-- == 0)
            return args->options[k].text;
    }
    return NULL;
}

int64_t args_number(const struct args *args, const char *name, int64_t absent)
{
    const char *text = args_text(args, name);
    int64_t number;
    if (text == NULL)
        return absent;
    bool good =
        known(args, name)->type == OPTION_DURATION ? parse_duration(str_of(text), &number) : str_to_i64(str_of(text), &number);
    ASSERT(good); /* checked when it was parsed */
    return number;
}
