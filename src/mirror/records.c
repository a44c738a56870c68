#include "mirror/records.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum error mirror_name_check(struct str name, struct problem *problem)
{
    if (name.len == 0)
        return problem_set(problem, INVALID_CLUSTER_MIRROR_NAME, "The mirror has no name");
    if (name.len > MIRROR_NAME_MAX)
        return problem_set(problem, INVALID_CLUSTER_MIRROR_NAME, "The mirror name is longer than %d characters", MIRROR_NAME_MAX);
    if (str_is(name, ".") || str_is(name, ".."))
        return problem_set(problem, INVALID_CLUSTER_MIRROR_NAME, "A mirror cannot be named %.*s", STR_ARG(name));
    for (int32_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-')
            continue;
        problem_set(problem, INVALID_CLUSTER_MIRROR_NAME, "The mirror name holds a character that is not allowed, at position %d",
                    i + 1);
        problem_hint(problem, "Use letters, digits, '.', '_' and '-'");
        return INVALID_CLUSTER_MIRROR_NAME;
    }
    return OK;
}

void mirror_record_fini(struct mirror_record *r)
{
    mirror_config_fini(&r->config);
    mem_free(r->source_cluster_id);
    r->source_cluster_id = NULL;
}

void mirror_topic_record_fini(struct mirror_topic_record *r)
{
    mem_free(r->mirror);
    r->mirror = NULL;
}

void mirror_partition_record_init(struct mirror_partition_record *r)
{
    memset(r, 0, sizeof(*r));
    r->leader_epoch = r->position_epoch = r->stop_leader_epoch = -1;
    r->position_offset = -1;
}

void mirror_partition_record_fini(struct mirror_partition_record *r)
{
    mem_free(r->error);
    mem_free(r->hint);
    r->error = r->hint = NULL;
}

void mirror_partition_record_set_hint(struct mirror_partition_record *r, const char *hint)
{
    char *copy = hint != NULL && hint[0] != '\0' ? mem_strdup(hint) : NULL;

    mem_free(r->hint);
    r->hint = copy;
}

void mirror_partition_record_fail(struct mirror_partition_record *r, enum error code, const char *text, bool retryable)
{
    char *copy = text != NULL ? mem_strdup(text) : NULL; /* text may be the old one */

    mem_free(r->error);
    r->error = copy;
    mirror_partition_record_set_hint(r, NULL);
    r->error_code = text != NULL ? error_wire(code) : 0;
    r->retryable = text != NULL && retryable;
}

void mirror_partition_record_add_gap(struct mirror_partition_record *r, int64_t from, int64_t to, int64_t at_ms)
{
    if (r->gap_count == MIRROR_GAPS_MAX)
        memmove(r->gaps, r->gaps + 1, (size_t)--r->gap_count * sizeof(r->gaps[0]));
    r->gaps[r->gap_count++] = (struct mirror_gap){from, to, at_ms};
    r->gaps_total++;
}

/* ---- writing ---- */

static void put_long(json_t *o, const char *name, int64_t v)
{
    json_object_set_new(o, name, json_integer(v));
}
static void put_bool(json_t *o, const char *name, bool v)
{
    json_object_set_new(o, name, json_boolean(v));
}

static void put_text(json_t *o, const char *name, const char *v) /* NULL: left out */
{
    if (v == NULL)
        return;
    json_t *s = json_string(v);
    json_object_set_new(o, name, s != NULL ? s : json_string("(not UTF-8)"));
}

json_t *mirror_record_to_json(const struct mirror_record *r)
{
    json_t *o = json_object();

    json_object_set_new(o, "config", mirror_config_to_json(&r->config));
    put_text(o, "sourceClusterId", r->source_cluster_id);
    put_long(o, "createdMs", r->created_ms);
    return o;
}

json_t *mirror_topic_record_to_json(const struct mirror_topic_record *r)
{
    json_t *o = json_object();
    char id[UUID_TEXT_SIZE];

    put_text(o, "mirror", r->mirror);
    put_text(o, "topicId", uuid_text(&r->topic_id, id));
    put_text(o, "wanted", mirror_state_name(r->wanted));
    put_bool(o, "discardLocalData", r->discard_local_data);
    put_text(o, "stopOpenTransactions", r->stop_open_transactions == MIRROR_TXN_TRUNCATE ? "truncate" : "abort");
    put_bool(o, "stopForce", r->stop_force);
    return o;
}

static json_t *report_to_json(const struct mirror_stop_report *r)
{
    json_t *o = json_object();

    put_long(o, "sourceHighWatermark", r->source_high_watermark);
    put_long(o, "sourceAgeMs", r->source_age_ms);
    put_long(o, "abortedTransactions", r->aborted_transactions);
    put_long(o, "expiredProducers", r->expired_producers);
    put_long(o, "truncatedRecords", r->truncated_records);
    put_long(o, "endOffset", r->end_offset);
    put_long(o, "startedMs", r->started_ms);
    put_long(o, "endedMs", r->ended_ms);
    return o;
}

static json_t *truncation_to_json(const struct mirror_truncation *t)
{
    json_t *o = json_object();

    put_long(o, "records", t->records);
    put_long(o, "bytes", t->bytes);
    put_long(o, "firstTimestamp", t->first_timestamp);
    put_long(o, "lastTimestamp", t->last_timestamp);
    put_long(o, "atMs", t->at_ms);
    return o;
}

json_t *mirror_partition_record_to_json(const struct mirror_partition_record *r)
{
    json_t *o = json_object();

    put_text(o, "state", mirror_state_name(r->state));
    put_long(o, "stateEpoch", r->state_epoch);
    put_long(o, "leaderEpoch", r->leader_epoch);
    if (r->has_position) {
        json_t *position = json_object();
        put_long(position, "epoch", r->position_epoch);
        put_long(position, "offset", r->position_offset);
        json_object_set_new(o, "position", position);
    }
    put_long(o, "stopLeaderEpoch", r->stop_leader_epoch);
    if (r->error != NULL) {
        put_text(o, "failedFrom", mirror_state_name(r->failed_from));
        put_long(o, "errorCode", r->error_code);
        put_text(o, "error", r->error);
        put_text(o, "hint", r->hint);
        put_bool(o, "retryable", r->retryable);
    }
    put_long(o, "retries", r->retries);
    put_long(o, "gapsTotal", r->gaps_total);
    json_t *gaps = json_array();
    for (int i = 0; i < r->gap_count; i++) {
        json_t *gap = json_object();
        put_long(gap, "from", r->gaps[i].from);
        put_long(gap, "to", r->gaps[i].to);
        put_long(gap, "atMs", r->gaps[i].at_ms);
        json_array_append_new(gaps, gap);
    }
    json_object_set_new(o, "gaps", gaps);
    if (r->has_truncation)
        json_object_set_new(o, "truncation", truncation_to_json(&r->truncation));
    if (r->has_report)
        json_object_set_new(o, "stopReport", report_to_json(&r->report));
    return o;
}

/* ---- reading: a reader remembers the first thing that was wrong ---- */

struct reader {
    const json_t *object;
    struct problem *problem;
    enum error error;
};

static void wrong(struct reader *r, const char *name)
{
    if (r->error == OK)
        r->error = problem_set(r->problem, ERR_CORRUPT, "The field %s of a mirror's record is missing or wrong", name);
}

static int64_t get_long(struct reader *r, const char *name, int64_t min, int64_t max)
{
    json_t *v = json_object_get(r->object, name);

    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
        wrong(r, name);
        return min;
    }
    return json_integer_value(v);
}

static bool get_bool(struct reader *r, const char *name)
{
    json_t *v = json_object_get(r->object, name);

    if (!json_is_boolean(v))
        wrong(r, name);
    return json_is_true(v);
}

static const char *get_text(struct reader *r, const char *name) /* borrowed; "" when wrong */
{
    json_t *v = json_object_get(r->object, name);

    if (!json_is_string(v)) {
        wrong(r, name);
        return "";
    }
    return json_string_value(v);
}

static enum mirror_state get_state(struct reader *r, const char *name)
{
    enum mirror_state state = MIRROR_NONE;

    if (!mirror_state_parse(str_of(get_text(r, name)), &state))
        wrong(r, name);
    return state;
}

enum error mirror_record_from_json(const json_t *json, struct mirror_record *ret, struct problem *problem)
{
    struct reader r = {json, problem, OK};
    struct mirror_record record = {.created_ms = get_long(&r, "createdMs", 0, INT64_MAX)};
    json_t *id = json_object_get(json, "sourceClusterId");
    enum error error;

    if (r.error != OK)
        return r.error;
    if (id != NULL && !json_is_string(id))
        return problem_set(problem, ERR_CORRUPT, "The field sourceClusterId of a mirror's record is wrong");
    error = mirror_config_from_json(json_object_get(json, "config"), &record.config, problem);
    if (error != OK)
        return error;
    record.source_cluster_id = id != NULL ? mem_strdup(json_string_value(id)) : NULL;
    *ret = record;
    return OK;
}

enum error mirror_topic_record_from_json(const json_t *json, struct mirror_topic_record *ret, struct problem *problem)
{
    struct reader r = {json, problem, OK};
    struct mirror_topic_record record = {0};
    const char *mirror = get_text(&r, "mirror"), *transactions = get_text(&r, "stopOpenTransactions");

    if (!uuid_parse(str_of(get_text(&r, "topicId")), &record.topic_id))
        wrong(&r, "topicId");
    record.wanted = get_state(&r, "wanted");
    if (record.wanted != MIRROR_MIRRORING && record.wanted != MIRROR_PAUSED && record.wanted != MIRROR_STOPPED)
        wrong(&r, "wanted");
    record.discard_local_data = get_bool(&r, "discardLocalData");
    record.stop_force = get_bool(&r, "stopForce");
    record.stop_open_transactions = strcmp(transactions, "truncate") == 0 ? MIRROR_TXN_TRUNCATE : MIRROR_TXN_ABORT;
    if (record.stop_open_transactions == MIRROR_TXN_ABORT && strcmp(transactions, "abort") != 0)
        wrong(&r, "stopOpenTransactions");
    if (r.error != OK)
        return r.error;
    record.mirror = mem_strdup(mirror);
    *ret = record;
    return OK;
}

static void read_report(const json_t *json, struct reader *outer, struct mirror_stop_report *report)
{
    struct reader r = {json, outer->problem, outer->error};

    report->source_high_watermark = get_long(&r, "sourceHighWatermark", -1, INT64_MAX);
    report->source_age_ms = get_long(&r, "sourceAgeMs", -1, INT64_MAX);
    report->aborted_transactions = (int32_t)get_long(&r, "abortedTransactions", 0, INT32_MAX);
    report->expired_producers = (int32_t)get_long(&r, "expiredProducers", 0, INT32_MAX);
    report->truncated_records = get_long(&r, "truncatedRecords", 0, INT64_MAX);
    report->end_offset = get_long(&r, "endOffset", -1, INT64_MAX);
    report->started_ms = get_long(&r, "startedMs", 0, INT64_MAX);
    report->ended_ms = get_long(&r, "endedMs", 0, INT64_MAX);
    outer->error = r.error;
}

static void read_truncation(const json_t *json, struct reader *outer, struct mirror_truncation *t)
{
    struct reader r = {json, outer->problem, outer->error};

    t->records = get_long(&r, "records", 0, INT64_MAX);
    t->bytes = get_long(&r, "bytes", 0, INT64_MAX);
    t->first_timestamp = get_long(&r, "firstTimestamp", INT64_MIN, INT64_MAX);
    t->last_timestamp = get_long(&r, "lastTimestamp", INT64_MIN, INT64_MAX);
    t->at_ms = get_long(&r, "atMs", 0, INT64_MAX);
    outer->error = r.error;
}

static void read_gaps(const json_t *array, struct reader *outer, struct mirror_partition_record *record)
{
    if (!json_is_array(array) || json_array_size(array) > MIRROR_GAPS_MAX) {
        wrong(outer, "gaps");
        return;
    }
    for (size_t i = 0; i < json_array_size(array); i++) {
        struct reader r = {json_array_get(array, i), outer->problem, outer->error};
        struct mirror_gap *gap = &record->gaps[record->gap_count++];
        gap->from = get_long(&r, "from", 0, INT64_MAX);
        gap->to = get_long(&r, "to", 0, INT64_MAX);
        gap->at_ms = get_long(&r, "atMs", 0, INT64_MAX);
        outer->error = r.error;
    }
}

enum error mirror_partition_record_from_json(const json_t *json, struct mirror_partition_record *ret, struct problem *problem)
{
    struct reader r = {json, problem, OK};
    struct mirror_partition_record record;
    json_t *position = json_object_get(json, "position"), *report = json_object_get(json, "stopReport");
    json_t *truncation = json_object_get(json, "truncation");
    const char *error = NULL, *hint = NULL;

    mirror_partition_record_init(&record);
    record.state = get_state(&r, "state");
    record.state_epoch = (int32_t)get_long(&r, "stateEpoch", 0, INT32_MAX);
    record.leader_epoch = (int32_t)get_long(&r, "leaderEpoch", -1, INT32_MAX);
    record.stop_leader_epoch = (int32_t)get_long(&r, "stopLeaderEpoch", -1, INT32_MAX);
    record.retries = (int16_t)get_long(&r, "retries", 0, INT16_MAX);
    record.gaps_total = get_long(&r, "gapsTotal", 0, INT64_MAX);
    read_gaps(json_object_get(json, "gaps"), &r, &record);
    if (position != NULL) {
        struct reader p = {position, problem, r.error};
        record.has_position = true;
        record.position_epoch = (int32_t)get_long(&p, "epoch", -1, INT32_MAX);
        record.position_offset = get_long(&p, "offset", -1, INT64_MAX);
        r.error = p.error;
    }
    if (json_object_get(json, "error") != NULL) {
        error = get_text(&r, "error");
        hint = json_object_get(json, "hint") != NULL ? get_text(&r, "hint") : NULL;
        record.failed_from = get_state(&r, "failedFrom");
        record.error_code = (int16_t)get_long(&r, "errorCode", -1, INT16_MAX);
        record.retryable = get_bool(&r, "retryable");
    }
    if (truncation != NULL) {
        record.has_truncation = true;
        read_truncation(truncation, &r, &record.truncation);
    }
    if (report != NULL) {
        record.has_report = true;
        read_report(report, &r, &record.report);
    }
    if (r.error != OK)
        return r.error;
    record.error = error != NULL ? mem_strdup(error) : NULL;
    record.hint = hint != NULL ? mem_strdup(hint) : NULL;
    *ret = record;
    return OK;
}

char *mirror_key(char out[MIRROR_KEY_MAX], const char *name)
{
    snprintf(out, MIRROR_KEY_MAX, "mirrors/%s", name);
    return out;
}

char *mirror_topic_key(char out[MIRROR_KEY_MAX], const char *topic)
{
    snprintf(out, MIRROR_KEY_MAX, "mirror-topics/%s", topic);
    return out;
}

char *mirror_partition_key(char out[MIRROR_KEY_MAX], const char *topic, int32_t partition)
{
    snprintf(out, MIRROR_KEY_MAX, "mirror-partitions/%s/%d", topic, partition);
    return out;
}
