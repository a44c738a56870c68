#include "tools/record_format.h"

#include <string.h>

#include "tools/text.h"

const char *record_format_check(const char *format)
{
    for (const char *p = format; *p != '\0'; p++) {
        if (*p != '%' && *p != '\\')
            continue;
        if (p[1] == '\0' || strchr(*p == '%' ? "tpoTDkvhe%" : "nt\\", p[1]) == NULL)
            return p;
        p++;
    }
    return NULL;
}

static void data(struct out *out, struct bytes b)
{
    if (b.p == NULL)
        out_str(out, STR("null"));
    else if (out->terminal)
        out_safe(out, b);
    else {
        buf_append(&out->buf, b.p, (size_t)b.len);
        out_str(out, STR(""));
    }
}

static void headers(struct out *out, struct bytes rest)
{
    struct record_header header;
    for (int i = 0; record_header_next(&rest, &header); i++) {
        out_str(out, i > 0 ? STR(",") : STR(""));
        data(out, (struct bytes){(const uint8_t *)header.key.p, header.key.len});
        out_char(out, ':');
        data(out, header.value);
    }
}

static void item(struct out *out, char which, const struct record_place *place, const struct record *record)
{
    char time[TEXT_SIZE];
    switch (which) {
    case 't':
        out_printf(out, "%s", place->topic);
        break;
    case 'p':
        out_printf(out, "%d", place->partition);
        break;
    case 'o':
        out_printf(out, "%lld", (long long)record->offset);
        break;
    case 'T':
        out_printf(out, "%lld", (long long)record->timestamp);
        break;
    case 'D':
        out_printf(out, "%s", text_time(record->timestamp, time));
        break;
    case 'k':
        data(out, record->key);
        break;
    case 'v':
        data(out, record->value);
        break;
    case 'h':
        headers(out, record->headers);
        break;
    case 'e':
        out_printf(out, "%d", place->leader_epoch);
        break;
    default:
        out_char(out, which);
    }
}

void record_print(struct out *out, const char *format, const struct record_place *place, const struct record *record)
{
    if (format == NULL)
        format = record->key.p != NULL ? "%k\\t%v" : "%v";
    for (const char *p = format; *p != '\0'; p++) {
        if (*p == '%')
            item(out, *++p, place, record);
        else if (*p == '\\')
            out_char(out, *++p == 'n' ? '\n' : *p == 't' ? '\t' : *p);
        else
            out_char(out, *p);
    }
    out_char(out, '\n');
}

void record_print_json(struct out *out, const struct record_place *place, const struct record *record)
{
    struct bytes rest = record->headers;
    struct record_header header;
    out_begin(out, '{');
    out_field_text(out, "topic", str_of(place->topic));
    out_field_i64(out, "partition", place->partition);
    out_field_i64(out, "offset", record->offset);
    out_field_i64(out, "timestamp", record->timestamp);
    out_field_text(out, "timestampType", place->log_append_time ? STR("LogAppendTime") : STR("CreateTime"));
    out_field_i64(out, "leaderEpoch", place->leader_epoch);
    out_field_data(out, "key", record->key);
    out_field_data(out, "value", record->value);
    out_key(out, "headers");
    out_begin(out, '[');
    while (record_header_next(&rest, &header)) {
        out_begin(out, '{');
        out_field_data(out, "key", (struct bytes){(const uint8_t *)header.key.p, header.key.len});
        out_field_data(out, "value", header.value);
        out_end(out, '}');
    }
    out_end(out, ']');
    out_end(out, '}');
}
