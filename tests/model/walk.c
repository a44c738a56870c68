/* A walk from its plan to its end. */
#include "walk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "replica.h"

/* How often each step comes, of all. */
static const uint8_t WEIGHTS[][STEP_KINDS] = {
    [WALK_LOG] = {[STEP_CLIENT] = 30,
                  [STEP_REPEAT] = 8,
                  [STEP_MARKER] = 14,
                  [STEP_BARRIER] = 4,
                  [STEP_COPIED] = 14,
                  [STEP_ROLL] = 3,
                  [STEP_TRUNCATE] = 7,
                  [STEP_RESTART] = 1,
                  [STEP_SNAPSHOT] = 4,
                  [STEP_RETENTION] = 3,
                  [STEP_SET_START] = 4,
                  [STEP_ASSIGN_EPOCH] = 4,
                  [STEP_SET_HW] = 7,
                  [STEP_FLUSH] = 3,
                  [STEP_CHECKPOINT] = 3,
                  [STEP_CLOCK] = 3,
                  [STEP_EXPIRE] = 2,
                  [STEP_REOPEN] = 6},
    [WALK_PARTITION] =
        {[STEP_CLIENT] = 34,   [STEP_REPEAT] = 6,       [STEP_MARKER] = 10, [STEP_BARRIER] = 2,    [STEP_COPIED] = 24,
         [STEP_ROLL] = 2,      [STEP_TRUNCATE] = 6,     [STEP_RESTART] = 1, [STEP_SNAPSHOT] = 2,   [STEP_RETENTION] = 1,
         [STEP_SET_START] = 4, [STEP_ASSIGN_EPOCH] = 4, [STEP_FLUSH] = 3,   [STEP_CHECKPOINT] = 2, [STEP_CLOCK] = 2,
         [STEP_EXPIRE] = 1,    [STEP_REOPEN] = 5,       [STEP_DISK] = 14,   [STEP_FLIP] = 5,       [STEP_STOP] = 7},
};

int walk_plan(enum walk_kind walk_kind, uint64_t seed, int most_steps, struct step *ret_steps)
{
    struct seeded_random r;
    int total = 0;
    seeded_random_init(&r, seed);
    for (int i = 0; i < STEP_KINDS; i++)
        total += WEIGHTS[walk_kind][i];
    int count = 4 + (int)random_below(&r.source, (uint64_t)MIN(most_steps, WALK_STEPS) - 3);
    for (int i = 0; i < count; i++) {
        int at = (int)random_below(&r.source, (uint64_t)total), kind = 0;
        while (at >= WEIGHTS[walk_kind][kind])
            at -= WEIGHTS[walk_kind][kind++];
        ret_steps[i] = (struct step){(enum step_kind)kind, 100, random_u64(&r.source)};
    }
    return count;
}

/* ---- What is told ---- */

void walk_note(struct walk *w, const char *format, ...)
{
    struct trace *t = w->trace;
    if (!t->verbose)
        return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->text + t->len, sizeof(t->text) - t->len, format, args);
    va_end(args);
    t->len = MIN(t->len + (size_t)MAX(n, 0), sizeof(t->text) - 1);
}

void walk_fail(struct walk *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->trace->failure, sizeof(w->trace->failure), format, args);
    va_end(args);
    _exit(1);
}

/* ---- Files ---- */

void walk_list_segments(struct walk *w, const struct memory_fs *fs, struct segments *ret_segments)
{
    size_t dir = strlen(WALK_DIR "/");
    ret_segments->count = 0;
    for (int i = 0; i < fs->count; i++) {
        const char *path = fs->entries[i]->path;
        if (strlen(path) != dir + 24 || strcmp(path + dir + 20, ".log") != 0)
            continue;
        ASSERT(ret_segments->count < WALK_SEGMENTS);
        int64_t base = strtoll(path + dir, NULL, 10);
        int at = ret_segments->count++;
        for (; at > 0 && ret_segments->base[at - 1] > base; at--)
            ret_segments->base[at] = ret_segments->base[at - 1];
        ret_segments->base[at] = base;
    }
    WALK_CHECK(w, ret_segments->count > 0, "there is no segment");
}

/* ---- Life ---- */

static enum error on_checkpoint(void *arg)
{
    struct walk *w = arg;
    if (w->log != NULL)
        w->saved = plog_checkpoint_values(w->log);
    return OK;
}

static void on_failed(void *arg, const char *dir, enum error error)
{
    walk_fail(arg, "the log failed: %s", error_name(error));
}

static void on_event(void *arg, const char *dir, const char *text)
{
    struct walk *w = arg;
    if (w->stepping) /* else it is a copy's */
        walk_note(w, "\n             (%s)", text);
}

void walk_open(struct walk *w)
{
    struct problem problem;
    w->params.recovery_point = w->saved.recovery_point;
    w->params.log_start_offset = w->saved.log_start_offset;
    w->params.high_watermark = w->saved.high_watermark;
    enum error error = plog_open(&w->params, &w->log, &problem);
    WALK_CHECK(w, error == OK, "the log cannot be opened: %s; %s", problem.message, problem.detail);
}

bool walk_is_idle(const struct walk *w, const struct model_producer *p)
{
    return w->clock.now_ms - p->last_timestamp >= w->params.config.producer_id_expiration_ms;
}

static struct plog_config pick_config(struct walk *w)
{
    static const int64_t INTERVALS[] = {0, 100, 400};
    struct plog_config c = {
        .retention_ms = -1,
        .retention_bytes = -1,
        .cleanup_delete = true,
        .file_delete_delay_ms = 0,
        .validate = validate_config_default(),
    };
    c.segment_bytes = 250 + pick(w, 1500);
    c.segment_ms = chance(w, 4) ? 3000 : (int64_t)1 << 40;
    c.segment_index_bytes = chance(w, 4) ? 60 : 64 * 1024;
    c.index_interval_bytes = INTERVALS[pick(w, ARRAY_SIZE(INTERVALS))];
    c.producer_id_expiration_ms = chance(w, 4) ? 4000 : INT64_MAX;
    c.validate.log_append_time = chance(w, 6);
    return c;
}

static void init(struct walk *w, struct trace *trace, uint64_t seed)
{
    *w = (struct walk){.trace = trace};
    seeded_random_init(&w->random, seed ^ 0x9e3779b97f4a7c15u);
    manual_clock_init(&w->clock, INT64_C(1760000000000));
    memory_fs_init(&w->fs);
    w->fs.clock = &w->clock.clock;
    w->saved = (struct plog_checkpoint){0, 0, 0};
    w->params = (struct plog_params){.fs = &w->fs.fs,
                                     .clock = &w->clock.clock,
                                     .dir = WALK_DIR,
                                     .cluster_id = WALK_OWN_CLUSTER,
                                     .config = pick_config(w),
                                     .event = on_event,
                                     .event_arg = w,
                                     .checkpoint = on_checkpoint,
                                     .failed = on_failed,
                                     .owner_arg = w};
    WALK_CHECK(w, fs_mkdir(&w->fs.fs, "d") == OK, "no folder");
    model_init(&w->model);
    walk_open(w);
}

void walk_run(struct trace *trace, enum walk_kind kind, uint64_t seed, const struct step *steps, int count)
{
    static struct walk walk; /* large */
    struct walk *w = &walk;
    trace->seed = seed;
    trace->len = 0;
    trace->text[0] = '\0';
    init(w, trace, seed);
    if (kind == WALK_PARTITION)
        replica_start(w);
    walk_note(w, "segments of %" PRId64 " bytes, an index entry every %" PRId64 " bytes\n", w->params.config.segment_bytes,
              w->params.config.index_interval_bytes);
    for (int i = 0; i < count; i++) {
        walk_note(w, "%3d %-12s ", i + 1, walk_step_name(steps[i].kind));
        w->stepping = true;
        walk_step(w, &steps[i]);
        w->stepping = false;
        walk_note(w, "\n");
        walk_check_all(w, i + 1 == count);
    }
    replica_close(w);
    (void)plog_close(w->log, false);
    model_fini(&w->model);
    memory_fs_fini(&w->fs);
    trace->counted++;
}
