/* What runs each command of the table (tools/command.h): takes the parsed line, returns the exit status. */
#ifndef KAGAMI_TOOLS_COMMANDS_H
#define KAGAMI_TOOLS_COMMANDS_H

#include "tools/tool.h"

int run_mirror_create(struct tool *tool);
int run_mirror_start(struct tool *tool);
int run_mirror_stop(struct tool *tool);
int run_mirror_pause(struct tool *tool);
int run_mirror_resume(struct tool *tool);
int run_mirror_recover(struct tool *tool);
int run_mirror_list(struct tool *tool);
int run_mirror_describe(struct tool *tool);
int run_mirror_delete(struct tool *tool);
int run_mirror_verify(struct tool *tool);
int run_topic_create(struct tool *tool);
int run_topic_list(struct tool *tool);
int run_topic_describe(struct tool *tool);
int run_topic_alter(struct tool *tool);
int run_topic_delete(struct tool *tool);
int run_produce(struct tool *tool);
int run_consume(struct tool *tool);
int run_dump_log(struct tool *tool);
int run_help(struct tool *tool);
int run_completion(struct tool *tool);

#endif
