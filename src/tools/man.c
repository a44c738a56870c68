/* Man pages in the man(7) macros. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "tools/help.h"

/* Text of a page: dashes that are typed, backslashes, and a dot or quote at the start of a line. */
static void roff(const char *text, struct out *out)
{
    bool start = true;
    for (const char *p = text; *p != '\0'; p++) {
        if (start && (*p == '.' || *p == '\''))
            out_printf(out, "\\&");
        if (*p == '\\')
            out_printf(out, "\\e");
        else if (*p == '-')
            out_printf(out, "\\-");
        else
            out_char(out, *p);
        start = *p == '\n';
    }
}

static void paragraphs(const char *text, struct out *out)
{
    struct str rest = str_of(text), line;
    while (str_split(&rest, '\n', &line)) {
        if (line.len == 0) {
            out_printf(out, ".PP\n");
            continue;
        }
        char *copy = str_dup(line);
        roff(copy, out);
        out_char(out, '\n');
        mem_free(copy);
    }
}

static void options(const struct option_def *list, struct out *out)
{
    for (const struct option_def *o = list; o != NULL && o->name != NULL; o++) {
        if (o->hidden)
            continue;
        out_printf(out, ".TP\n\\fB");
        roff("--", out);
        roff(o->name, out);
        out_printf(out, "\\fR");
        if (o->value != NULL) {
            out_printf(out, " \\fI");
            roff(o->value, out);
            out_printf(out, "\\fR");
        }
        out_char(out, '\n');
        roff(o->doc, out);
        if (o->default_text != NULL) {
            out_printf(out, " (default: ");
            roff(o->default_text, out);
            out_char(out, ')');
        }
        out_printf(out, "%s.\n", o->type == OPTION_TEXTS ? "; may be repeated" : "");
    }
}

static void examples(const char *text, struct out *out)
{
    out_printf(out, ".PP\nExamples:\n.nf\n.RS\n");
    roff(text, out);
    out_printf(out, "\n.RE\n.fi\n");
}

static void synopsis(const struct command *command, struct out *out)
{
    struct out line;
    out_init(&line, -1);
    help_synopsis(command, &line);
    roff(buf_cstr(&line.buf), out);
    out_char(out, '\n');
    out_fini(&line);
}

static void head(const char *name, int section, const char *summary, struct out *out)
{
    out_printf(out, ".TH \"");
    for (const char *p = name; *p != '\0'; p++)
        out_char(out, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
    out_printf(out, "\" %d \"\" \"Kagami %s\" \"Kagami\"\n.SH NAME\n", section, KAGAMI_VERSION);
    roff(name, out);
    out_printf(out, " \\- ");
    roff(summary, out);
    out_char(out, '\n');
}

static void see_also(const char *except, struct out *out)
{
    out_printf(out, ".SH SEE ALSO\n");
    const char *page;
    for (int i = 0; (page = man_page_name(i)) != NULL; i++) {
        if (strcmp(page, except) == 0)
            continue;
        out_printf(out, "\\fB");
        roff(page, out);
        out_printf(out, "\\fR(1), ");
    }
    out_printf(out, "\\fBkagamid\\fR(8)\n");
}

static void status(struct out *out)
{
    out_printf(out,
               ".SH EXIT STATUS\n0 when all went well, 1 when something failed (also when one of several topics did), 2 for a "
               "mistake on the command line.\n");
}

static void environment(struct out *out)
{
    out_printf(out, ".SH ENVIRONMENT\n.TP\n\\fBKAGAMI_BOOTSTRAP_SERVER\\fR\nThe cluster to talk to where "
                    "\\fB\\-\\-bootstrap\\-server\\fR is not given.\n");
}

static void command_body(const struct command *c, struct out *out)
{
    paragraphs(c->description, out);
    options(c->options, out);
    if (c->examples[0] != '\0')
        examples(c->examples, out);
}

static void page_of_program(struct out *out)
{
    head("kagami", 1, "looks at and operates Kafka-compatible clusters and their mirrors", out);
    out_printf(out, ".SH SYNOPSIS\n");
    roff("kagami [--bootstrap-server HOST:PORT[,..]] [--json] [--timeout DURATION] COMMAND ..", out);
    out_printf(out, "\n.SH DESCRIPTION\n");
    paragraphs(KAGAMI_DESCRIPTION, out);
    out_printf(out, ".SH COMMANDS\n");
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        out_printf(out, ".TP\n\\fBkagami ");
        roff(c->words, out);
        out_printf(out, "\\fR\n");
        roff(c->summary, out);
        out_printf(out, ".\n");
    }
    out_printf(out, ".SH OPTIONS\n");
    options(GLOBAL_OPTIONS, out);
}

static void page_of_group(const struct command_group *g, const char *name, struct out *out)
{
    head(name, 1, g->summary, out);
    out_printf(out, ".SH SYNOPSIS\n");
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        if (command_in_group(c, g)) {
            synopsis(c, out);
            out_printf(out, ".br\n");
        }
    }
    out_printf(out, ".SH DESCRIPTION\n");
    paragraphs(g->description, out);
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        if (!command_in_group(c, g))
            continue;
        out_printf(out, ".SH \"kagami ");
        roff(c->words, out);
        out_printf(out, "\"\n");
        command_body(c, out);
    }
    out_printf(out, ".SH OPTIONS OF EVERY COMMAND\n");
    options(GLOBAL_OPTIONS, out);
}

static void page_of_command(const struct command *c, const char *name, struct out *out)
{
    head(name, 1, c->summary, out);
    out_printf(out, ".SH SYNOPSIS\n");
    synopsis(c, out);
    out_printf(out, ".SH DESCRIPTION\n");
    command_body(c, out);
    out_printf(out, ".SH OPTIONS OF EVERY COMMAND\n");
    options(GLOBAL_OPTIONS, out);
}

const char *man_page_name(int index)
{
    static char name[64];
    if (index-- == 0)
        return "kagami";
    for (const struct command_group *g = COMMAND_GROUPS; g->word != NULL; g++) {
        snprintf(name, sizeof(name), "kagami-%s", g->word);
        if (index-- == 0)
            return name;
    }
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        snprintf(name, sizeof(name), "kagami-%s", c->words);
        if (strchr(c->words, ' ') == NULL && index-- == 0)
            return name;
    }
    return NULL;
}

bool man_page(const char *name, struct out *out)
{
    const char *word = strncmp(name, "kagami-", 7) == 0 ? name + 7 : NULL;
    const struct command_group *g = word != NULL ? command_group_find(word) : NULL;
    const struct command *c = word != NULL ? command_find(word) : NULL;
    if (strcmp(name, "kagami") == 0)
        page_of_program(out);
    else if (g != NULL)
        page_of_group(g, name, out);
    else if (c != NULL)
        page_of_command(c, name, out);
    else
        return false;
    environment(out);
    status(out);
    see_also(name, out);
    return true;
}

/* The text's first line is "NAME - summary"; a line "Title:" or "Usage: .." begins a section; lines with options are kept as they are. */
void man_page_of_help(const char *name, int section, struct str help, struct out *out)
{
    struct str rest = help, line;
    bool plain = false;
    if (!str_split(&rest, '\n', &line))
        return;
    const char *dash = memmem(line.p, (size_t)line.len, " - ", 3);
    char *summary = str_dup(dash != NULL ? (struct str){dash + 3, line.len - (int32_t)(dash + 3 - line.p)} : line);
    head(name, section, summary, out);
    mem_free(summary);
    out_printf(out, ".SH DESCRIPTION\n");
    while (str_split(&rest, '\n', &line)) {
        bool indented = line.len > 0 && line.p[0] == ' ';
        if (indented != plain && line.len > 0) {
            out_printf(out, indented ? ".nf\n" : ".fi\n");
            plain = indented;
        }
        char *copy = str_dup(line);
        if (line.len == 0)
            out_printf(out, ".PP\n");
        else
            roff(copy, out);
        if (line.len > 0)
            out_printf(out, plain ? "\n" : "\n.br\n");
        mem_free(copy);
    }
    see_also(name, out);
}
