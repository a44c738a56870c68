/* What the metadata store keeps of mirrors, as JSON that an operator can read (design section 6).
 *
 *   mirrors/NAME                 config, sourceClusterId, createdMs
 *   mirror-topics/TOPIC          mirror, topicId, wanted, discardLocalData, stop options
 *   mirror-partitions/TOPIC/N    state, stateEpoch, leaderEpoch, position, error, hint, failedFrom, retries, gaps, what was
 *                                thrown away last, the last stop's report
 *
 * Structs own their strings. One thread at a time. Reading refuses what it does not understand: ERR_CORRUPT with a problem
 * that names the field. */
#ifndef KAGAMI_MIRROR_RECORDS_H
#define KAGAMI_MIRROR_RECORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid.h"
#include "mirror/config.h"
#include "mirror/state.h"

#define MIRROR_NAME_MAX 249
#define MIRROR_GAPS_MAX 32 /* the newest are kept */

/* Mirror names follow the rules of topic names: INVALID_CLUSTER_MIRROR_NAME. */
MUST_CHECK enum error mirror_name_check(struct str name, struct problem *problem);

struct mirror_record {
    struct mirror_config config;
    char *source_cluster_id; /* NULL until the source was reached once */
    int64_t created_ms;      /* wall time */
};

struct mirror_topic_record {
    char *mirror;
    struct uuid topic_id;
    enum mirror_state wanted; /* MIRRORING, PAUSED, STOPPED */
    bool discard_local_data;  /* start was told to */
    enum mirror_open_transactions stop_open_transactions; /* of the stop that is wanted */
    bool stop_force;
};

struct mirror_gap {
    int64_t from, to; /* offsets [from, to) that the source had removed before they were copied */
    int64_t at_ms;
};

/* What the source's log made this one give up: data that was here before a start, or a tail that the source lost (spec section 7). */
struct mirror_truncation {
    int64_t records, bytes;
    int64_t first_timestamp, last_timestamp; /* ms, -1: not known */
    int64_t at_ms;                           /* wall time */
};

/* What `stop` reports for a partition (spec section 6). */
struct mirror_stop_report {
    int64_t source_high_watermark; /* last known, -1: never known */
    int64_t source_age_ms;         /* how old that knowledge was when the stop began, -1: never known */
    int32_t aborted_transactions;
    int32_t expired_producers;
    int64_t truncated_records;     /* by open.transactions=truncate */
    int64_t end_offset;            /* LEO after the barrier */
    int64_t started_ms, ended_ms;  /* wall time */
};

struct mirror_partition_record {
    enum mirror_state state;
    int32_t state_epoch;  /* grows with every write of this record */
    int32_t leader_epoch; /* of the partition's leader when it wrote */
    /* Position (spec section 6, step 3): stored by a stop; has_position says whether this stop has stored it. */
    bool has_position;
    int32_t position_epoch; /* -1: nothing in common */
    int64_t position_offset;
    int32_t stop_leader_epoch; /* the epoch that step 4 raised the partition to; -1 before */
    /* FAILED */
    enum mirror_state failed_from;
    int16_t error_code; /* wire code */
    char *error;        /* the reason, one line; NULL when none */
    char *hint;         /* what to do about it; NULL when none */
    bool retryable;
    int16_t retries;
    int gap_count;
    struct mirror_gap gaps[MIRROR_GAPS_MAX]; /* oldest first */
    int64_t gaps_total;
    bool has_truncation;
    struct mirror_truncation truncation; /* the last one */
    bool has_report;
    struct mirror_stop_report report;
};

void mirror_record_fini(struct mirror_record *r);
void mirror_topic_record_fini(struct mirror_topic_record *r);
void mirror_partition_record_init(struct mirror_partition_record *r); /* NONE, nothing known */
void mirror_partition_record_fini(struct mirror_partition_record *r);
/* Sets or clears (text NULL) the reason of a failure; copies. */
void mirror_partition_record_fail(struct mirror_partition_record *r, enum error code, const char *text, bool retryable);
void mirror_partition_record_set_hint(struct mirror_partition_record *r, const char *hint); /* copies; fail clears it; "" is none */
void mirror_partition_record_add_gap(struct mirror_partition_record *r, int64_t from, int64_t to, int64_t at_ms);

json_t *mirror_record_to_json(const struct mirror_record *r); /* new references */
json_t *mirror_topic_record_to_json(const struct mirror_topic_record *r);
json_t *mirror_partition_record_to_json(const struct mirror_partition_record *r);
MUST_CHECK enum error mirror_record_from_json(const json_t *json, struct mirror_record *ret, struct problem *problem);
MUST_CHECK enum error mirror_topic_record_from_json(const json_t *json, struct mirror_topic_record *ret, struct problem *problem);
MUST_CHECK enum error mirror_partition_record_from_json(const json_t *json, struct mirror_partition_record *ret, struct problem *problem);

/* "mirrors/NAME", "mirror-topics/TOPIC", "mirror-partitions/TOPIC/N"; static buffers of the caller. */
#define MIRROR_KEY_MAX 300
char *mirror_key(char out[MIRROR_KEY_MAX], const char *name);
char *mirror_topic_key(char out[MIRROR_KEY_MAX], const char *topic);
char *mirror_partition_key(char out[MIRROR_KEY_MAX], const char *topic, int32_t partition);

#endif
