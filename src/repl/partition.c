#include "repl/partition.h"

#include "base/logger.h"
#include "base/stats.h"
#include "repl/partition_internal.h"

enum error partition_create(struct partition_env *env, struct str topic, const struct uuid *topic_id, int32_t index,
                            int32_t leader_epoch, const struct plog_config *config, struct plog *log,
                            struct partition **ret_partition)
{
    struct partition *p = mem_calloc(1, sizeof(*p));
    atomic_init(&p->refs, 1);
    p->env = env;
    p->topic = str_dup(topic);
    p->topic_id = *topic_id;
    p->index = index;
    mutex_init(&p->mutex);
    condition_init(&p->flush_ended);
    p->log = log;
    p->config = *config;
    p->flushing.offset = p->waiting.offset = -1;
    TAILQ_INIT(&p->waiters);
    LIST_INIT(&p->watches);

    mutex_lock(&p->mutex);
    partition_apply_config(p);
    p->leader_epoch = MAX(leader_epoch, plog_latest_epoch(log));
    enum error error = OK;
    if (p->leader_epoch > plog_latest_epoch(log))
        error = plog_assign_epoch(log, p->leader_epoch);
    if (error != OK) {
        p->log = NULL;
        mutex_unlock(&p->mutex);
        partition_unref(p);
        return error;
    }
    p->told_hw = p->told_lso = p->told_log_start = -1;
    partition_leave(p);
    *ret_partition = p;
    return OK;
}

struct partition *partition_ref(struct partition *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void partition_unref(struct partition *p)
{
    if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    ASSERT(p->log == NULL && TAILQ_EMPTY(&p->waiters) && LIST_EMPTY(&p->watches) && !p->flush_running);
    condition_fini(&p->flush_ended);
    mutex_fini(&p->mutex);
    mem_free(p->topic);
    mem_free(p);
}

void partition_close(struct partition *p, enum error why)
{
    ASSERT(why != OK);
    mutex_lock(&p->mutex);
    while (p->flush_running)
        condition_wait(&p->flush_ended, &p->mutex);
    if (p->log != NULL) {
        p->log = NULL;
        p->closed = why;
        p->flush_wanted = false;
        p->flushing.offset = p->waiting.offset = -1;
        p->state_changed = true;
        partition_end_waiters(p, -1, why);
    }
    partition_leave(p);
}

struct mutex *partition_mutex(struct partition *p)
{
    return &p->mutex;
}
const char *partition_topic(const struct partition *p)
{
    return p->topic;
}
const struct uuid *partition_topic_id(const struct partition *p)
{
    return &p->topic_id;
}
int32_t partition_index(const struct partition *p)
{
    return p->index;
}

enum error partition_enter(struct partition *p)
{
    mutex_lock(&p->mutex);
    enum error error = p->log == NULL ? p->closed : plog_failed(p->log) ? KAFKA_STORAGE_ERROR : OK;
    if (error != OK)
        partition_leave(p);
    return error;
}

struct plog *partition_lock(struct partition *p)
{
    mutex_lock(&p->mutex);
    if (p->log == NULL)
        mutex_unlock(&p->mutex);
    return p->log;
}

void partition_unlock(struct partition *p)
{
    partition_leave(p);
}

void partition_get_state(struct partition *p, struct partition_state *ret_state)
{
    mutex_lock(&p->mutex);
    struct partition_state s = {.error = p->closed,
                                .leader_epoch = p->leader_epoch,
                                .origin = p->origin,
                                .writable = p->closed == OK && p->refusal.code == OK,
                                .latest_epoch = -1};
    if (p->log != NULL) {
        if (plog_failed(p->log)) {
            s.error = KAFKA_STORAGE_ERROR;
            s.writable = false;
        }
        s.log_start_offset = plog_start_offset(p->log);
        s.end_offset = plog_end_offset(p->log);
        s.high_watermark = plog_high_watermark(p->log);
        s.last_stable_offset = plog_last_stable_offset(p->log);
        s.durable_offset = plog_recovery_point(p->log);
        s.latest_epoch = plog_latest_epoch(p->log);
        s.size_bytes = plog_size_bytes(p->log);
    }
    mutex_unlock(&p->mutex);
    *ret_state = s;
}

enum error partition_set_leader_epoch(struct partition *p, int32_t epoch)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return error;
    if (epoch < p->leader_epoch)
        error = ERR_STATE;
    else if (epoch > p->leader_epoch)
        error = plog_assign_epoch(p->log, epoch);
    if (error == OK && epoch != p->leader_epoch) {
        p->leader_epoch = epoch;
        p->state_changed = true;
    }
    partition_leave(p);
    return error;
}

void partition_set_origin(struct partition *p, enum append_origin origin, const struct problem *refusal)
{
    ASSERT(origin == APPEND_CLIENT || refusal != NULL);
    mutex_lock(&p->mutex);
    p->origin = origin;
    if (refusal != NULL)
        p->refusal = *refusal;
    else
        p->refusal.code = OK;
    p->state_changed = true;
    if (p->log != NULL)
        partition_apply_config(p);
    partition_leave(p);
}

enum error partition_check_writable(struct partition *p, struct problem *ret_problem)
{
    enum error error = partition_enter(p);
    if (error != OK)
        return problem_set(ret_problem, error, "%s-%d: %s", p->topic, p->index, error_message(error));
    error = p->refusal.code;
    if (error != OK && ret_problem != NULL)
        *ret_problem = p->refusal;
    partition_leave(p);
    return error;
}

/* What a mirror copies is kept as long as its source keeps it: retention comes from the source's log start, and its compaction is copied (spec
 * section 3). */
void partition_apply_config(struct partition *p)
{
    struct plog_config config = p->config;
    if (p->origin == APPEND_MIRROR) {
        config.retention_ms = config.retention_bytes = -1;
        config.cleanup_delete = config.cleanup_compact = false;
    }
    plog_set_config(p->log, &config);
}

void partition_set_config(struct partition *p, const struct plog_config *config)
{
    mutex_lock(&p->mutex);
    p->config = *config;
    if (p->log != NULL)
        partition_apply_config(p);
    partition_leave(p);
}

void partition_get_validate_config(struct partition *p, struct validate_config *ret_config)
{
    mutex_lock(&p->mutex);
    *ret_config = p->config.validate;
    mutex_unlock(&p->mutex);
}

enum error partition_check_epoch(const struct partition *p, int32_t current_epoch)
{
    if (current_epoch < 0 || current_epoch == p->leader_epoch)
        return OK;
    return current_epoch < p->leader_epoch ? FENCED_LEADER_EPOCH : UNKNOWN_LEADER_EPOCH;
}
