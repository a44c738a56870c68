#include "base/logger.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static _Atomic int level_limit = LOG_INFO;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink)(void *arg, enum log_level level, const char *line);
static void *sink_arg;

static const char *const level_names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

void logger_set_level(enum log_level level) { level_limit = level; }

bool logger_level_parse(struct str name, enum log_level *ret_level)
{
    for (int i = 0; i < 4; i++) {
        if ((size_t)name.len == strlen(level_names[i]) && strncasecmp(name.p, level_names[i], (size_t)name.len) == 0) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool logger_on(enum log_level level) { return (int)level >= level_limit; }

void logger_set_sink(void (*new_sink)(void *arg, enum log_level level, const char *line), void *arg)
{
    pthread_mutex_lock(&sink_lock);
    sink = new_sink;
    sink_arg = arg;
    pthread_mutex_unlock(&sink_lock);
}

void logger_write(enum log_level level, const char *area, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    struct timespec now;
    struct tm utc;
    va_list args;
    size_t len;
    int n;

    if (!logger_on(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    len = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
    n = snprintf(line + len, sizeof(line) - len, ".%03dZ %s %s: ", (int)(now.tv_nsec / 1000000), level_names[level], area);
    len += (size_t)n;
    va_start(args, format);
    n = vsnprintf(line + len, sizeof(line) - len - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
    for (size_t i = 0; i < len; i++) { /* a line stays a line, whatever a peer put into a name */
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    }
    pthread_mutex_lock(&sink_lock);
    if (sink != NULL) {
        line[len] = '\0';
        sink(sink_arg, level, line);
        pthread_mutex_unlock(&sink_lock);
        return;
    }
    pthread_mutex_unlock(&sink_lock);
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return; /* nowhere left to say so */
}
