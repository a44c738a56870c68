#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "bench.h"
#include "codec/batch_builder.h"

/* Half of it repeats: a codec finds something to do, and not too much. */
static void fill(uint8_t *value, size_t len, uint64_t *state)
{
    for (size_t i = 0; i < len; i++) {
        if (i % 16 == 0)
            *state = *state * 6364136223846793005u + 1442695040888963407u;
        value[i] = i % 16 < 8 ? (uint8_t)('a' + i % 8) : (uint8_t)(*state >> (8 * (i % 8)));
    }
}

static uint32_t crc_of(const struct buf *batch)
{
    return crc32c(0, batch->data + BATCH_POS_ATTRIBUTES, batch->len - BATCH_POS_ATTRIBUTES);
}

void template_init(struct template *t, const char *codec, int32_t records, int32_t record_bytes, int64_t producer_id,
                   int16_t producer_epoch)
{
    static const char *const CODECS[] = {"none", "gzip", "snappy", "lz4", "zstd"};
    struct batch_params params = BATCH_PARAMS_INIT;
    int found = -1;
    for (int i = 0; i < 5; i++)
        found = strcmp(codec, CODECS[i]) == 0 ? i : found;
    if (found < 0)
        die("no codec %s", codec);
    params.codec = (enum codec)found;
    params.producer_id = producer_id;
    params.producer_epoch = producer_epoch;
    params.base_sequence = producer_id >= 0 ? 0 : -1;
    struct batch_builder builder;
    batch_builder_init(&builder, &params);
    struct buf value = {0};
    uint64_t state = 1;
    buf_reserve(&value, (size_t)record_bytes);
    value.len = (size_t)record_bytes;
    int64_t now = (int64_t)time(NULL) * 1000; /* older ones would be retention.ms away before they are read */
    for (int32_t i = 0; i < records; i++) {
        fill(value.data, value.len, &state);
        if (batch_builder_add(&builder, &(struct batch_record){.timestamp = now, .value = buf_bytes(&value)}) != OK)
            die("the batch is too large");
    }
    *t = (struct template){.records = records};
    if (batch_builder_finish(&builder, &t->batch) != OK)
        die("the batch cannot be built");
    buf_fini(&value);
    batch_builder_fini(&builder);
    uint8_t *sequence = t->batch.data + BATCH_POS_BASE_SEQUENCE;
    uint8_t kept[4];
    memcpy(kept, sequence, 4);
    put_u32(sequence, 0);
    t->base_crc = crc_of(&t->batch);
    for (int bit = 0; bit < 32 && producer_id >= 0; bit++) {
        put_u32(sequence, 1u << bit);
        t->bit_crc[bit] = crc_of(&t->batch) ^ t->base_crc;
    }
    memcpy(sequence, kept, 4);
}

void template_fini(struct template *t)
{
    buf_fini(&t->batch);
}

void template_header(const struct template *t, int32_t sequence, uint8_t *out)
{
    memcpy(out, t->batch.data, BATCH_OVERHEAD);
    if (sequence < 0)
        return;
    uint32_t crc = t->base_crc;
    for (int bit = 0; bit < 31; bit++)
        crc ^= ((uint32_t)sequence >> bit & 1) != 0 ? t->bit_crc[bit] : 0;
    put_i32(out + BATCH_POS_BASE_SEQUENCE, sequence);
    put_u32(out + BATCH_POS_CRC, crc);
}
