/* The command table as text: --help, man pages, completion. */
#ifndef KAGAMI_TOOLS_HELP_H
#define KAGAMI_TOOLS_HELP_H

#include "base/error.h"
#include "tools/command.h"
#include "tools/out.h"

void help_program(struct out *out);
void help_group(const struct command_group *group, struct out *out);
void help_command(const struct command *command, struct out *out);
/* "NAME --source HOST:PORT [--topics LIST]": arguments and required options first. */
void help_synopsis(const struct command *command, struct out *out);
/* text in lines of at most `width` characters behind `indent` spaces; empty lines stay. */
void help_wrap(const char *text, int indent, int width, struct out *out);

/* Pages of section 1: "kagami", then "kagami-WORD" per group and per command without a group. NULL behind the last. The name is
 * valid until the next call. */
const char *man_page_name(int index);
/* False: there is no page of this name. */
bool man_page(const char *name, struct out *out);
/* A program's --help text (sections of lines, "  --option  doc") as a page. */
void man_page_of_help(const char *name, int section, struct str help, struct out *out);

/* A bash script that completes commands, options, values, files, and, by asking the cluster quietly, mirrors and topics. */
void completion_bash(struct out *out);

#endif
