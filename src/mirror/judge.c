#include "mirror/judge.h"

#include "codec/record_batch.h"
#include "meta/controller.h"
#include "mirror/internal.h"

/* Batches that end below what was asked for are left out (a source may begin with any batch up to the one that holds the
 * offset). */
static void skip_known(struct judged *j, int64_t asked_offset)
{
    while (j->batches.len > 0 && batch_last_offset(j->batches.p) < asked_offset) {
        int64_t size = batch_size_bytes(j->batches.p);
        j->batches.p += size;
        j->batches.len -= size;
        j->batch_count--;
    }
}

static int32_t last_epoch(struct bytes batches)
{
    int32_t epoch = -1;
    for (int64_t pos = 0; pos < batches.len; pos += batch_size_bytes(batches.p + pos))
        epoch = batch_leader_epoch(batches.p + pos);
    return epoch;
}

static void nothing(struct judged *j, int64_t asked_offset)
{
    j->batches.len = 0;
    j->batch_count = 0;
    j->next_offset = asked_offset;
    j->max_epoch = j->last_epoch = -1;
    j->max_producer_id = j->overlap_base = -1;
}

void judge_records(struct bytes records, int64_t asked_offset, struct judged *ret_judged)
{
    struct batch_scan scan;
    batch_scan(records, BATCH_SCAN_CRC | BATCH_SCAN_OFFSETS, &scan);
    struct judged j = {.batches = {records.p, scan.good_bytes},
                       .batch_count = scan.batches,
                       .next_offset = scan.last_offset + 1,
                       .max_epoch = scan.max_leader_epoch,
                       .max_producer_id = scan.max_producer_id,
                       .overlap_base = -1,
                       .partial_size = -1};
    if (scan.end == BATCH_BAD) {
        j.fault = scan.error == UNSUPPORTED_FOR_MESSAGE_FORMAT ? JUDGED_OLD_FORMAT : JUDGED_DAMAGED;
        j.fault_offset = scan.error_offset;
        j.fault_reason = scan.reason;
    }
    skip_known(&j, asked_offset);
    if (j.batches.len == 0) {
        nothing(&j, asked_offset);
        if (scan.end == BATCH_PARTIAL)
            j.partial_size = scan.partial_size;
    } else if (j.max_epoch >= INT32_MAX - MIRROR_EPOCH_MARGIN - 1 || j.max_producer_id > PRODUCER_ID_RAISE_MAX) {
        j.fault = JUDGED_IMPOSSIBLE;
        j.fault_offset = batch_base_offset(j.batches.p);
        j.fault_reason = j.max_producer_id > PRODUCER_ID_RAISE_MAX ? "no producer id is left above its own"
                                                                   : "no leader epoch is left above its own";
        nothing(&j, asked_offset);
    } else {
        j.last_epoch = last_epoch(j.batches);
        if (batch_base_offset(j.batches.p) < asked_offset)
            j.overlap_base = batch_base_offset(j.batches.p);
    }
    *ret_judged = j;
}
