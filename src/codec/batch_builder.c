#include "codec/batch_builder.h"

#include "base/assert.h"

void batch_builder_init(struct batch_builder *builder, const struct batch_params *params)
{
    *builder = (struct batch_builder){0};
    batch_builder_reset(builder, params);
}

void batch_builder_fini(struct batch_builder *builder)
{
    buf_fini(&builder->raw);
}

static void clear(struct batch_builder *builder)
{
    buf_clear(&builder->raw);
    buf_reserve(&builder->raw, BATCH_OVERHEAD);
    builder->raw.len = BATCH_OVERHEAD;
    builder->base_timestamp = builder->max_timestamp = NO_TIMESTAMP;
    builder->count = 0;
    builder->last_offset_delta = -1;
}

void batch_builder_reset(struct batch_builder *builder, const struct batch_params *params)
{
    builder->params = *params;
    clear(builder);
}

static int varint_size(int32_t v)
{
    return uvarint_size(zigzag32(v));
}

/* Lengths are summed in 64 bits: the caller's may be anything. */
static int64_t field_size(int64_t len)
{
    return len + (len > INT32_MAX ? VARINT_MAX : varint_size((int32_t)len));
}
static int64_t bytes_size(struct bytes b)
{
    return b.p == NULL ? varint_size(-1) : field_size(b.len);
}

static int64_t body_size(int64_t timestamp_delta, int32_t offset_delta, const struct batch_record *record)
{
    int64_t size = 1 + uvarlong_size(zigzag64(timestamp_delta)) + varint_size(offset_delta);

    size += bytes_size(record->key) + bytes_size(record->value) + varint_size(record->header_count);
    for (int32_t i = 0; i < record->header_count; i++)
        size += field_size(record->headers[i].key.len) + bytes_size(record->headers[i].value);
    return size;
}

static uint8_t *put_field(uint8_t *p, const void *data, int64_t len)
{
    p += put_varint(p, data == NULL ? -1 : (int32_t)len);
    if (data != NULL && len > 0) {
        memcpy(p, data, (size_t)len);
        p += len;
    }
    return p;
}

static uint8_t *put_body(uint8_t *p, int64_t timestamp_delta, int32_t offset_delta, const struct batch_record *record)
{
    *p++ = 0; /* attributes: none are defined */
    p += put_varlong(p, timestamp_delta);
    p += put_varint(p, offset_delta);
    p = put_field(p, record->key.p, record->key.len);
    p = put_field(p, record->value.p, record->value.len);
    p += put_varint(p, record->header_count);
    for (int32_t i = 0; i < record->header_count; i++) {
        const struct record_header *header = &record->headers[i];

        p = put_field(p, header->key.p != NULL ? header->key.p : "", header->key.len);
        p = put_field(p, header->value.p, header->value.len);
    }
    return p;
}

enum error batch_builder_add_at(struct batch_builder *builder, int32_t offset_delta, const struct batch_record *record)
{
    int64_t base = builder->count == 0 ? record->timestamp : builder->base_timestamp;
    int64_t delta = (int64_t)((uint64_t)record->timestamp - (uint64_t)base);
    int64_t size = body_size(delta, offset_delta, record);
    uint8_t *p;

    ASSERT(offset_delta > builder->last_offset_delta && record->header_count >= 0);
    if (size > LIMIT_DECOMPRESSED_BYTES - (int64_t)(builder->raw.len - BATCH_OVERHEAD) - VARINT_MAX)
        return ERR_TOO_LARGE;
    p = buf_reserve(&builder->raw, (size_t)size + VARINT_MAX);
    p += put_varint(p, (int32_t)size);
    p = put_body(p, delta, offset_delta, record);
    builder->raw.len = (size_t)(p - builder->raw.data);
    builder->base_timestamp = base;
    builder->max_timestamp = builder->count == 0 ? record->timestamp : MAX(builder->max_timestamp, record->timestamp);
    builder->last_offset_delta = offset_delta;
    builder->count++;
    return OK;
}

enum error batch_builder_add(struct batch_builder *builder, const struct batch_record *record)
{
    if (builder->last_offset_delta == INT32_MAX)
        return ERR_TOO_LARGE;
    return batch_builder_add_at(builder, builder->last_offset_delta + 1, record);
}

void batch_builder_set_last_offset_delta(struct batch_builder *builder, int32_t last_offset_delta)
{
    ASSERT(last_offset_delta >= MAX(builder->last_offset_delta, 0));
    builder->last_offset_delta = last_offset_delta;
}

static void put_header(const struct batch_builder *builder, uint8_t *b)
{
    const struct batch_params *params = &builder->params;
    int attributes = 0;

    attributes |= params->log_append_time ? BATCH_LOG_APPEND_TIME : 0;
    attributes |= params->transactional ? BATCH_TRANSACTIONAL : 0;
    attributes |= params->control ? BATCH_CONTROL : 0;
    put_i64(b + BATCH_POS_BASE_OFFSET, params->base_offset);
    put_i32(b + BATCH_POS_LENGTH, (int32_t)builder->raw.len - BATCH_LOG_OVERHEAD);
    put_i32(b + BATCH_POS_LEADER_EPOCH, params->leader_epoch);
    b[BATCH_POS_MAGIC] = BATCH_MAGIC;
    put_u32(b + BATCH_POS_CRC, 0);
    put_i16(b + BATCH_POS_ATTRIBUTES, (int16_t)attributes);
    put_i32(b + BATCH_POS_LAST_OFFSET_DELTA, MAX(builder->last_offset_delta, 0));
    put_i64(b + BATCH_POS_BASE_TIMESTAMP, builder->base_timestamp);
    put_i64(b + BATCH_POS_MAX_TIMESTAMP, params->log_append_time ? params->log_append_time_ms : builder->max_timestamp);
    put_i64(b + BATCH_POS_PRODUCER_ID, params->producer_id);
    put_i16(b + BATCH_POS_PRODUCER_EPOCH, params->producer_epoch);
    put_i32(b + BATCH_POS_BASE_SEQUENCE, params->base_sequence);
    put_i32(b + BATCH_POS_COUNT, builder->count);
}

enum error batch_builder_finish(struct batch_builder *builder, struct buf *out)
{
    struct batch_params *params = &builder->params;
    int32_t offsets = MAX(builder->last_offset_delta, 0);
    uint8_t *b = builder->raw.data;

    put_header(builder, b);
    if (params->codec != CODEC_NONE && builder->count > 0) {
        struct bytes records = batch_payload(b);
        enum error error = batch_recompress(b, records, params->codec, params->level, out);

        if (error != OK)
            return error;
    } else {
        batch_update_crc(b);
        buf_append(out, b, builder->raw.len);
    }
    params->base_offset += (int64_t)offsets + 1;
    if (params->base_sequence >= 0)
        params->base_sequence = sequence_increment(sequence_increment(params->base_sequence, offsets), 1);
    clear(builder);
    return OK;
}
