/* A random walk over a real partition log and the model beside it. A walk is a list of steps; each has its own seed, so that a step means the same when others are left out. */
#ifndef KAGAMI_TESTS_WALK_H
#define KAGAMI_TESTS_WALK_H

#include "memory_fs.h"
#include "model.h"
#include "os/random.h"
#include "repl/partition.h"
#include "storage/plog.h"

#define WALK_DIR "d/topic-0"
#define WALK_OWN_CLUSTER "own-cluster"
#define WALK_STEPS 200    /* at most */
#define WALK_SEGMENTS 400 /* of a log */
#define WALK_TRACE_BYTES (1024 * 1024)

enum step_kind {
    STEP_CLIENT,
    STEP_REPEAT, /* a batch that was sent before */
    STEP_MARKER,
    STEP_BARRIER,
    STEP_COPIED,
    STEP_ROLL,
    STEP_TRUNCATE,
    STEP_RESTART,
    STEP_SNAPSHOT,
    STEP_RETENTION,
    STEP_SET_START,
    STEP_ASSIGN_EPOCH,
    STEP_SET_HW,
    STEP_FLUSH,
    STEP_CHECKPOINT,
    STEP_CLOCK,
    STEP_EXPIRE,
    STEP_REOPEN,
    STEP_DISK, /* from here on of partitions only */
    STEP_FLIP,
    STEP_STOP,
    STEP_KINDS
};

enum walk_kind {
    WALK_LOG,      /* over a bare log */
    WALK_PARTITION /* over a partition of src/repl */
};

struct step {
    enum step_kind kind;
    int most; /* batches of a chunk, records of a batch: shrinking lowers it */
    uint64_t seed;
};

/* What a failing walk leaves: in memory that its parent process shares. */
struct trace {
    uint64_t seed;    /* of the walk that runs */
    uint64_t counted; /* walks done */
    size_t len;
    bool verbose;
    char failure[4096];
    char text[WALK_TRACE_BYTES]; /* one line a step */
};

struct segments { /* of a folder, by what its files say */
    int count;
    int64_t base[WALK_SEGMENTS];
};

#define REPLICA_WAITS 32

struct replica_wait { /* a write that waits for the disk */
    struct walk *walk;
    struct partition_waiter waiter;
    bool used, done;
    enum error result;
};

struct replica { /* the partition around the log; p NULL: there is none */
    struct partition_env env;
    struct partition *p;
    int32_t leader_epoch;
    bool on, mirrored;
    int nested; /* steps to come while the disk works */
    struct replica_wait waits[REPLICA_WAITS];
};

struct walk {
    struct trace *trace;
    struct seeded_random random; /* of the step */
    struct manual_clock clock;
    struct memory_fs fs;
    struct plog_params params;
    struct plog *log;
    struct plog_checkpoint saved; /* the checkpoint files */
    struct model model;
    struct replica replica;
    struct segments segments; /* as they were before the step */
    int most;
    int32_t chunk_epoch; /* highest leader epoch of the chunk that is being made, -1 */
    bool stepping;
    struct model_state full, least; /* scratch of checks: the whole history, and what stands in the log */
};

/* Runs the walk in this process; a difference ends the process with walk_fail(). */
void walk_run(struct trace *trace, enum walk_kind kind, uint64_t seed, const struct step *steps, int count);
int walk_plan(enum walk_kind kind, uint64_t seed, int most_steps,
              struct step *ret_steps); /* the steps of a seed; returns how many */
const char *walk_step_name(enum step_kind kind);

/* ---- Of the files of the walk ---- */

void walk_note(struct walk *w, const char *format, ...) PRINTF_LIKE(2, 3);
_Noreturn void walk_fail(struct walk *w, const char *format, ...) PRINTF_LIKE(2, 3);
#define WALK_CHECK(w, condition, ...)                                                                                            \
    do {                                                                                                                         \
        if (!(condition))                                                                                                        \
            walk_fail(w, __VA_ARGS__);                                                                                           \
    } while (0)

static inline int64_t pick(struct walk *w, int64_t bound) /* 0 .. bound - 1 */
{
    return bound <= 1 ? 0 : (int64_t)random_below(&w->random.source, (uint64_t)bound);
}
static inline bool chance(struct walk *w, int one_in)
{
    return pick(w, one_in) == 0;
}

void walk_open(struct walk *w);
bool walk_is_idle(const struct walk *w, const struct model_producer *p); /* for producer.id.expiration.ms */
void walk_list_segments(struct walk *w, const struct memory_fs *fs, struct segments *ret_segments);
void walk_step(struct walk *w, const struct step *step); /* steps.c: does it, and holds the answers against the model */
void walk_do(struct walk *w, enum step_kind kind);       /* the same with the walk's random numbers as they stand */
void walk_truncate(struct walk *w, int64_t offset);
void walk_append_marker(struct walk *w, struct model_batch *b); /* producer, epochs and kind are set */
void walk_append_barrier(struct walk *w, int8_t scope);
void walk_reopen(struct walk *w); /* reopen.c */

/* ---- What batches look like (batches.c) ---- */

int64_t walk_pick_producer(struct walk *w);
/* A client's batch in *b, its bytes at base offset 0. */
void walk_make_client(struct walk *w, struct model_batch *b);
/* Builds the bytes of a data batch from its fields. */
void walk_build_data(struct walk *w, struct model_batch *b, int codec);
/* The next batch of a chunk from elsewhere, at or behind end. */
void walk_make_copied(struct walk *w, int64_t end, struct model_batch *b);
void walk_describe_batch(const struct model_batch *b, struct buf *out);

/* ---- Checks (compare.c) ---- */

struct expected {
    const char *who; /* "leader", "reloaded", "recovered" */
    const struct memory_fs *fs;
    const struct model_state *exact; /* the producer state, or NULL: between walk.least and walk.full */
    const struct model_epochs *epochs;
    int64_t log_start, hw;
    int64_t txns_from;     /* lead_txns_from of it */
    int reads;             /* random ones */
    int64_t replayed_from; /* the batches from here on were replayed: all are remembered */
};
void walk_compare(struct walk *w, struct plog *log, const struct expected *x);
/* The epochs that a process finds which opens what stands in fs now, recovery point and all: those in the file, and those of the batches that recovery reads. What was assigned since
 * the last flush and has no batch is lost with the process. */
void walk_epochs_on_disk(const struct walk *w, struct memory_fs *fs, const struct plog_checkpoint *c,
                         struct model_epochs *ret_epochs);
/* A fetch from the partition. */
void walk_check_fetch(struct walk *w);
/* After every step: leader, reloaded, recovered. */
void walk_check_all(struct walk *w, bool thorough);
/* What the log knows of its producers, after it was compared, becomes what the model knows. */
void walk_adopt_producers(struct walk *w, int64_t txns_from);

#endif
