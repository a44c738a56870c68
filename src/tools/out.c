/* Output. Standard output is no file of ours and no connection: it is written with write(2) here and nowhere else. */
#include "tools/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"

#define OUT_PIECE_BYTES (64 * 1024)

void out_init(struct out *out, int fd)
{
    *out = (struct out){.fd = fd, .terminal = fd >= 0 && isatty(fd) == 1};
}

void out_fini(struct out *out)
{
    buf_fini(&out->buf);
}

bool out_flush(struct out *out)
{
    if (out->fd < 0)
        return true;
    size_t done = 0;
    while (done < out->buf.len && out_ok(out)) {
        ssize_t n = write(out->fd, out->buf.data + done, out->buf.len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EPIPE)
            out->closed = true;
        else if (errno != EINTR)
            out->error = errno;
    }
    buf_clear(&out->buf);
    return out_ok(out);
}

static void written(struct out *out)
{
    if (out->fd >= 0 && out->buf.len >= OUT_PIECE_BYTES)
        (void)out_flush(out);
}

void out_str(struct out *out, struct str s)
{
    buf_append_str(&out->buf, s);
    written(out);
}

void out_char(struct out *out, char c)
{
    buf_putc(&out->buf, c);
}

void out_printf(struct out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(len >= 0);
    char *at = (char *)buf_reserve(&out->buf, (size_t)len + 1);
    va_start(args, format);
    vsnprintf(at, (size_t)len + 1, format, args);
    va_end(args);
    out->buf.len += (size_t)len;
    written(out);
}

/* Bytes of the UTF-8 sequence at p (RFC 3629), 0 when there is none. */
static int utf8_length(const uint8_t *p, const uint8_t *end)
{
    if (*p < 0x80)
        return 1;
    int n = *p >= 0xc2 && *p < 0xe0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    if (n == 0 || end - p < n)
        return 0;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    bool overlong = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xf0 && p[1] < 0x90);
    bool beyond = (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf4 && p[1] >= 0x90);
    return overlong || beyond ? 0 : n;
}

bool text_is_utf8(struct bytes text)
{
    for (const uint8_t *p = text.p, *end = p + text.len; p < end;) {
        int n = utf8_length(p, end);
        if (n == 0)
            return false;
        p += n;
    }
    return true;
}

void out_safe(struct out *out, struct bytes text)
{
    for (const uint8_t *p = text.p, *end = p + text.len; p != NULL && p < end;) {
        int n = utf8_length(p, end);
        bool c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0; /* the terminal's other control characters */
        if (n == 0 || *p < 0x20 || *p == 0x7f || c1) {
            n = MAX(n, 1);
            for (int i = 0; i < n; i++)
                buf_printf(&out->buf, p[i] == '\n' ? "\\n" : p[i] == '\t' ? "\\t" : p[i] == '\r' ? "\\r" : "\\x%02x", p[i]);
        } else {
            buf_append(&out->buf, p, (size_t)n);
        }
        p += n;
    }
    written(out);
}

/* ---- JSON ---- */

static void before_value(struct out *out)
{
    if (!out->after_key && out->depth > 0 && out->filled[out->depth - 1])
        out_char(out, ',');
    if (out->depth > 0)
        out->filled[out->depth - 1] = true;
    out->after_key = false;
}

void out_begin(struct out *out, char open)
{
    ASSERT(out->depth < OUT_DEPTH_MAX);
    before_value(out);
    out_char(out, open);
    out->filled[out->depth++] = false;
}

void out_end(struct out *out, char close)
{
    ASSERT(out->depth > 0 && !out->after_key);
    out->depth--;
    out_char(out, close);
    if (out->depth == 0)
        out_char(out, '\n');
    written(out);
}

void out_key(struct out *out, const char *key)
{
    before_value(out);
    buf_printf(&out->buf, "\"%s\":", key);
    out->after_key = true;
}

void out_i64(struct out *out, int64_t value)
{
    before_value(out);
    buf_printf(&out->buf, "%lld", (long long)value);
}

void out_bool(struct out *out, bool value)
{
    before_value(out);
    out_str(out, value ? STR("true") : STR("false"));
}

void out_null(struct out *out)
{
    before_value(out);
    out_str(out, STR("null"));
}

void out_text(struct out *out, struct str s)
{
    if (s.p == NULL) {
        out_null(out);
        return;
    }
    before_value(out);
    struct buf *b = &out->buf;
    buf_putc(b, '"');
    for (const uint8_t *p = (const uint8_t *)s.p, *end = p + s.len; p < end;) {
        int n = utf8_length(p, end);
        if (n == 0)
            buf_append_str(b, STR("\\ufffd"));
        else if (*p == '"' || *p == '\\')
            buf_printf(b, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            buf_printf(b, "\\u%04x", *p);
        else
            buf_append(b, p, (size_t)n);
        p += MAX(n, 1);
    }
    buf_putc(b, '"');
    written(out);
}

void out_raw(struct out *out, struct str json)
{
    before_value(out);
    out_str(out, json);
    if (out->depth == 0)
        out_char(out, '\n');
}

void out_base64(struct out *out, struct bytes data)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    before_value(out);
    struct buf *b = &out->buf;
    buf_putc(b, '"');
    for (int64_t i = 0; i < data.len; i += 3) {
        uint32_t second = i + 1 < data.len ? data.p[i + 1] : 0, third = i + 2 < data.len ? data.p[i + 2] : 0;
        uint32_t v = (uint32_t)data.p[i] << 16 | second << 8 | third;
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < data.len ? digits[v >> 6 & 63] : '=',
                        i + 2 < data.len ? digits[v & 63] : '='};
        buf_append(b, four, 4);
    }
    buf_putc(b, '"');
    written(out);
}

void out_field_data(struct out *out, const char *key, struct bytes data)
{
    out_key(out, key);
    if (data.p == NULL) {
        out_null(out);
    } else if (text_is_utf8(data)) {
        out_text(out, (struct str){(const char *)data.p, (int32_t)data.len});
    } else {
        char name[64];
        out_null(out);
        snprintf(name, sizeof(name), "%sBase64", key);
        out_key(out, name);
        out_base64(out, data);
    }
}
