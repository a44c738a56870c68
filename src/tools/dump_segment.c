/* A .log file: its batches, and their records on demand; control records always. */
#include <string.h>

#include "base/limits.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "storage/batch_reader.h"
#include "storage/segment.h"
#include "tools/dump.h"

/* ---- Records ---- */

static const char *timestamp_type(const uint8_t *batch)
{
    return batch_is_log_append_time(batch) ? "LogAppendTime" : "CreateTime";
}

static void print_headers(struct dump *d, const struct record *record)
{
    struct bytes rest = record->headers;
    struct record_header header;
    if (d->json) {
        out_key(d->out, "headers");
        out_begin(d->out, '[');
        while (record_header_next(&rest, &header)) {
            out_begin(d->out, '{');
            out_field_data(d->out, "key", (struct bytes){(const uint8_t *)header.key.p, header.key.len});
            out_field_data(d->out, "value", header.value);
            out_end(d->out, '}');
        }
        out_end(d->out, ']');
        return;
    }
    out_printf(d->out, " headerKeys: [");
    for (int i = 0; record_header_next(&rest, &header); i++) {
        out_str(d->out, i > 0 ? STR(",") : STR(""));
        out_safe(d->out, (struct bytes){(const uint8_t *)header.key.p, header.key.len});
    }
    out_char(d->out, ']');
}

static void print_record_head(struct dump *d, const uint8_t *batch, const struct record *record)
{
    int32_t base = batch_base_sequence(batch);
    bool sequenced = base >= 0 && record->offset_delta >= 0;
    if (!d->json)
        out_printf(d->out, "| ");
    dump_begin(d);
    dump_i64(d, "offset", record->offset);
    dump_i64(d, timestamp_type(batch), record->timestamp);
    dump_i64(d, "keySize", record->key.p != NULL ? record->key.len : -1);
    dump_i64(d, "valueSize", record->value.p != NULL ? record->value.len : -1);
    dump_i64(d, "sequence", sequenced ? sequence_increment(base, record->offset_delta) : -1);
    print_headers(d, record);
}

static void print_data(struct dump *d, const char *key, struct bytes data)
{
    if (d->json) {
        out_field_data(d->out, key, data);
        return;
    }
    out_printf(d->out, " %s: ", key);
    if (data.p == NULL)
        out_str(d->out, STR("null"));
    else
        out_safe(d->out, data);
}

static void print_control(struct dump *d, const uint8_t *batch, const struct record *record)
{
    struct control_record control;
    enum error error = control_parse(batch, &control);
    struct buf json = {0};
    print_record_head(d, batch, record);
    if (error != OK) {
        dump_text(d, "controlType", STR("UNREADABLE"));
        dump_end(d);
        return;
    }
    dump_text(d, d->json || !control_is_end_txn(&control) ? "controlType" : "endTxnMarker",
              str_of(control_type_name(control.type)));
    if (d->json)
        dump_i64(d, "controlTypeId", control.type);
    if (control_is_end_txn(&control)) {
        dump_i64(d, "coordinatorEpoch", control.coordinator_epoch);
    } else if (control.type == CONTROL_MIRROR_PID_RESET) {
        dump_i64(d, "version", control.value_version);
        dump_text(d, "sourceClusterId", control.source_cluster_id);
        dump_text(d, "writerClusterId", control.writer_cluster_id);
        dump_i64(d, "scope", control.scope);
    } else if (proto_print_control(control.type, control.value, &json) == OK) {
        if (d->json)
            out_key(d->out, "value");
        else
            out_str(d->out, STR(" value: "));
        if (d->json)
            out_raw(d->out, buf_str(&json));
        else
            out_str(d->out, buf_str(&json));
    } else {
        print_data(d, "value", control.value);
    }
    dump_end(d);
    buf_fini(&json);
}

/* False: the records of the batch are damaged; what could be read was printed. */
static bool print_records(struct dump *d, const uint8_t *batch, struct buf *scratch, int64_t position)
{
    struct bytes records;
    enum error error = batch_records(batch, LIMIT_DECOMPRESSED_BYTES, scratch, &records);
    if (error != OK)
        return dump_damage(d, position, "the records cannot be decompressed (%s)", error_name(error));
    struct record_iter it;
    struct record record;
    record_iter_init(&it, batch, records);
    for (int i = 0; record_iter_next(&it, &record) && out_ok(d->out); i++) {
        if (batch_is_control(batch) && i == 0) {
            print_control(d, batch, &record);
            continue;
        }
        print_record_head(d, batch, &record);
        print_data(d, "key", record.key);
        print_data(d, "payload", record.value);
        dump_end(d);
    }
    if (out_ok(d->out) && record_iter_finish(&it) != OK)
        return dump_damage(d, position, "record %d of the batch is damaged, or their number is wrong", it.index);
    return true;
}

/* ---- Batches ---- */

static void print_batch(struct dump *d, const uint8_t *b, uint64_t position, bool valid)
{
    dump_begin(d);
    dump_i64(d, "baseOffset", batch_base_offset(b));
    dump_i64(d, "lastOffset", batch_last_offset(b));
    dump_i64(d, "count", batch_count(b));
    dump_i64(d, "baseSequence", batch_base_sequence(b));
    dump_i64(d, "lastSequence", batch_last_sequence(b));
    dump_i64(d, "producerId", batch_producer_id(b));
    dump_i64(d, "producerEpoch", batch_producer_epoch(b));
    dump_i64(d, "partitionLeaderEpoch", batch_leader_epoch(b));
    dump_bool(d, "isTransactional", batch_is_transactional(b));
    dump_bool(d, "isControl", batch_is_control(b));
    if (batch_has_delete_horizon(b))
        dump_i64(d, "deleteHorizonMs", batch_base_timestamp(b));
    else if (d->json)
        dump_text(d, "deleteHorizonMs", STR_NULL);
    else
        dump_text(d, "deleteHorizonMs", STR("-"));
    dump_i64(d, "position", (int64_t)position);
    dump_i64(d, timestamp_type(b), batch_max_timestamp(b));
    dump_i64(d, "size", batch_size_bytes(b));
    dump_i64(d, "magic", batch_magic(b));
    dump_text(d, "compresscodec", str_of(codec_name(batch_codec(b))));
    dump_i64(d, "crc", batch_crc(b));
    dump_bool(d, "isvalid", valid);
    dump_end(d);
}

/* One batch that was found; *last is the offset before it. */
static bool dump_batch(struct dump *d, struct batch_reader *reader, struct buf *scratch, int64_t *last)
{
    const uint8_t *batch;
    int64_t position = (int64_t)reader->batch_pos;
    if (reader->batch_bytes > LIMIT_RESPONSE_BYTES)
        return dump_damage(d, position, "a batch of %llu bytes is above every limit", (unsigned long long)reader->batch_bytes);
    enum error error = batch_reader_load(reader, &batch);
    if (error != OK)
        return dump_damage(d, position, "the batch cannot be read (%s)", error_name(error));
    bool valid = batch_verify_crc(batch), good = true;
    print_batch(d, batch, (uint64_t)position, valid);
    if (!valid)
        return dump_damage(d, position, "the CRC of the batch at offset %lld does not match its bytes",
                           (long long)batch_base_offset(batch));
    if (batch_check_offsets(batch) != OK)
        good = dump_damage(d, position, "offsets and count of the batch cannot be");
    else if (batch_base_offset(batch) <= *last)
        good = dump_damage(d, position, "offset %lld follows %lld", (long long)batch_base_offset(batch), (long long)*last);
    *last = batch_last_offset(batch);
    if (d->records || batch_is_control(batch))
        good = print_records(d, batch, scratch, position) && good;
    return good;
}

static bool dump_batches(struct dump *d, struct batch_reader *reader)
{
    struct buf scratch = {0};
    bool good = true;
    int64_t last = -1;
    enum error error = OK;
    while (out_ok(d->out)) {
        const uint8_t *header;
        error = batch_reader_next(reader, &header);
        if (error != OK)
            break;
        good = dump_batch(d, reader, &scratch, &last) && good; /* behind a wrong CRC the next one may be sound */
    }
    if (error != OK && error != ERR_NOT_FOUND)
        good = dump_damage(d, (int64_t)reader->pos, "%s", reader->reason != NULL ? reader->reason : error_message(error));
    buf_fini(&scratch);
    return good;
}

bool dump_segment(struct dump *d)
{
    struct file *file;
    uint64_t size = 0;
    int64_t base;
    enum error error = fs_open(d->fs, d->path, FILE_READ, &file);
    if (error != OK)
        return dump_unreadable(d, error);
    error = file_size(file, &size);
    bool good;
    if (error != OK) {
        good = dump_unreadable(d, error);
    } else {
        struct batch_reader reader;
        if (!d->json && segment_parse_name(d->name, SEGMENT_LOG_SUFFIX, &base))
            out_printf(d->out, "Log starting offset: %lld\n", (long long)base);
        batch_reader_init(&reader, file, 0, size, BATCH_READER_SCAN_BYTES);
        good = dump_batches(d, &reader);
        batch_reader_fini(&reader);
    }
    file_close(file);
    return good;
}
