/* Where all output of the command line goes: one buffered writer with checked errors, and JSON on top of it.
 *
 * A write error (full disk) is kept and reported once, at the end; a reader that went away (EPIPE) ends the program quietly: long
 * commands ask out_ok() and stop. One thread. */
#ifndef KAGAMI_TOOLS_OUT_H
#define KAGAMI_TOOLS_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#define OUT_DEPTH_MAX 32

struct out {
    int fd;        /* -1: everything stays in buf (tests) */
    bool terminal; /* a person looks at it */
    bool closed;   /* the reader went away */
    int error;     /* errno of a failed write; 0: none */
    struct buf buf;
    int depth;                  /* JSON: open objects and arrays */
    bool filled[OUT_DEPTH_MAX]; /* JSON: something stands at that depth already */
    bool after_key;
};

void out_init(struct out *out, int fd);
void out_fini(struct out *out); /* drops what was not flushed */
/* Writes what is buffered. False once a write failed or the reader went away. */
bool out_flush(struct out *out);
static inline bool out_ok(const struct out *out)
{
    return out->error == 0 && !out->closed;
}
void out_printf(struct out *out, const char *format, ...) PRINTF_LIKE(2, 3);
void out_str(struct out *out, struct str s);
void out_char(struct out *out, char c);
/* Text from elsewhere for a terminal: control characters as \n, \t, \xNN, so that nobody's data moves the cursor. */
void out_safe(struct out *out, struct bytes text);

/* ---- JSON: commas and quotes are set here. Keys are ours and need no escaping. ---- */

void out_begin(struct out *out, char open); /* '{' or '[' */
void out_end(struct out *out, char close);  /* at the outermost level a line end follows */
void out_key(struct out *out, const char *key);
void out_i64(struct out *out, int64_t value);
void out_bool(struct out *out, bool value);
void out_null(struct out *out);
void out_text(struct out *out, struct str s);   /* null view: null; bytes that are no UTF-8: U+FFFD */
void out_raw(struct out *out, struct str json); /* a value that is JSON already */
void out_base64(struct out *out, struct bytes data);
static inline void out_field_i64(struct out *out, const char *key, int64_t value)
{
    out_key(out, key);
    out_i64(out, value);
}
static inline void out_field_bool(struct out *out, const char *key, bool value)
{
    out_key(out, key);
    out_bool(out, value);
}
static inline void out_field_text(struct out *out, const char *key, struct str value)
{
    out_key(out, key);
    out_text(out, value);
}
/* key: the text, or null and KEYBase64 when it is no UTF-8: nothing is lost. */
void out_field_data(struct out *out, const char *key, struct bytes data);

/* Whether all of it is UTF-8 (RFC 3629). */
bool text_is_utf8(struct bytes text);

#endif
