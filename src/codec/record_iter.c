/* The records inside a batch (layout and contract: codec/record_batch.h). */
#include "base/assert.h"
#include "codec/record_batch.h"

void record_iter_init(struct record_iter *it, const uint8_t *batch, struct bytes records)
{
    *it = (struct record_iter){
        .p = records.p,
        .end = records.len > 0 ? records.p + records.len : records.p,
        .base_offset = batch_base_offset(batch),
        .base_timestamp = batch_base_timestamp(batch),
        .max_timestamp = batch_max_timestamp(batch),
        .log_append_time = batch_is_log_append_time(batch),
        .count = batch_count(batch),
    };
}

/* get_varint() with the common cases, one and two bytes, inline: a record has six or more of them. */
static inline int varint(const uint8_t *p, const uint8_t *end, int32_t *ret_v)
{
    if (p < end && p[0] < 0x80) {
        *ret_v = unzigzag32(p[0]);
        return 1;
    }
    if (end - p >= 2 && p[1] < 0x80) {
        *ret_v = unzigzag32((uint32_t)p[1] << 7 | (p[0] & 0x7f));
        return 2;
    }
    return get_varint(p, end, ret_v);
}

/* A varint length and so many bytes; -1 is null where null is allowed. */
static bool take_bytes(const uint8_t **p, const uint8_t *end, bool nullable, struct bytes *ret_bytes)
{
    int32_t len;
    int used = varint(*p, end, &len);

    if (used == 0 || len < (nullable ? -1 : 0) || len > end - *p - used)
        return false;
    *p += used;
    *ret_bytes = len < 0 ? (struct bytes){NULL, 0} : (struct bytes){*p, len};
    *p += MAX(len, 0);
    return true;
}

static bool check_headers(const uint8_t *p, const uint8_t *end, int32_t count)
{
    struct bytes skipped;

    if (count < 0 || count > (end - p) / 2) /* the smallest header has two bytes */
        return false;
    for (int32_t i = 0; i < count; i++) {
        if (!take_bytes(&p, end, false, &skipped) || !take_bytes(&p, end, true, &skipped))
            return false;
    }
    return p == end;
}

/* The body, all of [p, end). Sums wrap without undefined behaviour where the deltas are hostile. */
static bool take_body(const struct record_iter *it, const uint8_t *p, const uint8_t *end, struct record *record)
{
    int used;

    if (p == end)
        return false;
    record->attributes = (int8_t)*p++;
    used = get_varlong(p, end, &record->timestamp_delta);
    if (used == 0)
        return false;
    p += used;
    used = varint(p, end, &record->offset_delta);
    if (used == 0)
        return false;
    p += used;
    if (!take_bytes(&p, end, true, &record->key) || !take_bytes(&p, end, true, &record->value))
        return false;
    used = varint(p, end, &record->header_count);
    if (used == 0)
        return false;
    p += used;
    record->headers = (struct bytes){p, end - p};
    record->offset = (int64_t)((uint64_t)it->base_offset + (uint64_t)(int64_t)record->offset_delta);
    record->timestamp =
        it->log_append_time ? it->max_timestamp : (int64_t)((uint64_t)it->base_timestamp + (uint64_t)record->timestamp_delta);
    return check_headers(p, end, record->header_count);
}

bool record_iter_next(struct record_iter *it, struct record *ret_record)
{
    struct record record;
    int32_t len;
    int used;

    if (it->error != OK || it->index >= it->count)
        return false;
    used = varint(it->p, it->end, &len);
    if (used == 0 || len < 0 || len > it->end - it->p - used || !take_body(it, it->p + used, it->p + used + len, &record)) {
        it->error = ERR_CORRUPT;
        return false;
    }
    record.size_bytes = used + len;
    it->p += record.size_bytes;
    it->index++;
    *ret_record = record;
    return true;
}

enum error record_iter_finish(const struct record_iter *it)
{
    if (it->error != OK)
        return it->error;
    return it->index == it->count && it->p == it->end ? OK : ERR_CORRUPT;
}

bool record_header_next(struct bytes *headers, struct record_header *ret_header)
{
    const uint8_t *p = headers->p, *end;
    struct bytes key, value;

    if (headers->len == 0)
        return false;
    end = p + headers->len;
    ASSERT(take_bytes(&p, end, false, &key) && take_bytes(&p, end, true, &value));
    *headers = (struct bytes){p, end - p};
    *ret_header = (struct record_header){.key = {(const char *)key.p, (int32_t)key.len}, .value = value};
    return true;
}
