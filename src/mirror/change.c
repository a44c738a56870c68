/* Changes of the records: staged on copies, committed, and only then seen by the rest of the layer. A crash leaves what was
 * there before, or all of it. */
#include <stdio.h>
#include <string.h>

#include "base/logger.h"
#include "base/stats.h"
#include "mirror/internal.h"

enum error mirror_truncation_find(struct mirrors *m, struct partition *p, int64_t offset,
                                  struct mirror_truncation *ret_truncation)
{
    struct plog_tail tail;
    struct plog *log = partition_lock(p);
    if (log == NULL)
        return UNKNOWN_TOPIC_OR_PARTITION;
    enum error error = plog_tail(log, offset, &tail);
    partition_unlock(p);
    if (error == OK)
        *ret_truncation = (struct mirror_truncation){.records = tail.records,
                                                     .bytes = tail.bytes,
                                                     .first_timestamp = tail.first_timestamp,
                                                     .last_timestamp = tail.last_timestamp,
                                                     .at_ms = clock_wall_ms(m->params.clock)};
    return error;
}

static struct mirror_partition_record copy_record(const struct mirror_partition_record *from)
{
    struct mirror_partition_record copy = *from;
    copy.error = from->error != NULL ? mem_strdup(from->error) : NULL;
    copy.hint = from->hint != NULL ? mem_strdup(from->hint) : NULL;
    return copy;
}

void change_begin(struct change *c, struct mirrors *m)
{
    *c = (struct change){.m = m};
    mutex_lock(&m->change_mutex);
}

struct mirror_partition_record *change_edit(struct change *c, struct mirror_partition *mp)
{
    ASSERT(!c->sealed);
    if (c->count == c->capacity) {
        c->capacity = MAX(16, c->capacity * 2);
        c->items = mem_realloc(c->items, (size_t)c->capacity * sizeof(*c->items));
    }
    struct change_item *item = &c->items[c->count++];
    item->mp = mirror_partition_ref(mp);
    mutex_lock(&c->m->mutex);
    item->record = copy_record(&mp->record);
    mutex_unlock(&c->m->mutex);
    return &item->record;
}

void change_put_topic(struct change *c, const char *name, const struct mirror_topic_record *record)
{
    char key[MIRROR_KEY_MAX];
    meta_txn_put(&c->txn, mirror_topic_key(key, name), mirror_topic_record_to_json(record));
}

void change_seal(struct change *c)
{
    ASSERT(!c->sealed);
    c->sealed = true;
    for (int i = 0; i < c->count; i++) {
        struct change_item *item = &c->items[i];
        char key[MIRROR_KEY_MAX];
        struct partition_state state;
        mutex_lock(&c->m->mutex);
        struct partition *p = item->mp->partition != NULL ? partition_ref(item->mp->partition) : NULL;
        mutex_unlock(&c->m->mutex);
        if (p != NULL) {
            partition_get_state(p, &state);
            item->record.leader_epoch = MAX(item->record.leader_epoch, state.leader_epoch);
        }
        partition_unref(p);
        item->record.state_epoch++;
        meta_txn_put(&c->txn, mirror_partition_key(key, item->mp->topic, item->mp->index),
                     mirror_partition_record_to_json(&item->record));
    }
}

static void log_move(const struct mirror_partition *mp, const struct mirror_partition_record *before,
                     const struct mirror_partition_record *after)
{
    if (before->state == after->state)
        return;
    if (after->state == MIRROR_FAILED)
        log_warn(MIRROR_AREA, "partition FAILED mirror=%s topic=%s partition=%d from=%s error=%s retries=%d retryable=%s: %s. %s",
                 mp->mirror->name, mp->topic, mp->index, mirror_state_name(after->failed_from), error_name(after->error_code),
                 after->retries, after->retryable ? "true" : "false", after->error != NULL ? after->error : "",
                 after->hint != NULL ? after->hint : "");
    else
        log_info(MIRROR_AREA, "state changed mirror=%s topic=%s partition=%d from=%s to=%s stateEpoch=%d", mp->mirror->name,
                 mp->topic, mp->index, mirror_state_name(before->state), mirror_state_name(after->state), after->state_epoch);
}

void change_apply(struct change *c)
{
    ASSERT(c->sealed);
    mutex_lock(&c->m->mutex);
    for (int i = 0; i < c->count; i++) {
        struct mirror_partition *mp = c->items[i].mp;
        struct mirror_partition_record before = mp->record;
        mp->record = c->items[i].record;
        c->items[i].record.error = c->items[i].record.hint = NULL;
        log_move(mp, &before, &mp->record);
        if (mp->record.state != before.state) {
            bool was = mirror_state_writable(before.state), is = mirror_state_writable(mp->record.state);
            mp->trouble.code = OK;
            if (was != is && mp->record.state != MIRROR_STOPPED) /* STOPPED: the stop sequence opens it as its last step */
                mirror_partition_apply_locked(mp);
        }
        mirror_partition_record_fini(&before);
    }
    mutex_unlock(&c->m->mutex);
}

enum error change_commit(struct change *c, struct problem *problem)
{
    change_seal(c);
    enum error error = c->txn.count > 0 ? meta_store_commit(c->m->params.store, &c->txn, NULL, problem) : OK;
    if (error == OK)
        change_apply(c);
    return error;
}

void change_end(struct change *c)
{
    for (int i = 0; i < c->count; i++) {
        mirror_partition_record_fini(&c->items[i].record);
        mirror_partition_unref(c->items[i].mp);
    }
    mem_free(c->items);
    meta_txn_fini(&c->txn);
    mutex_unlock(&c->m->change_mutex);
}

bool mirror_partition_is(struct mirror_partition *mp, enum mirror_state state)
{
    struct mirrors *m = mp->mirror->all;
    ASSERT(mutex_held(&m->change_mutex));
    mutex_lock(&m->mutex);
    bool is = mp->record.state == state;
    mutex_unlock(&m->mutex);
    return is;
}

/* ---- FAILED and back ---- */

struct failing {
    struct mirror_partition *mp;
    struct problem problem;
    bool retryable;
};

static void fail(struct mirror_partition *mp, const struct problem *problem, bool retryable, bool from_stop)
{
    struct mirrors *m = mp->mirror->all;
    struct change c;
    struct problem why;
    char line[MIRROR_LINE_MAX];
    change_begin(&c, m);
    struct mirror_partition_record *r = change_edit(&c, mp);
    bool allowed = r->state != MIRROR_NONE && r->state != MIRROR_FAILED && r->state != MIRROR_STOPPED &&
                   (from_stop || r->state != MIRROR_STOPPING);
    if (allowed) {
        r->failed_from = r->state;
        r->state = MIRROR_FAILED;
        if (r->retries >= MIRROR_RETRY_MAX)
            retryable = false;
        const char *detail = problem->detail;
        snprintf(line, sizeof(line), "%s%s%s%s", problem->message, detail[0] != '\0' ? " (" : "", detail,
                 detail[0] != '\0' ? ")" : "");
        mirror_partition_record_fail(r, problem->code, line, retryable);
        mirror_partition_record_set_hint(r, problem->hint);
        int attempt = r->retries + 1;
        enum error error = change_commit(&c, &why);
        if (error !=
            OK) { /* a full disk holds no record of itself: the state in the store is one that a restart can begin from */
            log_error(MIRROR_AREA, "a failure could not be stored mirror=%s topic=%s partition=%d error=%s", mp->mirror->name,
                      mp->topic, mp->index, error_name(error));
            change_apply(&c);
        }
        STAT_ADD(mirror_failures, 1);
        mutex_lock(&m->mutex);
        mp->retry_at_ms = clock_mono_ms(m->params.clock) + mirror_retry_delay_ms(attempt, m->params.random);
        mutex_unlock(&m->mutex);
    }
    change_end(&c);
    link_kick(mp->mirror->link);
}

static void fail_work(void *arg)
{
    struct failing *f = arg;
    fail(f->mp, &f->problem, f->retryable, false);
    mirror_partition_unref(f->mp);
    mem_free(f);
}

void mirror_partition_fail(struct mirror_partition *mp, const struct problem *problem, bool retryable)
{
    struct failing *f = mem_alloc(sizeof(*f));
    *f = (struct failing){mirror_partition_ref(mp), *problem, retryable};
    mirrors_work(mp->mirror->all, fail_work, f);
}

void mirror_partition_fail_now(struct mirror_partition *mp, const struct problem *problem, bool retryable)
{
    fail(mp, problem, retryable, true);
}

void mirrors_recover(struct mirrors *m, struct partition_list *list, bool by_hand)
{
    struct change c;
    struct problem why;
    struct partition_list stops = {0};
    struct mirror *mirror = NULL;
    change_begin(&c, m);
    for (int i = 0; i < list->count; i++) {
        struct mirror_partition *mp = list->items[i];
        mutex_lock(&m->mutex);
        bool due = mp->record.state == MIRROR_FAILED && (by_hand || mp->record.retryable);
        mutex_unlock(&m->mutex);
        if (!due)
            continue;
        struct mirror_partition_record *r = change_edit(&c, mp);
        r->state = r->failed_from;
        r->retries = by_hand ? 0 : (int16_t)(r->retries + 1);
        if (by_hand)
            mirror_partition_record_fail(r, OK, NULL, false);
        mp->settled = false;
        if (r->state == MIRROR_STOPPING)
            partition_list_add(&stops, mp);
        mirror = mp->mirror;
    }
    enum error error = change_commit(&c, &why);
    if (error != OK && !by_hand) { /* as above: the disk may still be full, and the log may have room all the same */
        log_warn(MIRROR_AREA, "a retry could not be stored error=%s: %s", error_name(error), why.message);
        change_apply(&c);
    } else if (error != OK) {
        log_error(MIRROR_AREA, "failed partitions could not be taken up again error=%s: %s", error_name(error), why.message);
    }
    if (mirror != NULL)
        mirror_ref(mirror);
    change_end(&c);
    for (int i = 0; i < stops.count && error != OK && !by_hand; i++) /* a stop needs the store: the next try */
        fail(stops.items[i], &why, error == ERR_NO_SPACE, true);
    if (error == OK && stops.count > 0) {
        struct stop_options options = {MIRROR_TXN_ABORT, false};
        mutex_lock(&m->mutex);
        struct mirror_topic *t = mirrors_topic_locked(m, str_of(stops.items[0]->topic));
        if (t != NULL)
            options = (struct stop_options){t->record.stop_open_transactions, t->record.stop_force};
        mutex_unlock(&m->mutex);
        mirrors_stop_partitions(m, &stops, &options);
    }
    partition_list_fini(&stops);
    if (error == OK)
        mirrors_pause_wanted(m, list);
    partition_list_fini(list);
    if (mirror != NULL)
        link_refresh(mirror->link);
    mirror_unref(mirror);
}

/* ---- Pausing ---- */

enum error mirrors_pause(struct mirrors *m, struct partition_list *list, struct problem *problem)
{
    struct change c;
    struct latch latch;
    enum error error;
    for (int pass = 0; pass < 2; pass++) { /* PAUSING, fetchers gone, PAUSED */
        change_begin(&c, m);
        for (int i = 0; i < list->count; i++) {
            mutex_lock(&m->mutex);
            enum mirror_state state = list->items[i]->record.state;
            mutex_unlock(&m->mutex);
            if (state == (pass == 0 ? MIRROR_MIRRORING : MIRROR_PAUSING))
                change_edit(&c, list->items[i])->state = pass == 0 ? MIRROR_PAUSING : MIRROR_PAUSED;
        }
        error = change_commit(&c, problem);
        change_end(&c);
        if (error != OK)
            return error;
        if (pass == 0 && list->count > 0) {
            latch_init(&latch, 0);
            link_detach(list->items[0]->mirror->link, list, &latch);
            latch_wait(&latch);
        }
    }
    return OK;
}

void mirrors_pause_wanted(struct mirrors *m, const struct partition_list *list)
{
    struct partition_list pauses = {0};
    struct problem problem;
    mutex_lock(&m->mutex);
    for (int i = 0; i < list->count; i++) {
        struct mirror_topic *t = mirrors_topic_locked(m, str_of(list->items[i]->topic));
        if (t != NULL && t->record.wanted == MIRROR_PAUSED && list->items[i]->record.state == MIRROR_MIRRORING)
            partition_list_add(&pauses, list->items[i]);
    }
    mutex_unlock(&m->mutex);
    if (pauses.count > 0 && mirrors_pause(m, &pauses, &problem) != OK)
        log_error(MIRROR_AREA, "a pause could not be stored: %s", problem.message);
    partition_list_fini(&pauses);
}

void mirror_partition_note_trouble(struct mirror_partition *mp, const struct problem *problem)
{
    struct mirrors *m = mp->mirror->all;
    mutex_lock(&m->mutex);
    if (problem != NULL)
        mp->trouble = *problem;
    else
        mp->trouble.code = OK;
    mutex_unlock(&m->mutex);
}

/* ---- Deleted topics ---- */

void mirrors_forget_deleted(void *arg)
{
    struct mirrors *m = arg;
    struct meta_txn txn = {0};
    struct problem problem;
    mutex_lock(&m->change_mutex);
    const struct image *image = image_cell_get(controller_images(m->params.controller));
    mutex_lock(&m->mutex);
    for (struct mirror_topic *t = m->topics; t != NULL; t = t->hh.next) {
        char key[MIRROR_KEY_MAX + 8];
        const struct image_topic *topic = image_topic(image, str_of(t->name));
        bool there = topic != NULL && uuid_eq(&topic->id, &t->record.topic_id);
        if (there || mirror_topic_busy_locked(t))
            continue;
        meta_txn_delete(&txn, mirror_topic_key(key, t->name));
        snprintf(key, sizeof(key), "mirror-partitions/%s/", t->name);
        meta_txn_delete_prefix(&txn, key);
    }
    mutex_unlock(&m->mutex);
    if (txn.count > 0 && meta_store_commit(m->params.store, &txn, NULL, &problem) != OK) {
        log_warn(MIRROR_AREA, "records of deleted topics could not be removed: %s", problem.message);
    } else if (txn.count > 0) {
        struct mirror_topic *t, *next;
        mutex_lock(&m->mutex);
        for (t = m->topics; t != NULL; t = next) {
            next = t->hh.next;
            const struct image_topic *topic = image_topic(image, str_of(t->name));
            if ((topic == NULL || !uuid_eq(&topic->id, &t->record.topic_id)) && !mirror_topic_busy_locked(t)) {
                log_info(MIRROR_AREA, "a stopped topic was deleted here, its records are removed mirror=%s topic=%s",
                         t->mirror->name, t->name);
                mirrors_remove_topic_locked(m, t);
            }
        }
        mutex_unlock(&m->mutex);
    }
    image_unref(image);
    meta_txn_fini(&txn);
    mutex_unlock(&m->change_mutex);
}
