/* What a Fetch answer says: in two passes. First everything in it is judged, without a change: sizes, CRC, order, epochs,
 * producer ids. Where a leader epoch or the floor of producer ids must be raised first, or an empty log made to begin inside a
 * batch, that is done for all partitions together on a worker while nothing else is fetched (it is rare). Then the batches
 * are appended straight from the response's frame, and the next request goes out. */
#include <stdio.h>
#include <string.h>

#include "base/logger.h"
#include "base/stats.h"
#include "mirror/fetcher.h"
#include "mirror/judge.h"

#define SEEN_INTERVAL_MS 200
#define SMALL_ANSWER_BYTES (64 * 1024)

static void write_pieces(struct fetcher *f, struct client_response *kept);

/* ---- Errors of one partition ---- */

static const char *retry_hint(enum error error)
{
    switch (error) {
    case TOPIC_AUTHORIZATION_FAILED:
    case CLUSTER_AUTHORIZATION_FAILED:
        return "Allow this cluster to read the topic at the source";
    case CORRUPT_MESSAGE:
        return "The source found damage in its own log: look at the source";
    default:
        return "Look at the source, then: kagami mirror recover";
    }
}

/* The source moved, or does not know the partition: the link asks for metadata, which tell what happened (a leader elsewhere,
 * a topic deleted or made anew). */
static bool metadata_may_help(int16_t code)
{
    switch (code) {
    case UNKNOWN_TOPIC_OR_PARTITION:
    case UNKNOWN_TOPIC_ID:
    case INCONSISTENT_TOPIC_ID:
    case LEADER_NOT_AVAILABLE:
    case NOT_LEADER_OR_FOLLOWER:
    case REPLICA_NOT_AVAILABLE:
    case FENCED_LEADER_EPOCH:
    case UNKNOWN_LEADER_EPOCH:
    case OFFSET_NOT_AVAILABLE:
    case KAFKA_STORAGE_ERROR:
    case REQUEST_TIMED_OUT:
    case BROKER_NOT_AVAILABLE:
    case NETWORK_EXCEPTION:
        return true;
    default:
        return false;
    }
}

static void partition_error(struct fetcher *f, struct fetch_partition *fp, int16_t code)
{
    struct problem why;
    if (code == OFFSET_OUT_OF_RANGE) {
        fetcher_resolve(f, fp);
        return;
    }
    problem_set(&why, (enum error)code, "The source answers %s for %s-%d at offset %lld", error_name(code), fp->mp->topic,
                fp->index, (long long)fp->next_offset);
    if (metadata_may_help(code)) {
        fetcher_give_up(f, fp, &why);
        return;
    }
    problem_hint(&why, "%s", retry_hint((enum error)code));
    fetcher_fail(f, fp, &why, true);
}

/* ---- First pass ---- */

static void fault(struct fetch_piece *piece, const struct judged *j)
{
    const struct fetch_partition *fp = piece->fp;
    long long offset = j->fault_offset;
    if (j->fault == JUDGED_OLD_FORMAT) {
        problem_set(&piece->bad, UNSUPPORTED_FOR_MESSAGE_FORMAT,
                    "%s-%d holds an old message format at offset %lld: only format v2 can be mirrored", fp->mp->topic, fp->index,
                    offset);
        problem_hint(&piece->bad,
                     "Rewrite it at the source, or let retention remove it there, then: kagami mirror recover %s --topics %s",
                     fp->mp->mirror->name, fp->mp->topic);
        return;
    }
    problem_set(&piece->bad, CORRUPT_MESSAGE, "The source sent a damaged batch of %s-%d at offset %lld: %s", fp->mp->topic,
                fp->index, offset, j->fault_reason != NULL ? j->fault_reason : "it cannot be read");
    problem_hint(&piece->bad, "Nothing of it was stored; look at the source's log and at the network");
    piece->bad_retryable = j->fault == JUDGED_DAMAGED;
}

/* Growth for sources that cut a batch short rather than send it whole. */
static void grow_limit(struct fetcher *f, struct fetch_partition *fp, int64_t partial_size)
{
    int64_t wanted = MAX(partial_size, (int64_t)fp->max_bytes * 2);
    fp->max_bytes = (int32_t)MIN(wanted, (int64_t)INT32_MAX);
    fetcher_mark(f, fp);
}

/* The first batch begins below our end. */
static void overlap(struct fetch_piece *piece, int64_t base)
{
    struct fetch_partition *fp = piece->fp;
    struct partition_state state;
    partition_get_state(fp->partition, &state);
    if (state.log_start_offset == state.end_offset) {
        piece->restart_at = base; /* the source's log starts inside this batch */
        return;
    }
    problem_set(&piece->bad, CORRUPT_MESSAGE,
                "The source's batch at offset %lld of %s-%d reaches over our end %lld: the histories differ", (long long)base,
                fp->mp->topic, fp->index, (long long)fp->next_offset);
    problem_hint(&piece->bad, "Stop the topic, and start it anew with --discard-local-data");
    piece->batches.len = 0;
    piece->next_offset = fp->next_offset;
}

static void judge_piece(struct fetcher *f, struct fetch_piece *piece, struct bytes records)
{
    struct judged j;
    judge_records(records, piece->fp->next_offset, &j);
    piece->batches = j.batches;
    piece->next_offset = j.next_offset;
    piece->batch_count = j.batch_count;
    piece->max_epoch = j.max_epoch;
    piece->last_epoch = j.last_epoch;
    piece->max_producer_id = j.max_producer_id;
    if (j.fault != JUDGED_SOUND)
        fault(piece, &j);
    if (j.partial_size >= 0)
        grow_limit(f, piece->fp, j.partial_size);
    if (j.overlap_base >= 0)
        overlap(piece, j.overlap_base);
}

static void judge_partition(struct fetcher *f, struct fetch_partition *fp,
                            const struct fetch_response_responses_partitions *answer)
{
    struct mirror_partition *mp = fp->mp;
    atomic_store_explicit(&mp->source_high_watermark, answer->high_watermark, memory_order_relaxed);
    if (answer->log_start_offset >= 0)
        atomic_store_explicit(&mp->source_log_start, answer->log_start_offset, memory_order_relaxed);
    atomic_store_explicit(&mp->source_seen_ms, clock_mono_ms(f->m->params.clock), memory_order_relaxed);
    struct fetch_piece *piece = &f->pieces[f->piece_count++];
    *piece = (struct fetch_piece){.fp = fp,
                                  .next_offset = fp->next_offset,
                                  .restart_at = -1,
                                  .max_epoch = -1,
                                  .max_producer_id = -1,
                                  .log_start = answer->log_start_offset};
    if (answer->records.p != NULL && answer->records.len > 0)
        judge_piece(f, piece, (struct bytes){answer->records.p, answer->records.len});
}

static void first_pass(struct fetcher *f, const struct fetch_response *r)
{
    int total = 0;
    for (int32_t t = 0; t < r->responses_n; t++)
        total += MAX(r->responses[t].partitions_n, 0);
    f->pieces = mem_calloc((size_t)total + 1, sizeof(*f->pieces));
    for (int32_t t = 0; t < r->responses_n; t++) {
        const struct fetch_response_responses *topic = &r->responses[t];
        for (int32_t p = 0; p < topic->partitions_n; p++) {
            const struct fetch_response_responses_partitions *answer = &topic->partitions[p];
            struct fetch_partition *fp = fetcher_find(f, topic->topic, &topic->topic_id, answer->partition_index);
            if (fp == NULL || fp->held || !fp->in_session || fp->answer == f->answers) /* the last: named twice */
                continue;
            fp->answer = f->answers;
            if (answer->error_code != OK)
                partition_error(f, fp, answer->error_code);
            else if (answer->diverging_epoch.end_offset >= 0 || answer->diverging_epoch.epoch >= 0)
                fetcher_resolve(f, fp);
            else
                judge_partition(f, fp, answer);
        }
    }
}

/* ---- What must be raised before anything is stored ---- */

struct raising {
    struct fetcher *f;
    struct client_response *response; /* kept */
    struct mirrors *m;
    int count;
    struct {
        struct mirror_partition *mp; /* referenced */
        struct partition *partition; /* referenced */
        int64_t restart_at;
        enum error error;
    } * items;
    struct epoch_raise *raises; /* one for each item */
    int64_t max_producer_id;
    enum error error; /* of all */
    struct problem problem;
};

static void raised(void *arg)
{
    struct raising *r = arg;
    struct fetcher *f = r->f;
    f->raising = false;
    for (int i = 0; i < r->count; i++) {
        for (int j = 0; j < f->piece_count; j++) {
            struct fetch_piece *piece = &f->pieces[j];
            if (piece->fp == NULL || piece->fp->mp != r->items[i].mp)
                continue;
            piece->fp->local_epoch = MAX(piece->fp->local_epoch, r->raises[i].leader_epoch);
            if (piece->restart_at >= 0)
                piece->fp->told_start = piece->restart_at;
            if (r->items[i].error != OK) {
                problem_set(&piece->bad, r->items[i].error, "The epoch or the start of %s-%d could not be set: %s",
                            piece->fp->mp->topic, piece->fp->index, error_message(r->items[i].error));
                piece->bad_retryable = true;
                piece->batches.len = 0;
                piece->next_offset = piece->fp->next_offset;
            }
        }
        partition_unref(r->items[i].partition);
        mirror_partition_unref(r->items[i].mp);
    }
    if (r->error != OK) {
        for (int j = 0; j < f->piece_count; j++) {
            if (f->pieces[j].fp == NULL || f->pieces[j].batches.len == 0)
                continue;
            f->pieces[j].bad = r->problem;
            f->pieces[j].bad_retryable = true;
            f->pieces[j].batches.len = 0;
            f->pieces[j].next_offset = f->pieces[j].fp->next_offset;
        }
    }
    mem_free(r->items);
    mem_free(r->raises);
    struct client_response *kept = r->response;
    struct mirror *mirror = f->mirror;
    mem_free(r);
    write_pieces(f, kept);
    mirror_unref(mirror);
}

static void raise_work(void *arg)
{
    struct raising *r = arg;
    int epochs = 0;
    r->error = r->max_producer_id >= 0
                   ? controller_producer_ids_raise_above(r->m->params.controller, r->max_producer_id, &r->problem)
                   : OK;
    for (int i = 0; i < r->count; i++)
        epochs += r->raises[i].at_least > 0;
    if (r->error == OK && epochs > 0)
        r->error = controller_raise_leader_epochs(r->m->params.controller, r->raises, r->count, NULL, &r->problem);
    for (int i = 0; i < r->count && r->error == OK; i++) {
        enum error error = OK;
        if (r->items[i].restart_at >= 0) {
            mutex_lock(&r->m->change_mutex); /* a stop that begins meanwhile must find the log at rest */
            if (mirror_partition_is(r->items[i].mp, MIRROR_MIRRORING))
                error = partition_restart_at(r->items[i].partition, r->items[i].restart_at);
            mutex_unlock(&r->m->change_mutex);
        }
        if (error == OK && r->raises[i].leader_epoch >= 0)
            error = partition_set_leader_epoch(r->items[i].partition, r->raises[i].leader_epoch);
        if (error == OK && r->raises[i].at_least > 0)
            log_info(MIRROR_AREA, "leader epoch raised above the source's topic=%s partition=%d epoch=%d", r->raises[i].topic,
                     r->raises[i].partition, r->raises[i].leader_epoch);
        r->items[i].error = error == ERR_STATE ? OK : error; /* ERR_STATE: it stands higher already */
    }
    mirrors_post(r->m, r->f->loop, raised, r);
}

static bool begin_raising(struct fetcher *f, struct client_response *response)
{
    struct raising *r = NULL;
    int64_t max_producer_id = -1;
    int64_t floor = controller_producer_id_floor(f->m->params.controller);
    int n = 0;
    for (int i = 0; i < f->piece_count; i++) {
        struct fetch_piece *piece = &f->pieces[i];
        if (piece->fp == NULL || piece->batches.len == 0)
            continue;
        if (piece->max_producer_id >= floor)
            max_producer_id = MAX(max_producer_id, piece->max_producer_id);
        n += piece->max_epoch > piece->fp->local_epoch || piece->restart_at >= 0;
    }
    if (n == 0 && max_producer_id < 0)
        return false;
    r = mem_calloc(1, sizeof(*r));
    r->f = f;
    r->m = f->m;
    r->max_producer_id = max_producer_id;
    r->items = mem_calloc((size_t)n + 1, sizeof(*r->items));
    r->raises = mem_calloc((size_t)n + 1, sizeof(*r->raises));
    for (int i = 0; i < f->piece_count; i++) {
        struct fetch_piece *piece = &f->pieces[i];
        if (piece->fp == NULL || piece->batches.len == 0 || (piece->max_epoch <= piece->fp->local_epoch && piece->restart_at < 0))
            continue;
        struct mirror_partition *mp = mirror_partition_ref(piece->fp->mp);
        r->items[r->count].mp = mp;
        r->items[r->count].partition = partition_ref(piece->fp->partition);
        r->items[r->count].restart_at = piece->restart_at;
        r->raises[r->count++] = (struct epoch_raise){
            .topic = mp->topic,
            .partition = mp->index,
            .at_least = piece->max_epoch > piece->fp->local_epoch ? piece->max_epoch + MIRROR_EPOCH_MARGIN : 0,
            .leader_epoch = -1};
    }
    f->raising = true;
    r->response = client_response_keep(response);
    mirror_ref(f->mirror); /* and with it its link and us */
    mirrors_work(f->m, raise_work, r);
    return true;
}

/* ---- Log starts follow the source's ---- */

struct starts {
    int count;
    struct {
        struct mirror_partition *mp;
        struct partition *partition;
        int64_t offset;
    } * items;
};

static void starts_work(void *arg)
{
    struct starts *s = arg;
    for (int i = 0; i < s->count; i++) {
        enum error error = partition_set_start_offset(s->items[i].partition, s->items[i].offset);
        if (error != OK && error != ERR_STATE)
            log_warn(MIRROR_AREA, "the log start could not follow the source's topic=%s partition=%d offset=%lld error=%s",
                     s->items[i].mp->topic, s->items[i].mp->index, (long long)s->items[i].offset, error_name(error));
        partition_unref(s->items[i].partition);
        mirror_partition_unref(s->items[i].mp);
    }
    mem_free(s->items);
    mem_free(s);
}

static void follow_start(struct fetcher *f, struct starts **starts, struct fetch_piece *piece)
{
    struct fetch_partition *fp = piece->fp;
    if (piece->log_start <= fp->told_start || piece->log_start > piece->next_offset)
        return;
    if (*starts == NULL) {
        *starts = mem_calloc(1, sizeof(**starts));
        (*starts)->items = mem_calloc((size_t)f->piece_count, sizeof(*(*starts)->items));
    }
    fp->told_start = piece->log_start;
    (*starts)->items[(*starts)->count].mp = mirror_partition_ref(fp->mp);
    (*starts)->items[(*starts)->count].partition = partition_ref(fp->partition);
    (*starts)->items[(*starts)->count++].offset = piece->log_start;
}

/* ---- Second pass ---- */

static void append_failed(struct fetcher *f, struct fetch_partition *fp, enum error error, const struct problem *problem)
{
    struct problem why;
    switch (error) {
    case ERR_STATE: /* it was taken from us */
    case UNKNOWN_TOPIC_OR_PARTITION:
        problem_set(&why, error, "%s-%d does not take copied batches now", fp->mp->topic, fp->index);
        fetcher_give_up(f, fp, &why);
        return;
    case ERR_NO_SPACE:
        problem_set(&why, error, "No space is left on the disk: %s-%d cannot be copied further", fp->mp->topic, fp->index);
        problem_hint(&why, "Make room in the data folder; it goes on by itself, nothing is lost");
        break;
    case KAFKA_STORAGE_ERROR:
    case ERR_IO:
        problem_set(&why, KAFKA_STORAGE_ERROR, "The log of %s-%d failed on the disk", fp->mp->topic, fp->index);
        problem_hint(&why, "Look at the disk, then restart the broker and: kagami mirror recover %s", fp->mp->mirror->name);
        fetcher_fail(f, fp, &why, false);
        return;
    default:
        problem_set(&why, error, "The batches of %s-%d behind offset %lld were not taken: %s", fp->mp->topic, fp->index,
                    (long long)fp->next_offset, problem->message[0] != '\0' ? problem->message : error_message(error));
        break;
    }
    fetcher_fail(f, fp, &why, true);
}

struct settling {
    struct mirror_partition *mp; /* referenced */
};

static void settle_work(void *arg)
{
    struct settling *s = arg;
    struct change c;
    struct problem problem;
    change_begin(&c, s->mp->mirror->all);
    struct mirror_partition_record *r = change_edit(&c, s->mp);
    if (r->state == MIRROR_MIRRORING && (r->retries > 0 || r->error != NULL)) {
        r->retries = 0;
        mirror_partition_record_fail(r, OK, NULL, false);
        if (change_commit(&c, &problem) == OK)
            log_info(MIRROR_AREA, "partition copies again topic=%s partition=%d", s->mp->topic, s->mp->index);
    }
    change_end(&c);
    mirror_partition_unref(s->mp);
    mem_free(s);
}

static void went_well(struct fetch_partition *fp)
{
    struct mirror_partition *mp = fp->mp;
    if (atomic_load_explicit(&mp->settled, memory_order_relaxed))
        return;
    atomic_store(&mp->settled, true);
    mirror_partition_note_trouble(mp, NULL);
    struct settling *s = mem_alloc(sizeof(*s));
    s->mp = mirror_partition_ref(mp);
    mirrors_work(mp->mirror->all, settle_work, s);
}

static void append(struct fetcher *f, struct fetch_piece *piece, struct starts **starts)
{
    struct fetch_partition *fp = piece->fp;
    struct problem problem = {0};
    struct plog_appended appended;
    if (piece->batches.len > 0) {
        enum error error = partition_append_copied(fp->partition, piece->batches, -1, &appended, &problem);
        if (error != OK) {
            append_failed(f, fp, error, &problem);
            return;
        }
        STAT_ADD(mirror_bytes, piece->batches.len);
        STAT_ADD(mirror_batches, piece->batch_count);
    }
    follow_start(f, starts, piece);
    if (piece->bad.code != OK)
        fetcher_fail(f, fp, &piece->bad, piece->bad_retryable);
    else
        went_well(fp);
}

static void seen(struct fetcher *f)
{
    int64_t now = clock_mono_ms(f->m->params.clock);
    struct fetch_partition *fp;
    if (now - f->seen_ms < SEEN_INTERVAL_MS)
        return;
    f->seen_ms = now;
    TAILQ_FOREACH (fp, &f->partitions, link) {
        if (fp->in_session && atomic_load_explicit(&fp->mp->source_high_watermark, memory_order_relaxed) >= 0)
            atomic_store_explicit(&fp->mp->source_seen_ms, now, memory_order_relaxed);
    }
}

static void append_all(struct fetcher *f)
{
    struct starts *starts = NULL;
    for (int i = 0; i < f->piece_count; i++) {
        if (f->pieces[i].fp != NULL)
            append(f, &f->pieces[i], &starts);
    }
    if (starts != NULL)
        mirrors_work(f->m, starts_work, starts);
}

/* kept NULL: the response is still the callback's.
 *
 * Small answers are appended before the next request goes out: readers here have them earlier by what sending costs, which is as much as the append. With
 * large ones the source works on the next while we write. */
static void write_pieces(struct fetcher *f, struct client_response *kept)
{
    int64_t bytes = 0;
    for (int i = 0; i < f->piece_count; i++) {
        struct fetch_piece *piece = &f->pieces[i];
        if (piece->fp == NULL)
            continue;
        bytes += piece->batches.len;
        if (piece->next_offset != piece->fp->next_offset) {
            piece->fp->next_offset = piece->next_offset;
            piece->fp->last_epoch = piece->last_epoch;
            fetcher_mark(f, piece->fp);
        }
        if (piece->bad.code != OK)
            fetcher_hold(f, piece->fp); /* not asked for again */
    }
    fetcher_throttle(f, link_throttle_ms(f->owner, bytes));
    if (bytes > SMALL_ANSWER_BYTES)
        fetcher_send(f);
    append_all(f);
    client_response_free(kept);
    mem_free(f->pieces);
    f->pieces = NULL;
    f->piece_count = 0;
    fetcher_send(f);
}

/* ---- The whole answer ---- */

static bool session_ok(struct fetcher *f, const struct fetch_response *r)
{
    struct problem why;
    switch (r->error_code) {
    case OK:
        break;
    case FETCH_SESSION_ID_NOT_FOUND:
    case INVALID_FETCH_SESSION_EPOCH:
    case FETCH_SESSION_TOPIC_ID_ERROR:
        fetcher_reset_session(f);
        return false;
    default:
        problem_set(&why, (enum error)r->error_code, "The source answers %s to a fetch", error_name(r->error_code));
        fetcher_reset_session(f);
        fetcher_give_up_all(f, &why);
        return false;
    }
    if (f->sent_full) {
        f->session_id = r->session_id;
        f->session_epoch = r->session_id != 0 ? 1 : 0;
    } else {
        f->session_epoch = f->session_epoch == INT32_MAX ? 1 : f->session_epoch + 1;
    }
    return true;
}

void fetcher_answer(struct fetcher *f, struct client_response *response)
{
    const struct fetch_response *r = response->body;
    ASSERT(f->pieces == NULL);
    if (f->closed || !session_ok(f, r)) {
        fetcher_send(f);
        return;
    }
    f->answers++;
    seen(f);
    first_pass(f, r);
    if (!begin_raising(f, response))
        write_pieces(f, NULL);
}
