/* Names and patterns of calls. */
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "mirror/calls.h"

#define PATTERN_MAX 1000

struct name_patterns {
    int count;
    regex_t compiled[];
};

enum error name_patterns_create(const struct str *patterns, int n, struct name_patterns **ret_patterns, struct problem *problem)
{
    struct name_patterns *p = mem_calloc(1, sizeof(*p) + (size_t)MAX(n, 0) * sizeof(regex_t));
    for (int i = 0; i < n; i++) {
        char text[PATTERN_MAX + 8], why[200];
        int result = REG_ESPACE;
        if (patterns[i].len <= PATTERN_MAX) {
            snprintf(text, sizeof(text), "^(%.*s)$", STR_ARG(patterns[i]));
            result = regcomp(&p->compiled[i], text, REG_EXTENDED | REG_NOSUB);
        }
        if (result != 0) {
            regerror(result, NULL, why, sizeof(why));
            problem_set(problem, INVALID_REGULAR_EXPRESSION, "The pattern %.*s cannot be used: %s", MIN(patterns[i].len, 200),
                        patterns[i].p, why);
            problem_hint(problem, "Patterns are POSIX extended regular expressions that must match the whole topic name");
            name_patterns_destroy(p);
            return INVALID_REGULAR_EXPRESSION;
        }
        p->count++;
    }
    *ret_patterns = p;
    return OK;
}

bool name_patterns_match(const struct name_patterns *p, const char *name)
{
    for (int i = 0; i < p->count; i++) {
        if (regexec(&p->compiled[i], name, 0, NULL, 0) == 0)
            return true;
    }
    return false;
}

void name_patterns_destroy(struct name_patterns *p)
{
    for (int i = 0; p != NULL && i < p->count; i++)
        regfree(&p->compiled[i]);
    mem_free(p);
}

struct mirror *find_mirror(struct mirrors *m, struct str name, struct problem *problem)
{
    mutex_lock(&m->mutex);
    struct mirror *mirror = mirrors_find_locked(m, name);
    if (mirror != NULL)
        mirror_ref(mirror);
    mutex_unlock(&m->mutex);
    if (mirror == NULL) {
        problem_set(problem, UNKNOWN_CLUSTER_MIRROR, "There is no mirror %.*s", MIN(name.len, 260), name.p != NULL ? name.p : "");
        problem_hint(problem, "See them with: kagami mirror list");
    }
    return mirror;
}

static int add(struct selection *s, int room, struct str name, struct mirror_topic *t)
{
    ASSERT(s->count < room);
    struct selected *out = &s->topics[s->count++];
    *out = (struct selected){.name = name};
    if (t == NULL) {
        problem_set(&out->problem, TOPIC_NOT_IN_CLUSTER_MIRROR, "Topic %.*s does not belong to mirror %s", MIN(name.len, 260),
                    name.p, s->mirror->name);
        problem_hint(&out->problem, "See its topics with: kagami mirror describe %s", s->mirror->name);
        return 0;
    }
    for (int32_t i = 0; i < t->partitions_n; i++)
        partition_list_add(&out->partitions, t->partitions[i]);
    return 0;
}

static bool is_selected(const struct selection *s, const char *name)
{
    for (int i = 0; i < s->count; i++) {
        if (str_is(s->topics[i].name, name))
            return true;
    }
    return false;
}

enum error select_topics(struct mirrors *m, struct mirror_call *call, struct str mirror, const struct str *names, int names_n,
                         const struct str *patterns, int patterns_n, struct selection *ret_selection, struct problem *problem)
{
    struct selection s = {.mirror = find_mirror(m, mirror, problem)};
    struct name_patterns *compiled = NULL;
    if (s.mirror == NULL)
        return problem->code;
    enum error error = name_patterns_create(patterns, MAX(patterns_n, 0), &compiled, problem);
    if (error != OK) {
        mirror_unref(s.mirror);
        return error;
    }
    bool all = names_n <= 0 && patterns_n <= 0;
    mutex_lock(&m->mutex);
    int room = MAX(names_n, 0) + (int)HASH_COUNT(m->topics);
    s.topics = arena_calloc(call->arena, (size_t)room + 1, sizeof(*s.topics));
    ASSERT(s.topics != NULL);
    for (int i = 0; i < names_n; i++) {
        struct mirror_topic *t = mirrors_topic_locked(m, names[i]);
        bool twice = false;
        for (int j = 0; j < i && !twice; j++)
            twice = str_eq(names[i], names[j]);
        if (!twice)
            add(&s, room, names[i], t != NULL && t->mirror == s.mirror ? t : NULL);
    }
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
        if (t->mirror == s.mirror && (all || name_patterns_match(compiled, t->name)) && !is_selected(&s, t->name))
            add(&s, room, arena_str(call->arena, str_of(t->name)), t);
    }
    mutex_unlock(&m->mutex);
    name_patterns_destroy(compiled);
    *ret_selection = s;
    return OK;
}

void selection_fini(struct selection *s)
{
    for (int i = 0; i < s->count; i++)
        partition_list_fini(&s->topics[i].partitions);
    mirror_unref(s->mirror);
}

struct str call_text(struct mirror_call *call, const char *text)
{
    return text[0] == '\0' ? STR_NULL : arena_str(call->arena, str_of(text));
}

struct str call_message(struct mirror_call *call, const struct problem *problem)
{
    const char *message = problem->message[0] != '\0' ? problem->message : error_message(problem->code);
    if (problem->detail[0] == '\0')
        return call_text(call, message);
    return arena_printf(call->arena, "%s (%s)", message, problem->detail);
}
