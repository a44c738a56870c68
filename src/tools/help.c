#include "tools/help.h"

#include <string.h>

#define WIDTH 100
#define INDENT 2
#define OPTION_COLUMN 28

void help_wrap(const char *text, int indent, int width, struct out *out)
{
    for (const char *p = text; *p != '\0';) {
        if (*p == '\n') { /* an empty line between paragraphs */
            out_char(out, '\n');
            p++;
            continue;
        }
        const char *end = p, *fits = NULL;
        while (*end != '\0' && *end != '\n' && end - p <= width - indent) {
            if (*end == ' ')
                fits = end;
            end++;
        }
        if (*end != '\0' && *end != '\n' && fits != NULL)
            end = fits;
        out_printf(out, "%*s%.*s\n", indent, "", (int)(end - p), p);
        p = *end == ' ' || *end == '\n' ? end + 1 : end;
    }
}

static void print_option(const struct option_def *o, struct out *out)
{
    struct out text;
    out_init(&text, -1);
    int used = INDENT + 2 + (int)strlen(o->name) + (o->value != NULL ? 1 + (int)strlen(o->value) : 0);
    out_printf(out, "%*s--%s%s%s", INDENT, "", o->name, o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
    out_printf(&text, "%s", o->doc);
    if (o->default_text != NULL)
        out_printf(&text, " (default: %s)", o->default_text);
    if (o->type == OPTION_TEXTS)
        out_printf(&text, "; may be repeated");
    if (used + 2 > OPTION_COLUMN) {
        out_char(out, '\n');
        used = 0;
    }
    /* the first line of the text goes behind the option */
    struct out wrapped;
    out_init(&wrapped, -1);
    help_wrap(buf_cstr(&text.buf), OPTION_COLUMN, WIDTH, &wrapped);
    out_str(out, (struct str){(const char *)wrapped.buf.data + used, (int32_t)wrapped.buf.len - used});
    out_fini(&wrapped);
    out_fini(&text);
}

static void print_options(const char *title, const struct option_def *list, struct out *out)
{
    bool any = false;
    for (const struct option_def *o = list; o != NULL && o->name != NULL; o++) {
        if (o->hidden)
            continue;
        if (!any)
            out_printf(out, "\n%s:\n", title);
        any = true;
        print_option(o, out);
    }
}

void help_synopsis(const struct command *command, struct out *out)
{
    out_printf(out, "kagami %s", command->words);
    if (command->arguments[0] != '\0')
        out_printf(out, " %s", command->arguments);
    for (const struct option_def *o = command->options; o != NULL && o->name != NULL; o++) {
        if (o->hidden)
            continue;
        out_printf(out, " [--%s%s%s]%s", o->name, o->value != NULL ? " " : "", o->value != NULL ? o->value : "",
                   o->type == OPTION_TEXTS ? ".." : "");
    }
}

void help_command(const struct command *command, struct out *out)
{
    out_printf(out, "%s.\n\nUsage:\n", command->summary);
    struct out line;
    out_init(&line, -1);
    help_synopsis(command, &line);
    help_wrap(buf_cstr(&line.buf), INDENT, WIDTH, out);
    out_fini(&line);
    out_char(out, '\n');
    help_wrap(command->description, 0, WIDTH, out);
    print_options("Options", command->options, out);
    print_options("Options of every command", GLOBAL_OPTIONS, out);
    if (command->examples[0] != '\0') {
        out_printf(out, "\nExamples:\n");
        help_wrap(command->examples, INDENT, 1000, out);
    }
}

static void print_commands(const struct command_group *group, struct out *out)
{
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        if (group != NULL ? command_in_group(c, group) : strchr(c->words, ' ') == NULL)
            out_printf(out, "  %-*s  %s\n", OPTION_COLUMN - 4, c->words, c->summary);
    }
}

void help_group(const struct command_group *group, struct out *out)
{
    out_printf(out, "%s.\n\nUsage:\n  kagami %s COMMAND ..\n\n", group->summary, group->word);
    help_wrap(group->description, 0, WIDTH, out);
    out_printf(out, "\nCommands:\n");
    print_commands(group, out);
    out_printf(out, "\nHelp of one: kagami %s COMMAND --help\n", group->word);
}

void help_program(struct out *out)
{
    out_printf(out, "kagami - looks at and operates Kafka-compatible clusters and their mirrors\n\n"
                    "Usage:\n  kagami [--bootstrap-server HOST:PORT[,..]] [--json] [--timeout DURATION] COMMAND ..\n\n");
    help_wrap(KAGAMI_DESCRIPTION, 0, WIDTH, out);
    for (const struct command_group *g = COMMAND_GROUPS; g->word != NULL; g++) {
        out_printf(out, "\n%s:\n", g->summary);
        print_commands(g, out);
    }
    out_printf(out, "\nOther commands:\n");
    print_commands(NULL, out);
    print_options("Options of every command", GLOBAL_OPTIONS, out);
    out_printf(out, "\nHelp of one: kagami COMMAND --help. Exit status: 0 when all went well, 1 when something failed,\n"
                    "2 for a mistake on the command line.\n");
}
