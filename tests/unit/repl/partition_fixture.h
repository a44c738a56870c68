/* A partition on a log in a folder of its own, with a gate before its flushes and a loop that the test steps. */
#ifndef KAGAMI_TESTS_PARTITION_FIXTURE_H
#define KAGAMI_TESTS_PARTITION_FIXTURE_H

#include "base/arena.h"
#include "base/buf.h"
#include "gate_fs.h"
#include "repl/partition.h"

struct partition_fixture {
    char root[64];
    struct manual_clock clock;
    struct gate_fs gate;
    struct helpers *helpers;
    struct loop *loop;
    struct partition_env env;
    struct plog_config config;
    struct plog *log;
    struct partition *p;
    struct arena arena;
    int storage_failures;
};

void partition_fixture_init(struct partition_fixture *f, bool flush_acks_all);
void partition_fixture_fini(struct partition_fixture *f);

/* Appends n records of nobody; the waiter may stand. */
struct waiting {
    struct partition_fixture *f;
    struct partition_wake wake;
    struct partition_waiter waiter;
    bool stands;
    bool done; /* its task ran */
    enum error result;
};
enum error write_records(struct partition_fixture *f, int16_t acks, int n, struct waiting *w, int64_t *ret_base_offset);
/* As write_records, for an idempotent producer. */
enum error write_sequence(struct partition_fixture *f, int16_t acks, int64_t producer_id, int32_t sequence, struct waiting *w,
                          int64_t *ret_base_offset);
void waiting_init(struct waiting *w, struct partition_fixture *f);
/* Steps the loop until the task ran. */
void await_done(struct waiting *w);
int64_t high_watermark(struct partition_fixture *f);
/* A batch as it stands in another cluster's log. */
void make_copied(struct partition_fixture *f, int64_t base_offset, int32_t leader_epoch, int n, struct buf *out);

#endif
