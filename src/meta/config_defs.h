/* Every setting that Kagami has, in one table: Kafka's names, types, defaults and limits
 * (org.apache.kafka.common.config.TopicConfig, server.properties), and a few of our own. What a name means, whether it may
 * change while the broker runs, and where a topic's setting falls back to is said here only.
 *
 * A topic's value is looked for in: the topic's own settings, this broker's dynamic ones, the dynamic ones for all brokers,
 * server.properties and --set, the default. Threads: any. */
#ifndef KAGAMI_META_CONFIG_DEFS_H
#define KAGAMI_META_CONFIG_DEFS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/properties.h"
#include "base/str.h"
#include "meta/image.h"

enum config_type { /* numbers of DescribeConfigs (ConfigResponse.ConfigType) */
                   CONFIG_BOOLEAN = 1,
                   CONFIG_STRING = 2,
                   CONFIG_INT = 3,
                   CONFIG_SHORT = 4,
                   CONFIG_LONG = 5,
                   CONFIG_DOUBLE = 6,
                   CONFIG_LIST = 7,
                   CONFIG_CLASS = 8,
                   CONFIG_PASSWORD = 9,
};

enum config_source { /* numbers of DescribeConfigs (DescribeConfigsResponse.ConfigSource) */
                     CONFIG_SOURCE_UNKNOWN = 0,
                     CONFIG_SOURCE_TOPIC = 1,
                     CONFIG_SOURCE_DYNAMIC_BROKER = 2,
                     CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER = 3,
                     CONFIG_SOURCE_STATIC_BROKER = 4,
                     CONFIG_SOURCE_DEFAULT = 5,
};

enum config_resource_type { /* numbers of the config APIs (ConfigResource.Type) */
                            CONFIG_RESOURCE_TOPIC = 2,
                            CONFIG_RESOURCE_BROKER = 4,
                            CONFIG_RESOURCE_BROKER_LOGGER = 8,
                            CONFIG_RESOURCE_CLIENT_METRICS = 16,
                            CONFIG_RESOURCE_GROUP = 32,
};

enum config_scope { CONFIG_SCOPE_BROKER, CONFIG_SCOPE_TOPIC };

struct config_fallback { /* a broker setting that stands in for an unset topic or broker setting, in order of preference */
    const char *name;
    int64_t factor; /* its value is multiplied by it: 3600000 for hours */
};

struct config_def {
    const char *name;
    enum config_type type;
    const char *default_value; /* NULL: null */
    double min, max;           /* numbers, both inclusive; -INFINITY, INFINITY: what the type holds */
    const char *choices;       /* "a,b,c" for STRING and LIST; NULL: any */
    enum error (*check)(const struct config_def *def, struct str value,
                        struct problem *problem); /* more than the above; NULL: none */
    bool read_only;                               /* broker: only from server.properties and --set */
    struct config_fallback fallbacks[3];
    const char *doc;
};

/* NULL when there is no such setting. */
const struct config_def *config_def_find(enum config_scope scope, struct str name);
/* The whole table, sorted by name. */
const struct config_def *config_defs(enum config_scope scope, int *ret_count);
/* The name that was probably meant; NULL when nothing is near. */
const char *config_nearest(enum config_scope scope, struct str name);

/* Whether the text is a legal value (str null: null). INVALID_CONFIG; the message is worded as Kafka words it. */
MUST_CHECK enum error config_check(const struct config_def *def, struct str value, struct problem *problem);
/* The settings that a broker starts with: unknown names (with the nearest one that exists) and bad values are refused.
 * INVALID_CONFIG. */
MUST_CHECK enum error config_check_static(const struct properties *properties, struct problem *problem);
/* "topic" and its settings as a whole, after a change: rules between settings (Kafka: LogConfig.validateValues). */
MUST_CHECK enum error config_check_topic(const struct image *image, const struct image_configs *configs, struct problem *problem);

/* ---- Values in force ---- */

struct config_value {
    const char *name;  /* under which it was set: the setting itself or a fallback */
    const char *value; /* as text; NULL: null. Valid as long as image and topic are held */
    int64_t factor;    /* 1, but for a fallback in other units: the value in the setting's own unit is value * factor */
    enum config_source source;
};

/* topic NULL with a topic setting: what a new topic would have. */
void config_resolve(const struct image *image, const struct image_topic *topic, const struct config_def *def,
                    struct config_value *ret_value);
/* The value as text in the setting's own unit; null for null. Points into the image or the arena. */
struct str config_value_text(struct arena *arena, const struct config_value *value);
/* All places that hold a value, the one in force first (DescribeConfigs' synonyms). Returns how many, at most max. */
#define CONFIG_SYNONYMS_MAX 16
int config_synonyms(const struct image *image, const struct image_topic *topic, const struct config_def *def,
                    struct config_value *out, int max);

/* The broker's settings, typed; the name must be in the table and of a fitting type (assert). A number that is null is -1. */
int64_t config_broker_long(const struct image *image, const char *name);
bool config_broker_bool(const struct image *image, const char *name);
double config_broker_double(const struct image *image, const char *name);
const char *config_broker_string(const struct image *image, const char *name); /* NULL: null */
/* The topic's (or, with topic NULL, a new topic's). */
int64_t config_topic_long(const struct image *image, const struct image_topic *topic, const char *name);
bool config_topic_bool(const struct image *image, const struct image_topic *topic, const char *name);
const char *config_topic_string(const struct image *image, const struct image_topic *topic, const char *name);
/* Before there is an image: from the static settings alone. */
int64_t config_static_long(const struct properties *properties, const char *name);
bool config_static_bool(const struct properties *properties, const char *name);
const char *config_static_string(const struct properties *properties, const char *name);

/* What the topic's logs are to be run with. */
struct plog_config;
void config_topic_log(const struct image *image, const struct image_topic *topic, struct plog_config *ret_config);

#endif
