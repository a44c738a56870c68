#include "seeds.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "codec/record_batch.h"

#ifndef SEEDS_DIVISOR
#define SEEDS_DIVISOR 1 /* more in builds that are slow */
#endif

#define LIFE_SECONDS 300 /* a seed that takes longer hangs */

/* ---- Which seeds ran, and how a failing one is run again ---- */

static uint64_t first_seed, seed_under_way;
static volatile sig_atomic_t under_way;

static void tell(void)
{
    if (under_way)
        printf("replay: KAGAMI_SEED=%" PRIu64 " %s\n", seed_under_way, program_invocation_name);
    else
        printf("%s: seeds %" PRIu64 " to %" PRIu64 "\n", program_invocation_short_name, first_seed, seed_under_way);
}

/* An assertion of the product that failed, or a seed that never ends: cmocka knows neither. */
static void on_signal(int number)
{
    printf("seed %" PRIu64 " %s\n", seed_under_way, number == SIGALRM ? "hangs" : "ends in an assertion");
    tell();
    fflush(stdout);
    _exit(1);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void run_seeds(uint64_t count, void (*run)(uint64_t seed))
{
    uint64_t seconds = number_of("KAGAMI_SECONDS", 0), first = number_of("KAGAMI_SEED", 1);
    int64_t end_ns = clock_mono_ns(CLOCK_SYSTEM) + (int64_t)seconds * 1000000000;
    static bool will_tell;
    if (under_way) /* of the test before */
        tell();
    if (!will_tell && atexit(tell) == 0)
        will_tell = true;
    (void)signal(SIGABRT, on_signal);
    (void)signal(SIGALRM, on_signal);
    first_seed = first;
    for (uint64_t i = 0; seconds > 0 ? i == 0 || clock_mono_ns(CLOCK_SYSTEM) < end_ns : i < count; i++) {
        seed_under_way = first + i;
        under_way = true;
        alarm(LIFE_SECONDS);
        run(seed_under_way);
        under_way = false;
    }
    alarm(0);
}

static uint64_t count_of(uint64_t usual)
{
    return number_of("KAGAMI_SEEDS", getenv("KAGAMI_SEED") != NULL ? 1 : MAX(usual / SEEDS_DIVISOR, 1));
}

void each_seed(uint64_t usual, void (*run)(uint64_t seed))
{
    run_seeds(count_of(usual), run);
}

void each_sweep(uint64_t usual, void (*run)(uint64_t seed))
{
    uint64_t count = count_of(usual);
    run_seeds(count > usual ? MAX(count / 100, usual) : count, run);
}

const char *trouble_text(enum trouble trouble)
{
    static const char *const TEXTS[] = {"power cut", "kill",      "EIO",  "failed sync",
                                        "ENOSPC",    "full disk", "none", "a sync that lies"};
    return TEXTS[trouble];
}

struct bytes batches_from(struct bytes bytes, int64_t offset)
{
    struct batch_iter it;
    const uint8_t *b;
    batch_iter_init(&it, bytes);
    while (batch_iter_next(&it, &b) == BATCH_FOUND)
        if (batch_last_offset(b) >= offset)
            return (struct bytes){b, bytes.len - (b - bytes.p)};
    return (struct bytes){NULL, 0};
}

int64_t batches_end(struct bytes bytes, int64_t when_empty)
{
    struct batch_iter it;
    const uint8_t *b;
    int64_t end = when_empty;
    batch_iter_init(&it, bytes);
    while (batch_iter_next(&it, &b) == BATCH_FOUND)
        end = batch_next_offset(b);
    return end;
}
