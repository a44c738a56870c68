/* What the files that answer calls share. */
#ifndef KAGAMI_MIRROR_CALLS_H
#define KAGAMI_MIRROR_CALLS_H

#include "mirror/internal.h"
#include "proto/messages.h"
#include "proto/proto.h"

/* Fills the error fields of a response (or of one of its topics) that have the usual names. */
#define CALL_FAIL(call, target, problem)                                                                                         \
    do {                                                                                                                         \
        (target)->error_code = error_wire((problem)->code);                                                                      \
        (target)->error_message = call_message((call), (problem));                                                               \
        (target)->error_hint = call_text((call), (problem)->hint);                                                               \
    } while (0)

/* Which topics of a mirror a call means. */
struct selected {
    struct str name;        /* in the arena */
    struct problem problem; /* code OK, or why it is not acted on */
    struct partition_list partitions;
};
struct selection {
    struct mirror *mirror;   /* referenced */
    struct selected *topics; /* in the arena */
    int count;
};
/* Names, patterns (either may be empty), or all. UNKNOWN_CLUSTER_MIRROR, INVALID_REGULAR_EXPRESSION. */
MUST_CHECK enum error select_topics(struct mirrors *m, struct mirror_call *call, struct str mirror, const struct str *names,
                                    int names_n, const struct str *patterns, int patterns_n, struct selection *ret_selection,
                                    struct problem *problem);
void selection_fini(struct selection *s);
/* POSIX extended regular expressions that must match the whole name. */
struct name_patterns;
MUST_CHECK enum error name_patterns_create(const struct str *patterns, int n, struct name_patterns **ret_patterns,
                                           struct problem *problem);
bool name_patterns_match(const struct name_patterns *patterns, const char *name);
void name_patterns_destroy(struct name_patterns *patterns); /* NULL is OK */
/* A reference, or NULL with UNKNOWN_CLUSTER_MIRROR in the problem. */
struct mirror *find_mirror(struct mirrors *m, struct str name, struct problem *problem);

#endif
