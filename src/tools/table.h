/* Tables for people: aligned columns, numbers to the right, no borders. Cells are copied; "-" stands for what is not known. One
 * thread. */
#ifndef KAGAMI_TOOLS_TABLE_H
#define KAGAMI_TOOLS_TABLE_H

#include "tools/out.h"

#define TABLE_COLUMNS_MAX 16

struct table {
    const char *const *titles; /* one that begins with '>' is aligned to the right; '>' is not shown */
    int columns, column;       /* how many; of the next cell */
    int rows, capacity;
    char **cells; /* rows * columns */
};

/* titles stay valid; at most TABLE_COLUMNS_MAX. */
void table_init(struct table *t, const char *const *titles, int columns);
void table_fini(struct table *t);
/* The next cell of the row; a row is full after its last column. */
void table_cell(struct table *t, const char *format, ...) PRINTF_LIKE(2, 3);
void table_str(struct table *t, struct str s);    /* null and empty: "-"; control characters are escaped */
void table_count(struct table *t, int64_t n);     /* below 0: "-" */
void table_bytes(struct table *t, int64_t bytes); /* below 0: "-" */
void table_duration(struct table *t, int64_t ms); /* below 0: "-" */
/* Prints title line and rows; nothing when there are none. */
void table_print(struct table *t, struct out *out);

#endif
