/* The calls on mirrors as clients make them: what they refuse and why, what patterns and filters choose, what list and describe tell. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "one_source.h"

static void add_topic(const char *name, int partitions)
{
    struct fake_topic *t = fake_topic_add(&source, name, partitions);
    for (int p = 0; p < partitions; p++)
        fake_append_plain(&source, t, p, 3, 0);
}

static void assert_has(struct str text, const char *part)
{
    char line[2000];
    snprintf(line, sizeof(line), "%.*s", STR_ARG(text));
    if (strstr(line, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", line, part);
}

/* ---- Create ---- */

static struct create_cluster_mirror_response *try_create(const char *name, const char *servers, const char *key,
                                                         const char *value)
{
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", source.port);
    struct create_cluster_mirror_request_config config[2] = {
        {STR("bootstrap.servers"), str_of(servers != NULL ? servers : address)},
        {str_of(key != NULL ? key : ""), str_of(value != NULL ? value : "")}};
    struct create_cluster_mirror_request request = {
        .mirror_name = str_of(name), .config = config, .config_n = key != NULL ? 2 : 1};
    return fixture_call(&f, API_CREATE_CLUSTER_MIRROR, &request);
}

static bool no_cluster_id(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)request;
    (void)arena;
    if (api_key == API_METADATA)
        ((struct metadata_response *)response)->cluster_id = str_of(arg);
    return true;
}

/* It offers Fetch up to 9 only: before leader epochs. */
static bool an_old_kafka(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    struct api_versions_response *r = response;
    (void)arg;
    (void)request;
    (void)arena;
    for (int32_t i = 0; api_key == API_API_VERSIONS && i < r->api_keys_n; i++)
        if (r->api_keys[i].api_key == API_FETCH)
            r->api_keys[i].max_version = 9;
    return true;
}

static bool hang_up_on_fetch(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)arg;
    (void)request;
    (void)response;
    (void)arena;
    return api_key != API_FETCH;
}

static void a_mirror_is_not_made_of_what_cannot_work(void **state)
{
    struct create_cluster_mirror_response *r;
    (void)state;
    r = try_create("no/good", NULL, NULL, NULL);
    assert_error(r->error_code, INVALID_CLUSTER_MIRROR_NAME);
    r = try_create("dr", NULL, "fetchers", "many");
    assert_error(r->error_code, INVALID_CONFIG);
    assert_has(r->error_message, "fetchers");
    r = try_create("dr", "127.0.0.1:1", NULL, NULL);
    assert_int_not_equal(r->error_code, OK);
    assert_has(r->error_message, "The source 127.0.0.1:1 cannot be used");
    assert_has(r->error_hint, "Check the address");
    r = try_create("dr", "no port here", NULL, NULL);
    assert_int_not_equal(r->error_code, OK);

    fake_bend(&source, no_cluster_id, f.cluster_id);
    r = try_create("dr", NULL, NULL, NULL);
    assert_error(r->error_code, INVALID_REQUEST);
    assert_has(r->error_message, "is this cluster itself");
    fake_bend(&source, no_cluster_id, (char[]){""});
    r = try_create("dr", NULL, NULL, NULL);
    assert_error(r->error_code, UNSUPPORTED_VERSION);
    assert_has(r->error_message, "gives no cluster id");
    fake_bend(&source, an_old_kafka, NULL);
    r = try_create("dr", NULL, NULL, NULL);
    assert_error(r->error_code, UNSUPPORTED_VERSION);
    assert_has(r->error_message, "The source is too old to be mirrored");
    assert_has(r->error_hint, "Apache Kafka 2.1 or newer");
    fake_bend(&source, hang_up_on_fetch, NULL);
    r = try_create("dr", NULL, NULL, NULL);
    assert_int_not_equal(r->error_code, OK);
    assert_has(r->error_message, "cannot be used");
    fake_bend(&source, NULL, NULL);

    struct list_cluster_mirrors_request list = {.include_topic_names = true};
    assert_int_equal(((struct list_cluster_mirrors_response *)fixture_call(&f, API_LIST_CLUSTER_MIRRORS, &list))->mirrors_n, 0);
    fixture_create(&f, "dr", &source, NULL);
    r = try_create("dr", NULL, NULL, NULL);
    assert_error(r->error_code, CLUSTER_MIRROR_ALREADY_EXISTS);
    assert_has(r->error_hint, "kagami mirror delete dr");
}

/* ---- Start ---- */

static struct start_mirror_topics_response *start(const char *mirror, const char *const *topics, const char *const *patterns)
{
    struct start_mirror_topics_request_topics names[8];
    struct str texts[8];
    struct start_mirror_topics_request request = {.mirror_name = str_of(mirror), .topics = names, .patterns = texts};
    for (; topics != NULL && topics[request.topics_n] != NULL; request.topics_n++)
        names[request.topics_n].topic_name = str_of(topics[request.topics_n]);
    for (; patterns != NULL && patterns[request.patterns_n] != NULL; request.patterns_n++)
        texts[request.patterns_n] = str_of(patterns[request.patterns_n]);
    return fixture_call(&f, API_START_MIRROR_TOPICS, &request);
}

static void patterns_choose_whole_names_and_never_internal_topics(void **state)
{
    static const char *const PATTERNS[] = {"pay.*", "__.*", "orders", NULL}, *const BAD[] = {"(", NULL},
                             *const NONE[] = {"nothing.*", NULL};
    static const char *const NAMES[] = {"payments", "payments", NULL};
    (void)state;
    add_topic("orders", 1);
    add_topic("orders-old", 1);
    add_topic("payments", 2);
    add_topic("__consumer_offsets", 1);
    fixture_create(&f, "dr", &source, NULL);
    struct start_mirror_topics_response *r = start("dr", NULL, BAD);
    assert_error(r->error_code, INVALID_REGULAR_EXPRESSION);
    assert_has(r->error_hint, "POSIX");
    static char longer[1100];
    memset(longer, 'a', sizeof(longer) - 1);
    r = start("dr", NULL, (const char *const[]){longer, NULL});
    assert_error(r->error_code, INVALID_REGULAR_EXPRESSION);
    r = start("dr", NULL, NONE);
    assert_error(r->error_code, UNKNOWN_TOPIC_OR_PARTITION);
    assert_has(r->error_message, "No topic of the source matches");
    r = start("dr", NAMES, PATTERNS);
    assert_int_equal(r->error_code, OK);
    assert_int_equal(r->topics_n, 2); /* each once */
    assert_str(r->topics[0].name, "payments");
    assert_int_equal(r->topics[0].partitions, 2);
    assert_str(r->topics[1].name, "orders");
    for (int i = 0; i < 2; i++)
        assert_error(r->topics[i].error_code, OK);
    fixture_await_end(&f, "payments", 1, 3);
}

static bool bent_topic(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)arena;
    struct metadata_response *r = response;
    if (api_key != API_METADATA || r->topics_n != 1 || ((const struct metadata_request *)request)->topics_n != 1)
        return true;
    switch (*(int *)arg) {
    case 0:
        r->topics[0].error_code = TOPIC_AUTHORIZATION_FAILED;
        break;
    case 1:
        r->topics[0].is_internal = true;
        break;
    default:
        r->topics[0].partitions_n = 0;
        break;
    }
    return true;
}

static void a_topic_that_cannot_be_mirrored_is_refused_with_the_reason(void **state)
{
    static const struct {
        int16_t error;
        const char *text;
    } CASES[] = {{TOPIC_AUTHORIZATION_FAILED, "The source answers TOPIC_AUTHORIZATION_FAILED"},
                 {INVALID_TOPIC_EXCEPTION, "is internal at the source"},
                 {INVALID_PARTITIONS, "has 0 partitions"}};
    static const char *const ORDERS[] = {"orders", NULL}, *const BAD_NAME[] = {"no/good", NULL};
    (void)state;
    add_topic("orders", 1);
    fixture_create(&f, "dr", &source, NULL);
    for (int i = 0; i < (int)ARRAY_SIZE(CASES); i++) {
        fake_bend(&source, bent_topic, &i);
        struct start_mirror_topics_response *r = start("dr", ORDERS, NULL);
        assert_int_equal(r->topics_n, 1);
        assert_error(r->topics[0].error_code, CASES[i].error);
        assert_has(r->topics[0].error_message, CASES[i].text);
    }
    fake_bend(&source, NULL, NULL);
    assert_error(start("dr", BAD_NAME, NULL)->topics[0].error_code, INVALID_TOPIC_EXCEPTION);
    fake_bend(&source, no_cluster_id, (char[]){"somebody-else"});
    struct start_mirror_topics_response *r = start("dr", ORDERS, NULL);
    assert_error(r->error_code, INCONSISTENT_CLUSTER_ID);
    assert_has(r->error_hint, "Make a new mirror");
    fake_bend(&source, hang_up_on_fetch, NULL);
    assert_int_not_equal(start("dr", ORDERS, NULL)->error_code, OK);
    fake_bend(&source, NULL, NULL);
    assert_error(start("dr", ORDERS, NULL)->topics[0].error_code, OK); /* nothing of all that stayed */
    fixture_await_end(&f, "orders", 0, 3);
}

/* ---- List, describe ---- */

static void list_and_describe_tell_what_there_is(void **state)
{
    static const char *const PATTERNS[] = {".*", NULL};
    (void)state;
    add_topic("orders", 2);
    add_topic("audit", 1);
    fixture_create(&f, "dr", &source, (const char *const[]){"fetchers", "2", NULL});
    fixture_create(&f, "backup", &source, NULL);
    assert_error(start("dr", NULL, PATTERNS)->error_code, OK);
    fixture_await_end(&f, "audit", 0, 3);
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    fixture_await_state(&f, "orders", 1, "MIRRORING");
    assert_error(fixture_stop_topic(&f, "dr", "audit")->topics[0].error_code, OK);

    struct list_cluster_mirrors_request list = {.include_topic_names = true};
    struct list_cluster_mirrors_response *l = fixture_call(&f, API_LIST_CLUSTER_MIRRORS, &list);
    assert_int_equal(l->mirrors_n, 2);
    assert_str(l->mirrors[0].mirror_name, "backup");
    assert_int_equal(l->mirrors[0].topic_count, 0);
    assert_int_equal(l->mirrors[0].states_n, 0);
    assert_str(l->mirrors[1].mirror_name, "dr");
    assert_str(l->mirrors[1].source_cluster_id, "source-cluster");
    assert_int_equal(l->mirrors[1].topic_count, 2);
    assert_str(l->mirrors[1].topic_names[0], "audit");
    assert_str(l->mirrors[1].topic_names[1], "orders");
    assert_int_equal(l->mirrors[1].states_n, 2);
    assert_str(l->mirrors[1].states[0].state, "MIRRORING");
    assert_int_equal(l->mirrors[1].states[0].count, 2);
    assert_str(l->mirrors[1].states[1].state, "STOPPED");
    assert_int_equal(l->mirrors[1].states[1].count, 1);
    list.include_topic_names = false;
    l = fixture_call(&f, API_LIST_CLUSTER_MIRRORS, &list);
    assert_true(l->mirrors[1].topic_names_n <= 0);

    struct str names[] = {STR("dr"), STR("other")};
    struct describe_cluster_mirrors_request_topics filter = {
        .topic_name = STR("orders"), .partitions = (int32_t[]){1}, .partitions_n = 1};
    struct describe_cluster_mirrors_request request = {
        .mirror_names = names, .mirror_names_n = 2, .topics = &filter, .topics_n = 1, .cluster_id = STR_NULL};
    struct describe_cluster_mirrors_response *d = fixture_call(&f, API_DESCRIBE_CLUSTER_MIRRORS, &request);
    assert_str(d->cluster_id, f.cluster_id);
    assert_int_equal(d->mirrors_n, 2);
    assert_int_equal(d->mirrors[0].topics_n, 1);
    assert_str(d->mirrors[0].topics[0].topic_name, "orders");
    assert_int_equal(d->mirrors[0].topics[0].partitions_n, 1);
    assert_int_equal(d->mirrors[0].topics[0].partitions[0].partition_index, 1);
    bool found = false;
    for (int32_t i = 0; i < d->mirrors[0].config_n; i++) {
        if (!str_is(d->mirrors[0].config[i].name, "fetchers"))
            continue;
        found = true;
        assert_str(d->mirrors[0].config[i].value, "2");
        assert_false(d->mirrors[0].config[i].is_default);
    }
    assert_true(found);
    assert_str(d->mirrors[1].mirror_name, "other");
    assert_error(d->mirrors[1].error_code, UNKNOWN_CLUSTER_MIRROR);
    assert_has(d->mirrors[1].error_hint, "kagami mirror list");

    request = (struct describe_cluster_mirrors_request){.mirror_names_n = -1, .topics_n = -1, .cluster_id = STR("elsewhere")};
    d = fixture_call(&f, API_DESCRIBE_CLUSTER_MIRRORS, &request);
    assert_int_equal(d->mirrors_n, 0);
    request.cluster_id = STR("source-cluster");
    d = fixture_call(&f, API_DESCRIBE_CLUSTER_MIRRORS, &request);
    assert_int_equal(d->mirrors_n, 2);
    assert_int_equal(d->mirrors[1].topics_n, 2);
    assert_non_null(d->mirrors[1].topics[0].partitions[0].stop_report); /* audit's */
    assert_int_equal(d->mirrors[1].topics[0].partitions[0].stop_report->log_end_offset, 4);
}

static void a_source_in_trouble_is_described(void **state)
{
    char text[600] = "";
    (void)state;
    add_topic("orders", 1);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
    fixture_await_end(&f, "orders", 0, 3);
    fake_source_stop(&source);
    struct describe_cluster_mirrors_request request = {.mirror_names_n = -1, .topics_n = -1};
    for (int i = 0; i < 1000 && text[0] == '\0'; i++) {
        struct describe_cluster_mirrors_response *d = fixture_call(&f, API_DESCRIBE_CLUSTER_MIRRORS, &request);
        assert_error(d->mirrors[0].error_code, OK); /* the answer is none */
        snprintf(text, sizeof(text), "%.*s", STR_ARG(d->mirrors[0].error_message));
        usleep(10000);
    }
    assert_non_null(strstr(text, "127.0.0.1"));
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    fake_source_start(&source, "source-cluster");
}

/* ---- Pause, resume, recover, delete ---- */

static struct pause_mirror_topics_response *act_on(int16_t key, const char *mirror, const char *const *topics)
{
    struct pause_mirror_topics_request_topics names[8];
    struct pause_mirror_topics_request request = {.mirror_name = str_of(mirror), .topics = names};
    for (; topics != NULL && topics[request.topics_n] != NULL; request.topics_n++)
        names[request.topics_n].topic_name = str_of(topics[request.topics_n]);
    return fixture_call(&f, key, &request); /* the three have the same form */
}

static void calls_on_topics_say_which_do_not_fit(void **state)
{
    static const char *const BOTH[] = {"orders", "orders", "elsewhere", NULL}, *const PATTERNS[] = {".*", NULL};
    static const int16_t KEYS[] = {API_PAUSE_MIRROR_TOPICS, API_RESUME_MIRROR_TOPICS, API_RECOVER_MIRROR_TOPICS};
    (void)state;
    add_topic("orders", 1);
    add_topic("audit", 1);
    fixture_create(&f, "dr", &source, NULL);
    assert_error(start("dr", NULL, PATTERNS)->error_code, OK);
    fixture_await_state(&f, "audit", 0, "MIRRORING");
    fixture_await_state(&f, "orders", 0, "MIRRORING");
    for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++) {
        struct pause_mirror_topics_response *none = act_on(KEYS[i], "none", NULL);
        assert_error(none->error_code, UNKNOWN_CLUSTER_MIRROR);
        assert_has(none->error_hint, "kagami mirror list");
    }
    struct pause_mirror_topics_response *r = act_on(API_PAUSE_MIRROR_TOPICS, "dr", BOTH);
    assert_int_equal(r->topics_n, 2);
    assert_error(r->topics[0].error_code, OK);
    assert_error(r->topics[1].error_code, TOPIC_NOT_IN_CLUSTER_MIRROR);
    assert_has(r->topics[1].error_hint, "kagami mirror describe dr");
    fixture_await_state(&f, "orders", 0, "PAUSED");
    r = act_on(API_PAUSE_MIRROR_TOPICS, "dr", NULL); /* all: those that it does not fit are left out */
    assert_int_equal(r->topics_n, 1);
    assert_str(r->topics[0].name, "audit");
    assert_error(fixture_act(&f, API_RECOVER_MIRROR_TOPICS, "dr", "orders"), INVALID_CLUSTER_MIRROR_STATE);
    assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
    for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
        assert_error(fixture_act(&f, KEYS[i], "dr", "orders"), INVALID_CLUSTER_MIRROR_STATE);
    r = act_on(API_RESUME_MIRROR_TOPICS, "dr", NULL);
    assert_int_equal(r->topics_n, 1);
    fixture_await_state(&f, "audit", 0, "MIRRORING");
}

static void a_mirror_is_deleted_when_its_topics_are_stopped(void **state)
{
    struct problem problem;
    struct delete_cluster_mirror_request request = {.mirror_name = STR("dr")};
    (void)state;
    add_topic("orders", 1);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
    fixture_await_end(&f, "orders", 0, 3);
    struct delete_cluster_mirror_response *r = fixture_call(&f, API_DELETE_CLUSTER_MIRROR, &request);
    assert_error(r->error_code, CLUSTER_MIRROR_NOT_EMPTY);
    assert_has(r->error_hint, "kagami mirror stop dr");
    assert_error(fixture_stop_topic(&f, "dr", "orders")->topics[0].error_code, OK);
    r = fixture_call(&f, API_DELETE_CLUSTER_MIRROR, &request);
    assert_error(r->error_code, OK);
    r = fixture_call(&f, API_DELETE_CLUSTER_MIRROR, &request);
    assert_error(r->error_code, UNKNOWN_CLUSTER_MIRROR);
    fixture_stop(&f, true);
    fixture_start(&f);
    assert_null(fixture_describe(&f, "orders", 0));      /* forgotten for good, */
    assert_ok(fixture_write(&f, "orders", 0, &problem)); /* and the topic is an ordinary one */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_mirror_is_not_made_of_what_cannot_work),
        TEST(patterns_choose_whole_names_and_never_internal_topics),
        TEST(a_topic_that_cannot_be_mirrored_is_refused_with_the_reason),
        TEST(list_and_describe_tell_what_there_is),
        TEST(a_source_in_trouble_is_described),
        TEST(calls_on_topics_say_which_do_not_fit),
        TEST(a_mirror_is_deleted_when_its_topics_are_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
