/* The values of --topics: names and patterns. "a,b" and repeated options add up; a comma inside brackets belongs to a pattern. An
 * item with other characters than letters, digits, '.', '-' and '_' is a pattern: an extended regular expression that must match
 * the whole name. One thread. */
#ifndef KAGAMI_TOOLS_TOPIC_LIST_H
#define KAGAMI_TOOLS_TOPIC_LIST_H

#include <regex.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "tools/args.h"

struct topic_list {
    struct str *names, *patterns; /* into argv */
    int name_count, pattern_count;
    regex_t *compiled; /* one per pattern */
    int compiled_count;
};

/* From the command's --topics. ERR_INVALID: an empty item, or a pattern that is none. */
MUST_CHECK enum error topic_list_parse(const struct args *args, struct topic_list *ret_list, struct problem *problem);
void topic_list_fini(struct topic_list *list);
static inline bool topic_list_empty(const struct topic_list *list)
{
    return list->name_count + list->pattern_count == 0;
}
/* An empty list holds every topic. */
bool topic_list_has(const struct topic_list *list, struct str topic);

#endif
