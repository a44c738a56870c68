/* What is done to the logs. See world.h. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "storage/producer_state.h"

static enum error client(struct world *w, struct one_log *l, int64_t pid, int records, bool transactional)
{
    l->may_grow = records;
    return append_next(&w->f, pid, records, transactional);
}

static enum error copied(struct world *w, struct one_log *l)
{
    struct buf batches = {0};
    struct plog_appended a;
    l->may_grow = make_chunk(&w->f, &w->random.source, &batches) - plog_end_offset(w->f.log);
    l->epoch_floor = -1; /* an epoch without batches gives way to the source's history */
    enum error error = plog_append_copied(w->f.log, buf_bytes(&batches), &a, NULL);
    buf_fini(&batches);
    return error;
}

static enum error truncate(struct world *w, struct one_log *l)
{
    int64_t to = plog_end_offset(w->f.log) - (int64_t)pick(w, 30);
    to = MAX(to, plog_start_offset(w->f.log));
    bool cuts = to < plog_end_offset(w->f.log);
    l->floor = MIN(l->floor, to - 10); /* a batch that contains it goes */
    l->epoch_floor = -1;
    enum error error = plog_truncate_to(w->f.log, to);
    if (error == OK && cuts)
        l->floor = plog_end_offset(w->f.log); /* and what was above does not come back: see check_log */
    return error;
}

static enum error restart(struct world *w, struct one_log *l)
{
    int64_t to = plog_end_offset(w->f.log) + (int64_t)pick(w, 50);
    l->floor = 0;
    l->epoch_floor = -1;
    l->front_gone = true;
    l->may_grow = to - l->before_end;
    enum error error = plog_restart_at(w->f.log, to);
    if (error == OK)
        l->floor = to;
    return error;
}

static enum error raise_start(struct world *w, struct one_log *l)
{
    int64_t to = plog_start_offset(w->f.log) + (int64_t)pick(w, 10);
    to = MIN(to, plog_end_offset(w->f.log));
    /* The epochs below the new start leave the file at once. When the power then takes the tail in which the start lies, no batch is left and no epoch of one. */
    if (to > plog_recovery_point(w->f.log))
        l->epoch_floor = -1;
    return plog_set_start_offset(w->f.log, to);
}

static enum error log_step(struct world *w, struct one_log *l, uint64_t what)
{
    struct plog *log = w->f.log;
    struct plog_appended a;
    enum error error;
    int ignored, records;
    switch (what) {
    case 0:
        w->doing = "flush";
        error = plog_flush_now(log);
        if (error == OK)
            l->epoch_floor = plog_latest_epoch(log);
        return error;
    case 1:
        w->doing = "marker";
        l->may_grow = 1;
        return plog_append_marker(log, 3, 0, pick(w, 2) == 0, 0, MAX(plog_latest_epoch(log), 0), &a);
    case 2:
        w->doing = "barrier";
        if (pick(w, 3) != 0)
            return OK;
        l->may_grow = 1;
        return plog_append_barrier(log, STR("source"), 0, plog_latest_epoch(log) + 1, &a, &ignored);
    case 3:
        w->doing = "roll";
        return plog_roll(log);
    case 4:
        w->doing = "truncate";
        return pick(w, 3) == 0 ? truncate(w, l) : OK;
    case 5:
        w->doing = "snapshot";
        return plog_take_snapshot(log);
    case 6:
        w->doing = "log start";
        plog_set_high_watermark(log, plog_end_offset(log));
        l->front_gone = l->front_gone || w->raises;
        return w->raises ? raise_start(w, l) : OK;
    case 7:
        w->doing = "epoch";
        return plog_assign_epoch(log, plog_latest_epoch(log) + 1); /* until a flush it is in the metadata alone */
    case 8:
        w->doing = "restart";
        return pick(w, 8) == 0 ? restart(w, l) : OK;
    case 9:
    case 10:
        w->doing = "copied append";
        return copied(w, l);
    case 11:
    case 12:
        w->doing = "transactional append";
        return client(w, l, 3, 1 + (int)pick(w, 3), true);
    default:
        w->doing = "append";
        records = 1 + (int)pick(w, 4); /* draws stand in an order of their own: a seed is the same life with every compiler */
        return client(w, l, 1 + (int64_t)pick(w, 2), records, false);
    }
}

enum error create(struct world *w, struct one_log *l)
{
    struct plog *log;
    struct problem problem = {0};
    w->doing = "create";
    bool anew = !l->must_exist && !l->may_exist;
    if (anew)
        forget(l);
    l->may_exist = true;
    enum error error =
        log_manager_create_log(w->manager, str_of(l->topic), l->index, id_of(l), &w->f.params.config, &log, &problem);
    if (error == INCONSISTENT_TOPIC_ID)
        wrong(w, l, "is of a topic that was deleted: %s", problem.message);
    if (error != OK && (problem.code == OK || problem.message[0] == '\0'))
        wrong(w, l, "cannot be created, and no word why");
    if (error != OK)
        return error;
    error = log_manager_settle(w->manager);
    if (error != OK)
        return error;
    l->must_exist = true;
    log_manager_adopt(w->manager, log, &l->mutex);
    l->adopted = true;
    return OK;
}

static enum error remove_log(struct world *w, struct one_log *l)
{
    w->doing = "delete";
    l->must_exist = false;
    struct plog *log = log_of(w, l);
    if (log != NULL && l->adopted)
        log_manager_release(w->manager, log);
    l->adopted = false;
    enum error error = log_manager_delete_log(w->manager, str_of(l->topic), l->index);
    if (error == OK || log_of(w, l) == NULL)
        l->may_exist = error != OK;
    else if (log != NULL && log_of(w, l) == log)
        log_manager_adopt(w->manager, log, &l->mutex);
    if (error == OK) {
        l->generation++;
        forget(l);
    }
    return error;
}

enum error step(struct world *w)
{
    struct one_log *l = &w->logs[pick(w, LOGS)];
    enum error error;
    w->f.log = log_of(w, l);
    uint64_t what = pick(w, 24);
    if (what >= 20 && !w->deletes)
        what -= 10;
    switch (what) {
    case 16:
        w->doing = "checkpoint";
        return log_manager_checkpoint(w->manager);
    case 17:
        w->doing = "retention";
        for (int i = 0; i < LOGS; i++)
            w->logs[i].front_gone = w->logs[i].front_gone || w->retains;
        log_manager_retention(w->manager);
        return OK;
    case 18:
        w->doing = "removal";
        manual_clock_advance(&w->f.clock, 40000);
        log_manager_remove_deleted(w->manager);
        return OK;
    case 20:
        return l->must_exist && pick(w, 3) == 0 ? remove_log(w, l) : OK;
    default:
        if (!l->must_exist || w->f.log == NULL)
            return create(w, l);
        error = log_step(w, l, what % 16);
        if (error != OK)
            l->left_over = MAX(l->left_over, l->may_grow);
        else if (l->may_grow > 0)
            l->left_over = 0;
        return error;
    }
}
