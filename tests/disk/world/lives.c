/* Lives and their ends. See world.h. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void end_life(struct world *w, bool power)
{
    for (int i = 0; i < LOGS; i++)
        w->logs[i].adopted = false;
    log_manager_close(w->manager, false);
    w->manager = NULL;
    w->f.log = NULL;
    buf_printf(&w->history, "- %s during %s%s%s, then %s\n", trouble_text(w->trouble), w->doing, failed(w) ? ", failed at " : "",
               failed(w) ? w->disk.failed_path : "", power ? "the power went" : "the process was killed");
    w->disk.capacity_bytes = 0;
    w->hit = failed(w);
    if (power)
        sim_disk_power_cut(&w->disk);
    else
        sim_disk_heal(&w->disk);
}

/* No log could not be opened; one that is missing is made again. */
static bool all_there(struct world *w)
{
    struct plog *log;
    for (int i = 0; i < LOGS; i++)
        if (w->logs[i].must_exist &&
            log_manager_get(w->manager, str_of(w->logs[i].topic), w->logs[i].index, &log) == KAFKA_STORAGE_ERROR)
            return false;
    return true;
}

/* Whether the directory is open now; if not, nothing but the disk may be why, and that life is ended too. */
static bool try_open(struct world *w)
{
    struct problem problem = {0};
    w->doing = "start";
    enum error error = open_manager(w, &problem);
    if (error == OK && !failed(w) && w->expect_clean && !log_manager_was_clean(w->manager))
        wrong(w, NULL, "the clean end is forgotten");
    if (error == OK && !failed(w) && w->expect_clean && strstr(buf_cstr(&w->events), "recovered") != NULL)
        wrong(w, NULL, "a clean end left something to recover");
    if (error == OK && !log_manager_failed(w->manager) && all_there(w) && !(w->trouble <= TROUBLE_KILL && failed(w)))
        return true;
    if (!failed(w))
        wrong(w, NULL, "the start needs a hand: %s %s (%s)", error_name(error), problem.message, problem.detail);
    if (error != OK && problem.message[0] == '\0')
        wrong(w, NULL, "the start fails without a word");
    w->expect_clean = false;
    end_life(w, w->trouble == TROUBLE_POWER || pick(w, 3) == 0);
    return false;
}

static void opened(struct world *w)
{
    sim_disk_heal(&w->disk);
    w->trouble = TROUBLE_NONE;
    check(w);
}

bool start(struct world *w)
{
    bool hit = !try_open(w);
    if (hit) {
        w->trouble = TROUBLE_NONE;
        (void)try_open(w);
    } else {
        hit = failed(w);
    }
    opened(w);
    return hit;
}

void reopen(struct world *w)
{
    for (int tries = 0;; tries++) {
        w->trouble = TROUBLE_NONE;
        if (tries < 2 && pick(w, 3) == 0) {
            w->trouble = (enum trouble)pick(w, TROUBLE_FULL);
            sim_disk_fail(&w->disk,
                          w->trouble == TROUBLE_SYNC  ? SIM_SYNC | SIM_SYNC_DIR
                          : w->trouble == TROUBLE_EIO ? SIM_ANY
                                                      : SIM_CHANGES,
                          1 + pick(w, 40), w->trouble == TROUBLE_NO_SPACE ? ERR_NO_SPACE : ERR_IO, w->trouble <= TROUBLE_KILL);
        }
        if (try_open(w))
            break;
    }
    opened(w);
}

static void check_answer(struct world *w, enum error error)
{
    bool out = log_manager_failed(w->manager);
    if (error == OK || error == KAFKA_STORAGE_ERROR || w->trouble <= TROUBLE_KILL)
        return;
    if (error == ERR_IO && out)
        return;
    if (error == ERR_IO &&
        (strcmp(w->doing, "create") == 0 || strcmp(w->doing, "delete") == 0 || strcmp(w->doing, "checkpoint") == 0))
        return;
    if (error == ERR_NO_SPACE && w->trouble >= TROUBLE_NO_SPACE)
        return;
    wrong(w, NULL, "answers %s, %s", error_name(error), out ? "out of service" : "in service");
}

void prepare(struct world *w, enum trouble trouble, uint64_t at)
{
    w->trouble = trouble;
    switch (trouble) {
    case TROUBLE_POWER:
    case TROUBLE_KILL:
        sim_disk_fail(&w->disk, SIM_CHANGES, at, ERR_IO, true);
        break;
    case TROUBLE_EIO:
        sim_disk_fail(&w->disk, SIM_ANY, at, ERR_IO, false);
        break;
    case TROUBLE_SYNC:
        sim_disk_fail(&w->disk, SIM_SYNC | SIM_SYNC_DIR, at, ERR_IO, false);
        break;
    case TROUBLE_NO_SPACE:
        sim_disk_fail(&w->disk, SIM_WRITE | SIM_CREATE, at, ERR_NO_SPACE, false);
        break;
    case TROUBLE_FULL:
        w->disk.capacity_bytes = w->disk.used_bytes + at - 1;
        break;
    case TROUBLE_LIE:
        sim_disk_fail(&w->disk, SIM_SYNC | SIM_SYNC_DIR, at, OK, false);
        break;
    case TROUBLE_NONE:
        break;
    }
}

void live(struct world *w, int steps)
{
    int after = 0;
    for (int i = 0; i < steps; i++) {
        if (w->trouble <= TROUBLE_KILL && failed(w))
            break;
        if (log_manager_failed(w->manager) && after++ > 5)
            break; /* it answered so a few times */
        for (int k = 0; k < LOGS; k++)
            remember(w, &w->logs[k]);
        check_answer(w, step(w));
        if (log_manager_failed(w->manager) && after == 0 && (w->trouble == TROUBLE_NO_SPACE || w->trouble == TROUBLE_FULL) &&
            strcmp(w->doing, "truncate") != 0 && strcmp(w->doing, "restart") != 0) /* half-way there is no log to go on with */
            wrong(w, NULL, "a full disk takes it out of service");
        if (w->trouble == TROUBLE_FULL && pick(w, 30) == 0)
            w->disk.capacity_bytes = 0; /* there is room again */
    }
    if (log_manager_failed(w->manager) && w->failures != 1)
        wrong(w, NULL, "its failure was told %d times", w->failures);
}

void end(struct world *w, bool clean)
{
    bool gone = w->trouble <= TROUBLE_KILL && failed(w);
    for (int k = 0; k < LOGS && !gone; k++)
        remember(w, &w->logs[k]);
    w->expect_clean = false;
    if (clean && !log_manager_failed(w->manager) && !gone) {
        w->doing = "clean end";
        w->disk.capacity_bytes = 0;
        bool had_failed = failed(w), all_open = true;
        for (int i = 0; i < LOGS; i++) {
            struct plog *log = log_of(w, &w->logs[i]);
            if (log != NULL)
                log_manager_release(w->manager, log);
            else if (log_manager_get(w->manager, str_of(w->logs[i].topic), w->logs[i].index, &log) != ERR_NOT_FOUND)
                all_open = false;
        }
        buf_clear(&w->events);
        log_manager_close(w->manager, true);
        w->manager = NULL;
        w->expect_clean = all_open && failed(w) == had_failed;
        for (int i = 0; i < LOGS && w->expect_clean; i++) {
            w->logs[i].floor = w->logs[i].before_end;
            if (w->logs[i].before_end > w->logs[i].before_start) /* else it may never have seen the disk */
                w->logs[i].epoch_floor = w->logs[i].last_epoch;
            if (strstr(buf_cstr(&w->events), "cleanly") != NULL)
                wrong(w, NULL, "the end was not clean");
        }
    }
    end_life(w, w->trouble == TROUBLE_POWER || (w->trouble != TROUBLE_KILL && pick(w, 2) == 0));
}
