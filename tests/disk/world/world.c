/* See world.h. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"

uint64_t pick(struct world *w, uint64_t bound)
{
    return random_below(&w->random.source, bound);
}

void wrong(const struct world *w, const struct one_log *l, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s%s", buf_cstr((struct buf *)&w->history),
            buf_cstr((struct buf *)&w->events)); /* longer than cmocka's lines */
    fail_msg("seed %" PRIu64 " (%s, during %s): %s-%d %s", w->seed, trouble_text(w->trouble), w->doing,
             l != NULL ? l->topic : "the directory", l != NULL ? l->index : 0, text);
}

bool failed(struct world *w)
{
    return sim_disk_has_failed(&w->disk);
}

static void on_event(void *arg, const char *text)
{
    buf_printf(&((struct world *)arg)->events, "%s\n", text);
}

static void on_failed(void *arg, const char *dir, const char *text)
{
    struct world *w = arg;
    w->failures++;
    if (strcmp(dir, DIR) != 0 || strlen(text) < 10)
        wrong(w, NULL, "the failure is told as '%s'", text);
    buf_printf(&w->events, "failed: %s\n", text);
}

static void on_config(void *arg, struct str topic, struct plog_config *ret_config)
{
    *ret_config = ((struct world *)arg)->f.params.config;
}

void world_init(struct world *w, uint64_t seed)
{
    static const struct {
        const char *topic;
        int32_t index;
    } NAMES[LOGS] = {{"orders", 0}, {"orders", 1}, {"a.b-c", 12}};
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->doing = "start";
    seeded_random_init(&w->random, seed);
    sim_disk_init(&w->disk, &w->random.source);
    assert_int_equal(fs_mkdir(&w->disk.fs, "/data"), OK);
    assert_int_equal(fs_sync_dir(&w->disk.fs, "/"), OK);
    log_fixture_init_on(&w->f, &w->disk.fs);
    w->f.params.config.segment_bytes = 300 + (int64_t)pick(w, 1500);
    w->retains = seed % 4 == 0;
    w->raises = seed % 3 == 0;
    w->deletes = seed % 5 == 0;
    w->f.params.config.retention_bytes = w->retains ? 1500 : -1;
    for (int i = 0; i < LOGS; i++) {
        w->logs[i] = (struct one_log){.topic = NAMES[i].topic, .index = NAMES[i].index, .generation = 1};
        mutex_init(&w->logs[i].mutex);
    }
}

void world_fini(struct world *w)
{
    for (int i = 0; i < LOGS; i++) {
        buf_fini(&w->logs[i].before);
        mutex_fini(&w->logs[i].mutex);
    }
    w->f.log = NULL;
    log_fixture_fini(&w->f);
    buf_fini(&w->events);
    buf_fini(&w->history);
    sim_disk_fini(&w->disk);
}

struct plog *log_of(struct world *w, const struct one_log *l)
{
    struct plog *log = NULL;
    if (log_manager_get(w->manager, str_of(l->topic), l->index, &log) != OK)
        return NULL;
    return log;
}

/* ---- What was there before ---- */

void forget(struct one_log *l)
{
    buf_clear(&l->before);
    l->before_start = l->before_end = l->may_grow = l->left_over = l->floor = 0;
    l->epoch_floor = -1;
    l->front_gone = false;
}

void remember(struct world *w, struct one_log *l)
{
    struct plog *log = log_of(w, l);
    if (log == NULL || plog_failed(log))
        return;
    w->f.log = log;
    buf_clear(&l->before);
    l->before_start = plog_start_offset(log);
    l->before_end = plog_end_offset(log);
    l->front_gone = l->front_gone || l->before_start > 0;
    l->floor = MAX(l->floor, plog_recovery_point(log));
    l->last_epoch = plog_latest_epoch(log);
    l->epoch_floor = MIN(l->epoch_floor, l->last_epoch);
    l->may_grow = 0;
    w->disk.paused = true;
    read_all(&w->f, l->before_start, &l->before);
    w->disk.paused = false;
}

struct uuid id_of(const struct one_log *l)
{
    return (struct uuid){{7, (uint8_t)l->index, l->generation}};
}

enum error open_manager(struct world *w, struct problem *problem)
{
    struct log_manager_params params = {.fs = &w->disk.fs,
                                        .clock = &w->f.clock.clock,
                                        .random = &w->random.source,
                                        .dir = DIR,
                                        .cluster_id = OWN_CLUSTER,
                                        .node_id = 1,
                                        .topic_config = on_config,
                                        .event = on_event,
                                        .failed = on_failed,
                                        .arg = w};
    buf_clear(&w->events);
    w->failures = 0;
    enum error error = log_manager_open(&params, &w->manager, problem);
    if (error != OK)
        w->manager = NULL;
    return error;
}
