/* kagami: the command line. */
#include "tools/tool.h"

int main(int argc, char **argv)
{
    return tool_main(argc - 1, (const char *const *)argv + 1);
}
