#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "bench.h"

/* ---- Command line ---- */

const char *arg_text(const struct args *a, const char *name, const char *otherwise)
{
    const char *found = otherwise;
    for (int i = 0; i + 1 < a->count; i += 2)
        if (strncmp(a->words[i], "--", 2) == 0 && strcmp(a->words[i] + 2, name) == 0)
            found = a->words[i + 1];
    return found;
}

const char *arg_needed(const struct args *a, const char *name)
{
    const char *value = arg_text(a, name, NULL);
    if (value == NULL)
        die("--%s is missing", name);
    return value;
}

int64_t arg_int(const struct args *a, const char *name, int64_t otherwise)
{
    const char *text = arg_text(a, name, NULL);
    if (text == NULL)
        return otherwise;
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        die("--%s %s is not a number", name, text);
    return value;
}

void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("kagami_bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

/* ---- Time and CPU ---- */

static int64_t timespec_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return timespec_ns(&t);
}

static int64_t own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return timespec_ns(&t);
}

/* The kernel keeps a CPU clock of each process, to the nanosecond; 0 when there is none such. */
static int64_t peer_cpu_ns(int pid)
{
    clockid_t clock;
    struct timespec t;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return timespec_ns(&t);
}

void measure_start(struct measure *m, int pid)
{
    *m = (struct measure){.pid = pid, .own_cpu_ns = own_cpu_ns(), .peer_cpu_ns = peer_cpu_ns(pid), .start_ns = now_ns()};
}

void measure_stop(struct measure *m)
{
    m->start_ns = now_ns() - m->start_ns;
    m->own_cpu_ns = own_cpu_ns() - m->own_cpu_ns;
    m->peer_cpu_ns = peer_cpu_ns(m->pid) - m->peer_cpu_ns;
}

double measure_seconds(const struct measure *m)
{
    return (double)m->start_ns / 1e9;
}

void samples_add(struct samples *s, int64_t ns)
{
    if (s->count == s->capacity) {
        s->capacity = MAX(s->capacity * 2, (size_t)1024);
        s->ns = mem_realloc(s->ns, s->capacity * sizeof(*s->ns));
    }
    s->ns[s->count++] = ns;
}

void samples_fini(struct samples *s)
{
    mem_free(s->ns);
}

/* ---- Output ---- */

static bool first;

void out_begin(void)
{
    putchar('{');
    first = true;
}

void out_number(const char *name, double value)
{
    printf("%s\"%s\": %.6g", first ? "" : ", ", name, value);
    first = false;
}

void out_measure(const struct measure *m, double bytes)
{
    double seconds = measure_seconds(m), gb = bytes / 1e9;
    out_number("seconds", seconds);
    out_number("own_cpu_s", (double)m->own_cpu_ns / 1e9);
    if (m->pid > 0)
        out_number("cpu_s", (double)m->peer_cpu_ns / 1e9);
    if (bytes <= 0)
        return;
    out_number("moved_mb", bytes / 1e6);
    out_number("mb_s", bytes / 1e6 / seconds);
    out_number("own_cpu_s_gb", (double)m->own_cpu_ns / 1e9 / gb);
    if (m->pid > 0)
        out_number("cpu_s_gb", (double)m->peer_cpu_ns / 1e9 / gb);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void out_samples(const char *prefix, struct samples *s)
{
    static const struct {
        const char *name;
        double at;
    } POINTS[] = {{"p50_ms", 0.5}, {"p99_ms", 0.99}, {"p999_ms", 0.999}, {"max_ms", 1}};
    if (s->count == 0)
        return;
    qsort(s->ns, s->count, sizeof(*s->ns), compare);
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s_%s", prefix, POINTS[i].name);
        out_number(name, (double)s->ns[MIN((size_t)(POINTS[i].at * (double)s->count), s->count - 1)] / 1e6);
    }
}

void out_end(void)
{
    puts("}");
    fflush(stdout);
}
