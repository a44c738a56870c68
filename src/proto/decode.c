/* Wire to struct. The input is hostile: each read is checked against the end, each count against what the rest could hold, before memory
 * is taken. Depth of recursion is the schema's. */
#include "proto/tables.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"

struct reader {
    const uint8_t *p, *end;
    struct arena *arena;
    int16_t version;
    bool flexible;
};

static enum error decode_struct(struct reader *r, const struct proto_struct *s, void *out);

static inline size_t left(const struct reader *r)
{
    return (size_t)(r->end - r->p);
}

static enum error read_uvarint(struct reader *r, uint32_t *ret_v)
{
    if (r->p < r->end && *r->p < 0x80) {
        *ret_v = *r->p++;
        return OK;
    }
    int n = get_uvarint(r->p, r->end, ret_v);
    if (n == 0)
        return left(r) < VARINT_MAX ? ERR_TRUNCATED : ERR_MALFORMED;
    r->p += n;
    return OK;
}

/* A length or count as it stands on the wire; -1 = null. `width`: bytes of its plain form. */
static enum error read_length(struct reader *r, bool compact, int width, int32_t *ret_length)
{
    if (compact) {
        uint32_t v;
        enum error error = read_uvarint(r, &v);
        if (error != OK)
            return error;
        if (v > (uint32_t)INT32_MAX)
            return ERR_MALFORMED;
        *ret_length = (int32_t)v - 1;
        return OK;
    }
    if (left(r) < (size_t)width)
        return ERR_TRUNCATED;
    *ret_length = width == 2 ? get_i16(r->p) : get_i32(r->p);
    r->p += width;
    return *ret_length < -1 ? ERR_MALFORMED : OK;
}

/* A string, bytes or records: where they lie, NULL for null. */
static enum error read_view(struct reader *r, const struct proto_field *f, bool nullable, int32_t limit, const uint8_t **ret_p,
                            int32_t *ret_len)
{
    int32_t length;
    enum error error = read_length(r, r->flexible && !(f->flags & FIELD_PLAIN), f->type == TYPE_STRING ? 2 : 4, &length);
    if (error != OK)
        return error;
    if (length < 0) {
        *ret_p = NULL;
        *ret_len = 0;
        return nullable ? OK : ERR_MALFORMED;
    }
    if (length > limit)
        return ERR_MALFORMED;
    if ((size_t)length > left(r))
        return ERR_TRUNCATED;
    *ret_p = r->p;
    *ret_len = length;
    r->p += length;
    return OK;
}

static enum error read_variable(struct reader *r, const struct proto_field *f, bool nullable, void *out)
{
    const uint8_t *p;
    int32_t len;
    enum error error = read_view(r, f, nullable, f->type == TYPE_STRING ? LIMIT_WIRE_STRING : INT32_MAX, &p, &len);
    if (error != OK)
        return error;
    if (f->type == TYPE_STRING)
        *(struct str *)out = (struct str){(const char *)p, len};
    else if (f->type == TYPE_BYTES)
        *(struct bytes *)out = (struct bytes){p, len};
    else
        *(struct records *)out = (struct records){.p = p, .len = len};
    return OK;
}

static enum error read_fixed(struct reader *r, const struct proto_field *f, void *out)
{
    static const uint8_t widths[] = {[TYPE_BOOL] = 1,  [TYPE_INT8] = 1,  [TYPE_INT16] = 2,   [TYPE_UINT16] = 2,
                                     [TYPE_INT32] = 4, [TYPE_INT64] = 8, [TYPE_FLOAT64] = 8, [TYPE_UUID] = 16};
    const uint8_t *p = r->p;
    if (left(r) < widths[f->type])
        return ERR_TRUNCATED;
    r->p += widths[f->type];
    switch ((enum proto_type)f->type) {
    case TYPE_BOOL:
        *(bool *)out = *p != 0;
        return OK;
    case TYPE_INT8:
        *(uint8_t *)out = *p;
        return OK;
    case TYPE_INT16:
    case TYPE_UINT16:
        *(uint16_t *)out = get_u16(p);
        return OK;
    case TYPE_INT32:
        *(uint32_t *)out = get_u32(p);
        return OK;
    case TYPE_INT64:
    case TYPE_FLOAT64: { /* the same bits */
        uint64_t bits = get_u64(p);
        memcpy(out, &bits, sizeof(bits));
        return OK;
    }
    case TYPE_UUID:
        memcpy(out, p, sizeof(struct uuid));
        return OK;
    default:
        UNREACHABLE();
    }
}

static enum error read_pointer(struct reader *r, const struct proto_field *f, void *out)
{
    if (field_nullable(f, r->version)) {
        if (left(r) < 1)
            return ERR_TRUNCATED;
        int8_t present = (int8_t)*r->p++;
        if (present < 0) {
            *(void **)out = NULL;
            return OK;
        }
    }
    void *target = arena_alloc(r->arena, f->fields->size);
    if (target == NULL)
        return ERR_TOO_LARGE;
    *(void **)out = target;
    return decode_struct(r, f->fields, target);
}

static inline enum error read_value(struct reader *r, const struct proto_field *f, bool nullable, void *out)
{
    if (f->type < TYPE_STRING)
        return read_fixed(r, f, out);
    if (f->type < TYPE_STRUCT)
        return read_variable(r, f, nullable, out);
    return decode_struct(r, f->fields, out);
}

/* Bytes that an element needs at least. */
static size_t element_min(const struct reader *r, const struct proto_field *f)
{
    switch ((enum proto_type)f->type) {
    case TYPE_STRUCT:
        return f->fields->min_size[r->version];
    case TYPE_STRING:
        return r->flexible ? 1 : 2;
    case TYPE_BYTES:
    case TYPE_RECORDS:
        return r->flexible ? 1 : 4;
    default:
        return f->size;
    }
}

static enum error read_array(struct reader *r, const struct proto_field *f, void *out)
{
    int32_t count;
    enum error error = read_length(r, r->flexible, 4, &count);
    if (error != OK)
        return error;
    if (count < 0 && !field_nullable(f, r->version))
        return ERR_MALFORMED;
    char *elements = NULL;
    if (count > 0) {
        size_t size = f->size, least = element_min(r, f), total;
        ASSERT(least > 0);
        if ((size_t)count > left(r) / least)
            return ERR_TRUNCATED;
        if (__builtin_mul_overflow(size, (size_t)count, &total) || (elements = arena_alloc(r->arena, total)) == NULL)
            return ERR_TOO_LARGE;
        for (int32_t i = 0; i < count; i++) {
            if ((error = read_value(r, f, false, elements + (size_t)i * size)) != OK)
                return error;
        }
    }
    *(void **)((char *)out + f->offset) = elements;
    *(int32_t *)(void *)((char *)out + f->n_offset) = count;
    return OK;
}

static inline enum error read_field(struct reader *r, const struct proto_field *f, void *out)
{
    void *at = (char *)out + f->offset;
    if (f->flags & FIELD_ARRAY)
        return read_array(r, f, out);
    if (f->flags & FIELD_POINTER)
        return read_pointer(r, f, at);
    return read_value(r, f, field_nullable(f, r->version), at);
}

static enum error read_tag(struct reader *r, const struct proto_struct *s, uint32_t tag, uint32_t size, void *out)
{
    if (tag >= s->tagged_n) { /* of a later version: skipped */
        r->p += size;
        return OK;
    }
    const struct proto_field *f = &s->fields[s->plain_n + tag];
    if (!field_in(f, r->version))
        return ERR_MALFORMED; /* Kafka refuses it too: the tag is known not to exist in this version */
    const uint8_t *end = r->end;
    r->end = r->p + size;
    enum error error = read_field(r, f, out);
    if (error == ERR_TRUNCATED || (error == OK && r->p != r->end))
        error = ERR_MALFORMED;
    r->end = end;
    return error;
}

static enum error read_tags(struct reader *r, const struct proto_struct *s, void *out)
{
    uint32_t count, tag, size;
    int64_t last = -1;
    enum error error = read_uvarint(r, &count);
    for (uint32_t i = 0; error == OK && i < count; i++) {
        if ((error = read_uvarint(r, &tag)) != OK || (error = read_uvarint(r, &size)) != OK)
            return error;
        if ((int64_t)tag <= last)
            return ERR_MALFORMED;
        if (size > left(r))
            return ERR_TRUNCATED;
        last = tag;
        error = read_tag(r, s, tag, size, out);
    }
    return error;
}

static enum error decode_struct(struct reader *r, const struct proto_struct *s, void *out)
{
    memcpy(out, s->defaults, s->size);
    for (const struct proto_field *f = s->fields, *end = f + s->plain_n; f < end; f++) {
        if (!field_in(f, r->version))
            continue;
        enum error error = read_field(r, f, out);
        if (error != OK)
            return error;
    }
    return r->flexible ? read_tags(r, s, out) : OK;
}

enum error proto_decode(const struct proto_message *message, int16_t version, struct bytes in, struct arena *arena, void *out,
                        size_t *ret_used)
{
    if (!proto_valid(message, version))
        return ERR_UNSUPPORTED;
    static const uint8_t nothing[1];
    const uint8_t *p = in.p != NULL ? in.p : nothing;
    struct reader r = {p, p + (in.p != NULL ? in.len : 0), arena, version, message_flexible(message, version)};
    enum error error = decode_struct(&r, message->body, out);
    if (error == OK && ret_used != NULL)
        *ret_used = (size_t)(r.p - p);
    return error;
}
