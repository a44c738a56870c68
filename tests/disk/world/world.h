/* A directory of three logs on a disk that fails: what is done to it, step by step, what must be there afterwards, and lives that end in trouble. For the programs that walk over it. */
#ifndef KAGAMI_TESTS_DISK_WORLD_H
#define KAGAMI_TESTS_DISK_WORLD_H

#include "log_fixture.h"
#include "os/mutex.h"
#include "os/random.h"
#include "seeds.h"
#include "sim_disk.h"
#include "storage/log_manager.h"

#define LOGS 3
#define DIR "/data/logs"

struct one_log {
    const char *topic;
    int32_t index;
    uint8_t generation; /* of its topic id */
    bool must_exist, may_exist;
    struct buf before; /* its bytes, from before_start on, before the step under way */
    int64_t before_start, before_end;
    int64_t may_grow; /* by how many offsets the step under way may bring it further */
    int64_t
        left_over; /* likewise, of steps before that failed: what they wrote is cut off before the next append, or found after a crash */
    int64_t floor;       /* everything below is durable */
    int32_t epoch_floor; /* so is this epoch */
    int32_t last_epoch;  /* before the step under way */
    bool front_gone;     /* the model of producers sees only what is left */
    struct mutex mutex;
    bool adopted;
};

struct world {
    uint64_t seed;
    struct sim_disk disk;
    struct seeded_random random;
    struct log_fixture f; /* for its batches and its clock; its log is the one under the step */
    struct log_manager *manager;
    struct one_log logs[LOGS];
    enum trouble trouble;
    const char *doing;
    int failures;                  /* times the manager said that its directory failed */
    bool retains, raises, deletes; /* what this world does beyond appending */
    bool hit;                      /* the last life had its trouble */
    bool expect_clean;             /* the last end was a clean one, durably */
    struct buf events, history;
};

/* ---- world.c ---- */

void world_init(struct world *w, uint64_t seed);
void world_fini(struct world *w);
uint64_t pick(struct world *w, uint64_t bound);
/* The test fails, with the world's history. */
void wrong(const struct world *w, const struct one_log *l, const char *format, ...) PRINTF_LIKE(3, 4);
bool failed(struct world *w);
/* NULL: not there, or out of service. */
struct plog *log_of(struct world *w, const struct one_log *l);
struct uuid id_of(const struct one_log *l);
void forget(struct one_log *l);
/* What the log holds now is what must be there, or a prefix of it. */
void remember(struct world *w, struct one_log *l);
enum error open_manager(struct world *w, struct problem *problem);

/* ---- steps.c ---- */

/* Anything that storage does, to one of the logs or to all. */
enum error step(struct world *w);
enum error create(struct world *w, struct one_log *l);

/* ---- checks.c ---- */

/* After a start: nothing durable is lost, nothing is there that was not written. */
void check(struct world *w);

/* ---- lives.c ---- */

/* From an end to a directory that is open and checked. The first tries may have trouble of their own. */
void reopen(struct world *w);
/* The same, with the trouble that was prepared for the first try; whether it had an effect. */
bool start(struct world *w);
/* The trouble of the life to come, at a chosen operation. */
void prepare(struct world *w, enum trouble trouble, uint64_t at);
/* Steps until the trouble has had its effect. */
void live(struct world *w, int steps);
/* Cleanly or not, as the trouble has it. */
void end(struct world *w, bool clean);
void end_life(struct world *w, bool power);

#endif
