#include "base/str.h"

#include <limits.h>

#include "base/assert.h"

int str_cmp(struct str a, struct str b)
{
    int c;

    if (a.p == NULL || b.p == NULL)
        return (a.p != NULL) - (b.p != NULL);
    c = memcmp(a.p, b.p, (size_t)MIN(a.len, b.len));
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.p, prefix.p, (size_t)prefix.len) == 0);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f'; }

struct str str_trim(struct str s)
{
    while (s.len > 0 && is_blank(s.p[0])) {
        s.p++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.p[s.len - 1]))
        s.len--;
    return s;
}

bool str_split(struct str *rest, char separator, struct str *ret_piece)
{
    const char *at;

    if (rest->p == NULL)
        return false;
    at = rest->len > 0 ? memchr(rest->p, separator, (size_t)rest->len) : NULL;
    if (at == NULL) {
        *ret_piece = *rest;
        *rest = STR_NULL;
        return true;
    }
    *ret_piece = (struct str){rest->p, (int32_t)(at - rest->p)};
    rest->len -= ret_piece->len + 1;
    rest->p = at + 1;
    return true;
}

bool str_to_i64(struct str s, int64_t *ret_value)
{
    bool negative = s.len > 0 && s.p[0] == '-';
    int32_t i = negative || (s.len > 0 && s.p[0] == '+') ? 1 : 0;
    int64_t value = 0; /* grows downwards: INT64_MIN has no positive twin */

    if (i >= s.len)
        return false;
    for (; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, s.p[i] - '0', &value))
            return false;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *ret_value = negative ? value : -value;
    return true;
}

char *str_dup(struct str s)
{
    char *copy;

    if (s.p == NULL)
        return NULL;
    copy = mem_alloc((size_t)s.len + 1);
    if (s.len > 0)
        memcpy(copy, s.p, (size_t)s.len);
    copy[s.len] = '\0';
    return copy;
}

#define DISTANCE_MAX 128

int str_distance(struct str a, struct str b)
{
    int row[DISTANCE_MAX + 1];

    if (a.len > DISTANCE_MAX || b.len > DISTANCE_MAX)
        return INT_MAX;
    for (int j = 0; j <= b.len; j++)
        row[j] = j;
    for (int i = 1; i <= a.len; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= b.len; j++) {
            int above = row[j];
            int change = diagonal + (a.p[i - 1] != b.p[j - 1]);
            row[j] = MIN(MIN(row[j - 1], above) + 1, change);
            diagonal = above;
        }
    }
    return row[b.len];
}
