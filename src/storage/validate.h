/* What a client sends is checked here before it may be appended (Kafka: LogValidator, ProduceRequest.validateRecords, and the
 * checks of UnifiedLog.append that need no state). Runs without any lock: CRC, decompression and the walk over the records happen
 * before the partition's mutex is taken.
 *
 * The sender's bytes are never written to and, unless the codec changes, never copied: what differs (base offset, leader epoch,
 * with LogAppendTime or a wrong max timestamp also flags, max timestamp and CRC) lives in a copy of the 61-byte header, and the
 * append writes header and rest with one pwritev. */
#ifndef KAGAMI_STORAGE_VALIDATE_H
#define KAGAMI_STORAGE_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/str.h"

#define VALIDATE_HEADER_BYTES 61           /* of a batch of magic 2 */
#define VALIDATE_COMPRESSION_PRODUCER (-1) /* compression.type=producer */
#define VALIDATE_MAX_RECORD_ERRORS 1000    /* of one batch: more are counted but not listed, so that an answer stays small */

/* Topic settings (Kafka: TopicConfig), with Kafka's defaults in validate_config_default(). */
struct validate_config {
    int32_t max_message_bytes;
    int64_t segment_bytes;           /* a batch must fit in a segment: RECORD_LIST_TOO_LARGE */
    int compression;                 /* VALIDATE_COMPRESSION_PRODUCER, or the codec's number on the wire: 0 none .. 4 zstd */
    int compression_level;           /* of that codec (compression.gzip.level ..); INT_MIN: its default */
    bool log_append_time;            /* message.timestamp.type */
    int64_t timestamp_before_max_ms; /* message.timestamp.before.max.ms, INT64_MAX: any */
    int64_t timestamp_after_max_ms;
    bool compacted; /* cleanup.policy contains compact: every record needs a key */
};

struct validate_config validate_config_default(void);

enum validate_origin {
    VALIDATE_CLIENT,      /* Produce */
    VALIDATE_COORDINATOR, /* a group or transaction coordinator of ours: base offset and counts are its own affair */
};

/* Produce v8+: RecordErrors. */
struct validate_record_error {
    int32_t batch_index;
    struct str message; /* in the arena */
};

struct validate_errors {
    struct validate_record_error *items; /* in the arena; NULL without */
    int32_t count;                       /* listed */
    int32_t total;
};

/* One batch, ready for plog_append_client, which fills in offsets and leader epoch. `rest` is the caller's memory (keep it until
 * the append is done) or that of `recompressed`. Zero-initialised is empty and may be given to validated_fini. */
struct validated {
    uint8_t header[VALIDATE_HEADER_BYTES];
    struct bytes rest; /* what follows the header */
    struct buf recompressed;
    enum validate_origin origin;
    int32_t record_count;
    int64_t max_timestamp; /* -1 when no record has one */
    int32_t
        offset_delta_of_max; /* the first record that has it; of the last record with LogAppendTime (as Kafka's index has it) */
    int64_t log_append_time_ms; /* -1 with CreateTime */
    int64_t producer_id;        /* as sent */
    int16_t producer_epoch;
    int32_t base_sequence;
    bool transactional;
    bool copied; /* recompressed */
};

/* records: the partition's records of a Produce request of version 3 or later. now_ms: the broker's wall time.
 * Errors: Kafka's, with the problem for the answer's ErrorMessage (our own words):
 *   INVALID_RECORD    null or no records, no whole batch, a second batch, magic 0 or 1, base offset not 0, counts that don't
 * agree, control batch of a client, negative sequence of a producer, malformed record, offset delta out of turn, key missing
 * (errors list) CORRUPT_MESSAGE   CRC, sizes that cannot be, unknown codec, data that cannot be decompressed (facts 12 and 13)
 *   INVALID_TIMESTAMP outside the topic's bounds (errors list)
 *   MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE
 *   UNSUPPORTED_COMPRESSION_TYPE zstd in a request below version 7
 * On an error nothing is kept in *ret_validated. ret_errors may be NULL; it is written on errors too. Any thread. */
MUST_CHECK enum error validate_records(struct bytes records, int16_t produce_version, enum validate_origin origin,
                                       const struct validate_config *config, int64_t now_ms, struct arena *arena,
                                       struct validated *ret_validated, struct validate_errors *ret_errors,
                                       struct problem *problem);
void validated_fini(struct validated *v); /* NULL is OK */

/* Whether the first batch in records has the transactional bit; false when there is no whole header (Kafka:
 * RequestUtils.hasTransactionalRecords). For the authorisation that comes before validation. Any thread. */
bool validate_peek_transactional(struct bytes records, int64_t *ret_producer_id);

#endif
