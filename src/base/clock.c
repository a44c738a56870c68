#include "base/clock.h"

#include <time.h>

static int64_t system_wall_ms(const struct clock *clock)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t system_mono_ns(const struct clock *clock)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const struct clock system_clock = {system_wall_ms, system_mono_ns};
const struct clock *const CLOCK_SYSTEM = &system_clock;

static int64_t manual_wall_ms(const struct clock *clock)
{
    return __atomic_load_n(&((const struct manual_clock *)clock)->now_ms, __ATOMIC_RELAXED);
}

static int64_t manual_mono_ns(const struct clock *clock)
{
    return __atomic_load_n(&((const struct manual_clock *)clock)->now_ns, __ATOMIC_RELAXED);
}

void manual_clock_init(struct manual_clock *m, int64_t wall_ms)
{
    *m = (struct manual_clock){{manual_wall_ms, manual_mono_ns}, wall_ms, 1};
}

void manual_clock_advance(struct manual_clock *m, int64_t ms)
{
    __atomic_fetch_add(&m->now_ms, ms, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->now_ns, ms * 1000000, __ATOMIC_RELAXED);
}
