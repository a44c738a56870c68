/* Every operation fails in its turn: of a life in which storage does all that it does, of its clean end, and of the start after a power cut. One thread: a seed replays exactly, with all that
 * fails in it. See README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "world.h"

#define STEPS 40

static const enum trouble TROUBLES[] = {TROUBLE_POWER, TROUBLE_KILL, TROUBLE_EIO, TROUBLE_SYNC, TROUBLE_NO_SPACE};

static void begin(struct world *w, uint64_t seed)
{
    world_init(w, seed);
    w->retains = w->raises = w->deletes = true;
    w->f.params.config.retention_bytes = 1500;
    w->f.params.config.segment_bytes = 600;
    prepare(w, TROUBLE_NONE, 0);
    (void)start(w);
}

static void finish(struct world *w)
{
    end_life(w, false);
    world_fini(w);
}

/* ---- One operation of a life ---- */

static bool fails_in_life(uint64_t seed, enum trouble trouble, uint64_t at)
{
    struct world w;
    begin(&w, seed);
    prepare(&w, trouble, at);
    live(&w, STEPS);
    end(&w, false);
    bool hit = w.hit;
    (void)start(&w);
    live(&w, 5); /* and it goes on */
    finish(&w);
    return hit;
}

static void run_life(uint64_t seed)
{
    for (size_t t = 0; t < ARRAY_SIZE(TROUBLES); t++)
        for (uint64_t at = 1; fails_in_life(seed, TROUBLES[t], at); at++)
            ;
}

static void each_operation_of_a_life(void **state)
{
    each_seed(5, run_life);
}

/* ---- Of a clean end ---- */

static bool fails_in_end(uint64_t seed, enum trouble trouble, uint64_t at)
{
    struct world w;
    begin(&w, seed);
    live(&w, STEPS);
    prepare(&w, trouble, at);
    end(&w, true);
    bool hit = w.hit;
    (void)start(&w);
    finish(&w);
    return hit;
}

static void run_end(uint64_t seed)
{
    for (size_t t = 0; t < ARRAY_SIZE(TROUBLES); t++)
        for (uint64_t at = 1; fails_in_end(seed, TROUBLES[t], at); at++)
            ;
}

static void each_operation_of_a_clean_end(void **state)
{
    each_seed(8, run_end);
}

/* ---- Of the start that finds what a power cut has left ---- */

static bool fails_in_start(uint64_t seed, enum trouble trouble, uint64_t at)
{
    struct world w;
    begin(&w, seed);
    prepare(&w, TROUBLE_POWER, 60 + seed % 100);
    live(&w, STEPS);
    end(&w, false);
    prepare(&w, trouble, at);
    bool hit = start(&w);
    finish(&w);
    return hit;
}

static void run_start(uint64_t seed)
{
    for (size_t t = 0; t < ARRAY_SIZE(TROUBLES); t++)
        for (uint64_t at = 1; fails_in_start(seed, TROUBLES[t], at); at++)
            ;
}

static void each_operation_of_a_start(void **state)
{
    each_seed(16, run_start);
}

/* ---- Syncs that lie ---- */

/* Batches with rising offsets, up to one that anybody can see is damaged: a sealed segment is not read again below the recovery point, where no crash has ever damaged one. */
static void check_sound(const struct world *w, struct one_log *l, struct plog *log)
{
    struct plog_slice slice;
    int64_t offset = plog_start_offset(log), next = 0;
    for (bool sound = true; sound && offset < plog_end_offset(log);) {
        struct buf bytes = {0};
        struct batch_iter it;
        const uint8_t *b;
        enum error error = plog_read(log, offset, INT64_MAX, 64 * 1024, true, &slice);
        if (error != OK && error != CORRUPT_MESSAGE && error != ERR_TRUNCATED && error != ERR_CORRUPT)
            wrong(w, l, "cannot be read: %s", error_name(error));
        if (error != OK || slice.segment == NULL)
            return;
        sound = plog_slice_copy(&slice, &bytes) == OK && slice.end_offset > offset;
        offset = slice.end_offset;
        plog_slice_release(&slice);
        batch_iter_init(&it, buf_bytes(&bytes));
        while (sound && batch_iter_next(&it, &b) == BATCH_FOUND && (sound = batch_verify_crc(b))) {
            if (batch_base_offset(b) < next || batch_last_offset(b) >= plog_end_offset(log))
                wrong(w, l, "has a batch at offset %" PRId64 " where it cannot be", batch_base_offset(b));
            next = batch_next_offset(b);
        }
        buf_fini(&bytes);
    }
}

/* The disk said that it had what it had not, and the power went: no promise can be kept then, but the directory opens, what a log shows is sound or shows that it is not, or the log stays
 * out of service and it is said that it is damaged and what can be done. */
static bool lies(uint64_t seed, uint64_t at)
{
    struct world w;
    struct problem problem = {0};
    begin(&w, seed);
    prepare(&w, TROUBLE_LIE, at);
    live(&w, STEPS);
    bool hit = failed(&w);
    w.trouble = TROUBLE_POWER;
    end_life(&w, true);
    w.doing = "start after a lie";
    enum error error = open_manager(&w, &problem);
    if (error != OK)
        wrong(&w, NULL, "cannot be opened: %s (%s)", problem.message, problem.detail);
    for (int i = 0; i < LOGS; i++) {
        struct one_log *l = &w.logs[i];
        struct plog *log = NULL;
        error = log_manager_get(w.manager, str_of(l->topic), l->index, &log);
        w.f.log = log;
        if (error == OK)
            check_sound(&w, l, log);
        else if (error == KAFKA_STORAGE_ERROR && strstr(buf_cstr(&w.events), "is damaged be") == NULL)
            wrong(&w, l, "is out of service, and nobody says why");
    }
    finish(&w);
    return hit;
}

static void run_lies(uint64_t seed)
{
    for (uint64_t at = 1; lies(seed, at); at++)
        ;
}

static void a_sync_that_lies_once_damages_nothing_silently(void **state)
{
    each_seed(16, run_lies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_of_a_life),
        cmocka_unit_test(each_operation_of_a_clean_end),
        cmocka_unit_test(each_operation_of_a_start),
        cmocka_unit_test(a_sync_that_lies_once_damages_nothing_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
