/* Connection, session and requests of a fetcher. One request is in flight; behind a large answer the next one goes out before its batches are
 * written. Partitions without news cost nothing: the source keeps them in a fetch session (KIP-227), and only what
 * changed is named. */
#include <stdio.h>
#include <string.h>

#include "base/logger.h"
#include "mirror/fetcher.h"

#define FETCH_VERSION_MIN 10 /* Kafka 2.1 */
#define FETCH_VERSION_IDS 13 /* topics by id */

/* A request that waits at the source cannot be told of a partition that has come meanwhile. They come in crowds, when a mirror starts or a
 * broker takes over leaders: for so long after the last one requests wait no longer than this. */
#define JOINING_MS 2000
#define JOINING_WAIT_MS 20

struct fetcher *fetcher_create(struct link *link, struct mirror *mirror, struct loop *loop, int32_t broker)
{
    struct fetcher *f = mem_calloc(1, sizeof(*f));
    f->owner = link;
    f->mirror = mirror;
    f->m = mirror->all;
    f->loop = loop;
    f->broker = broker;
    TAILQ_INIT(&f->partitions);
    TAILQ_INIT(&f->marked);
    LIST_INIT(&f->resolving);
    arena_init(&f->forgotten_names, SIZE_MAX);
    return f;
}

struct loop *fetcher_loop(const struct fetcher *f)
{
    return f->loop;
}
int32_t fetcher_broker(const struct fetcher *f)
{
    return f->broker;
}

/* ---- Partitions ---- */

/* NULL: an older topic of the name, with another id, is not gone from here yet. */
static struct fetch_topic *topic_for(struct fetcher *f, const char *name, const struct uuid *id)
{
    struct fetch_topic *t = NULL;
    HASH_FIND(by_name, f->by_name, name, strlen(name), t);
    if (t != NULL)
        return uuid_eq(&t->id, id) ? t : NULL;
    t = mem_calloc(1, sizeof(*t));
    t->name = mem_strdup(name);
    t->id = *id;
    HASH_ADD_KEYPTR(by_name, f->by_name, t->name, strlen(t->name), t);
    if (!uuid_is_zero(id))
        HASH_ADD(by_id, f->by_id, id, sizeof(t->id), t);
    return t;
}

struct fetch_partition *fetcher_find(struct fetcher *f, struct str topic, const struct uuid *id, int32_t index)
{
    struct fetch_topic *t = NULL;
    if (f->version >= FETCH_VERSION_IDS)
        HASH_FIND(by_id, f->by_id, id, sizeof(*id), t);
    else if (topic.len > 0)
        HASH_FIND(by_name, f->by_name, topic.p, (unsigned)topic.len, t);
    return t != NULL && index >= 0 && index < t->room ? t->partitions[index] : NULL;
}

struct fetch_partition *fetcher_find_mp(struct fetcher *f, const struct mirror_partition *mp)
{
    struct fetch_topic *t = NULL;
    HASH_FIND(by_name, f->by_name, mp->topic, strlen(mp->topic), t);
    struct fetch_partition *fp = t != NULL && mp->index < t->room ? t->partitions[mp->index] : NULL;
    return fp != NULL && fp->mp == mp ? fp : NULL;
}

static void read_position(struct fetch_partition *fp)
{
    struct partition_state state;
    struct plog *log = partition_lock(fp->partition);
    fp->last_epoch = -1;
    if (log != NULL) {
        fp->last_epoch = plog_start_offset(log) < plog_end_offset(log) ? plog_last_batch_epoch(log) : -1;
        partition_unlock(fp->partition);
    }
    partition_get_state(fp->partition, &state);
    fp->next_offset = state.end_offset;
    fp->local_epoch = state.leader_epoch;
    fp->told_start = state.log_start_offset;
}

static void forget(struct fetcher *f, struct fetch_partition *fp)
{
    if (!fp->in_session)
        return;
    fp->in_session = false;
    if (f->forgotten_count == f->forgotten_room) {
        f->forgotten_room = MAX(16, f->forgotten_room * 2);
        f->forgotten = mem_realloc(f->forgotten, (size_t)f->forgotten_room * sizeof(*f->forgotten));
    }
    f->forgotten[f->forgotten_count++] =
        (struct forgotten){arena_str(&f->forgotten_names, str_of(fp->topic->name)), fp->topic->id, fp->index};
}

/* Named again before the source was told: it may not be forgotten after all (Kafka forgets last). */
static void remember(struct fetcher *f, const struct fetch_partition *fp)
{
    for (int i = 0; i < f->forgotten_count; i++) {
        struct forgotten *g = &f->forgotten[i];
        if (g->index == fp->index && uuid_eq(&g->id, &fp->topic->id) && str_is(g->topic, fp->topic->name))
            f->forgotten[i--] = f->forgotten[--f->forgotten_count];
    }
}

static void forgotten_told(struct fetcher *f)
{
    f->forgotten_count = 0;
    arena_reset(&f->forgotten_names);
}

void fetcher_mark(struct fetcher *f, struct fetch_partition *fp)
{
    if (fp->marked)
        return;
    fp->marked = true;
    f->marked_count++;
    TAILQ_INSERT_TAIL(&f->marked, fp, in_marked);
}

static void unmark(struct fetcher *f, struct fetch_partition *fp)
{
    if (!fp->marked)
        return;
    fp->marked = false;
    f->marked_count--;
    TAILQ_REMOVE(&f->marked, fp, in_marked);
}

void fetcher_hold(struct fetcher *f, struct fetch_partition *fp)
{
    if (fp->held)
        return;
    fp->held = true;
    f->held_count++;
    unmark(f, fp); /* fetcher_resume marks it */
    forget(f, fp);
}

static void joined(struct fetcher *f, struct fetch_partition *fp)
{
    f->joined_ms = clock_mono_ms(f->m->params.clock);
    fetcher_mark(f, fp);
}

void fetcher_resume(struct fetcher *f, struct fetch_partition *fp)
{
    if (fp->held) {
        fp->held = false;
        f->held_count--;
    }
    read_position(fp);
    joined(f, fp);
    fetcher_send(f);
}

void fetcher_drop(struct fetcher *f, struct fetch_partition *fp)
{
    resolving_cancel(fp);
    for (int i = 0; i < f->piece_count; i++) {
        if (f->pieces[i].fp == fp)
            f->pieces[i].fp = NULL;
    }
    forget(f, fp);
    unmark(f, fp);
    f->held_count -= fp->held;
    f->partition_count--;
    TAILQ_REMOVE(&f->partitions, fp, link);
    struct fetch_topic *t = fp->topic;
    t->partitions[fp->index] = NULL;
    if (--t->count == 0) {
        HASH_DELETE(by_name, f->by_name, t);
        if (!uuid_is_zero(&t->id))
            HASH_DELETE(by_id, f->by_id, t);
        mem_free(t->partitions);
        mem_free(t->name);
        mem_free(t);
    }
    partition_unref(fp->partition);
    mirror_partition_unref(fp->mp);
    mem_free(fp);
}

void fetcher_give_up(struct fetcher *f, struct fetch_partition *fp, const struct problem *why)
{
    link_lost(f->owner, f, fp->mp, why);
    fetcher_drop(f, fp);
}

void fetcher_fail(struct fetcher *f, struct fetch_partition *fp, const struct problem *why, bool retryable)
{
    mirror_partition_fail(fp->mp, why, retryable);
    fetcher_give_up(f, fp, why);
}

void fetcher_give_up_all(struct fetcher *f, const struct problem *why)
{
    while (!TAILQ_EMPTY(&f->partitions))
        fetcher_give_up(f, TAILQ_FIRST(&f->partitions), why);
}

/* ---- Connection ---- */

void fetcher_reset_session(struct fetcher *f)
{
    struct fetch_partition *fp;
    f->session_id = f->session_epoch = 0;
    TAILQ_FOREACH (fp, &f->partitions, link)
        fp->in_session = false;
    forgotten_told(f);
}

static void disconnect(struct fetcher *f)
{
    client_conn_destroy(f->conn);
    f->conn = NULL;
    f->checked = f->in_flight = false;
    resolving_disconnected(f);
    fetcher_reset_session(f);
}

static void conn_closed(void *arg, struct client_conn *conn, const struct problem *problem)
{
    struct fetcher *f = arg;
    (void)conn;
    disconnect(f);
    fetcher_give_up_all(f, problem);
}

static void broken(struct fetcher *f, const struct problem *why)
{
    disconnect(f);
    fetcher_give_up_all(f, why);
}

/* An address may have passed to a broker of another cluster. */
static void identity_known(void *arg, struct client_response *response)
{
    struct fetcher *f = arg;
    struct problem why;
    if (response->error != OK)
        return; /* `closed` comes, too */
    const struct metadata_response *metadata = response->body;
    mutex_lock(&f->m->mutex);
    const char *expected = f->mirror->record.source_cluster_id;
    bool other = expected != NULL && metadata->cluster_id.p != NULL && !str_is(metadata->cluster_id, expected);
    if (other)
        problem_set(&why, INCONSISTENT_CLUSTER_ID, "Broker %d of the source %s answers for the cluster %.*s", f->broker, expected,
                    STR_ARG(metadata->cluster_id));
    mutex_unlock(&f->m->mutex);
    if (other) {
        broken(f, &why);
        return;
    }
    f->checked = true;
    struct fetch_partition *fp, *next;
    for (fp = TAILQ_FIRST(&f->partitions); fp != NULL; fp = next) {
        next = TAILQ_NEXT(fp, link);
        fetcher_check_history(f, fp);
    }
    fetcher_send(f);
}

static void conn_ready(void *arg, struct client_conn *conn)
{
    struct fetcher *f = arg;
    struct problem why;
    struct metadata_request request;
    int16_t version = 12;
    if (f->by_id != NULL)
        version = -1;
    enum error error = client_conn_version(conn, API_FETCH, FETCH_VERSION_MIN, version, &f->version, &why);
    proto_init(&PROTO_METADATA_REQUEST, &request);
    request.topics_n = 0;
    request.allow_auto_topic_creation = false;
    if (error == OK)
        error = client_conn_send(conn, API_METADATA, -1, &request, 0, identity_known, f, &why);
    if (error != OK)
        broken(f, &why);
}

static void connect_to(struct fetcher *f, const char *host, int port)
{
    static const struct client_conn_events EVENTS = {.ready = conn_ready, .closed = conn_closed};
    const struct mirror_config *config = &f->mirror->record.config;
    struct host_port address;
    struct client_options options = {.client_id = "kagami-mirror",
                                     .request_timeout_ms = config->request_timeout_ms,
                                     .idle_timeout_ms = MAX(config->connections_max_idle_ms, 0),
                                     .receive_buffer_bytes = (int)MAX(config->socket_receive_buffer_bytes, 0),
                                     .helpers = f->m->params.helpers};
    snprintf(address.host, sizeof(address.host), "%s", host);
    address.port = port;
    f->conn = client_conn_create(f->loop, &address, &options, &EVENTS, f);
}

/* ---- Requests ---- */

static int by_topic(const void *a, const void *b)
{
    const struct fetch_partition *x = *(struct fetch_partition *const *)a, *y = *(struct fetch_partition *const *)b;
    int order = strcmp(x->topic->name, y->topic->name);
    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

/* The partitions that this request names, in an order that puts each topic in one place. */
static int choose(struct fetcher *f, struct fetch_partition **out)
{
    struct fetch_partition *fp;
    int n = 0;
    if (f->session_epoch == 0) {
        TAILQ_FOREACH (fp, &f->partitions, link) {
            if (!fp->held)
                out[n++] = fp;
        }
    } else {
        TAILQ_FOREACH (fp, &f->marked, in_marked) {
            if (!fp->held)
                out[n++] = fp;
        }
    }
    qsort(out, (size_t)n, sizeof(*out), by_topic);
    return n;
}

static void fill(struct fetcher *f, struct fetch_request *request, struct arena *arena, struct fetch_partition **chosen, int n)
{
    int topics = 0;
    for (int i = 0; i < n; i++)
        topics += i == 0 || chosen[i]->topic != chosen[i - 1]->topic;
    request->topics = fetch_request_topics_new(arena, topics);
    request->topics_n = topics;
    for (int i = 0, t = 0; t < topics; t++) {
        int end = i;
        while (end < n && chosen[end]->topic == chosen[i]->topic)
            end++;
        struct fetch_request_topics *topic = &request->topics[t];
        if (f->version >= FETCH_VERSION_IDS)
            topic->topic_id = chosen[i]->topic->id;
        else
            topic->topic = str_of(chosen[i]->topic->name);
        topic->partitions = fetch_request_topics_partitions_new(arena, end - i);
        topic->partitions_n = end - i;
        for (int p = 0; i < end; i++, p++) {
            struct fetch_request_topics_partitions *out = &topic->partitions[p];
            out->partition = chosen[i]->index;
            out->current_leader_epoch = chosen[i]->leader_epoch;
            out->fetch_offset = chosen[i]->next_offset;
            if (f->version >= 12)
                out->last_fetched_epoch = chosen[i]->last_epoch;
            out->partition_max_bytes = chosen[i]->max_bytes;
            if (!chosen[i]->in_session)
                remember(f, chosen[i]);
            chosen[i]->in_session = true;
            unmark(f, chosen[i]);
        }
    }
}

static void fill_forgotten(struct fetcher *f, struct fetch_request *request, struct arena *arena)
{
    if (f->session_epoch == 0 || f->forgotten_count == 0)
        return;
    request->forgotten_topics_data = fetch_request_forgotten_topics_data_new(arena, f->forgotten_count);
    request->forgotten_topics_data_n = f->forgotten_count;
    for (int i = 0; i < f->forgotten_count; i++) {
        struct fetch_request_forgotten_topics_data *out = &request->forgotten_topics_data[i];
        if (f->version >= FETCH_VERSION_IDS)
            out->topic_id = f->forgotten[i].id;
        else
            out->topic = f->forgotten[i].topic;
        out->partitions = &f->forgotten[i].index;
        out->partitions_n = 1;
    }
}

static int32_t longest_wait_ms(const struct fetcher *f)
{
    int64_t wait_ms = f->mirror->record.config.fetch_wait_max_ms;
    bool joining = f->joined_ms != 0 && clock_mono_ms(f->m->params.clock) - f->joined_ms < JOINING_MS;
    return (int32_t)(joining ? MIN(wait_ms, JOINING_WAIT_MS) : wait_ms);
}

static void answered(void *arg, struct client_response *response)
{
    struct fetcher *f = arg;
    f->in_flight = false;
    if (response->error != OK)
        return; /* `closed` comes, too */
    fetcher_answer(f, response);
}

static void pause_over(struct loop_timer *timer)
{
    fetcher_send(CONTAINER_OF(timer, struct fetcher, pause));
}

void fetcher_send(struct fetcher *f)
{
    const struct mirror_config *config = &f->mirror->record.config;
    struct fetch_request request;
    struct arena arena;
    struct problem why;
    if (f->closed || f->conn == NULL || !f->checked || f->in_flight || f->raising || loop_timer_running(&f->pause))
        return;
    if (f->partition_count == 0) {
        disconnect(f);
        return;
    }
    if (f->partition_count == f->held_count)
        return;
    arena_init(&arena, SIZE_MAX);
    int room = f->session_epoch == 0 ? f->partition_count : f->marked_count;
    struct fetch_partition **chosen = arena_calloc(&arena, (size_t)room, sizeof(struct fetch_partition *));
    proto_init(&PROTO_FETCH_REQUEST, &request);
    request.replica_id = -1;
    request.max_wait_ms = longest_wait_ms(f);
    request.min_bytes = (int32_t)config->fetch_min_bytes;
    request.max_bytes = (int32_t)config->fetch_max_bytes;
    request.session_id = f->session_id;
    request.session_epoch = f->session_epoch;
    f->sent_full = f->session_epoch == 0;
    fill(f, &request, &arena, chosen, choose(f, chosen));
    fill_forgotten(f, &request, &arena);
    enum error error = client_conn_send(f->conn, API_FETCH, f->version, &request,
                                        config->request_timeout_ms + config->fetch_wait_max_ms, answered, f, &why);
    forgotten_told(f);
    arena_fini(&arena);
    if (error == OK)
        f->in_flight = true;
    else
        broken(f, &why);
}

/* ---- Messages ---- */

static void reject(struct fetcher_attach *a, enum error error, const char *text)
{
    struct problem why;
    problem_set(&why, error, "%s", text);
    link_lost(a->fetcher->owner, a->fetcher, a->mp, &why);
    partition_unref(a->partition);
    mirror_partition_unref(a->mp);
    mem_free(a);
}

void fetcher_attach(void *arg)
{
    struct fetcher_attach *a = arg;
    struct fetcher *f = a->fetcher;
    if (f->closed || fetcher_find_mp(f, a->mp) != NULL) {
        partition_unref(a->partition);
        mirror_partition_unref(a->mp);
        mem_free(a);
        return;
    }
    if (f->checked && f->version >= FETCH_VERSION_IDS && uuid_is_zero(&a->source_id)) {
        reject(a, UNKNOWN_TOPIC_ID, "The source gave no id for the topic");
        return;
    }
    struct fetch_topic *t = topic_for(f, a->mp->topic, &a->source_id);
    if (t == NULL || (a->mp->index < t->room && t->partitions[a->mp->index] != NULL)) {
        reject(a, UNKNOWN_TOPIC_ID, "An older topic of this name is still being let go");
        return;
    }
    struct fetch_partition *fp = mem_calloc(1, sizeof(*fp));
    fp->mp = a->mp;
    fp->partition = a->partition;
    fp->topic = t;
    fp->index = a->mp->index;
    fp->leader_epoch = a->leader_epoch;
    fp->max_bytes = (int32_t)f->mirror->record.config.partition_fetch_max_bytes;
    if (fp->index >= t->room) {
        int32_t room = MAX(fp->index + 1, t->room * 2);
        t->partitions = mem_realloc(t->partitions, (size_t)room * sizeof(struct fetch_partition *));
        memset(t->partitions + t->room, 0, (size_t)(room - t->room) * sizeof(struct fetch_partition *));
        t->room = room;
    }
    t->partitions[fp->index] = fp;
    t->count++;
    TAILQ_INSERT_TAIL(&f->partitions, fp, link);
    f->partition_count++;
    joined(f, fp);
    read_position(fp);
    if (f->conn == NULL)
        connect_to(f, a->host, a->port);
    else if (f->checked)
        fetcher_check_history(f, fp);
    mem_free(a);
    fetcher_send(f);
}

void fetcher_detach(void *arg)
{
    struct fetcher_detach *d = arg;
    struct fetcher *f = d->fetcher;
    struct fetch_partition *fp = fetcher_find_mp(f, d->mp);
    if (fp != NULL)
        fetcher_drop(f, fp);
    if (d->latch != NULL)
        latch_down(d->latch);
    mirror_partition_unref(d->mp);
    mem_free(d);
    fetcher_send(f);
}

void fetcher_close(void *arg)
{
    struct fetcher *f = arg;
    f->closed = true;
    loop_timer_stop(&f->pause);
    client_conn_destroy(f->conn);
    f->conn = NULL;
    resolving_disconnected(f);
    while (!TAILQ_EMPTY(&f->partitions))
        fetcher_drop(f, TAILQ_FIRST(&f->partitions));
}

void fetcher_destroy(struct fetcher *f)
{
    ASSERT(f->pieces == NULL);
    mem_free(f->forgotten);
    arena_fini(&f->forgotten_names);
    mem_free(f);
}

void fetcher_throttle(struct fetcher *f, int64_t delay_ms)
{
    if (delay_ms > 0 && !f->closed)
        loop_timer_start(f->loop, &f->pause, delay_ms, pause_over);
}
