/* How a line of input becomes a record: [HEADERS TAB][KEY SEPARATOR]VALUE, by the options of produce. One thread. */
#ifndef KAGAMI_TOOLS_LINE_FORMAT_H
#define KAGAMI_TOOLS_LINE_FORMAT_H

#include "codec/record_batch.h"
#include "tools/args.h"

struct line_format {
    const char *separator; /* between key and value; NULL: no keys in lines */
    const char *key;       /* of every record; NULL: none */
    const char *null_text; /* stands for null; NULL: nothing does */
    bool headers;          /* lines begin with NAME:VALUE,NAME:VALUE and a tab */
    struct record_header *parsed;
    int32_t capacity;
};

struct parsed_line { /* views of the line; headers are valid until the next line */
    struct bytes key, value;
    const struct record_header *headers;
    int32_t header_count;
};

void line_format_init(struct line_format *f, const struct args *args);
void line_format_fini(struct line_format *f);
/* ERR_INVALID: a part is missing; the problem names the line by its number. */
MUST_CHECK enum error line_format_parse(struct line_format *f, struct bytes line, int64_t number, struct parsed_line *ret_line,
                                        struct problem *problem);
/* A value of its own, without key and headers inside. */
void line_format_value(const struct line_format *f, const char *value, struct parsed_line *ret_line);

#endif
