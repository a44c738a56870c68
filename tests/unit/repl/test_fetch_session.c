/* Incremental fetch sessions, requests in and named partitions out; evictions; the long poll. */
#include "repl/fetch_session.h"

#include <stdio.h>

#include "base/assert.h"
#include "registry_fixture.h"
#include "unit.h"

#define SLOTS 8 /* one in each shard */
#define EVICTION_MS 1000

struct session_fixture {
    struct registry_fixture r;
    struct fetch_sessions *sessions;
    struct uuid id;
    struct fetch f;
    struct arena arena;
    bool woken;
};

static int setup(void **state)
{
    struct session_fixture *s = mem_calloc(1, sizeof(*s));
    registry_fixture_init(&s->r);
    arena_init(&s->arena, SIZE_MAX);
    s->sessions = fetch_sessions_create(s->r.partitions, &s->r.clock.clock, &s->r.random.source, SLOTS, EVICTION_MS);
    s->id = create_topic(&s->r, "t", 4);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct session_fixture *s = *state;
    fetch_sessions_destroy(s->sessions);
    arena_fini(&s->arena);
    registry_fixture_fini(&s->r);
    mem_free(s);
    return 0;
}

/* "0@5 2@0": partitions and offsets asked for. */
struct asked {
    int32_t session_id, epoch;
    const char *partitions, *forgotten;
    int16_t version;
    int32_t min_bytes;
};

static int32_t parse(struct session_fixture *s, const char *text, struct fetch_request_topics_partitions **ret)
{
    int32_t n = 0;
    struct fetch_request_topics_partitions *out = arena_calloc(&s->arena, 8, sizeof(*out));
    for (const char *p = text; p != NULL && *p != '\0'; p++) {
        if (*p == ' ')
            continue;
        out[n].partition = *p - '0';
        out[n].fetch_offset = p[2] - '0';
        out[n].partition_max_bytes = 1000000;
        out[n].current_leader_epoch = out[n].last_fetched_epoch = -1;
        n++;
        p += 2;
    }
    *ret = out;
    return n;
}

static enum error begin(struct session_fixture *s, struct asked a)
{
    static struct fetch_request request;
    struct fetch_request_topics *topic = arena_calloc(&s->arena, 1, sizeof(*topic));
    struct fetch_request_forgotten_topics_data *forgotten = arena_calloc(&s->arena, 1, sizeof(*forgotten));
    struct fetch_request_topics_partitions *gone;
    proto_init(&PROTO_FETCH_REQUEST, &request);
    request.session_id = a.session_id;
    request.session_epoch = a.epoch;
    request.min_bytes = a.min_bytes;
    topic->topic = a.version < 13 ? STR("t") : STR_NULL;
    topic->topic_id = a.version < 13 ? UUID_ZERO : s->id;
    topic->partitions_n = parse(s, a.partitions, &topic->partitions);
    request.topics = topic;
    request.topics_n = topic->partitions_n > 0;
    forgotten->topic = topic->topic;
    forgotten->topic_id = topic->topic_id;
    forgotten->partitions_n = parse(s, a.forgotten, &gone);
    forgotten->partitions = arena_calloc(&s->arena, 8, sizeof(int32_t));
    for (int32_t i = 0; i < forgotten->partitions_n; i++)
        forgotten->partitions[i] = gone[i].partition;
    request.forgotten_topics_data = forgotten;
    request.forgotten_topics_data_n = forgotten->partitions_n > 0;
    return fetch_begin(s->sessions, &request, a.version, 1000000, &s->arena, &s->f);
}

/* Ends the fetch; what its answer names, "0:data 1:" in order. */
static const char *finish(struct session_fixture *s)
{
    static char text[200];
    char *out = text;
    fetch_admit(&s->f);
    *out = '\0';
    for (struct fetch_partition *fp = fetch_next(&s->f, NULL); fp != NULL; fp = fetch_next(&s->f, fp))
        out += snprintf(out, (size_t)(text + sizeof(text) - out), "%s%d:%s", out == text ? "" : " ", fp->index,
                        fp->error != OK          ? error_name(fp->error)
                        : fp->read.slice.len > 0 ? "data"
                                                 : "");
    fetch_end(&s->f);
    return text;
}

static const char *fetch(struct session_fixture *s, struct asked a)
{
    assert_ok(begin(s, a));
    (void)fetch_read(&s->f);
    return finish(s);
}

static void sessionless_names_all(void **state)
{
    struct session_fixture *s = *state;
    write_to(&s->r, "t", 1);
    assert_string_equal(fetch(s, (struct asked){0, -1, "0@0 1@0 7@0", NULL, 12, 1}), "0: 1:data 7:UNKNOWN_TOPIC_OR_PARTITION");
    assert_int_equal(s->f.session_id, 0);
    assert_int_equal(fetch_sessions_count(s->sessions), 0);
}

static void a_session_names_what_changed(void **state)
{
    struct session_fixture *s = *state;
    write_to(&s->r, "t", 1);
    assert_string_equal(fetch(s, (struct asked){0, 0, "0@0 1@0 2@0", NULL, 12, 1}), "0: 1:data 2:");
    int32_t id = s->f.session_id;
    assert_int_not_equal(id, 0);
    /* The client has what it got; nothing is new. */
    assert_string_equal(fetch(s, (struct asked){id, 1, "1@1", NULL, 12, 1}), "");
    write_to(&s->r, "t", 2);
    assert_string_equal(fetch(s, (struct asked){id, 2, "", NULL, 12, 1}), "2:data");
    /* It did not move on: the same again. */
    assert_string_equal(fetch(s, (struct asked){id, 3, "", NULL, 12, 1}), "2:data");
    /* Another partition joins, one goes. */
    assert_string_equal(fetch(s, (struct asked){id, 4, "2@1 3@0", "0@0", 12, 1}), "3:");
    write_to(&s->r, "t", 0);
    write_to(&s->r, "t", 3);
    assert_string_equal(fetch(s, (struct asked){id, 5, "", NULL, 12, 1}), "3:data");
}

static void those_with_data_take_turns(void **state)
{
    struct session_fixture *s = *state;
    write_to(&s->r, "t", 0);
    write_to(&s->r, "t", 1);
    assert_string_equal(fetch(s, (struct asked){0, 0, "0@0 1@0 2@0", NULL, 12, 1}), "0:data 1:data 2:");
    write_to(&s->r, "t", 2);
    /* In the order in which they had something; after its turn a partition stands behind the others. */
    assert_string_equal(fetch(s, (struct asked){s->f.session_id, 1, "", NULL, 12, 1}), "0:data 1:data 2:data");
    assert_string_equal(fetch(s, (struct asked){s->f.session_id, 2, "0@1", NULL, 12, 1}), "1:data 2:data");
}

static void errors_of_a_session(void **state)
{
    struct session_fixture *s = *state;
    (void)fetch(s, (struct asked){0, 0, "0@0", NULL, 12, 1});
    int32_t id = s->f.session_id;
    assert_error(begin(s, (struct asked){id + 1, 1, "", NULL, 12, 1}), FETCH_SESSION_ID_NOT_FOUND);
    assert_error(begin(s, (struct asked){id, 2, "", NULL, 12, 1}), INVALID_FETCH_SESSION_EPOCH);
    assert_error(begin(s, (struct asked){id, 1, "", NULL, 13, 1}), FETCH_SESSION_TOPIC_ID_ERROR);
    assert_string_equal(fetch(s, (struct asked){id, 1, "", NULL, 12, 1}), ""); /* a wrong epoch keeps the session (facts 35) */
    /* In use: a second request of the same session. */
    assert_ok(begin(s, (struct asked){id, 2, "", NULL, 12, 1}));
    struct fetch held = s->f;
    assert_error(begin(s, (struct asked){id, 3, "", NULL, 12, 1}), INVALID_FETCH_SESSION_EPOCH);
    TAILQ_INIT(&held.active); /* moved with the struct: it was empty */
    fetch_end(&held);
}

static void the_last_epoch_ends_it(void **state)
{
    struct session_fixture *s = *state;
    (void)fetch(s, (struct asked){0, 0, "0@0", NULL, 12, 1});
    int32_t id = s->f.session_id;
    assert_string_equal(fetch(s, (struct asked){id, -1, "", NULL, 12, 1}), "");
    assert_int_equal(fetch_sessions_count(s->sessions), 0);
    assert_error(begin(s, (struct asked){id, 1, "", NULL, 12, 1}), FETCH_SESSION_ID_NOT_FOUND);
}

static void a_session_without_partitions_ends(void **state)
{
    struct session_fixture *s = *state;
    (void)fetch(s, (struct asked){0, 0, "0@0", NULL, 12, 1});
    assert_string_equal(fetch(s, (struct asked){s->f.session_id, 1, "", "0@0", 12, 1}), "");
    assert_int_equal(s->f.session_id, 0);
    assert_int_equal(fetch_sessions_count(s->sessions), 0);
}

static void an_error_comes_again_until_it_is_over(void **state)
{
    struct session_fixture *s = *state;
    assert_string_equal(fetch(s, (struct asked){0, 0, "0@5", NULL, 12, 1}), "0:OFFSET_OUT_OF_RANGE");
    int32_t id = s->f.session_id;
    assert_string_equal(fetch(s, (struct asked){id, 1, "", NULL, 12, 1}), "0:OFFSET_OUT_OF_RANGE");
    assert_string_equal(fetch(s, (struct asked){id, 2, "0@0", NULL, 12, 1}), "0:"); /* it is over: the marks are told anew */
    assert_string_equal(fetch(s, (struct asked){id, 3, "", NULL, 12, 1}), "");
}

static void a_deleted_topic_shows_in_the_session(void **state)
{
    struct session_fixture *s = *state;
    assert_string_equal(fetch(s, (struct asked){0, 0, "0@0", NULL, 13, 1}), "0:");
    int32_t id = s->f.session_id;
    delete_topic(&s->r, "t");
    assert_string_equal(fetch(s, (struct asked){id, 1, "", NULL, 13, 1}), "0:UNKNOWN_TOPIC_ID");
}

static void the_cache_keeps_the_better_sessions(void **state)
{
    struct session_fixture *s = *state;
    int admitted = 0;
    for (int i = 0; i < 100; i++) {
        (void)fetch(s, (struct asked){0, 0, "0@0 1@0", NULL, 12, 1});
        admitted += s->f.session_id != 0;
    }
    assert_int_equal(fetch_sessions_count(s->sessions), SLOTS);
    assert_int_equal(admitted, SLOTS); /* the others were young and as large: no slot */
    manual_clock_advance(&s->r.clock, EVICTION_MS / 2);
    for (int i = 0; i < 100; i++) {
        (void)fetch(s, (struct asked){0, 0, "0@0 1@0 2@0", NULL, 12, 1});
        assert_int_equal(s->f.session_id, 0); /* larger, but the others are too young to go */
    }
    manual_clock_advance(&s->r.clock, EVICTION_MS);
    admitted = 0;
    for (int i = 0; i < 100; i++) {
        (void)fetch(s, (struct asked){0, 0, "0@0", NULL, 12, 1});
        admitted += s->f.session_id != 0;
    }
    assert_int_equal(admitted, SLOTS); /* idle ones went, whatever their size */
}

/* ---- The long poll ---- */

static void woken(struct loop_task *task)
{
    ((struct session_fixture *)fetch_poll_of(task)->owner)->woken = true;
}

static void a_poll_is_woken_by_enough_bytes(void **state)
{
    struct session_fixture *s = *state;
    for (int session = 0; session < 2; session++) {
        s->woken = false;
        assert_ok(begin(s, (struct asked){0, session ? 0 : -1, "0@0 1@0", NULL, 12, 100}));
        assert_false(fetch_read(&s->f));
        assert_true(fetch_arm(&s->f, s->r.loop, woken, s));
        write_to(&s->r, "t", 0); /* 73 bytes */
        loop_step(s->r.loop, 0);
        assert_false(s->woken);
        write_to(&s->r, "t", 1);
        while (!s->woken)
            loop_step(s->r.loop, -1);
        assert_true(fetch_read(&s->f));
        assert_string_equal(finish(s), "0:data 1:data");
        delete_topic(&s->r, "t");
        s->id = create_topic(&s->r, "t", 4);
    }
}

static void a_change_between_reading_and_arming_is_seen(void **state)
{
    struct session_fixture *s = *state;
    for (int session = 0; session < 2; session++) {
        assert_ok(begin(s, (struct asked){0, session ? 0 : -1, "2@0 3@0", NULL, 12, 1}));
        assert_false(fetch_read(&s->f));
        write_to(&s->r, "t", session ? 2 : 3);
        assert_false(fetch_arm(&s->f, s->r.loop, woken, s));
        assert_true(fetch_read(&s->f));
        (void)finish(s);
        delete_topic(&s->r, "t");
        s->id = create_topic(&s->r, "t", 4);
    }
}

static void a_disarmed_poll_is_not_woken(void **state)
{
    struct session_fixture *s = *state;
    s->woken = false;
    assert_ok(begin(s, (struct asked){0, -1, "0@0", NULL, 12, 1}));
    assert_false(fetch_read(&s->f));
    assert_true(fetch_arm(&s->f, s->r.loop, woken, s));
    assert_true(fetch_disarm(&s->f));
    write_to(&s->r, "t", 0);
    loop_step(s->r.loop, 0);
    assert_false(s->woken);
    (void)finish(s);
}

static void deletion_wakes(void **state)
{
    struct session_fixture *s = *state;
    s->woken = false;
    assert_ok(begin(s, (struct asked){0, 0, "0@0", NULL, 12, 1}));
    assert_false(fetch_read(&s->f));
    assert_true(fetch_arm(&s->f, s->r.loop, woken, s));
    delete_topic(&s->r, "t");
    while (!s->woken)
        loop_step(s->r.loop, -1);
    assert_true(fetch_read(&s->f));
    assert_string_equal(finish(s), "0:UNKNOWN_TOPIC_OR_PARTITION");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sessionless_names_all),
        TEST(a_session_names_what_changed),
        TEST(those_with_data_take_turns),
        TEST(errors_of_a_session),
        TEST(the_last_epoch_ends_it),
        TEST(a_session_without_partitions_ends),
        TEST(an_error_comes_again_until_it_is_over),
        TEST(a_deleted_topic_shows_in_the_session),
        TEST(the_cache_keeps_the_better_sessions),
        TEST(a_poll_is_woken_by_enough_bytes),
        TEST(a_change_between_reading_and_arming_is_seen),
        TEST(a_disarmed_poll_is_not_woken),
        TEST(deletion_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
