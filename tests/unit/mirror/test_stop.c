/* The stop sequence over real partitions, broken off after each of its steps and taken up again after an unclean end. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hooks.h"
#include "codec/control.h"
#include "one_source.h"

#define COPIED_END 9 /* of partition 0: plain 3, pid 7: 2, open of 9: 2, open of 11: 1, plain 1 */

/* Two partitions; the first has two open transactions, an idempotent producer, and data behind the transactions. */
static struct fake_topic *mirrored(void)
{
    struct fake_topic *t = fake_topic_add(&source, "orders", 2);
    fake_append_plain(&source, t, 0, 3, 2);
    fake_append(&source, t, 0, &(struct fake_batch){.producer_id = 7, .records = 2, .leader_epoch = 2});
    fake_append(
        &source, t, 0,
        &(struct fake_batch){.producer_id = 9, .producer_epoch = 4, .transactional = true, .records = 2, .leader_epoch = 3});
    fake_append(
        &source, t, 0,
        &(struct fake_batch){.producer_id = 11, .producer_epoch = 1, .transactional = true, .records = 1, .leader_epoch = 3});
    fake_append_plain(&source, t, 0, 1, 3);
    fake_append_plain(&source, t, 1, 4, 2);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
    fixture_await_end(&f, "orders", 0, COPIED_END);
    fixture_await_end(&f, "orders", 1, 4);
    return t;
}

struct seen {
    int aborts[2]; /* of 9 and 11 */
    int barriers, others;
    int32_t last_epoch;
    bool barrier_last;
};

/* What the stop wrote behind the copied end. */
static struct seen look_behind(int partition, int64_t end)
{
    struct buf bytes = {0};
    struct batch_iter it;
    const uint8_t *b;
    struct seen s = {.last_epoch = -1};
    fixture_read(&f, "orders", partition, &bytes);
    batch_iter_init(&it, buf_bytes(&bytes));
    while (batch_iter_next(&it, &b) == BATCH_FOUND) {
        struct control_record c;
        if (batch_base_offset(b) < end)
            continue;
        assert_true(batch_leader_epoch(b) >= s.last_epoch);
        s.last_epoch = batch_leader_epoch(b);
        s.barrier_last = false;
        if (!batch_is_control(b)) {
            s.others++;
            continue;
        }
        assert_ok(control_parse(b, &c));
        if (c.type == CONTROL_ABORT) {
            assert_int_equal(batch_producer_epoch(b), batch_producer_id(b) == 9 ? 4 : 1);
            s.aborts[batch_producer_id(b) == 11]++;
        } else if (c.type == CONTROL_MIRROR_PID_RESET) {
            assert_true(str_is(c.source_cluster_id, "source-cluster"));
            assert_true(str_is(c.writer_cluster_id, f.cluster_id));
            s.barriers++;
            s.barrier_last = true;
        } else {
            s.others++;
        }
    }
    buf_fini(&bytes);
    return s;
}

static void assert_stopped(int64_t extra, bool seen_durable)
{
    struct partition_state state;
    struct problem problem;
    for (int i = 0; i < 2; i++) {
        int64_t end = i == 0 ? COPIED_END : 4;
        fixture_await_state(&f, "orders", i, "STOPPED");
        struct seen s = look_behind(i, end);
        assert_int_equal(s.aborts[0], i == 0 ? 1 : 0);
        assert_int_equal(s.aborts[1], i == 0 ? 1 : 0);
        assert_int_equal(s.barriers, 1);
        assert_int_equal(s.others, 0);
        assert_true(s.barrier_last && s.last_epoch > 3);
        struct partition *p = fixture_partition(&f, "orders", i);
        partition_get_state(p, &state);
        assert_int_equal(state.end_offset, end + (i == 0 ? 3 : 1) + extra);
        assert_int_equal(state.last_stable_offset, state.high_watermark);
        assert_int_equal(state.high_watermark, state.end_offset);
        if (seen_durable) /* by this process; what one before it flushed is known by the checkpoints alone */
            assert_true(state.durable_offset == state.end_offset);
        assert_true(state.leader_epoch >= s.last_epoch);
        struct plog *log = partition_lock(p);
        assert_int_equal(producer_state_count(plog_producers(log)), 0);
        partition_unlock(p);
        partition_unref(p);
        const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", i);
        assert_int_equal(d->last_mirror_offset, end);
        assert_int_equal(d->last_mirror_epoch, i == 0 ? 3 : 2);
        assert_non_null(d->stop_report);
        assert_int_equal(d->stop_report->source_high_watermark, end);
    }
    assert_true(controller_producer_id_floor(f.controller) > 11);
    for (int waited = 0; waited < 500 && fixture_write(&f, "orders", 0, &problem) != OK; waited++)
        usleep(10000);
    assert_ok(fixture_write(&f, "orders", 0, &problem));
}

static void a_stop_ends_transactions_expires_producers_and_opens_the_topic(void **state)
{
    (void)state;
    mirrored();
    struct stop_mirror_topics_response *r = fixture_stop_topic(&f, "dr", "orders");
    assert_error(r->error_code, OK);
    assert_error(r->topics[0].error_code, OK);
    assert_int_equal(r->topics[0].partitions_n, 2);
    assert_int_equal(r->topics[0].partitions[0].aborted_transactions, 2);
    assert_int_equal(r->topics[0].partitions[0].expired_producers, 3);
    assert_int_equal(r->topics[0].partitions[0].last_mirror_offset, COPIED_END);
    assert_int_equal(r->topics[0].partitions[0].barrier_offset, COPIED_END + 2);
    assert_int_equal(r->topics[0].partitions[0].records_lost_estimate, 0);
    assert_stopped(0, true);
    r = fixture_stop_topic(&f, "dr", "orders"); /* again: the report of then, and nothing is written */
    assert_error(r->topics[0].error_code, OK);
    assert_int_equal(r->topics[0].partitions[0].aborted_transactions, 2);
    assert_int_equal(r->topics[0].partitions[0].log_end_offset, COPIED_END + 3);
    fixture_stop(&f, false);
    fixture_start(&f);
    struct problem problem;
    assert_ok(fixture_write(&f, "orders", 1, &problem));
}

static void the_position_that_is_stored_is_durable(void **state)
{
    (void)state;
    mirrored();
    hook_switch_set("stop.3", true);
    (void)fixture_stop_topic(&f, "dr", "orders");
    hook_switch_set("stop.3", false);
    for (int i = 0; i < 2; i++) {
        struct partition_state s;
        struct partition *p = fixture_partition(&f, "orders", i);
        partition_get_state(p, &s);
        partition_unref(p);
        assert_true(s.durable_offset >= (i == 0 ? COPIED_END : 4));
    }
}

static const char *const POINTS[] = {"stop.1", "stop.2",        "stop.3", "stop.4", "stop.5.marker",
                                     "stop.5", "stop.6.append", "stop.6", "stop.7", "stop.8"};

static void a_stop_that_breaks_off_anywhere_comes_to_the_same_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(POINTS); i++) {
        for (int twice = 0; twice < 2; twice++) {
            if (i > 0 || twice > 0) {
                fixture_teardown(NULL);
                fixture_setup(NULL);
            }
            mirrored();
            hook_switch_set(POINTS[i], true);
            struct stop_mirror_topics_response *r = fixture_stop_topic(&f, "dr", "orders");
            assert_true(i == ARRAY_SIZE(POINTS) - 1 || r->topics[0].error_code != OK);
            if (twice) { /* killed there again when it is taken up */
                fixture_stop(&f, false);
                fixture_start(&f);
                usleep(50000);
            }
            hook_switch_set(POINTS[i], false);
            fixture_stop(&f, false);
            mutex_lock(&source.mutex); /* a dead source delays nothing */
            for (int p = 0; p < 2; p++)
                source.topics[0].partitions[p].fetch_error = UNKNOWN_SERVER_ERROR;
            mutex_unlock(&source.mutex);
            fixture_start(&f);
            assert_stopped(0, !twice && i + 1 < ARRAY_SIZE(POINTS));
        }
    }
}

static void what_never_had_data_is_stopped_too(void **state)
{
    struct partition_state s;
    (void)state;
    fake_topic_add(&source, "empty", 1);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "empty", false);
    struct stop_mirror_topics_response *r =
        fixture_stop_topic(&f, "dr", "empty"); /* PREPARING or MIRRORING: whichever it has come to */
    assert_error(r->topics[0].error_code, OK);
    assert_int_equal(r->topics[0].partitions[0].last_mirror_epoch, -1);
    assert_int_equal(r->topics[0].partitions[0].last_mirror_offset, -1);
    struct partition *p = fixture_partition(&f, "empty", 0);
    partition_get_state(p, &s);
    assert_int_equal(s.end_offset, 1); /* the barrier */
    assert_true(s.writable);
    partition_unref(p);
}

static struct stop_mirror_topics_response *stop_truncating(bool force, bool dry)
{
    struct stop_mirror_topics_request_topics t = {STR("orders")};
    struct stop_mirror_topics_request request = {.mirror_name = STR("dr"),
                                                 .topics = &t,
                                                 .topics_n = 1,
                                                 .open_transactions = STR("truncate"),
                                                 .force = force,
                                                 .dry_run = dry};
    return fixture_call(&f, API_STOP_MIRROR_TOPICS, &request);
}

static void truncation_is_refused_with_its_cost_unless_forced(void **state)
{
    struct partition_state s;
    char text[400];
    (void)state;
    mirrored();
    struct stop_mirror_topics_response *r = stop_truncating(false, true);
    assert_int_equal(r->topics[0].partitions[0].truncated_records, 4);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    r = stop_truncating(false, false);
    assert_error(r->topics[0].error_code, INVALID_CLUSTER_MIRROR_STATE);
    snprintf(text, sizeof(text), "%.*s", STR_ARG(r->topics[0].error_message));
    assert_non_null(strstr(text, "cost 1 records"));
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    r = stop_truncating(true, false);
    assert_error(r->topics[0].error_code, OK);
    assert_int_equal(r->topics[0].partitions[0].truncated_records, 4);
    assert_int_equal(r->topics[0].partitions[0].last_mirror_offset, 5);
    assert_int_equal(r->topics[0].partitions[0].last_mirror_epoch, 2);
    struct partition *p = fixture_partition(&f, "orders", 0);
    partition_get_state(p, &s);
    assert_int_equal(s.end_offset, 6);
    assert_int_equal(s.last_stable_offset, 6);
    partition_unref(p);
    struct seen seen = look_behind(0, 5);
    assert_int_equal(seen.aborts[0] + seen.aborts[1], 0);
    assert_int_equal(seen.barriers, 1);
}

/* The marker of one transaction lies behind the first record of another: cut there, the first is open again, and its records
 * would be taken for committed ones. */
static void a_cut_that_takes_a_marker_goes_on_below_its_transaction(void **state)
{
    (void)state;
    struct fake_topic *t = fake_topic_add(&source, "orders", 1);
    fake_append_plain(&source, t, 0, 2, 2);
    fake_append(&source, t, 0, &(struct fake_batch){.producer_id = 9, .transactional = true, .records = 2, .leader_epoch = 2});
    fake_append(&source, t, 0, &(struct fake_batch){.producer_id = 11, .transactional = true, .records = 1, .leader_epoch = 2});
    fake_append(&source, t, 0, &(struct fake_batch){.producer_id = 9, .end_txn = true, .leader_epoch = 2});
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
    fixture_await_end(&f, "orders", 0, 6);
    struct stop_mirror_topics_response *r = stop_truncating(true, false);
    assert_error(r->topics[0].error_code, OK);
    assert_int_equal(r->topics[0].partitions[0].truncated_records, 4);
    assert_int_equal(r->topics[0].partitions[0].last_mirror_offset, 2);
    assert_int_equal(r->topics[0].partitions[0].log_end_offset, 3);
}

static void a_truncating_stop_that_breaks_off_keeps_the_shorter_position(void **state)
{
    (void)state;
    static const char *const HALTS[] = {"stop.5", "stop.6.append"};
    for (size_t i = 0; i < ARRAY_SIZE(HALTS); i++) {
        if (i > 0) {
            fixture_teardown(NULL);
            fixture_setup(NULL);
        }
        mirrored();
        hook_switch_set(HALTS[i], true);
        stop_truncating(true, false);
        hook_switch_set(HALTS[i], false);
        fixture_stop(&f, false);
        fixture_start(&f);
        fixture_await_state(&f, "orders", 0, "STOPPED");
        const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
        assert_int_equal(d->last_mirror_offset, 5);
        assert_int_equal(d->stop_report->truncated_records, 4);
        assert_int_equal(look_behind(0, 5).barriers, 1);
    }
}

static void a_failed_partition_is_stopped_and_so_is_one_whose_source_is_gone(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored();
    mutex_lock(&source.mutex);
    t->deleted = true;
    mutex_unlock(&source.mutex);
    fixture_await_state(&f, "orders", 0, "FAILED");
    assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
    assert_stopped(0, true);
}

static void a_drain_that_cannot_be_had_stops_nothing(void **state)
{
    struct stop_mirror_topics_request_topics topic = {STR("orders")};
    struct stop_mirror_topics_request request = {
        .mirror_name = STR("dr"), .topics = &topic, .topics_n = 1, .drain = true, .drain_timeout_ms = 5000};
    (void)state;
    struct fake_topic *t = mirrored();
    struct delete_cluster_mirror_request removal = {.mirror_name = STR("dr")};
    assert_error(((struct delete_cluster_mirror_response *)fixture_call(&f, API_DELETE_CLUSTER_MIRROR, &removal))->error_code,
                 CLUSTER_MIRROR_NOT_EMPTY);
    mutex_lock(&source.mutex);
    t->partitions[1].fetch_error = NOT_LEADER_OR_FOLLOWER;
    mutex_unlock(&source.mutex);
    fake_append_plain(&source, t, 1, 2, 3);
    request.drain_timeout_ms = 300;
    struct stop_mirror_topics_response *r = fixture_call(&f, API_STOP_MIRROR_TOPICS, &request);
    assert_error(r->topics[0].error_code, REQUEST_TIMED_OUT);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    mutex_lock(&source.mutex);
    t->partitions[1].fetch_error = OK;
    mutex_unlock(&source.mutex);
    request.drain_timeout_ms = 10000;
    r = fixture_call(&f, API_STOP_MIRROR_TOPICS, &request);
    assert_error(r->topics[0].error_code, OK);
    assert_int_equal(r->topics[0].partitions[1].last_mirror_offset, 6); /* all that the source had */
    assert_error(((struct delete_cluster_mirror_response *)fixture_call(&f, API_DELETE_CLUSTER_MIRROR, &removal))->error_code,
                 OK);
    struct problem problem;
    assert_ok(fixture_write(&f, "orders", 1, &problem));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stop_ends_transactions_expires_producers_and_opens_the_topic),
        TEST(a_stop_that_breaks_off_anywhere_comes_to_the_same_end),
        TEST(the_position_that_is_stored_is_durable),
        TEST(what_never_had_data_is_stopped_too),
        TEST(truncation_is_refused_with_its_cost_unless_forced),
        TEST(a_cut_that_takes_a_marker_goes_on_below_its_transaction),
        TEST(a_truncating_stop_that_breaks_off_keeps_the_shorter_position),
        TEST(a_failed_partition_is_stopped_and_so_is_one_whose_source_is_gone),
        TEST(a_drain_that_cannot_be_had_stops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
