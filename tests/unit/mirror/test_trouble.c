/* A mirror whose disk fails or fills up: what it says, that nothing is lost or doubled, and how it goes on. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "one_source.h"
#include "sim_disk.h"

static struct fake_topic *topic;
static struct sim_disk disk;
static struct seeded_random chance;

static int setup(void **state)
{
    (void)state;
    seeded_random_init(&chance, 1);
    sim_disk_init(&disk, &chance.source);
    fake_source_start(&source, "source-cluster");
    fixture_init_on(&f, &disk.fs);
    topic = fake_topic_add(&source, "orders", 2);
    return 0;
}

static int teardown(void **state)
{
    fixture_teardown(state);
    sim_disk_fini(&disk);
    return 0;
}

static void mirrored(const char *const *settings)
{
    fake_append_plain(&source, topic, 0, 3, 0);
    fake_append_plain(&source, topic, 1, 3, 0);
    fixture_create(&f, "dr", &source, settings);
    fixture_start_topic(&f, "dr", "orders", false);
    fixture_await_end(&f, "orders", 0, 3);
    fixture_await_end(&f, "orders", 1, 3);
}

static void await_text(const char *text, const char *hint)
{
    char seen[1000] = "", advice[600] = "";
    for (int i = 0; i < 1000; i++) {
        const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
        snprintf(seen, sizeof(seen), "%.*s", STR_ARG(d->error_message));
        snprintf(advice, sizeof(advice), "%.*s", STR_ARG(d->error_hint));
        if (strstr(seen, text) != NULL && strstr(advice, hint) != NULL)
            return;
        usleep(10000);
    }
    fail_msg("the trouble is \"%s\" (%s) and not \"%s\" (%s)", seen, advice, text, hint);
}

static void assert_equal_logs(int partition)
{
    struct buf here = {0};
    fixture_read(&f, "orders", partition, &here);
    size_t there = topic->partitions[partition].log.len;
    assert_true(here.len <= there);
    assert_memory_equal(here.data, topic->partitions[partition].log.data + (there - here.len), here.len);
    buf_fini(&here);
}

static void set_capacity(uint64_t bytes)
{
    mutex_lock(&disk.mutex);
    disk.capacity_bytes = bytes == 0 ? 0 : disk.used_bytes + bytes;
    mutex_unlock(&disk.mutex);
}

static void a_full_disk_is_told_and_copying_goes_on_when_there_is_room(void **state)
{
    (void)state;
    mirrored(NULL);
    set_capacity(1);
    fake_append_plain(&source, topic, 0, 5, 0);
    await_text("No space is left on the disk: orders-0", "Make room in the data folder");
    assert_int_equal(fixture_describe(&f, "orders", 0)->destination_offset, 3);
    set_capacity(0);
    fixture_await_end(&f, "orders", 0, 8);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    assert_equal_logs(0);
}

static void a_failed_write_stops_copying_until_somebody_has_looked(void **state)
{
    (void)state;
    mirrored(NULL);
    sim_disk_fail(&disk, SIM_WRITE, 1, ERR_IO, false);
    fake_append_plain(&source, topic, 0, 5, 0);
    await_text("The log of orders-0 failed on the disk", "kagami mirror recover dr");
    fixture_await_state(&f, "orders", 0, "FAILED");
    assert_false(fixture_describe(&f, "orders", 0)->retriable);
    assert_true(sim_disk_has_failed(&disk));
    fixture_stop(&f, false);
    sim_disk_heal(&disk);
    fixture_start(&f);
    assert_error(fixture_act(&f, API_RECOVER_MIRROR_TOPICS, "dr", "orders"), OK);
    fixture_await_end(&f, "orders", 0, 8);
    fake_append_plain(&source, topic, 1, 1, 0);
    fixture_await_end(&f, "orders", 1, 4);
    assert_equal_logs(0);
    assert_equal_logs(1);
}

/* The disk fails just when the source has said where the log begins. */
static bool fail_when_asked_for_starts(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)response;
    (void)arena;
    if (api_key == API_LIST_OFFSETS && ((const struct list_offsets_request *)request)->topics_n > 0 &&
        !sim_disk_has_failed(&disk))
        sim_disk_fail(&disk, SIM_CHANGES, *(uint64_t *)arg, ERR_NO_SPACE, false);
    return true;
}

/* Until an operation has failed; then the broker is killed and starts again, the disk has room, and an operator recovers what does not come again by itself. */
static void fail_and_start_again(void)
{
    for (int i = 0; i < 1000 && !sim_disk_has_failed(&disk); i++)
        usleep(10000);
    assert_true(sim_disk_has_failed(&disk));
    fake_bend(&source, NULL, NULL);
    fixture_stop(&f, false);
    sim_disk_heal(&disk);
    fixture_start(&f);
    (void)fixture_act(&f, API_RECOVER_MIRROR_TOPICS, "dr", "orders"); /* refused where nothing is FAILED */
}

static void a_log_that_cannot_be_made_to_begin_is_tried_again(void **state)
{
    uint64_t operation = 1;
    (void)state;
    for (int p = 0; p < 2; p++) {
        fake_append_plain(&source, topic, p, 3, 0);
        fake_append_plain(&source, topic, p, 3, 0);
        fake_set_log_start(&source, topic, p, 3);
    }
    fake_bend(&source, fail_when_asked_for_starts, &operation);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
    fail_and_start_again();
    for (int p = 0; p < 2; p++) {
        fixture_await_end(&f, "orders", p, 6);
        fixture_await_state(&f, "orders", p, "MIRRORING");
        assert_equal_logs(p);
    }
}

static void lose_what_is_next_at_the_source(void)
{
    fixture_stop(&f, true);
    fake_append_plain(&source, topic, 0, 5, 0);
    fake_append_plain(&source, topic, 0, 2, 0);
    fake_set_log_start(&source, topic, 0, 8);
    fixture_start(&f);
}

static void a_gap_is_recorded_once_whatever_operation_the_disk_refuses(void **state)
{
    for (uint64_t operation = 1; operation <= 4; operation++) {
        mirrored(NULL);
        fake_bend(&source, fail_when_asked_for_starts, &operation);
        lose_what_is_next_at_the_source();
        fail_and_start_again();
        fixture_await_end(&f, "orders", 0, 10);
        fixture_await_state(&f, "orders", 0, "MIRRORING");
        const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
        assert_int_equal(d->gaps_n, 1);
        assert_int_equal(d->gaps[0].from_offset, 3);
        assert_int_equal(d->gaps[0].to_offset, 8);
        assert_equal_logs(0);
        teardown(state);
        setup(state);
    }
}

/* ---- Histories that have nothing in common ---- */

static void lose_all_at_the_source(void)
{
    fixture_stop(&f, true);
    fake_truncate(&source, topic, 0, 0, 5);
    fake_append_plain(&source, topic, 0, 2, 5);
    fixture_start(&f);
}

static void a_source_without_any_of_our_epochs_is_told_apart(void **state)
{
    (void)state;
    mirrored(NULL);
    lose_all_at_the_source();
    await_text("the source knows no leader epoch up to 0, here epoch 0 ends at offset 3", "on.divergence=truncate");
    fixture_await_state(&f, "orders", 0, "FAILED");
    assert_int_equal(fixture_describe(&f, "orders", 0)->destination_offset, 3); /* what is here is kept */
}

static void a_source_without_any_of_our_epochs_is_followed_when_told_to(void **state)
{
    (void)state;
    mirrored((const char *const[]){"on.divergence", "truncate", NULL});
    lose_all_at_the_source();
    fixture_await_end(&f, "orders", 0, 2);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    assert_equal_logs(0);
}

static void a_cut_comes_to_its_end_whatever_operation_the_disk_refuses(void **state)
{
    for (uint64_t operation = 1; operation <= 4; operation++) {
        mirrored((const char *const[]){"on.divergence", "truncate", NULL});
        fake_bend(&source, fail_when_asked_for_starts, &operation);
        lose_all_at_the_source();
        fail_and_start_again();
        fixture_await_end(&f, "orders", 0, 2);
        fixture_await_state(&f, "orders", 0, "MIRRORING");
        assert_equal_logs(0);
        teardown(state);
        setup(state);
    }
}

/* Sources that do not look at epochs in Fetch: the history is looked at before the first fetch. */
static void an_old_sources_history_is_looked_at_before_copying_goes_on(void **state)
{
    (void)state;
    source.fetch_max = 11;
    mirrored(NULL);
    fixture_stop(&f, true);
    fake_append_plain(&source, topic, 0, 2, 0);
    fixture_start(&f);
    fixture_await_end(&f, "orders", 0, 5); /* the same history */
    assert_equal_logs(0);
    fixture_stop(&f, true);
    fake_truncate(&source, topic, 0, 3, 1);
    fake_append_plain(&source, topic, 0, 9, 1);
    fixture_start(&f);
    await_text("at the source leader epoch 0 ends at offset 3, here epoch 0 goes on to 5", "on.divergence=truncate");
    assert_int_equal(fixture_describe(&f, "orders", 0)->destination_offset, 5);
}

/* ---- Others ---- */

static void a_partition_without_leader_is_told_and_waited_for(void **state)
{
    (void)state;
    mirrored(NULL);
    fixture_stop(&f, true);
    fake_bend_leaders(&source, -1);
    fixture_start(&f);
    await_text("orders-0 has no leader at the source", "");
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    fake_bend(&source, NULL, NULL);
    fake_append_plain(&source, topic, 0, 1, 0);
    fixture_await_end(&f, "orders", 0, 4);
}

static void a_throttled_mirror_copies_all(void **state)
{
    (void)state;
    mirrored((const char *const[]){"throttle.bytes.per.second", "20000", NULL});
    for (int i = 0; i < 20; i++)
        fake_append_plain(&source, topic, i % 2, 2, 0);
    fixture_await_end(&f, "orders", 0, 23);
    fixture_await_end(&f, "orders", 1, 23);
    assert_equal_logs(0);
    assert_equal_logs(1);
}

static void the_records_of_a_stopped_topic_go_when_the_topic_is_deleted_here(void **state)
{
    struct problem problem;
    struct topic_ref ref = {.name = STR("orders")};
    struct topic_result result;
    struct str removed;
    (void)state;
    mirrored(NULL);
    assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
    assert_non_null(fixture_describe(&f, "orders", 0));
    assert_ok(controller_delete_topics(f.controller, &ref, 1, NULL, &f.arena, &result, &removed, &problem));
    assert_ok(result.error);
    for (int i = 0; i < 1000 && fixture_describe(&f, "orders", 0) != NULL; i++)
        usleep(10000);
    assert_null(fixture_describe(&f, "orders", 0));
    fixture_stop(&f, true);
    fixture_start(&f);
    assert_null(fixture_describe(&f, "orders", 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_disk_is_told_and_copying_goes_on_when_there_is_room),
        TEST(a_failed_write_stops_copying_until_somebody_has_looked),
        TEST(a_log_that_cannot_be_made_to_begin_is_tried_again),
        TEST(a_gap_is_recorded_once_whatever_operation_the_disk_refuses),
        TEST(a_source_without_any_of_our_epochs_is_told_apart),
        TEST(a_source_without_any_of_our_epochs_is_followed_when_told_to),
        TEST(a_cut_comes_to_its_end_whatever_operation_the_disk_refuses),
        TEST(an_old_sources_history_is_looked_at_before_copying_goes_on),
        TEST(a_partition_without_leader_is_told_and_waited_for),
        TEST(a_throttled_mirror_copies_all),
        TEST(the_records_of_a_stopped_topic_go_when_the_topic_is_deleted_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
