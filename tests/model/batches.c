/* Batches for a walk: what a client sends, what a mirror copies. The model's view of each is written down before its bytes are made. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "codec/control.h"
#include "walk.h"

static const int64_t PRODUCERS[] = {0, 1, 2, 3, 1000, INT64_MAX};
static const int32_t SEQUENCES[] = {0, 0, 0, 7, INT32_MAX - 3, INT32_MAX - 1, INT32_MAX};

int64_t walk_pick_producer(struct walk *w)
{
    if (chance(w, 6))
        return -2 - pick(w, 3);
    return PRODUCERS[pick(w, ARRAY_SIZE(PRODUCERS))];
}

static void build(struct walk *w, struct model_batch *b, int codec)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    params.base_offset = b->base_offset;
    params.leader_epoch = b->leader_epoch;
    params.producer_id = b->producer_id;
    params.producer_epoch = b->producer_epoch;
    params.base_sequence = b->base_sequence;
    params.transactional = b->transactional;
    params.codec = (enum codec)codec;
    struct batch_builder builder;
    batch_builder_init(&builder, &params);
    uint8_t value[64];
    for (int i = 0; i < b->record_count; i++) {
        int64_t len = pick(w, sizeof(value));
        random_fill(&w->random.source, value, (size_t)len);
        struct batch_record record = {
            .timestamp = b->records[i].timestamp, .key = {(const uint8_t *)"k", 1}, .value = {value, len}};
        int32_t delta = (int32_t)(b->records[i].offset - b->base_offset);
        WALK_CHECK(w, batch_builder_add_at(&builder, delta, &record) == OK, "a batch cannot be built");
    }
    batch_builder_set_last_offset_delta(&builder, (int32_t)(b->last_offset - b->base_offset));
    WALK_CHECK(w, batch_builder_finish(&builder, &b->bytes) == OK, "a batch cannot be built");
    batch_builder_fini(&builder);
}

void walk_build_data(struct walk *w, struct model_batch *b, int codec)
{
    buf_clear(&b->bytes);
    build(w, b, codec);
}

/* Records at base + 0, 1, .. with times around now. */
static void fill_records(struct walk *w, struct model_batch *b, int count, int64_t most_gap)
{
    int64_t offset = b->base_offset;
    b->max_timestamp = -1;
    b->record_count = 0;
    for (int i = 0; i < count; i++) {
        offset += most_gap > 0 ? pick(w, most_gap + 1) : 0;
        int64_t timestamp = w->clock.now_ms + pick(w, 2000) - 1500;
        b->records[b->record_count++] = (struct model_record){offset++, timestamp};
        b->max_timestamp = MAX(b->max_timestamp, timestamp);
    }
    b->last_offset = MAX(offset - 1, b->base_offset) + (most_gap > 0 ? pick(w, most_gap + 1) : 0);
}

static int16_t pick_epoch(struct walk *w, const struct model_producer *p)
{
    int16_t known = p == NULL ? (int16_t)pick(w, 2) : p->epoch;
    switch (pick(w, 14)) {
    case 0:
        return (int16_t)MIN(known + 1, INT16_MAX);
    case 1:
        return (int16_t)MAX(known - 1, -2);
    case 2:
        return (int16_t)pick(w, 4);
    default:
        return known;
    }
}

static int32_t next_sequence(const struct model_producer *p)
{
    if (p->seen_count == 0)
        return 0;
    int32_t last = p->seen[p->seen_count - 1].last_sequence;
    return last == INT32_MAX ? 0 : last + 1;
}

static int32_t pick_sequence(struct walk *w, const struct model_producer *p, int16_t epoch)
{
    if (p == NULL)
        return SEQUENCES[pick(w, ARRAY_SIZE(SEQUENCES))];
    if (chance(w, 10))
        return (int32_t)((next_sequence(p) + pick(w, 7)) & INT32_MAX);
    return epoch == p->epoch || chance(w, 4) ? next_sequence(p) : 0;
}

void walk_make_client(struct walk *w, struct model_batch *b)
{
    *b = (struct model_batch){
        .kind = MODEL_DATA, .leader_epoch = -1, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    if (!chance(w, 8)) {
        b->producer_id = walk_pick_producer(w);
        const struct model_producer *p = model_producer_find(&w->model.lead, b->producer_id);
        b->producer_epoch = pick_epoch(w, p);
        b->base_sequence = pick_sequence(w, p, b->producer_epoch);
        bool open = p != NULL && p->txn_first >= 0;
        b->transactional = chance(w, 8) ? !open : open || chance(w, 3);
    }
    fill_records(w, b, 1 + (int)pick(w, MIN(4, w->most)), 0);
    build(w, b, chance(w, 8) ? CODEC_LZ4 : CODEC_NONE);
}

/* ---- From elsewhere ---- */

/* Epochs rise from batch to batch in a log; -1 is what very old brokers wrote. */
static int32_t pick_leader_epoch(struct walk *w)
{
    int32_t latest = w->chunk_epoch;
    for (int i = 0; i < w->model.count; i++)
        latest = MAX(latest, w->model.batches[i].leader_epoch);
    switch (pick(w, 12)) {
    case 0:
        return latest + 1;
    case 1:
        return latest + 1 + (int32_t)pick(w, 3);
    case 2:
        return chance(w, 3) && !w->replica.on ? -1 : MAX(latest, 0);
    default:
        return MAX(latest, 0);
    }
}

static void make_control(struct walk *w, struct model_batch *b)
{
    b->last_offset = b->base_offset;
    b->record_count = 1;
    b->records[0] = (struct model_record){b->base_offset, w->clock.now_ms};
    b->max_timestamp = w->clock.now_ms;
    if (b->kind == MODEL_COMMIT || b->kind == MODEL_ABORT) {
        struct end_txn end = {b->kind == MODEL_COMMIT, b->producer_id, b->producer_epoch, b->coordinator_epoch};
        b->transactional = true;
        control_build_end_txn(&b->bytes, &end, w->clock.now_ms, b->base_offset, b->leader_epoch);
        return;
    }
    struct str writer = b->kind == MODEL_BARRIER ? STR(WALK_OWN_CLUSTER) : chance(w, 2) ? STR("another") : STR_NULL;
    b->producer_id = -1;
    b->producer_epoch = -1;
    control_build_mirror_pid_reset(&b->bytes, STR("source"), writer, b->scope, w->clock.now_ms, b->base_offset, b->leader_epoch);
}

static int64_t pick_gap(struct walk *w)
{
    if (!chance(w, 5))
        return 0;
    return chance(w, 30) ? ((int64_t)1 << 31) + pick(w, 3) - 1 : 1 + pick(w, 12);
}

void walk_make_copied(struct walk *w, int64_t end, struct model_batch *b)
{
    *b = (struct model_batch){.base_sequence = -1}; /* draws one by one: a seed is the same walk with every compiler */
    b->base_offset = end + pick_gap(w);
    b->leader_epoch = pick_leader_epoch(w);
    b->producer_id = walk_pick_producer(w);
    const struct model_producer *p = model_producer_find(&w->model.lead, b->producer_id);
    b->producer_epoch = chance(w, 3) ? (int16_t)pick(w, 4) : p != NULL ? p->epoch : (int16_t)pick(w, 2);
    int64_t kind = pick(w, 12);
    if (kind == 0) {
        b->kind = chance(w, 2) ? MODEL_BARRIER : MODEL_PASSIVE;
        b->scope = chance(w, 4) ? 1 : 0;
        make_control(w, b);
    } else if (kind <= 3) {
        b->kind = chance(w, 2) ? MODEL_COMMIT : MODEL_ABORT;
        b->coordinator_epoch = (int32_t)pick(w, 4);
        make_control(w, b);
    } else {
        if (chance(w, 8))
            b->producer_id = b->producer_epoch = -1;
        else if (chance(w, 10))
            b->base_sequence = -1;
        else {
            b->base_sequence = (int32_t)pick(w, 40);
            b->base_sequence += chance(w, 12) ? INT32_MAX - 40 : 0;
        }
        b->transactional = b->producer_id != -1 && chance(w, 2);
        int64_t most_gap = chance(w, 5) ? 2 : 0;
        fill_records(w, b, chance(w, 12) ? 0 : 1 + (int)pick(w, 4), most_gap);
        build(w, b, chance(w, 8) ? CODEC_LZ4 : CODEC_NONE);
    }
}

void walk_describe_batch(const struct model_batch *b, struct buf *out)
{
    static const char *const KINDS[] = {"data", "COMMIT", "ABORT", "own barrier", "foreign barrier"};
    buf_printf(out, "%s", KINDS[b->kind]);
    if (b->kind == MODEL_BARRIER || b->kind == MODEL_PASSIVE)
        buf_printf(out, " scope=%d", b->scope);
    else
        buf_printf(out, " pid=%" PRId64 " epoch=%d", b->producer_id, b->producer_epoch);
    if (b->kind == MODEL_DATA)
        buf_printf(out, " seq=%d%s", b->base_sequence, b->transactional ? " transactional" : "");
    if (b->kind == MODEL_COMMIT || b->kind == MODEL_ABORT)
        buf_printf(out, " coordinator=%d", b->coordinator_epoch);
    buf_printf(out, " offsets %" PRId64 "..%" PRId64 " leader epoch %d, %zu bytes", b->base_offset, b->last_offset,
               b->leader_epoch, b->bytes.len);
}
