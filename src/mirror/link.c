/* One source cluster: who leads what there, which fetcher has which partition, what to do when the source cannot be reached.
 *
 * All of it runs on the link's home loop. A source that cannot be reached, restarts or moves a leader makes nothing FAILED:
 * its partitions stay MIRRORING, `describe` shows the trouble, and the link comes again for ever, with a backoff up to
 * BACKOFF_MAX_MS. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/logger.h"
#include "mirror/link.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 5000
#define CALM_MS 10000           /* so long without trouble: the next backoff is short again */
#define MISSING_CONFIRM_MS 2000 /* a topic that is gone is looked for again before it counts as deleted */

static int64_t now_ms(const struct link *link)
{
    return clock_mono_ms(link->m->params.clock);
}

struct link *link_create(struct mirror *mirror)
{
    struct link *link = mem_calloc(1, sizeof(*link));
    link->mirror = mirror;
    link->m = mirror->all;
    link->loop = mirrors_next_loop(mirror->all);
    LIST_INIT(&link->asking);
    return link;
}

/* A message to the home loop holds the mirror, and so the link. */
static void post(struct link *link, void (*run)(void *arg))
{
    mirror_ref(link->mirror);
    mirrors_post(link->m, link->loop, run, link);
}

static void start_work(void *arg)
{
    struct link *link = arg;
    struct host_port bootstrap[CLIENT_BOOTSTRAP_MAX];
    int count;
    struct problem problem;
    char *cluster_id = NULL;
    if (!link->closed && !link->started) {
        const struct mirror_config *config = &link->mirror->record.config;
        struct client_options options = {
            .client_id = "kagami-mirror",
            .request_timeout_ms = config->request_timeout_ms,
            .idle_timeout_ms = MAX(config->connections_max_idle_ms, 0),
            .receive_buffer_bytes = (int)MAX(config->socket_receive_buffer_bytes, 0),
            .helpers = link->m->params.helpers};
        enum error error = client_bootstrap_parse(config->bootstrap_servers, bootstrap, &count, &problem);
        if (error != OK) {
            log_error(MIRROR_AREA, "the source's addresses cannot be read mirror=%s: %s", link->mirror->name, problem.message);
        } else {
            link->started = true;
            link->cluster = client_cluster_create(link->loop, bootstrap, count, &options);
            mutex_lock(&link->m->mutex);
            if (link->mirror->record.source_cluster_id != NULL)
                cluster_id = mem_strdup(link->mirror->record.source_cluster_id);
            mutex_unlock(&link->m->mutex);
            if (cluster_id != NULL)
                client_cluster_expect(link->cluster, cluster_id);
            mem_free(cluster_id);
            link_look(link);
        }
    }
    mirror_unref(link->mirror);
}

void link_start(struct link *link)
{
    post(link, start_work);
}

static void kick_work(void *arg)
{
    struct link *link = arg;
    atomic_store(&link->kicked, false);
    link_look(link);
    mirror_unref(link->mirror);
}

void link_kick(struct link *link)
{
    if (!atomic_exchange(&link->kicked, true))
        post(link, kick_work);
}

static void refresh_work(void *arg)
{
    struct link *link = arg;
    link->wanted = true;
    link->backoff_ms = 0;
    link_look(link);
    mirror_unref(link->mirror);
}

void link_refresh(struct link *link)
{
    post(link, refresh_work);
}

/* ---- The end ---- */

static void close_home(void *arg)
{
    struct link *link = arg;
    link->closed = true;
    loop_timer_stop(&link->timer);
    client_cluster_destroy(link->cluster);
    link->cluster = NULL;
    while (!LIST_EMPTY(&link->asking))
        link_asking_free(LIST_FIRST(&link->asking));
}

void link_close(struct link *link)
{
    loop_call(link->loop, close_home, link);
    for (int i = 0; i < link->fetcher_count; i++)
        loop_call(fetcher_loop(link->fetchers[i]), fetcher_close, link->fetchers[i]);
}

void link_destroy(struct link *link)
{
    if (link == NULL)
        return;
    for (int i = 0; i < link->fetcher_count; i++)
        fetcher_destroy(link->fetchers[i]);
    mem_free(link->fetchers);
    mem_free(link);
}

/* ---- Trouble ---- */

void link_back_off(struct link *link)
{
    int64_t now = now_ms(link), delay = BACKOFF_FIRST_MS;
    if (link->wanted && link->backoff_ms > now)
        return; /* it is waiting already */
    if (now - link->last_trouble_ms > CALM_MS)
        link->trouble = 0;
    link->last_trouble_ms = now;
    for (int i = 0; i < link->trouble && delay < BACKOFF_MAX_MS; i++)
        delay *= 2;
    delay = MIN(delay, BACKOFF_MAX_MS);
    link->trouble++;
    link->wanted = true;
    link->backoff_ms = now + delay / 2 + (int64_t)random_below(link->m->params.random, (uint64_t)delay / 2 + 1);
}

static void note_link_trouble(struct link *link, const struct problem *problem)
{
    struct mirrors *m = link->m;
    char line[MIRROR_LINE_MAX];
    mutex_lock(&m->mutex);
    bool changed = link->mirror->trouble.code != (problem != NULL ? problem->code : OK);
    if (problem != NULL) {
        if (link->mirror->trouble.code == OK)
            link->mirror->trouble_since_ms = clock_wall_ms(m->params.clock);
        link->mirror->trouble = *problem;
    } else {
        link->mirror->trouble.code = OK;
    }
    mutex_unlock(&m->mutex);
    if (changed && problem != NULL)
        log_warn(MIRROR_AREA, "the source cannot be used now mirror=%s source=%s error=%s: %s", link->mirror->name,
                 link->mirror->record.config.bootstrap_servers, error_name(problem->code),
                 problem_line(problem, line, sizeof(line)));
    else if (changed)
        log_info(MIRROR_AREA, "the source can be used mirror=%s source=%s", link->mirror->name,
                 link->mirror->record.config.bootstrap_servers);
}

struct lost {
    struct link *link;
    struct fetcher *fetcher;
    struct mirror_partition *mp; /* referenced */
    struct problem why;
};

static void lost_work(void *arg)
{
    struct lost *lost = arg;
    struct link *link = lost->link;
    struct mirror_partition *mp = lost->mp;
    if (!link->closed && mp->fetcher == lost->fetcher) {
        mp->fetcher = NULL;
        mp->leader = -1;
        mp->settled = false;
        mirror_partition_note_trouble(mp, &lost->why);
        link_back_off(link);
        link_kick(link); /* once for all that a connection took with it */
    }
    mirror_partition_unref(mp);
    mem_free(lost);
}

void link_lost(struct link *link, struct fetcher *fetcher, struct mirror_partition *mp, const struct problem *why)
{
    struct lost *lost = mem_alloc(sizeof(*lost));
    *lost = (struct lost){link, fetcher, mirror_partition_ref(mp), *why};
    mirrors_post(link->m, link->loop, lost_work, lost);
}

int64_t link_throttle_ms(struct link *link, int64_t bytes)
{
    int64_t rate = link->mirror->record.config.throttle_bytes_per_second, now = now_ms(link);
    if (rate <= 0)
        return 0;
    int64_t cost = bytes * 1000 / rate;
    int64_t free_at = atomic_load(&link->throttle_free_ms), next;
    do
        next = MAX(free_at, now) + cost;
    while (!atomic_compare_exchange_weak(&link->throttle_free_ms, &free_at, next));
    return next - now;
}

/* ---- Detaching ---- */

struct detaching {
    struct link *link;
    struct partition_list list;
    struct latch *latch;
};

static void detach_one(struct link *link, struct mirror_partition *mp, struct latch *latch)
{
    if (mp->fetcher == NULL || link->closed) {
        if (latch != NULL)
            latch_down(latch);
        return;
    }
    struct fetcher_detach *d = mem_alloc(sizeof(*d));
    *d = (struct fetcher_detach){mp->fetcher, mirror_partition_ref(mp), latch};
    mirrors_post(link->m, fetcher_loop(mp->fetcher), fetcher_detach, d);
    mp->fetcher = NULL;
}

static void detach_work(void *arg)
{
    struct detaching *d = arg;
    for (int i = 0; i < d->list.count; i++)
        detach_one(d->link, d->list.items[i], d->latch);
    partition_list_fini(&d->list);
    mem_free(d);
}

void link_detach(struct link *link, const struct partition_list *list, struct latch *latch)
{
    struct detaching *d = mem_calloc(1, sizeof(*d));
    d->link = link;
    d->latch = latch;
    for (int i = 0; i < list->count; i++)
        if (list->items[i]->mirror == link->mirror)
            partition_list_add(&d->list, list->items[i]);
    latch_add(latch, d->list.count);
    mirrors_post(link->m, link->loop, detach_work, d);
}

/* ---- Attaching ---- */

static uint32_t spread(const struct mirror_partition *mp)
{
    uint32_t h = 2166136261u;
    for (const char *p = mp->topic; *p != '\0'; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    return h + (uint32_t)mp->index;
}

static struct fetcher *fetcher_for(struct link *link, struct mirror_partition *mp)
{
    int wanted = (int)(spread(mp) % (uint32_t)link->mirror->record.config.fetchers), seen = 0;
    for (int i = 0; i < link->fetcher_count; i++) {
        if (fetcher_broker(link->fetchers[i]) == mp->leader && seen++ == wanted)
            return link->fetchers[i];
    }
    while (seen <= wanted) {
        link->fetchers = mem_realloc(link->fetchers, (size_t)(link->fetcher_count + 1) * sizeof(struct fetcher *));
        link->fetchers[link->fetcher_count++] = fetcher_create(link, link->mirror, mirrors_next_loop(link->m), mp->leader);
        seen++;
    }
    return link->fetchers[link->fetcher_count - 1];
}

static void attach(struct link *link, struct mirror_partition *mp, struct partition *p)
{
    const struct client_broker *broker = client_metadata_broker(client_cluster_metadata(link->cluster), mp->leader);
    if (broker == NULL) {
        mp->leader = -1;
        link_back_off(link);
        return;
    }
    struct fetcher_attach *a = mem_calloc(1, sizeof(*a));
    a->fetcher = fetcher_for(link, mp);
    a->mp = mirror_partition_ref(mp);
    a->partition = partition_ref(p);
    a->source_id = mp->source_has_ids ? mp->topic_id : UUID_ZERO;
    a->leader_epoch = mp->leader_epoch;
    snprintf(a->host, sizeof(a->host), "%s", broker->address.host);
    a->port = broker->address.port;
    mp->fetcher = a->fetcher;
    mirrors_post(link->m, fetcher_loop(a->fetcher), fetcher_attach, a);
}

/* ---- Metadata ---- */

struct growing {
    struct mirror *mirror; /* referenced */
    char *topic;
    int32_t count;
};

static void grow_work(void *arg)
{
    struct growing *g = arg;
    struct mirrors *m = g->mirror->all;
    struct change c;
    struct problem problem = {0};
    struct topic_result result;
    struct arena arena;
    int32_t before = 0;
    arena_init(&arena, SIZE_MAX);
    change_begin(&c, m);
    struct partition_list added = {0};
    mutex_lock(&m->mutex);
    struct mirror_topic *t = mirrors_topic_locked(m, str_of(g->topic));
    if (t != NULL && t->mirror == g->mirror && t->record.wanted != MIRROR_STOPPED) {
        mirrors_grow_topic_locked(m, t, g->count);
        for (int32_t i = 0; i < t->partitions_n; i++) {
            before += t->partitions[i]->record.state != MIRROR_NONE;
            if (t->partitions[i]->record.state == MIRROR_NONE)
                partition_list_add(&added, t->partitions[i]);
        }
    }
    mutex_unlock(&m->mutex);
    if (added.count > 0) {
        struct partitions_spec spec = {.topic = str_of(g->topic), .count = before + added.count, .assignment_count = -1};
        for (int i = 0; i < added.count; i++)
            change_edit(&c, added.items[i])->state = MIRROR_PREPARING;
        change_seal(&c);
        enum error error =
            controller_add_partitions(m->params.controller, &spec, 1, false, true, &c.txn, &arena, &result, &problem);
        if (error == OK && result.error == OK) {
            change_apply(&c);
            log_info(MIRROR_AREA, "partitions added as at the source mirror=%s topic=%s partitions=%d before=%d", g->mirror->name,
                     g->topic, spec.count, before);
        } else {
            log_error(MIRROR_AREA, "partitions could not be added mirror=%s topic=%s partitions=%d error=%s: %.*s",
                      g->mirror->name, g->topic, spec.count, error_name(error != OK ? error : result.error),
                      error != OK ? (int)strlen(problem.message) : result.message.len,
                      error != OK ? problem.message : result.message.p);
        }
    }
    partition_list_fini(&added);
    change_end(&c);
    arena_fini(&arena);
    link_refresh(g->mirror->link);
    mirror_unref(g->mirror);
    mem_free(g->topic);
    mem_free(g);
}

static void fail_topic_locked(struct mirror_topic *t, const struct problem *why)
{
    for (int32_t i = 0; i < t->partitions_n; i++) {
        enum mirror_state state = t->partitions[i]->record.state;
        if (state == MIRROR_MIRRORING || state == MIRROR_PREPARING)
            mirror_partition_fail(t->partitions[i], why, false);
    }
}

/* What the source's metadata say about one topic. */
static void learn_topic_locked(struct link *link, struct mirror_topic *t, const struct client_topic *source)
{
    struct problem why;
    char here[UUID_TEXT_SIZE], there[UUID_TEXT_SIZE];
    if (source == NULL)
        return; /* started after the question */
    if (source->error_code == UNKNOWN_TOPIC_OR_PARTITION) {
        int64_t now = now_ms(link);
        if (t->missing_since_ms == 0)
            t->missing_since_ms = now;
        if (now - t->missing_since_ms >= MISSING_CONFIRM_MS) {
            problem_set(&why, UNKNOWN_TOPIC_OR_PARTITION, "Topic %s was deleted at the source", t->name);
            problem_hint(&why, "Stop its mirror to keep what was copied: kagami mirror stop %s --topics %s", link->mirror->name,
                         t->name);
            fail_topic_locked(t, &why);
        }
        link_back_off(link);
        return;
    }
    t->missing_since_ms = 0;
    if (source->error_code != OK) {
        link_back_off(link);
        return;
    }
    bool has_id = !uuid_is_zero(&source->id);
    if (has_id && !uuid_eq(&source->id, &t->record.topic_id)) {
        problem_set(&why, UNKNOWN_TOPIC_ID,
                    "Topic %s was deleted and created again at the source: its topic id is now %s, and %s was mirrored", t->name,
                    uuid_text(&source->id, there), uuid_text(&t->record.topic_id, here));
        problem_hint(&why, "Stop its mirror to keep what was copied, or stop it and start it anew with --discard-local-data");
        fail_topic_locked(t, &why);
        return;
    }
    for (int32_t i = 0; i < MIN(source->partitions_n, t->partitions_n); i++) {
        struct mirror_partition *mp = t->partitions[i];
        mp->source_has_ids = has_id;
        mp->leader = source->partitions[i].leader;
        mp->leader_epoch = source->partitions[i].leader_epoch;
        if (mp->leader < 0 && mp->record.state != MIRROR_STOPPED) {
            problem_set(&mp->trouble, LEADER_NOT_AVAILABLE, "%s-%d has no leader at the source", mp->topic, mp->index);
            link_back_off(link);
        }
    }
    if (source->partitions_n < t->partitions_n)
        link_back_off(link);
    bool unborn = t->partitions_n > 0 && t->partitions[t->partitions_n - 1]->record.state == MIRROR_NONE;
    if (source->partitions_n > LIMIT_PARTITIONS_PER_TOPIC) {
        log_warn(MIRROR_AREA, "the source names more partitions than can be topic=%s partitions=%d", t->name,
                 source->partitions_n);
    } else if (source->partitions_n > t->partitions_n || unborn) {
        struct growing *g = mem_alloc(sizeof(*g));
        *g = (struct growing){mirror_ref(link->mirror), mem_strdup(t->name), source->partitions_n};
        mirrors_work(link->m, grow_work, g);
    }
}

static void refreshed(void *arg, const struct problem *problem)
{
    struct link *link = arg;
    struct mirrors *m = link->m;
    link->refreshing = false;
    note_link_trouble(link, problem);
    if (problem != NULL) {
        struct problem why = *problem;
        link->wanted = false;
        link_back_off(link);
        mutex_lock(&m->mutex);
        for (struct mirror_topic *t = m->topics; t != NULL && problem->code == ERR_CONFLICT; t = t->hh.next) {
            problem_set(&why, INCONSISTENT_CLUSTER_ID, "The cluster at %s is not the one that mirror %s copied",
                        link->mirror->record.config.bootstrap_servers, link->mirror->name);
            problem_detail(&why, "%s", problem->message);
            problem_hint(&why, "Put the right address in a new mirror, or stop this one's topics: kagami mirror stop %s",
                         link->mirror->name);
            if (t->mirror == link->mirror)
                fail_topic_locked(t, &why);
        }
        mutex_unlock(&m->mutex);
    } else {
        const struct client_metadata *metadata = client_cluster_metadata(link->cluster);
        link->wanted = false;
        link->periodic_ms = now_ms(link) + link->mirror->record.config.metadata_refresh_interval_ms;
        mutex_lock(&m->mutex);
        for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
            if (t->mirror == link->mirror && t->record.wanted != MIRROR_STOPPED)
                learn_topic_locked(link, t, client_metadata_topic(metadata, t->name));
        }
        mutex_unlock(&m->mutex);
    }
    link_look(link);
}

static void ask_metadata(struct link *link)
{
    struct mirrors *m = link->m;
    struct arena arena;
    struct str *names;
    int32_t n = 0;
    arena_init(&arena, SIZE_MAX);
    mutex_lock(&m->mutex);
    names = arena_calloc(&arena, HASH_COUNT(m->topics) + 1, sizeof(*names));
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
        if (t->mirror == link->mirror && t->record.wanted != MIRROR_STOPPED)
            names[n++] = arena_str(&arena, str_of(t->name));
    }
    mutex_unlock(&m->mutex);
    link->refreshing = true;
    client_cluster_refresh(link->cluster, names, n, refreshed, link);
    arena_fini(&arena);
}

/* ---- What is to do now ---- */

static void timer_fired(struct loop_timer *timer)
{
    link_look(CONTAINER_OF(timer, struct link, timer));
}

struct recovering {
    struct mirrors *m;
    struct partition_list list;
};

static void recover_work(void *arg)
{
    struct recovering *r = arg;
    mirrors_recover(r->m, &r->list, false);
    mem_free(r);
}

void link_look(struct link *link)
{
    struct mirrors *m = link->m;
    struct partition_list all = {0};
    int64_t now = now_ms(link), wake = INT64_MAX;
    bool active = false;
    if (!link->started || link->closed || m->ending)
        return;
    struct recovering *recovering = mem_calloc(1, sizeof(*recovering));
    mirrors_partitions(link->mirror, &all);
    for (int i = 0; i < all.count; i++) {
        struct mirror_partition *mp = all.items[i];
        mutex_lock(&m->mutex);
        enum mirror_state state = mp->record.state;
        struct partition *p = mp->partition != NULL ? partition_ref(mp->partition) : NULL;
        bool retries = state == MIRROR_FAILED && mp->record.retryable;
        int64_t retry_at = mp->retry_at_ms;
        if (retries && retry_at <= now) {
            mp->retry_at_ms = INT64_MAX; /* on its way */
            partition_list_add(&recovering->list, mp);
        }
        mutex_unlock(&m->mutex);
        if (retries && retry_at > now)
            wake = MIN(wake, retry_at);
        active = active || state == MIRROR_MIRRORING || state == MIRROR_PREPARING || state == MIRROR_PAUSED;
        if (state != MIRROR_PREPARING)
            mp->preparing = false;
        if (state != MIRROR_MIRRORING && mp->fetcher != NULL)
            detach_one(link, mp, NULL);
        if (p != NULL && (state == MIRROR_MIRRORING || state == MIRROR_PREPARING)) {
            if (mp->leader < 0)
                link->wanted = true;
            else if (state == MIRROR_MIRRORING && mp->fetcher != NULL && fetcher_broker(mp->fetcher) != mp->leader)
                detach_one(link, mp, NULL);
            if (mp->leader >= 0 && state == MIRROR_MIRRORING && mp->fetcher == NULL)
                attach(link, mp, p);
        }
        partition_unref(p);
    }
    for (int i = 0; i < all.count; i++) {
        struct mirror_partition *mp = all.items[i];
        mutex_lock(&m->mutex);
        bool prepare = mp->record.state == MIRROR_PREPARING && mp->partition != NULL;
        mutex_unlock(&m->mutex);
        if (prepare && mp->leader >= 0 && !mp->preparing)
            link_ask_starts(link, &all, i);
    }
    partition_list_fini(&all);
    if (recovering->list.count > 0) {
        recovering->m = m;
        mirrors_work(m, recover_work, recovering);
    } else {
        mem_free(recovering);
    }
    if ((active || link->wanted) && !link->refreshing) {
        int64_t due = link->wanted ? MIN(link->backoff_ms, link->periodic_ms) : link->periodic_ms;
        if (due <= now)
            ask_metadata(link);
        else
            wake = MIN(wake, due);
    }
    if (wake != INT64_MAX)
        loop_timer_start(link->loop, &link->timer, MAX(wake - now, 1), timer_fired);
}
