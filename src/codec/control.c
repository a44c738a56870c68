#include "codec/control.h"

#include "base/assert.h"
#include "codec/batch_builder.h"

#define KEY_BYTES 4
#define END_TXN_VALUE_BYTES 6
#define VALUE_VERSION 0
#define TAG_WRITER_CLUSTER_ID 0
#define TAG_SCOPE 1

static const char *const TYPE_NAMES[] = {
    "ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS", "MIRROR_PID_RESET",
};

const char *control_type_name(int type)
{
    return type >= 0 && type < (int)ARRAY_SIZE(TYPE_NAMES) ? TYPE_NAMES[type] : "UNKNOWN";
}

/* ---- Reading ---- */

static bool take_uvarint(struct bytes *in, uint32_t *ret_v)
{
    int used = get_uvarint(in->p, in->p + in->len, ret_v);

    *in = (struct bytes){in->p + used, in->len - used};
    return used > 0;
}

/* Compact: length + 1 in front, 0 would be null. As every Kafka string, at most 32767 bytes. */
static bool take_compact_string(struct bytes *in, struct str *ret_str)
{
    uint32_t n;

    if (!take_uvarint(in, &n) || n == 0 || n - 1 > INT16_MAX || n - 1 > in->len)
        return false;
    *ret_str = (struct str){(const char *)in->p, (int32_t)n - 1};
    *in = (struct bytes){in->p + n - 1, in->len - (n - 1)};
    return true;
}

static bool take_tag(uint32_t tag, struct bytes value, struct control_record *control)
{
    switch (tag) {
    case TAG_WRITER_CLUSTER_ID:
        return take_compact_string(&value, &control->writer_cluster_id) && value.len == 0;
    case TAG_SCOPE:
        if (value.len != 1)
            return false;
        control->scope = (int8_t)*value.p;
        return true;
    default:
        return true;
    }
}

/* Tags rise strictly, as every writer puts them. */
static bool take_tags(struct bytes *in, struct control_record *control)
{
    int64_t last = -1;
    uint32_t count, tag, size;

    if (!take_uvarint(in, &count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!take_uvarint(in, &tag) || !take_uvarint(in, &size) || tag <= last || size > in->len)
            return false;
        if (!take_tag(tag, (struct bytes){in->p, size}, control))
            return false;
        *in = (struct bytes){in->p + size, in->len - size};
        last = tag;
    }
    return true;
}

static bool parse_mirror_pid_reset(struct control_record *control)
{
    struct bytes in = control->value;

    if (in.len < 2)
        return false;
    control->value_version = get_i16(in.p);
    in = (struct bytes){in.p + 2, in.len - 2};
    return control->value_version >= 0 && take_compact_string(&in, &control->source_cluster_id) && take_tags(&in, control) &&
           in.len == 0;
}

static bool parse_end_txn(struct control_record *control)
{
    if (control->value.len < END_TXN_VALUE_BYTES)
        return false;
    control->value_version = get_i16(control->value.p);
    control->coordinator_epoch = get_i32(control->value.p + 2);
    return control->value_version >= 0;
}

static bool parse_record(const struct record *record, struct control_record *control)
{
    *control = (struct control_record){
        .offset = record->offset,
        .timestamp = record->timestamp,
        .value = record->value,
        .value_version = -1,
        .coordinator_epoch = -1,
    };
    if (record->key.len < KEY_BYTES)
        return false;
    control->key_version = get_i16(record->key.p);
    control->type = get_i16(record->key.p + 2);
    if (control->key_version < 0)
        return false;
    if (control_is_end_txn(control))
        return parse_end_txn(control);
    return control->type != CONTROL_MIRROR_PID_RESET || parse_mirror_pid_reset(control);
}

enum error control_parse(const uint8_t *batch, struct control_record *ret_control)
{
    struct control_record control;
    struct record_iter it;
    struct record record;

    ASSERT(batch_is_control(batch));
    if (batch_codec(batch) != CODEC_NONE)
        return ERR_UNSUPPORTED;
    record_iter_init(&it, batch, batch_payload(batch));
    if (!record_iter_next(&it, &record)) {
        enum error error = record_iter_finish(&it);

        return error == OK ? ERR_NOT_FOUND : error;
    }
    if (!parse_record(&record, &control))
        return ERR_CORRUPT;
    *ret_control = control;
    return OK;
}

/* ---- Writing ---- */

static void build(struct buf *out, const struct batch_params *params, int16_t type, int64_t timestamp_ms, struct bytes value)
{
    uint8_t key[KEY_BYTES] = {0};
    struct batch_builder builder;
    enum error error;

    put_i16(key + 2, type);
    batch_builder_init(&builder, params);
    error =
        batch_builder_add(&builder, &(struct batch_record){.timestamp = timestamp_ms, .key = {key, sizeof(key)}, .value = value});
    ASSERT(error == OK);
    error = batch_builder_finish(&builder, out);
    ASSERT(error == OK);
    batch_builder_fini(&builder);
}

void control_build_end_txn(struct buf *out, const struct end_txn *end, int64_t timestamp_ms, int64_t offset, int32_t leader_epoch)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    uint8_t value[END_TXN_VALUE_BYTES];

    params.base_offset = offset;
    params.leader_epoch = leader_epoch;
    params.producer_id = end->producer_id;
    params.producer_epoch = end->producer_epoch;
    params.transactional = params.control = true;
    put_i16(value, VALUE_VERSION);
    put_i32(value + 2, end->coordinator_epoch);
    build(out, &params, end->commit ? CONTROL_COMMIT : CONTROL_ABORT, timestamp_ms, (struct bytes){value, sizeof(value)});
}

static uint8_t *put_compact_string(uint8_t *p, struct str s)
{
    p += put_uvarint(p, (uint32_t)s.len + 1);
    if (s.len > 0)
        memcpy(p, s.p, (size_t)s.len);
    return p + s.len;
}

void control_build_mirror_pid_reset(struct buf *out, struct str source_cluster_id, struct str writer_cluster_id, int8_t scope,
                                    int64_t timestamp_ms, int64_t offset, int32_t leader_epoch)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    uint8_t value[2 * LIMIT_CLUSTER_ID + 64], *p = value;

    ASSERT(source_cluster_id.len <= LIMIT_CLUSTER_ID && writer_cluster_id.len <= LIMIT_CLUSTER_ID);
    params.base_offset = offset;
    params.leader_epoch = leader_epoch;
    params.control = true;
    put_i16(p, MIRROR_PID_RESET_VERSION);
    p = put_compact_string(p + 2, source_cluster_id);
    p += put_uvarint(p, (writer_cluster_id.p != NULL) + (scope != 0));
    if (writer_cluster_id.p != NULL) {
        uint32_t len = (uint32_t)writer_cluster_id.len;

        p += put_uvarint(p, TAG_WRITER_CLUSTER_ID);
        p += put_uvarint(p, (uint32_t)uvarint_size(len + 1) + len);
        p = put_compact_string(p, writer_cluster_id);
    }
    if (scope != 0) {
        p += put_uvarint(p, TAG_SCOPE);
        p += put_uvarint(p, 1);
        *p++ = (uint8_t)scope;
    }
    build(out, &params, CONTROL_MIRROR_PID_RESET, timestamp_ms, (struct bytes){value, p - value});
}
