#include "tools/commands.h"
#define S(n)                                                                                                                     \
    int n(struct tool *tool)                                                                                                     \
    {                                                                                                                            \
        return tool_usage(tool, "", "This command is still being written.");                                                     \
    }
S(run_mirror_verify)
struct client_sync;
