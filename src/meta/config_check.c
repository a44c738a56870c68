/* Whether a text is a legal value of a setting. Messages are worded as Kafka words them
 * (org.apache.kafka.common.config.ConfigDef), since people and tools know them. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/assert.h"
#include "meta/config_table.h"

#define SHOWN_VALUE_MAX 100

static const char *const type_names[] = {
    [CONFIG_BOOLEAN] = "BOOLEAN", [CONFIG_STRING] = "STRING", [CONFIG_INT] = "INT",
    [CONFIG_SHORT] = "SHORT",     [CONFIG_LONG] = "LONG",     [CONFIG_DOUBLE] = "DOUBLE",
    [CONFIG_LIST] = "LIST",       [CONFIG_CLASS] = "CLASS",   [CONFIG_PASSWORD] = "PASSWORD",
};

bool config_parse_long(struct str text, int64_t *ret_value)
{
    return str_to_i64(str_trim(text), ret_value);
}

bool config_parse_double(struct str text, double *ret_value)
{
    char copy[64];
    char *end;
    struct str trimmed = str_trim(text);
    if (trimmed.len == 0 || trimmed.len >= (int32_t)sizeof(copy))
        return false;
    memcpy(copy, trimmed.p, (size_t)trimmed.len);
    copy[trimmed.len] = '\0';
    if (strspn(copy, "0123456789+-.eE") != (size_t)trimmed.len) /* strtod knows more than Java */
        return false;
    double value = strtod(copy, &end);
    if (*end != '\0' || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

bool config_parse_bool(struct str text, bool *ret_value)
{
    struct str trimmed = str_trim(text);
    bool yes = trimmed.len == 4 && strncasecmp(trimmed.p, "true", 4) == 0;
    bool no = trimmed.len == 5 && strncasecmp(trimmed.p, "false", 5) == 0;
    if (yes || no)
        *ret_value = yes;
    return yes || no;
}

static enum error invalid(const struct config_def *def, struct str value, struct problem *problem, const char *reason)
{
    return problem_set(problem, INVALID_CONFIG, "Invalid value %.*s for configuration %s: %s", MIN(value.len, SHOWN_VALUE_MAX),
                       value.p != NULL ? value.p : "null", def->name, reason);
}

static enum error check_limits(const struct config_def *def, struct str value, double number, struct problem *problem)
{
    char reason[80];
    if (number < def->min)
        snprintf(reason, sizeof(reason), "Value must be at least %.15g", def->min);
    else if (number > def->max)
        snprintf(reason, sizeof(reason), "Value must be no more than %.15g", def->max);
    else
        return OK;
    return invalid(def, value, problem, reason);
}

static enum error check_number(const struct config_def *def, struct str value, struct problem *problem)
{
    char reason[80];
    int64_t number = 0;
    double real = 0;
    bool good = def->type == CONFIG_DOUBLE ? config_parse_double(value, &real) : config_parse_long(value, &number);
    if (good && def->type != CONFIG_DOUBLE)
        real = (double)number;
    if (def->type == CONFIG_INT)
        good = good && number >= INT_MIN && number <= INT_MAX;
    if (def->type == CONFIG_SHORT)
        good = good && number >= SHRT_MIN && number <= SHRT_MAX;
    if (good)
        return check_limits(def, value, real, problem);
    snprintf(reason, sizeof(reason), "Not a number of type %s", type_names[def->type]);
    return invalid(def, value, problem, reason);
}

static bool is_choice(const char *choices, struct str value)
{
    struct str rest = str_of(choices), choice;
    while (str_split(&rest, ',', &choice)) {
        if (str_eq(choice, value))
            return true;
    }
    return false;
}

static enum error check_choice(const struct config_def *def, struct str value, struct problem *problem)
{
    char reason[200] = "String must be one of: ";
    struct str rest = str_of(def->choices), choice;
    if (is_choice(def->choices, value))
        return OK;
    for (size_t len = strlen(reason); str_split(&rest, ',', &choice) && len < sizeof(reason); len = strlen(reason))
        snprintf(reason + len, sizeof(reason) - len, "%.*s%s", STR_ARG(choice), rest.p != NULL ? ", " : "");
    return invalid(def, value, problem, reason);
}

static enum error check_list(const struct config_def *def, struct str value, struct problem *problem)
{
    struct str rest = str_trim(value), item;
    enum error error = OK;
    if (def->choices == NULL || rest.len == 0) /* Kafka takes an empty list (facts 10) */
        return OK;
    while (error == OK && str_split(&rest, ',', &item))
        error = check_choice(def, str_trim(item), problem);
    return error;
}

enum error config_check(const struct config_def *def, struct str value, struct problem *problem)
{
    enum error error = OK;
    bool yes;
    if (value.p == NULL)
        return def->default_value == NULL ? OK : invalid(def, value, problem, "Value must not be null");
    if (memchr(value.p, '\0', (size_t)value.len) != NULL)
        return invalid(def, value, problem, "Value must not contain a null character");
    switch (def->type) {
    case CONFIG_BOOLEAN:
        if (!config_parse_bool(value, &yes))
            error = invalid(def, value, problem, "Expected value to be either true or false");
        break;
    case CONFIG_INT:
    case CONFIG_SHORT:
    case CONFIG_LONG:
    case CONFIG_DOUBLE:
        error = check_number(def, value, problem);
        break;
    case CONFIG_LIST:
        error = check_list(def, value, problem);
        break;
    case CONFIG_STRING:
    case CONFIG_CLASS:
    case CONFIG_PASSWORD:
        if (def->choices != NULL)
            error = check_choice(def, str_trim(value), problem);
        break;
    }
    if (error == OK && def->check != NULL)
        error = def->check(def, value, problem);
    return error;
}

/* ---- Checks that one setting has for itself ---- */

enum error config_check_gzip_level(const struct config_def *def, struct str value, struct problem *problem)
{
    int64_t level = 0;
    bool good = config_parse_long(value, &level) && (level == -1 || (level >= 1 && level <= 9));
    return good ? OK : invalid(def, value, problem, "Value must be between 1 and 9 or equal to -1");
}

static bool is_replica(struct str item)
{
    struct str partition;
    int64_t number;
    return str_split(&item, ':', &partition) && item.p != NULL && str_to_i64(partition, &number) && number >= 0 &&
           str_to_i64(item, &number) && number >= 0;
}

enum error config_check_throttled_replicas(const struct config_def *def, struct str value, struct problem *problem)
{
    struct str rest = str_trim(value), item;
    if (rest.len == 0 || str_is(rest, "*"))
        return OK;
    while (str_split(&rest, ',', &item)) {
        if (!is_replica(str_trim(item)))
            return invalid(def, value, problem,
                           "it must be the literal '*' or a list of replicas in the following format: "
                           "[partitionId]:[brokerId],[partitionId]:[brokerId],...");
    }
    return OK;
}

enum error config_check_no_remote_storage(const struct config_def *def, struct str value, struct problem *problem)
{
    bool on = false;
    if (config_parse_bool(value, &on) && !on)
        return OK;
    return problem_set(problem, INVALID_CONFIG, "There is no tiered storage: %s cannot be true.", def->name);
}
