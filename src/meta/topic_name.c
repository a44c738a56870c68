/* Kafka's rules for topic names (org.apache.kafka.common.internals.Topic), with its messages. */
#include "base/assert.h"
#include "base/limits.h"
#include "meta/controller.h"

#define SHOWN_NAME_MAX 260

static bool is_legal(struct str name)
{
    for (int32_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

enum error topic_name_check(struct str name, struct problem *problem)
{
    int shown = MIN(name.len, SHOWN_NAME_MAX);
    if (name.p == NULL || name.len == 0)
        return problem_set(problem, INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed");
    if (str_is(name, ".") || str_is(name, ".."))
        return problem_set(problem, INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '%.*s' is not allowed", shown, name.p);
    if (name.len > LIMIT_TOPIC_NAME)
        return problem_set(problem, INVALID_TOPIC_EXCEPTION,
                           "Topic name is invalid: the length of '%.40s..' is longer than the max allowed length %d", name.p,
                           LIMIT_TOPIC_NAME);
    if (!is_legal(name))
        return problem_set(
            problem, INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: '%.*s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            shown, name.p);
    return OK;
}
