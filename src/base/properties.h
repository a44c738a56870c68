/* Java properties files, as Kafka's server.properties are written: key=value, key:value, comments (# and !), continued lines, \\uXXXX and
 * the other escapes, UTF-8. Order is kept; a key that comes twice has the last value (as java.util.Properties). One thread at a time. */
#ifndef KAGAMI_BASE_PROPERTIES_H
#define KAGAMI_BASE_PROPERTIES_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define PROPERTIES_MAX_BYTES (1024 * 1024)

struct property {
    char *key;
    char *value;
    int line; /* where it stood, 1-based; 0 when it was set by properties_set */
};

struct properties {
    struct property *items;
    size_t count, capacity;
};

void properties_fini(struct properties *p);
/* Adds what text holds. ERR_TOO_LARGE, ERR_MALFORMED (problem names the line). */
MUST_CHECK enum error properties_parse(struct properties *p, struct str text, struct problem *problem);
void properties_set(struct properties *p, struct str key, struct str value);
void properties_remove(struct properties *p, const char *key);
/* NULL when absent. */
const char *properties_get(const struct properties *p, const char *key);

#endif
