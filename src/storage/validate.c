/* Checks in Kafka's order, so that a batch with several faults gets the answer that Kafka gives: framing (ProduceRequest.validateRecords), base
 * offset, size, CRC (UnifiedLog.analyzeAndValidateRecords), batch fields, then each record (LogValidator), the segment's size last.
 *
 * Stricter than Kafka in three places, where Kafka would store a batch that its own readers stumble over: offset deltas must be 0..n-1 without compression
 * too; a codec that nobody knows is CORRUPT_MESSAGE (facts 13); and where Kafka clears a client's LogAppendTime flag, the records' own timestamps are the ones
 * that are checked and counted, not the max timestamp that the client claimed. */
#include "storage/validate.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "codec/compress.h"
#include "codec/record_batch.h"

_Static_assert(VALIDATE_HEADER_BYTES == BATCH_OVERHEAD, "the header of a batch");

struct check {
    const struct validate_config *config;
    enum validate_origin origin;
    int64_t now_ms;
    int64_t oldest_ms, newest_ms; /* timestamps that are taken */
    struct arena *arena;
    const uint8_t *batch;
    size_t size;
    struct validate_errors errors;
    enum error record_error; /* INVALID_TIMESTAMP as soon as one record has it, else INVALID_RECORD */
    int64_t max_timestamp;
    int32_t delta_of_max;
};

struct validate_config validate_config_default(void)
{
    return (struct validate_config){
        .max_message_bytes = 1048588,
        .segment_bytes = 1073741824,
        .compression = VALIDATE_COMPRESSION_PRODUCER,
        .compression_level = CODEC_LEVEL_DEFAULT,
        .timestamp_before_max_ms = INT64_MAX,
        .timestamp_after_max_ms = 3600000,
    };
}

/* ---- Framing ---- */

/* The batch at the front of `records`: *ret_size is 0 when there is none that is whole (too few bytes, or cut off). */
static enum error frame(struct bytes records, size_t *ret_size, struct problem *problem)
{
    *ret_size = 0;
    if (records.len < BATCH_LOG_OVERHEAD)
        return OK;
    int64_t length = batch_length(records.p);
    if (length < 14) /* the shortest record of any format (LegacyRecord.RECORD_OVERHEAD_V0) */
        return problem_set(problem, CORRUPT_MESSAGE, "a batch of %" PRId64 " bytes is shorter than any can be", length);
    if (records.len < BATCH_MAGIC_END)
        return OK;
    int magic = batch_magic(records.p);
    if (magic < 0 || magic > BATCH_MAGIC)
        return problem_set(problem, CORRUPT_MESSAGE, "message format %d is unknown", magic);
    if (records.len < length + BATCH_LOG_OVERHEAD)
        return OK;
    *ret_size = (size_t)(length + BATCH_LOG_OVERHEAD);
    return OK;
}

static enum error check_framing(struct check *c, struct bytes records, int16_t produce_version, struct problem *problem)
{
    size_t size, next;
    enum error error = frame(records, &size, problem);
    if (error != OK)
        return error;
    if (size == 0)
        return problem_set(problem, INVALID_RECORD, "no whole record batch in %" PRId64 " bytes", records.len);
    if (batch_magic(records.p) != BATCH_MAGIC)
        return problem_set(problem, INVALID_RECORD, "message format %d is too old: only format 2 is taken",
                           batch_magic(records.p));
    if (size < BATCH_OVERHEAD)
        return problem_set(problem, CORRUPT_MESSAGE, "a batch of %zu bytes has no room for its header", size);
    if (c->origin == VALIDATE_CLIENT && produce_version < 7 && batch_codec(records.p) == CODEC_ZSTD)
        return problem_set(problem, UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later");
    error = frame((struct bytes){records.p + size, records.len - (int64_t)size}, &next, problem);
    if (error != OK)
        return error;
    if (next != 0)
        return problem_set(problem, INVALID_RECORD, "more than one record batch for the partition");
    c->batch = records.p;
    c->size = size;
    return OK;
}

/* ---- The batch ---- */

static enum error check_size(const struct validate_config *config, size_t size, struct problem *problem)
{
    if (size > (size_t)MAX(config->max_message_bytes, 0)) {
        problem_set(problem, MESSAGE_TOO_LARGE, "a batch of %zu bytes is larger than max.message.bytes %d", size,
                    config->max_message_bytes);
        return MESSAGE_TOO_LARGE;
    }
    return OK;
}

static enum error check_counts(const uint8_t *b, struct problem *problem)
{
    int32_t count = batch_count(b), last_delta = batch_last_offset_delta(b);
    if (last_delta < 0)
        return problem_set(problem, INVALID_RECORD, "the last offset delta %d is negative", last_delta);
    if (count <= 0)
        return problem_set(problem, INVALID_RECORD, "the batch claims %d records", count);
    if ((int64_t)last_delta + 1 != count)
        return problem_set(problem, INVALID_RECORD, "the batch claims %d records and a last offset delta of %d", count,
                           last_delta);
    return OK;
}

static enum error check_batch(struct check *c, struct problem *problem)
{
    const uint8_t *b = c->batch;
    bool client = c->origin == VALIDATE_CLIENT;
    if (client && batch_base_offset(b) != 0)
        return problem_set(problem, INVALID_RECORD, "the base offset is %" PRId64 ", not 0", batch_base_offset(b));
    enum error error = check_size(c->config, c->size, problem);
    if (error != OK)
        return error;
    if (!batch_verify_crc(b))
        return problem_set(problem, CORRUPT_MESSAGE, "the CRC does not match");
    if (batch_codec(b) >= CODEC_COUNT)
        return problem_set(problem, CORRUPT_MESSAGE, "codec %d is unknown", batch_codec(b));
    if (batch_is_control(b)) /* markers are plog_append_marker's */
        return problem_set(problem, INVALID_RECORD, "control batches are not for clients to write");
    if (client) {
        error = check_counts(b, problem);
        if (error != OK)
            return error;
        if (batch_has_producer_id(b) && batch_base_sequence(b) < 0)
            return problem_set(problem, INVALID_RECORD, "producer %" PRId64 " sends the sequence %d", batch_producer_id(b),
                               batch_base_sequence(b));
    } else if (batch_count(b) <= 0 || batch_last_offset_delta(b) < 0) {
        return problem_set(problem, INVALID_RECORD, "an empty batch");
    }
    return OK;
}

/* ---- The records ---- */

static void add_record_error(struct check *c, enum error error, int32_t index, struct str message)
{
    if (c->record_error != INVALID_TIMESTAMP)
        c->record_error = error;
    c->errors.total++;
    if (c->arena == NULL || c->errors.count == VALIDATE_MAX_RECORD_ERRORS)
        return;
    if (c->errors.items == NULL) {
        c->errors.items = arena_calloc(c->arena, VALIDATE_MAX_RECORD_ERRORS, sizeof(*c->errors.items));
        if (c->errors.items == NULL)
            return;
    }
    c->errors.items[c->errors.count++] = (struct validate_record_error){.batch_index = index, .message = message};
}

static void set_time_bounds(struct check *c)
{
    if (__builtin_sub_overflow(c->now_ms, c->config->timestamp_before_max_ms, &c->oldest_ms))
        c->oldest_ms = c->now_ms < 0 ? INT64_MIN : INT64_MAX;
    if (__builtin_add_overflow(c->now_ms, c->config->timestamp_after_max_ms, &c->newest_ms))
        c->newest_ms = c->now_ms < 0 ? INT64_MIN : INT64_MAX;
}

static void check_record(struct check *c, const struct record *r, int32_t index)
{
    const struct validate_config *config = c->config;
    if (config->compacted && r->key.p == NULL) {
        add_record_error(c, INVALID_RECORD, index, STR("the record has no key, and the topic is compacted"));
    } else if (!config->log_append_time && r->timestamp != NO_TIMESTAMP) {
        if (r->timestamp < c->oldest_ms || r->timestamp > c->newest_ms)
            add_record_error(c, INVALID_TIMESTAMP, index,
                             c->arena == NULL
                                 ? STR_NULL
                                 : arena_printf(c->arena, "the timestamp %" PRId64 " is too far from the broker's time %" PRId64,
                                                r->timestamp, c->now_ms));
    } else if (batch_is_log_append_time(c->batch)) {
        add_record_error(c, INVALID_TIMESTAMP, index, STR("a producer may not set the timestamp type LogAppendTime"));
    }
    if (r->timestamp > c->max_timestamp) {
        c->max_timestamp = r->timestamp;
        c->delta_of_max = index;
    }
}

static enum error check_records(struct check *c, struct bytes records, struct problem *problem)
{
    struct record_iter it;
    struct record r;
    record_iter_init(&it, c->batch, records);
    if (!c->config->log_append_time)
        it.log_append_time = false; /* a client's flag is cleared, so the records' own timestamps are what readers will see */
    for (int32_t index = 0; record_iter_next(&it, &r); index++) {
        if (r.offset_delta != index && c->origin == VALIDATE_CLIENT)
            return problem_set(problem, INVALID_RECORD, "record %d has the offset delta %d", index, r.offset_delta);
        check_record(c, &r, index);
    }
    if (record_iter_finish(&it) != OK)
        return problem_set(problem, INVALID_RECORD, "record %d of %d is malformed, or bytes are left behind the last one",
                           it.index, batch_count(c->batch));
    if (c->errors.total == 0)
        return OK;
    return problem_set(problem, c->record_error, "%d of %d records were refused%s", c->errors.total, batch_count(c->batch),
                       c->record_error == INVALID_TIMESTAMP ? " for their timestamps" : "");
}

/* ---- What is stored ---- */

static enum error take_recompressed(struct check *c, struct bytes records, int codec, struct validated *v,
                                    struct problem *problem)
{
    enum error error = batch_recompress(c->batch, records, codec, c->config->compression_level, &v->recompressed);
    if (error != OK)
        return problem_set(problem, error == ERR_TOO_LARGE ? MESSAGE_TOO_LARGE : UNKNOWN_SERVER_ERROR,
                           "compressing with %s failed: %s", codec_name(codec), error_message(error));
    error = check_size(c->config, v->recompressed.len, problem);
    if (error != OK)
        return error;
    v->copied = true;
    c->size = v->recompressed.len;
    return OK;
}

/* Timestamp type and max timestamp of the header are the broker's to say. The CRC is computed anew only when they change; base timestamp and records stay
 * (facts 14). */
static void set_max_timestamp(struct validated *v, bool log_append_time, int64_t max_timestamp)
{
    uint8_t *h = v->header;
    if (batch_is_log_append_time(h) == log_append_time && batch_max_timestamp(h) == max_timestamp)
        return;
    int attributes = batch_attributes(h) & ~BATCH_LOG_APPEND_TIME;
    put_i16(h + BATCH_POS_ATTRIBUTES, (int16_t)(attributes | (log_append_time ? BATCH_LOG_APPEND_TIME : 0)));
    put_i64(h + BATCH_POS_MAX_TIMESTAMP, max_timestamp);
    uint32_t crc = crc32c(0, h + BATCH_POS_ATTRIBUTES, BATCH_OVERHEAD - BATCH_POS_ATTRIBUTES);
    put_u32(h + BATCH_POS_CRC, crc32c(crc, v->rest.p, (size_t)v->rest.len));
}

static void fill(const struct check *c, struct validated *v)
{
    const uint8_t *b = v->copied ? v->recompressed.data : c->batch;
    memcpy(v->header, b, BATCH_OVERHEAD);
    v->rest = (struct bytes){b + BATCH_OVERHEAD, (int64_t)(c->size - BATCH_OVERHEAD)};
    v->origin = c->origin;
    v->record_count = batch_count(b);
    v->producer_id = batch_producer_id(b);
    v->producer_epoch = batch_producer_epoch(b);
    v->base_sequence = batch_base_sequence(b);
    v->transactional = batch_is_transactional(b);
    bool log_append_time = c->config->log_append_time;
    v->max_timestamp = log_append_time ? c->now_ms : c->max_timestamp;
    v->offset_delta_of_max = log_append_time ? batch_last_offset_delta(b) : c->delta_of_max;
    v->log_append_time_ms = log_append_time ? c->now_ms : NO_TIMESTAMP;
    set_max_timestamp(v, log_append_time, v->max_timestamp);
}

static enum error check_all(struct check *c, struct bytes records, int16_t produce_version, struct validated *v,
                            struct problem *problem)
{
    struct buf scratch = {0};
    struct bytes raw;
    enum error error = check_framing(c, records, produce_version, problem);
    if (error == OK)
        error = check_batch(c, problem);
    if (error != OK)
        return error;
    error = batch_records(c->batch, LIMIT_DECOMPRESSED_BYTES, &scratch, &raw);
    if (error == ERR_TOO_LARGE)
        error = problem_set(problem, MESSAGE_TOO_LARGE, "the batch decompresses to more than %d bytes", LIMIT_DECOMPRESSED_BYTES);
    else if (error != OK)
        error = problem_set(problem, CORRUPT_MESSAGE, "the %s data cannot be decompressed", codec_name(batch_codec(c->batch)));
    else
        error = check_records(c, raw, problem);
    int source = batch_codec(c->batch), target = c->config->compression;
    if (error == OK && target != VALIDATE_COMPRESSION_PRODUCER && target != source)
        error = take_recompressed(c, raw, target, v, problem);
    buf_fini(&scratch);
    if (error == OK && (int64_t)c->size > c->config->segment_bytes)
        error = problem_set(problem, RECORD_LIST_TOO_LARGE, "a batch of %zu bytes does not fit in a segment of %" PRId64, c->size,
                            c->config->segment_bytes);
    return error;
}

enum error validate_records(struct bytes records, int16_t produce_version, enum validate_origin origin,
                            const struct validate_config *config, int64_t now_ms, struct arena *arena,
                            struct validated *ret_validated, struct validate_errors *ret_errors, struct problem *problem)
{
    struct check c = {.config = config,
                      .origin = origin,
                      .now_ms = now_ms,
                      .arena = arena,
                      .record_error = INVALID_RECORD,
                      .max_timestamp = NO_TIMESTAMP};
    struct validated v = {0};
    if (records.p == NULL)
        records.len = 0;
    set_time_bounds(&c);
    enum error error = check_all(&c, records, produce_version, &v, problem);
    if (ret_errors != NULL)
        *ret_errors = c.errors;
    if (error != OK) {
        validated_fini(&v);
        return error;
    }
    fill(&c, &v);
    *ret_validated = v;
    return OK;
}

void validated_fini(struct validated *v)
{
    if (v == NULL)
        return;
    buf_fini(&v->recompressed);
    *v = (struct validated){0};
}

bool validate_peek_transactional(struct bytes records, int64_t *ret_producer_id)
{
    if (records.p == NULL || records.len < BATCH_OVERHEAD || batch_magic(records.p) != BATCH_MAGIC)
        return false;
    if (!batch_is_transactional(records.p))
        return false;
    *ret_producer_id = batch_producer_id(records.p);
    return true;
}
