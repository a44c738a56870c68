/* The input is a run of batches. Scanner and iterator must agree; the records of every whole batch are walked with all headers, and those of
 * a good batch are built anew and must read the same. CRCs are not asked for, so that the fuzzer gets past them. */
#include <string.h>

#include "base/assert.h"
#include "codec/batch_builder.h"

#define LIMIT 1000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool within(struct bytes inner, struct bytes outer)
{
    return inner.p == NULL || (inner.len >= 0 && inner.p >= outer.p && inner.p + inner.len <= outer.p + outer.len);
}

static void walk_headers(const struct record *record, struct bytes records)
{
    struct bytes headers = record->headers;
    struct record_header header;
    int32_t count = 0;

    while (record_header_next(&headers, &header)) {
        ASSERT(within((struct bytes){(const uint8_t *)header.key.p, header.key.len}, records) && within(header.value, records));
        count++;
    }
    ASSERT(count == record->header_count);
}

static void walk_records(const uint8_t *b)
{
    struct buf scratch = {0}, out = {0};
    struct record_iter it;
    struct record record;
    struct bytes records;
    int64_t bytes = 0;

    if (batch_records(b, LIMIT, &scratch, &records) == OK) {
        record_iter_init(&it, b, records);
        while (record_iter_next(&it, &record)) {
            ASSERT(within(record.key, records) && within(record.value, records) && record.size_bytes > 0);
            walk_headers(&record, records);
            bytes += record.size_bytes;
        }
        if (record_iter_finish(&it) == OK) {
            ASSERT(bytes == records.len);
            ASSERT(batch_recompress(b, records, CODEC_NONE, CODEC_LEVEL_DEFAULT, &out) == OK);
            ASSERT(batch_verify_crc(out.data) && batch_payload(out.data).len == records.len);
        }
    }
    buf_fini(&scratch);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes run = {data, (int64_t)size};
    struct batch_scan scan, strict;
    struct batch_iter it;
    enum batch_found found;
    const uint8_t *b;
    int32_t batches = 0;

    batch_scan(run, 0, &scan);
    batch_scan(run, BATCH_SCAN_CRC | BATCH_SCAN_OFFSETS, &strict);
    ASSERT(strict.batches <= scan.batches && strict.good_bytes <= scan.good_bytes);
    ASSERT((scan.end == BATCH_BAD) == (scan.error != OK) && (scan.reason != NULL) == (scan.error != OK));
    batch_iter_init(&it, run);
    while ((found = batch_iter_next(&it, &b)) == BATCH_FOUND) {
        ASSERT(within((struct bytes){b, batch_size_bytes(b)}, run));
        if (batch_check_offsets(b) == OK)
            ASSERT(batch_last_offset(b) >= batch_base_offset(b));
        ASSERT(batch_last_sequence(b) >= NO_SEQUENCE);
        walk_records(b);
        batches++;
    }
    ASSERT(found == scan.end && batches == scan.batches && it.pos == scan.good_bytes && it.error == scan.error);
    return 0;
}
