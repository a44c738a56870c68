/* High watermark, group commit, who may append, watches. The gate holds fdatasync back, so that "not yet durable" is a state a test can look at. */
#include "base/assert.h"
#include "partition_fixture.h"
#include "unit.h"

static int setup(void **state)
{
    struct partition_fixture *f = mem_alloc(sizeof(*f));
    partition_fixture_init(f, true);
    *state = f;
    return 0;
}

static int setup_page_cache(void **state)
{
    struct partition_fixture *f = mem_alloc(sizeof(*f));
    partition_fixture_init(f, false);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    partition_fixture_fini(*state);
    mem_free(*state);
    return 0;
}

static void acks_all_is_invisible_until_durable(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 3, &w, &base));
    assert_int_equal(base, 0);
    assert_true(w.stands);
    gate_await_entered(&f->gate, 1);
    assert_int_equal(high_watermark(f), 0);
    gate_open(&f->gate);
    await_done(&w);
    assert_error(w.result, OK);
    assert_int_equal(high_watermark(f), 3);
}

static void acks_one_is_visible_when_written(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, 1, 2, &w, &base));
    assert_false(w.stands);
    assert_int_equal(high_watermark(f), 2);
    assert_int_equal(gate_entered(&f->gate), 0);
}

static void acks_one_behind_acks_all_waits_for_it(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting before, all, behind;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, 1, 1, &before, &base));
    assert_ok(write_records(f, -1, 1, &all, &base));
    assert_ok(write_records(f, 1, 1, &behind, &base));
    assert_int_equal(high_watermark(f), 1);
    gate_open(&f->gate);
    await_done(&all);
    assert_int_equal(high_watermark(f), 3);
}

/* Everyone who came while a flush ran is released by the next one: two flushes for any number of writers. */
static void writers_share_a_flush(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w[20];
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 1, &w[0], &base));
    gate_await_entered(&f->gate, 1);
    for (int i = 1; i < 20; i++)
        assert_ok(write_records(f, -1, 1, &w[i], &base));
    assert_int_equal(gate_entered(&f->gate), 1);
    gate_open(&f->gate);
    for (int i = 0; i < 20; i++)
        await_done(&w[i]);
    assert_int_equal(gate_entered(&f->gate), 2);
    assert_int_equal(high_watermark(f), 20);
}

/* What was written while the first flush ran is not durable when that ends. */
static void a_flush_releases_only_what_it_began_with(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting first, second;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 1, &first, &base));
    gate_await_entered(&f->gate, 1);
    assert_ok(write_records(f, -1, 1, &second, &base));
    gate_let_pass(&f->gate, 1);
    await_done(&first);
    assert_error(first.result, OK);
    gate_await_entered(&f->gate, 2);
    assert_false(second.done);
    assert_int_equal(high_watermark(f), 1);
    gate_open(&f->gate);
    await_done(&second);
    assert_int_equal(high_watermark(f), 2);
}

static void page_cache_rule_needs_no_flush(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 4, &w, &base));
    assert_false(w.stands);
    assert_int_equal(high_watermark(f), 4);
    assert_int_equal(gate_entered(&f->gate), 0);
}

static void a_failed_flush_answers_and_fails_the_log(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w, later;
    int64_t base;
    struct partition_state s;
    gate_fail(&f->gate);
    assert_ok(write_records(f, -1, 1, &w, &base));
    await_done(&w);
    assert_error(w.result, KAFKA_STORAGE_ERROR);
    assert_error(write_records(f, 1, 1, &later, &base), KAFKA_STORAGE_ERROR);
    partition_get_state(f->p, &s);
    assert_error(s.error, KAFKA_STORAGE_ERROR);
    assert_int_equal(s.high_watermark, 0);
    helpers_stop(f->helpers); /* whoever told has ended */
    f->helpers = NULL;
    assert_int_equal(f->storage_failures, 1);
}

static void a_duplicate_that_is_not_durable_waits(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting first, again;
    int64_t base, base_again;
    gate_close(&f->gate);
    assert_ok(write_sequence(f, 1, 77, 0, &first, &base));
    assert_ok(write_sequence(f, -1, 77, 0, &again, &base_again));
    assert_int_equal(base_again, base);
    assert_true(again.stands);
    assert_int_equal(high_watermark(f), 1); /* it was visible, and stays so */
    gate_open(&f->gate);
    await_done(&again);
    assert_error(again.result, OK);
}

static void a_waiter_can_be_taken_back(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 1, &w, &base));
    assert_true(partition_waiter_remove(f->p, &w.waiter));
    assert_false(partition_waiter_remove(f->p, &w.waiter));
    gate_open(&f->gate);
    assert_ok(partition_flush(f->p));
    loop_step(f->loop, 0);
    assert_false(w.done);
}

static void closing_answers_who_waits(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting first, second;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 1, &first, &base));
    gate_await_entered(&f->gate, 1);
    assert_ok(write_records(f, -1, 1, &second, &base));
    gate_open(&f->gate);
    partition_close(f->p, UNKNOWN_TOPIC_OR_PARTITION);
    await_done(&first);
    await_done(&second);
    assert_true(second.result == OK || second.result == UNKNOWN_TOPIC_OR_PARTITION);
    assert_error(write_records(f, 1, 1, &second, &base), UNKNOWN_TOPIC_OR_PARTITION);
}

/* ---- Who may append ---- */

static void mirrored(struct partition_fixture *f)
{
    struct problem refusal = {0};
    problem_set(&refusal, POLICY_VIOLATION, "topic is mirrored by m, kagami mirror stop m makes it writable");
    partition_set_origin(f->p, APPEND_MIRROR, &refusal);
}

static void a_mirror_partition_refuses_clients(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    struct problem problem = {0};
    int64_t base;
    mirrored(f);
    assert_error(write_records(f, 1, 1, &w, &base), POLICY_VIOLATION);
    assert_error(partition_check_writable(f->p, &problem), POLICY_VIOLATION);
    assert_string_equal(problem.message, "topic is mirrored by m, kagami mirror stop m makes it writable");
    assert_error(partition_delete_records(f->p, 0, &base, &problem), POLICY_VIOLATION);
    partition_set_origin(f->p, APPEND_CLIENT, NULL);
    assert_ok(write_records(f, 1, 1, &w, &base));
}

static void copied_batches_keep_their_place(void **state)
{
    struct partition_fixture *f = *state;
    struct plog_appended appended;
    struct problem problem = {0};
    struct buf batch = {0};
    make_copied(f, 10, 2, 5, &batch);
    assert_error(partition_append_copied(f->p, buf_bytes(&batch), -1, &appended, &problem), ERR_STATE);
    mirrored(f);
    assert_error(partition_append_copied(f->p, buf_bytes(&batch), 2, &appended, &problem), FENCED_LEADER_EPOCH);
    assert_ok(partition_append_copied(f->p, buf_bytes(&batch), 3, &appended, &problem));
    assert_int_equal(appended.base_offset, 10);
    assert_int_equal(high_watermark(f), 15);
    buf_fini(&batch);
}

/* Epoch invariant: the partition's leader epoch is never below one in its log. */
static void a_copied_batch_of_a_higher_epoch_needs_it_raised_first(void **state)
{
    struct partition_fixture *f = *state;
    struct plog_appended appended;
    struct problem problem = {0};
    struct buf batch = {0};
    mirrored(f);
    make_copied(f, 0, 9, 1, &batch);
    assert_error(partition_append_copied(f->p, buf_bytes(&batch), -1, &appended, &problem), ERR_STATE);
    assert_ok(partition_set_leader_epoch(f->p, 19));
    assert_ok(partition_append_copied(f->p, buf_bytes(&batch), -1, &appended, &problem));
    assert_error(partition_set_leader_epoch(f->p, 18), ERR_STATE);
    buf_fini(&batch);
}

static void a_barrier_is_invisible_until_durable(void **state)
{
    struct partition_fixture *f = *state;
    struct plog_appended appended;
    struct waiting w;
    enum error error = OK;
    int expired;
    gate_close(&f->gate);
    waiting_init(&w, f);
    assert_ok(partition_append_barrier(f->p, STR("source"), 0, &appended, &expired));
    assert_int_equal(high_watermark(f), 0);
    assert_true(partition_wait_durable(f->p, appended.last_offset + 1, &w.waiter, &error));
    gate_open(&f->gate);
    await_done(&w);
    assert_int_equal(high_watermark(f), 1);
    assert_false(partition_wait_durable(f->p, 1, &w.waiter, &error));
    assert_error(error, OK);
}

static void truncation_ends_who_waits_for_what_is_gone(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting kept, gone;
    int64_t base;
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 1, &kept, &base));
    assert_ok(write_records(f, -1, 1, &gone, &base));
    gate_await_entered(&f->gate, 1);
    gate_open(&f->gate);
    mirrored(f);
    assert_ok(partition_truncate_to(f->p, 1));
    await_done(&kept);
    await_done(&gone);
    assert_error(kept.result, OK);
    assert_true(gone.result == NOT_LEADER_OR_FOLLOWER || gone.result == OK); /* OK when it was durable before */
    assert_int_equal(high_watermark(f), 1);
}

/* ---- Watches ---- */

struct watcher {
    struct partition_watch watch;
    int calls, changes;
    int64_t bytes;
};

static struct partition_wake *note(struct partition_watch *watch, int changes, int64_t visible_bytes)
{
    struct watcher *w = CONTAINER_OF(watch, struct watcher, watch);
    w->calls++;
    w->changes |= changes;
    w->bytes += visible_bytes;
    return NULL;
}

/* A walk of tests/model in its shortest form: everything was shown, as if the truncation had made it durable. */
static void a_truncation_of_nothing_shows_nothing(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    int64_t base;
    struct problem refusal;
    problem_set(&refusal, POLICY_VIOLATION, "mirrored");
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 2, &w, &base));
    partition_set_origin(f->p, APPEND_MIRROR, &refusal);
    assert_ok(partition_truncate_to(f->p, 2));
    assert_int_equal(high_watermark(f), 0);
    gate_open(&f->gate);
    await_done(&w);
    assert_error(w.result, OK);
    assert_int_equal(high_watermark(f), 2);
}

static void a_watch_hears_of_visible_bytes(void **state)
{
    struct partition_fixture *f = *state;
    struct watcher w = {.watch = {.changed = note}};
    struct waiting waiting;
    int64_t base;
    struct partition_state s;
    assert_true(partition_watch_add(f->p, &w.watch, 0, 0));
    gate_close(&f->gate);
    assert_ok(write_records(f, -1, 1, &waiting, &base));
    assert_int_equal(w.bytes, 0);
    gate_open(&f->gate);
    await_done(&waiting);
    partition_get_state(f->p, &s);
    assert_int_equal(w.bytes, (int64_t)s.size_bytes);
    assert_int_equal(w.changes, PARTITION_CHANGED_HW | PARTITION_CHANGED_LSO);
    partition_watch_remove(f->p, &w.watch);
    int calls = w.calls;
    assert_ok(write_records(f, 1, 1, &waiting, &base));
    assert_int_equal(w.calls, calls);
}

static void a_watch_that_is_too_late_does_not_stand(void **state)
{
    struct partition_fixture *f = *state;
    struct watcher w = {.watch = {.changed = note}};
    struct waiting waiting;
    int64_t base;
    assert_ok(write_records(f, 1, 1, &waiting, &base));
    assert_false(partition_watch_add(f->p, &w.watch, 0, 0));
    assert_true(partition_watch_add(f->p, &w.watch, 1, 1));
    assert_ok(partition_set_leader_epoch(f->p, 4));
    assert_int_equal(w.changes, PARTITION_CHANGED_STATE);
    partition_watch_remove(f->p, &w.watch);
}

/* ---- Reading ---- */

static void reads_check_epochs_and_bounds(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    struct partition_read read;
    int64_t base;
    assert_ok(write_records(f, 1, 2, &w, &base));
    static const struct {
        struct partition_read_params params;
        enum error error;
        bool data;
    } CASES[] = {
        {{.offset = 0, .max_bytes = 1000, .current_epoch = -1, .last_fetched_epoch = -1}, OK, true},
        {{.offset = 0, .max_bytes = 1000, .current_epoch = 3, .last_fetched_epoch = -1}, OK, true},
        {{.offset = 0, .max_bytes = 1000, .current_epoch = 2, .last_fetched_epoch = -1}, FENCED_LEADER_EPOCH, false},
        {{.offset = 0, .max_bytes = 1000, .current_epoch = 4, .last_fetched_epoch = -1}, UNKNOWN_LEADER_EPOCH, false},
        {{.offset = 2, .max_bytes = 1000, .current_epoch = -1, .last_fetched_epoch = -1}, OK, false},
        {{.offset = 3, .max_bytes = 1000, .current_epoch = -1, .last_fetched_epoch = -1}, OFFSET_OUT_OF_RANGE, false},
        {{.offset = -1, .max_bytes = 1000, .current_epoch = -1, .last_fetched_epoch = -1}, OFFSET_OUT_OF_RANGE, false},
        {{.offset = 0, .max_bytes = 1, .current_epoch = -1, .last_fetched_epoch = -1}, OK, false},
        {{.offset = 0, .max_bytes = 1, .min_one = true, .current_epoch = -1, .last_fetched_epoch = -1}, OK, true},
        {{.offset = 2, .max_bytes = 1000, .current_epoch = -1, .last_fetched_epoch = 9}, OFFSET_OUT_OF_RANGE, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        enum error error = partition_read(f->p, &CASES[i].params, &f->arena, &read);
        assert_error(error, CASES[i].error);
        assert_int_equal(read.slice.segment != NULL, CASES[i].data);
        assert_int_equal(read.high_watermark, error == OK ? 2 : -1);
        assert_int_equal(read.log_start_offset, error == OK ? 0 : -1);
        plog_slice_release(&read.slice);
    }
}

/* The right epoch beyond its end: no error, but where the histories part (facts 31). */
static void a_diverging_fetch_is_told_where(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    struct partition_read read;
    int64_t base;
    assert_ok(write_records(f, 1, 2, &w, &base));
    assert_ok(partition_set_leader_epoch(f->p, 5));
    assert_ok(write_records(f, 1, 2, &w, &base));
    struct partition_read_params params = {.offset = 3, .max_bytes = 1000, .current_epoch = -1, .last_fetched_epoch = 3};
    assert_ok(partition_read(f->p, &params, &f->arena, &read));
    assert_int_equal(read.diverging_epoch, 3);
    assert_int_equal(read.diverging_end_offset, 2);
    assert_null(read.slice.segment);
}

static void special_offsets(void **state)
{
    struct partition_fixture *f = *state;
    struct waiting w;
    int64_t base;
    assert_ok(write_records(f, 1, 4, &w, &base));
    static const struct {
        int64_t timestamp;
        int64_t offset;
        int32_t epoch;
    } CASES[] = {{LIST_LATEST, 4, 3},
                 {LIST_EARLIEST, 0, 3},
                 {LIST_EARLIEST_LOCAL, 0, 3},
                 {LIST_MAX_TIMESTAMP, 0, 3},
                 {LIST_LATEST_TIERED, -1, -1},
                 {LIST_EARLIEST_PENDING_UPLOAD, -1, -1},
                 {INT64_C(1760000000000), 0, 3},
                 {INT64_C(1760000000001), -1, -1}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct plog_time_offset found;
        assert_ok(partition_list_offset(f->p, CASES[i].timestamp, false, -1, &found));
        assert_int_equal(found.offset, CASES[i].offset);
        assert_int_equal(found.leader_epoch, CASES[i].epoch);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(acks_all_is_invisible_until_durable),
        TEST(acks_one_is_visible_when_written),
        TEST(acks_one_behind_acks_all_waits_for_it),
        TEST(writers_share_a_flush),
        TEST(a_flush_releases_only_what_it_began_with),
        cmocka_unit_test_setup_teardown(page_cache_rule_needs_no_flush, setup_page_cache, teardown),
        TEST(a_failed_flush_answers_and_fails_the_log),
        TEST(a_duplicate_that_is_not_durable_waits),
        TEST(a_waiter_can_be_taken_back),
        TEST(closing_answers_who_waits),
        TEST(a_mirror_partition_refuses_clients),
        TEST(copied_batches_keep_their_place),
        TEST(a_copied_batch_of_a_higher_epoch_needs_it_raised_first),
        TEST(a_barrier_is_invisible_until_durable),
        TEST(truncation_ends_who_waits_for_what_is_gone),
        TEST(a_truncation_of_nothing_shows_nothing),
        TEST(a_watch_hears_of_visible_bytes),
        TEST(a_watch_that_is_too_late_does_not_stand),
        TEST(reads_check_epochs_and_bounds),
        TEST(a_diverging_fetch_is_told_where),
        TEST(special_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
