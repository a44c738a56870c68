/* Struct to wire, in two passes over the tables: the first measures and finds everything that can fail, the second writes without a check.
 *
 * The bytes that the encoder makes itself go into one block. Where records are moved in as a chain, the block is cut: the pieces before
 * and behind them are references into it, and the last piece, which is consumed last, releases it. */
#include "proto/tables.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "proto/messages.h"

struct sizer {
    int16_t version;
    bool flexible;
    uint64_t own, moved; /* bytes made here, bytes of the records' chains */
    bool spliced;        /* there is a chain */
};

struct writer {
    int16_t version;
    bool flexible;
    uint8_t *p;
    uint8_t *from, *end; /* of the block: not yet in `out`, end. NULL: the block is in `out` already */
    uint8_t *block;
    struct chain *out;
};

static enum error size_struct(struct sizer *z, const struct proto_struct *s, const void *in);
static void write_struct(struct writer *w, const struct proto_struct *s, const void *in);

/* Kafka's notion of default: what a tagged field is left out for, and what a version without the field can express. */
static bool is_default(const struct proto_field *f, const void *in, const void *defaults)
{
    const void *at = field_at(f, in), *normal = field_at(f, defaults);
    if (f->flags & FIELD_ARRAY)
        return field_count(f, in) == field_count(f, defaults);
    if (f->flags & FIELD_POINTER)
        return *(void *const *)at == NULL;
    switch ((enum proto_type)f->type) {
    case TYPE_STRING:
        return str_eq(*(const struct str *)at, *(const struct str *)normal);
    case TYPE_BYTES:
        return ((const struct bytes *)at)->len == 0 &&
               (((const struct bytes *)at)->p == NULL) == (((const struct bytes *)normal)->p == NULL);
    case TYPE_RECORDS:
        return ((const struct records *)at)->p == NULL && ((const struct records *)at)->chain == NULL;
    case TYPE_STRUCT:
        if (memcmp(at, f->fields->defaults, f->size) == 0)
            return true; /* the usual case; padding or another pointer to the same text only cost the long way */
        for (int i = 0; i < f->fields->plain_n + f->fields->tagged_n; i++) {
            if (!is_default(&f->fields->fields[i], at, f->fields->defaults))
                return false;
        }
        return true;
    case TYPE_INT64:
        return *(const int64_t *)at == *(const int64_t *)normal;
    case TYPE_INT32:
        return *(const int32_t *)at == *(const int32_t *)normal;
    default:
        return memcmp(at, normal, f->size) == 0;
    }
}

/* ---- first pass ---- */

/* A length or count, -1 = null; `width`: bytes of its plain form. */
static enum error size_length(struct sizer *z, const struct proto_field *f, int64_t length, bool nullable, int width)
{
    if (length < (nullable ? -1 : 0))
        return ERR_INVALID;
    if (length > (width == 2 ? LIMIT_WIRE_STRING : INT32_MAX - 1))
        return ERR_TOO_LARGE;
    if (z->flexible && !(f->flags & FIELD_PLAIN))
        z->own += (uint64_t)uvarint_size((uint32_t)(length + 1));
    else
        z->own += (uint64_t)width;
    return OK;
}

/* A length and what it counts. */
static enum error size_view(struct sizer *z, const struct proto_field *f, const void *p, int64_t len, bool nullable, int width)
{
    if (p != NULL && len < 0)
        return ERR_INVALID;
    z->own += p != NULL ? (uint64_t)len : 0;
    return size_length(z, f, p != NULL ? len : -1, nullable, width);
}

static enum error size_records(struct sizer *z, const struct proto_field *f, bool nullable, const struct records *r)
{
    if (r->chain == NULL)
        return size_view(z, f, r->p, r->len, nullable, 4);
    z->spliced = true;
    z->moved += r->chain->len;
    return r->chain->len > INT32_MAX ? ERR_TOO_LARGE : size_length(z, f, (int64_t)r->chain->len, nullable, 4);
}

static enum error size_value(struct sizer *z, const struct proto_field *f, bool nullable, const void *at)
{
    switch ((enum proto_type)f->type) {
    case TYPE_STRING:
        return size_view(z, f, ((const struct str *)at)->p, ((const struct str *)at)->len, nullable, 2);
    case TYPE_BYTES:
        return size_view(z, f, ((const struct bytes *)at)->p, ((const struct bytes *)at)->len, nullable, 4);
    case TYPE_RECORDS:
        return size_records(z, f, nullable, at);
    case TYPE_STRUCT:
        return size_struct(z, f->fields, at);
    default:
        z->own += f->size;
        return OK;
    }
}

static enum error size_array(struct sizer *z, const struct proto_field *f, const void *in)
{
    int32_t count = field_count(f, in);
    const char *elements = *(char *const *)field_at(f, in);
    if (count < -1 || (count > 0 && elements == NULL))
        return ERR_INVALID;
    enum error error = size_length(z, f, count, field_nullable(f, z->version), 4);
    if (f->type < TYPE_STRING) {
        z->own += (uint64_t)MAX(count, 0) * f->size;
        return error;
    }
    for (int32_t i = 0; error == OK && i < count; i++)
        error = size_value(z, f, false, elements + (size_t)i * f->size);
    return error;
}

static enum error size_field(struct sizer *z, const struct proto_field *f, const void *in)
{
    const void *at = field_at(f, in);
    if (f->flags & FIELD_ARRAY)
        return size_array(z, f, in);
    if (f->flags & FIELD_POINTER) {
        const void *target = *(void *const *)at;
        bool nullable = field_nullable(f, z->version);
        z->own += nullable ? 1 : 0;
        if (target == NULL)
            return nullable ? OK : ERR_INVALID;
        return size_struct(z, f->fields, target);
    }
    return size_value(z, f, field_nullable(f, z->version), at);
}

/* The payload's bytes of a tagged field. */
static enum error tag_size(const struct proto_field *f, const void *in, int16_t version, struct sizer *ret_payload)
{
    *ret_payload = (struct sizer){.version = version, .flexible = true};
    return size_field(ret_payload, f, in);
}

static enum error size_tags(struct sizer *z, const struct proto_struct *s, const void *in)
{
    uint32_t count = 0;
    for (uint32_t tag = 0; tag < s->tagged_n; tag++) {
        const struct proto_field *f = &s->fields[s->plain_n + tag];
        if (is_default(f, in, s->defaults))
            continue;
        if (!field_in(f, z->version)) {
            if (!(f->flags & FIELD_IGNORABLE))
                return ERR_UNSUPPORTED;
            continue;
        }
        struct sizer payload;
        enum error error = tag_size(f, in, z->version, &payload);
        if (error != OK)
            return error;
        if (payload.own + payload.moved > INT32_MAX)
            return ERR_TOO_LARGE;
        z->own += payload.own + (uint64_t)(uvarint_size(tag) + uvarint_size((uint32_t)(payload.own + payload.moved)));
        z->moved += payload.moved;
        z->spliced |= payload.spliced;
        count++;
    }
    z->own += z->flexible ? (uint64_t)uvarint_size(count) : 0;
    return OK;
}

static enum error size_struct(struct sizer *z, const struct proto_struct *s, const void *in)
{
    for (const struct proto_field *f = s->fields, *end = f + s->plain_n; f < end; f++) {
        if (field_in(f, z->version)) {
            enum error error = size_field(z, f, in);
            if (error != OK)
                return error;
        } else if (!(f->flags & FIELD_IGNORABLE) && !is_default(f, in, s->defaults)) {
            return ERR_UNSUPPORTED;
        }
    }
    return s->tagged_n > 0 || z->flexible ? size_tags(z, s, in) : OK;
}

/* Adds the message to *z. */
static enum error measure(struct sizer *z, const struct proto_message *message, int16_t version, const void *in)
{
    if (!proto_valid(message, version))
        return ERR_UNSUPPORTED;
    z->version = version;
    z->flexible = message_flexible(message, version);
    enum error error = size_struct(z, message->body, in);
    return error == OK && z->own + z->moved > INT32_MAX ? ERR_TOO_LARGE : error;
}

/* ---- second pass: nothing fails ---- */

static void begin(struct writer *w, const struct sizer *z, struct chain *out)
{
    *w = (struct writer){.out = out};
    if (z->spliced) {
        w->block = w->from = w->p = mem_alloc((size_t)z->own);
        w->end = w->block + z->own;
    } else {
        w->p = chain_extend(out, (size_t)z->own);
        w->end = w->p + z->own;
    }
}

/* Puts into `out` what was written since the last cut. */
static void cut(struct writer *w)
{
    if (w->block == NULL || w->p == w->from)
        return;
    chain_append_ref(w->out, w->from, (size_t)(w->p - w->from), w->p == w->end ? mem_free : NULL, w->block);
    w->from = w->p;
}

static void finish(struct writer *w)
{
    ASSERT(w->p == w->end); /* both passes agree */
    cut(w);
}

static void put_bytes(struct writer *w, const void *p, size_t len)
{
    if (len > 0)
        memcpy(w->p, p, len);
    w->p += len;
}

static void put_length(struct writer *w, const struct proto_field *f, int32_t length, int width) /* -1 = null */
{
    if (w->flexible && !(f->flags & FIELD_PLAIN)) {
        w->p += put_uvarint(w->p, (uint32_t)(length + 1));
        return;
    }
    if (width == 2)
        put_i16(w->p, (int16_t)length);
    else
        put_i32(w->p, length);
    w->p += width;
}

static void write_records(struct writer *w, const struct proto_field *f, const struct records *r)
{
    if (r->chain == NULL) {
        put_length(w, f, r->p != NULL ? r->len : -1, 4);
        put_bytes(w, r->p, r->p != NULL ? (size_t)r->len : 0);
        return;
    }
    put_length(w, f, (int32_t)r->chain->len, 4);
    cut(w);
    chain_splice(w->out, r->chain);
}

static void write_value(struct writer *w, const struct proto_field *f, const void *at)
{
    switch ((enum proto_type)f->type) {
    case TYPE_BOOL:
    case TYPE_INT8:
        *w->p++ = *(const uint8_t *)at;
        return;
    case TYPE_INT16:
    case TYPE_UINT16:
        put_u16(w->p, *(const uint16_t *)at);
        w->p += 2;
        return;
    case TYPE_INT32:
        put_u32(w->p, *(const uint32_t *)at);
        w->p += 4;
        return;
    case TYPE_INT64:
    case TYPE_FLOAT64: { /* the same bits */
        uint64_t bits;
        memcpy(&bits, at, sizeof(bits));
        put_u64(w->p, bits);
        w->p += 8;
        return;
    }
    case TYPE_UUID:
        put_bytes(w, at, sizeof(struct uuid));
        return;
    case TYPE_STRING: {
        const struct str *s = at;
        put_length(w, f, s->p != NULL ? s->len : -1, 2);
        put_bytes(w, s->p, s->p != NULL ? (size_t)s->len : 0);
        return;
    }
    case TYPE_BYTES: {
        const struct bytes *b = at;
        put_length(w, f, b->p != NULL ? (int32_t)b->len : -1, 4);
        put_bytes(w, b->p, b->p != NULL ? (size_t)b->len : 0);
        return;
    }
    case TYPE_RECORDS:
        write_records(w, f, at);
        return;
    case TYPE_STRUCT:
        write_struct(w, f->fields, at);
        return;
    }
}

static void write_field(struct writer *w, const struct proto_field *f, const void *in)
{
    const void *at = field_at(f, in);
    if (f->flags & FIELD_ARRAY) {
        int32_t count = field_count(f, in);
        const char *elements = *(char *const *)at;
        size_t size = f->size;
        put_length(w, f, count, 4);
        for (int32_t i = 0; i < count; i++)
            write_value(w, f, elements + (size_t)i * size);
    } else if (f->flags & FIELD_POINTER) {
        const void *target = *(void *const *)at;
        if (field_nullable(f, w->version))
            *w->p++ = target == NULL ? 0xff : 1;
        if (target != NULL)
            write_struct(w, f->fields, target);
    } else {
        write_value(w, f, at);
    }
}

static void write_tags(struct writer *w, const struct proto_struct *s, const void *in)
{
    uint64_t present = 0; /* the generator sees to it that a struct has at most 64 tags */
    for (uint32_t tag = 0; tag < s->tagged_n; tag++) {
        const struct proto_field *f = &s->fields[s->plain_n + tag];
        if (field_in(f, w->version) && !is_default(f, in, s->defaults))
            present |= UINT64_C(1) << tag;
    }
    w->p += put_uvarint(w->p, (uint32_t)__builtin_popcountll(present));
    for (; present != 0; present &= present - 1) {
        uint32_t tag = (uint32_t)__builtin_ctzll(present);
        const struct proto_field *f = &s->fields[s->plain_n + tag];
        struct sizer payload;
        enum error error = tag_size(f, in, w->version, &payload);
        ASSERT(error == OK); /* the first pass came by */
        w->p += put_uvarint(w->p, tag);
        w->p += put_uvarint(w->p, (uint32_t)(payload.own + payload.moved));
        write_field(w, f, in);
    }
}

static void write_struct(struct writer *w, const struct proto_struct *s, const void *in)
{
    for (const struct proto_field *f = s->fields, *end = f + s->plain_n; f < end; f++) {
        if (field_in(f, w->version))
            write_field(w, f, in);
    }
    if (w->flexible)
        write_tags(w, s, in);
}

static void write_message(struct writer *w, const struct proto_message *message, int16_t version, const void *in)
{
    w->version = version;
    w->flexible = message_flexible(message, version);
    write_struct(w, message->body, in);
}

/* ---- interface ---- */

enum error proto_size(const struct proto_message *message, int16_t version, const void *in, size_t *ret_size)
{
    struct sizer z = {0};
    enum error error = measure(&z, message, version, in);
    if (error == OK)
        *ret_size = (size_t)(z.own + z.moved);
    return error;
}

enum error proto_encode(const struct proto_message *message, int16_t version, const void *in, struct chain *out)
{
    struct sizer z = {0};
    struct writer w;
    enum error error = measure(&z, message, version, in);
    if (error != OK)
        return error;
    if (z.own == 0)
        return OK; /* ApiVersionsRequest 0 */
    begin(&w, &z, out);
    write_message(&w, message, version, in);
    finish(&w);
    return OK;
}

static enum error encode_frame(const struct proto_message *header_message, int16_t header_version, const void *header,
                               const struct proto_message *message, int16_t version, const void *body, struct chain *out)
{
    struct sizer z = {.own = 4};
    struct writer w;
    enum error error = measure(&z, header_message, header_version, header);
    if (error == OK)
        error = measure(&z, message, version, body);
    if (error != OK)
        return error;
    begin(&w, &z, out);
    put_u32(w.p, (uint32_t)(z.own + z.moved - 4));
    w.p += 4;
    write_message(&w, header_message, header_version, header);
    write_message(&w, message, version, body);
    finish(&w);
    return OK;
}

enum error proto_encode_request(const struct proto_api *api, int16_t version, int32_t correlation_id, struct str client_id,
                                const void *body, struct chain *out)
{
    struct request_header header = {
        .request_api_key = api->key, .request_api_version = version, .correlation_id = correlation_id, .client_id = client_id};
    return encode_frame(&PROTO_REQUEST_HEADER, proto_request_header_version(api, version), &header, api->request, version, body,
                        out);
}

enum error proto_encode_response(const struct proto_api *api, int16_t version, int32_t correlation_id, const void *body,
                                 struct chain *out)
{
    struct response_header header = {.correlation_id = correlation_id};
    return encode_frame(&PROTO_RESPONSE_HEADER, proto_response_header_version(api, version), &header, api->response, version,
                        body, out);
}
