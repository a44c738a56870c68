/* mirror describe. */
#include "tools/commands.h"
#include "tools/mirror_view.h"

static int describe(struct tool *tool, const struct topic_list *list)
{
    const struct args *a = &tool->args;
    struct client_response *r;
    if (args_flag(a, "watch"))
        return mirror_watch(tool, list, false);
    if (!mirror_ask(tool, a->word_count > 0 ? a->words[0] : NULL, list, args_flag(a, "failed"), &r))
        return EXIT_FAILED;
    if (tool->json)
        tool_print_response(tool, r);
    int status = mirror_errors(tool, r->body);
    if (!tool->json)
        mirror_print(tool, r->body);
    client_response_free(r);
    return status;
}

int run_mirror_describe(struct tool *tool)
{
    struct topic_list list;
    struct problem problem = {0};
    if (topic_list_parse(&tool->args, &list, &problem) != OK) {
        tool_fail(tool, &problem);
        return EXIT_USAGE;
    }
    int status = describe(tool, &list);
    topic_list_fini(&list);
    return status;
}
