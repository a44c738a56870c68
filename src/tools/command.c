#include "tools/command.h"

#include <string.h>

const struct command *command_find(const char *words)
{
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        if (strcmp(c->words, words) == 0)
            return c;
    }
    return NULL;
}

const struct command_group *command_group_find(const char *word)
{
    for (const struct command_group *g = COMMAND_GROUPS; g->word != NULL; g++) {
        if (strcmp(g->word, word) == 0)
            return g;
    }
    return NULL;
}

bool command_in_group(const struct command *command, const struct command_group *group)
{
    size_t len = strlen(group->word);
    return strncmp(command->words, group->word, len) == 0 && command->words[len] == ' ';
}

static const struct option_def *find(const struct option_def *list, const char *name, size_t len)
{
    for (const struct option_def *o = list; o != NULL && o->name != NULL; o++) {
        if (strlen(o->name) == len && strncmp(o->name, name, len) == 0)
            return o;
    }
    return NULL;
}

const struct option_def *command_option(const struct command *command, const char *name, size_t name_len)
{
    const struct option_def *own = command != NULL ? find(command->options, name, name_len) : NULL;
    return own != NULL ? own : find(GLOBAL_OPTIONS, name, name_len);
}
