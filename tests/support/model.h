/* A partition as the specification tells it, in the plainest way: a list of batches, and what follows from it. Slow, without files, without a line of the code that it is held against.
 *
 * The producer state is what replaying the list gives (spec section 5, Kafka's ProducerStateManager): model_replay(). What the leader knows may be more or less than that, when the front
 * of the log is gone or a snapshot forgot what snapshots can't keep; so the model keeps beside it what this leader must know (`lead`), batch by batch. */
#ifndef KAGAMI_TESTS_MODEL_H
#define KAGAMI_TESTS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define MODEL_PRODUCERS 64
#define MODEL_REMEMBERED 5 /* batches of a producer */
#define MODEL_RECORDS 8    /* of a batch */
#define MODEL_TXNS 1024
#define MODEL_EPOCHS 512

enum model_kind {
    MODEL_DATA,
    MODEL_COMMIT,
    MODEL_ABORT,
    MODEL_BARRIER, /* written by our own cluster */
    MODEL_PASSIVE, /* a barrier of another cluster, or of nobody */
};

struct model_record {
    int64_t offset, timestamp;
};

struct model_batch {
    enum model_kind kind;
    int64_t base_offset, last_offset;
    int32_t leader_epoch;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    bool transactional;
    int32_t coordinator_epoch; /* of markers */
    int8_t scope;              /* of barriers */
    bool durable_first;        /* not to be seen before it is on disk */
    int64_t max_timestamp;
    int record_count;
    struct model_record records[MODEL_RECORDS];
    struct buf bytes; /* as they must stand in the log */
};

struct model_seen { /* a remembered batch */
    int32_t first_sequence, last_sequence;
    int64_t first_offset, last_offset, timestamp;
};

struct model_producer {
    int64_t id, last_timestamp, txn_first; /* -1: none open */
    int16_t epoch;
    int32_t coordinator_epoch;
    int seen_count;
    struct model_seen seen[MODEL_REMEMBERED]; /* oldest first */
};

struct model_txn { /* one that a marker ended */
    int64_t producer_id, first_offset, marker_offset;
    bool aborted;
};

struct model_state {
    int producer_count, txn_count;
    struct model_producer producers[MODEL_PRODUCERS];
    struct model_txn txns[MODEL_TXNS];
};

struct model_epochs {
    int count;
    struct model_epoch {
        int32_t epoch;
        int64_t start;
    } items[MODEL_EPOCHS];
};

struct model {
    struct model_batch *batches; /* also those that retention took from the disk */
    int count, capacity;
    int64_t log_start, end, hw;
    struct model_state lead;
    int64_t lead_txns_from; /* of the transactions that ended, lead has those with a marker from here on for certain */
    struct model_epochs epochs;
};

void model_init(struct model *m);
void model_fini(struct model *m);

/* ---- Producer state ---- */

struct model_producer *model_producer_find(struct model_state *s, int64_t id); /* NULL when unknown */
void model_state_add(struct model_state *s, const struct model_batch *b);
/* All batches that end at or behind `from`, in order. */
void model_replay(const struct model *m, int64_t from, struct model_state *ret_state);
/* First offset of open transactions, and of those whose marker is at or above hw and at or above from; -1 without. */
int64_t model_first_unstable(const struct model_state *s, int64_t hw, int64_t from);
int model_in_scope(const struct model_state *s, int8_t scope); /* producers that a barrier would drop */
/* Answer to a client's batch that would be placed at the end: OK (*ret_duplicate: the batch that it repeats, or NULL), or the error. */
enum error model_check_client(struct model *m, const struct model_batch *b, const struct model_seen **ret_duplicate);
/* The same for a coordinator's: its epoch is checked, its sequence is not. */
enum error model_check_coordinator(struct model *m, const struct model_batch *b);
/* The same for a marker of our own. */
enum error model_check_marker(struct model *m, const struct model_batch *b);

/* ---- The log ---- */

/* Takes the batch over, its bytes with it. */
void model_append(struct model *m, struct model_batch *b);
void model_truncate(struct model *m, int64_t end); /* end: where the log ends now */
void model_restart(struct model *m, int64_t offset);
void model_set_start(struct model *m, int64_t offset);

/* ---- Leader epochs ---- */

void model_epochs_assign(struct model_epochs *e, int32_t epoch, int64_t start);
/* What a batch behind one that ends at previous_end does. */
void model_epochs_note(struct model_epochs *e, const struct model_batch *b, int64_t previous_end);
void model_epochs_cut_end(struct model_epochs *e, int64_t end); /* drops those that begin at or behind end */
void model_epochs_cut_start(struct model_epochs *e, int64_t start);
/* What the batches that end at or behind from tell. */
void model_epochs_replay(const struct model *m, int64_t from, struct model_epochs *ret_epochs);
/* What opening a log that begins at from makes of them: the log start may be lower than it was, and what came back has its epochs. */
void model_epochs_complete(const struct model *m, int64_t from, struct model_epochs *e);
void model_epochs_end_offset(const struct model_epochs *e, int32_t epoch, int64_t log_end, int32_t *ret_epoch, int64_t *ret_end);
int32_t model_epochs_of_offset(const struct model_epochs *e, int64_t offset);
int32_t model_epochs_latest(const struct model_epochs *e);

#endif
