/* String and byte views: pointer and length, owned by somebody else. p NULL means null (Kafka's nullable types); length 0 with p set is
 * empty. Not terminated. Any thread. */
#ifndef KAGAMI_BASE_STR_H
#define KAGAMI_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    int32_t len;
};

struct bytes {
    const uint8_t *p;
    int64_t len;
};

#define STR_NULL ((struct str){NULL, 0})
#define STR(literal) ((struct str){(literal), (int32_t)sizeof(literal) - 1})
/* For printf("%.*s"). */
#define STR_ARG(s) (int)(s).len, ((s).p != NULL ? (s).p : "")

static inline struct str str_of(const char *s) /* NULL gives null */
{
    return (struct str){s, s != NULL ? (int32_t)strlen(s) : 0};
}

static inline bool str_eq(struct str a, struct str b) /* null equals only null */
{
    return a.len == b.len && (a.p == NULL) == (b.p == NULL) && (a.len == 0 || memcmp(a.p, b.p, (size_t)a.len) == 0);
}

static inline bool str_is(struct str a, const char *s) { return str_eq(a, str_of(s)); }

/* memcmp order, a prefix before the longer. Nulls first. */
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
/* Without blanks, tabs and line ends at both ends. */
struct str str_trim(struct str s);
/* Cuts the piece before the first `separator` off *rest and returns it; false when *rest is null (nothing left). */
bool str_split(struct str *rest, char separator, struct str *ret_piece);
/* The whole string as a decimal number; false when it is none or does not fit. */
bool str_to_i64(struct str s, int64_t *ret_value);
/* A terminated copy, to be freed with mem_free; NULL for null. */
char *str_dup(struct str s);
/* Edit distance, for "did you mean"; strings of up to 128 bytes, longer ones give INT_MAX. */
int str_distance(struct str a, struct str b);

#endif
