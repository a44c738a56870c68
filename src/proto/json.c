/* Messages as JSON for people and programs, and the values of control records. */
#include "proto/tables.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "proto/messages.h"

static void print_struct(const struct proto_struct *s, int16_t version, const void *in, struct buf *out);

/* Bytes of the UTF-8 sequence at p (RFC 3629), 0 when there is none. */
static int utf8_length(const uint8_t *p, const uint8_t *end)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    if (n < 2)
        return n;
    if (end - p < n)
        return 0;
    uint32_t code = *p & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

static void print_string(struct str s, struct buf *out)
{
    if (s.p == NULL) {
        buf_append_str(out, STR("null"));
        return;
    }
    buf_putc(out, '"');
    for (const uint8_t *p = (const uint8_t *)s.p, *end = p + s.len; p < end;) {
        int n = utf8_length(p, end);
        if (n == 0) {
            buf_append_str(out, STR("\\ufffd"));
            n = 1;
        } else if (*p == '"' || *p == '\\') {
            buf_printf(out, "\\%c", *p);
        } else if (*p < 0x20 || *p == 0x7f) {
            buf_printf(out, "\\u%04x", *p);
        } else {
            buf_append(out, p, (size_t)n);
        }
        p += n;
    }
    buf_putc(out, '"');
}

static void print_base64(struct bytes b, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (b.p == NULL) {
        buf_append_str(out, STR("null"));
        return;
    }
    buf_putc(out, '"');
    for (int64_t i = 0; i < b.len; i += 3) {
        uint32_t v = (uint32_t)b.p[i] << 16 | (i + 1 < b.len ? (uint32_t)b.p[i + 1] << 8 : 0) | (i + 2 < b.len ? b.p[i + 2] : 0);
        buf_putc(out, digits[v >> 18]);
        buf_putc(out, digits[v >> 12 & 63]);
        buf_putc(out, i + 1 < b.len ? digits[v >> 6 & 63] : '=');
        buf_putc(out, i + 2 < b.len ? digits[v & 63] : '=');
    }
    buf_putc(out, '"');
}

static void print_value(const struct proto_field *f, int16_t version, const void *at, struct buf *out)
{
    char text[UUID_TEXT_SIZE];
    switch ((enum proto_type)f->type) {
    case TYPE_BOOL:
        buf_append_str(out, *(const bool *)at ? STR("true") : STR("false"));
        return;
    case TYPE_INT8:
        buf_printf(out, "%d", *(const int8_t *)at);
        return;
    case TYPE_INT16:
        buf_printf(out, "%d", *(const int16_t *)at);
        return;
    case TYPE_UINT16:
        buf_printf(out, "%u", *(const uint16_t *)at);
        return;
    case TYPE_INT32:
        buf_printf(out, "%" PRId32, *(const int32_t *)at);
        return;
    case TYPE_INT64:
        buf_printf(out, "%" PRId64, *(const int64_t *)at);
        return;
    case TYPE_FLOAT64:
        buf_printf(out, "%.17g", *(const double *)at);
        return;
    case TYPE_UUID:
        buf_printf(out, "\"%s\"", uuid_text(at, text));
        return;
    case TYPE_STRING:
        print_string(*(const struct str *)at, out);
        return;
    case TYPE_BYTES:
        print_base64(*(const struct bytes *)at, out);
        return;
    case TYPE_RECORDS: {
        const struct records *r = at;
        if (r->p == NULL && r->chain == NULL)
            buf_append_str(out, STR("null"));
        else
            buf_printf(out, "{\"sizeInBytes\":%zu}", r->chain != NULL ? r->chain->len : (size_t)r->len);
        return;
    }
    case TYPE_STRUCT:
        print_struct(f->fields, version, at, out);
        return;
    }
}

static void print_field(const struct proto_field *f, int16_t version, const void *in, struct buf *out)
{
    const void *at = field_at(f, in);
    if (f->flags & FIELD_ARRAY) {
        int32_t count = field_count(f, in);
        const char *elements = *(char *const *)at;
        if (count < 0) {
            buf_append_str(out, STR("null"));
            return;
        }
        buf_putc(out, '[');
        for (int32_t i = 0; i < count; i++) {
            if (i > 0)
                buf_putc(out, ',');
            print_value(f, version, elements + (size_t)i * f->size, out);
        }
        buf_putc(out, ']');
    } else if (f->flags & FIELD_POINTER) {
        const void *target = *(void *const *)at;
        if (target == NULL)
            buf_append_str(out, STR("null"));
        else
            print_struct(f->fields, version, target, out);
    } else {
        print_value(f, version, at, out);
    }
}

static void print_struct(const struct proto_struct *s, int16_t version, const void *in, struct buf *out)
{
    buf_putc(out, '{');
    const char *separator = "";
    for (int i = 0; i < s->plain_n + s->tagged_n; i++) {
        const struct proto_field *f = &s->fields[i];
        if (!field_in(f, version))
            continue;
        buf_printf(out, "%s\"%s\":", separator, f->name);
        print_field(f, version, in, out);
        separator = ",";
    }
    buf_putc(out, '}');
}

void proto_print_json(const struct proto_message *message, int16_t version, const void *in, struct buf *out)
{
    print_struct(message->body, version, in, out);
}

/* What a value decodes into. */
union control_value {
    struct end_txn_marker end_txn_marker;
    struct leader_change_message leader_change_message;
    struct snapshot_header_record snapshot_header_record;
    struct snapshot_footer_record snapshot_footer_record;
    struct kraft_version_record kraft_version_record;
    struct voters_record voters_record;
    struct mirror_pid_reset_record mirror_pid_reset_record;
};

enum error proto_print_control(int16_t type, struct bytes value, struct buf *out)
{
    static const struct proto_message *const messages[] = {
        &PROTO_END_TXN_MARKER,         &PROTO_END_TXN_MARKER,       &PROTO_LEADER_CHANGE_MESSAGE, &PROTO_SNAPSHOT_HEADER_RECORD,
        &PROTO_SNAPSHOT_FOOTER_RECORD, &PROTO_KRAFT_VERSION_RECORD, &PROTO_VOTERS_RECORD,         &PROTO_MIRROR_PID_RESET_RECORD};
    if (type < 0 || (size_t)type >= ARRAY_SIZE(messages))
        return ERR_NOT_FOUND;
    if (value.p == NULL || value.len < 2)
        return ERR_TRUNCATED;
    /* All begin with their version. In EndTxnMarker it is not a field (class EndTransactionMarker). */
    const struct proto_message *message = messages[type];
    int16_t version = get_i16(value.p);
    struct bytes body = message == &PROTO_END_TXN_MARKER ? (struct bytes){value.p + 2, value.len - 2} : value;
    union control_value decoded;
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    enum error error = proto_decode(message, version, body, &arena, &decoded, NULL);
    if (error == OK)
        proto_print_json(message, version, &decoded, out);
    arena_fini(&arena);
    return error;
}
