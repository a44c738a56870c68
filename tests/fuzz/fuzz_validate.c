/* What a producer sends: validated under settings that byte 0 chooses, with the CRC put right when bit 7 says so. What is taken must be a batch that its own readers take. */
#include <stdlib.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "storage/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_stored(const struct validated *v)
{
    struct buf whole = {0}, scratch = {0};
    struct bytes records;
    struct record_iter it;
    struct record record;
    int64_t max = -1;
    int32_t n = 0;
    buf_append(&whole, v->header, sizeof(v->header));
    buf_append(&whole, v->rest.p, (size_t)v->rest.len);
    ASSERT(batch_size_bytes(whole.data) == (int64_t)whole.len);
    ASSERT(batch_verify_crc(whole.data));
    ASSERT(batch_check_offsets(whole.data) == OK);
    ASSERT(batch_records(whole.data, LIMIT_DECOMPRESSED_BYTES, &scratch, &records) == OK);
    record_iter_init(&it, whole.data, records);
    for (; record_iter_next(&it, &record); n++) {
        ASSERT(record.offset_delta == n);
        max = MAX(max, record.timestamp);
    }
    ASSERT(record_iter_finish(&it) == OK && n == v->record_count);
    ASSERT(max == v->max_timestamp);
    buf_fini(&whole);
    buf_fini(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct validate_config config = validate_config_default();
    struct validated v;
    struct validate_errors errors;
    struct problem problem;
    struct arena arena;
    if (size < 1)
        return 0;
    config.log_append_time = data[0] & 1;
    config.compacted = data[0] & 2;
    config.compression = (data[0] >> 2 & 7) % 6 - 1;
    config.timestamp_before_max_ms = data[0] & 32 ? 1000 : INT64_MAX;
    uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    struct batch_iter it;
    const uint8_t *batch;
    batch_iter_init(&it, (struct bytes){copy, (int64_t)size - 1});
    if (data[0] & 128 && batch_iter_next(&it, &batch) == BATCH_FOUND)
        batch_update_crc(copy);
    arena_init(&arena, 1 << 20);
    if (validate_records((struct bytes){copy, (int64_t)size - 1}, 11, VALIDATE_CLIENT, &config, 1000000, &arena, &v, &errors,
                         &problem) == OK) {
        check_stored(&v);
        validated_fini(&v);
    }
    arena_fini(&arena);
    free(copy);
    return 0;
}
