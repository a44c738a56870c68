/* Time behind a vtable, so that a test can own it. Wall time in milliseconds since 1970 (what Kafka's timestamps are), monotonic time in
 * nanoseconds for intervals and timers. Any thread. */
#ifndef KAGAMI_BASE_CLOCK_H
#define KAGAMI_BASE_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*wall_ms)(const struct clock *clock);
    int64_t (*mono_ns)(const struct clock *clock);
};

extern const struct clock *const CLOCK_SYSTEM;

/* A clock that stands still until told otherwise. */
struct manual_clock {
    struct clock clock;
    int64_t now_ms;
    int64_t now_ns;
};
void manual_clock_init(struct manual_clock *m, int64_t wall_ms);
void manual_clock_advance(struct manual_clock *m, int64_t ms);

static inline int64_t clock_wall_ms(const struct clock *clock) { return clock->wall_ms(clock); }
static inline int64_t clock_mono_ns(const struct clock *clock) { return clock->mono_ns(clock); }
static inline int64_t clock_mono_ms(const struct clock *clock) { return clock->mono_ns(clock) / 1000000; }

#endif
