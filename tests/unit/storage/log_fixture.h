/* A partition log in a folder of its own, with a manual clock, for the tests of plog. */
#ifndef KAGAMI_TESTS_LOG_FIXTURE_H
#define KAGAMI_TESTS_LOG_FIXTURE_H

#include "base/buf.h"
#include "base/clock.h"
#include "os/random.h"
#include "storage/plog.h"

#define OWN_CLUSTER "own-cluster"
#define NO_PID INT64_C(-1)

struct log_fixture {
    char root[64];
    char dir[128];
    struct manual_clock clock;
    struct plog_params params;
    struct plog *log;
    struct buf events;    /* one line each */
    int checkpoints;      /* calls of params.checkpoint */
    int64_t checkpointed; /* recovery point at the last of them, 0 */
    int failures;
    bool simulated; /* no folder to be removed */
};

/* Creates the folder and the parameters (small indexes, 1 MiB segments), and opens an empty log. */
void log_fixture_init(struct log_fixture *f);
/* The same on another file system, in the folder /sim/topic-0, with the log not yet opened. */
void log_fixture_init_on(struct log_fixture *f, struct fs *fs);
void log_fixture_fini(struct log_fixture *f); /* drops the log, removes the folder */
/* The two as cmocka's setup and teardown: an open log in *state. */
int log_fixture_setup(void **state);
int log_fixture_teardown(void **state);
/* Opens again after log_fixture_close or _crash. */
void log_fixture_open(struct log_fixture *f);
enum error log_fixture_try_open(struct log_fixture *f, struct problem *problem);
/* A clean end: the parameters then say so, with checkpoints as the log manager would have written them. */
void log_fixture_close(struct log_fixture *f);
/* kill -9: what is written stays. Checkpoints are those of the last checkpoint call, here: recovery point of the last checkpoint call, or 0; log start and HW kept. */
void log_fixture_crash(struct log_fixture *f);
void log_fixture_remove_file(struct log_fixture *f, const char *name);
bool log_fixture_has_file(struct log_fixture *f, const char *name);
/* A copy of the log's folder becomes the one that is opened next; the old one stays open. */
void log_fixture_copy_dir(const char *from, const char *to);

/* ---- Batches ---- */

struct batch_spec {
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int records;
    bool transactional;
    int64_t timestamp; /* 0: the clock's */
    int value_bytes;   /* of each record; 0: 10 */
    int codec;
};

/* A whole batch with base offset 0 as a client sends it. */
void make_batch(struct log_fixture *f, const struct batch_spec *spec, struct buf *out);
/* As it stands in another cluster's log. */
void make_copied(struct log_fixture *f, const struct batch_spec *spec, int64_t base_offset, int32_t leader_epoch,
                 struct buf *out);
/* Validates and appends; returns plog_append_client's answer. */
enum error append(struct log_fixture *f, const struct batch_spec *spec, struct plog_appended *ret_appended);
/* What producer `pid` sends next: epoch and sequence go on from its state; in its transaction, while one is open. */
enum error append_next(struct log_fixture *f, int64_t pid, int records, bool transactional);
/* One to six batches as they would be copied behind the log's end, with gaps, rising epochs and producers by chance. Returns where they end. */
int64_t make_chunk(struct log_fixture *f, struct random_source *random, struct buf *out);
/* n records of nobody; asserts success. */
int64_t append_plain(struct log_fixture *f, int n);
/* The same for an idempotent producer. */
int64_t append_from(struct log_fixture *f, int64_t producer_id, int16_t epoch, int32_t sequence, int n);
int64_t append_txn(struct log_fixture *f, int64_t producer_id, int16_t epoch, int32_t sequence, int n);
int64_t append_end_txn(struct log_fixture *f, int64_t producer_id, int16_t epoch, bool commit);
int64_t append_barrier(struct log_fixture *f, int *ret_expired);
enum error append_copied(struct log_fixture *f, const struct buf *batches);
/* HW to the LEO. */
void commit_all(struct log_fixture *f);

/* ---- Looking ---- */

/* All bytes of the log from offset to the LEO. */
void read_all(struct log_fixture *f, int64_t offset, struct buf *out);
/* The producer state as text, in the order of producer ids: what a snapshot keeps. */
void describe_producers(struct log_fixture *f, struct buf *out);
/* Base offsets of the batches, "0 3 7". */
void describe_batches(struct log_fixture *f, int64_t offset, struct buf *out);
void assert_events_have(struct log_fixture *f, const char *text);

#endif
