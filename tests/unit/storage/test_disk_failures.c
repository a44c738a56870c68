/* What power cuts and failing disks have shown once, each by itself. The random ones are in tests/disk. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "codec/record_batch.h"
#include "log_fixture.h"
#include "os/random.h"
#include "sim_disk.h"
#include "storage/log_manager.h"

struct world {
    struct seeded_random random;
    struct sim_disk disk;
    struct log_fixture f;
    struct log_manager *manager;
    bool foreign;
};

static void init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    seeded_random_init(&w->random, seed);
    sim_disk_init(&w->disk, &w->random.source);
    assert_int_equal(fs_mkdirs(&w->disk.fs, "/sim"), OK);
    log_fixture_init_on(&w->f, &w->disk.fs);
}

static void on_event(void *arg, const char *text)
{
    buf_printf(&((struct world *)arg)->f.events, "%s\n", text);
}

static enum error open_manager(struct world *w, struct problem *problem)
{
    struct log_manager_params params = {.fs = &w->disk.fs,
                                        .clock = &w->f.clock.clock,
                                        .random = &w->random.source,
                                        .dir = "/sim/a/logs",
                                        .cluster_id = OWN_CLUSTER,
                                        .node_id = 1,
                                        .foreign = w->foreign,
                                        .event = on_event,
                                        .arg = w};
    buf_clear(&w->f.events);
    return log_manager_open(&params, &w->manager, problem);
}

static void must_open(struct world *w)
{
    struct problem problem = {0};
    enum error error = open_manager(w, &problem);
    if (error != OK)
        fail_msg("%s (%s)", problem.message, problem.detail);
}

/* Opens, and the log "t-0" is there. */
static void must_find(struct world *w)
{
    must_open(w);
    assert_int_equal(log_manager_get(w->manager, STR("t"), 0, &w->f.log), OK);
}

static enum error create(struct world *w)
{
    struct uuid id = {{1}};
    enum error error = log_manager_create_log(w->manager, STR("t"), 0, id, &w->f.params.config, &w->f.log, NULL);
    return error == OK ? log_manager_settle(w->manager) : error;
}

static void end(struct world *w, bool clean, bool power)
{
    log_manager_close(w->manager, clean);
    w->manager = NULL;
    w->f.log = NULL;
    if (power)
        sim_disk_power_cut(&w->disk);
    else
        sim_disk_heal(&w->disk);
}

static void fini(struct world *w)
{
    end(w, false, false);
    log_fixture_fini(&w->f);
    sim_disk_fini(&w->disk);
}

static void the_directory_and_its_folders_have_durable_names(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        init(&w, seed);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 3);
        assert_int_equal(plog_flush_now(w.f.log), OK);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), 3);
        fini(&w);
    }
}

/* The folder was made, the process ended before its name was synced: who finds it must sync it. */
static void a_folder_that_is_found_is_made_durable_too(void **state)
{
    for (uint64_t k = 1; k <= 12; k++) {
        struct world w;
        init(&w, k);
        must_open(&w);
        sim_disk_fail(&w.disk, SIM_CHANGES, k, ERR_IO, true);
        enum error error = create(&w);
        (void)error;
        end(&w, false, false);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 3);
        assert_int_equal(plog_flush_now(w.f.log), OK);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), 3);
        fini(&w);
    }
}

static void a_clean_end_leaves_nothing_to_recover_after_a_power_cut(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        init(&w, seed);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 3);
        assert_int_equal(plog_take_snapshot(w.f.log), OK);
        end(&w, true, true);
        must_open(&w);
        assert_true(log_manager_was_clean(w.manager));
        assert_string_equal(buf_cstr(&w.f.events), "");
        assert_int_equal(log_manager_get(w.manager, STR("t"), 0, &w.f.log), OK);
        assert_int_equal(plog_end_offset(w.f.log), 3);
        fini(&w);
    }
}

/* A refused append may have reached the disk whole. When another took its offsets and the power goes, either that one is there or nothing is, never the refused one: somebody may
 * have read the other already, under the same leader epoch. */
static void a_refused_append_does_not_come_back_in_place_of_its_successor(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world w;
        struct plog_appended a;
        struct buf second = {0}, found = {0};
        init(&w, seed);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        sim_disk_fail(&w.disk, SIM_WRITE, 1, ERR_NO_SPACE, false);
        assert_int_equal(append(&w.f, &(struct batch_spec){.producer_id = 7, .records = 2, .value_bytes = 3}, &a), ERR_NO_SPACE);
        assert_int_equal(append(&w.f, &(struct batch_spec){.producer_id = 8, .records = 2, .value_bytes = 700}, &a), OK);
        read_all(&w.f, 0, &second);
        end(&w, false, true);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        if (plog_end_offset(w.f.log) > 0) {
            read_all(&w.f, 0, &found);
            assert_int_equal(found.len, second.len);
            assert_memory_equal(found.data, second.data, found.len);
        }
        buf_fini(&second);
        buf_fini(&found);
        fini(&w);
    }
}

/* From the log start on every offset is there: batches here have two records. */
static void assert_no_hole(struct log_fixture *f)
{
    struct buf has = {0}, expected = {0};
    describe_batches(f, plog_start_offset(f->log), &has);
    for (int64_t offset = plog_start_offset(f->log); offset < plog_end_offset(f->log); offset += 2)
        buf_printf(&expected, "%s%" PRId64, expected.len > 0 ? " " : "", offset / 2 * 2);
    assert_string_equal(buf_cstr(&has), buf_cstr(&expected));
    buf_fini(&has);
    buf_fini(&expected);
}

/* Segments that were dropped at the front: any of them may come back, with holes between, and each of their files by itself. */
static void what_comes_back_at_the_front_costs_nothing_behind_it(void **state)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world w;
        init(&w, seed);
        w.f.params.config.segment_bytes = 200;
        must_open(&w);
        assert_int_equal(create(&w), OK);
        assert_int_equal(plog_assign_epoch(w.f.log, 1), OK);
        for (int i = 0; i < 12; i++)
            append_plain(&w.f, 2);
        if (seed % 2 == 0)
            assert_int_equal(plog_flush_now(w.f.log), OK);
        if (seed % 4 == 0)
            assert_int_equal(log_manager_checkpoint(w.manager), OK); /* what comes back lies below the recovery point */
        commit_all(&w.f);
        assert_int_equal(plog_set_start_offset(w.f.log, 17), OK);
        append_plain(&w.f, 2);
        sim_disk_fail(&w.disk, SIM_SYNC_DIR, seed % 3, ERR_IO, true);
        if (plog_flush_now(w.f.log) != OK && seed % 2 != 0) {
            fini(&w);
            continue;
        }
        end(&w, false, true);
        must_find(&w);
        assert_true(plog_end_offset(w.f.log) >= 24);
        assert_no_hole(&w.f);
        fini(&w);
    }
}

/* Retention took every segment, and the one that took their place was not synced by anybody else: offsets are not given out a second time. */
static void a_log_that_was_emptied_goes_on_where_it_ended(void **state)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct world w;
        int removed;
        init(&w, seed);
        w.f.params.config.segment_bytes = seed % 2 == 0 ? 200 : 20000;
        w.f.params.config.retention_ms = 1000;
        must_open(&w);
        assert_int_equal(create(&w), OK);
        assert_int_equal(plog_assign_epoch(w.f.log, 1), OK);
        for (int i = 0; i < 6; i++)
            append_plain(&w.f, 2);
        if (seed % 3 != 0)
            assert_int_equal(plog_flush_now(w.f.log), OK);
        commit_all(&w.f);
        manual_clock_advance(&w.f.clock, 2000);
        assert_int_equal(plog_apply_retention(w.f.log, &removed), OK);
        assert_true(removed > 0);
        assert_int_equal(plog_start_offset(w.f.log), 12);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), 12);
        assert_int_equal(plog_latest_epoch(w.f.log), 1);
        assert_no_hole(&w.f);
        fini(&w);
    }
}

/* ---- Logs that were never flushed ---- */

static uint64_t syncs_of(struct world *w)
{
    uint64_t n = w->disk.operations;
    sim_disk_fail(&w->disk, SIM_SYNC | SIM_SYNC_DIR, 0, OK, false);
    return n;
}

static struct plog *create_one(struct world *w, int32_t partition, uint8_t id)
{
    struct uuid topic_id = {{id}};
    struct plog *log = NULL;
    assert_int_equal(log_manager_create_log(w->manager, STR("t"), partition, topic_id, &w->f.params.config, &log, NULL), OK);
    return log;
}

static void creating_logs_waits_for_the_disk_once_for_all(void **state)
{
    struct world w;
    struct plog *logs[20];
    init(&w, 1);
    must_open(&w);
    (void)syncs_of(&w);
    for (int i = 0; i < 20; i++) {
        logs[i] = create_one(&w, i, 1);
        assert_int_equal(plog_assign_epoch(logs[i], 3), OK);
    }
    assert_int_equal(syncs_of(&w), 0);
    assert_int_equal(log_manager_settle(w.manager), OK);
    assert_int_equal(syncs_of(&w), 6); /* three files and their names */
    for (int i = 0; i < 20; i++) {
        w.f.log = logs[i];
        append_plain(&w.f, 2);
        assert_int_equal(plog_flush_now(logs[i]), OK);
        assert_int_equal(syncs_of(&w),
                         4); /* topic id, epochs, the names in the folder, batches; the folder's own name is durable since */
        append_plain(&w.f, 2);
        assert_int_equal(plog_flush_now(logs[i]), OK);
        assert_int_equal(syncs_of(&w), 1);
    }
    fini(&w);
}

/* The checkpoints found no room, and with them the folder's name was not synced: the first flush does it. */
static void a_first_flush_makes_the_folders_name_durable(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct world w;
        init(&w, seed);
        must_open(&w);
        w.f.log = create_one(&w, 0, 1);
        sim_disk_fail(&w.disk, SIM_CREATE, 1, ERR_NO_SPACE, false);
        assert_int_equal(log_manager_settle(w.manager), ERR_NO_SPACE);
        append_plain(&w.f, 3);
        assert_int_equal(plog_flush_now(w.f.log), OK);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), 3);
        fini(&w);
    }
}

static void a_start_after_a_kill_waits_for_the_disk_once_for_all(void **state)
{
    struct world w;
    init(&w, 1);
    must_open(&w);
    for (int i = 0; i < 20; i++) {
        w.f.log = create_one(&w, i, 1);
        if (i % 2 == 0)
            append_plain(&w.f, 2);
        if (i % 4 == 0)
            assert_int_equal(plog_flush_now(w.f.log), OK);
    }
    assert_int_equal(log_manager_settle(w.manager), OK);
    end(&w, false, false);
    (void)syncs_of(&w);
    must_open(&w);
    assert_int_equal(syncs_of(&w), 6);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(log_manager_get(w.manager, STR("t"), i, &w.f.log), OK);
        assert_int_equal(plog_end_offset(w.f.log), i % 2 == 0 ? 2 : 0);
        assert_int_equal(plog_assign_epoch(w.f.log, 7), OK);
        assert_int_equal(plog_flush_now(w.f.log), OK);
    }
    end(&w, false, true);
    must_open(&w);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(log_manager_get(w.manager, STR("t"), i, &w.f.log), OK);
        assert_int_equal(plog_end_offset(w.f.log), i % 2 == 0 ? 2 : 0);
        assert_int_equal(plog_latest_epoch(w.f.log), 7);
    }
    fini(&w);
}

static void a_clean_end_of_logs_without_batches_waits_for_the_disk_once_for_all(void **state)
{
    struct world w;
    init(&w, 1);
    must_open(&w);
    for (int i = 0; i < 20; i++)
        (void)create_one(&w, i, 1);
    assert_int_equal(log_manager_settle(w.manager), OK);
    (void)syncs_of(&w);
    log_manager_close(w.manager, true);
    assert_int_equal(syncs_of(&w), 8); /* checkpoints, and the file that says that it was clean */
    sim_disk_power_cut(&w.disk);
    must_open(&w);
    assert_true(log_manager_was_clean(w.manager));
    for (int i = 0; i < 20; i++)
        assert_int_equal(plog_end_offset(create_one(&w, i, 1)), 0);
    fini(&w);
}

/* Whatever of it a power cut keeps: what is there is what was written first, under its topic id, and it can be made again and written to. */
static void what_is_left_of_a_log_that_was_never_flushed_is_its_front(void **state)
{
    int none = 0, some = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct world w;
        struct buf before = {0}, found = {0};
        init(&w, seed);
        w.f.params.config.segment_bytes = 200;
        must_open(&w);
        assert_int_equal(create(&w), OK);
        assert_int_equal(plog_assign_epoch(w.f.log, 1), OK);
        for (int i = 0; i < 6; i++)
            append_plain(&w.f, 2);
        read_all(&w.f, 0, &before);
        end(&w, false, true);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        struct uuid id = plog_topic_id(w.f.log);
        assert_int_equal(id.b[0], 1);
        int64_t end_offset = plog_end_offset(w.f.log);
        assert_int_equal(plog_start_offset(w.f.log), 0);
        none += end_offset == 0;
        some += end_offset > 0;
        read_all(&w.f, 0, &found);
        assert_true(found.len <= before.len);
        if (found.len > 0)
            assert_memory_equal(found.data, before.data, found.len);
        append_plain(&w.f, 2);
        assert_int_equal(plog_flush_now(w.f.log), OK);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), end_offset + 2);
        id = plog_topic_id(w.f.log);
        assert_int_equal(id.b[0], 1);
        buf_fini(&before);
        buf_fini(&found);
        fini(&w);
    }
    assert_true(none > 0 && some > 0);
}

/* The removal of a topic's folder failed, and its topic id went with the power: its records are not those of the next topic of that name. */
static void records_without_a_topic_id_are_nobodys(void **state)
{
    struct world w;
    char path[] = "/sim/a/logs/t-0/partition.metadata";
    struct file *file;
    for (int torn = 0; torn < 2; torn++) {
        init(&w, 1);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 2);
        end(&w, false, false);
        assert_int_equal(fs_unlink(&w.disk.fs, path), OK);
        if (torn) {
            assert_int_equal(fs_open(&w.disk.fs, path, FILE_WRITE | FILE_CREATE, &file), OK);
            file_close(file);
        }
        must_open(&w);
        assert_non_null(strstr(buf_cstr(&w.f.events), "t-0: nothing in it was ever durable"));
        assert_int_equal(log_manager_get(w.manager, STR("t"), 0, &w.f.log), ERR_NOT_FOUND);
        assert_int_equal(plog_end_offset(create_one(&w, 0, 2)), 0);
        fini(&w);
    }
}

static void durable_records_without_a_topic_id_are_kept(void **state)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct world w;
        struct problem problem = {0};
        init(&w, 1);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 2);
        if (!foreign)
            assert_int_equal(plog_flush_now(w.f.log), OK);
        assert_int_equal(log_manager_checkpoint(w.manager), OK);
        end(&w, false, false);
        assert_int_equal(fs_unlink(&w.disk.fs, "/sim/a/logs/t-0/partition.metadata"), OK);
        w.foreign = foreign != 0;
        assert_int_equal(open_manager(&w, &problem), OK);
        assert_int_equal(create(&w), OK);
        assert_int_equal(plog_end_offset(w.f.log), 2);
        fini(&w);
    }
}

static void a_flush_that_finds_no_room_is_tried_again(void **state)
{
    for (uint64_t k = 1; k <= 4; k++) { /* topic id, epochs: the new file's name, its content */
        struct world w;
        init(&w, k);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        struct buf batch = {0};
        make_copied(&w.f, &(struct batch_spec){.producer_id = NO_PID, .records = 2}, 0, 5,
                    &batch); /* an epoch that is in memory only */
        assert_int_equal(append_copied(&w.f, &batch), OK);
        buf_fini(&batch);
        sim_disk_fail(&w.disk, SIM_CREATE | SIM_WRITE, k, ERR_NO_SPACE, false);
        assert_int_equal(plog_flush_now(w.f.log), ERR_NO_SPACE);
        assert_false(plog_failed(w.f.log));
        assert_int_equal(plog_recovery_point(w.f.log), 0);
        assert_int_equal(plog_flush_now(w.f.log), OK);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), 2);
        assert_int_equal(plog_latest_epoch(w.f.log), 5);
        fini(&w);
    }
}

static void after_a_failed_sync_the_next_start_reads_the_medium(void **state)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world w;
        init(&w, seed);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 2);
        sim_disk_fail(&w.disk, SIM_SYNC, 1, ERR_IO, false);
        assert_int_equal(plog_flush_now(w.f.log), ERR_IO);
        assert_true(log_manager_failed(w.manager));
        end(&w, true, false); /* the process only */
        must_open(&w);
        assert_false(log_manager_was_clean(w.manager));
        assert_int_equal(log_manager_get(w.manager, STR("t"), 0, &w.f.log), OK);
        int64_t durable = plog_end_offset(w.f.log);
        assert_int_equal(plog_recovery_point(w.f.log), durable);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), durable);
        fini(&w);
    }
}

/* A start that could not open the log has read nothing of it: what a failed sync left in the page cache is still not to be believed. */
static void the_medium_is_read_however_many_starts_it_takes(void **state)
{
    int refused = 0;
    for (uint64_t k = 1; k <= 120; k++) {
        struct world w;
        init(&w, k);
        w.f.params.config.segment_bytes = 300;
        must_open(&w);
        assert_int_equal(create(&w), OK);
        for (int i = 0; i < 8; i++)
            append_plain(&w.f, 2);
        sim_disk_fail(&w.disk, SIM_SYNC, 1 + k % 8, ERR_IO, false);
        if (plog_flush_now(w.f.log) == OK) {
            fini(&w);
            continue;
        }
        end(&w, false, false);
        struct problem problem = {0};
        sim_disk_fail(&w.disk, SIM_ANY, 20 + k, ERR_IO, false);
        enum error error = open_manager(&w, &problem);
        refused += error == OK && log_manager_get(w.manager, STR("t"), 0, &w.f.log) == KAFKA_STORAGE_ERROR;
        if (error != OK)
            w.manager = NULL;
        end(&w, false, false);
        must_find(&w);
        int64_t durable = plog_end_offset(w.f.log);
        end(&w, false, true);
        must_find(&w);
        assert_int_equal(plog_end_offset(w.f.log), durable);
        assert_no_hole(&w.f);
        fini(&w);
    }
    assert_true(refused > 0);
}

/* The mark of a failed sync stays until every log was read from the medium, and is not overlooked when the disk cannot say whether it is there. */
static void a_failed_sync_is_not_forgotten_by_a_start_that_cannot_read(void **state)
{
    int looked = 0, closed = 0;
    for (uint64_t k = 1; k <= 40; k++) {
        struct world w;
        struct problem problem = {0};
        init(&w, 1);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 2);
        sim_disk_fail(&w.disk, SIM_SYNC, 1, ERR_IO, false);
        assert_int_equal(plog_flush_now(w.f.log), ERR_IO);
        end(&w, false, false);
        assert_true(fs_exists(&w.disk.fs, "/sim/a/logs/.kagami-sync-failed"));
        sim_disk_fail(&w.disk, SIM_READ, k, ERR_IO, false);
        enum error error = open_manager(&w, &problem);
        sim_disk_heal(&w.disk);
        struct plog *log;
        bool open = error == OK && log_manager_get(w.manager, STR("t"), 0, &log) == OK;
        looked += strstr(w.disk.failed_path, "sync-failed") != NULL;
        closed += error == OK && !open;
        if (error != OK)
            w.manager = NULL;
        if (error == OK)
            assert_int_equal(fs_exists(&w.disk.fs, "/sim/a/logs/.kagami-sync-failed"), !open);
        fini(&w);
    }
    assert_true(looked > 0 && closed > 0);
}

static void a_checkpoint_that_cannot_be_read_now_stops_the_start(void **state)
{
    struct world w;
    struct problem problem = {0};
    int refused = 0;
    init(&w, 1);
    must_open(&w);
    assert_int_equal(create(&w), OK);
    append_plain(&w.f, 2);
    end(&w, false, false);
    for (uint64_t k = 1; k < 30; k++) {
        sim_disk_fail(&w.disk, SIM_READ, k, ERR_IO, false);
        enum error error = open_manager(&w, &problem);
        if (strstr(w.disk.failed_path, "checkpoint") != NULL && strstr(w.disk.failed_path, "offset-checkpoint") != NULL) {
            assert_int_equal(error, ERR_IO);
            assert_non_null(strstr(problem.message, "checkpoint"));
            refused++;
        }
        if (error != OK)
            w.manager = NULL;
        end(&w, false, false);
        memset(w.disk.failed_path, 0, sizeof(w.disk.failed_path));
    }
    assert_true(refused >= 3);
    must_find(&w);
    fini(&w);
}

static void a_clean_end_that_cannot_be_read_was_none(void **state)
{
    int asked = 0;
    for (uint64_t k = 1; k < 40; k++) {
        struct world w;
        struct problem problem = {0};
        init(&w, 1);
        must_open(&w);
        end(&w, true, false);
        sim_disk_fail(&w.disk, SIM_READ, k, ERR_IO, false);
        enum error error = open_manager(&w, &problem);
        if (strstr(w.disk.failed_path, "cleanshutdown") != NULL) {
            asked++;
            assert_true(error != OK || !log_manager_was_clean(w.manager));
        }
        if (error != OK)
            w.manager = NULL;
        fini(&w);
    }
    assert_true(asked > 0);
}

static void a_disk_that_fails_under_the_directorys_own_files_takes_it_out_of_service(void **state)
{
    struct world w;
    struct plog *log;
    init(&w, 1);
    must_open(&w);
    assert_int_equal(create(&w), OK);
    sim_disk_fail(&w.disk, SIM_SYNC, 1, ERR_IO, false);
    assert_int_equal(log_manager_checkpoint(w.manager), ERR_IO);
    assert_true(log_manager_failed(w.manager));
    assert_int_equal(log_manager_get(w.manager, STR("t"), 0, &log), KAFKA_STORAGE_ERROR);
    fini(&w);
}

/* A process cut an index and was killed, the next one recovers the segment and finds nothing to change: the old entries must not come back with a later power cut,
 * when nobody looks at the segment any more. */
static void an_index_that_a_killed_process_cut_stays_cut(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        struct log_fixture *f = &w.f;
        struct file *index;
        struct buf all = {0};
        uint8_t wrong[8];
        init(&w, seed);
        log_fixture_open(f);
        append_plain(f, 1);
        append_plain(f, 1); /* too little for an index entry */
        assert_int_equal(plog_roll(f->log), OK);
        append_plain(f, 1);
        assert_int_equal(plog_flush_now(f->log), OK);
        log_fixture_crash(f);

        char path[300];
        snprintf(path, sizeof(path), "%s/00000000000000000000.index", f->params.dir);
        put_i32(wrong, 1);
        put_i32(wrong + 4, 5); /* in the middle of a batch */
        assert_int_equal(fs_open(&w.disk.fs, path, FILE_WRITE, &index), OK);
        assert_int_equal(file_pwrite(index, wrong, sizeof(wrong), 0), OK);
        assert_int_equal(file_sync(index), OK);
        assert_int_equal(file_truncate(index, 0), OK);
        file_close(index);

        log_fixture_open(f); /* from the first byte */
        assert_int_equal(plog_flush_now(f->log), OK);
        f->checkpointed = plog_recovery_point(f->log);
        assert_int_equal(f->checkpointed, 3);
        log_fixture_crash(f);
        sim_disk_power_cut(&w.disk);
        log_fixture_open(f);
        read_all(f, 0, &all);
        buf_fini(&all);
        log_fixture_close(f);
        log_fixture_fini(f);
        sim_disk_fini(&w.disk);
    }
}

/* Nobody has looked for its torn tail. */
static void append_at(struct log_fixture *f, int64_t timestamp, int count)
{
    struct batch_spec spec = {
        .producer_id = NO_PID, .producer_epoch = -1, .base_sequence = -1, .records = 1, .timestamp = timestamp};
    struct plog_appended a;
    for (int i = 0; i < count; i++)
        assert_int_equal(append(f, &spec, &a), OK);
}

/* A process was killed in the midst of a truncation, and the medium has the old tail yet: it must not come back behind what is written after the start. */
static void a_tail_that_a_killed_process_cut_does_not_come_back_behind_its_successors(void **state)
{
    int survived = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world w;
        struct log_fixture *f = &w.f;
        struct file *file;
        struct buf all = {0};
        struct batch_iter it;
        const uint8_t *batch;
        char path[300];
        bool fresh = false;
        init(&w, seed);
        log_fixture_open(f);
        append_at(f, 1000, 6);
        assert_int_equal(plog_flush_now(f->log), OK);
        uint64_t half = plog_size_bytes(f->log) / 2;
        log_fixture_crash(f);
        f->checkpointed = 3; /* lowered before the cut */
        snprintf(path, sizeof(path), "%s/00000000000000000000.log", f->params.dir);
        assert_int_equal(fs_open(&w.disk.fs, path, FILE_WRITE, &file), OK);
        assert_int_equal(file_truncate(file, half), OK);
        file_close(file);

        log_fixture_open(f);
        assert_int_equal(plog_end_offset(f->log), 3);
        append_at(f, 2000, 2);
        log_fixture_crash(f);
        sim_disk_power_cut(&w.disk);
        log_fixture_open(f);
        assert_true(plog_end_offset(f->log) >= 3);
        read_all(f, 0, &all);
        batch_iter_init(&it, buf_bytes(&all));
        while (batch_iter_next(&it, &batch) == BATCH_FOUND) {
            fresh = fresh || batch_base_timestamp(batch) == 2000;
            assert_true(!fresh || batch_base_timestamp(batch) == 2000);
        }
        survived += fresh;
        buf_fini(&all);
        log_fixture_close(f);
        log_fixture_fini(f);
        sim_disk_fini(&w.disk);
    }
    assert_true(survived > 0);
}

static void a_log_that_could_not_be_opened_makes_no_end_clean(void **state)
{
    int refused = 0;
    for (uint64_t k = 1; k < 80; k++) {
        struct world w;
        init(&w, k);
        must_open(&w);
        assert_int_equal(create(&w), OK);
        append_plain(&w.f, 3);
        end(&w, false, false);
        struct problem problem = {0};
        sim_disk_fail(&w.disk, SIM_ANY, k, ERR_IO, false);
        enum error error = open_manager(&w, &problem);
        bool out = error == OK && log_manager_get(w.manager, STR("t"), 0, &w.f.log) == KAFKA_STORAGE_ERROR;
        if (error != OK)
            w.manager = NULL;
        end(&w, true, false);
        must_open(&w);
        if (out) {
            refused++;
            assert_false(log_manager_was_clean(w.manager));
        }
        fini(&w);
    }
    assert_true(refused > 0);
}

/* The disk was full when the segment was sealed, and what was to be in the index went from the log before there was room. */
static void an_index_write_that_failed_leaves_nothing_behind(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world w;
        struct log_fixture *f = &w.f;
        init(&w, seed);
        f->params.config.index_interval_bytes = 0;
        log_fixture_open(f);
        for (int i = 0; i < 6; i++)
            append_plain(f, 1);
        sim_disk_fail(&w.disk, SIM_WRITE, 1 + seed % 2, ERR_NO_SPACE, false);
        assert_int_equal(plog_roll(f->log), ERR_NO_SPACE);
        assert_non_null(strstr(w.disk.failed_path, "index"));
        assert_int_equal(plog_truncate_to(f->log, 2), OK);
        log_fixture_close(f);
        buf_clear(&f->events);
        log_fixture_open(f);
        assert_string_equal(buf_cstr(&f->events), "");
        assert_int_equal(plog_end_offset(f->log), 2);
        log_fixture_fini(f);
        sim_disk_fini(&w.disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_directory_and_its_folders_have_durable_names),
        cmocka_unit_test(a_folder_that_is_found_is_made_durable_too),
        cmocka_unit_test(a_clean_end_leaves_nothing_to_recover_after_a_power_cut),
        cmocka_unit_test(a_refused_append_does_not_come_back_in_place_of_its_successor),
        cmocka_unit_test(what_comes_back_at_the_front_costs_nothing_behind_it),
        cmocka_unit_test(a_log_that_was_emptied_goes_on_where_it_ended),
        cmocka_unit_test(an_index_that_a_killed_process_cut_stays_cut),
        cmocka_unit_test(a_tail_that_a_killed_process_cut_does_not_come_back_behind_its_successors),
        cmocka_unit_test(creating_logs_waits_for_the_disk_once_for_all),
        cmocka_unit_test(a_first_flush_makes_the_folders_name_durable),
        cmocka_unit_test(a_start_after_a_kill_waits_for_the_disk_once_for_all),
        cmocka_unit_test(a_clean_end_of_logs_without_batches_waits_for_the_disk_once_for_all),
        cmocka_unit_test(what_is_left_of_a_log_that_was_never_flushed_is_its_front),
        cmocka_unit_test(records_without_a_topic_id_are_nobodys),
        cmocka_unit_test(durable_records_without_a_topic_id_are_kept),
        cmocka_unit_test(a_flush_that_finds_no_room_is_tried_again),
        cmocka_unit_test(after_a_failed_sync_the_next_start_reads_the_medium),
        cmocka_unit_test(the_medium_is_read_however_many_starts_it_takes),
        cmocka_unit_test(an_index_write_that_failed_leaves_nothing_behind),
        cmocka_unit_test(a_log_that_could_not_be_opened_makes_no_end_clean),
        cmocka_unit_test(a_failed_sync_is_not_forgotten_by_a_start_that_cannot_read),
        cmocka_unit_test(a_checkpoint_that_cannot_be_read_now_stops_the_start),
        cmocka_unit_test(a_clean_end_that_cannot_be_read_was_none),
        cmocka_unit_test(a_disk_that_fails_under_the_directorys_own_files_takes_it_out_of_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
