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

/* Brokers walk over every record that they take, and a record has six numbers or more: so the cases that occur, one to three bytes, stand inline, and everything
 * is kept in registers until the record is known to be sound. */
#define INLINE static inline __attribute__((always_inline))

/* get_varint(), moving *at. */
INLINE bool varint(const uint8_t **at, const uint8_t *end, int32_t *ret_v)
{
    const uint8_t *p = *at;
    int used;

    if (end - p >= 3) {
        uint32_t v = p[0];
        if (v < 0x80) {
            *at = p + 1;
            *ret_v = unzigzag32(v);
            return true;
        }
        v = (v & 0x7f) | (uint32_t)p[1] << 7;
        if (p[1] < 0x80) {
            *at = p + 2;
            *ret_v = unzigzag32(v);
            return true;
        }
        v = (v & 0x3fff) | (uint32_t)p[2] << 14;
        if (p[2] < 0x80) {
            *at = p + 3;
            *ret_v = unzigzag32(v);
            return true;
        }
    } else if (p < end && p[0] < 0x80) {
        *at = p + 1;
        *ret_v = unzigzag32(p[0]);
        return true;
    }
    used = get_varint(p, end, ret_v);
    *at = p + used;
    return used > 0;
}

/* get_varlong(), moving *at. */
INLINE bool varlong(const uint8_t **at, const uint8_t *end, int64_t *ret_v)
{
    const uint8_t *p = *at;
    int used;

    if (end - p >= 2) {
        if (p[0] < 0x80) {
            *at = p + 1;
            *ret_v = unzigzag64(p[0]);
            return true;
        }
        if (p[1] < 0x80) {
            *at = p + 2;
            *ret_v = unzigzag64((uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7);
            return true;
        }
    }
    used = get_varlong(p, end, ret_v);
    *at = p + used;
    return used > 0;
}

/* A varint length and so many bytes; -1 is null where null is allowed. */
INLINE bool take_bytes(const uint8_t **at, const uint8_t *end, bool nullable, struct bytes *ret_bytes)
{
    int32_t len;

    if (!varint(at, end, &len) || len < (nullable ? -1 : 0) || len > end - *at)
        return false;
    ret_bytes->p = len < 0 ? NULL : *at;
    ret_bytes->len = MAX(len, 0);
    *at += MAX(len, 0);
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

/* The record at it->p. Sums wrap without undefined behaviour where the deltas are hostile. */
INLINE bool take_record(const struct record_iter *it, struct record *ret_record)
{
    const uint8_t *p = it->p, *end = it->end;
    int32_t len, offset_delta, header_count;
    int64_t timestamp_delta;
    struct bytes key, value;
    int8_t attributes;

    if (!varint(&p, end, &len) || len < 1 || len > end - p)
        return false;
    end = p + len;
    attributes = (int8_t)*p++;
    if (!varlong(&p, end, &timestamp_delta) || !varint(&p, end, &offset_delta) || !take_bytes(&p, end, true, &key) ||
        !take_bytes(&p, end, true, &value) || !varint(&p, end, &header_count))
        return false;
    if (header_count == 0 ? p != end : !check_headers(p, end, header_count))
        return false;
    ret_record->offset = (int64_t)((uint64_t)it->base_offset + (uint64_t)(int64_t)offset_delta);
    ret_record->timestamp =
        it->log_append_time ? it->max_timestamp : (int64_t)((uint64_t)it->base_timestamp + (uint64_t)timestamp_delta);
    ret_record->timestamp_delta = timestamp_delta;
    ret_record->offset_delta = offset_delta;
    ret_record->attributes = attributes;
    ret_record->key = key;
    ret_record->value = value;
    ret_record->header_count = header_count;
    ret_record->headers = (struct bytes){p, end - p};
    ret_record->size_bytes = (int32_t)(end - it->p);
    return true;
}

bool record_iter_next(struct record_iter *it, struct record *ret_record)
{
    if (it->error != OK || it->index >= it->count)
        return false;
    if (!take_record(it, ret_record)) {
        it->error = ERR_CORRUPT;
        return false;
    }
    it->p += ret_record->size_bytes;
    it->index++;
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
