#include "base/properties.h"

#include <stdbool.h>

#include "base/assert.h"
#include "base/buf.h"

struct reader {
    const char *p, *end;
    int line;
};

void properties_fini(struct properties *p)
{
    for (size_t i = 0; i < p->count; i++) {
        mem_free(p->items[i].key);
        mem_free(p->items[i].value);
    }
    mem_free(p->items);
    *p = (struct properties){0};
}

static struct property *find(const struct properties *p, struct str key)
{
    for (size_t i = 0; i < p->count; i++) {
        if (str_is(key, p->items[i].key))
            return &p->items[i];
    }
    return NULL;
}

static void put(struct properties *p, struct str key, struct str value, int line)
{
    struct property *item = find(p, key);

    if (item == NULL) {
        if (p->count == p->capacity) {
            p->capacity = MAX(p->capacity * 2, 16);
            p->items = mem_realloc(p->items, p->capacity * sizeof(*p->items));
        }
        item = &p->items[p->count++];
        item->key = str_dup(key);
        item->value = NULL;
    }
    mem_free(item->value);
    item->value = str_dup(value);
    item->line = line;
}

void properties_set(struct properties *p, struct str key, struct str value) { put(p, key, value, 0); }

void properties_remove(struct properties *p, const char *key)
{
    struct property *item = find(p, str_of(key));

    if (item == NULL)
        return;
    mem_free(item->key);
    mem_free(item->value);
    memmove(item, item + 1, (size_t)(p->items + p->count - item - 1) * sizeof(*item));
    p->count--;
}

const char *properties_get(const struct properties *p, const char *key)
{
    const struct property *item = find(p, str_of(key));

    return item != NULL ? item->value : NULL;
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\f'; }

static void skip_blanks(struct reader *r)
{
    while (r->p < r->end && blank(*r->p))
        r->p++;
}

/* At a line end: steps over it (\n, \r or \r\n). */
static bool line_end(struct reader *r)
{
    if (r->p == r->end || (*r->p != '\n' && *r->p != '\r'))
        return false;
    if (*r->p == '\r' && r->p + 1 < r->end && r->p[1] == '\n')
        r->p++;
    r->p++;
    r->line++;
    return true;
}

static void put_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        buf_putc(out, (char)c);
    } else if (c < 0x800) {
        buf_putc(out, (char)(0xc0 | c >> 6));
        buf_putc(out, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        buf_putc(out, (char)(0xe0 | c >> 12));
        buf_putc(out, (char)(0x80 | (c >> 6 & 63)));
        buf_putc(out, (char)(0x80 | (c & 63)));
    } else {
        buf_putc(out, (char)(0xf0 | c >> 18));
        buf_putc(out, (char)(0x80 | (c >> 12 & 63)));
        buf_putc(out, (char)(0x80 | (c >> 6 & 63)));
        buf_putc(out, (char)(0x80 | (c & 63)));
    }
}

static bool read_hex4(struct reader *r, uint32_t *ret_c)
{
    uint32_t c = 0;

    if (r->end - r->p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char d = r->p[i];
        int v = d >= '0' && d <= '9' ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
        if (v < 0)
            return false;
        c = c << 4 | (uint32_t)v;
    }
    r->p += 4;
    *ret_c = c;
    return true;
}

static bool read_unicode(struct reader *r, struct buf *out)
{
    uint32_t c, low;

    if (!read_hex4(r, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00) { /* Java writes characters beyond the 16 bits as a pair */
        if (r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u')
            return false;
        r->p += 2;
        if (!read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    put_utf8(out, c);
    return true;
}

/* Reads to the end of the logical line, or for a key to its separator; escapes are resolved. */
static bool read_part(struct reader *r, bool key, struct buf *out)
{
    while (r->p < r->end && *r->p != '\n' && *r->p != '\r') {
        char c = *r->p;
        if (key && (c == '=' || c == ':' || blank(c)))
            return true;
        r->p++;
        if (c != '\\') {
            buf_putc(out, c);
            continue;
        }
        if (r->p == r->end)
            return true;
        if (line_end(r)) { /* continued: leading blanks of the next line do not count */
            skip_blanks(r);
            continue;
        }
        c = *r->p++;
        if (c == 'u') {
            if (!read_unicode(r, out))
                return false;
        } else {
            buf_putc(out, c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == 'f' ? '\f' : c);
        }
    }
    return true;
}

static enum error read_line(struct properties *p, struct reader *r, struct buf *key, struct buf *value, struct problem *problem)
{
    int line = r->line;

    skip_blanks(r);
    if (r->p == r->end || line_end(r))
        return OK;
    if (*r->p == '#' || *r->p == '!') {
        while (r->p < r->end && *r->p != '\n' && *r->p != '\r')
            r->p++;
        line_end(r);
        return OK;
    }
    buf_clear(key);
    buf_clear(value);
    if (!read_part(r, true, key))
        goto malformed;
    skip_blanks(r);
    if (r->p < r->end && (*r->p == '=' || *r->p == ':'))
        r->p++;
    skip_blanks(r);
    if (!read_part(r, false, value))
        goto malformed;
    line_end(r);
    if (memchr(buf_cstr(key), '\0', key->len) != NULL || memchr(buf_cstr(value), '\0', value->len) != NULL)
        goto malformed;
    put(p, (struct str){buf_cstr(key), (int32_t)key->len}, (struct str){buf_cstr(value), (int32_t)value->len}, line);
    return OK;

malformed:
    problem_set(problem, ERR_MALFORMED, "Line %d of the properties is malformed", line);
    problem_detail(problem, "a \\u escape needs four hexadecimal digits, and no character may be zero");
    return ERR_MALFORMED;
}

enum error properties_parse(struct properties *p, struct str text, struct problem *problem)
{
    struct reader r = {text.p, text.p + text.len, 1};
    struct buf key = {0}, value = {0};
    enum error error = OK;

    if (text.len > PROPERTIES_MAX_BYTES)
        return problem_set(problem, ERR_TOO_LARGE, "The properties are larger than %d bytes", PROPERTIES_MAX_BYTES);
    while (error == OK && r.p < r.end)
        error = read_line(p, &r, &key, &value, problem);
    buf_fini(&key);
    buf_fini(&value);
    return error;
}
