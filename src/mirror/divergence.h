/* Decisions when the source does not know our position any more. Pure. */
#ifndef KAGAMI_MIRROR_DIVERGENCE_H
#define KAGAMI_MIRROR_DIVERGENCE_H

#include <stdbool.h>
#include <stdint.h>

enum divergence_verdict {
    DIVERGENCE_NONE,     /* the histories agree: come again later */
    DIVERGENCE_GAP,      /* the source has removed what is next: its log starts above our end */
    DIVERGENCE_TRUNCATE, /* what is here from `offset` on is not in the source's log */
    DIVERGENCE_ASK,      /* ask for the end of `epoch` */
    DIVERGENCE_NOTHING,  /* no history in common */
};

struct divergence_view {
    int64_t end_offset; /* ours */
    int64_t source_start;
    int32_t asked_epoch;  /* the epoch that OffsetForLeaderEpoch was asked for: first that of our last batch */
    int32_t source_epoch; /* its answer: the largest epoch <= asked_epoch there, and where it ends; -1: none */
    int64_t source_end;
    int32_t local_epoch; /* the largest epoch <= source_epoch here, and where it ends; -1: none */
    int64_t local_end;
};

struct divergence_step {
    enum divergence_verdict verdict;
    int64_t offset; /* TRUNCATE */
    int32_t epoch;  /* ASK */
};

/* The source's log starts above our end, whatever the histories say. */
bool divergence_is_gap(int64_t end_offset, int64_t source_start);
/* One step of the exchange by which both sides find the end of their common history (Kafka:
 * AbstractFetcherThread.getOffsetTruncationState). */
struct divergence_step divergence_judge(const struct divergence_view *view);

#endif
