#include "tools/text.h"

#include <stdio.h>
#include <time.h>

#include "base/assert.h"

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define DURATION_MAX_MS (INT64_C(366000) * DAY_MS)

char *text_bytes(int64_t bytes, char out[TEXT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 0) {
        snprintf(out, TEXT_SIZE, "-");
        return out;
    }
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++)
        value /= 1024;
    snprintf(out, TEXT_SIZE, unit > 0 && value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

char *text_duration(int64_t ms, char out[TEXT_SIZE])
{
    if (ms < 0)
        snprintf(out, TEXT_SIZE, "-");
    else if (ms < SECOND_MS)
        snprintf(out, TEXT_SIZE, "%dms", (int)ms);
    else if (ms < 10 * SECOND_MS)
        snprintf(out, TEXT_SIZE, "%d.%ds", (int)(ms / SECOND_MS), (int)(ms % SECOND_MS / 100));
    else if (ms < MINUTE_MS)
        snprintf(out, TEXT_SIZE, "%ds", (int)(ms / SECOND_MS));
    else if (ms < HOUR_MS)
        snprintf(out, TEXT_SIZE, "%dm%02ds", (int)(ms / MINUTE_MS), (int)(ms % MINUTE_MS / SECOND_MS));
    else if (ms < DAY_MS)
        snprintf(out, TEXT_SIZE, "%dh%02dm", (int)(ms / HOUR_MS), (int)(ms % HOUR_MS / MINUTE_MS));
    else
        snprintf(out, TEXT_SIZE, "%lldd%02dh", (long long)(ms / DAY_MS), (int)(ms % DAY_MS / HOUR_MS));
    return out;
}

char *text_time(int64_t ms, char out[TEXT_SIZE])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (ms < 0 || gmtime_r(&seconds, &tm) == NULL || tm.tm_year > 9999 - 1900) {
        snprintf(out, TEXT_SIZE, "-");
        return out;
    }
    size_t n = strftime(out, TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, TEXT_SIZE - n, ".%03dZ", (int)(ms % 1000));
    return out;
}

static bool digit(struct str s)
{
    return s.len > 0 && s.p[0] >= '0' && s.p[0] <= '9';
}

static void advance(struct str *s, int32_t n)
{
    s->p += n;
    s->len -= n;
}

/* Takes the unit at the front. */
static bool take_unit(struct str *s, int64_t *ret_ms)
{
    static const struct {
        struct str name;
        int64_t ms;
    } units[] = {{{"ms", 2}, 1}, {{"s", 1}, SECOND_MS}, {{"m", 1}, MINUTE_MS}, {{"h", 1}, HOUR_MS}, {{"d", 1}, DAY_MS}};
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (!str_starts(*s, units[i].name))
            continue;
        *ret_ms = units[i].ms;
        advance(s, units[i].name.len);
        return true;
    }
    return false;
}

bool parse_duration(struct str text, int64_t *ret_ms)
{
    int64_t total = 0, unit_before = INT64_MAX;
    if (str_is(text, "0")) {
        *ret_ms = 0;
        return true;
    }
    while (text.len > 0) {
        int64_t whole = 0, thousandths = 0, scale = 100, unit;
        if (!digit(text))
            return false;
        for (; digit(text); advance(&text, 1)) {
            if (whole > DURATION_MAX_MS)
                return false;
            whole = whole * 10 + (text.p[0] - '0');
        }
        if (text.len > 0 && text.p[0] == '.') {
            advance(&text, 1);
            if (!digit(text))
                return false;
            for (; digit(text); advance(&text, 1), scale /= 10)
                thousandths += (text.p[0] - '0') * scale;
        }
        if (!take_unit(&text, &unit) || unit >= unit_before || whole > DURATION_MAX_MS / unit)
            return false;
        total += whole * unit + thousandths * unit / 1000;
        unit_before = unit;
        if (total > DURATION_MAX_MS)
            return false;
    }
    if (unit_before == INT64_MAX)
        return false;
    *ret_ms = total;
    return true;
}

/* Exactly n digits at the front. */
static bool take_number(struct str *s, int n, int *ret_value)
{
    int value = 0;
    for (int i = 0; i < n; i++, advance(s, 1)) {
        if (!digit(*s))
            return false;
        value = value * 10 + (s->p[0] - '0');
    }
    *ret_value = value;
    return true;
}

static bool take_char(struct str *s, char c)
{
    if (s->len == 0 || s->p[0] != c)
        return false;
    advance(s, 1);
    return true;
}

static bool take_clock(struct str *s, struct tm *tm, int *ms)
{
    if (!take_number(s, 2, &tm->tm_hour) || !take_char(s, ':') || !take_number(s, 2, &tm->tm_min))
        return false;
    if (take_char(s, ':') && !take_number(s, 2, &tm->tm_sec))
        return false;
    if (take_char(s, '.')) {
        int scale = 100;
        if (!digit(*s))
            return false;
        for (; digit(*s); advance(s, 1), scale /= 10)
            *ms += (s->p[0] - '0') * scale;
    }
    return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 61;
}

static bool take_zone(struct str *s, int *minutes)
{
    if (s->len == 0 || take_char(s, 'Z'))
        return true;
    int sign = take_char(s, '+') ? 1 : take_char(s, '-') ? -1 : 0, hours, rest;
    if (sign == 0 || !take_number(s, 2, &hours) || !take_char(s, ':') || !take_number(s, 2, &rest))
        return false;
    *minutes = sign * (hours * 60 + rest);
    return hours < 24 && rest < 60;
}

bool parse_time(struct str text, int64_t *ret_ms)
{
    struct tm tm = {0};
    int ms = 0, zone_minutes = 0, year;
    if (str_to_i64(text, ret_ms))
        return true;
    if (!take_number(&text, 4, &year) || !take_char(&text, '-') || !take_number(&text, 2, &tm.tm_mon) || !take_char(&text, '-') ||
        !take_number(&text, 2, &tm.tm_mday) || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31)
        return false;
    if (take_char(&text, 'T') && !take_clock(&text, &tm, &ms))
        return false;
    if (!take_zone(&text, &zone_minutes) || text.len > 0)
        return false;
    tm.tm_year = year - 1900;
    tm.tm_mon--;
    *ret_ms = ((int64_t)timegm(&tm) - zone_minutes * INT64_C(60)) * 1000 + ms;
    return true;
}
