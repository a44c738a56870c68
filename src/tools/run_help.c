/* help and completion. The hidden options of help make the man pages when the program is built. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/help.h"

#define HELP_INPUT_MAX (64 * 1024)

static int print_man(struct tool *tool, const char *page)
{
    int section = (int)args_number(&tool->args, "man-section", 0);
    if (section == 0)
        return man_page(page, &tool->out) ? 0 : tool_usage(tool, "", "There is no man page %s.", page);
    struct buf text = {0};
    ssize_t n;
    while (text.len < HELP_INPUT_MAX && (n = read(STDIN_FILENO, buf_reserve(&text, 4096), 4096)) > 0)
        text.len += (size_t)n;
    man_page_of_help(page, section, buf_str(&text), &tool->out);
    buf_fini(&text);
    return 0;
}

int run_help(struct tool *tool)
{
    const struct args *a = &tool->args;
    const char *page = args_text(a, "man");
    if (page != NULL)
        return print_man(tool, page);
    if (a->word_count == 0) {
        help_program(&tool->out);
        return 0;
    }
    char words[256];
    snprintf(words, sizeof(words), a->word_count > 1 ? "%s %s" : "%s%.0s", a->words[0], a->word_count > 1 ? a->words[1] : "");
    const struct command *command = command_find(words);
    const struct command_group *group = command_group_find(words);
    if (command != NULL)
        help_command(command, &tool->out);
    else if (group != NULL)
        help_group(group, &tool->out);
    else
        return tool_usage(tool, "Try: kagami --help", "There is no command \"kagami %s\".", words);
    return 0;
}

int run_completion(struct tool *tool)
{
    completion_bash(&tool->out);
    return 0;
}
