/* Copying from a source that is scripted, on real partitions. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/stats.h"
#include "one_source.h"

static void assert_equal_logs(struct fake_topic *t, int partition)
{
    struct buf here = {0};
    fixture_read(&f, t->name, partition, &here);
    mutex_lock(&source.mutex);
    size_t there = t->partitions[partition].log.len;
    bool same = here.len <= there && memcmp(t->partitions[partition].log.data + (there - here.len), here.data, here.len) == 0;
    mutex_unlock(&source.mutex);
    buf_fini(&here);
    assert_true(same);
}

static struct fake_topic *mirrored(int partitions, const char *const *settings)
{
    struct fake_topic *t = fake_topic_add(&source, "orders", partitions);
    for (int p = 0; p < partitions; p++)
        fake_append_plain(&source, t, p, 3, 0);
    fixture_create(&f, "dr", &source, settings);
    fixture_start_topic(&f, "dr", "orders", false);
    for (int p = 0; p < partitions; p++)
        fixture_await_end(&f, "orders", p, 3);
    return t;
}

static void batches_are_copied_as_they_are(void **state)
{
    struct fake_topic *t = mirrored(3, NULL);
    (void)state;
    for (int p = 0; p < 3; p++) {
        fake_append_plain(&source, t, p, 5 + p, 0);
        fixture_await_end(&f, "orders", p, 8 + p);
        fixture_await_state(&f, "orders", p, "MIRRORING");
        assert_equal_logs(t, p);
    }
    struct partition *p = fixture_partition(&f, "orders", 0);
    assert_true(uuid_eq(partition_topic_id(p), &t->id));
    partition_unref(p);
}

static void an_old_source_without_ids_and_diverging_epochs_works(void **state)
{
    (void)state;
    source.fetch_max = 10;
    source.no_sessions = true;
    struct fake_topic *t = mirrored(2, NULL);
    fake_append_plain(&source, t, 1, 2, 0);
    fixture_await_end(&f, "orders", 1, 5);
    assert_equal_logs(t, 1);
}

struct asked {
    int fetches, full, named;
    int32_t wait_ms;
    int short_waits;
};

static struct asked asked_so_far(void)
{
    mutex_lock(&source.mutex);
    struct asked a = {source.fetches, source.full_fetches, source.named, source.wait_ms, source.short_waits};
    mutex_unlock(&source.mutex);
    return a;
}

/* Until requests go out in which nothing is new any more. */
static void await_quiet(void)
{
    struct asked a = asked_so_far(), b = a;
    do {
        a = b;
        for (int i = 0; i < 1000 && (b = asked_so_far()).fetches < a.fetches + 3; i++)
            usleep(2000);
    } while (b.named != a.named);
}

static void a_request_names_what_changed_and_nothing_else(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(8, NULL);
    await_quiet();
    struct asked before = asked_so_far();
    for (int i = 0; i < 5; i++) {
        fake_append_plain(&source, t, 6, 1, 0);
        fixture_await_end(&f, "orders", 6, 4 + i);
    }
    await_quiet();
    struct asked after = asked_so_far();
    assert_int_equal(after.full, before.full);
    assert_int_equal(after.named - before.named, 5);
    assert_equal_logs(t, 6);
}

static int await_named_after(int named, int tries)
{
    int now = asked_so_far().named;
    for (; now == named && tries > 0; tries--) {
        usleep(5000);
        now = asked_so_far().named;
    }
    return now;
}

/* Readers see what is small before the source is asked for more; what is large is written while the source works on the next. */
static void a_small_answer_is_appended_before_the_next_request(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    struct partition *p = fixture_partition(&f, "orders", 0);
    for (int large = 0; large < 2; large++) {
        await_quiet();
        struct asked before = asked_so_far();
        assert_non_null(partition_lock(p)); /* no append goes through */
        fake_append_plain(&source, t, 0, large ? 20000 : 2, 0);
        int named = await_named_after(before.named, large ? 2000 : 20);
        partition_unlock(p);
        assert_int_equal(named - before.named, large);
        fixture_await_end(&f, "orders", 0, large ? 20005 : 5);
    }
    partition_unref(p);
    assert_equal_logs(t, 0);
}

static void a_session_that_the_source_forgot_begins_anew_with_all(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(4, NULL);
    await_quiet();
    struct asked before = asked_so_far();
    mutex_lock(&source.mutex);
    source.forget_session = true;
    mutex_unlock(&source.mutex);
    for (int round = 0; round < 2; round++) {
        for (int p = 0; p < 4; p++) {
            fake_append_plain(&source, t, p, 2, 0);
            fixture_await_end(&f, "orders", p, 5 + 2 * round);
            assert_equal_logs(t, p);
        }
        await_quiet();
    }
    assert_int_equal(asked_so_far().full, before.full + 1);
}

/* A fetch that waits at the source knows nothing of a partition that comes meanwhile. */
static void requests_wait_shortly_while_partitions_come(void **state)
{
    static const char *const SETTINGS[] = {"metadata.refresh.interval.ms", "100", "fetch.wait.max.ms", "700", NULL};
    (void)state;
    mirrored(1, SETTINGS);
    struct asked a = asked_so_far(), b;
    assert_true(a.short_waits > 0);
    for (int i = 0; i < 2000 && a.wait_ms != 700; i++) {
        usleep(5000);
        a = asked_so_far();
    }
    assert_int_equal(a.wait_ms, 700);
    mutex_lock(&source.mutex);
    source.topics[0].partitions_n = 2;
    mutex_unlock(&source.mutex);
    b = a;
    for (int i = 0; i < 2000 && b.short_waits == a.short_waits; i++) {
        usleep(5000);
        b = asked_so_far();
    }
    assert_true(b.short_waits > a.short_waits);
}

static void copying_goes_on_at_the_end_after_a_restart(void **state)
{
    (void)state;
    for (int clean = 0; clean < 2; clean++) {
        if (clean == 0)
            mirrored(1, NULL);
        struct fake_topic *t = &source.topics[0];
        fixture_stop(&f, clean != 0);
        fake_append_plain(&source, t, 0, 4, 0);
        fixture_start(&f);
        struct problem problem;
        assert_error(fixture_write(&f, "orders", 0, &problem), POLICY_VIOLATION);
        fixture_await_end(&f, "orders", 0, 7 + 4 * clean);
        assert_equal_logs(t, 0);
    }
}

static void client_writes_are_refused_by_name_and_so_are_changes_of_the_topic(void **state)
{
    struct problem problem = {0};
    (void)state;
    mirrored(1, NULL);
    assert_error(fixture_write(&f, "orders", 0, &problem), POLICY_VIOLATION);
    assert_non_null(strstr(problem.message, "orders"));
    assert_non_null(strstr(problem.message, "dr"));
    assert_non_null(strstr(problem.hint, "kagami mirror stop dr --topics orders"));
    assert_error(mirrors_topic_allowed(f.mirrors, STR("orders"), TOPIC_DELETE, &problem), POLICY_VIOLATION);
    assert_error(mirrors_topic_allowed(f.mirrors, STR("orders"), TOPIC_ADD_PARTITIONS, &problem), POLICY_VIOLATION);
    assert_error(mirrors_topic_allowed(f.mirrors, STR("orders"), TOPIC_DELETE_RECORDS, &problem), POLICY_VIOLATION);
    assert_ok(mirrors_topic_allowed(f.mirrors, STR("orders"), TOPIC_ALTER_CONFIGS, &problem));
    assert_ok(mirrors_topic_allowed(f.mirrors, STR("others"), TOPIC_DELETE, &problem));
    assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
    assert_ok(fixture_write(&f, "orders", 0, &problem));
    assert_ok(mirrors_topic_allowed(f.mirrors, STR("orders"), TOPIC_DELETE, &problem));
}

static void the_leader_epoch_stands_above_every_batch(void **state)
{
    struct partition_state s;
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    struct partition *p = fixture_partition(&f, "orders", 0);
    partition_get_state(p, &s);
    assert_int_equal(s.leader_epoch, 10);
    fake_append_plain(&source, t, 0, 1, 7); /* below: costs nothing */
    fixture_await_end(&f, "orders", 0, 4);
    partition_get_state(p, &s);
    assert_int_equal(s.leader_epoch, 10);
    fake_append_plain(&source, t, 0, 1, 30);
    fixture_await_end(&f, "orders", 0, 5);
    partition_get_state(p, &s);
    assert_int_equal(s.leader_epoch, 40);
    partition_unref(p);
    assert_equal_logs(t, 0);
}

static void the_floor_of_producer_ids_stands_above_every_mirrored_one(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    fake_append(&source, t, 0, &(struct fake_batch){.producer_id = 5000000, .records = 1});
    fixture_await_end(&f, "orders", 0, 4);
    assert_true(controller_producer_id_floor(f.controller) > 5000000);
}

static void new_partitions_of_the_source_follow(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    fake_append_plain(&source, t, 1, 6, 0);
    mutex_lock(&source.mutex);
    t->partitions_n = 2;
    mutex_unlock(&source.mutex);
    fixture_await_state(&f, "orders", 1, "MIRRORING");
    fixture_await_end(&f, "orders", 1, 6);
    assert_equal_logs(t, 1);
}

static void the_log_start_follows_the_source_into_a_batch(void **state)
{
    struct partition_state s = {0};
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    fake_set_log_start(&source, t, 0, 2);
    struct partition *p = fixture_partition(&f, "orders", 0);
    for (int i = 0; i < 500 && s.log_start_offset != 2; i++) {
        usleep(10000);
        partition_get_state(p, &s);
    }
    partition_unref(p);
    assert_int_equal(s.log_start_offset, 2);
}

static void a_source_that_begins_inside_a_batch_is_copied_from_there(void **state)
{
    struct partition_state s = {0};
    (void)state;
    struct fake_topic *t = fake_topic_add(&source, "orders", 1);
    fake_append_plain(&source, t, 0, 4, 0);
    fake_append_plain(&source, t, 0, 4, 0);
    fake_set_log_start(&source, t, 0, 6);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
    fixture_await_end(&f, "orders", 0, 8);
    struct partition *p = fixture_partition(&f, "orders", 0);
    for (int i = 0; i < 500 && s.log_start_offset != 6; i++) {
        usleep(10000);
        partition_get_state(p, &s);
    }
    partition_unref(p);
    assert_int_equal(s.log_start_offset, 6);
    assert_equal_logs(t, 0);
}

static void a_gap_is_recorded_when_the_source_removed_what_is_next(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    fixture_stop(&f, true);
    fake_append_plain(&source, t, 0, 5, 0);
    fake_append_plain(&source, t, 0, 2, 0);
    fake_set_log_start(&source, t, 0, 8);
    int64_t before = STAT_GET(mirror_gaps);
    fixture_start(&f);
    fixture_await_end(&f, "orders", 0, 10);
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
    assert_int_equal(d->gaps_n, 1);
    assert_int_equal(d->gaps[0].from_offset, 3);
    assert_int_equal(d->gaps[0].to_offset, 8);
    assert_int_equal(STAT_GET(mirror_gaps), before + 1);
    assert_equal_logs(t, 0);
}

static void diverge(struct fake_topic *t)
{
    fake_append_plain(&source, t, 0, 2, 1);
    fake_append_plain(&source, t, 0, 2, 2);
    fixture_await_end(&f, "orders", 0, 7);
    fixture_stop(&f, true);
    fake_truncate(&source, t, 0, 5, 3); /* what was written in epoch 2 is lost there */
    fake_append_plain(&source, t, 0, 3, 3);
    fixture_start(&f);
}

static void a_divergence_fails_with_both_histories(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    diverge(t);
    fixture_await_state(&f, "orders", 0, "FAILED");
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
    char text[1200];
    snprintf(text, sizeof(text), "%.*s", STR_ARG(d->error_message));
    assert_non_null(strstr(text, "epoch 1 ends at offset 5"));
    assert_non_null(strstr(text, "epoch 2 goes on to 7"));
    assert_false(d->retriable);
    assert_int_equal(d->destination_offset, 7); /* nothing is lost here */
    assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
}

static void a_divergence_is_cut_off_when_told_to(void **state)
{
    static const char *const SETTINGS[] = {"on.divergence", "truncate", NULL};
    (void)state;
    struct fake_topic *t = mirrored(1, SETTINGS);
    diverge(t);
    fixture_await_end(&f, "orders", 0, 8);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    assert_equal_logs(t, 0);
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
    assert_int_equal(d->truncation.records, 2);
    assert_true(d->truncation.bytes > 61);
    assert_true(d->truncation.first_timestamp > 0 && d->truncation.last_timestamp >= d->truncation.first_timestamp);
    assert_true(d->truncation.timestamp_ms > 0);
}

static void damage_stops_its_partition_only_and_names_the_offset(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(2, NULL);
    fake_append_plain(&source, t, 0, 1, 0);
    mutex_lock(&source.mutex);
    fixture_stop(&f, true);
    size_t good = t->partitions[0].log.len;
    mutex_unlock(&source.mutex);
    fake_append_plain(&source, t, 0, 1, 0);
    mutex_lock(&source.mutex);
    t->partitions[0].log.data[good + 65] ^= 1;
    mutex_unlock(&source.mutex);
    fake_append_plain(&source, t, 1, 1, 0);
    fixture_start(&f);
    fixture_await_state(&f, "orders", 0, "FAILED");
    fixture_await_end(&f, "orders", 1, 4);
    fixture_await_end(&f, "orders", 0, 4); /* what was whole was taken */
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = NULL;
    char text[1200] = "";
    for (int i = 0; i < 500 && strstr(text, "offset 4") == NULL; i++) {
        d = fixture_describe(&f, "orders", 0);
        snprintf(text, sizeof(text), "%.*s", STR_ARG(d->error_message));
        usleep(2000);
    }
    assert_non_null(strstr(text, "orders-0 at offset 4"));
    mutex_lock(&source.mutex);
    t->partitions[0].log.data[good + 65] ^= 1;
    mutex_unlock(&source.mutex);
    fixture_await_end(&f, "orders", 0, 5); /* it comes again by itself */
    fixture_await_state(&f, "orders", 0, "MIRRORING");
}

static void a_topic_made_anew_is_never_mixed_with_the_old_one(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    mutex_lock(&source.mutex);
    t->deleted = true;
    mutex_unlock(&source.mutex);
    struct fake_topic *again = fake_topic_add(&source, "orders", 1);
    fake_append_plain(&source, again, 0, 9, 0);
    fixture_await_state(&f, "orders", 0, "FAILED");
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
    assert_int_equal(d->error_code, UNKNOWN_TOPIC_ID);
    assert_int_equal(d->destination_offset, 3);
    assert_equal_logs(t, 0);
}

static void a_deleted_topic_fails(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    mutex_lock(&source.mutex);
    t->deleted = true;
    mutex_unlock(&source.mutex);
    fixture_await_state(&f, "orders", 0, "FAILED");
    assert_int_equal(fixture_describe(&f, "orders", 0)->error_code, UNKNOWN_TOPIC_OR_PARTITION);
}

static void another_cluster_at_the_address_fails(void **state)
{
    (void)state;
    mirrored(1, NULL);
    mutex_lock(&source.mutex);
    strcpy(source.cluster_id, "other-cluster");
    mutex_unlock(&source.mutex);
    fixture_await_state(&f, "orders", 0, "FAILED");
    assert_int_equal(fixture_describe(&f, "orders", 0)->error_code, INCONSISTENT_CLUSTER_ID);
}

static void pause_and_resume(void **state)
{
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    assert_error(fixture_act(&f, API_RESUME_MIRROR_TOPICS, "dr", "orders"), MIRROR_TOPIC_NOT_PAUSED);
    assert_error(fixture_act(&f, API_PAUSE_MIRROR_TOPICS, "dr", "orders"), OK);
    fixture_await_state(&f, "orders", 0, "PAUSED");
    assert_error(fixture_act(&f, API_PAUSE_MIRROR_TOPICS, "dr", "orders"), MIRROR_TOPIC_ALREADY_PAUSED);
    fake_append_plain(&source, t, 0, 2, 0);
    fixture_stop(&f, true);
    fixture_start(&f);
    usleep(200000);
    fixture_await_end(&f, "orders", 0, 3);
    assert_error(fixture_act(&f, API_RESUME_MIRROR_TOPICS, "dr", "orders"), OK);
    fixture_await_end(&f, "orders", 0, 5);
    assert_equal_logs(t, 0);
}

static void data_here_is_not_thrown_away_unless_told_to(void **state)
{
    struct problem problem;
    (void)state;
    struct fake_topic *t = mirrored(1, NULL);
    assert_error(fixture_try_start(&f, "dr", "orders", false), TOPIC_ALREADY_IN_CLUSTER_MIRROR);
    assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
    assert_error(fixture_try_start(&f, "dr", "orders", false), TOPIC_ALREADY_EXISTS);
    assert_ok(fixture_write(&f, "orders", 0, &problem)); /* it stayed writable */
    fixture_start_topic(&f, "dr", "orders", true);
    fixture_await_end(&f, "orders", 0, 3);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    assert_equal_logs(t, 0);
    assert_error(fixture_write(&f, "orders", 0, &problem), POLICY_VIOLATION);
    assert_error(fixture_try_start(&f, "dr", "nothing", false), UNKNOWN_TOPIC_OR_PARTITION);
    assert_error(fixture_try_start(&f, "none", "orders", false), UNKNOWN_CLUSTER_MIRROR);
    assert_error(fixture_try_start(&f, "dr", "__consumer_offsets", false), INVALID_TOPIC_EXCEPTION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batches_are_copied_as_they_are),
        TEST(an_old_source_without_ids_and_diverging_epochs_works),
        TEST(a_request_names_what_changed_and_nothing_else),
        TEST(a_small_answer_is_appended_before_the_next_request),
        TEST(a_session_that_the_source_forgot_begins_anew_with_all),
        TEST(requests_wait_shortly_while_partitions_come),
        TEST(copying_goes_on_at_the_end_after_a_restart),
        TEST(client_writes_are_refused_by_name_and_so_are_changes_of_the_topic),
        TEST(the_leader_epoch_stands_above_every_batch),
        TEST(the_floor_of_producer_ids_stands_above_every_mirrored_one),
        TEST(new_partitions_of_the_source_follow),
        TEST(the_log_start_follows_the_source_into_a_batch),
        TEST(a_source_that_begins_inside_a_batch_is_copied_from_there),
        TEST(a_gap_is_recorded_when_the_source_removed_what_is_next),
        TEST(a_divergence_fails_with_both_histories),
        TEST(a_divergence_is_cut_off_when_told_to),
        TEST(damage_stops_its_partition_only_and_names_the_offset),
        TEST(a_topic_made_anew_is_never_mixed_with_the_old_one),
        TEST(a_deleted_topic_fails),
        TEST(another_cluster_at_the_address_fails),
        TEST(pause_and_resume),
        TEST(data_here_is_not_thrown_away_unless_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
