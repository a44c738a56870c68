#include "tools/topic_list.h"

#include <string.h>

#include "base/assert.h"

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

static bool is_pattern(struct str item)
{
    for (int32_t i = 0; i < item.len; i++) {
        if (!is_plain(item.p[i]))
            return true;
    }
    return false;
}

/* Length of the item at the front: up to a comma outside of brackets. */
static int32_t item_length(struct str text)
{
    int depth = 0;
    for (int32_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        if (c == '\\')
            i++;
        else if (c == '(' || c == '[' || c == '{')
            depth++;
        else if (c == ')' || c == ']' || c == '}')
            depth--;
        else if (c == ',' && depth <= 0)
            return i;
    }
    return text.len;
}

static enum error compile(struct topic_list *list, struct str pattern, struct problem *problem)
{
    char *text = mem_alloc((size_t)pattern.len + 8), reason[128];
    memcpy(text, "^(", 2);
    memcpy(text + 2, pattern.p, (size_t)pattern.len);
    memcpy(text + 2 + pattern.len, ")$", 3);
    list->compiled = mem_realloc(list->compiled, (size_t)(list->compiled_count + 1) * sizeof(*list->compiled));
    int code = regcomp(&list->compiled[list->compiled_count], text, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        regerror(code, &list->compiled[list->compiled_count], reason, sizeof(reason));
        problem_set(problem, ERR_INVALID, "The pattern \"%.*s\" is no regular expression: %s.", STR_ARG(pattern), reason);
    } else {
        list->compiled_count++;
    }
    mem_free(text);
    return code != 0 ? ERR_INVALID : OK;
}

static enum error add(struct topic_list *list, struct str item, struct problem *problem)
{
    if (item.len == 0) {
        problem_set(problem, ERR_INVALID, "--topics has an empty name in it.");
        problem_hint(problem, "Write names or patterns separated by commas: --topics orders,payments");
        return ERR_INVALID;
    }
    bool pattern = is_pattern(item);
    struct str **items = pattern ? &list->patterns : &list->names;
    int *count = pattern ? &list->pattern_count : &list->name_count;
    *items = mem_realloc(*items, (size_t)(*count + 1) * sizeof(**items));
    (*items)[(*count)++] = item;
    return pattern ? compile(list, item, problem) : OK;
}

enum error topic_list_parse(const struct args *args, struct topic_list *ret_list, struct problem *problem)
{
    struct topic_list list = {0};
    const char *text;
    enum error error = OK;
    for (int i = 0; error == OK && (text = args_text_at(args, "topics", i)) != NULL; i++) {
        struct str rest = str_of(text);
        for (;;) {
            int32_t len = item_length(rest);
            error = add(&list, str_trim((struct str){rest.p, len}), problem);
            if (error != OK || len == rest.len)
                break;
            rest = (struct str){rest.p + len + 1, rest.len - len - 1};
        }
    }
    if (error != OK) {
        topic_list_fini(&list);
        return error;
    }
    *ret_list = list;
    return OK;
}

void topic_list_fini(struct topic_list *list)
{
    for (int i = 0; i < list->compiled_count; i++)
        regfree(&list->compiled[i]);
    mem_free(list->compiled);
    mem_free(list->names);
    mem_free(list->patterns);
    *list = (struct topic_list){0};
}

bool topic_list_has(const struct topic_list *list, struct str topic)
{
    if (topic_list_empty(list))
        return true;
    for (int i = 0; i < list->name_count; i++) {
        if (str_eq(list->names[i], topic))
            return true;
    }
    char *text = str_dup(topic);
    bool found = false;
    for (int i = 0; i < list->compiled_count && !found; i++)
        found = regexec(&list->compiled[i], text, 0, NULL, 0) == 0;
    mem_free(text);
    return found;
}
