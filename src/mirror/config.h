/* Settings of one mirror (spec section 12): names, defaults, limits in one table. Unknown and wrong ones are refused by name.
 *
 * A config is built once and then only read. One thread at a time while it is built. */
#ifndef KAGAMI_MIRROR_CONFIG_H
#define KAGAMI_MIRROR_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum mirror_open_transactions { MIRROR_TXN_ABORT, MIRROR_TXN_TRUNCATE };
enum mirror_on_divergence { MIRROR_DIVERGENCE_FAIL, MIRROR_DIVERGENCE_TRUNCATE };

struct mirror_config {
    char *bootstrap_servers;
    char *security_protocol; /* PLAINTEXT: the others are refused as not supported yet */
    char *producer_ids;      /* preserve: negate is refused as not supported yet */
    char *open_transactions_text, *on_divergence_text;
    int64_t request_timeout_ms;
    int64_t connections_max_idle_ms;
    int64_t socket_receive_buffer_bytes; /* -1: the system's */
    int64_t fetch_wait_max_ms;
    int64_t fetch_min_bytes;
    int64_t fetch_max_bytes;
    int64_t partition_fetch_max_bytes;
    int64_t fetchers; /* connections per source broker */
    int64_t throttle_bytes_per_second; /* -1: none */
    int64_t metadata_refresh_interval_ms;
    enum mirror_open_transactions open_transactions;
    enum mirror_on_divergence on_divergence;
};

/* Defaults; bootstrap.servers is missing (NULL). */
void mirror_config_init(struct mirror_config *config);
void mirror_config_fini(struct mirror_config *config);
void mirror_config_copy(struct mirror_config *to, const struct mirror_config *from); /* to: uninitialised */
/* value null: back to the default. INVALID_CONFIG: unknown names (with the nearest one), values out of range, what is not
 * supported yet. */
MUST_CHECK enum error mirror_config_set(struct mirror_config *config, struct str name, struct str value, struct problem *problem);
/* As a whole: bootstrap.servers is there and can be parsed. INVALID_CONFIG. */
MUST_CHECK enum error mirror_config_check(const struct mirror_config *config, struct problem *problem);
/* {"name": "value", ..} of what differs from the defaults; new reference. */
json_t *mirror_config_to_json(const struct mirror_config *config);
MUST_CHECK enum error mirror_config_from_json(const json_t *json, struct mirror_config *ret_config, struct problem *problem);
/* For help and describe: name, default and one sentence of setting i; false when there is none. */
bool mirror_config_doc(int i, const char **ret_name, const char **ret_default, const char **ret_doc);

#endif
