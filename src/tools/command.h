/* The one table that says what the command line understands. Parsing, --help, the man pages and the completion are made from it,
 * so they cannot disagree. */
#ifndef KAGAMI_TOOLS_COMMAND_H
#define KAGAMI_TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tool;

enum option_type {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_TEXTS, /* may be given several times */
    OPTION_NUMBER,
    OPTION_DURATION,
    OPTION_CHOICE, /* one of `choices` */
};

/* What a shell offers. */
enum completion { COMPLETE_NOTHING, COMPLETE_FILE, COMPLETE_MIRROR, COMPLETE_TOPIC };

struct option_def {
    const char *name;  /* without dashes; NULL ends a list */
    const char *value; /* placeholder in the help: "HOST:PORT"; NULL for a flag */
    enum option_type type;
    const char *default_text; /* shown, and parsed when the option is not given; NULL: none */
    const char *choices;      /* "a|b|c" */
    int64_t min, max;         /* NUMBER */
    enum completion completion;
    const char *doc; /* one sentence, no full stop */
    bool hidden;
};

struct command {
    const char *words;                /* "mirror stop" */
    const char *arguments;            /* "NAME", "TOPIC..", "[NAME]" as in the help */
    int arguments_min, arguments_max; /* max -1: any number */
    enum completion completion;       /* of the arguments */
    const char *summary;              /* one line */
    const char *description;          /* paragraphs, separated by an empty line; wrapped where shown */
    const char *examples;             /* lines */
    const struct option_def *options;
    int (*run)(struct tool *tool); /* returns the exit status */
    bool local;                    /* needs no cluster */
};

struct command_group {
    const char *word; /* "mirror" */
    const char *summary;
    const char *description;
};

extern const struct command COMMANDS[]; /* words NULL ends it; those of a group stand together */
extern const struct command_group COMMAND_GROUPS[];
extern const struct option_def GLOBAL_OPTIONS[];
extern const char *const KAGAMI_DESCRIPTION;

#define EXIT_FAILED 1
#define EXIT_USAGE 2

/* The command of exactly these words; NULL: none. */
const struct command *command_find(const char *words);
const struct command_group *command_group_find(const char *word);
bool command_in_group(const struct command *command, const struct command_group *group);
/* The option of this command, or the global one; NULL: none. name may be followed by '=': name_len says where it ends. */
const struct option_def *command_option(const struct command *command, const char *name, size_t name_len);

#endif
