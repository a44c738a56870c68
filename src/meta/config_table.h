/* The two tables of settings, sorted by name. Internal to meta. */
#ifndef KAGAMI_META_CONFIG_TABLE_H
#define KAGAMI_META_CONFIG_TABLE_H

#include "meta/config_defs.h"

extern const struct config_def config_broker_table[];
extern const int config_broker_table_count;
extern const struct config_def config_topic_table[];
extern const int config_topic_table_count;

/* Checks beyond type and limits (config_check.c). */
enum error config_check_gzip_level(const struct config_def *def, struct str value, struct problem *problem);
enum error config_check_throttled_replicas(const struct config_def *def, struct str value, struct problem *problem);
enum error config_check_no_remote_storage(const struct config_def *def, struct str value, struct problem *problem);

/* Text as Java's parsers take it: blanks around it, a plus sign. */
MUST_CHECK bool config_parse_long(struct str text, int64_t *ret_value);
MUST_CHECK bool config_parse_double(struct str text, double *ret_value);
MUST_CHECK bool config_parse_bool(struct str text, bool *ret_value);

#endif
