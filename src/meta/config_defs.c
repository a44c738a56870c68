#include "meta/config_defs.h"

#include <limits.h>
#include <stdlib.h>

#include "base/assert.h"
#include "meta/config_table.h"

/* Names further away than this are not offered as what was meant: a third of the name, at least two letters. */
#define NEAR_MIN 2
#define NEAR_SHARE 3

const struct config_def *config_defs(enum config_scope scope, int *ret_count)
{
    *ret_count = scope == CONFIG_SCOPE_TOPIC ? config_topic_table_count : config_broker_table_count;
    return scope == CONFIG_SCOPE_TOPIC ? config_topic_table : config_broker_table;
}

const struct config_def *config_def_find(enum config_scope scope, struct str name)
{
    int count;
    const struct config_def *table = config_defs(scope, &count);
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = str_cmp(str_of(table[middle].name), name);
        if (order == 0)
            return &table[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *config_nearest(enum config_scope scope, struct str name)
{
    int count, best = MAX(NEAR_MIN, name.len / NEAR_SHARE) + 1;
    const struct config_def *table = config_defs(scope, &count);
    const char *nearest = NULL;
    for (int i = 0; i < count; i++) {
        int distance = str_distance(name, str_of(table[i].name));
        if (distance < best) {
            best = distance;
            nearest = table[i].name;
        }
    }
    return nearest;
}

static enum error unknown_static(const struct property *p, struct problem *problem)
{
    const char *near = config_nearest(CONFIG_SCOPE_BROKER, str_of(p->key));
    problem_set(problem, INVALID_CONFIG, "There is no setting %.100s.", p->key);
    if (p->line > 0)
        problem_detail(problem, "line %d", p->line);
    if (near != NULL)
        problem_hint(problem, "Did you mean %s?", near);
    else
        problem_hint(problem, "The settings are listed in the manual page of kagamid.");
    return INVALID_CONFIG;
}

enum error config_check_static(const struct properties *properties, struct problem *problem)
{
    for (size_t i = 0; i < properties->count; i++) {
        const struct property *p = &properties->items[i];
        const struct config_def *def = config_def_find(CONFIG_SCOPE_BROKER, str_of(p->key));
        if (def == NULL)
            return unknown_static(p, problem);
        enum error error = config_check(def, str_of(p->value), problem);
        if (error != OK) {
            if (p->line > 0)
                problem_detail(problem, "line %d", p->line);
            return error;
        }
    }
    return OK;
}

/* ---- Where a value comes from ---- */

struct walk {
    const struct image *image;
    struct config_value *out;
    int max, count;
};

static void offer(struct walk *w, const char *name, const char *value, int64_t factor, enum config_source source)
{
    if (value != NULL && w->count < w->max)
        w->out[w->count++] = (struct config_value){.name = name, .value = value, .factor = factor, .source = source};
}

static void offer_broker(struct walk *w, const char *name, int64_t factor)
{
    offer(w, name, image_config(&w->image->broker_configs, name), factor, CONFIG_SOURCE_DYNAMIC_BROKER);
    offer(w, name, image_config(&w->image->broker_default_configs, name), factor, CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER);
    if (w->image->static_configs != NULL)
        offer(w, name, properties_get(w->image->static_configs, name), factor, CONFIG_SOURCE_STATIC_BROKER);
}

static bool is_topic_def(const struct config_def *def)
{
    return def >= config_topic_table && def < config_topic_table + config_topic_table_count;
}

/* Kafka lists a topic setting's default under the name of the broker setting that stands in for it, and not at all where there is
 * none or that has no default itself. NULL: not listed. */
static const char *default_name(const struct config_def *def)
{
    if (!is_topic_def(def))
        return def->name;
    const char *name = def->fallbacks[0].name;
    const struct config_def *broker = name != NULL ? config_def_find(CONFIG_SCOPE_BROKER, str_of(name)) : NULL;
    return broker != NULL && broker->default_value != NULL ? name : NULL;
}

int config_synonyms(const struct image *image, const struct image_topic *topic, const struct config_def *def,
                    struct config_value *out, int max)
{
    struct walk w = {.image = image, .out = out, .max = max};
    if (!is_topic_def(def))
        offer_broker(&w, def->name, 1);
    else if (topic != NULL)
        offer(&w, def->name, image_config(&topic->configs, def->name), 1, CONFIG_SOURCE_TOPIC);
    for (size_t i = 0; i < ARRAY_SIZE(def->fallbacks) && def->fallbacks[i].name != NULL; i++)
        offer_broker(&w, def->fallbacks[i].name, def->fallbacks[i].factor);
    if (default_name(def) != NULL)
        offer(&w, default_name(def), def->default_value, 1, CONFIG_SOURCE_DEFAULT);
    return w.count;
}

void config_resolve(const struct image *image, const struct image_topic *topic, const struct config_def *def,
                    struct config_value *ret_value)
{
    struct config_value first;
    if (config_synonyms(image, topic, def, &first, 1) == 0)
        first =
            (struct config_value){.name = def->name, .value = def->default_value, .factor = 1, .source = CONFIG_SOURCE_DEFAULT};
    *ret_value = first;
}

/* "No limit" is -1 in every unit. Everything that gets into an image or the static settings was checked, so it can be read. */
static int64_t in_own_unit(const struct config_value *value)
{
    int64_t number, product;
    bool good = config_parse_long(str_of(value->value), &number);
    ASSERT(good);
    if (number < 0)
        return number;
    return __builtin_mul_overflow(number, value->factor, &product) ? INT64_MAX : product;
}

struct str config_value_text(struct arena *arena, const struct config_value *value)
{
    if (value->value == NULL || value->factor == 1)
        return str_of(value->value);
    return arena_printf(arena, "%lld", (long long)in_own_unit(value));
}

/* ---- Typed ---- */

static const struct config_def *known(enum config_scope scope, const char *name)
{
    const struct config_def *def = config_def_find(scope, str_of(name));
    ASSERT(def != NULL);
    return def;
}

static int64_t long_of(const struct config_value *value)
{
    return value->value != NULL ? in_own_unit(value) : -1;
}

static bool bool_of(const struct config_value *value)
{
    bool yes = false;
    bool good = value->value != NULL && config_parse_bool(str_of(value->value), &yes);
    ASSERT(good);
    return yes;
}

static struct config_value in_force(const struct image *image, enum config_scope scope, const struct image_topic *topic,
                                    const char *name)
{
    struct config_value value;
    config_resolve(image, topic, known(scope, name), &value);
    return value;
}

int64_t config_broker_long(const struct image *image, const char *name)
{
    struct config_value value = in_force(image, CONFIG_SCOPE_BROKER, NULL, name);
    return long_of(&value);
}

bool config_broker_bool(const struct image *image, const char *name)
{
    struct config_value value = in_force(image, CONFIG_SCOPE_BROKER, NULL, name);
    return bool_of(&value);
}

double config_broker_double(const struct image *image, const char *name)
{
    struct config_value value = in_force(image, CONFIG_SCOPE_BROKER, NULL, name);
    double number = 0;
    bool good = value.value != NULL && config_parse_double(str_of(value.value), &number);
    ASSERT(good);
    return number;
}

const char *config_broker_string(const struct image *image, const char *name)
{
    return in_force(image, CONFIG_SCOPE_BROKER, NULL, name).value;
}

int64_t config_topic_long(const struct image *image, const struct image_topic *topic, const char *name)
{
    struct config_value value = in_force(image, CONFIG_SCOPE_TOPIC, topic, name);
    return long_of(&value);
}

bool config_topic_bool(const struct image *image, const struct image_topic *topic, const char *name)
{
    struct config_value value = in_force(image, CONFIG_SCOPE_TOPIC, topic, name);
    return bool_of(&value);
}

const char *config_topic_string(const struct image *image, const struct image_topic *topic, const char *name)
{
    return in_force(image, CONFIG_SCOPE_TOPIC, topic, name).value;
}

int64_t config_static_long(const struct properties *properties, const char *name)
{
    struct image empty = {.static_configs = properties};
    return config_broker_long(&empty, name);
}

bool config_static_bool(const struct properties *properties, const char *name)
{
    struct image empty = {.static_configs = properties};
    return config_broker_bool(&empty, name);
}

const char *config_static_string(const struct properties *properties, const char *name)
{
    struct image empty = {.static_configs = properties};
    return config_broker_string(&empty, name);
}

/* ---- Rules between settings ---- */

enum error config_check_topic(const struct image *image, const struct image_configs *configs, struct problem *problem)
{
    struct image_topic topic = {.configs = *configs};
    int64_t min_lag = config_topic_long(image, &topic, "min.compaction.lag.ms");
    int64_t max_lag = config_topic_long(image, &topic, "max.compaction.lag.ms");
    if (min_lag > max_lag)
        return problem_set(problem, INVALID_CONFIG,
                           "conflict topic config setting min.compaction.lag.ms (%lld) > max.compaction.lag.ms (%lld)",
                           (long long)min_lag, (long long)max_lag);
    return OK;
}
