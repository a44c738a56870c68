/* Judges the records of one partition in a source's answer before anything of them is stored. Pure. */
#ifndef KAGAMI_MIRROR_JUDGE_H
#define KAGAMI_MIRROR_JUDGE_H

#include <stdint.h>

#include "base/str.h"

enum judged_fault {
    JUDGED_SOUND,
    JUDGED_DAMAGED,    /* sizes, CRC, order of offsets */
    JUDGED_OLD_FORMAT, /* magic below 2 */
    JUDGED_IMPOSSIBLE, /* a leader epoch or producer id that could not be followed by any other */
};

struct judged {
    struct bytes batches; /* whole, checked, rising; none ends below the offset that was asked for */
    int32_t batch_count;
    int64_t next_offset;           /* behind the last of them; what was asked for when there is none */
    int32_t max_epoch, last_epoch; /* -1 */
    int64_t max_producer_id;       /* -1 */
    int64_t overlap_base;          /* the first of them begins below the offset that was asked for: its base offset; else -1 */
    int64_t partial_size; /* nothing is whole but the beginning of a batch of this size is there (0: size not known); else -1 */
    enum judged_fault fault; /* what stands behind the batches */
    int64_t fault_offset;
    const char *fault_reason; /* static text */
};

void judge_records(struct bytes records, int64_t asked_offset, struct judged *ret_judged);

#endif
