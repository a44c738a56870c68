#include "codec/record_batch.h"

#include "base/assert.h"
#include "base/crc32c.h"

/* The least BatchLength of magic 0 and 1: CRC, magic, attributes, two lengths (Kafka: LegacyRecord.RECORD_OVERHEAD_V0). */
#define LEGACY_LENGTH_MIN 14

int32_t batch_last_sequence(const uint8_t *b)
{
    int32_t base = batch_base_sequence(b), delta = batch_last_offset_delta(b);

    return base < 0 || delta < 0 ? NO_SEQUENCE : sequence_increment(base, delta);
}

/* ---- Changing in place ---- */

static uint32_t content_crc(const uint8_t *b)
{
    return crc32c(0, b + BATCH_POS_ATTRIBUTES, (size_t)(batch_size_bytes(b) - BATCH_POS_ATTRIBUTES));
}

void batch_update_crc(uint8_t *b)
{
    ASSERT(batch_size_bytes(b) >= BATCH_OVERHEAD);
    put_u32(b + BATCH_POS_CRC, content_crc(b));
}

void batch_set_attributes(uint8_t *b, int16_t attributes)
{
    if (batch_attributes(b) == attributes)
        return;
    put_i16(b + BATCH_POS_ATTRIBUTES, attributes);
    batch_update_crc(b);
}

void batch_set_max_timestamp(uint8_t *b, bool log_append_time, int64_t max_timestamp_ms)
{
    int attributes = batch_attributes(b) & ~BATCH_LOG_APPEND_TIME;

    if (batch_is_log_append_time(b) == log_append_time && batch_max_timestamp(b) == max_timestamp_ms)
        return;
    put_i16(b + BATCH_POS_ATTRIBUTES, (int16_t)(log_append_time ? attributes | BATCH_LOG_APPEND_TIME : attributes));
    put_i64(b + BATCH_POS_MAX_TIMESTAMP, max_timestamp_ms);
    batch_update_crc(b);
}

void batch_set_producer_id(uint8_t *b, int64_t producer_id)
{
    if (batch_producer_id(b) == producer_id)
        return;
    put_i64(b + BATCH_POS_PRODUCER_ID, producer_id);
    batch_update_crc(b);
}

/* ---- Checking ---- */

static enum error check_header(const uint8_t *b, int64_t *ret_size, const char **ret_reason)
{
    int32_t length = batch_length(b);
    int8_t magic = batch_magic(b);

    if (length < LEGACY_LENGTH_MIN) {
        *ret_reason = "the batch length is below the least possible one";
        return CORRUPT_MESSAGE;
    }
    if (magic == 0 || magic == 1) {
        *ret_reason = "the message format is older than v2";
        return UNSUPPORTED_FOR_MESSAGE_FORMAT;
    }
    if (magic != BATCH_MAGIC) {
        *ret_reason = "the magic number is unknown";
        return CORRUPT_MESSAGE;
    }
    if (length < BATCH_OVERHEAD - BATCH_LOG_OVERHEAD) {
        *ret_reason = "the batch length is below the size of the header";
        return CORRUPT_MESSAGE;
    }
    *ret_size = (int64_t)length + BATCH_LOG_OVERHEAD;
    return OK;
}

enum error batch_check_header(const uint8_t *b, size_t have, int64_t *ret_size)
{
    const char *reason;

    ASSERT(have >= BATCH_MAGIC_END);
    return check_header(b, ret_size, &reason);
}

static const char *offsets_reason(const uint8_t *b)
{
    int64_t base = batch_base_offset(b);
    int32_t delta = batch_last_offset_delta(b);
    int32_t count = batch_count(b);

    if (base < 0)
        return "the base offset is negative";
    if (delta < 0)
        return "the last offset delta is negative";
    if (base >= INT64_MAX - delta)
        return "the last offset is beyond the largest one";
    if (count < 0)
        return "the number of records is negative";
    if (count > (int64_t)delta + 1)
        return "there are more records than offsets";
    return NULL;
}

enum error batch_check_offsets(const uint8_t *b)
{
    return offsets_reason(b) == NULL ? OK : CORRUPT_MESSAGE;
}

bool batch_verify_crc(const uint8_t *b)
{
    return batch_size_bytes(b) >= BATCH_OVERHEAD && content_crc(b) == batch_crc(b);
}

/* ---- Runs ---- */

static enum batch_found next_batch(struct batch_iter *it, const uint8_t **ret_batch, const char **ret_reason)
{
    int64_t left = it->run.len - it->pos, size;
    const uint8_t *b;

    if (left == 0)
        return BATCH_END;
    b = it->run.p + it->pos;
    it->partial_size = 0;
    if (left < BATCH_MAGIC_END)
        return BATCH_PARTIAL;
    it->error = check_header(b, &size, ret_reason);
    if (it->error != OK) {
        it->error_offset = batch_base_offset(b);
        return BATCH_BAD;
    }
    if (size > left) {
        it->partial_size = size;
        return BATCH_PARTIAL;
    }
    it->pos += size;
    *ret_batch = b;
    return BATCH_FOUND;
}

enum batch_found batch_iter_next(struct batch_iter *it, const uint8_t **ret_batch)
{
    const char *reason;

    return next_batch(it, ret_batch, &reason);
}

/* Why a batch with a good header is bad all the same; NULL when it is not. */
static const char *content_reason(const uint8_t *b, int flags, const struct batch_scan *before)
{
    if ((flags & BATCH_SCAN_CRC) != 0 && !batch_verify_crc(b))
        return "the CRC does not match";
    if ((flags & BATCH_SCAN_OFFSETS) != 0) {
        const char *reason = offsets_reason(b);

        if (reason != NULL)
            return reason;
        if (batch_base_offset(b) <= before->last_offset)
            return "the base offset is not above the last offset of the batch before";
    }
    return NULL;
}

static void scan_add(struct batch_scan *scan, const uint8_t *b)
{
    if (scan->batches == 0)
        scan->base_offset = batch_base_offset(b);
    scan->batches++;
    scan->good_bytes += batch_size_bytes(b);
    scan->last_offset = batch_last_offset(b);
    scan->max_timestamp = MAX(scan->max_timestamp, batch_max_timestamp(b));
    scan->max_producer_id = MAX(scan->max_producer_id, batch_producer_id(b));
    scan->max_leader_epoch = MAX(scan->max_leader_epoch, batch_leader_epoch(b));
    scan->records += MAX(batch_count(b), 0);
}

void batch_scan(struct bytes run, int flags, struct batch_scan *ret_scan)
{
    struct batch_scan scan = {
        .error_offset = -1,
        .base_offset = -1,
        .last_offset = -1,
        .max_timestamp = NO_TIMESTAMP,
        .max_producer_id = NO_PRODUCER_ID,
        .max_leader_epoch = NO_LEADER_EPOCH,
    };
    struct batch_iter it;
    const uint8_t *b;

    batch_iter_init(&it, run);
    while ((scan.end = next_batch(&it, &b, &scan.reason)) == BATCH_FOUND) {
        scan.reason = content_reason(b, flags, &scan);
        if (scan.reason != NULL) {
            scan.end = BATCH_BAD;
            it.error = CORRUPT_MESSAGE;
            it.error_offset = batch_base_offset(b);
            break;
        }
        scan_add(&scan, b);
    }
    scan.error = it.error;
    scan.error_offset = it.error_offset;
    scan.partial_size = it.partial_size;
    *ret_scan = scan;
}

/* ---- Records as one ---- */

enum error batch_records(const uint8_t *b, size_t limit_bytes, struct buf *scratch, struct bytes *ret_records)
{
    struct bytes payload = batch_payload(b);
    enum error error;

    if (batch_codec(b) == CODEC_NONE) {
        if ((size_t)payload.len > limit_bytes)
            return ERR_TOO_LARGE;
        *ret_records = payload;
        return OK;
    }
    buf_clear(scratch);
    error = codec_decompress(batch_codec(b), payload, limit_bytes, scratch);
    if (error != OK)
        return error;
    *ret_records = scratch->len > 0 ? buf_bytes(scratch) : (struct bytes){payload.p, 0};
    return OK;
}

enum error batch_recompress(const uint8_t *b, struct bytes records, int codec, int level, struct buf *out)
{
    size_t start = out->len;
    int attributes = batch_attributes(b) & ~BATCH_CODEC_MASK;
    enum error error;
    uint8_t *to;

    buf_append(out, b, BATCH_OVERHEAD);
    error = codec_compress(codec, level, records, out);
    if (error == OK && out->len - start > INT32_MAX)
        error = ERR_TOO_LARGE;
    if (error != OK) {
        out->len = start;
        return error;
    }
    to = out->data + start;
    put_i32(to + BATCH_POS_LENGTH, (int32_t)(out->len - start) - BATCH_LOG_OVERHEAD);
    put_i16(to + BATCH_POS_ATTRIBUTES, (int16_t)(attributes | codec));
    batch_update_crc(to);
    return OK;
}
