/* When the source answers OFFSET_OUT_OF_RANGE or names a diverging epoch: where does its log start, and up to where are the
 * histories the same? Then the gap is recorded and the log made to begin anew, or the divergence is dealt with by
 * on.divergence. The partition is held (not fetched) meanwhile; all others go on. */
#include <stdio.h>
#include <string.h>

#include "base/logger.h"
#include "base/stats.h"
#include "mirror/divergence.h"
#include "mirror/fetcher.h"

#define ROUNDS_MAX 1000 /* a hostile source may not keep us asking */

struct resolving {
    LIST_ENTRY(resolving) link; /* of the fetcher */
    struct fetcher *f;
    struct fetch_partition *fp; /* NULL: given up meanwhile */
    bool asked;                 /* an answer or a worker will come back to us */
    bool on_worker;
    bool only_check;
    int rounds;
    int64_t source_start;
    int32_t last_epoch; /* of our last batch */
    struct divergence_view view;
    /* For the worker. */
    struct mirror_partition *mp;
    struct partition *partition;
    int64_t target; /* truncate to */
    bool restart;   /* begin anew at target, with a gap when gap_from >= 0 */
    int64_t gap_from;
    enum error error;
    struct problem problem;
};

static void ask_epoch(struct resolving *r, int32_t epoch);

static void resolving_free(struct resolving *r)
{
    if (r->fp != NULL)
        r->fp->resolving = NULL;
    LIST_REMOVE(r, link);
    mem_free(r);
}

void resolving_cancel(struct fetch_partition *fp)
{
    struct resolving *r = fp->resolving;
    if (r == NULL)
        return;
    fp->resolving = NULL;
    r->fp = NULL;
    if (!r->asked && !r->on_worker)
        resolving_free(r);
}

void resolving_disconnected(struct fetcher *f)
{
    struct resolving *r, *next;
    for (r = LIST_FIRST(&f->resolving); r != NULL; r = next) {
        next = LIST_NEXT(r, link);
        if (r->asked)
            resolving_free(r);
    }
}

static struct resolving *begin(struct fetcher *f, struct fetch_partition *fp, bool only_check)
{
    struct resolving *r = mem_calloc(1, sizeof(*r));
    ASSERT(fp->resolving == NULL);
    r->f = f;
    r->fp = fp;
    r->only_check = only_check;
    r->gap_from = -1;
    fp->resolving = r;
    LIST_INSERT_HEAD(&f->resolving, r, link);
    fetcher_hold(f, fp);
    return r;
}

static void give_up(struct resolving *r, enum error error, const char *what)
{
    struct problem why;
    struct fetch_partition *fp = r->fp;
    struct fetcher *f = r->f;
    problem_set(&why, error, "%s-%d: %s", fp->mp->topic, fp->index, what);
    fetcher_give_up(f, fp, &why); /* cancels r, which nothing waits for: it is freed */
}

/* ---- What follows ---- */

static void worked(void *arg)
{
    struct resolving *r = arg;
    struct fetch_partition *fp = r->fp;
    struct fetcher *f = r->f;
    struct problem why = r->problem;
    enum error error = r->error;
    partition_unref(r->partition);
    mirror_partition_unref(r->mp);
    r->on_worker = false;
    resolving_free(r);
    if (fp == NULL)
        return;
    if (error == OK)
        fetcher_resume(f, fp);
    else if (error == ERR_STATE)
        fetcher_give_up(f, fp, &why);
    else
        fetcher_fail(f, fp, &why, true);
}

/* The gap is on record before the log jumps: after a crash in between the same gap is found again, and stands there once. It is the same when it begins below the last one's end, for
 * nothing is copied before the jump; a crash in the midst of the jump may have left an empty log, where it seems to begin at 0. */
static enum error record_gap(struct resolving *r, struct change *c)
{
    struct mirrors *m = r->mp->mirror->all;
    struct mirror_partition_record *record = change_edit(c, r->mp);
    struct mirror_gap *last = record->gap_count > 0 ? &record->gaps[record->gap_count - 1] : NULL;
    bool known = last != NULL && r->gap_from < last->to;
    if (known)
        last->to = MAX(last->to, r->target);
    else
        mirror_partition_record_add_gap(record, r->gap_from, r->target, clock_wall_ms(m->params.clock));
    enum error error = change_commit(c, &r->problem);
    if (error == OK && !known)
        STAT_ADD(mirror_gaps, 1);
    if (error == OK)
        log_warn(MIRROR_AREA,
                 "gap: the source removed records before they were copied mirror=%s topic=%s partition=%d from=%lld to=%lld",
                 r->mp->mirror->name, r->mp->topic, r->mp->index, (long long)r->gap_from, (long long)r->target);
    return error;
}

/* On record before the log is cut, too: a crash in between finds the same divergence again. */
static enum error record_truncation(struct resolving *r, struct change *c)
{
    struct mirror_truncation cut;
    enum error error = mirror_truncation_find(r->mp->mirror->all, r->partition, r->restart ? 0 : r->target, &cut);
    if (error != OK || cut.records == 0)
        return error;
    struct mirror_partition_record *record = change_edit(c, r->mp);
    record->has_truncation = true;
    record->truncation = cut;
    error = change_commit(c, &r->problem);
    if (error == OK)
        log_warn(MIRROR_AREA,
                 "truncating: the source's history differs mirror=%s topic=%s partition=%d to=%lld records=%lld bytes=%lld",
                 r->mp->mirror->name, r->mp->topic, r->mp->index, (long long)r->target, (long long)cut.records,
                 (long long)cut.bytes);
    return error;
}

static void work(void *arg)
{
    struct resolving *r = arg;
    struct change c;
    enum error error = OK;
    change_begin(&c, r->mp->mirror->all); /* held over the cut: a stop or pause that begins meanwhile must find the log at rest */
    if (!mirror_partition_is(r->mp, MIRROR_MIRRORING))
        error = problem_set(&r->problem, ERR_STATE, "%s-%d is not mirroring any more", r->mp->topic, r->mp->index);
    if (error == OK && r->gap_from >= 0)
        error = record_gap(r, &c);
    else if (error == OK)
        error = record_truncation(r, &c);
    if (error == OK)
        error = r->restart ? partition_restart_at(r->partition, r->target) : partition_truncate_to(r->partition, r->target);
    change_end(&c);
    if (error != OK && r->problem.code == OK)
        problem_set(&r->problem, error, "The log of %s-%d could not be cut at offset %lld: %s", r->mp->topic, r->mp->index,
                    (long long)r->target, error_message(error));
    r->error = error;
    mirrors_post(r->mp->mirror->all, r->f->loop, worked, r);
}

static void go_to_worker(struct resolving *r)
{
    r->on_worker = true;
    r->mp = mirror_partition_ref(r->fp->mp);
    r->partition = partition_ref(r->fp->partition);
    mirrors_work(r->f->m, work, r);
}

static void diverged(struct resolving *r, const struct divergence_step *step)
{
    struct fetch_partition *fp = r->fp;
    const struct mirror_config *config = &r->f->mirror->record.config;
    struct problem why;
    if (config->on_divergence == MIRROR_DIVERGENCE_TRUNCATE) {
        r->restart = step->verdict == DIVERGENCE_NOTHING;
        r->target = r->restart ? r->source_start : step->offset;
        go_to_worker(r);
        return;
    }
    if (r->view.source_end >= 0)
        problem_set(
            &why, INVALID_CLUSTER_MIRROR_STATE,
            "The histories of %s-%d differ: at the source leader epoch %d ends at offset %lld, here epoch %d goes on to %lld",
            fp->mp->topic, fp->index, r->view.source_epoch, (long long)r->view.source_end, r->last_epoch,
            (long long)fp->next_offset);
    else
        problem_set(&why, INVALID_CLUSTER_MIRROR_STATE,
                    "The histories of %s-%d differ: the source knows no leader epoch up to %d, here epoch %d ends at offset %lld",
                    fp->mp->topic, fp->index, r->last_epoch, r->last_epoch, (long long)fp->next_offset);
    problem_detail(&why, "the source lost records that were copied, by an unclean election or a restored disk");
    problem_hint(&why, "Stop the topic to keep what is here, or set on.divergence=truncate to follow the source");
    fetcher_fail(r->f, fp, &why, false);
}

static void judge(struct resolving *r)
{
    struct fetch_partition *fp = r->fp;
    struct plog *log = partition_lock(fp->partition);
    if (log == NULL) {
        give_up(r, UNKNOWN_TOPIC_OR_PARTITION, "it is closed here");
        return;
    }
    r->view.end_offset = fp->next_offset;
    r->view.source_start = r->source_start;
    plog_end_offset_for_epoch(log, r->view.source_epoch, &r->view.local_epoch, &r->view.local_end);
    partition_unlock(fp->partition);
    struct divergence_step step = divergence_judge(&r->view);
    switch (step.verdict) {
    case DIVERGENCE_NONE:
        if (!r->only_check) {
            give_up(r, OFFSET_NOT_AVAILABLE, "the source does not answer for our end yet");
            return;
        }
        struct fetcher *f = r->f;
        resolving_free(r);
        fetcher_resume(f, fp);
        return;
    case DIVERGENCE_GAP:
        r->gap_from = fp->next_offset;
        r->restart = true;
        r->target = r->source_start;
        go_to_worker(r);
        return;
    case DIVERGENCE_ASK:
        if (++r->rounds < ROUNDS_MAX) {
            ask_epoch(r, step.epoch);
            return;
        }
        give_up(r, ERR_MALFORMED, "the source's leader epochs make no sense");
        return;
    case DIVERGENCE_TRUNCATE:
    case DIVERGENCE_NOTHING:
        diverged(r, &step);
        return;
    }
    UNREACHABLE();
}

/* ---- Questions, over the fetcher's own connection ---- */

static void epoch_known(void *arg, struct client_response *response)
{
    struct resolving *r = arg;
    r->asked = false;
    if (r->fp == NULL || response->error != OK) {
        if (r->fp == NULL)
            resolving_free(r);
        return; /* else `closed` comes and gives all up */
    }
    const struct offset_for_leader_epoch_response *answer = response->body;
    if (answer->topics_n != 1 || answer->topics[0].partitions_n != 1) {
        give_up(r, ERR_MALFORMED, "the source's answer to OffsetForLeaderEpoch makes no sense");
        return;
    }
    if (answer->topics[0].partitions[0].error_code != OK) {
        give_up(r, (enum error)answer->topics[0].partitions[0].error_code, "the source does not tell its leader epochs");
        return;
    }
    r->view.source_epoch = answer->topics[0].partitions[0].leader_epoch;
    r->view.source_end = answer->topics[0].partitions[0].end_offset;
    judge(r);
}

static void sent(struct resolving *r, enum error error, const struct problem *why)
{
    if (error == OK)
        r->asked = true;
    else
        give_up(r, error, why->message);
}

static void ask_epoch(struct resolving *r, int32_t epoch)
{
    struct offset_for_leader_epoch_request request;
    struct offset_for_leader_epoch_request_topics topic = {0};
    struct offset_for_leader_epoch_request_topics_partitions partition = {0};
    struct problem why;
    proto_init(&PROTO_OFFSET_FOR_LEADER_EPOCH_REQUEST, &request);
    request.replica_id = -1;
    request.topics = &topic;
    request.topics_n = 1;
    topic.topic = str_of(r->fp->topic->name);
    topic.partitions = &partition;
    topic.partitions_n = 1;
    partition.partition = r->fp->index;
    partition.current_leader_epoch = r->fp->leader_epoch;
    partition.leader_epoch = epoch;
    r->view.asked_epoch = epoch;
    sent(r, client_conn_send(r->f->conn, API_OFFSET_FOR_LEADER_EPOCH, -1, &request, 0, epoch_known, r, &why), &why);
}

static void start_known(void *arg, struct client_response *response)
{
    struct resolving *r = arg;
    r->asked = false;
    if (r->fp == NULL || response->error != OK) {
        if (r->fp == NULL)
            resolving_free(r);
        return;
    }
    const struct list_offsets_response *answer = response->body;
    bool sane = answer->topics_n == 1 && answer->topics[0].partitions_n == 1;
    if (!sane || answer->topics[0].partitions[0].error_code != OK || answer->topics[0].partitions[0].offset < 0) {
        give_up(r,
                sane && answer->topics[0].partitions[0].error_code != OK ? (enum error)answer->topics[0].partitions[0].error_code
                                                                         : ERR_MALFORMED,
                "the source does not tell where its log starts");
        return;
    }
    r->source_start = answer->topics[0].partitions[0].offset;
    if (divergence_is_gap(r->fp->next_offset, r->source_start)) {
        r->view.source_epoch = r->view.source_end = -1;
        judge(r);
    } else if (r->last_epoch >= 0) {
        ask_epoch(r, r->last_epoch);
    } else { /* an empty log: there is no history that could differ but the offset itself */
        r->view.asked_epoch = r->view.source_epoch = -1;
        r->view.source_end = -1;
        judge(r);
    }
}

static void ask_start(struct resolving *r)
{
    struct list_offsets_request request;
    struct list_offsets_request_topics topic = {0};
    struct list_offsets_request_topics_partitions partition = {0};
    struct problem why;
    proto_init(&PROTO_LIST_OFFSETS_REQUEST, &request);
    request.replica_id = -1;
    request.topics = &topic;
    request.topics_n = 1;
    topic.name = str_of(r->fp->topic->name);
    topic.partitions = &partition;
    topic.partitions_n = 1;
    partition.partition_index = r->fp->index;
    partition.current_leader_epoch = r->fp->leader_epoch;
    partition.timestamp = -2;
    sent(r, client_conn_send(r->f->conn, API_LIST_OFFSETS, -1, &request, 0, start_known, r, &why), &why);
}

void fetcher_resolve(struct fetcher *f, struct fetch_partition *fp)
{
    struct resolving *r = begin(f, fp, false);
    r->last_epoch = fp->last_epoch;
    ask_start(r);
}

void fetcher_check_history(struct fetcher *f, struct fetch_partition *fp)
{
    if (f->version >= 12 || fp->last_epoch < 0 || fp->held)
        return;
    struct resolving *r = begin(f, fp, true);
    r->last_epoch = fp->last_epoch;
    ask_start(r);
}
