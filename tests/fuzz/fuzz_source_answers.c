/* What a hostile source may answer to a fetcher. The first byte says what the rest is: records of a partition, a Fetch answer,
 * or numbers of an epoch exchange. What is judged fit to be stored must be whole, checked, rising and not below what was asked
 * for; an epoch exchange must come to an end. */
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "codec/record_batch.h"
#include "mirror/divergence.h"
#include "mirror/judge.h"
#include "proto/messages.h"
#include "proto/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(struct bytes records, int64_t asked)
{
    struct judged j;
    judge_records(records, asked, &j);
    int64_t next = asked, pos = 0;
    int32_t batches = 0;
    ASSERT(j.batches.len >= 0 && j.batches.len <= records.len);
    for (; pos < j.batches.len; batches++) {
        const uint8_t *b = j.batches.p + pos;
        ASSERT(j.batches.len - pos >= BATCH_OVERHEAD && batch_size_bytes(b) <= j.batches.len - pos);
        ASSERT(batch_verify_crc(b) && batch_check_offsets(b) == OK);
        ASSERT(batches == 0 ? batch_last_offset(b) >= asked : batch_base_offset(b) >= next);
        ASSERT(batch_leader_epoch(b) <= j.max_epoch && batch_producer_id(b) <= j.max_producer_id);
        next = batch_next_offset(b);
        pos += batch_size_bytes(b);
    }
    ASSERT(pos == j.batches.len && batches == j.batch_count && j.next_offset == next);
    ASSERT((j.overlap_base >= 0) == (batches > 0 && batch_base_offset(j.batches.p) < asked));
    ASSERT(j.fault == JUDGED_SOUND || j.fault_reason != NULL || j.fault_offset >= -1);
}

static void judge_answer(const uint8_t *data, size_t size, int16_t version)
{
    struct arena arena;
    struct fetch_response r;
    arena_init(&arena, 1 << 20);
    if (proto_decode(&PROTO_FETCH_RESPONSE, version, (struct bytes){data, (int64_t)size}, &arena, &r, NULL) == OK) {
        for (int32_t t = 0; t < r.responses_n; t++) {
            for (int32_t p = 0; p < r.responses[t].partitions_n; p++) {
                const struct fetch_response_responses_partitions *a = &r.responses[t].partitions[p];
                if (a->records.p != NULL)
                    judge((struct bytes){a->records.p, a->records.len}, a->high_watermark & INT64_C(0xffff));
            }
        }
    }
    arena_fini(&arena);
}

/* Our epochs and ends, then theirs, out of the bytes; each question is about a lower epoch than the last. */
static void exchange(const uint8_t *data, size_t size)
{
    struct divergence_view v = {.asked_epoch = INT32_MAX};
    if (size < 16)
        return;
    v.end_offset = get_i64(data) & INT64_MAX;
    v.source_start = get_i64(data + 8);
    for (size_t at = 16; at + 24 <= size; at += 24) {
        v.source_epoch = get_i32(data + at);
        v.source_end = get_i64(data + at + 4);
        v.local_epoch = get_i32(data + at + 12);
        if (v.local_epoch > v.source_epoch) /* by its definition the largest here that is not above it */
            v.local_epoch = v.source_epoch;
        v.local_end = get_i64(data + at + 16);
        struct divergence_step step = divergence_judge(&v);
        ASSERT(step.verdict != DIVERGENCE_TRUNCATE || (step.offset < v.end_offset && step.offset >= v.source_start));
        if (step.verdict != DIVERGENCE_ASK)
            return;
        ASSERT(step.epoch >= 0 && step.epoch < v.asked_epoch);
        v.asked_epoch = step.epoch;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    if (data[0] % 3 == 0)
        judge((struct bytes){data + 3, (int64_t)size - 3}, get_u16(data + 1));
    else if (data[0] % 3 == 1)
        judge_answer(data + 3, size - 3, (int16_t)(10 + data[1] % 9));
    else
        exchange(data + 3, size - 3);
    return 0;
}
