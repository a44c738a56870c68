#include "repl/fetch_session.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"

#define SHARDS 8
#define FINAL_EPOCH (-1) /* FetchMetadata.FINAL_EPOCH: no session, or its end */
#define INITIAL_EPOCH 0  /* a new session */

struct fetch_session {
    UT_hash_handle by_id;
    TAILQ_ENTRY(fetch_session) link; /* by last use, oldest first */
    int32_t id;
    int32_t epoch; /* that the next request must have */
    bool topic_ids;
    bool busy; /* a request uses it */
    bool cached;
    int64_t created_ms, used_ms; /* monotonic */
    int size_when_admitted;
    struct fetch_partition *partitions; /* by key */
    struct fetch_partitions active;
    struct fetch_poll poll;
};

struct shard {
    struct mutex mutex;
    struct fetch_session *by_id;
    TAILQ_HEAD(, fetch_session) by_use;
    int count;
};

struct fetch_sessions {
    struct partitions *partitions;
    const struct clock *clock;
    struct random_source *random;
    int slots_per_shard;
    int64_t eviction_ms;
    struct shard shards[SHARDS];
};

/* ---- The poll ---- */

enum { POLL_IDLE, POLL_ARMED, POLL_POSTED };

static void poll_init(struct fetch_poll *poll)
{
    *poll = (struct fetch_poll){0};
    atomic_init(&poll->state, POLL_IDLE);
    atomic_init(&poll->dirty, NULL);
}

static void push_dirty(struct fetch_poll *poll, struct fetch_partition *fp)
{
    if (atomic_exchange(&fp->dirty, true))
        return;
    struct fetch_partition *top = atomic_load(&poll->dirty);
    do
        fp->next_dirty = top;
    while (!atomic_compare_exchange_weak(&poll->dirty, &top, fp));
}

/* Under the partition's lock. Marks before it looks whether somebody waits: fetch_arm arms before it looks for marks, so one of the two sees the other. */
static struct partition_wake *changed(struct partition_watch *w, int changes, int64_t visible_bytes)
{
    struct fetch_partition *fp = CONTAINER_OF(w, struct fetch_partition, watch);
    struct fetch_poll *poll = fp->poll;
    push_dirty(poll, fp);
    bool wake = (changes & PARTITION_CHANGED_STATE) != 0;
    if (atomic_load(&poll->read_committed))
        wake = wake || (changes & PARTITION_CHANGED_LSO) != 0;
    else if (visible_bytes > 0)
        wake = atomic_fetch_sub(&poll->missing_bytes, visible_bytes) - visible_bytes <= 0 || wake;
    int armed = POLL_ARMED;
    return wake && atomic_compare_exchange_strong(&poll->state, &armed, POLL_POSTED) ? &poll->wake : NULL;
}

struct fetch_poll *fetch_poll_of(struct loop_task *task)
{
    return CONTAINER_OF(task, struct fetch_poll, wake.task);
}

/* ---- Partitions of a fetch ---- */

static void set_active(struct fetch_partitions *active, struct fetch_partition *fp, bool on)
{
    if (fp->active == on)
        return;
    fp->active = on;
    if (on)
        TAILQ_INSERT_TAIL(active, fp, link);
    else
        TAILQ_REMOVE(active, fp, link);
}

/* Those that changed come behind the others, in the order in which they changed. */
static bool drain_dirty(struct fetch_poll *poll, struct fetch_partitions *active)
{
    struct fetch_partition *newest = atomic_exchange(&poll->dirty, NULL), *oldest = NULL;
    while (newest != NULL) {
        struct fetch_partition *next = newest->next_dirty;
        newest->next_dirty = oldest;
        oldest = newest;
        newest = next;
    }
    bool any = oldest != NULL;
    while (oldest != NULL) {
        struct fetch_partition *next = oldest->next_dirty;
        atomic_store(&oldest->dirty, false); /* before it is read: what changes from now on marks it again */
        set_active(active, oldest, true);
        oldest = next;
    }
    return any;
}

static void drop_partition(struct fetch_partition *fp)
{
    if (fp->partition == NULL)
        return;
    if (fp->watched)
        partition_watch_remove(fp->partition, &fp->watch);
    fp->watched = false;
    partition_unref(fp->partition);
    fp->partition = NULL;
}

static void set_asked(struct fetch_partition *fp, const struct fetch_request_topics_partitions *asked)
{
    fp->fetch_offset = asked->fetch_offset;
    fp->max_bytes = asked->partition_max_bytes;
    fp->current_epoch = asked->current_leader_epoch;
    fp->last_fetched_epoch = asked->last_fetched_epoch;
}

static void init_partition(struct fetch_partition *fp, struct fetch_poll *poll, struct str topic, const struct uuid *id,
                           int32_t index)
{
    fp->topic = topic;
    fp->topic_id = *id;
    fp->index = index;
    fp->poll = poll;
    fp->watch.changed = changed;
    fp->told_high_watermark = fp->told_log_start = -1;
    atomic_init(&fp->dirty, false);
}

/* ---- Sessions: partitions by key ---- */

#define KEY_MAX (INT16_MAX + 5)

static int make_key(bool topic_ids, struct str topic, const struct uuid *id, int32_t index, uint8_t *out)
{
    put_i32(out, index);
    if (topic_ids) {
        memcpy(out + 4, id->b, sizeof(id->b));
        return 4 + (int)sizeof(id->b);
    }
    if (topic.len > 0)
        memcpy(out + 4, topic.p, (size_t)topic.len);
    return 4 + topic.len;
}

static struct fetch_partition *session_find(struct fetch_session *s, const uint8_t *key, int key_len)
{
    struct fetch_partition *fp = NULL;
    HASH_FIND(by_key, s->partitions, key, (unsigned)key_len, fp);
    return fp;
}

static struct fetch_partition *session_add(struct fetch_session *s, struct str topic, const struct uuid *id, int32_t index,
                                           const uint8_t *key, int key_len)
{
    struct fetch_partition *fp = mem_calloc(1, sizeof(*fp));
    fp->key = mem_alloc((size_t)key_len);
    memcpy(fp->key, key, (size_t)key_len);
    fp->key_len = key_len;
    /* Its name lives in the key: the request goes, the session stays. */
    struct str own = s->topic_ids ? STR_NULL : (struct str){(const char *)fp->key + 4, topic.len};
    init_partition(fp, &s->poll, own, id, index);
    HASH_ADD_KEYPTR(by_key, s->partitions, fp->key, (unsigned)key_len, fp);
    return fp;
}

static void session_remove(struct fetch_session *s, struct fetch_partition *fp)
{
    drop_partition(fp);
    drain_dirty(&s->poll, &s->active); /* nobody marks it any more; now it is on no list but the active one */
    set_active(&s->active, fp, false);
    plog_slice_release(&fp->read.slice);
    HASH_DELETE(by_key, s->partitions, fp);
    mem_free(fp->key);
    mem_free(fp);
}

static struct fetch_session *session_create(bool topic_ids, int64_t now_ms)
{
    struct fetch_session *s = mem_calloc(1, sizeof(*s));
    s->topic_ids = topic_ids;
    s->created_ms = s->used_ms = now_ms;
    s->busy = true;
    TAILQ_INIT(&s->active);
    poll_init(&s->poll);
    return s;
}

static void session_destroy(struct fetch_session *s)
{
    struct fetch_partition *fp, *next;
    HASH_ITER (by_key, s->partitions, fp, next)
        session_remove(s, fp);
    mem_free(s);
}

static void session_update(struct fetch_session *s, const struct fetch_request *request)
{
    uint8_t key[KEY_MAX];
    for (int32_t t = 0; t < request->topics_n; t++) {
        const struct fetch_request_topics *topic = &request->topics[t];
        for (int32_t i = 0; i < topic->partitions_n; i++) {
            const struct fetch_request_topics_partitions *asked = &topic->partitions[i];
            int key_len = make_key(s->topic_ids, topic->topic, &topic->topic_id, asked->partition, key);
            struct fetch_partition *fp = session_find(s, key, key_len);
            if (fp == NULL && HASH_CNT(by_key, s->partitions) >= LIMIT_REQUEST_PARTITIONS)
                continue;
            if (fp == NULL)
                fp = session_add(s, topic->topic, &topic->topic_id, asked->partition, key, key_len);
            set_asked(fp, asked);
            set_active(&s->active, fp, true);
        }
    }
    for (int32_t t = 0; t < request->forgotten_topics_data_n; t++) {
        const struct fetch_request_forgotten_topics_data *topic = &request->forgotten_topics_data[t];
        for (int32_t i = 0; i < topic->partitions_n; i++) {
            int key_len = make_key(s->topic_ids, topic->topic, &topic->topic_id, topic->partitions[i], key);
            struct fetch_partition *fp = session_find(s, key, key_len);
            if (fp != NULL)
                session_remove(s, fp);
        }
    }
}

/* ---- The cache ---- */

struct fetch_sessions *fetch_sessions_create(struct partitions *partitions, const struct clock *clock,
                                             struct random_source *random, int slots, int64_t eviction_ms)
{
    struct fetch_sessions *cache = mem_calloc(1, sizeof(*cache));
    cache->partitions = partitions;
    cache->clock = clock;
    cache->random = random;
    cache->slots_per_shard = (slots + SHARDS - 1) / SHARDS;
    cache->eviction_ms = eviction_ms;
    for (int i = 0; i < SHARDS; i++) {
        mutex_init(&cache->shards[i].mutex);
        TAILQ_INIT(&cache->shards[i].by_use);
    }
    return cache;
}

static struct shard *shard_of(struct fetch_sessions *cache, int32_t id)
{
    return &cache->shards[(uint32_t)id % SHARDS];
}

/* Locked. The session is found no more; true when nobody uses it, so that the caller destroys it (without the lock). */
static bool uncache(struct shard *shard, struct fetch_session *s)
{
    HASH_DELETE(by_id, shard->by_id, s);
    TAILQ_REMOVE(&shard->by_use, s, link);
    shard->count--;
    s->cached = false;
    return !s->busy;
}

void fetch_sessions_destroy(struct fetch_sessions *cache)
{
    if (cache == NULL)
        return;
    for (int i = 0; i < SHARDS; i++) {
        struct fetch_session *s;
        while ((s = TAILQ_FIRST(&cache->shards[i].by_use)) != NULL) {
            bool idle = uncache(&cache->shards[i], s);
            ASSERT(idle);
            session_destroy(s);
        }
        mutex_fini(&cache->shards[i].mutex);
    }
    mem_free(cache);
}

int fetch_sessions_count(struct fetch_sessions *cache)
{
    int count = 0;
    for (int i = 0; i < SHARDS; i++) {
        mutex_lock(&cache->shards[i].mutex);
        count += cache->shards[i].count;
        mutex_unlock(&cache->shards[i].mutex);
    }
    return count;
}

/* Whose slot a new session of this size may take (Kafka: FetchSessionCache.tryEvict): the least recently used when it was idle for the eviction time, else the
 * smallest that has had its slot for that long, when the new one is larger. */
static struct fetch_session *find_victim(struct fetch_sessions *cache, struct shard *shard, int size, int64_t now_ms)
{
    struct fetch_session *s = TAILQ_FIRST(&shard->by_use), *smallest = NULL;
    if (s != NULL && now_ms - s->used_ms > cache->eviction_ms)
        return s;
    TAILQ_FOREACH (s, &shard->by_use, link)
        if (now_ms - s->created_ms > cache->eviction_ms && s->size_when_admitted < size &&
            (smallest == NULL || s->size_when_admitted < smallest->size_when_admitted))
            smallest = s;
    return smallest;
}

void fetch_admit(struct fetch *f)
{
    if (f->kind != FETCH_FULL || f->session == NULL)
        return;
    struct fetch_session *s = f->session, *victim = NULL;
    int64_t now_ms = clock_mono_ms(f->cache->clock);
    int32_t id = (int32_t)(random_u64(f->cache->random) & INT32_MAX);
    struct shard *shard = shard_of(f->cache, id);
    bool destroy = false;
    mutex_lock(&shard->mutex);
    struct fetch_session *taken = NULL;
    if (id != 0)
        HASH_FIND(by_id, shard->by_id, &id, sizeof(id), taken);
    bool room =
        id != 0 && taken == NULL; /* a number that is taken: once in a million; the client does without a session this time */
    s->size_when_admitted = (int)HASH_CNT(by_key, s->partitions);
    if (room && shard->count >= f->cache->slots_per_shard) {
        victim = find_victim(f->cache, shard, s->size_when_admitted, now_ms);
        room = victim != NULL;
        destroy = victim != NULL && uncache(shard, victim);
    }
    if (room) {
        s->id = id;
        s->epoch = INITIAL_EPOCH + 1;
        s->created_ms = s->used_ms = now_ms;
        s->cached = true;
        HASH_ADD(by_id, shard->by_id, id, sizeof(id), s);
        TAILQ_INSERT_TAIL(&shard->by_use, s, link);
        shard->count++;
        f->session_id = id;
    }
    mutex_unlock(&shard->mutex);
    if (destroy)
        session_destroy(victim);
}

/* Finds the session of an incremental fetch and makes it busy. */
static enum error take_session(struct fetch_sessions *cache, int32_t id, int32_t epoch, bool topic_ids,
                               struct fetch_session **ret_session)
{
    struct shard *shard = shard_of(cache, id);
    struct fetch_session *s = NULL;
    enum error error = OK;
    mutex_lock(&shard->mutex);
    HASH_FIND(by_id, shard->by_id, &id, sizeof(id), s);
    if (s == NULL)
        error = FETCH_SESSION_ID_NOT_FOUND;
    else if (s->epoch != epoch || s->busy) /* busy: the same client asks twice at once, which no epoch allows */
        error = INVALID_FETCH_SESSION_EPOCH;
    else if (s->topic_ids != topic_ids)
        error = FETCH_SESSION_TOPIC_ID_ERROR;
    else {
        s->busy = true;
        s->epoch = s->epoch == INT32_MAX ? 1 : s->epoch + 1;
        s->used_ms = clock_mono_ms(cache->clock);
        TAILQ_REMOVE(&shard->by_use, s, link);
        TAILQ_INSERT_TAIL(&shard->by_use, s, link);
    }
    mutex_unlock(&shard->mutex);
    if (error == OK)
        *ret_session = s;
    return error;
}

static void end_session(struct fetch_sessions *cache, int32_t id)
{
    struct shard *shard = shard_of(cache, id);
    struct fetch_session *s = NULL;
    mutex_lock(&shard->mutex);
    HASH_FIND(by_id, shard->by_id, &id, sizeof(id), s);
    bool destroy = s != NULL && uncache(shard, s);
    mutex_unlock(&shard->mutex);
    if (destroy)
        session_destroy(s);
}

/* ---- One fetch ---- */

static int64_t count_partitions(const struct fetch_request *request)
{
    int64_t count = 0;
    for (int32_t t = 0; t < request->topics_n; t++)
        count += MAX(request->topics[t].partitions_n, 0);
    return count;
}

static enum error begin_sessionless(struct fetch *f, const struct fetch_request *request)
{
    f->all = arena_calloc(f->arena, (size_t)count_partitions(request), sizeof(*f->all));
    if (f->all == NULL)
        return INVALID_REQUEST;
    poll_init(&f->own_poll);
    f->poll = &f->own_poll;
    for (int32_t t = 0; t < request->topics_n; t++) {
        const struct fetch_request_topics *topic = &request->topics[t];
        for (int32_t i = 0; i < topic->partitions_n; i++) {
            struct fetch_partition *fp = &f->all[f->all_n++];
            init_partition(fp, f->poll, topic->topic, &topic->topic_id, topic->partitions[i].partition);
            set_asked(fp, &topic->partitions[i]);
            set_active(&f->active, fp, true);
        }
    }
    return OK;
}

static void adopt_session(struct fetch *f, struct fetch_session *s)
{
    f->session = s;
    f->poll = &s->poll;
    TAILQ_INIT(&f->active);
    drain_dirty(&s->poll, &s->active);
    TAILQ_CONCAT(&f->active, &s->active, link);
}

static void release_session(struct fetch_sessions *cache, struct fetch_session *s)
{
    struct shard *shard = shard_of(cache, s->id);
    mutex_lock(&shard->mutex);
    s->busy = false;
    s->used_ms = clock_mono_ms(cache->clock);
    bool destroy = !s->cached;
    mutex_unlock(&shard->mutex);
    if (destroy)
        session_destroy(s);
}

enum error fetch_begin(struct fetch_sessions *cache, const struct fetch_request *request, int16_t version, size_t max_bytes,
                       struct arena *arena, struct fetch *f)
{
    *f = (struct fetch){.cache = cache,
                        .arena = arena,
                        .read_committed = request->isolation_level == 1,
                        .topic_ids = version >= 13,
                        .min_bytes = request->min_bytes,
                        .max_bytes = max_bytes};
    TAILQ_INIT(&f->active);
    if (count_partitions(request) > LIMIT_REQUEST_PARTITIONS)
        return INVALID_REQUEST;
    int32_t epoch = request->session_epoch;
    if (epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH) {
        if (request->session_id != 0)
            end_session(cache, request->session_id);
        f->kind = epoch == FINAL_EPOCH ? FETCH_SESSIONLESS : FETCH_FULL;
        if (epoch == FINAL_EPOCH)
            return begin_sessionless(f, request);
        struct fetch_session *s = session_create(f->topic_ids, clock_mono_ms(cache->clock));
        session_update(s, request);
        adopt_session(f, s);
        return OK;
    }
    struct fetch_session *s;
    enum error error = take_session(cache, request->session_id, epoch, f->topic_ids, &s);
    if (error != OK)
        return error;
    session_update(s, request);
    if (s->partitions == NULL) { /* nothing left to fetch: the session ends (Kafka: FetchManager.newContext) */
        end_session(cache, request->session_id);
        release_session(cache, s);
        f->kind = FETCH_SESSIONLESS;
        return begin_sessionless(f, request);
    }
    f->kind = FETCH_INCREMENTAL;
    f->session_id = s->id;
    adopt_session(f, s);
    return OK;
}

static void look_up(struct fetch *f, struct fetch_partition *fp)
{
    struct partitions *parts = f->cache->partitions;
    fp->partition = f->topic_ids ? partitions_find_by_id(parts, &fp->topic_id, fp->index, &fp->error)
                                 : partitions_find(parts, fp->topic, fp->index, &fp->error);
}

/* In a session the watch stands before the first read, so that no change falls between. */
static void watch(struct fetch *f, struct fetch_partition *fp)
{
    if (f->session != NULL && fp->partition != NULL && !fp->watched)
        fp->watched = partition_watch_add(fp->partition, &fp->watch, -1, -1);
}

static bool has_news(const struct fetch *f, const struct fetch_partition *fp)
{
    return f->kind != FETCH_INCREMENTAL || fp->error != OK || fp->read.slice.segment != NULL || fp->read.diverging_epoch >= 0 ||
           fp->read.high_watermark != fp->told_high_watermark || fp->read.log_start_offset != fp->told_log_start;
}

/* A read ends at a segment's end: more is there, and waiting would not add it (Kafka: DelayedFetch, case C). */
static bool ends_early(const struct fetch *f, const struct fetch_partition *fp)
{
    int64_t upper = f->read_committed ? fp->read.last_stable_offset : fp->read.high_watermark;
    return fp->read.slice.segment != NULL && fp->read.slice.end_offset < upper;
}

static void read_one(struct fetch *f, struct fetch_partition *fp)
{
    f->bytes -= fp->read.slice.segment != NULL ? fp->read.slice.len : 0;
    plog_slice_release(&fp->read.slice);
    fp->error = OK;
    if (fp->partition == NULL)
        look_up(f, fp);
    watch(f, fp);
    struct partition_read_params params = {.offset = fp->fetch_offset,
                                           .max_bytes =
                                               MIN((size_t)MAX(fp->max_bytes, 0), f->max_bytes - MIN(f->bytes, f->max_bytes)),
                                           .min_one = f->bytes == 0,
                                           .read_committed = f->read_committed,
                                           .current_epoch = fp->current_epoch,
                                           .last_fetched_epoch = fp->last_fetched_epoch};
    if (fp->partition != NULL)
        fp->error = partition_read(fp->partition, &params, f->arena, &fp->read);
    if (fp->error == UNKNOWN_TOPIC_OR_PARTITION && fp->partition != NULL) { /* deleted; maybe it is there anew */
        drop_partition(fp);
        look_up(f, fp);
        watch(f, fp);
        if (fp->partition != NULL)
            fp->error = partition_read(fp->partition, &params, f->arena, &fp->read);
    }
    if (fp->partition == NULL)
        fp->read = (struct partition_read){.leader_epoch = -1,
                                           .high_watermark = -1,
                                           .last_stable_offset = -1,
                                           .log_start_offset = -1,
                                           .diverging_epoch = -1,
                                           .aborted_n = -1};
    f->bytes += fp->read.slice.segment != NULL ? fp->read.slice.len : 0;
    f->at_once = f->at_once || fp->error != OK || fp->read.diverging_epoch >= 0 || ends_early(f, fp);
    fp->talks = has_news(f, fp);
}

bool fetch_read(struct fetch *f)
{
    atomic_store(&f->poll->state, POLL_IDLE);
    drain_dirty(f->poll, &f->active);
    struct fetch_partition *fp;
    bool none = true;
    TAILQ_FOREACH (fp, &f->active, link) {
        none = false;
        read_one(f, fp);
    }
    if (none && f->kind == FETCH_INCREMENTAL)
        none = f->session->partitions == NULL;
    return none || f->at_once || (int64_t)f->bytes >= f->min_bytes;
}

/* Whoever has nothing and is watched is looked at again only when it changes. */
static void rest_idle(struct fetch *f)
{
    struct fetch_partition *fp, *next;
    if (f->kind == FETCH_FULL)
        return; /* its active list is the answer */
    for (fp = TAILQ_FIRST(&f->active); fp != NULL; fp = next) {
        next = TAILQ_NEXT(fp, link);
        bool named = f->kind == FETCH_INCREMENTAL && fp->talks;
        if (fp->watched && !named && fp->read.slice.segment == NULL)
            set_active(&f->active, fp, false);
    }
}

bool fetch_arm(struct fetch *f, struct loop *loop, void (*run)(struct loop_task *task), void *owner)
{
    struct fetch_poll *poll = f->poll;
    poll->wake.task.run = run;
    poll->wake.loop = loop;
    poll->owner = owner;
    atomic_store(&poll->read_committed, f->read_committed);
    atomic_store(&poll->missing_bytes, f->min_bytes - (int64_t)f->bytes);
    atomic_store(&poll->state, POLL_ARMED);
    bool stale = false;
    if (f->kind == FETCH_SESSIONLESS) {
        for (int32_t i = 0; i < f->all_n && !stale; i++) {
            struct fetch_partition *fp = &f->all[i];
            if (fp->partition == NULL || fp->watched)
                continue;
            fp->watched = partition_watch_add(fp->partition, &fp->watch, fp->read.high_watermark, fp->read.last_stable_offset);
            stale = !fp->watched;
        }
    }
    rest_idle(f);
    stale = stale || atomic_load(&poll->dirty) != NULL; /* came between the read and now */
    /* Posted already: then the task runs and reads again. */
    return !stale || !fetch_disarm(f);
}

bool fetch_disarm(struct fetch *f)
{
    int armed = POLL_ARMED;
    if (atomic_compare_exchange_strong(&f->poll->state, &armed, POLL_IDLE))
        return true;
    return armed == POLL_IDLE;
}

struct fetch_partition *fetch_next(struct fetch *f, struct fetch_partition *after)
{
    if (f->kind == FETCH_SESSIONLESS) {
        int32_t next = after == NULL ? 0 : (int32_t)(after - f->all) + 1;
        return next < f->all_n ? &f->all[next] : NULL;
    }
    struct fetch_partition *fp = after == NULL ? TAILQ_FIRST(&f->active) : TAILQ_NEXT(after, link);
    while (fp != NULL && !fp->talks)
        fp = TAILQ_NEXT(fp, link);
    return fp;
}

/* Keeps on the session's active list what the next request must look at though nothing changes: errors, and data that was or could have been sent. Those
 * that got data go behind the others (Kafka moves them to the end likewise). */
static void settle(struct fetch *f, struct fetch_session *s)
{
    struct fetch_partitions sent;
    struct fetch_partition *fp;
    TAILQ_INIT(&sent);
    while ((fp = TAILQ_FIRST(&f->active)) != NULL) {
        int64_t upper = f->read_committed ? fp->read.last_stable_offset : fp->read.high_watermark;
        bool data = fp->read.slice.len > 0;
        bool more = fp->error != OK || fp->partition == NULL || !fp->watched || data || fp->read.diverging_epoch >= 0 ||
                    fp->fetch_offset < upper;
        fp->told_high_watermark = fp->error != OK ? -1 : fp->read.high_watermark;
        fp->told_log_start = fp->error != OK ? -1 : fp->read.log_start_offset;
        fp->talks = false;
        plog_slice_release(&fp->read.slice);
        fp->read.slice.len = 0;
        set_active(&f->active, fp, false);
        set_active(data ? &sent : &s->active, fp, more);
    }
    TAILQ_CONCAT(&s->active, &sent, link);
}

void fetch_end(struct fetch *f)
{
    atomic_store(&f->poll->state, POLL_IDLE);
    if (f->session == NULL) {
        for (int32_t i = 0; i < f->all_n; i++) {
            plog_slice_release(&f->all[i].read.slice);
            drop_partition(&f->all[i]);
        }
        return;
    }
    settle(f, f->session);
    if (f->session_id != 0)
        release_session(f->cache, f->session);
    else
        session_destroy(f->session);
}
