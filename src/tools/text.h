/* How numbers look to people, and how people write them: durations, sizes, times. Any thread. */
#ifndef KAGAMI_TOOLS_TEXT_H
#define KAGAMI_TOOLS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define TEXT_SIZE 48

/* Below 0: "-". "0 B" .. "1023 B", then "1.5 KiB", "12 MiB", ..: two digits at least, no more than needed. */
char *text_bytes(int64_t bytes, char out[TEXT_SIZE]);
/* Below 0: "-". "250ms", "1.5s", "12s", "3m20s", "2h05m", "4d03h". */
char *text_duration(int64_t ms, char out[TEXT_SIZE]);
/* Milliseconds since 1970 as "2026-11-29T15:04:05.123Z"; "-" below 0 and for years beyond 9999. */
char *text_time(int64_t ms, char out[TEXT_SIZE]);

/* A number and its unit: ms, s, m, h, d; "0" needs none. "1.5s" and "1m30s" are fine too. Not below 0, at most 1000 years. */
bool parse_duration(struct str text, int64_t *ret_ms);
/* Milliseconds since 1970 as a number, or "2026-11-29[T15:04[:05[.123]]][Z|+HH:MM]" (UTC without a zone). */
bool parse_time(struct str text, int64_t *ret_ms);

#endif
