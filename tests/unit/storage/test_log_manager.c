#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "log_fixture.h"
#include "storage/checkpoint.h"
#include "storage/log_manager.h"

struct dir_fixture {
    char dir[64];
    struct manual_clock clock;
    struct helpers *helpers;
    struct log_manager_params params;
    struct log_manager *m;
    struct buf events;
    int failures;
    struct mutex event_mutex;
};

static void on_event(void *arg, const char *text)
{
    struct dir_fixture *f = arg;
    mutex_lock(&f->event_mutex);
    buf_printf(&f->events, "%s\n", text);
    mutex_unlock(&f->event_mutex);
}

static void on_failed(void *arg, const char *dir, const char *text)
{
    struct dir_fixture *f = arg;
    f->failures++;
}

static void open_dir(struct dir_fixture *f)
{
    struct problem problem;
    if (log_manager_open(&f->params, &f->m, &problem) != OK)
        fail_msg("%s", problem.message);
}

static void close_dir(struct dir_fixture *f, bool clean)
{
    log_manager_close(f->m, clean);
    f->m = NULL;
}

static int setup(void **state)
{
    static struct dir_fixture f;
    memset(&f, 0, sizeof(f));
    strcpy(f.dir, "/tmp/kagami-logs-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    manual_clock_init(&f.clock, INT64_C(1760000000000));
    mutex_init(&f.event_mutex);
    assert_int_equal(helpers_start(2, &f.helpers), OK);
    f.params = (struct log_manager_params){.fs = fs_system(),
                                           .clock = &f.clock.clock,
                                           .random = random_system(),
                                           .helpers = f.helpers,
                                           .dir = f.dir,
                                           .cluster_id = OWN_CLUSTER,
                                           .node_id = 1,
                                           .event = on_event,
                                           .failed = on_failed,
                                           .arg = &f};
    open_dir(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct dir_fixture *f = *state;
    close_dir(f, false);
    helpers_stop(f->helpers);
    buf_fini(&f->events);
    mutex_fini(&f->event_mutex);
    return fs_remove_tree(fs_system(), f->dir) == OK ? 0 : 1;
}

static struct uuid topic_id(uint8_t n)
{
    struct uuid id = UUID_ZERO;
    id.b[15] = n;
    return id;
}

static struct plog *create(struct dir_fixture *f, const char *topic, int partition, uint8_t id)
{
    struct plog_config config = plog_config_default();
    struct plog *log = NULL;
    struct problem problem;
    if (log_manager_create_log(f->m, str_of(topic), partition, topic_id(id), &config, &log, &problem) != OK)
        fail_msg("%s", problem.message);
    return log;
}

static void write_records(struct dir_fixture *f, struct plog *log, int n)
{
    struct log_fixture x = {.clock = f->clock, .log = log};
    x.params.config.validate = validate_config_default();
    append_plain(&x, n);
}

static struct plog *get(struct dir_fixture *f, const char *topic, int partition)
{
    struct plog *log = NULL;
    assert_int_equal(log_manager_get(f->m, str_of(topic), partition, &log), OK);
    return log;
}

static bool exists(struct dir_fixture *f, const char *name)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    return access(path, F_OK) == 0;
}

static void second_manager_is_locked_out(void **state)
{
    struct dir_fixture *f = *state;
    struct log_manager *second;
    struct problem problem;
    assert_int_equal(log_manager_open(&f->params, &second, &problem), ERR_LOCKED);
    assert_non_null(strstr(problem.message, f->dir));
}

static void another_cluster_or_node_is_refused_by_name(void **state)
{
    struct dir_fixture *f = *state;
    struct problem problem;
    close_dir(f, true);
    f->params.cluster_id = "somebody-else";
    assert_int_equal(log_manager_open(&f->params, &f->m, &problem), INCONSISTENT_CLUSTER_ID);
    assert_non_null(strstr(problem.message, "somebody-else"));
    assert_non_null(strstr(problem.message, OWN_CLUSTER));
    f->params.cluster_id = OWN_CLUSTER;
    f->params.node_id = 2;
    assert_int_equal(log_manager_open(&f->params, &f->m, &problem), ERR_CONFLICT);
    assert_non_null(strstr(problem.message, "node 1"));
    assert_non_null(strstr(problem.message, "node 2"));
    f->params.node_id = 1;
    open_dir(f);
}

static void a_newer_version_is_refused(void **state)
{
    struct dir_fixture *f = *state;
    struct problem problem;
    char path[200];
    close_dir(f, true);
    snprintf(path, sizeof(path), "%s/meta.properties", f->dir);
    assert_int_equal(fs_write_atomic(fs_system(), path, "version=2\ncluster.id=x\nnode.id=1\n", 33), OK);
    assert_int_equal(log_manager_open(&f->params, &f->m, &problem), ERR_UNSUPPORTED);
    assert_non_null(strstr(problem.message, "version 2"));
    assert_int_equal(unlink(path), 0);
    open_dir(f);
}

static void identity_is_kept(void **state)
{
    struct dir_fixture *f = *state;
    char cluster[64];
    int32_t node;
    struct problem problem;
    struct uuid id = *log_manager_directory_id(f->m);
    assert_false(uuid_is_zero(&id));
    assert_int_equal(log_manager_read_identity(fs_system(), f->dir, cluster, &node, &problem), OK);
    assert_string_equal(cluster, OWN_CLUSTER);
    assert_int_equal(node, 1);
    close_dir(f, true);
    f->params.cluster_id = "";
    open_dir(f);
    assert_string_equal(log_manager_cluster_id(f->m), OWN_CLUSTER);
    assert_true(uuid_eq(&id, log_manager_directory_id(f->m)));
}

static void logs_come_back_after_a_clean_end(void **state)
{
    struct dir_fixture *f = *state;
    for (int i = 0; i < 40; i++)
        write_records(f, create(f, "orders", i, 1), i + 1);
    plog_set_high_watermark(get(f, "orders", 7), 5);
    close_dir(f, true);
    assert_true(exists(f, ".kafka_cleanshutdown"));
    buf_clear(&f->events);
    open_dir(f);
    assert_false(exists(f, ".kafka_cleanshutdown"));
    assert_true(log_manager_was_clean(f->m));
    assert_int_equal(f->events.len, 0);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(plog_end_offset(get(f, "orders", i)), i + 1);
        assert_int_equal(plog_recovery_point(get(f, "orders", i)), i + 1);
    }
    assert_int_equal(plog_high_watermark(get(f, "orders", 7)), 5);
}

static void logs_come_back_after_a_crash(void **state)
{
    struct dir_fixture *f = *state;
    write_records(f, create(f, "orders", 0, 1), 3);
    write_records(f, create(f, "orders.eu-west", 12, 2), 4);
    close_dir(f, false);
    open_dir(f);
    assert_false(log_manager_was_clean(f->m));
    assert_int_equal(plog_end_offset(get(f, "orders", 0)), 3);
    assert_int_equal(plog_end_offset(get(f, "orders.eu-west", 12)), 4);
}

static void another_topic_id_is_refused(void **state)
{
    struct dir_fixture *f = *state;
    struct plog_config config = plog_config_default();
    struct plog *log;
    struct problem problem;
    assert_ptr_equal(create(f, "orders", 0, 1), create(f, "orders", 0, 1));
    assert_int_equal(log_manager_create_log(f->m, STR("orders"), 0, topic_id(2), &config, &log, &problem), INCONSISTENT_TOPIC_ID);
    assert_non_null(strstr(problem.message, "orders-0"));
}

static enum error count_deleted(void *arg, const char *name, bool is_dir)
{
    if (strstr(name, "-delete") != NULL)
        ++*(int *)arg;
    return OK;
}

static void a_deleted_log_goes_after_its_delay(void **state)
{
    struct dir_fixture *f = *state;
    struct plog *log;
    int count = 0;
    write_records(f, create(f, "orders", 0, 1), 300);
    assert_int_equal(log_manager_checkpoint(f->m), OK);
    assert_int_equal(log_manager_delete_log(f->m, STR("orders"), 0), OK);
    assert_int_equal(log_manager_get(f->m, STR("orders"), 0, &log), ERR_NOT_FOUND);
    assert_int_equal(log_manager_delete_log(f->m, STR("orders"), 0), ERR_NOT_FOUND);
    assert_false(exists(f, "orders-0"));
    log_manager_remove_deleted(f->m);
    assert_int_equal(fs_list(fs_system(), f->dir, count_deleted, &count), OK);
    assert_int_equal(count, 1);
    manual_clock_advance(&f->clock, 60001);
    log_manager_remove_deleted(f->m);
    count = 0;
    assert_int_equal(fs_list(fs_system(), f->dir, count_deleted, &count), OK);
    assert_int_equal(count, 0);
}

/* The checkpoints of the deleted log would put the new one's start far behind its end. */
static void a_new_log_of_a_deleted_name_survives_a_crash(void **state)
{
    struct dir_fixture *f = *state;
    struct plog *log = create(f, "orders", 0, 1);
    write_records(f, log, 300);
    plog_set_high_watermark(log, 300);
    assert_int_equal(plog_set_start_offset(log, 200), OK);
    assert_int_equal(plog_flush_now(log), OK);
    assert_int_equal(log_manager_checkpoint(f->m), OK);
    assert_int_equal(log_manager_delete_log(f->m, STR("orders"), 0), OK);
    write_records(f, create(f, "orders", 0, 2), 5);
    close_dir(f, false);
    open_dir(f);
    assert_int_equal(plog_end_offset(get(f, "orders", 0)), 5);
    assert_int_equal(plog_start_offset(get(f, "orders", 0)), 0);
}

static bool has_line(struct dir_fixture *f, const char *line)
{
    static const char *const names[] = {"recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"};
    int found = 0;
    for (int i = 0; i < 3; i++) {
        char path[200];
        struct buf text = {0};
        snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
        if (fs_read_file(fs_system(), path, 1 << 20, &text) == OK && strstr(buf_cstr(&text), line) != NULL)
            found++;
        buf_fini(&text);
    }
    assert_true(found == 0 || found == 3);
    return found == 3;
}

static void settling_writes_the_lines_of_many_logs_at_once(void **state)
{
    struct dir_fixture *f = *state;
    create(f, "orders", 0, 1);
    create(f, "orders", 1, 1);
    assert_false(has_line(f, "orders 0 0\n")); /* not one write a log */
    assert_int_equal(log_manager_settle(f->m), OK);
    assert_true(has_line(f, "orders 0 0\n") && has_line(f, "orders 1 0\n"));
    assert_int_equal(log_manager_delete_log(f->m, STR("orders"), 0), OK);
    create(f, "other", 0, 2); /* a new log waits for the lines of deleted ones to go */
    assert_false(has_line(f, "orders 0 0\n"));
    assert_int_equal(log_manager_settle(f->m), OK);
    assert_true(has_line(f, "other 0 0\n") && has_line(f, "orders 1 0\n"));
}

static void leftovers_of_deletion_go_at_start_and_strangers_stay(void **state)
{
    struct dir_fixture *f = *state;
    close_dir(f, true);
    char path[200];
    const char *const names[] = {"orders-0.0123456789abcdef0123456789abcdef-delete", "lost+found", "__cluster_metadata-0",
                                 "notes-07"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
        assert_int_equal(fs_mkdir(fs_system(), path), OK);
    }
    open_dir(f);
    log_manager_remove_deleted(f->m);
    assert_false(exists(f, names[0]));
    for (int i = 1; i < 4; i++)
        assert_true(exists(f, names[i]));
}

static void a_log_that_cannot_be_opened_stops_no_other(void **state)
{
    struct dir_fixture *f = *state;
    struct plog *log;
    write_records(f, create(f, "good", 0, 1), 2);
    write_records(f, create(f, "bad", 0, 2), 2);
    close_dir(f, true);
    char path[200];
    snprintf(path, sizeof(path), "%s/bad-0/00000000000000000000.log", f->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    open_dir(f);
    assert_int_equal(plog_end_offset(get(f, "good", 0)), 2);
    if (log_manager_get(f->m, STR("bad"), 0, &log) != KAFKA_STORAGE_ERROR)
        assert_int_equal(plog_end_offset(log), 0); /* a folder is no .log: an empty log is right too */
}

static void a_failed_directory_answers_so_and_tells_once(void **state)
{
    struct dir_fixture *f = *state;
    struct plog *log = create(f, "orders", 0, 1), *again;
    log_manager_fail(f->m, "test");
    log_manager_fail(f->m, "test");
    assert_int_equal(f->failures, 1);
    assert_true(plog_failed(log));
    assert_int_equal(log_manager_get(f->m, STR("orders"), 0, &again), KAFKA_STORAGE_ERROR);
    assert_int_equal(log_manager_checkpoint(f->m), KAFKA_STORAGE_ERROR);
    assert_int_equal(plog_flush_now(log), KAFKA_STORAGE_ERROR);
}

static void damaged_checkpoints_lose_nothing(void **state)
{
    struct dir_fixture *f = *state;
    const char *const files[] = {RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT};
    write_records(f, create(f, "orders", 0, 1), 3);
    for (int i = 0; i < 3; i++) {
        char path[200];
        close_dir(f, true);
        snprintf(path, sizeof(path), "%s/%s", f->dir, files[i]);
        assert_int_equal(fs_write_atomic(fs_system(), path, "0\nrubbish\n", 10), OK);
        open_dir(f);
        assert_int_equal(plog_end_offset(get(f, "orders", 0)), 3);
        assert_int_equal(plog_start_offset(get(f, "orders", 0)), 0);
    }
}

static void background_work_visits_adopted_logs(void **state)
{
    struct dir_fixture *f = *state;
    struct plog *log = create(f, "orders", 0, 1);
    struct plog_config config = plog_config_default();
    struct mutex lock;
    mutex_init(&lock);
    config.segment_bytes = 200;
    config.retention_bytes = 1000;
    plog_set_config(log, &config);
    for (int i = 0; i < 50; i++)
        write_records(f, log, 5);
    plog_set_high_watermark(log, plog_end_offset(log));
    assert_true(plog_wants_flush(log));
    log_manager_retention(f->m);
    assert_int_equal(plog_start_offset(log), 0); /* nobody adopted it */
    log_manager_adopt(f->m, log, &lock);
    assert_int_equal(log_manager_checkpoint(f->m), OK);
    assert_false(plog_wants_flush(log));
    assert_true(plog_recovery_point(log) > 0);
    log_manager_retention(f->m);
    assert_true(plog_start_offset(log) > 0);
    assert_true(plog_size_bytes(log) < 1400);
    log_manager_release(f->m, log);
    mutex_fini(&lock);
}

static void add_info(void *arg, const struct log_info *info)
{
    buf_printf(arg, "%.*s-%d %d ", STR_ARG(info->topic), info->partition, info->log != NULL && info->size_bytes > 0);
}

static void each_lists_what_stands(void **state)
{
    struct dir_fixture *f = *state;
    struct buf text = {0};
    write_records(f, create(f, "orders", 3, 1), 1);
    log_manager_each(f->m, add_info, &text);
    assert_string_equal(buf_cstr(&text), "orders-3 1 ");
    buf_fini(&text);
    uint64_t total, usable;
    assert_int_equal(log_manager_space(f->m, &total, &usable), OK);
    assert_true(total >= usable && usable > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(second_manager_is_locked_out),
        TEST(another_cluster_or_node_is_refused_by_name),
        TEST(a_newer_version_is_refused),
        TEST(identity_is_kept),
        TEST(logs_come_back_after_a_clean_end),
        TEST(logs_come_back_after_a_crash),
        TEST(another_topic_id_is_refused),
        TEST(a_deleted_log_goes_after_its_delay),
        TEST(a_new_log_of_a_deleted_name_survives_a_crash),
        TEST(settling_writes_the_lines_of_many_logs_at_once),
        TEST(leftovers_of_deletion_go_at_start_and_strangers_stay),
        TEST(a_log_that_cannot_be_opened_stops_no_other),
        TEST(a_failed_directory_answers_so_and_tells_once),
        TEST(damaged_checkpoints_lose_nothing),
        TEST(background_work_visits_adopted_logs),
        TEST(each_lists_what_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
