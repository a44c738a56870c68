/* What DescribeClusterMirrors says, asked for, filtered and shown; used by describe, by the watching commands and by verify. */
#ifndef KAGAMI_TOOLS_MIRROR_VIEW_H
#define KAGAMI_TOOLS_MIRROR_VIEW_H

#include "tools/tool.h"
#include "tools/topic_list.h"

/* Asks for one mirror (NULL: all) and leaves in the answer only the topics of the list and, when `failed`, the partitions that are
 * FAILED. An error has been printed when it returns false; errors of the mirrors inside are the caller's. */
bool mirror_ask(struct tool *tool, const char *name, const struct topic_list *list, bool failed,
                struct client_response **ret_response);
/* Prints the errors of the answer and of its mirrors; the exit status. */
int mirror_errors(struct tool *tool, const struct describe_cluster_mirrors_response *body);
void mirror_print(struct tool *tool, const struct describe_cluster_mirrors_response *body);

/* Shows the progress of the mirror that is the command's first argument (or of all), each second: in place on a terminal, else a
 * line per change. until_caught_up: ends with 0 when everything is copied and with EXIT_FAILED when a partition failed for good;
 * else it ends with Ctrl-C. */
int mirror_watch(struct tool *tool, const struct topic_list *list, bool until_caught_up);

#endif
