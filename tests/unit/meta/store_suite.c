#include "store_suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "unit.h"

static const struct store_backend *backend;

static int fresh(void **state)
{
    backend->wipe();
    *state = backend->open();
    return 0;
}

static int closed(void **state)
{
    meta_store_close(*state);
    return 0;
}

static enum error put(struct meta_store *store, const char *key, int value, int64_t check, int64_t *ret_revision)
{
    struct meta_txn txn = {0};
    if (check >= META_PRESENT)
        meta_txn_check(&txn, key, check);
    meta_txn_put(&txn, key, json_integer(value));
    enum error error = meta_store_commit(store, &txn, ret_revision, NULL);
    meta_txn_fini(&txn);
    return error;
}
#define UNCHECKED (META_PRESENT - 1)

static int get(struct meta_store *store, const char *key, int64_t *ret_mod) /* -1: absent */
{
    json_t *value;
    enum error error = meta_store_get(store, key, &value, ret_mod);
    if (error == ERR_NOT_FOUND)
        return -1;
    assert_ok(error);
    int number = (int)json_integer_value(value);
    json_decref(value);
    return number;
}

static enum error list_key(void *arg, const char *key, json_t *value, int64_t mod)
{
    buf_printf(arg, "%s=%d@%d ", key, (int)json_integer_value(value), (int)mod);
    return OK;
}

static void assert_listing(struct meta_store *store, const char *prefix, const char *expected)
{
    struct buf text = {0};
    assert_ok(meta_store_list(store, prefix, list_key, &text));
    assert_string_equal(text.len > 0 ? buf_cstr(&text) : "", expected);
    buf_fini(&text);
}

static void test_revisions(void **state)
{
    int64_t revision, mod;
    assert_int_equal(meta_store_revision(*state), 0);
    assert_int_equal(get(*state, "a", NULL), -1);
    assert_ok(put(*state, "a", 1, UNCHECKED, &revision));
    assert_int_equal(revision, 1);
    assert_ok(put(*state, "b", 2, UNCHECKED, &revision));
    assert_int_equal(revision, 2);
    assert_int_equal(get(*state, "a", &mod), 1);
    assert_int_equal(mod, 1);
    assert_ok(put(*state, "a", 3, UNCHECKED, &revision));
    assert_int_equal(get(*state, "a", &mod), 3);
    assert_int_equal(mod, 3);
    assert_int_equal(meta_store_revision(*state), 3);
}

static void test_compare_and_set(void **state)
{
    static const struct {
        const char *key;
        int64_t check;
        enum error expected;
    } cases[] = {
        {"absent", 0, OK},           {"absent", META_PRESENT, ERR_CONFLICT},
        {"absent", 1, ERR_CONFLICT}, {"k", 0, ERR_CONFLICT},
        {"k", META_PRESENT, OK},     {"k", 1, OK},
        {"k", 2, ERR_CONFLICT},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        meta_store_close(*state);
        fresh(state);
        assert_ok(put(*state, "k", 7, UNCHECKED, NULL));
        assert_error(put(*state, cases[i].key, 8, cases[i].check, NULL), cases[i].expected);
        assert_int_equal(get(*state, "k", NULL), cases[i].expected == OK && cases[i].key[0] == 'k' ? 8 : 7);
        assert_int_equal(meta_store_revision(*state), cases[i].expected == OK ? 2 : 1);
    }
}

static void test_conflict_names_the_key(void **state)
{
    struct problem problem;
    struct meta_txn txn = {0};
    meta_txn_check(&txn, "topics/orders", 9);
    assert_error(meta_store_commit(*state, &txn, NULL, &problem), ERR_CONFLICT);
    assert_non_null(strstr(problem.message, "topics/orders"));
    meta_txn_fini(&txn);
}

static void test_a_transaction_is_all_or_nothing(void **state)
{
    struct meta_txn txn = {0};
    int64_t revision;
    assert_ok(put(*state, "d/1", 1, UNCHECKED, NULL));
    meta_txn_put(&txn, "a", json_integer(1));
    meta_txn_delete_prefix(&txn, "d/");
    meta_txn_check(&txn, "b", 5); /* fails, though it stands last */
    assert_error(meta_store_commit(*state, &txn, NULL, NULL), ERR_CONFLICT);
    assert_listing(*state, "", "d/1=1@1 ");
    meta_txn_fini(&txn);

    meta_txn_put(&txn, "a", json_integer(1));
    meta_txn_put(&txn, "a", json_integer(2)); /* the later one wins */
    meta_txn_delete_prefix(&txn, "d/");
    meta_txn_put(&txn, "d/2", json_integer(3));
    assert_ok(meta_store_commit(*state, &txn, &revision, NULL));
    assert_int_equal(revision, 2);
    assert_listing(*state, "", "a=2@2 d/2=3@2 ");
    meta_txn_fini(&txn);
}

static void test_prefixes_and_order(void **state)
{
    static const char *const keys[] = {"t/b", "t/a", "t", "t/a/1", "t0", "t/\xc3\xa9", "u", "s"};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        assert_ok(put(*state, keys[i], (int)i, UNCHECKED, NULL));
    assert_listing(*state, "t/", "t/a=1@2 t/a/1=3@4 t/b=0@1 t/\xc3\xa9=5@6 ");
    assert_listing(*state, "t/a", "t/a=1@2 t/a/1=3@4 ");
    assert_listing(*state, "v", "");
    struct meta_txn txn = {0};
    meta_txn_delete_prefix(&txn, "t/");
    assert_ok(meta_store_commit(*state, &txn, NULL, NULL));
    assert_listing(*state, "", "s=7@8 t=2@3 t0=4@5 u=6@7 ");
    meta_txn_fini(&txn);
}

static void test_nothing_to_do_takes_no_revision(void **state)
{
    struct meta_txn txn = {0};
    int64_t revision;
    assert_ok(put(*state, "a", 1, UNCHECKED, NULL));
    meta_txn_check(&txn, "a", 1);
    meta_txn_delete(&txn, "absent");
    meta_txn_delete_prefix(&txn, "absent/");
    assert_ok(meta_store_commit(*state, &txn, &revision, NULL));
    assert_int_equal(revision, 1);
    meta_txn_fini(&txn);
}

static enum error stop_at_b(void *arg, const char *key, json_t *value, int64_t mod)
{
    ++*(int *)arg;
    return strcmp(key, "b") == 0 ? ERR_CANCELLED : OK;
}

static void test_a_visit_may_stop_the_listing(void **state)
{
    int seen = 0;
    assert_ok(put(*state, "a", 1, UNCHECKED, NULL));
    assert_ok(put(*state, "b", 1, UNCHECKED, NULL));
    assert_ok(put(*state, "c", 1, UNCHECKED, NULL));
    assert_error(meta_store_list(*state, "", stop_at_b, &seen), ERR_CANCELLED);
    assert_int_equal(seen, 2);
    assert_ok(put(*state, "d", 1, UNCHECKED, NULL)); /* and nothing is left locked */
}

static void test_reopening(void **state)
{
    struct meta_txn txn = {0};
    meta_txn_put(&txn, "deep", json_pack("{s:[i,i], s:n, s:s}", "list", 1, 2, "nothing", "text", "\"\n\xc3\xa9"));
    assert_ok(meta_store_commit(*state, &txn, NULL, NULL));
    assert_ok(put(*state, "b", 2, UNCHECKED, NULL));
    meta_store_close(*state);
    *state = backend->open();
    json_t *value;
    assert_int_equal(meta_store_revision(*state), 2);
    assert_ok(meta_store_get(*state, "deep", &value, NULL));
    assert_true(json_equal(value, txn.ops[0].value));
    json_decref(value);
    meta_txn_fini(&txn);
    int64_t revision;
    assert_ok(put(*state, "b", 3, 2, &revision)); /* mod revisions hold across it */
    assert_int_equal(revision, 3);
}

/* ---- Watches ---- */

struct recorder {
    struct meta_watch watch;
    struct buf text;
};

static void record(struct meta_watch *watch, const struct meta_event *events, int count, int64_t revision)
{
    struct recorder *r = CONTAINER_OF(watch, struct recorder, watch);
    buf_printf(&r->text, "[%d:", (int)revision);
    for (int i = 0; i < count; i++)
        buf_printf(&r->text, events[i].value != NULL ? " %s=%d" : " -%s", events[i].key,
                   (int)json_integer_value(events[i].value));
    buf_printf(&r->text, "]");
}

static enum error record_initial(void *arg, const char *key, json_t *value, int64_t mod)
{
    buf_printf(&((struct recorder *)arg)->text, "(%s=%d)", key, (int)json_integer_value(value));
    return OK;
}

static void test_watches(void **state)
{
    struct recorder all = {.watch = {.prefix = "", .changed = record}};
    struct recorder topics = {.watch = {.prefix = "topics/", .changed = record}};
    assert_ok(put(*state, "topics/a", 1, UNCHECKED, NULL));
    assert_ok(put(*state, "other", 2, UNCHECKED, NULL));
    assert_ok(meta_store_watch(*state, &all.watch, NULL, NULL));
    assert_ok(meta_store_watch(*state, &topics.watch, record_initial, &topics));
    struct meta_txn txn = {0};
    meta_txn_put(&txn, "topics/b", json_integer(3));
    meta_txn_put(&txn, "x", json_integer(4));
    meta_txn_delete(&txn, "topics/a");
    assert_ok(meta_store_commit(*state, &txn, NULL, NULL));
    assert_ok(put(*state, "other", 5, UNCHECKED, NULL));
    assert_error(put(*state, "topics/b", 6, 0, NULL), ERR_CONFLICT); /* tells nobody */
    meta_store_unwatch(*state, &topics.watch);
    assert_ok(put(*state, "topics/c", 7, UNCHECKED, NULL));
    meta_store_unwatch(*state, &all.watch);
    assert_string_equal(buf_cstr(&topics.text), "(topics/a=1)[3: topics/b=3 -topics/a]");
    assert_string_equal(buf_cstr(&all.text), "[3: topics/b=3 x=4 -topics/a][4: other=5][5: topics/c=7]");
    buf_fini(&topics.text);
    buf_fini(&all.text);
    meta_txn_fini(&txn);
}

struct counter_watch {
    struct meta_watch watch;
    int64_t last_revision;
    int last_value, calls;
};

static void count_up(struct meta_watch *watch, const struct meta_event *events, int count, int64_t revision)
{
    struct counter_watch *w = CONTAINER_OF(watch, struct counter_watch, watch);
    assert_int_equal(count, 1);
    assert_true(revision == w->last_revision + 1);
    assert_int_equal(json_integer_value(events[0].value), w->last_value + 1);
    w->last_revision = revision;
    w->last_value++;
    w->calls++;
}

#define INCREMENTS 25

static void *increment_many(void *arg)
{
    struct meta_store *store = arg;
    for (int i = 0; i < INCREMENTS; i++) {
        enum error error;
        do {
            int64_t mod = 0;
            int value = get(store, "n", &mod);
            error = put(store, "n", value + 1, mod, NULL);
        } while (error == ERR_CONFLICT);
        assert_ok(error);
    }
    return NULL;
}

static void test_threads_lose_no_update_and_watches_see_them_in_order(void **state)
{
    struct counter_watch w = {.watch = {.prefix = "n", .changed = count_up}, .last_revision = 1};
    pthread_t threads[3];
    assert_ok(put(*state, "n", 0, UNCHECKED, NULL));
    assert_ok(meta_store_watch(*state, &w.watch, NULL, NULL));
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, increment_many, *state), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    meta_store_unwatch(*state, &w.watch);
    assert_int_equal(get(*state, "n", NULL), INCREMENTS * (int)ARRAY_SIZE(threads));
    assert_int_equal(w.calls, INCREMENTS * (int)ARRAY_SIZE(threads));
}

/* ---- From a loop ---- */

struct async {
    struct meta_write write;
    struct loop *loop;
    bool done;
};

static void async_done(struct meta_write *write)
{
    struct async *a = CONTAINER_OF(write, struct async, write);
    assert_true(loop_is_current(a->loop));
    a->done = true;
}

static void test_commit_from_a_loop(void **state)
{
    struct helpers *helpers;
    struct loop *loop;
    struct async a = {.write = {.done = async_done}};
    assert_ok(loop_create(CLOCK_SYSTEM, &loop));
    assert_ok(helpers_start(1, &helpers));
    a.loop = loop;
    meta_txn_put(&a.write.txn, "a", json_integer(5));
    meta_store_commit_async(*state, helpers, loop, &a.write);
    while (!a.done)
        loop_step(loop, -1);
    assert_ok(a.write.result);
    assert_int_equal(a.write.revision, 1);
    assert_int_equal(get(*state, "a", NULL), 5);
    helpers_stop(helpers);
    loop_destroy(loop);
}

int store_suite_run(const struct store_backend *b)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_revisions, fresh, closed),
        cmocka_unit_test_setup_teardown(test_compare_and_set, fresh, closed),
        cmocka_unit_test_setup_teardown(test_conflict_names_the_key, fresh, closed),
        cmocka_unit_test_setup_teardown(test_a_transaction_is_all_or_nothing, fresh, closed),
        cmocka_unit_test_setup_teardown(test_prefixes_and_order, fresh, closed),
        cmocka_unit_test_setup_teardown(test_nothing_to_do_takes_no_revision, fresh, closed),
        cmocka_unit_test_setup_teardown(test_a_visit_may_stop_the_listing, fresh, closed),
        cmocka_unit_test_setup_teardown(test_reopening, fresh, closed),
        cmocka_unit_test_setup_teardown(test_watches, fresh, closed),
        cmocka_unit_test_setup_teardown(test_threads_lose_no_update_and_watches_see_them_in_order, fresh, closed),
        cmocka_unit_test_setup_teardown(test_commit_from_a_loop, fresh, closed),
    };
    backend = b;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
