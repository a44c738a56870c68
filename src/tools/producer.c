#include "tools/producer.h"

#include "base/assert.h"
#include "tools/partitioner.h"
#include "tools/reading.h"

#define RETRY_FIRST_MS 100
#define RETRY_MAX_MS 1000
#define PRODUCE_MIN 3
#define PRODUCE_MIN_ZSTD 7 /* KIP-110 */

/* ---- Beginning ---- */

static bool get_producer_id(struct producer *p)
{
    struct init_producer_id_request request;
    struct client_response *r;
    proto_init(&PROTO_INIT_PRODUCER_ID_REQUEST, &request);
    request.transactional_id = STR_NULL;
    request.transaction_timeout_ms = INT32_MAX;
    int64_t end = tool_mono_ms(p->tool) + p->tool->timeout_ms;
    for (;;) {
        if (!tool_call(p->tool, CLIENT_ANY, API_INIT_PRODUCER_ID, -1, &request, &r))
            return false;
        const struct init_producer_id_response *body = r->body;
        int16_t code = body->error_code;
        p->producer_id = body->producer_id;
        p->producer_epoch = body->producer_epoch;
        client_response_free(r);
        if (code == 0)
            return true;
        if (!error_retriable(code) || tool_mono_ms(p->tool) >= end || tool_interrupted()) {
            tool_fail_code(p->tool, code, STR_NULL, STR_NULL, "a producer id");
            return false;
        }
        tool_sleep(p->tool, RETRY_MAX_MS);
    }
}

bool producer_init(struct producer *p, struct tool *tool, const char *topic, enum codec codec, int16_t acks, bool idempotent,
                   int64_t batch_records)
{
    *p = (struct producer){.tool = tool,
                           .topic = topic,
                           .codec = codec,
                           .acks = acks,
                           .idempotent = idempotent,
                           .producer_id = NO_PRODUCER_ID,
                           .producer_epoch = NO_PRODUCER_EPOCH,
                           .batch_records = batch_records};
    const struct client_topic *found;
    if (!tool_topic(tool, tool->client, topic, &found))
        return false;
    p->count = found->partitions_n;
    p->partitions = mem_calloc((size_t)p->count + 1, sizeof(*p->partitions));
    return !idempotent || get_producer_id(p);
}

void producer_fini(struct producer *p)
{
    for (int32_t i = 0; i < p->count; i++) {
        if (p->partitions[i].open)
            batch_builder_fini(&p->partitions[i].builder);
    }
    mem_free(p->partitions);
    buf_fini(&p->batch);
    *p = (struct producer){0};
}

/* ---- Sending ---- */

static void print_json(struct producer *p, int32_t partition, int32_t records,
                       const struct produce_response_responses_partition_responses *a)
{
    struct out *out = &p->tool->out;
    if (!p->tool->json)
        return;
    out_begin(out, '{');
    out_field_text(out, "name", str_of(p->topic));
    out_field_i64(out, "index", partition);
    out_field_i64(out, "errorCode", a->error_code);
    out_field_i64(out, "baseOffset", a->base_offset);
    out_field_i64(out, "recordsCount", records);
    out_field_i64(out, "logAppendTimeMs", a->log_append_time_ms);
    out_field_i64(out, "logStartOffset", a->log_start_offset);
    out_field_i64(out, "producerId", p->producer_id);
    out_field_i64(out, "producerEpoch", p->producer_epoch);
    out_end(out, '}');
    (void)out_flush(out);
}

static void refused(struct producer *p, int32_t partition, const struct produce_response_responses_partition_responses *a)
{
    struct str message = a->error_message;
    if (a->record_errors_n > 0 && a->record_errors[0].batch_index_error_message.len > 0)
        message = a->record_errors[0].batch_index_error_message;
    tool_fail_code(p->tool, a->error_code, message, STR_NULL, "%s-%d refused a batch of %d records", p->topic, partition,
                   batch_count(p->batch.data));
}

static void stored(struct producer *p, int32_t partition, const struct produce_response_responses_partition_responses *a)
{
    struct produced *to = &p->partitions[partition];
    int32_t records = batch_count(p->batch.data);
    if (to->records == 0)
        to->first_offset = a->base_offset;
    to->records += records;
    to->last_offset = a->base_offset + records - 1;
    if (p->idempotent)
        to->next_sequence = sequence_increment(to->next_sequence, records);
    print_json(p, partition, records, a);
}

enum attempt { ATTEMPT_DONE, ATTEMPT_AGAIN, ATTEMPT_FAILED };

/* What the answer says. last: there is no time for another attempt, so the error is printed. */
static enum attempt take_answer(struct producer *p, int32_t partition, const struct produce_response *body, bool last)
{
    if (body->responses_n != 1 || body->responses[0].partition_responses_n != 1) {
        tool_fail_code(p->tool, ERR_MALFORMED, STR("The answer does not speak of the batch."), STR_NULL, "%s-%d", p->topic,
                       partition);
        return ATTEMPT_FAILED;
    }
    const struct produce_response_responses_partition_responses *a = &body->responses[0].partition_responses[0];
    if (a->error_code == 0 || a->error_code == DUPLICATE_SEQUENCE_NUMBER) {
        stored(p, partition, a);
        return ATTEMPT_DONE;
    }
    if ((error_retriable(a->error_code) || is_leader_error(a->error_code)) && !last)
        return ATTEMPT_AGAIN;
    refused(p, partition, a);
    return ATTEMPT_FAILED;
}

static enum attempt attempt(struct producer *p, int32_t partition, bool last)
{
    const struct client_topic *topic = client_metadata_topic(client_sync_metadata(p->tool->client), p->topic);
    int32_t leader = topic != NULL && partition < topic->partitions_n ? topic->partitions[partition].leader : -1;
    if (leader < 0) {
        if (!last)
            return ATTEMPT_AGAIN;
        tool_fail_code(p->tool, LEADER_NOT_AVAILABLE, STR_NULL, STR_NULL, "%s-%d", p->topic, partition);
        return ATTEMPT_FAILED;
    }
    struct produce_request_topic_data_partition_data data = {.index = partition,
                                                             .records = {.p = p->batch.data, .len = (int32_t)p->batch.len}};
    struct produce_request_topic_data to = {.name = str_of(p->topic), .partition_data = &data, .partition_data_n = 1};
    struct produce_request request;
    struct client_response *r;
    struct problem problem = {0};
    proto_init(&PROTO_PRODUCE_REQUEST, &request);
    request.transactional_id = STR_NULL;
    request.acks = p->acks;
    request.timeout_ms = (int32_t)MIN(p->tool->timeout_ms, INT32_MAX);
    request.topic_data = &to;
    request.topic_data_n = 1;
    int16_t min = p->codec == CODEC_ZSTD ? PRODUCE_MIN_ZSTD : PRODUCE_MIN;
    enum error error =
        client_sync_call(p->tool->client, leader, API_PRODUCE, min, PRODUCE_BY_NAME, &request, p->tool->timeout_ms, &r, &problem);
    if (error != OK) {
        bool sent = error == ERR_CLOSED || error == ERR_TIMED_OUT; /* perhaps: what is not sent may always be repeated */
        if (!last && ((sent && p->idempotent) || error == ERR_UNREACHABLE))
            return ATTEMPT_AGAIN;
        if (sent)
            problem_hint(&problem, "The last batch (%d records of %s-%d) may have been written all the same%s",
                         batch_count(p->batch.data), p->topic, partition,
                         p->idempotent ? "." : "; with --idempotent it would have been tried again.");
        tool_fail(p->tool, &problem);
        return ATTEMPT_FAILED;
    }
    enum attempt result = take_answer(p, partition, r->body, last);
    client_response_free(r);
    return result;
}

static bool send_batch(struct producer *p, int32_t partition)
{
    int64_t end = tool_mono_ms(p->tool) + p->tool->timeout_ms, wait_ms = RETRY_FIRST_MS;
    struct str name = str_of(p->topic);
    for (;;) {
        bool last = tool_mono_ms(p->tool) + wait_ms >= end || tool_interrupted();
        enum attempt result = attempt(p, partition, last);
        if (result != ATTEMPT_AGAIN)
            return result == ATTEMPT_DONE;
        tool_sleep(p->tool, wait_ms);
        wait_ms = MIN(wait_ms * 2, RETRY_MAX_MS);
        struct problem ignored = {0};
        (void)!client_sync_refresh(p->tool->client, &name, 1, &ignored); /* the next attempt tells */
    }
}

static bool flush_partition(struct producer *p, int32_t partition)
{
    struct produced *to = &p->partitions[partition];
    if (!to->open || batch_builder_count(&to->builder) == 0)
        return true;
    buf_clear(&p->batch);
    if (batch_builder_finish(&to->builder, &p->batch) != OK) {
        tool_fail_code(p->tool, MESSAGE_TOO_LARGE, STR("The batch cannot be built."), STR_NULL, "%s-%d", p->topic, partition);
        return false;
    }
    return send_batch(p, partition);
}

static void begin_batch(struct producer *p, struct produced *to)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    params.codec = p->codec;
    if (p->idempotent) {
        params.producer_id = p->producer_id;
        params.producer_epoch = p->producer_epoch;
        params.base_sequence = to->next_sequence;
    }
    if (to->open)
        batch_builder_reset(&to->builder, &params);
    else
        batch_builder_init(&to->builder, &params);
    to->open = true;
}

bool producer_flush(struct producer *p)
{
    bool good = true;
    for (int32_t i = 0; i < p->count && good; i++)
        good = flush_partition(p, i);
    if (p->count > 0)
        p->round = (p->round + 1) % p->count;
    return good;
}

/* Whether the record has no room in what waits for its partition. */
static bool is_full(const struct producer *p, const struct produced *to, const struct batch_record *record)
{
    int64_t size = record->key.len + record->value.len;
    int32_t count = to->open ? batch_builder_count(&to->builder) : 0;
    return count > 0 &&
           (count >= p->batch_records || (int64_t)batch_builder_size_bytes(&to->builder) + size > PRODUCER_BATCH_BYTES);
}

bool producer_add(struct producer *p, int32_t partition, const struct batch_record *record)
{
    bool rounds = partition < 0 && record->key.p == NULL;
    if (partition < 0)
        partition = rounds ? p->round : partition_for_key(record->key, p->count);
    if (is_full(p, &p->partitions[partition], record)) {
        if (!flush_partition(p, partition))
            return false;
        if (rounds) /* the next batch is the next partition's */
            partition = p->round = (p->round + 1) % p->count;
    }
    struct produced *to = &p->partitions[partition];
    if (is_full(p, to, record) && !flush_partition(p, partition))
        return false;
    if (!to->open || batch_builder_count(&to->builder) == 0)
        begin_batch(p, to);
    enum error error = batch_builder_add(&to->builder, record);
    if (error != OK)
        tool_fail_code(p->tool, MESSAGE_TOO_LARGE, str_of(error_message(error)), STR_NULL, "%s-%d", p->topic, partition);
    return error == OK;
}
