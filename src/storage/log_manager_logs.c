/* The table of logs: lookup, creation, deletion. An entry that is busy belongs to whoever made it so; others wait on `idle`. */
#include <stdio.h>

#include "base/assert.h"
#include "storage/log_manager_internal.h"

static char *key_of(struct str topic, int32_t partition)
{
    struct log_entry *e = log_manager_new_entry(topic, partition);
    char *key = mem_strdup(e->key);
    log_manager_free_entry(e);
    return key;
}

static void set_idle(struct log_manager *m, struct log_entry *e)
{
    e->busy = false;
    condition_broadcast(&m->idle);
}

enum error log_manager_get(struct log_manager *m, struct str topic, int32_t partition, struct plog **ret_log)
{
    if (log_manager_failed(m))
        return KAFKA_STORAGE_ERROR;
    char *key = key_of(topic, partition);
    enum error error = OK;
    mutex_lock(&m->mutex);
    struct log_entry *e;
    HASH_FIND_STR(m->entries, key, e);
    if (e == NULL)
        error = ERR_NOT_FOUND;
    else if (e->log == NULL)
        error = KAFKA_STORAGE_ERROR;
    else
        *ret_log = e->log;
    mutex_unlock(&m->mutex);
    mem_free(key);
    return error;
}

/* ---- Creation ---- */

static enum error use_existing(struct log_manager *m, struct log_entry *e, struct uuid topic_id, const struct plog_config *config,
                               struct plog **ret_log, struct problem *problem)
{
    if (e->log == NULL)
        return problem_set(problem, KAFKA_STORAGE_ERROR, "the log %s/%s is out of service since the start", m->dir, e->key);
    if (!uuid_is_zero(&topic_id) && !uuid_eq(&topic_id, &e->topic_id)) {
        enum error error = plog_set_topic_id(e->log, topic_id);
        if (error == INCONSISTENT_TOPIC_ID) {
            char has[UUID_TEXT_SIZE], wanted[UUID_TEXT_SIZE];
            problem_set(problem, error, "the folder %s/%s belongs to the topic id %s, not to %s", m->dir, e->key,
                        uuid_text(&e->topic_id, has), uuid_text(&topic_id, wanted));
            problem_hint(problem, "a topic of this name was deleted and created again: its old folder must go first");
        }
        if (error != OK)
            return error;
        e->topic_id = topic_id;
    }
    plog_set_config(e->log, config);
    *ret_log = e->log;
    return OK;
}

enum error log_manager_create_log(struct log_manager *m, struct str topic, int32_t partition, struct uuid topic_id,
                                  const struct plog_config *config, struct plog **ret_log, struct problem *problem)
{
    struct problem ignored;
    problem = problem != NULL ? problem : &ignored;
    if (log_manager_failed(m))
        return problem_set(problem, KAFKA_STORAGE_ERROR, "the folder %s is out of service", m->dir);
    struct log_entry *fresh = log_manager_new_entry(topic, partition);
    problem->code = OK;
    mutex_lock(&m->mutex);
    struct log_entry *e = log_manager_await_entry(m, fresh->key);
    if (e == NULL) {
        e = fresh;
        HASH_ADD_KEYPTR(hh, m->entries, e->key, strlen(e->key), e);
    } else {
        log_manager_free_entry(fresh);
        fresh = NULL;
    }
    e->busy = true;
    mutex_unlock(&m->mutex);

    enum error error;
    if (fresh == NULL)
        error = use_existing(m, e, topic_id, config, ret_log, problem);
    else {
        /* The lines of a deleted log go before a new one may have its name. */
        error = atomic_load(&m->lines_stale) ? log_manager_write_checkpoints(m) : OK;
        if (error == OK)
            error = log_manager_broken(m, log_manager_open_entry(m, e, config, topic_id, false, problem), "creating a log");
        atomic_fetch_add(&m->dirs_made, 1); /* also after an error: the folder may be there */
    }
    if (fresh != NULL && error == OK) {
        atomic_store(&m->lines_missing, true);
        *ret_log = e->log;
    }

    mutex_lock(&m->mutex);
    set_idle(m, e);
    if (fresh != NULL && error != OK) {
        HASH_DEL(m->entries, e);
        (void)plog_close(e->log, false);
        log_manager_free_entry(e);
    }
    mutex_unlock(&m->mutex);
    if (error != OK && problem->code == OK)
        problem_set(problem, error, "a folder in %s cannot be created: %s", m->dir, error_message(error));
    return error;
}

/* ---- Adoption ---- */

static struct log_entry *find_log(struct log_manager *m, const struct plog *log)
{
    const char *slash = strrchr(plog_dir(log), '/');
    return log_manager_await_entry(m, slash != NULL ? slash + 1 : plog_dir(log));
}

void log_manager_adopt(struct log_manager *m, struct plog *log, struct mutex *lock)
{
    mutex_lock(&m->mutex);
    struct log_entry *e = find_log(m, log);
    if (e != NULL && e->log == log)
        e->lock = lock;
    mutex_unlock(&m->mutex);
}

void log_manager_release(struct log_manager *m, struct plog *log)
{
    log_manager_adopt(m, log, NULL);
}

/* ---- Deletion ---- */

/* Folder names are at most 255 bytes long, so a long topic's name is cut in it (as Kafka does): nobody reads it from there. */
static char *deleted_name(struct log_manager *m, const struct log_entry *e)
{
    uint8_t random[16];
    char name[256], id[33];
    random_fill(m->params.random, random, sizeof(random));
    for (int i = 0; i < 16; i++)
        snprintf(id + 2 * i, 3, "%02x", random[i]);
    snprintf(name, sizeof(name), "%.200s.%s-delete", e->key, id);
    return log_manager_path(m, name);
}

static enum error rename_dir(struct log_manager *m, const struct log_entry *e, const char *to)
{
    char *from = log_manager_path(m, e->key);
    enum error error = fs_rename(m->params.fs, from, to);
    if (error == OK)
        error = fs_sync_dir(m->params.fs, m->dir);
    mem_free(from);
    return log_manager_broken(m, error, "removing a log");
}

enum error log_manager_delete_log(struct log_manager *m, struct str topic, int32_t partition)
{
    if (log_manager_failed(m))
        return KAFKA_STORAGE_ERROR;
    char *key = key_of(topic, partition);
    mutex_lock(&m->mutex);
    struct log_entry *e = log_manager_await_entry(m, key);
    if (e != NULL)
        e->busy = true;
    mutex_unlock(&m->mutex);
    mem_free(key);
    if (e == NULL)
        return ERR_NOT_FOUND;

    char *to = deleted_name(m, e);
    enum error error = rename_dir(m, e, to);
    mutex_lock(&m->mutex);
    if (error != OK) {
        set_idle(m, e);
        mem_free(to);
    } else {
        HASH_DEL(m->entries, e);
        condition_broadcast(&m->idle);
        log_manager_add_deleted(m, to, e->log != NULL ? plog_get_config(e->log)->file_delete_delay_ms : 0);
    }
    mutex_unlock(&m->mutex);
    if (error != OK)
        return error;
    (void)plog_close(e->log, false);
    log_manager_free_entry(e);
    atomic_store(&m->lines_stale, true);
    return OK;
}

enum error log_manager_settle(struct log_manager *m)
{
    if (!atomic_load(&m->lines_stale) && !atomic_load(&m->lines_missing))
        return OK;
    return log_manager_write_checkpoints(m);
}

/* ---- Looking ---- */

void log_manager_each(struct log_manager *m, void (*visit)(void *arg, const struct log_info *info), void *arg)
{
    mutex_lock(&m->mutex);
    int count = 0;
    struct log_info *all = mem_calloc(HASH_COUNT(m->entries) + 1, sizeof(*all));
    for (struct log_entry *e = m->entries; e != NULL; e = e->hh.next) {
        if (e->busy && e->log == NULL)
            continue; /* being created */
        all[count++] = (struct log_info){.topic = {str_dup(str_of(e->topic)), (int32_t)strlen(e->topic)},
                                         .partition = e->partition,
                                         .log = e->log,
                                         .size_bytes = e->log != NULL ? plog_size_bytes(e->log) : 0,
                                         .topic_id = e->topic_id};
    }
    mutex_unlock(&m->mutex);
    for (int i = 0; i < count; i++) {
        visit(arg, &all[i]);
        mem_free((void *)all[i].topic.p);
    }
    mem_free(all);
}

enum error log_manager_space(struct log_manager *m, uint64_t *ret_total, uint64_t *ret_usable)
{
    return fs_space(m->params.fs, m->dir, ret_total, ret_usable);
}
