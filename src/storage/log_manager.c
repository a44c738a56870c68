/* A log directory: identity, lock, loading and closing. See log_manager.h.
 *
 * Crash argument. The clean-shutdown file is written last of all, behind every log's flush, snapshot and the checkpoints, and removed before the first log is
 * opened: when it is there, what the checkpoints say is so. Without it every log recovers from its recovery point. Checkpoint files are replaced atomically; they
 * are written at the end of loading too, so that a line of a partition whose folder is gone never meets a new partition of that name. A deleted partition's folder
 * takes another name first, durably, then the checkpoints lose its line, then it is removed.
 *
 * A partition's folder is made without a sync (plog.c). Its name is durable with the checkpoints that have its line, or with its first flush. A power cut may take partition.metadata of
 * one that was never flushed, and leave batches: of the topic that has the name now, or of one that was deleted just before. Nobody can tell, and nothing of it was acknowledged as
 * durable: it is removed, and made again when the metadata want it. So records of a deleted topic never show up in a new one. Where something shows that it was flushed, or no recovery
 * point is known, a missing topic id proves nothing: the log is kept, and gets the id that the metadata say.
 *
 * A failed sync: the page cache goes on to show what the medium never got, and the next sync says OK. So a failure leaves a file behind (.kagami-sync-failed), and the next start
 * reads what lies above the recovery points from the medium. It stays until a start has opened every log. It needs no sync: a power cut that takes the file takes the cache with it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/stats.h"
#include "codec/compress.h"
#include "storage/log_manager_internal.h"

#define DELETED_DIR_SUFFIX "-delete"

struct plog_config plog_config_default(void)
{
    return (struct plog_config){
        .segment_bytes = 1073741824,
        .segment_ms = INT64_C(604800000),
        .segment_index_bytes = 10485760,
        .index_interval_bytes = 4096,
        .retention_ms = INT64_C(604800000),
        .retention_bytes = -1,
        .cleanup_delete = true,
        .file_delete_delay_ms = 60000,
        .producer_id_expiration_ms = 86400000,
        .validate = validate_config_default(),
    };
}

void log_manager_event(struct log_manager *m, const char *format, ...)
{
    if (m->params.event == NULL)
        return;
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    m->params.event(m->params.arg, text);
}

char *log_manager_path(const struct log_manager *m, const char *name)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", m->dir, name);
    char *copy = mem_strdup(buf_cstr(&path));
    buf_fini(&path);
    return copy;
}

/* ---- Entries ---- */

struct log_entry *log_manager_new_entry(struct str topic, int32_t partition)
{
    struct log_entry *e = mem_calloc(1, sizeof(*e));
    struct buf key = {0};
    buf_printf(&key, "%.*s-%d", STR_ARG(topic), partition);
    e->key = mem_strdup(buf_cstr(&key));
    buf_fini(&key);
    e->topic = str_dup(topic);
    e->partition = partition;
    e->last = (struct plog_checkpoint){-1, -1, -1};
    return e;
}

void log_manager_free_entry(struct log_entry *e)
{
    mem_free(e->topic);
    mem_free(e->key);
    mem_free(e);
}

struct log_entry *log_manager_await_entry(struct log_manager *m, const char *key)
{
    for (;;) {
        struct log_entry *e;
        HASH_FIND_STR(m->entries, key, e);
        if (e == NULL || !e->busy)
            return e;
        condition_wait(&m->idle, &m->mutex);
    }
}

void log_manager_add_deleted(struct log_manager *m, char *path, int64_t delay_ms)
{
    struct deleted_dir *d = mem_calloc(1, sizeof(*d));
    d->path = path;
    d->due_ms = clock_mono_ms(m->params.clock) + MAX(delay_ms, 0);
    d->next = m->deleted;
    m->deleted = d;
}

/* ---- Opening one log ---- */

static void on_event(void *arg, const char *dir, const char *text)
{
    const char *name = strrchr(dir, '/');
    log_manager_event(arg, "%s: %s", name != NULL ? name + 1 : dir, text);
}

static enum error on_checkpoint(void *arg)
{
    struct log_manager *m = arg;
    return atomic_load(&m->loaded) ? log_manager_write_checkpoints(m) : OK;
}

enum error log_manager_sync_dirs(struct log_manager *m)
{
    uint64_t made = atomic_load(&m->dirs_made);
    enum error error = OK;
    if (atomic_load(&m->dirs_synced) >= made)
        return OK;
    mutex_lock(&m->dir_syncing);
    if (atomic_load(&m->dirs_synced) < made) { /* else somebody has done it meanwhile, for all that wait */
        made = atomic_load(&m->dirs_made);
        error = fs_sync_dir(m->params.fs, m->dir);
        if (error == OK)
            atomic_store(&m->dirs_synced, MAX(made, atomic_load(&m->dirs_synced)));
    }
    mutex_unlock(&m->dir_syncing);
    return error;
}

static enum error on_sync_parent(void *arg)
{
    return log_manager_sync_dirs(arg);
}

static void on_failed(void *arg, const char *dir, enum error error)
{
    char text[400];
    snprintf(text, sizeof(text), "the log %s failed: %s", dir, error_message(error));
    log_manager_fail(arg, text);
}

enum error log_manager_open_entry(struct log_manager *m, struct log_entry *e, const struct plog_config *config,
                                  struct uuid topic_id, bool clean, struct problem *problem)
{
    char *dir = log_manager_path(m, e->key);
    struct plog_params params = {
        .fs = m->params.fs,
        .clock = m->params.clock,
        .dir = dir,
        .cluster_id = m->meta.cluster_id,
        .topic_id = topic_id,
        .config = *config,
        .recovery_point = e->last.recovery_point,
        .log_start_offset = e->last.log_start_offset,
        .high_watermark = e->last.high_watermark,
        .clean_shutdown = clean,
        .foreign = m->params.foreign && !atomic_load(&m->loaded),
        .distrust_cache = m->sync_failed,
        .event = on_event,
        .event_arg = m,
        .checkpoint = on_checkpoint,
        .failed = on_failed,
        .sync_parent = on_sync_parent,
        .owner_arg = m,
    };
    struct plog *log;
    enum error error = plog_open(&params, &log, problem);
    mem_free(dir);
    if (error != OK)
        return error;
    struct uuid id = plog_topic_id(log);
    mutex_lock(&m->mutex);
    e->log = log;
    e->topic_id = id;
    mutex_unlock(&m->mutex);
    return OK;
}

/* ---- Loading ---- */

/* "orders-12" is topic orders, partition 12. */
static bool parse_dir_name(const char *name, struct str *ret_topic, int32_t *ret_partition)
{
    const char *dash = strrchr(name, '-');
    int64_t partition;
    if (dash == NULL || dash == name || dash - name > LIMIT_TOPIC_NAME || (dash[1] == '0' && dash[2] != '\0'))
        return false;
    for (const char *p = dash + 1; *p != '\0'; p++)
        if (*p < '0' || *p > '9')
            return false;
    if (!str_to_i64(str_of(dash + 1), &partition) || partition > INT32_MAX)
        return false;
    *ret_topic = (struct str){name, (int32_t)(dash - name)};
    *ret_partition = (int32_t)partition;
    return true;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return n > s && strcmp(name + n - s, suffix) == 0;
}

static enum error visit_dir(void *arg, const char *name, bool is_dir)
{
    struct log_manager *m = arg;
    struct str topic;
    int32_t partition;
    if (!is_dir)
        return OK;
    if (ends_with(name, DELETED_DIR_SUFFIX) && strchr(name, '.') != NULL) {
        log_manager_add_deleted(m, log_manager_path(m, name), 0);
    } else if (!parse_dir_name(name, &topic, &partition)) {
        log_manager_event(m, "the folder %s is no partition's: left alone", name);
    } else if (!str_is(topic, "__cluster_metadata")) { /* a KRaft controller's own, when the folder was Kafka's */
        struct log_entry *e = log_manager_new_entry(topic, partition);
        HASH_ADD_KEYPTR(hh, m->entries, e->key, strlen(e->key), e);
    }
    return OK;
}

static enum error read_checkpoint(struct log_manager *m, const char *file, size_t field, struct problem *problem)
{
    struct offset_checkpoint c = {0};
    char *path = log_manager_path(m, file);
    enum error error = offset_checkpoint_read(m->params.fs, path, &c, problem);
    mem_free(path);
    if (error ==
        ERR_IO) /* it is there, and what it knows may be needed: recovery is strict only about what it knows to be durable */
        return error;
    /* Without it a log recovers from its front, begins at its first segment, and its HW is found anew: slower, and nothing lost. */
    if (error != OK && error != ERR_NOT_FOUND)
        log_manager_event(m, "%s: going on without it", problem->message);
    problem->code = OK;
    for (struct log_entry *e = m->entries; error == OK && e != NULL; e = e->hh.next) {
        const int64_t *offset = offset_checkpoint_get(&c, str_of(e->topic), e->partition);
        if (offset != NULL)
            memcpy((char *)&e->last + field, offset, sizeof(*offset));
    }
    offset_checkpoint_fini(&c);
    return OK;
}

struct loading {
    struct log_manager *m;
    struct log_entry **entries;
};

static void load_one(void *arg, int i)
{
    struct loading *l = arg;
    struct log_manager *m = l->m;
    struct log_entry *e = l->entries[i];
    struct problem problem;
    char line[1000];
    struct plog_config config = plog_config_default();
    if (m->params.topic_config != NULL)
        m->params.topic_config(m->params.arg, str_of(e->topic), &config);
    if (log_manager_open_entry(m, e, &config, UUID_ZERO, m->was_clean, &problem) != OK)
        log_manager_event(m, "the partition %s is out of service: %s", e->key, problem_line(&problem, line, sizeof(line)));
}

/* See above. */
static enum error remove_unowned(struct log_manager *m)
{
    enum error error = OK;
    struct log_entry *e, *next;
    HASH_ITER (hh, m->entries, e, next) {
        if (error != OK || m->params.foreign || e->log == NULL || !plog_is_of_nobody(e->log) || e->last.recovery_point != 0 ||
            plog_end_offset(e->log) == 0)
            continue;
        log_manager_event(
            m, "%s: nothing in it was ever durable, and a crash took its topic id: removed, the metadata make it again", e->key);
        error = log_manager_delete_log(m, str_of(e->topic), e->partition);
    }
    return error;
}

static enum error remove_file(struct log_manager *m, const char *name)
{
    char *path = log_manager_path(m, name);
    enum error error = fs_unlink(m->params.fs, path);
    mem_free(path);
    return error == ERR_NOT_FOUND ? OK : error;
}

static bool all_open(const struct log_manager *m)
{
    for (const struct log_entry *e = m->entries; e != NULL; e = e->hh.next)
        if (e->log == NULL)
            return false;
    return true;
}

static enum error load_all(struct log_manager *m, struct problem *problem)
{
    enum error error = fs_list(m->params.fs, m->dir, visit_dir, m);
    if (error == OK)
        error = read_checkpoint(m, RECOVERY_POINT_CHECKPOINT, offsetof(struct plog_checkpoint, recovery_point), problem);
    if (error == OK)
        error = read_checkpoint(m, LOG_START_CHECKPOINT, offsetof(struct plog_checkpoint, log_start_offset), problem);
    if (error == OK)
        error = read_checkpoint(m, HIGH_WATERMARK_CHECKPOINT, offsetof(struct plog_checkpoint, high_watermark), problem);
    if (error == OK)
        error = clean_shutdown_remove(m->params.fs, m->dir);
    if (error != OK)
        return error;
    int count = (int)HASH_COUNT(m->entries), n = 0;
    struct loading l = {m, mem_calloc((size_t)count + 1, sizeof(struct log_entry *))};
    for (struct log_entry *e = m->entries; e != NULL; e = e->hh.next)
        l.entries[n++] = e;
    log_manager_run_all(m, count, load_one, &l);
    mem_free(l.entries);
    error = remove_unowned(m);
    atomic_store(&m->loaded, true);
    if (log_manager_failed(m))
        return problem_set(problem, ERR_IO, "the folder %s cannot be used: its disk failed while the logs were opened", m->dir);
    if (error == OK)
        error = log_manager_write_checkpoints(m);
    return error == OK && m->sync_failed && all_open(m) ? remove_file(m, SYNC_FAILED_FILE) : error;
}

/* ---- Identity ---- */

static enum error wrong_owner(struct log_manager *m, struct problem *problem)
{
    const struct log_manager_params *p = &m->params;
    if (p->cluster_id[0] != '\0' && strcmp(p->cluster_id, m->meta.cluster_id) != 0) {
        problem_set(problem, INCONSISTENT_CLUSTER_ID, "the folder %s belongs to the cluster %s, not to %s", m->dir,
                    m->meta.cluster_id, p->cluster_id);
        problem_hint(problem, "give this broker another folder, or the cluster id that the folder has");
        return INCONSISTENT_CLUSTER_ID;
    }
    if (m->meta.node_id >= 0 && m->meta.node_id != p->node_id) {
        problem_set(problem, ERR_CONFLICT, "the folder %s belongs to node %d, not to node %d", m->dir, m->meta.node_id,
                    p->node_id);
        problem_hint(problem, "give this broker another folder, or set node.id=%d", m->meta.node_id);
        return ERR_CONFLICT;
    }
    return OK;
}

static enum error check_identity(struct log_manager *m, struct problem *problem)
{
    char *path = log_manager_path(m, META_PROPERTIES_FILE);
    enum error error = meta_properties_read(m->params.fs, path, &m->meta, problem);
    bool write = error == ERR_NOT_FOUND;
    if (error == ERR_UNSUPPORTED)
        problem_hint(problem, "a newer version wrote this folder: start that version, or use another folder");
    if (error == OK) {
        error = wrong_owner(m, problem);
        write = m->meta.node_id < 0 || uuid_is_zero(&m->meta.directory_id);
    } else if (error == ERR_NOT_FOUND && m->params.cluster_id[0] == '\0') {
        problem_set(problem, ERR_NOT_FOUND, "the folder %s is new, and no cluster id is given for it", m->dir);
    } else if (error == ERR_NOT_FOUND) {
        snprintf(m->meta.cluster_id, sizeof(m->meta.cluster_id), "%s", m->params.cluster_id);
        error = OK;
    }
    if (error == OK && write) {
        m->meta.node_id = m->params.node_id;
        uint8_t random[16];
        while (uuid_is_zero(&m->meta.directory_id)) {
            random_fill(m->params.random, random, sizeof(random));
            (void)uuid_from_random(random, &m->meta.directory_id);
        }
        error = fs_sync_parent(m->params.fs, m->dir); /* once: where the file stands, its folder's name is durable */
        if (error == OK)
            error = meta_properties_write(m->params.fs, path, &m->meta);
    }
    mem_free(path);
    return error;
}

enum error log_manager_read_identity(struct fs *fs, const char *dir, char ret_cluster_id[64], int32_t *ret_node_id,
                                     struct problem *problem)
{
    struct meta_properties meta;
    struct buf path = {0};
    buf_printf(&path, "%s/%s", dir, META_PROPERTIES_FILE);
    enum error error = meta_properties_read(fs, buf_cstr(&path), &meta, problem);
    buf_fini(&path);
    if (error != OK)
        return error;
    memcpy(ret_cluster_id, meta.cluster_id, sizeof(meta.cluster_id));
    *ret_node_id = meta.node_id;
    return OK;
}

static enum error take_lock(struct log_manager *m, struct problem *problem)
{
    char *path = log_manager_path(m, ".lock");
    enum error error = fs_lock(m->params.fs, path, &m->lock_file);
    mem_free(path);
    if (error != ERR_LOCKED)
        return error;
    problem_set(problem, ERR_LOCKED, "the folder %s is in use by another process", m->dir);
    problem_hint(problem, "end that process, or give this broker another folder");
    return error;
}

/* ---- Life ---- */

static void destroy(struct log_manager *m)
{
    struct log_entry *e, *next;
    HASH_ITER (hh, m->entries, e, next) {
        HASH_DEL(m->entries, e);
        (void)plog_close(e->log, false);
        log_manager_free_entry(e);
    }
    while (m->deleted != NULL) {
        struct deleted_dir *d = m->deleted;
        m->deleted = d->next;
        mem_free(d->path);
        mem_free(d);
    }
    file_close(m->lock_file);
    mutex_fini(&m->dir_syncing);
    mutex_fini(&m->checkpointing);
    condition_fini(&m->idle);
    mutex_fini(&m->mutex);
    mem_free(m->dir);
    mem_free(m);
}

enum error log_manager_open(const struct log_manager_params *params, struct log_manager **ret_manager, struct problem *problem)
{
    struct problem ignored;
    struct log_manager *m = mem_calloc(1, sizeof(*m));
    problem = problem != NULL ? problem : &ignored;
    problem->code = OK;
    m->params = *params;
    m->dir = mem_strdup(params->dir);
    mutex_init(&m->mutex);
    condition_init(&m->idle);
    mutex_init(&m->checkpointing);
    mutex_init(&m->dir_syncing);
    atomic_init(&m->dirs_made, 1);
    enum error error = fs_mkdirs(params->fs, m->dir);
    if (error == OK)
        error = take_lock(m, problem);
    if (error == OK)
        error = check_identity(m, problem);
    if (error == OK) {
        char *path = log_manager_path(m, CLEAN_SHUTDOWN_FILE);
        m->was_clean = clean_shutdown_present(params->fs, path, NULL);
        mem_free(path);
        path = log_manager_path(m, SYNC_FAILED_FILE);
        m->sync_failed = fs_stat(params->fs, path, NULL, NULL, NULL) != ERR_NOT_FOUND; /* in doubt it is there */
        mem_free(path);
        m->was_clean = m->was_clean && !m->sync_failed;
        error = load_all(m, problem);
    }
    m->params.cluster_id = m->meta.cluster_id;
    m->params.dir = m->dir;
    if (error == OK) {
        *ret_manager = m;
        return OK;
    }
    if (problem->code == OK)
        problem_set(problem, error, "the folder %s cannot be opened: %s", m->dir, error_message(error));
    destroy(m);
    return error;
}

static void close_one(void *arg, int i)
{
    struct loading *l = arg;
    struct log_entry *e = l->entries[i];
    if (e->log == NULL)
        return;
    e->last = plog_checkpoint_values(e->log);
    int64_t end_offset = plog_end_offset(e->log);
    enum error error = plog_close(e->log, true);
    e->log = NULL;
    if (error == OK)
        e->last.recovery_point = end_offset;
    else
        log_manager_event(l->m, "the partition %s did not end cleanly: %s", e->key, error_message(error));
    e->busy = error != OK; /* told to close_clean */
}

/* A log that could not be opened after an unclean end was not recovered: the next start must not take it for clean. */
static bool all_recovered(struct log_manager *m)
{
    if (m->was_clean || all_open(m))
        return true;
    log_manager_event(m, "the end of the folder %s does not count as clean: some of its partitions could not be opened", m->dir);
    return false;
}

static enum error close_clean(struct log_manager *m)
{
    int count = (int)HASH_COUNT(m->entries), n = 0;
    bool all = all_recovered(m);
    struct loading l = {m, mem_calloc((size_t)count + 1, sizeof(struct log_entry *))};
    for (struct log_entry *e = m->entries; e != NULL; e = e->hh.next)
        l.entries[n++] = e;
    log_manager_run_all(m, count, close_one, &l);
    for (int i = 0; i < count; i++)
        all = all && !l.entries[i]->busy;
    mem_free(l.entries);
    enum error error = log_manager_write_checkpoints(m);
    if (error != OK || !all)
        return error;
    char *path = log_manager_path(m, CLEAN_SHUTDOWN_FILE);
    error = clean_shutdown_write(m->params.fs, path, -1);
    mem_free(path);
    return error;
}

void log_manager_close(struct log_manager *m, bool clean)
{
    if (m == NULL)
        return;
    if (clean && !log_manager_failed(m)) {
        enum error error = close_clean(m);
        if (error != OK)
            log_manager_event(m, "the folder %s did not end cleanly: %s", m->dir, error_message(error));
    }
    destroy(m);
}

bool log_manager_was_clean(const struct log_manager *m)
{
    return m->was_clean;
}

const char *log_manager_cluster_id(const struct log_manager *m)
{
    return m->meta.cluster_id;
}

const struct uuid *log_manager_directory_id(const struct log_manager *m)
{
    return &m->meta.directory_id;
}

const char *log_manager_dir(const struct log_manager *m)
{
    return m->dir;
}

bool log_manager_failed(const struct log_manager *m)
{
    return atomic_load(&m->failed);
}

/* Not synced: it tells of what the page cache may hold, and goes where that goes. A directory that cannot even take a name will not take a log either. */
static void note_failed_sync(struct log_manager *m)
{
    struct file *file;
    char *path = log_manager_path(m, SYNC_FAILED_FILE);
    if (fs_open(m->params.fs, path, FILE_WRITE | FILE_CREATE, &file) == OK)
        file_close(file);
    mem_free(path);
}

void log_manager_fail(struct log_manager *m, const char *text)
{
    if (atomic_exchange(&m->failed, true))
        return;
    STAT_ADD(log_dir_failures, 1);
    mutex_lock(&m->mutex);
    for (struct log_entry *e = m->entries; e != NULL; e = e->hh.next)
        if (e->log != NULL)
            plog_fail(e->log);
    mutex_unlock(&m->mutex);
    note_failed_sync(m);
    if (m->params.failed != NULL)
        m->params.failed(m->params.arg, m->dir, text);
}

enum error log_manager_broken(struct log_manager *m, enum error error, const char *doing)
{
    char text[400];
    if (error != ERR_IO || log_manager_failed(m))
        return error;
    snprintf(text, sizeof(text), "%s failed: %s", doing, error_message(error));
    log_manager_fail(m, text);
    return error;
}
