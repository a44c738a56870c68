/* The process's log: one line an event on stderr, "2026-11-29T15:04:05.123Z INFO area: sentence key=value ..".
 *
 * Only repl, mirror, server and the programs log; lower layers return errors (storage reports through its callbacks). The one global besides the
 * stats. Any thread; a line is written with one write(2). */
#ifndef KAGAMI_BASE_LOGGER_H
#define KAGAMI_BASE_LOGGER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void logger_set_level(enum log_level level); /* default INFO */
bool logger_level_parse(struct str name, enum log_level *ret_level);
bool logger_on(enum log_level level);
/* For tests: where lines go in place of stderr; NULL restores it. */
void logger_set_sink(void (*sink)(void *arg, enum log_level level, const char *line), void *arg);
void logger_write(enum log_level level, const char *area, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_debug(area, ...) (logger_on(LOG_DEBUG) ? logger_write(LOG_DEBUG, area, __VA_ARGS__) : (void)0)
#define log_info(area, ...) logger_write(LOG_INFO, area, __VA_ARGS__)
#define log_warn(area, ...) logger_write(LOG_WARN, area, __VA_ARGS__)
#define log_error(area, ...) logger_write(LOG_ERROR, area, __VA_ARGS__)

#endif
