#include "tools/line_format.h"

#include <string.h>

#include "base/assert.h"

void line_format_init(struct line_format *f, const struct args *args)
{
    *f = (struct line_format){.separator = args_text(args, "key-separator"),
                              .key = args_text(args, "key"),
                              .null_text = args_text(args, "null"),
                              .headers = args_flag(args, "headers")};
    if (f->separator != NULL && f->separator[0] == '\0')
        f->separator = NULL;
}

void line_format_fini(struct line_format *f)
{
    mem_free(f->parsed);
    f->parsed = NULL;
}

static struct bytes maybe_null(const struct line_format *f, struct bytes b)
{
    bool null = f->null_text != NULL && (size_t)b.len == strlen(f->null_text) && memcmp(b.p, f->null_text, (size_t)b.len) == 0;
    return null ? (struct bytes){NULL, 0} : b;
}

/* Cuts what stands before `separator` off *rest. */
static bool cut(struct bytes *rest, const char *separator, struct bytes *ret_piece)
{
    size_t len = strlen(separator);
    const uint8_t *at = rest->len > 0 ? memmem(rest->p, (size_t)rest->len, separator, len) : NULL;
    if (at == NULL)
        return false;
    *ret_piece = (struct bytes){rest->p, at - rest->p};
    rest->len -= ret_piece->len + (int64_t)len;
    rest->p = at + len;
    return true;
}

static void add_header(struct line_format *f, int32_t index, struct record_header header)
{
    if (index == f->capacity) {
        f->capacity = MAX(8, f->capacity * 2);
        f->parsed = mem_realloc(f->parsed, (size_t)f->capacity * sizeof(*f->parsed));
    }
    f->parsed[index] = header;
}

static bool parse_headers(struct line_format *f, struct bytes text, int32_t *ret_count)
{
    int32_t count = 0;
    while (text.len > 0) {
        struct bytes one, name;
        if (!cut(&text, ",", &one)) {
            one = text;
            text.len = 0;
        }
        if (!cut(&one, ":", &name))
            return false;
        add_header(f, count++, (struct record_header){{(const char *)name.p, (int32_t)name.len}, maybe_null(f, one)});
    }
    *ret_count = count;
    return true;
}

enum error line_format_parse(struct line_format *f, struct bytes line, int64_t number, struct parsed_line *ret_line,
                             struct problem *problem)
{
    struct parsed_line parsed = {0};
    struct bytes headers, key;
    if (f->headers && (!cut(&line, "\t", &headers) || !parse_headers(f, headers, &parsed.header_count))) {
        problem_set(problem, ERR_INVALID, "Line %lld does not begin with headers and a tab.", (long long)number);
        problem_hint(problem, "Write NAME:VALUE,NAME:VALUE, a tab, and then the record; only a tab for no headers.");
        return ERR_INVALID;
    }
    parsed.headers = f->parsed;
    if (f->key != NULL)
        parsed.key = maybe_null(f, (struct bytes){(const uint8_t *)f->key, (int64_t)strlen(f->key)});
    if (f->separator != NULL) {
        if (!cut(&line, f->separator, &key)) {
            problem_set(problem, ERR_INVALID, "Line %lld has no \"%s\" between key and value.", (long long)number, f->separator);
            problem_hint(problem, "The lines before it are written, it and what follows are not.");
            return ERR_INVALID;
        }
        parsed.key = maybe_null(f, key);
    }
    parsed.value = maybe_null(f, line);
    *ret_line = parsed;
    return OK;
}

void line_format_value(const struct line_format *f, const char *value, struct parsed_line *ret_line)
{
    *ret_line = (struct parsed_line){.value = maybe_null(f, (struct bytes){(const uint8_t *)value, (int64_t)strlen(value)})};
    if (f->key != NULL)
        ret_line->key = maybe_null(f, (struct bytes){(const uint8_t *)f->key, (int64_t)strlen(f->key)});
}
