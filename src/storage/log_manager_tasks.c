/* Background work of the log manager: work on all logs at once, checkpoints, retention, removal. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "storage/log_manager_internal.h"

/* ---- All logs at once ---- */

#define RUN_ALL_JOBS 16

/* The caller works too, so that it ends even when every helper is taken (by callers like this one). Jobs that start late find nothing left. */
struct run_all {
    struct mutex mutex;
    struct condition done;
    void (*work)(void *arg, int i);
    void *arg;
    int next, count, finished, refs;
};

struct run_all_job {
    struct helper_job job;
    struct run_all *all;
};

static void run_all_unref(struct run_all *all) /* with the mutex, which it gives back */
{
    bool last = --all->refs == 0;
    mutex_unlock(&all->mutex);
    if (!last)
        return;
    condition_fini(&all->done);
    mutex_fini(&all->mutex);
    mem_free(all);
}

static void run_all_pull(struct run_all *all) /* with the mutex */
{
    while (all->next < all->count) {
        int i = all->next++;
        mutex_unlock(&all->mutex);
        all->work(all->arg, i);
        mutex_lock(&all->mutex);
        if (++all->finished == all->count)
            condition_broadcast(&all->done);
    }
}

static void run_all_work(struct helper_job *job)
{
    struct run_all *all = ((struct run_all_job *)job)->all;
    mutex_lock(&all->mutex);
    run_all_pull(all);
    run_all_unref(all);
}

static void run_all_done(struct helper_job *job)
{
    mem_free(job);
}

void log_manager_run_all(struct log_manager *m, int count, void (*work)(void *arg, int i), void *arg)
{
    struct run_all *all = mem_calloc(1, sizeof(*all));
    mutex_init(&all->mutex);
    condition_init(&all->done);
    all->work = work;
    all->arg = arg;
    all->count = count;
    all->refs = 1;
    int jobs = m->params.helpers != NULL ? MIN(count - 1, RUN_ALL_JOBS) : 0;
    for (int i = 0; i < jobs; i++) {
        struct run_all_job *job = mem_calloc(1, sizeof(*job));
        *job = (struct run_all_job){.job = {.work = run_all_work, .done = run_all_done}, .all = all};
        mutex_lock(&all->mutex);
        all->refs++;
        mutex_unlock(&all->mutex);
        helpers_submit(m->params.helpers, &job->job);
    }
    mutex_lock(&all->mutex);
    run_all_pull(all);
    while (all->finished < all->count)
        condition_wait(&all->done, &all->mutex);
    run_all_unref(all);
}

/* ---- Checkpoints ---- */

struct checkpoint_lines {
    struct offset_checkpoint_entry *recovery, *start, *hw;
    size_t count;
};

static void collect_lines(struct log_manager *m, struct checkpoint_lines *lines)
{
    mutex_lock(&m->mutex);
    size_t size = (HASH_COUNT(m->entries) + 1) * sizeof(struct offset_checkpoint_entry);
    lines->recovery = mem_alloc(size);
    lines->start = mem_alloc(size);
    lines->hw = mem_alloc(size);
    lines->count = 0;
    for (struct log_entry *e = m->entries; e != NULL; e = e->hh.next) {
        if (e->log == NULL && e->last.recovery_point < 0)
            continue; /* being created, or could not be opened and never had a line */
        struct plog_checkpoint c = e->log != NULL ? plog_checkpoint_values(e->log) : e->last;
        struct str topic = {str_dup(str_of(e->topic)), (int32_t)strlen(e->topic)};
        lines->recovery[lines->count] = (struct offset_checkpoint_entry){topic, e->partition, c.recovery_point};
        lines->start[lines->count] = (struct offset_checkpoint_entry){topic, e->partition, MAX(c.log_start_offset, 0)};
        lines->hw[lines->count] = (struct offset_checkpoint_entry){topic, e->partition, MAX(c.high_watermark, 0)};
        lines->count++;
    }
    mutex_unlock(&m->mutex);
}

static enum error write_lines(struct log_manager *m, const char *file, const struct offset_checkpoint_entry *entries,
                              size_t count)
{
    char *path = log_manager_path(m, file);
    enum error error = offset_checkpoint_write(m->params.fs, path, entries, count);
    mem_free(path);
    return error;
}

static enum error write_all(struct log_manager *m)
{
    struct checkpoint_lines lines;
    bool missing = atomic_exchange(&m->lines_missing, false), stale = atomic_exchange(&m->lines_stale, false);
    uint64_t made = atomic_load(&m->dirs_made);
    collect_lines(m, &lines);
    enum error error = write_lines(m, RECOVERY_POINT_CHECKPOINT, lines.recovery, lines.count);
    if (error == OK && atomic_load(&m->dirs_synced) < made)
        atomic_store(&m->dirs_synced, made); /* the file lies in the same folder, whose sync was its last step */
    if (error == OK)
        error = write_lines(m, LOG_START_CHECKPOINT, lines.start, lines.count);
    if (error == OK)
        error = write_lines(m, HIGH_WATERMARK_CHECKPOINT, lines.hw, lines.count);
    if (error != OK) { /* still owed */
        if (missing)
            atomic_store(&m->lines_missing, true);
        if (stale)
            atomic_store(&m->lines_stale, true);
    }
    for (size_t i = 0; i < lines.count; i++)
        mem_free((void *)lines.recovery[i].topic.p);
    mem_free(lines.recovery);
    mem_free(lines.start);
    mem_free(lines.hw);
    return error;
}

enum error log_manager_write_checkpoints(struct log_manager *m)
{
    uint64_t ticket = atomic_fetch_add(&m->checkpoints_wanted, 1) + 1;
    enum error error = OK;
    mutex_lock(&m->checkpointing);
    if (m->checkpoints_done < ticket) {
        uint64_t covers = atomic_load(&m->checkpoints_wanted);
        error = write_all(m);
        if (error == OK)
            m->checkpoints_done = covers;
    }
    mutex_unlock(&m->checkpointing);
    return log_manager_broken(m, error, "writing the checkpoints");
}

/* ---- Visiting the adopted logs ---- */

static void each_adopted(struct log_manager *m, void (*work)(struct log_manager *m, struct log_entry *e))
{
    mutex_lock(&m->mutex);
    int count = 0;
    char **keys = mem_calloc(HASH_COUNT(m->entries) + 1, sizeof(char *));
    for (struct log_entry *e = m->entries; e != NULL; e = e->hh.next)
        if (e->lock != NULL)
            keys[count++] = mem_strdup(e->key);
    for (int i = 0; i < count; i++) {
        struct log_entry *e = log_manager_await_entry(m, keys[i]);
        mem_free(keys[i]);
        if (e == NULL || e->lock == NULL || e->log == NULL)
            continue;
        e->busy = true;
        mutex_unlock(&m->mutex);
        work(m, e);
        mutex_lock(&m->mutex);
        e->busy = false;
        condition_broadcast(&m->idle);
    }
    mutex_unlock(&m->mutex);
    mem_free(keys);
}

static void flush_rolled(struct log_manager *m, struct log_entry *e)
{
    struct plog_flush flush;
    mutex_lock(e->lock);
    bool wanted = plog_wants_flush(e->log);
    if (wanted)
        plog_flush_begin(e->log, true, &flush);
    mutex_unlock(e->lock);
    if (!wanted)
        return;
    enum error error = plog_flush_run(&flush);
    mutex_lock(e->lock);
    (void)plog_flush_end(&flush, error); /* an error has failed the log, and told us */
    mutex_unlock(e->lock);
}

enum error log_manager_checkpoint(struct log_manager *m)
{
    if (log_manager_failed(m))
        return KAFKA_STORAGE_ERROR;
    each_adopted(m, flush_rolled);
    return log_manager_write_checkpoints(m);
}

static void retain(struct log_manager *m, struct log_entry *e)
{
    int removed;
    mutex_lock(e->lock);
    enum error error = plog_apply_retention(e->log, &removed);
    plog_expire_producers(e->log);
    mutex_unlock(e->lock);
    if (error != OK && !log_manager_failed(m))
        log_manager_event(m, "retention of %s failed: %s", e->key, error_message(error));
}

static void remove_segments(struct log_manager *m, struct log_entry *e)
{
    mutex_lock(e->lock);
    struct plog_deleted *deleted = plog_take_deleted(e->log);
    mutex_unlock(e->lock);
    if (plog_deleted_remove(deleted) != OK)
        log_manager_event(m, "dropped segments of %s cannot be removed: the next start tries again", e->key);
}

static struct deleted_dir *take_deleted_dirs(struct log_manager *m)
{
    struct deleted_dir *due = NULL, **at = &m->deleted;
    int64_t now_ms = clock_mono_ms(m->params.clock);
    mutex_lock(&m->mutex);
    while (*at != NULL) {
        struct deleted_dir *d = *at;
        if (d->due_ms > now_ms) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        d->next = due;
        due = d;
    }
    mutex_unlock(&m->mutex);
    return due;
}

void log_manager_remove_deleted(struct log_manager *m)
{
    if (log_manager_failed(m))
        return;
    each_adopted(m, remove_segments);
    struct deleted_dir *due = take_deleted_dirs(m);
    while (due != NULL) {
        struct deleted_dir *next = due->next;
        enum error error = fs_remove_tree(m->params.fs, due->path);
        if (error != OK)
            log_manager_event(m, "the folder %s cannot be removed (%s): the next start tries again", due->path,
                              error_message(error));
        mem_free(due->path);
        mem_free(due);
        due = next;
    }
}

void log_manager_retention(struct log_manager *m)
{
    if (log_manager_failed(m))
        return;
    each_adopted(m, retain);
    log_manager_remove_deleted(m);
}
