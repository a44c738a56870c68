#include "tools/commands.h"
#define S(n)                                                                                                                     \
    int n(struct tool *tool)                                                                                                     \
    {                                                                                                                            \
        return tool_usage(tool, "", "This command is still being written.");                                                     \
    }
S(run_mirror_verify) S(run_topic_describe) S(run_produce) S(run_consume) struct client_sync;
