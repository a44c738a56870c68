/* Control records: the transaction markers, KRaft's own, and the mirror's barrier (Kafka: ControlRecordType,
 * EndTransactionMarker; the barrier: KIP-1279, MirrorPidResetRecord). A control batch has the control bit and holds one of them.
 *
 *   key                      int16 version, int16 type
 *   value ABORT, COMMIT      int16 version, int32 coordinator epoch
 *   value MIRROR_PID_RESET   flexible message: int16 version = 0; SourceClusterId compact string; tagged fields:
 *                            0 WriterClusterId compact string, 1 Scope int8. Unknown tags are skipped
 *
 * Values of a higher version are read as the highest known one (as Kafka does). Any thread. */
#ifndef KAGAMI_CODEC_CONTROL_H
#define KAGAMI_CODEC_CONTROL_H

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

enum control_type {
    CONTROL_ABORT = 0,
    CONTROL_COMMIT = 1,
    CONTROL_LEADER_CHANGE = 2,
    CONTROL_SNAPSHOT_HEADER = 3,
    CONTROL_SNAPSHOT_FOOTER = 4,
    CONTROL_KRAFT_VERSION = 5,
    CONTROL_KRAFT_VOTERS = 6,
    CONTROL_MIRROR_PID_RESET = 7,
};

/* Scope of a barrier: whose producer entries it drops. */
enum mirror_pid_reset_scope { MIRROR_PID_RESET_ALL = 0, MIRROR_PID_RESET_NEGATIVE = 1 };

struct control_record {
    int64_t offset;
    int64_t timestamp;
    int16_t key_version;
    int16_t type;                 /* enum control_type, or a number that we don't know */
    struct bytes value;           /* raw; p NULL: null */
    int16_t value_version;        /* of ABORT, COMMIT, MIRROR_PID_RESET; -1 for the others */
    int32_t coordinator_epoch;    /* ABORT, COMMIT; else -1 */
    struct str source_cluster_id; /* MIRROR_PID_RESET; else null */
    struct str writer_cluster_id; /* MIRROR_PID_RESET that names its writer; else null: a foreign one */
    int8_t scope;                 /* MIRROR_PID_RESET; 0 when absent. May be a number that we don't know */
};

static inline bool control_is_end_txn(const struct control_record *control)
{
    return control->type == CONTROL_ABORT || control->type == CONTROL_COMMIT;
}

/* The first record of a whole control batch (asserted: the control bit). Strings and value point into the batch. Types that are
 * not known are OK: type and raw value are given. ERR_NOT_FOUND: the batch is empty (compaction). ERR_CORRUPT: the record, the
 * key or the value of a known type is damaged. ERR_UNSUPPORTED: the batch is compressed, which no broker does to control batches.
 */
MUST_CHECK enum error control_parse(const uint8_t *batch, struct control_record *ret_control);
/* "ABORT", .., "MIRROR_PID_RESET", "UNKNOWN". Static storage. */
const char *control_type_name(int type);

struct end_txn {
    bool commit;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t coordinator_epoch;
};
/* Append a whole control batch to *out (transactional and control bits; CreateTime; no sequence). Cannot fail: the sizes are
 * ours. */
void control_build_end_txn(struct buf *out, const struct end_txn *end, int64_t timestamp_ms, int64_t offset,
                           int32_t leader_epoch);

/* The barrier as spec'd: control bit only, no producer. writer_cluster_id null: without the tag. scope 0: without the tag.
 * Cluster ids are at most LIMIT_CLUSTER_ID long (asserted). */
#define LIMIT_CLUSTER_ID 1024
void control_build_mirror_pid_reset(struct buf *out, struct str source_cluster_id, struct str writer_cluster_id, int8_t scope,
                                    int64_t timestamp_ms, int64_t offset, int32_t leader_epoch);

#endif
