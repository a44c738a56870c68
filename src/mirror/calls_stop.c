/* StopMirrorTopics: dry run, drain, the sequence of stop.c, and its report. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/logger.h"
#include "mirror/calls.h"

#define DRAIN_LOOK_MS 50
#define DRAIN_STILL_MS 500 /* the source's end did not move for so long */
#define GATHER_MAX 3

/* ---- The report ---- */

static void fill_partition(struct mirrors *m, struct mirror_call *call, struct mirror_partition *mp,
                           struct stop_mirror_topics_response_topics_partitions *out)
{
    mutex_lock(&m->mutex);
    const struct mirror_partition_record *r = &mp->record;
    out->partition_index = mp->index;
    out->state = STR("");
    out->state = str_of(mirror_state_name(r->state));
    if (r->error != NULL && r->state == MIRROR_FAILED) {
        out->error_code = r->error_code;
        out->error_message = call_text(call, r->error);
    }
    if (mp->trouble.code != OK && !mirror_state_writable(r->state) && r->state != MIRROR_FAILED) {
        out->error_code = error_wire(mp->trouble.code);
        out->error_message = call_message(call, &mp->trouble);
    }
    if (r->has_position) {
        out->last_mirror_epoch = r->position_epoch;
        out->last_mirror_offset = r->position_offset;
    }
    out->leader_epoch = r->stop_leader_epoch;
    if (r->has_report) {
        const struct mirror_stop_report *report = &r->report;
        out->source_high_watermark = report->source_high_watermark;
        out->source_age_ms = report->source_age_ms;
        out->aborted_transactions = report->aborted_transactions;
        out->truncated_records = report->truncated_records;
        out->expired_producers = report->expired_producers;
        out->log_end_offset = report->end_offset;
        out->barrier_offset = report->end_offset > 0 ? report->end_offset - 1 : -1;
        out->duration_ms = report->ended_ms >= report->started_ms ? report->ended_ms - report->started_ms : -1;
        if (report->source_high_watermark >= 0 && r->has_position)
            out->records_lost_estimate = MAX(report->source_high_watermark - MAX(r->position_offset, 0), 0);
    }
    mutex_unlock(&m->mutex);
}

/* What a stop would find now. */
static void fill_dry(struct mirrors *m, struct mirror_partition *mp, bool truncate,
                     struct stop_mirror_topics_response_topics_partitions *out)
{
    struct partition_state state;
    mutex_lock(&m->mutex);
    struct partition *p = mp->partition != NULL ? partition_ref(mp->partition) : NULL;
    out->partition_index = mp->index;
    out->state = str_of(mirror_state_name(mp->record.state));
    mutex_unlock(&m->mutex);
    int64_t seen = atomic_load(&mp->source_seen_ms);
    out->source_high_watermark = atomic_load(&mp->source_high_watermark);
    out->source_age_ms = seen >= 0 ? MAX(clock_mono_ms(m->params.clock) - seen, 0) : -1;
    if (p == NULL)
        return;
    partition_get_state(p, &state);
    out->leader_epoch = state.leader_epoch;
    struct plog *log = partition_lock(p);
    if (log != NULL) {
        out->last_mirror_epoch = plog_last_batch_epoch(log);
        out->last_mirror_offset = out->last_mirror_epoch >= 0 ? plog_end_offset(log) : -1;
        out->log_end_offset = plog_end_offset(log);
        out->expired_producers = producer_state_count(plog_producers(log));
        out->aborted_transactions = truncate ? 0 : producer_state_open_count(plog_producers(log));
        partition_unlock(p);
    }
    if (out->source_high_watermark >= 0)
        out->records_lost_estimate = MAX(out->source_high_watermark - state.end_offset, 0);
    int64_t own = 0, others = 0;
    if (truncate && stop_truncation_cost(p, &own, &others) == OK)
        out->truncated_records = own + others;
    partition_unref(p);
}

/* ---- Drain ---- */

struct drained {            /* per partition */
    int64_t high_watermark; /* when it was seen last to have moved */
    int64_t since_ms;       /* monotonic: nothing has moved and all is here since; -1 */
};

static bool look_at(struct mirrors *m, struct mirror_partition *mp, struct drained *d, int64_t now)
{
    struct partition_state state = {0};
    mutex_lock(&m->mutex);
    struct partition *p = mp->partition != NULL ? partition_ref(mp->partition) : NULL;
    bool writable = mirror_state_writable(mp->record.state);
    mutex_unlock(&m->mutex);
    if (p != NULL)
        partition_get_state(p, &state);
    partition_unref(p);
    int64_t hw = atomic_load(&mp->source_high_watermark), seen = atomic_load(&mp->source_seen_ms);
    if (writable)
        return true;
    bool here = p != NULL && hw >= 0 && state.end_offset >= hw;
    if (!here || hw != d->high_watermark)
        d->since_ms = -1;
    else if (d->since_ms < 0)
        d->since_ms = now;
    d->high_watermark = hw;
    return d->since_ms >= 0 && seen - d->since_ms >= DRAIN_STILL_MS; /* the source was asked since, and had no more */
}

static void say_missing(struct mirrors *m, struct selected *topic, int64_t timeout_ms)
{
    for (int i = 0; i < topic->partitions.count; i++) {
        struct mirror_partition *mp = topic->partitions.items[i];
        struct partition_state state = {0};
        mutex_lock(&m->mutex);
        struct partition *p = mp->partition != NULL ? partition_ref(mp->partition) : NULL;
        const char *name = mirror_state_name(mp->record.state);
        mutex_unlock(&m->mutex);
        if (p != NULL)
            partition_get_state(p, &state);
        partition_unref(p);
        int64_t hw = atomic_load(&mp->source_high_watermark), seen = atomic_load(&mp->source_seen_ms);
        if (hw >= 0 && state.end_offset >= hw && topic->problem.code != OK)
            continue;
        problem_set(&topic->problem, REQUEST_TIMED_OUT, "Topic %.*s was not drained within %lld ms, nothing was stopped",
                    STR_ARG(topic->name), (long long)timeout_ms);
        problem_detail(&topic->problem, "partition %d, %s, is at %lld of the source's %lld, seen %lld ms ago", mp->index, name,
                       (long long)state.end_offset, (long long)hw,
                       seen >= 0 ? (long long)(clock_mono_ms(m->params.clock) - seen) : -1LL);
        problem_hint(&topic->problem, "Stop the producers first, or stop without --drain");
        if (hw < 0 || state.end_offset < hw)
            return;
    }
}

/* True when every partition has all that the source has and nothing moves. */
static bool drain(struct mirrors *m, struct selection *s, int64_t timeout_ms)
{
    int total = 0;
    for (int i = 0; i < s->count; i++)
        total += s->topics[i].partitions.count;
    struct drained *drained = mem_calloc((size_t)total + 1, sizeof(*drained));
    for (int i = 0; i < total; i++)
        drained[i] = (struct drained){-2, -1};
    int64_t begin = clock_mono_ms(m->params.clock), now = begin;
    bool all = false;
    while (!all && now - begin < timeout_ms && !m->ending) {
        int at = 0;
        all = true;
        for (int i = 0; i < s->count; i++) {
            for (int p = 0; p < s->topics[i].partitions.count; p++)
                all = look_at(m, s->topics[i].partitions.items[p], &drained[at++], now) && all;
        }
        if (!all)
            nanosleep(&(struct timespec){.tv_nsec = DRAIN_LOOK_MS * 1000000L}, NULL);
        now = clock_mono_ms(m->params.clock);
    }
    mem_free(drained);
    return all;
}

/* ---- Truncation is looked at before anything is stopped ---- */

static void check_costs(struct mirrors *m, struct selected *topic)
{
    int64_t sum = 0;
    for (int i = 0; i < topic->partitions.count; i++) {
        struct mirror_partition *mp = topic->partitions.items[i];
        int64_t own = 0, others = 0;
        mutex_lock(&m->mutex);
        struct partition *p =
            mp->partition != NULL && !mirror_state_writable(mp->record.state) ? partition_ref(mp->partition) : NULL;
        mutex_unlock(&m->mutex);
        if (p != NULL && stop_truncation_cost(p, &own, &others) == OK)
            sum += others;
        partition_unref(p);
    }
    if (sum == 0)
        return;
    problem_set(&topic->problem, INVALID_CLUSTER_MIRROR_STATE,
                "Cutting topic %.*s at its open transactions would cost %lld records that are not of open transactions; nothing "
                "was stopped",
                STR_ARG(topic->name), (long long)sum);
    problem_hint(&topic->problem, "Stop with --open-transactions abort, or with --force to lose them");
}

/* ---- The call ---- */

/* Partitions that were added at the source while the stop began are stopped with the rest. */
static void gather(struct mirrors *m, struct selection *s, bool first, struct partition_list *ret_open)
{
    mutex_lock(&m->mutex);
    for (int i = 0; i < s->count; i++) {
        struct mirror_topic *t = mirrors_topic_locked(m, s->topics[i].name);
        if (s->topics[i].problem.code != OK || t == NULL)
            continue;
        for (int32_t p = 0; p < t->partitions_n; p++) {
            enum mirror_state state = t->partitions[p]->record.state;
            bool added = p >= s->topics[i].partitions.count;
            if (added)
                partition_list_add(&s->topics[i].partitions, t->partitions[p]);
            if (!mirror_state_writable(state) && (first || added))
                partition_list_add(ret_open, t->partitions[p]);
        }
    }
    mutex_unlock(&m->mutex);
}

static void fill_topics(struct mirrors *m, struct mirror_call *call, struct selection *s, bool dry, bool truncate)
{
    struct stop_mirror_topics_response *response = call->response;
    response->topics = stop_mirror_topics_response_topics_new(call->arena, s->count);
    response->topics_n = s->count;
    for (int i = 0; i < s->count; i++) {
        struct selected *topic = &s->topics[i];
        struct stop_mirror_topics_response_topics *out = &response->topics[i];
        out->name = topic->name;
        out->partitions = stop_mirror_topics_response_topics_partitions_new(call->arena, topic->partitions.count);
        out->partitions_n = topic->partitions.count;
        for (int p = 0; p < topic->partitions.count; p++) {
            if (dry)
                fill_dry(m, topic->partitions.items[p], truncate, &out->partitions[p]);
            else
                fill_partition(m, call, topic->partitions.items[p], &out->partitions[p]);
            if (!dry && topic->problem.code == OK && !str_is(out->partitions[p].state, "STOPPED")) {
                problem_set(&topic->problem,
                            out->partitions[p].error_code != OK ? (enum error)out->partitions[p].error_code
                                                                : INVALID_CLUSTER_MIRROR_STATE,
                            "Partition %d of topic %.*s is %.*s, not STOPPED", out->partitions[p].partition_index,
                            STR_ARG(topic->name), STR_ARG(out->partitions[p].state));
                problem_hint(&topic->problem, "Its reason stands beside it; the stop can be repeated");
            }
        }
        if (topic->problem.code != OK)
            CALL_FAIL(call, out, &topic->problem);
    }
}

static enum error read_options(const struct stop_mirror_topics_request *r, struct mirror *mirror, struct stop_options *options,
                               struct problem *problem)
{
    *options = (struct stop_options){mirror->record.config.open_transactions, r->force};
    if (r->open_transactions.p == NULL || r->open_transactions.len == 0)
        return OK;
    if (str_is(r->open_transactions, "truncate"))
        options->open_transactions = MIRROR_TXN_TRUNCATE;
    else if (str_is(r->open_transactions, "abort"))
        options->open_transactions = MIRROR_TXN_ABORT;
    else
        return problem_set(problem, INVALID_REQUEST, "open transactions can be dealt with by abort or truncate, not by %.*s",
                           STR_ARG(r->open_transactions));
    return OK;
}

static void stop_selected(struct mirrors *m, struct mirror_call *call, struct selection *s, const struct stop_options *options)
{
    const struct stop_mirror_topics_request *request = call->request;
    bool truncate = options->open_transactions == MIRROR_TXN_TRUNCATE;
    if (request->dry_run) {
        fill_topics(m, call, s, true, truncate);
        return;
    }
    if (request->drain && !drain(m, s, request->drain_timeout_ms)) {
        for (int i = 0; i < s->count; i++)
            say_missing(m, &s->topics[i], request->drain_timeout_ms);
        fill_topics(m, call, s, false, truncate);
        return;
    }
    for (int i = 0; i < s->count && truncate && !options->force; i++) {
        if (s->topics[i].problem.code == OK)
            check_costs(m, &s->topics[i]);
    }
    for (int round = 0; round < GATHER_MAX; round++) {
        struct partition_list open = {0};
        gather(m, s, round == 0, &open);
        if (open.count > 0)
            mirrors_stop_partitions(m, &open, options);
        bool more = open.count > 0;
        partition_list_fini(&open);
        if (!more)
            break;
    }
    fill_topics(m, call, s, false, truncate);
}

void calls_stop(struct mirrors *m, struct mirror_call *call)
{
    const struct stop_mirror_topics_request *request = call->request;
    struct stop_mirror_topics_response *response = call->response;
    struct problem problem = {0};
    struct stop_options options;
    struct selection s;
    int n = MAX(request->topics_n, 0);
    struct str *names = arena_calloc(call->arena, (size_t)n + 1, sizeof(*names));
    for (int i = 0; i < n; i++)
        names[i] = request->topics[i].topic_name;
    enum error error =
        select_topics(m, call, request->mirror_name, names, n, request->patterns, request->patterns_n, &s, &problem);
    if (error != OK) {
        CALL_FAIL(call, response, &problem);
        return;
    }
    error = read_options(request, s.mirror, &options, &problem);
    if (error == OK)
        stop_selected(m, call, &s, &options);
    else
        CALL_FAIL(call, response, &problem);
    link_kick(s.mirror->link);
    selection_fini(&s);
}
