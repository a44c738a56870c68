/* What a source may answer that makes no sense or is meant to do harm: it costs its own mirror at most, the partition says why, and an honest answer later goes on where it stood. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codec/record_batch.h"
#include "one_source.h"

static struct fake_topic *topic;

static int setup(void **state)
{
    fixture_setup(state);
    topic = fake_topic_add(&source, "orders", 2);
    fake_append_plain(&source, topic, 0, 3, 0);
    fake_append_plain(&source, topic, 1, 3, 0);
    return 0;
}

static void begin_mirror(void)
{
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
}

static void mirrored(void)
{
    begin_mirror();
    fixture_await_end(&f, "orders", 0, 3);
    fixture_await_end(&f, "orders", 1, 3);
}

/* Until describe shows this in the text of partition 0's trouble. */
static const struct describe_cluster_mirrors_response_mirrors_topics_partitions *await_trouble(const char *text)
{
    char seen[2000] = "";
    for (int i = 0; i < 1000; i++) {
        const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
        snprintf(seen, sizeof(seen), "%.*s", STR_ARG(d->error_message));
        if (strstr(seen, text) != NULL)
            return d;
        usleep(10000);
    }
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", 0);
    fail_msg("the trouble of orders-0, %.*s, is \"%s\" and not \"%s\"", STR_ARG(d->state), seen, text);
    return NULL;
}

/* Honest again: both partitions take what is new, byte for byte. */
static void goes_on(int64_t first_end, int64_t second_end)
{
    fake_bend(&source, NULL, NULL);
    fake_append_plain(&source, topic, 0, 2, 0);
    fake_append_plain(&source, topic, 1, 2, 0);
    fixture_await_end(&f, "orders", 0, first_end);
    fixture_await_end(&f, "orders", 1, second_end);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    for (int p = 0; p < 2; p++) {
        struct buf here = {0};
        fixture_read(&f, "orders", p, &here);
        assert_int_equal(here.len, topic->partitions[p].log.len);
        assert_memory_equal(here.data, topic->partitions[p].log.data, here.len);
        buf_fini(&here);
    }
}

/* ---- Answers to Fetch ---- */

/* The partition of a Fetch answer; NULL when it is not in there. */
static struct fetch_response_responses_partitions *part_of(struct fetch_response *r, int32_t index)
{
    for (int32_t t = 0; t < r->responses_n; t++)
        for (int32_t p = 0; p < r->responses[t].partitions_n; p++)
            if (r->responses[t].partitions[p].partition_index == index)
                return &r->responses[t].partitions[p];
    return NULL;
}

/* Besides what was asked for: the same once more, partitions with other numbers, and a topic that nobody asked for, all with records. */
static bool more_than_asked(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    static const int32_t OTHERS[] = {0, 1, -1, INT32_MIN, 2, 99, INT32_MAX};
    struct fetch_response *r = response;
    (void)arg;
    (void)request;
    struct fetch_response_responses_partitions *p = api_key == API_FETCH ? part_of(r, 0) : NULL;
    if (p == NULL)
        return true;
    int32_t n = (int32_t)ARRAY_SIZE(OTHERS), asked = r->responses[0].partitions_n;
    struct fetch_response_responses *topics = fetch_response_responses_new(arena, 2);
    topics[0] = topics[1] = r->responses[0];
    topics[0].partitions = fetch_response_responses_partitions_new(arena, asked + n);
    memcpy(topics[0].partitions, r->responses[0].partitions, (size_t)asked * sizeof(*p));
    for (int32_t i = 0; i < n; i++) {
        topics[0].partitions[asked + i] = *p;
        topics[0].partitions[asked + i].partition_index = OTHERS[i];
    }
    topics[0].partitions_n += n;
    topics[1].topic = STR("payments");
    memset(topics[1].topic_id.b, 0x77, sizeof(topics[1].topic_id.b));
    r->responses = topics;
    r->responses_n = 2;
    return true;
}

static void what_was_not_asked_for_is_passed_over(void **state)
{
    (void)state;
    fake_bend(&source, more_than_asked, NULL);
    mirrored();
    fake_append_plain(&source, topic, 0, 2, 0);
    fixture_await_end(&f, "orders", 0, 5);
    goes_on(7, 5);
}

/* Partition 0 of a Fetch answer; put in when it is not there, for in a session only what changed is. */
static struct fetch_response_responses_partitions *part_or_new(struct fetch_response *r, struct arena *arena)
{
    struct fetch_response_responses_partitions *p = part_of(r, 0);
    if (p != NULL)
        return p;
    struct fetch_response_responses *topics = fetch_response_responses_new(arena, r->responses_n + 1);
    for (int32_t i = 0; i < r->responses_n; i++)
        topics[i] = r->responses[i];
    if (source.fetch_max >= 13)
        topics[r->responses_n].topic_id = topic->id;
    else
        topics[r->responses_n].topic = str_of(topic->name);
    p = topics[r->responses_n].partitions = fetch_response_responses_partitions_new(arena, 1);
    topics[r->responses_n].partitions_n = 1;
    p->high_watermark = p->last_stable_offset = p->log_start_offset = -1;
    p->aborted_transactions_n = -1;
    r->responses = topics;
    r->responses_n++;
    return p;
}

static bool one_error(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    if (api_key == API_FETCH && ((const struct fetch_request *)request)->max_bytes > 0) {
        struct fetch_response_responses_partitions *p = part_or_new(response, arena);
        p->error_code = *(int16_t *)arg;
        p->records = (struct records){0};
    }
    return true;
}

static void errors_of_one_partition_leave_the_other_copying(void **state)
{
    static const struct {
        int16_t code;
        const char *state;
        const char *hint; /* NULL: any */
    } CASES[] = {
        {NOT_LEADER_OR_FOLLOWER, "MIRRORING", NULL},
        {KAFKA_STORAGE_ERROR, "MIRRORING", NULL},
        {TOPIC_AUTHORIZATION_FAILED, "FAILED", "Allow this cluster to read"},
        {CORRUPT_MESSAGE, "FAILED", "damage in its own log"},
        {UNKNOWN_SERVER_ERROR, "FAILED", "Look at the source"},
        {12345, "FAILED", "Look at the source"},
    };
    (void)state;
    source.no_sessions = true; /* partition 0 is in every answer */
    mirrored();
    int64_t end = 3;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        int16_t code = CASES[i].code;
        char hint[500];
        fake_bend(&source, one_error, &code);
        fake_append_plain(&source, topic, 1, 1, 0);
        fixture_await_end(&f, "orders", 1, end + 1);
        char trouble[100];
        snprintf(trouble, sizeof(trouble), "The source answers %s for orders-0", error_name(code));
        const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = await_trouble(trouble);
        snprintf(hint, sizeof(hint), "%.*s", STR_ARG(d->error_hint));
        if (CASES[i].hint != NULL && strstr(hint, CASES[i].hint) == NULL)
            fail_msg("error %d: the hint is \"%s\"", code, hint);
        if (strcmp(CASES[i].state, "FAILED") == 0)
            fixture_await_state(&f, "orders", 0, "FAILED");
        else
            assert_true(str_is(d->state, CASES[i].state));
        fake_bend(&source, NULL, NULL);
        fake_append_plain(&source, topic, 0, 1, 0);
        fixture_await_end(&f, "orders", 0, ++end);
    }
    goes_on(end + 2, end + 2);
}

static bool answer_error(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)request;
    (void)arena;
    if (api_key == API_FETCH) {
        struct fetch_response *r = response;
        r->error_code = *(int16_t *)arg;
        r->responses_n = 0;
    }
    return true;
}

static void a_lost_session_begins_anew_and_other_errors_of_an_answer_are_told(void **state)
{
    int16_t code = FETCH_SESSION_ID_NOT_FOUND;
    (void)state;
    mirrored();
    fake_bend(&source, answer_error, &code);
    int before = fake_fetches(&source);
    while (fake_fetches(&source) < before + 5)
        usleep(1000);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    goes_on(5, 5);
    code = CLUSTER_AUTHORIZATION_FAILED;
    fake_bend(&source, answer_error, &code);
    await_trouble("CLUSTER_AUTHORIZATION_FAILED");
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    goes_on(7, 7);
}

static bool hang_up(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)request;
    (void)response;
    (void)arena;
    return api_key != *(int16_t *)arg;
}

static void a_source_that_hangs_up_is_asked_again(void **state)
{
    static int16_t key;
    (void)state;
    mirrored();
    int64_t end = 3;
    static const int16_t KEYS[] = {API_FETCH, API_METADATA, API_API_VERSIONS};
    for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++) {
        key = KEYS[i];
        fake_bend(&source, hang_up, &key);
        usleep(300000); /* time to be met by it; whether it was changes nothing of what follows */
        fixture_await_state(&f, "orders", 0, "MIRRORING");
        goes_on(end + 2, end + 2);
        end += 2;
    }
}

/* ---- Batches ---- */

struct edit {
    int64_t offset; /* of the batch */
    void (*change)(uint8_t *batch);
};

static bool edit_batch(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    const struct edit *e = arg;
    (void)request;
    struct fetch_response_responses_partitions *p = api_key == API_FETCH ? part_of(response, 0) : NULL;
    if (p == NULL || p->records.len == 0)
        return true;
    uint8_t *copy = arena_calloc(arena, (size_t)p->records.len, 1);
    memcpy(copy, p->records.p, (size_t)p->records.len);
    p->records.p = copy;
    for (int64_t pos = 0; pos + BATCH_OVERHEAD <= p->records.len; pos += batch_size_bytes(copy + pos)) {
        if (batch_base_offset(copy + pos) == e->offset) {
            e->change(copy + pos);
            break;
        }
    }
    return true;
}

static void set_last_epoch(uint8_t *batch)
{
    batch_set_leader_epoch(batch, INT32_MAX);
}

static void set_last_producer_id(uint8_t *batch)
{
    put_i64(batch + 43, INT64_MAX);
    batch_update_crc(batch);
}

static void set_old_magic(uint8_t *batch)
{
    batch[16] = 1;
}

static void set_lower_offset(uint8_t *batch)
{
    batch_set_base_offset(batch, batch_base_offset(batch) - 1);
}

static void set_last_offset(uint8_t *batch)
{
    batch_set_base_offset(batch, INT64_MAX);
}

static void set_size_beyond(uint8_t *batch)
{
    put_i32(batch + 8, INT32_MAX);
}

static void impossible_batches_are_not_stored_and_named(void **state)
{
    static const struct {
        void (*change)(uint8_t *batch);
        const char *trouble;
    } CASES[] = {
        {set_last_epoch, "no leader epoch is left above its own"},
        {set_last_producer_id, "no producer id is left above its own"},
        {set_old_magic, "holds an old message format at offset 3"},
        {set_lower_offset, "reaches over our end 3"},
        {set_last_offset, "The source sent a damaged batch of orders-0"},
    };
    (void)state;
    mirrored();
    int64_t end = 3;
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        char trouble[100];
        struct edit edit = {end, CASES[i].change};
        fake_bend(&source, edit_batch, &edit);
        fake_append_plain(&source, topic, 0, 2, 0);
        snprintf(trouble, sizeof(trouble), "%s", CASES[i].trouble);
        char *number = strstr(trouble, " 3");
        if (number != NULL)
            snprintf(number, sizeof(trouble) - (size_t)(number - trouble), " %lld", (long long)end);
        await_trouble(trouble);
        fixture_await_state(&f, "orders", 0, "FAILED");
        assert_int_equal(fixture_describe(&f, "orders", 0)->destination_offset, end);
        fake_bend(&source, NULL, NULL);
        assert_error(fixture_act(&f, API_RECOVER_MIRROR_TOPICS, "dr", "orders"), OK);
        fixture_await_end(&f, "orders", 0, end + 2);
        end += 2;
    }
    goes_on(end + 2, 5);
}

/* A batch that is announced larger than the answer is asked for again with more room, and never taken. */
static void a_batch_without_its_end_is_asked_for_again(void **state)
{
    struct edit edit = {3, set_size_beyond};
    (void)state;
    mirrored();
    fake_bend(&source, edit_batch, &edit);
    fake_append_plain(&source, topic, 0, 2, 0);
    int before = fake_fetches(&source);
    while (fake_fetches(&source) < before + 5)
        usleep(1000);
    assert_int_equal(fixture_describe(&f, "orders", 0)->destination_offset, 3);
    goes_on(7, 5);
}

/* ---- Where a log starts, and where its epochs end ---- */

enum nonsense { NOTHING, NO_PARTITION, AN_ERROR, NEGATIVE, FALLING_EPOCHS };

static bool senseless_offsets(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)request;
    (void)arena;
    struct list_offsets_response *r = response;
    if (api_key != API_LIST_OFFSETS || r->topics_n == 0) /* the start's look asks for none */
        return true;
    switch (*(enum nonsense *)arg) {
    case NOTHING:
        r->topics_n = 0;
        break;
    case NO_PARTITION:
        r->topics[0].partitions_n = 0;
        break;
    case AN_ERROR:
        r->topics[0].partitions[0].error_code = UNKNOWN_SERVER_ERROR;
        break;
    default:
        r->topics[0].partitions[0].offset = -5;
        break;
    }
    return true;
}

static void a_source_that_does_not_say_where_a_log_begins_is_asked_again(void **state)
{
    (void)state;
    for (enum nonsense n = NOTHING; n <= NEGATIVE; n++) {
        enum nonsense now = n;
        fake_bend(&source, senseless_offsets, &now);
        if (n == NOTHING)
            begin_mirror();
        else
            fixture_start_topic(&f, "dr", "orders", true);
        await_trouble("The source did not say where orders-0 begins");
        fixture_await_state(&f, "orders", 0, "PREPARING");
        fake_bend(&source, NULL, NULL);
        fixture_await_end(&f, "orders", 0, 3);
        fixture_await_state(&f, "orders", 0, "MIRRORING");
        if (n < NEGATIVE)
            assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
    }
    goes_on(5, 5);
}

/* OFFSET_OUT_OF_RANGE for partition 0, then offsets that make no sense. */
static bool out_of_range(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    int16_t code = OFFSET_OUT_OF_RANGE;
    one_error(&code, api_key, request, response, arena);
    return senseless_offsets(arg, api_key, request, response, arena);
}

static void a_source_that_refuses_an_offset_and_does_not_say_why_loses_nothing_here(void **state)
{
    (void)state;
    source.no_sessions = true; /* partition 0 is in every answer */
    mirrored();
    for (enum nonsense n = NOTHING; n <= NEGATIVE; n++) {
        enum nonsense now = n;
        fake_bend(&source, out_of_range, &now);
        await_trouble("the source does not tell where its log starts");
        fixture_await_state(&f, "orders", 0, "MIRRORING");
        goes_on(5 + 2 * (int64_t)n, 5 + 2 * (int64_t)n);
    }
}

static bool senseless_epochs(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    int16_t code = OFFSET_OUT_OF_RANGE;
    one_error(&code, api_key, request, response, arena);
    struct offset_for_leader_epoch_response *r = response;
    if (api_key != API_OFFSET_FOR_LEADER_EPOCH || r->topics_n == 0)
        return true;
    switch (*(enum nonsense *)arg) {
    case NOTHING:
        r->topics_n = 0;
        break;
    case NO_PARTITION:
        r->topics[0].partitions_n = 0;
        break;
    case AN_ERROR:
        r->topics[0].partitions[0].error_code = FENCED_LEADER_EPOCH;
        break;
    default: /* all is well at the source, it says, but it does not take our offset */
        break;
    }
    return true;
}

static void a_source_that_does_not_tell_its_epochs_loses_nothing_here(void **state)
{
    static const char *const TROUBLES[] = {"answer to OffsetForLeaderEpoch makes no sense",
                                           "answer to OffsetForLeaderEpoch makes no sense", "does not tell its leader epochs",
                                           "does not answer for our end yet"};
    (void)state;
    source.no_sessions = true; /* partition 0 is in every answer */
    mirrored();
    for (enum nonsense n = NOTHING; n <= NEGATIVE; n++) {
        enum nonsense now = n;
        fake_bend(&source, senseless_epochs, &now);
        await_trouble(TROUBLES[n]);
        fixture_await_state(&f, "orders", 0, "MIRRORING");
        goes_on(5 + 2 * (int64_t)n, 5 + 2 * (int64_t)n);
    }
}

/* ---- Who it is ---- */

/* To fetchers, who ask for no topic; those that are connected already are cut off. */
static bool another_cluster(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)arg;
    (void)arena;
    if (api_key == API_METADATA && ((const struct metadata_request *)request)->topics_n == 0)
        ((struct metadata_response *)response)->cluster_id = STR("somebody-else");
    return api_key != API_FETCH;
}

static void a_broker_of_another_cluster_is_not_copied_from(void **state)
{
    (void)state;
    mirrored();
    fake_bend(&source, another_cluster, NULL);
    await_trouble("answers for the cluster somebody-else");
    int before = fake_fetches(&source);
    usleep(200000);
    assert_int_equal(fake_fetches(&source), before);
    goes_on(5, 5);
}

static void a_leader_that_is_no_broker_is_waited_for(void **state)
{
    (void)state;
    mirrored();
    fixture_stop(&f, true);
    fake_bend_leaders(&source, 99); /* no broker */
    fixture_start(&f);
    usleep(300000); /* some refreshes */
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    assert_int_equal(fixture_describe(&f, "orders", 0)->destination_offset, 3);
    goes_on(5, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_not_asked_for_is_passed_over),
        TEST(errors_of_one_partition_leave_the_other_copying),
        TEST(a_lost_session_begins_anew_and_other_errors_of_an_answer_are_told),
        TEST(a_source_that_hangs_up_is_asked_again),
        TEST(impossible_batches_are_not_stored_and_named),
        TEST(a_batch_without_its_end_is_asked_for_again),
        TEST(a_source_that_does_not_say_where_a_log_begins_is_asked_again),
        TEST(a_source_that_refuses_an_offset_and_does_not_say_why_loses_nothing_here),
        TEST(a_source_that_does_not_tell_its_epochs_loses_nothing_here),
        TEST(a_broker_of_another_cluster_is_not_copied_from),
        TEST(a_leader_that_is_no_broker_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
