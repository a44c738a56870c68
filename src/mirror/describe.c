/* ListClusterMirrors and DescribeClusterMirrors: from memory, at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mirror/calls.h"

#define STATE_COUNT (MIRROR_FAILED + 1)

static struct str copy(struct mirror_call *call, const char *text) /* never null */
{
    return text != NULL ? arena_str(call->arena, str_of(text)) : STR("");
}

static int by_name(const void *a, const void *b)
{
    const struct mirror_topic *x = *(struct mirror_topic *const *)a, *y = *(struct mirror_topic *const *)b;
    return strcmp(x->name, y->name);
}

static int mirrors_by_name(const void *a, const void *b)
{
    const struct mirror *x = *(struct mirror *const *)a, *y = *(struct mirror *const *)b;
    return strcmp(x->name, y->name);
}

static struct mirror_topic **topics_of_locked(struct mirrors *m, struct mirror_call *call, const struct mirror *mirror,
                                              int *ret_n)
{
    struct mirror_topic **out = arena_calloc(call->arena, HASH_COUNT(m->topics) + 1, sizeof(struct mirror_topic *));
    int n = 0;
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
        if (t->mirror == mirror)
            out[n++] = t;
    }
    qsort(out, (size_t)n, sizeof(*out), by_name);
    *ret_n = n;
    return out;
}

static struct mirror **all_locked(struct mirrors *m, struct mirror_call *call, int *ret_n)
{
    struct mirror **out = arena_calloc(call->arena, HASH_COUNT(m->by_name) + 1, sizeof(struct mirror *));
    int n = 0;
    for (struct mirror *mirror = m->by_name; mirror != NULL; mirror = mirror->hh.next)
        out[n++] = mirror;
    qsort(out, (size_t)n, sizeof(*out), mirrors_by_name);
    *ret_n = n;
    return out;
}

/* ---- List ---- */

static void list_one_locked(struct mirrors *m, struct mirror_call *call, const struct mirror *mirror, bool names,
                            struct list_cluster_mirrors_response_mirrors *out)
{
    int counts[STATE_COUNT] = {0}, n, used = 0;
    struct mirror_topic **topics = topics_of_locked(m, call, mirror, &n);
    out->mirror_name = copy(call, mirror->name);
    out->source_bootstrap = copy(call, mirror->record.config.bootstrap_servers);
    out->source_cluster_id = copy(call, mirror->record.source_cluster_id);
    out->topic_count = n;
    if (names) {
        out->topic_names = arena_calloc(call->arena, (size_t)n + 1, sizeof(struct str));
        out->topic_names_n = n;
    }
    for (int i = 0; i < n; i++) {
        if (names)
            out->topic_names[i] = copy(call, topics[i]->name);
        for (int32_t p = 0; p < topics[i]->partitions_n; p++)
            counts[topics[i]->partitions[p]->record.state]++;
    }
    out->states = list_cluster_mirrors_response_mirrors_states_new(call->arena, STATE_COUNT);
    for (int i = 0; i < STATE_COUNT; i++) {
        if (counts[i] == 0)
            continue;
        out->states[used].state = str_of(mirror_state_name((enum mirror_state)i));
        out->states[used++].count = counts[i];
    }
    out->states_n = used;
}

void calls_list(struct mirrors *m, struct mirror_call *call)
{
    const struct list_cluster_mirrors_request *request = call->request;
    struct list_cluster_mirrors_response *response = call->response;
    int n;
    mutex_lock(&m->mutex);
    struct mirror **mirrors = all_locked(m, call, &n);
    response->mirrors = list_cluster_mirrors_response_mirrors_new(call->arena, n);
    response->mirrors_n = n;
    for (int i = 0; i < n; i++)
        list_one_locked(m, call, mirrors[i], request->include_topic_names, &response->mirrors[i]);
    mutex_unlock(&m->mutex);
}

/* ---- Describe ---- */

static void describe_trouble(struct mirror_call *call, const struct mirror_partition *mp,
                             struct describe_cluster_mirrors_response_mirrors_topics_partitions *out)
{
    const struct mirror_partition_record *r = &mp->record;
    const struct problem *trouble = mp->trouble.code != OK ? &mp->trouble : &mp->mirror->trouble;
    if (r->error != NULL && (r->state == MIRROR_FAILED || r->retries > 0)) { /* also while it is tried again */
        out->error_code = r->error_code;
        out->error_message = copy(call, r->error);
        out->error_hint = r->hint != NULL ? copy(call, r->hint) : STR_NULL;
        return;
    }
    if (trouble->code == OK || (r->state != MIRROR_MIRRORING && r->state != MIRROR_PREPARING))
        return;
    CALL_FAIL(call, out, trouble);
}

static void describe_record(struct mirrors *m, struct mirror_call *call, const struct mirror_partition *mp,
                            struct describe_cluster_mirrors_response_mirrors_topics_partitions *out)
{
    const struct mirror_partition_record *r = &mp->record;
    int64_t now = clock_mono_ms(m->params.clock);
    out->partition_index = mp->index;
    out->state = str_of(mirror_state_name(r->state));
    out->retry_attempt = r->retries;
    out->state_epoch = r->state_epoch;
    out->failed_from = STR("");
    if (r->has_position) {
        out->last_mirror_epoch = r->position_epoch;
        out->last_mirror_offset = r->position_offset;
    }
    if (r->state == MIRROR_FAILED) {
        out->failed_from = str_of(mirror_state_name(r->failed_from));
        out->retriable = r->retryable;
        out->next_retry_ms = r->retryable ? MAX(mp->retry_at_ms == INT64_MAX ? 0 : mp->retry_at_ms - now, 0) : -1;
    }
    out->gaps_total = r->gaps_total;
    out->gaps_n = r->gap_count;
    out->gaps = describe_cluster_mirrors_response_mirrors_topics_partitions_gaps_new(call->arena, r->gap_count);
    for (int i = 0; i < r->gap_count; i++) {
        out->gaps[i].from_offset = r->gaps[i].from;
        out->gaps[i].to_offset = r->gaps[i].to;
        out->gaps[i].timestamp_ms = r->gaps[i].at_ms;
    }
    if (r->has_truncation) {
        out->truncation.records = r->truncation.records;
        out->truncation.bytes = r->truncation.bytes;
        out->truncation.first_timestamp = r->truncation.first_timestamp;
        out->truncation.last_timestamp = r->truncation.last_timestamp;
        out->truncation.timestamp_ms = r->truncation.at_ms;
    }
    if (r->has_report && r->state == MIRROR_STOPPED) {
        out->stop_report = arena_calloc(call->arena, 1, sizeof(*out->stop_report));
        out->stop_report->leader_epoch = r->stop_leader_epoch;
        out->stop_report->source_high_watermark = r->report.source_high_watermark;
        out->stop_report->source_age_ms = r->report.source_age_ms;
        out->stop_report->aborted_transactions = r->report.aborted_transactions;
        out->stop_report->truncated_records = r->report.truncated_records;
        out->stop_report->expired_producers = r->report.expired_producers;
        out->stop_report->log_end_offset = r->report.end_offset;
        out->stop_report->started_ms = r->report.started_ms;
        out->stop_report->ended_ms = r->report.ended_ms;
    }
    describe_trouble(call, mp, out);
}

static void describe_partition(struct mirrors *m, struct mirror_call *call, const struct mirror_partition *mp,
                               struct describe_cluster_mirrors_response_mirrors_topics_partitions *out)
{
    int64_t seen = atomic_load(&mp->source_seen_ms), hw = atomic_load(&mp->source_high_watermark);
    describe_record(m, call, mp, out);
    out->source_high_watermark = out->source_offset = hw;
    out->source_log_start_offset = atomic_load(&mp->source_log_start);
    out->source_age_ms = seen >= 0 ? MAX(clock_mono_ms(m->params.clock) - seen, 0) : -1;
    if (mp->partition != NULL) {
        struct partition_state state;
        partition_get_state(mp->partition, &state);
        out->destination_offset = state.end_offset;
        out->log_start_offset = state.log_start_offset;
        out->leader_epoch = state.leader_epoch;
        if (hw >= 0 && mp->record.state != MIRROR_STOPPED)
            out->lag = MAX(hw - state.end_offset, 0);
    }
}

static bool wanted_partition(const struct describe_cluster_mirrors_request_topics *filter, int32_t index)
{
    for (int32_t i = 0; filter != NULL && i < filter->partitions_n; i++) {
        if (filter->partitions[i] == index)
            return true;
    }
    return filter == NULL || filter->partitions_n <= 0;
}

static const struct describe_cluster_mirrors_request_topics *find_filter(const struct describe_cluster_mirrors_request *r,
                                                                         const char *topic)
{
    for (int32_t i = 0; i < r->topics_n; i++) {
        if (str_is(r->topics[i].topic_name, topic))
            return &r->topics[i];
    }
    return NULL;
}

static void describe_topics_locked(struct mirrors *m, struct mirror_call *call, const struct mirror *mirror,
                                   struct describe_cluster_mirrors_response_mirrors *out)
{
    const struct describe_cluster_mirrors_request *request = call->request;
    int n, used = 0;
    struct mirror_topic **topics = topics_of_locked(m, call, mirror, &n);
    out->topics = describe_cluster_mirrors_response_mirrors_topics_new(call->arena, n);
    for (int i = 0; i < n; i++) {
        const struct describe_cluster_mirrors_request_topics *filter = find_filter(request, topics[i]->name);
        if (filter == NULL && request->topics_n >= 0)
            continue;
        struct describe_cluster_mirrors_response_mirrors_topics *t = &out->topics[used++];
        t->topic_name = copy(call, topics[i]->name);
        t->topic_id = topics[i]->record.topic_id;
        t->wanted_state = str_of(mirror_state_name(topics[i]->record.wanted));
        t->partitions = describe_cluster_mirrors_response_mirrors_topics_partitions_new(call->arena, topics[i]->partitions_n);
        for (int32_t p = 0; p < topics[i]->partitions_n; p++) {
            if (wanted_partition(filter, p))
                describe_partition(m, call, topics[i]->partitions[p], &t->partitions[t->partitions_n++]);
        }
    }
    out->topics_n = used;
}

static void describe_config(struct mirror_call *call, const struct mirror *mirror,
                            struct describe_cluster_mirrors_response_mirrors *out)
{
    const char *name, *value, *doc;
    json_t *set = mirror_config_to_json(&mirror->record.config);
    int n = 0;
    while (mirror_config_doc(n, &name, &value, &doc))
        n++;
    out->config = describe_cluster_mirrors_response_mirrors_config_new(call->arena, n);
    out->config_n = n;
    for (int i = 0; i < n && mirror_config_doc(i, &name, &value, &doc); i++) {
        json_t *own = json_object_get(set, name);
        out->config[i].name = str_of(name);
        out->config[i].is_default = own == NULL;
        out->config[i].value = own != NULL ? copy(call, json_string_value(own)) : value != NULL ? copy(call, value) : STR_NULL;
    }
    json_decref(set);
}

static void describe_mirror_locked(struct mirrors *m, struct mirror_call *call, const struct mirror *mirror,
                                   struct describe_cluster_mirrors_response_mirrors *out)
{
    out->mirror_name = copy(call, mirror->name);
    out->source_bootstrap = copy(call, mirror->record.config.bootstrap_servers);
    out->source_cluster_id = copy(call, mirror->record.source_cluster_id);
    out->created_ms = mirror->record.created_ms;
    if (mirror->trouble.code != OK) { /* the answer is no error: the code stays 0 */
        out->error_message = call_message(call, &mirror->trouble);
        out->error_hint = call_text(call, mirror->trouble.hint);
    }
    describe_topics_locked(m, call, mirror, out);
    describe_config(call, mirror, out);
    if (mirror->record.source_cluster_id != NULL) { /* longer rings need the paths of other Kagamis: not asked for yet */
        out->cluster_path = arena_calloc(call->arena, 1, sizeof(struct str));
        out->cluster_path[0] = copy(call, mirror->record.source_cluster_id);
        out->cluster_path_n = 1;
    }
}

static bool is_named(const struct describe_cluster_mirrors_request *r, const struct mirror *mirror)
{
    if (r->cluster_id.p != NULL &&
        (mirror->record.source_cluster_id == NULL || !str_is(r->cluster_id, mirror->record.source_cluster_id)))
        return false;
    for (int32_t i = 0; i < r->mirror_names_n; i++) {
        if (str_is(r->mirror_names[i], mirror->name))
            return true;
    }
    return r->mirror_names_n < 0;
}

void calls_describe(struct mirrors *m, struct mirror_call *call)
{
    const struct describe_cluster_mirrors_request *request = call->request;
    struct describe_cluster_mirrors_response *response = call->response;
    int n, room, used = 0;
    response->cluster_id = copy(call, m->params.cluster_id);
    mutex_lock(&m->mutex);
    struct mirror **mirrors = all_locked(m, call, &n);
    room = n + MAX(request->mirror_names_n, 0);
    response->mirrors = describe_cluster_mirrors_response_mirrors_new(call->arena, room);
    for (int i = 0; i < n; i++) {
        if (is_named(request, mirrors[i]))
            describe_mirror_locked(m, call, mirrors[i], &response->mirrors[used++]);
    }
    for (int32_t i = 0; i < request->mirror_names_n; i++) {
        struct problem problem;
        if (mirrors_find_locked(m, request->mirror_names[i]) != NULL)
            continue;
        problem_set(&problem, UNKNOWN_CLUSTER_MIRROR, "There is no mirror %.*s", MIN(request->mirror_names[i].len, 260),
                    request->mirror_names[i].p);
        problem_hint(&problem, "See them with: kagami mirror list");
        response->mirrors[used].mirror_name = request->mirror_names[i];
        CALL_FAIL(call, &response->mirrors[used], &problem);
        used++;
    }
    response->mirrors_n = used;
    mutex_unlock(&m->mutex);
}
