/* What the programs of tests/disk share: how many seeds, which one, and how a failing one is named. */
#ifndef KAGAMI_TESTS_SEEDS_H
#define KAGAMI_TESTS_SEEDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "os/random.h"
#include "sim_disk.h"

/* Of the environment: from KAGAMI_SEED on (1), KAGAMI_SEEDS of them (1 when a seed is given, else usual), or for KAGAMI_SECONDS. At the end of the program stands which seeds ran, or what
 * replays the one that failed. */
void each_seed(uint64_t usual, void (*run)(uint64_t seed));
/* The same beside an each_seed in one program, for what takes hundreds of lives a seed: a hundredth of KAGAMI_SEEDS. */
void each_sweep(uint64_t usual, void (*run)(uint64_t seed));

/* What ends a life, and in what way it fails before. */
enum trouble {
    TROUBLE_POWER,    /* the power goes at an operation */
    TROUBLE_KILL,     /* the process ends there, and the machine lives on */
    TROUBLE_EIO,      /* one operation fails, the process goes on */
    TROUBLE_SYNC,     /* the same for a sync, which says OK the next time */
    TROUBLE_NO_SPACE, /* one operation finds no room */
    TROUBLE_FULL,     /* no room at all from some size on, until room is made */
    TROUBLE_NONE,
    TROUBLE_LIE, /* one sync says OK and does nothing. Not among what is drawn: no storage keeps its promises then */
};
const char *trouble_text(enum trouble trouble);

/* The bytes of the first batch that ends at or behind offset, and all behind it. */
struct bytes batches_from(struct bytes bytes, int64_t offset);
/* Number of batches and end offset of whole batches. */
int64_t batches_end(struct bytes bytes, int64_t when_empty);

#endif
