/* A parsed command line. Values are looked up by the option's name; asking for one that the command does not have is our own
 * mistake (asserted). Texts point into argv. One thread. */
#ifndef KAGAMI_TOOLS_ARGS_H
#define KAGAMI_TOOLS_ARGS_H

#include "base/error.h"
#include "tools/command.h"

struct arg_option {
    const struct option_def *def;
    const char *text; /* NULL for a flag */
};

struct args {
    const struct command *command;     /* NULL: only --help or --version, or a group, was given */
    const struct command_group *group; /* set when the words stopped at a group */
    struct arg_option *options;        /* in the order of the command line */
    int option_count;
    const char **words; /* the command's arguments */
    int word_count;
};

void args_fini(struct args *args);
/* argv without the program's name. ERR_INVALID: the problem says what is wrong, and its hint what to write instead. Counts of
 * arguments and values are checked here, unless --help or --version is there. */
MUST_CHECK enum error args_parse(int argc, const char *const *argv, struct args *ret_args, struct problem *problem);

bool args_flag(const struct args *args, const char *name);
bool args_given(const struct args *args, const char *name);
/* The last one given, the default, or NULL. */
const char *args_text(const struct args *args, const char *name);
/* OPTION_TEXTS: the i-th one given; NULL behind the last. */
const char *args_text_at(const struct args *args, const char *name, int i);
/* OPTION_NUMBER and OPTION_DURATION (milliseconds): the last one given or the default; `absent` when there is neither. */
int64_t args_number(const struct args *args, const char *name, int64_t absent);

#endif
