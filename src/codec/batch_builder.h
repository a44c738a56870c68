/* Builds a record batch v2 from records (Kafka: MemoryRecordsBuilder). Layout: codec/record_batch.h. One thread at a time.
 *
 *     struct batch_builder builder;
 *     batch_builder_init(&builder, &(struct batch_params)BATCH_PARAMS_INIT);
 *     error = batch_builder_add(&builder, &(struct batch_record){.timestamp = now, .key = key, .value = value});
 *     error = batch_builder_finish(&builder, out);      // ready for the next batch afterwards
 *     batch_builder_fini(&builder);
 */
#ifndef KAGAMI_CODEC_BATCH_BUILDER_H
#define KAGAMI_CODEC_BATCH_BUILDER_H

#include "codec/record_batch.h"

struct batch_params {
    int64_t base_offset;
    int32_t leader_epoch;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    enum codec codec;
    int level;
    bool transactional;
    bool control;
    bool log_append_time; /* the timestamp type: readers see log_append_time_ms; the records' own stay inside, as with Kafka */
    int64_t log_append_time_ms;
};
/* What a producer without idempotence sends: offset 0, no producer, no compression, CreateTime. */
#define BATCH_PARAMS_INIT                                                                                                        \
    {                                                                                                                            \
        .leader_epoch = NO_LEADER_EPOCH, .producer_id = NO_PRODUCER_ID, .producer_epoch = NO_PRODUCER_EPOCH,                     \
        .base_sequence = NO_SEQUENCE, .codec = CODEC_NONE, .level = CODEC_LEVEL_DEFAULT, .log_append_time_ms = NO_TIMESTAMP      \
    }

struct batch_record {
    int64_t timestamp;       /* ms */
    struct bytes key, value; /* p NULL: null */
    const struct record_header *headers;
    int32_t header_count;
};

struct batch_builder {
    struct batch_params params;
    struct buf raw; /* room for the header, then the records uncompressed */
    int64_t base_timestamp, max_timestamp;
    int32_t count, last_offset_delta;
};

void batch_builder_init(struct batch_builder *builder, const struct batch_params *params); /* params are copied */
void batch_builder_fini(struct batch_builder *builder);
/* Drops the records and takes new params; keeps the memory. */
void batch_builder_reset(struct batch_builder *builder, const struct batch_params *params);
/* Copies the record behind the others: offset delta one above the last. ERR_TOO_LARGE when the batch would pass
 * LIMIT_DECOMPRESSED_BYTES; the record is not in it then. */
MUST_CHECK enum error batch_builder_add(struct batch_builder *builder, const struct batch_record *record);
/* With the offset delta given, which must be above the last one (asserted): leaves a gap as compaction does. */
MUST_CHECK enum error batch_builder_add_at(struct batch_builder *builder, int32_t offset_delta,
                                           const struct batch_record *record);
/* The last offset delta when the end of the range has no record (compaction); at least the last record's (asserted). */
void batch_builder_set_last_offset_delta(struct batch_builder *builder, int32_t last_offset_delta);
/* Size of the batch if it ended now and were not compressed. */
static inline size_t batch_builder_size_bytes(const struct batch_builder *builder)
{
    return builder->raw.len;
}
static inline int32_t batch_builder_count(const struct batch_builder *builder)
{
    return builder->count;
}
/* Appends the batch to *out and drops the records; base offset and sequence move on behind them (a producer that
 * got an offset from elsewhere calls reset). A batch without records is legal. *out and the records stay on an error. */
MUST_CHECK enum error batch_builder_finish(struct batch_builder *builder, struct buf *out);

#endif
