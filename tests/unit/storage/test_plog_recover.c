/* Opening what a crash, a careless hand or another program left. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "log_fixture.h"

#define SEGMENT_0 "00000000000000000000"

static char *path_of(struct log_fixture *f, const char *name, char out[300])
{
    snprintf(out, 300, "%s/%s", f->dir, name);
    return out;
}

static off_t size_of(struct log_fixture *f, const char *name)
{
    char path[300];
    struct stat st;
    assert_int_equal(stat(path_of(f, name, path), &st), 0);
    return st.st_size;
}

static void cut_file(struct log_fixture *f, const char *name, off_t size)
{
    char path[300];
    assert_int_equal(truncate(path_of(f, name, path), size), 0);
}

static void overwrite(struct log_fixture *f, const char *name, off_t pos, const void *data, size_t len)
{
    char path[300];
    FILE *file = fopen(path_of(f, name, path), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, pos, SEEK_SET), 0);
    assert_int_equal(fwrite(data, 1, len, file), len);
    fclose(file);
}

static void create_file(struct log_fixture *f, const char *name, const void *data, size_t len)
{
    char path[300];
    FILE *file = fopen(path_of(f, name, path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    fclose(file);
}

static void assert_batches(struct log_fixture *f, const char *expected)
{
    struct buf text = {0};
    describe_batches(f, plog_start_offset(f->log), &text);
    assert_string_equal(buf_cstr(&text), expected);
    buf_fini(&text);
}

/* ---- Torn tails ---- */

static void torn_tail_at_every_byte(void **state)
{
    struct log_fixture *f = *state;
    append_from(f, 7, 0, 0, 3);
    off_t keep = (off_t)plog_size_bytes(f->log);
    append_from(f, 7, 0, 3, 2);
    off_t whole = (off_t)plog_size_bytes(f->log);
    log_fixture_crash(f);
    char saved[200];
    snprintf(saved, sizeof(saved), "%s/saved", f->root);
    log_fixture_copy_dir(f->dir, saved);
    for (off_t size = keep; size < whole; size++) {
        log_fixture_copy_dir(saved, f->dir);
        cut_file(f, SEGMENT_0 ".log", size);
        log_fixture_open(f);
        assert_int_equal(plog_end_offset(f->log), 3);
        assert_int_equal(size_of(f, SEGMENT_0 ".log"), keep);
        assert_int_equal(append_from(f, 7, 0, 3, 2), 3); /* the producer's state is that of the log */
        log_fixture_crash(f);
    }
    log_fixture_open(f);
}

static void garbage_behind_the_last_batch(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    off_t keep = (off_t)plog_size_bytes(f->log);
    log_fixture_crash(f);
    uint8_t zeroes[5000] = {0};
    overwrite(f, SEGMENT_0 ".log", keep, zeroes,
              sizeof(zeroes)); /* what a power cut leaves of a file whose size was written first */
    log_fixture_open(f);
    assert_batches(f, "0");
    assert_int_equal(size_of(f, SEGMENT_0 ".log"), keep);
    assert_events_have(f, "5000 bytes cut off");
}

static void bad_crc_in_the_middle_cuts_there(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    off_t first = (off_t)plog_size_bytes(f->log);
    append_plain(f, 3);
    append_plain(f, 3);
    log_fixture_crash(f);
    overwrite(f, SEGMENT_0 ".log", first + 80, "x", 1);
    log_fixture_open(f);
    assert_batches(f, "0");
    assert_int_equal(append_plain(f, 1), 3);
}

static void a_cut_takes_the_segments_behind_it(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 3);
    off_t one = (off_t)plog_size_bytes(f->log) / 2;
    append_plain(f, 1);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 3);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 3);
    log_fixture_crash(f);
    overwrite(f, "00000000000000000003.log", one + 70, "xyz", 3);
    log_fixture_open(f);
    assert_batches(f, "0 3");
    assert_int_equal(plog_end_offset(f->log), 6);
    assert_int_equal(plog_segment_count(f->log), 2);
    append_plain(f, 2);
    log_fixture_crash(f);
    log_fixture_open(f);
    assert_batches(f, "0 3 6");
}

static void damage_below_the_recovery_point_is_not_cut(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    append_plain(f, 3);
    log_fixture_crash(f);
    f->params.recovery_point = 6;
    overwrite(f, SEGMENT_0 ".log", 80, "x", 1);
    off_t size = size_of(f, SEGMENT_0 ".log");
    struct problem problem;
    assert_int_equal(log_fixture_try_open(f, &problem), ERR_CORRUPT);
    assert_non_null(strstr(problem.message, SEGMENT_0 ".log"));
    assert_true(problem.hint[0] != '\0');
    assert_int_equal(size_of(f, SEGMENT_0 ".log"), size);
    f->params.recovery_point = 0; /* what the hint says */
    log_fixture_open(f);
    assert_int_equal(plog_end_offset(f->log), 0);
}

static void recovery_begins_at_the_recovery_point(void **state)
{
    struct log_fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        append_plain(f, 3);
        assert_int_equal(plog_roll(f->log), OK);
    }
    append_plain(f, 3);
    log_fixture_crash(f);
    f->params.recovery_point = 10;
    buf_clear(&f->events);
    log_fixture_open(f);
    assert_null(strstr(buf_cstr(&f->events), "segment 6 "));
    assert_events_have(f, "segment 9 recovered");
    assert_events_have(f, "segment 12 recovered");
    /* Exactly at a segment's end: it may have been sealed after the flush. */
    log_fixture_crash(f);
    f->params.recovery_point = 9;
    buf_clear(&f->events);
    log_fixture_open(f);
    assert_null(strstr(buf_cstr(&f->events), "segment 3 "));
    assert_events_have(f, "segment 6 recovered");
}

/* ---- Every file in turn ---- */

static void fill_rich_log(struct log_fixture *f)
{
    for (int i = 0; i < 30; i++) {
        append_from(f, 7, 0, i * 3, 3);
        append_txn(f, 8, 0, i * 2, 2);
        append_end_txn(f, 8, 0, i % 3 == 0);
        append_plain(f, 1);
        if (i % 10 == 9) {
            assert_int_equal(plog_assign_epoch(f->log, i), OK);
            assert_int_equal(plog_roll(f->log), OK);
        }
    }
    append_txn(f, 8, 0, 60, 2);
    append_end_txn(f, 8, 0, false);
    commit_all(f);
}

static void describe_everything(struct log_fixture *f, struct buf *out)
{
    struct arena arena;
    struct plog_slice whole = {.end_offset = plog_end_offset(f->log)};
    struct plog_aborted *aborted;
    int count;
    buf_clear(out);
    read_all(f, plog_start_offset(f->log), out);
    describe_producers(f, out);
    arena_init(&arena, 1000000);
    assert_int_equal(plog_aborted_for(f->log, 0, &whole, &arena, &aborted, &count), OK);
    for (int i = 0; i < count; i++)
        buf_printf(out, "%lld@%lld ", (long long)aborted[i].producer_id, (long long)aborted[i].first_offset);
    arena_fini(&arena);
    for (int64_t offset = 0; offset < plog_end_offset(f->log); offset += 7)
        buf_printf(out, "%d ", plog_epoch_of_offset(f->log, offset));
    for (int64_t t = f->clock.now_ms; t < f->clock.now_ms + 3; t++) {
        struct plog_time_offset found;
        assert_int_equal(plog_offset_for_time(f->log, t, INT64_MAX, &found), OK);
        buf_printf(out, "t%lld:%lld ", (long long)t, (long long)found.offset);
    }
    buf_printf(out, "leo %lld start %lld", (long long)plog_end_offset(f->log), (long long)plog_start_offset(f->log));
}

static int list_files(const char *dir, char names[][64], int max)
{
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        assert_true(count < max);
        assert_true(strlen(e->d_name) < 64);
        memcpy(names[count++], e->d_name, strlen(e->d_name) + 1);
    }
    closedir(d);
    return count;
}

enum damage { REMOVE, EMPTY, HALVE, RUBBISH, FLIP };

static void damage_file(struct log_fixture *f, const char *name, enum damage how)
{
    off_t size = size_of(f, name);
    uint8_t rubbish[97];
    memset(rubbish, 0xa5, sizeof(rubbish));
    if (how == REMOVE)
        log_fixture_remove_file(f, name);
    else if (how == EMPTY)
        cut_file(f, name, 0);
    else if (how == HALVE)
        cut_file(f, name, size / 2 | 1);
    else if (how == RUBBISH)
        create_file(f, name, rubbish, sizeof(rubbish));
    else if (size > 0)
        overwrite(f, name, size / 2, "\xff\xff\xff\xff", 4);
}

/* Whatever happens to a file that is not a .log, everything is as it was after an unclean end, and after a clean one where Kafka's checks see it too. */
static void every_file_damaged_in_turn(void **state)
{
    struct log_fixture *f = *state;
    struct buf before = {0}, after = {0};
    char saved[200], names[64][64];
    fill_rich_log(f);
    describe_everything(f, &before);
    log_fixture_close(f);
    snprintf(saved, sizeof(saved), "%s/saved", f->root);
    log_fixture_copy_dir(f->dir, saved);
    int count = list_files(saved, names, 64);
    assert_true(count > 12);
    for (int i = 0; i < count; i++) {
        if (strstr(names[i], ".log") != NULL)
            continue;
        for (int how = REMOVE; how <= FLIP; how++) {
            for (int clean = 0; clean <= 1; clean++) {
                bool sees = how == REMOVE || strstr(names[i], "index") == NULL;
                if (clean && (!sees || (how != REMOVE && strcmp(names[i], "leader-epoch-checkpoint") == 0)))
                    continue;
                if (clean && strstr(names[i], ".txnindex") != NULL)
                    continue; /* one that is not there is an empty one */
                log_fixture_copy_dir(saved, f->dir);
                damage_file(f, names[i], (enum damage)how);
                f->params.clean_shutdown = clean != 0;
                f->params.recovery_point = 0;
                log_fixture_open(f);
                describe_everything(f, &after);
                if (before.len != after.len || memcmp(before.data, after.data, before.len) != 0)
                    fail_msg("%s damaged (%d, clean %d): the log is another", names[i], how, clean);
                (void)plog_close(f->log, false);
                f->log = NULL;
            }
        }
    }
    log_fixture_copy_dir(saved, f->dir);
    log_fixture_open(f);
    buf_fini(&before);
    buf_fini(&after);
}

/* A .log that is gone or damaged costs its records, never the process. */
static void every_log_damaged_in_turn(void **state)
{
    struct log_fixture *f = *state;
    char saved[200], names[64][64];
    fill_rich_log(f);
    log_fixture_crash(f);
    snprintf(saved, sizeof(saved), "%s/saved", f->root);
    log_fixture_copy_dir(f->dir, saved);
    int count = list_files(saved, names, 64);
    for (int i = 0; i < count; i++) {
        if (strstr(names[i], ".log") == NULL)
            continue;
        for (int how = REMOVE; how <= FLIP; how++) {
            log_fixture_copy_dir(saved, f->dir);
            damage_file(f, names[i], (enum damage)how);
            struct problem problem;
            assert_int_equal(log_fixture_try_open(f, &problem), OK);
            struct buf all = {0};
            read_all(f, plog_start_offset(f->log), &all);
            buf_fini(&all);
            append_plain(f, 1);
            (void)plog_close(f->log, false);
            f->log = NULL;
        }
    }
    log_fixture_copy_dir(saved, f->dir);
    log_fixture_open(f);
}

/* ---- Leftovers ---- */

static void leftovers_go(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    log_fixture_crash(f);
    const char *const names[] = {SEGMENT_0 ".log.deleted",        SEGMENT_0 ".log.cleaned",
                                 SEGMENT_0 ".index.cleaned",      "leader-epoch-checkpoint.tmp",
                                 "00000000000000000099.index",    "00000000000000000099.timeindex",
                                 "00000000000000000099.snapshot", "00000000000000000007.index.swap"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        create_file(f, names[i], "something", 9);
    create_file(f, "README", "mine", 4);
    log_fixture_open(f);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_false(log_fixture_has_file(f, names[i]));
    assert_true(log_fixture_has_file(f, "README"));
    assert_batches(f, "0");
}

/* What Kafka's cleaner leaves when a crash comes between its result and the removal of what it replaces. */
static void swap_takes_the_place_of_its_segments(void **state)
{
    struct log_fixture *f = *state;
    struct buf batches = {0};
    append_plain(f, 3);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 3);
    assert_int_equal(plog_roll(f->log), OK);
    append_plain(f, 3);
    read_all(f, 0, &batches);
    log_fixture_crash(f);
    /* The cleaned segment keeps the batches at 0 and 3 in one file. */
    size_t two = batches.len / 3 * 2;
    create_file(f, SEGMENT_0 ".log.swap", batches.data, two);
    create_file(f, SEGMENT_0 ".index.swap", "", 0);
    create_file(f, SEGMENT_0 ".timeindex.swap", "", 0);
    log_fixture_open(f);
    assert_batches(f, "0 3 6");
    assert_int_equal(plog_segment_count(f->log), 2);
    assert_int_equal(size_of(f, SEGMENT_0 ".log"), two);
    assert_false(log_fixture_has_file(f, SEGMENT_0 ".log.swap"));
    assert_false(log_fixture_has_file(f, "00000000000000000003.log"));
    /* With a .cleaned of the same or a lower offset the set was not complete. */
    log_fixture_crash(f);
    create_file(f, SEGMENT_0 ".log.swap", batches.data, two / 2);
    create_file(f, SEGMENT_0 ".log.cleaned", batches.data, two / 2);
    log_fixture_open(f);
    assert_batches(f, "0 3 6");
    buf_fini(&batches);
}

/* ---- The rest of the state ---- */

static void log_start_behind_the_end_begins_anew(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    log_fixture_crash(f);
    f->params.log_start_offset = 50;
    f->params.high_watermark = 70;
    log_fixture_open(f);
    assert_int_equal(plog_start_offset(f->log), 50);
    assert_int_equal(plog_end_offset(f->log), 50);
    assert_int_equal(plog_high_watermark(f->log), 50);
    assert_int_equal(append_plain(f, 1), 50);
}

static void checkpoints_are_held_to_the_log(void **state)
{
    struct log_fixture *f = *state;
    append_plain(f, 3);
    log_fixture_crash(f);
    f->params.high_watermark = 1000;
    f->params.recovery_point = 1000;
    log_fixture_open(f);
    assert_int_equal(plog_high_watermark(f->log), 3);
    assert_int_equal(plog_recovery_point(f->log), 3);
}

static void epochs_follow_the_batches(void **state)
{
    struct log_fixture *f = *state;
    int32_t epoch;
    int64_t end;
    assert_int_equal(plog_assign_epoch(f->log, 2), OK);
    append_plain(f, 3);
    assert_int_equal(plog_assign_epoch(f->log, 5), OK);
    append_plain(f, 3);
    assert_int_equal(plog_assign_epoch(f->log, 9), OK); /* without a batch */
    assert_int_equal(plog_flush_now(f->log), OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(plog_latest_epoch(f->log), 9);
        plog_end_offset_for_epoch(f->log, 2, &epoch, &end);
        assert_int_equal(epoch, 2);
        assert_int_equal(end, 3);
        plog_end_offset_for_epoch(f->log, 7, &epoch, &end);
        assert_int_equal(epoch, 5);
        assert_int_equal(end, 6);
        assert_int_equal(plog_epoch_of_offset(f->log, 3), 5);
        assert_int_equal(plog_last_batch_epoch(f->log), 5);
        if (i == 0)
            log_fixture_crash(f);
        else
            log_fixture_close(f);
        log_fixture_open(f);
    }
}

/* A mirror raises the leader epoch above its source's, then copies batches of the source's epoch: the history is the source's. */
static void copied_epochs_replace_one_that_was_assigned_ahead(void **state)
{
    struct log_fixture *f = *state;
    struct buf batch = {0};
    make_copied(f, &(struct batch_spec){.producer_id = -1, .base_sequence = -1, .records = 3}, 0, 4, &batch);
    assert_int_equal(append_copied(f, &batch), OK);
    assert_int_equal(plog_assign_epoch(f->log, 15), OK);
    buf_clear(&batch);
    make_copied(f, &(struct batch_spec){.producer_id = -1, .base_sequence = -1, .records = 3}, 3, 4, &batch);
    make_copied(f, &(struct batch_spec){.producer_id = -1, .base_sequence = -1, .records = 3}, 6, 5, &batch);
    assert_int_equal(append_copied(f, &batch), OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(plog_latest_epoch(f->log), 5);
        assert_int_equal(plog_epoch_of_offset(f->log, 3), 4);
        assert_int_equal(plog_epoch_of_offset(f->log, 5), 4);
        assert_int_equal(plog_epoch_of_offset(f->log, 6), 5);
        log_fixture_crash(f); /* the file still has epoch 15 at offset 3 */
        log_fixture_open(f);
    }
    buf_fini(&batch);
}

static void topic_id_is_kept_and_compared(void **state)
{
    struct log_fixture *f = *state;
    struct uuid id = {{1, 2, 3}}, other = {{9}};
    struct problem problem;
    assert_int_equal(plog_set_topic_id(f->log, id), OK);
    log_fixture_crash(f);
    log_fixture_open(f);
    struct uuid found = plog_topic_id(f->log);
    assert_true(uuid_eq(&found, &id));
    assert_int_equal(plog_set_topic_id(f->log, other), INCONSISTENT_TOPIC_ID);
    log_fixture_crash(f);
    f->params.topic_id = other;
    assert_int_equal(log_fixture_try_open(f, &problem), INCONSISTENT_TOPIC_ID);
    f->params.topic_id = id;
    log_fixture_open(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, log_fixture_setup, log_fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(torn_tail_at_every_byte),
        TEST(garbage_behind_the_last_batch),
        TEST(bad_crc_in_the_middle_cuts_there),
        TEST(a_cut_takes_the_segments_behind_it),
        TEST(damage_below_the_recovery_point_is_not_cut),
        TEST(recovery_begins_at_the_recovery_point),
        TEST(every_file_damaged_in_turn),
        TEST(every_log_damaged_in_turn),
        TEST(leftovers_go),
        TEST(swap_takes_the_place_of_its_segments),
        TEST(log_start_behind_the_end_begins_anew),
        TEST(checkpoints_are_held_to_the_log),
        TEST(epochs_follow_the_batches),
        TEST(copied_epochs_replace_one_that_was_assigned_ahead),
        TEST(topic_id_is_kept_and_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
