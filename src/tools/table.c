#include "tools/table.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "tools/text.h"

void table_init(struct table *t, const char *const *titles, int columns)
{
    ASSERT(columns > 0 && columns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.titles = titles, .columns = columns};
}

void table_fini(struct table *t)
{
    for (int i = 0; i < t->rows * t->columns; i++)
        mem_free(t->cells[i]);
    mem_free(t->cells);
    *t = (struct table){0};
}

static void add(struct table *t, char *cell)
{
    if (t->column == 0) {
        if (t->rows == t->capacity) {
            t->capacity = MAX(16, t->capacity * 2);
            t->cells = mem_realloc(t->cells, (size_t)t->capacity * (size_t)t->columns * sizeof(*t->cells));
        }
        for (int i = 0; i < t->columns; i++)
            t->cells[t->rows * t->columns + i] = NULL;
        t->rows++;
    }
    t->cells[(t->rows - 1) * t->columns + t->column] = cell;
    t->column = (t->column + 1) % t->columns;
}

void table_cell(struct table *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(len >= 0);
    char *cell = mem_alloc((size_t)len + 1);
    va_start(args, format);
    vsnprintf(cell, (size_t)len + 1, format, args);
    va_end(args);
    add(t, cell);
}

void table_str(struct table *t, struct str s)
{
    struct out safe;
    out_init(&safe, -1);
    out_safe(&safe, (struct bytes){(const uint8_t *)s.p, s.len});
    table_cell(t, "%s", safe.buf.len > 0 ? buf_cstr(&safe.buf) : "-");
    out_fini(&safe);
}

void table_count(struct table *t, int64_t n)
{
    if (n < 0)
        table_cell(t, "-");
    else
        table_cell(t, "%lld", (long long)n);
}

void table_bytes(struct table *t, int64_t bytes)
{
    char text[TEXT_SIZE];
    table_cell(t, "%s", text_bytes(bytes, text));
}

void table_duration(struct table *t, int64_t ms)
{
    char text[TEXT_SIZE];
    table_cell(t, "%s", text_duration(ms, text));
}

/* Characters, not bytes. */
static int width(const char *s)
{
    int n = 0;
    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void line(const struct table *t, const int *widths, const char *const *cells, struct out *out)
{
    for (int i = 0; i < t->columns; i++) {
        bool right = t->titles[i][0] == '>', last = i == t->columns - 1;
        const char *cell = cells == t->titles ? t->titles[i] + right : cells[i] != NULL ? cells[i] : "";
        int pad = widths[i] - width(cell);
        if (right)
            out_printf(out, "%*s%s%s", pad, "", cell, last ? "" : "  ");
        else if (last)
            out_printf(out, "%s", cell);
        else
            out_printf(out, "%s%*s  ", cell, pad, "");
    }
    out_char(out, '\n');
}

void table_print(struct table *t, struct out *out)
{
    int widths[TABLE_COLUMNS_MAX];
    if (t->rows == 0)
        return;
    for (int i = 0; i < t->columns; i++) {
        widths[i] = width(t->titles[i]) - (t->titles[i][0] == '>');
        for (int row = 0; row < t->rows; row++) {
            const char *cell = t->cells[row * t->columns + i];
            widths[i] = cell != NULL ? MAX(widths[i], width(cell)) : widths[i];
        }
    }
    line(t, widths, t->titles, out);
    for (int row = 0; row < t->rows; row++)
        line(t, widths, (const char *const *)&t->cells[row * t->columns], out);
}
