/* The SQLite backend: the common suite, then what only a file can do to it. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "meta_temp.h"
#include "os/file.h"
#include "store_suite.h"
#include "unit.h"

static struct meta_store *open_store(void)
{
    struct meta_store *store;
    struct problem problem;
    char *path = temp_path("metadata.db");
    assert_ok(meta_store_open_sqlite(path, &store, &problem));
    mem_free(path);
    return store;
}

static void wipe(void)
{
    temp_remove();
}

static enum error put(struct meta_store *store, const char *key, int value)
{
    struct meta_txn txn = {0};
    meta_txn_put(&txn, key, json_integer(value));
    enum error error = meta_store_commit(store, &txn, NULL, NULL);
    meta_txn_fini(&txn);
    return error;
}

static void assert_refused(enum error expected, const char *in_message)
{
    struct meta_store *store;
    struct problem problem = {0};
    char *path = temp_path("metadata.db");
    assert_error(meta_store_open_sqlite(path, &store, &problem), expected);
    assert_non_null(strstr(problem.message, path));
    assert_non_null(strstr(problem.message, in_message));
    assert_true(problem.hint[0] != '\0');
    mem_free(path);
}

static void run_sql(const char *sql)
{
    sqlite3 *db;
    char *path = temp_path("metadata.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    mem_free(path);
}

static void test_newer_version(void **state)
{
    wipe();
    meta_store_close(open_store());
    run_sql("UPDATE meta SET value = 2 WHERE name = 'schema'");
    assert_refused(ERR_UNSUPPORTED, "newer version");
}

static void test_another_program_s_file(void **state)
{
    wipe();
    run_sql("CREATE TABLE t (a)");
    assert_refused(ERR_CORRUPT, "no metadata store");
}

static void overwrite(const char *name, uint64_t pos, size_t len, uint8_t byte)
{
    struct file *f;
    char *path = temp_path(name);
    uint8_t *bytes = mem_alloc(len);
    memset(bytes, byte, len);
    assert_ok(fs_open(fs_system(), path, FILE_WRITE | FILE_CREATE, &f));
    assert_ok(file_pwrite(f, bytes, len, pos));
    file_close(f);
    mem_free(bytes);
    mem_free(path);
}

static void test_damaged_files(void **state)
{
    static const struct {
        uint64_t pos;
        size_t len;
        uint8_t byte;
    } cases[] = {
        {0, 100, 'x'},      /* the header */
        {100, 3996, 0xff},  /* the first page: the schema */
        {4096, 4096, 0xee}, /* a table's root page */
        {8192, 4096, 0xee},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        wipe();
        struct meta_store *store = open_store();
        for (int k = 0; k < 50; k++) {
            char key[32];
            snprintf(key, sizeof(key), "key-%d", k);
            assert_ok(put(store, key, k));
        }
        meta_store_close(store);
        overwrite("metadata.db", cases[i].pos, cases[i].len, cases[i].byte);
        assert_refused(ERR_CORRUPT, "metadata store");
    }
}

static void test_a_file_that_is_no_database(void **state)
{
    wipe();
    overwrite("metadata.db", 0, 8192, 'q');
    assert_refused(ERR_CORRUPT, "metadata store");
}

static void test_a_value_that_is_no_json(void **state)
{
    json_t *value;
    wipe();
    meta_store_close(open_store());
    run_sql("INSERT INTO kv VALUES ('bad', '{\"a\":', 1)");
    struct meta_store *store = open_store();
    assert_error(meta_store_get(store, "bad", &value, NULL), ERR_CORRUPT);
    meta_store_close(store);
}

static void test_a_folder_that_is_missing(void **state)
{
    struct meta_store *store;
    struct problem problem;
    assert_error(meta_store_open_sqlite("/nowhere/at/all/metadata.db", &store, &problem), ERR_IO);
    assert_non_null(strstr(problem.message, "/nowhere/at/all/metadata.db"));
}

/* What an acknowledged commit wrote is there after kill -9, and a commit in flight is there as a whole or not. */
static void test_killed_while_writing(void **state)
{
    wipe();
    meta_store_close(open_store());
    for (int round = 0; round < 5; round++) {
        int acknowledged[2];
        assert_int_equal(pipe(acknowledged), 0);
        pid_t child = fork();
        if (child == 0) {
            struct meta_store *store = open_store();
            for (int i = 1;; i++) {
                struct meta_txn txn = {0};
                meta_txn_put(&txn, "first", json_integer(i));
                meta_txn_put(&txn, "second", json_integer(i));
                if (meta_store_commit(store, &txn, NULL, NULL) != OK || write(acknowledged[1], &i, sizeof(i)) != sizeof(i))
                    _exit(1);
                meta_txn_fini(&txn);
            }
        }
        int last = 0;
        for (int i = 0; i < 10; i++)
            assert_int_equal(read(acknowledged[0], &last, sizeof(last)), sizeof(last));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(acknowledged[1]);
        while (read(acknowledged[0], &last, sizeof(last)) == sizeof(last)) { /* what was acknowledged before the kill */
        }
        close(acknowledged[0]);
        struct meta_store *store = open_store();
        json_t *first, *second;
        assert_ok(meta_store_get(store, "first", &first, NULL));
        assert_ok(meta_store_get(store, "second", &second, NULL));
        assert_int_equal(json_integer_value(first), json_integer_value(second));
        assert_true(json_integer_value(first) >= last);
        json_decref(first);
        json_decref(second);
        meta_store_close(store);
    }
}

static int value_of(struct meta_store *store, const char *key)
{
    json_t *value;
    assert_ok(meta_store_get(store, key, &value, NULL));
    int number = (int)json_integer_value(value);
    json_decref(value);
    return number;
}

/* The disk refuses in the middle of a commit: nothing of it is there, and nothing more is taken before the next start. */
static void test_a_write_that_fails(void **state)
{
    struct rlimit limit, small;
    struct problem problem;
    struct meta_txn txn = {0};
    char *large = mem_alloc(2 * 1024 * 1024);
    memset(large, 'x', 2 * 1024 * 1024 - 1);
    large[2 * 1024 * 1024 - 1] = '\0';
    wipe();
    struct meta_store *store = open_store();
    assert_ok(put(store, "a", 1));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 256 * 1024;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    meta_txn_put(&txn, "a", json_integer(2));
    meta_txn_put(&txn, "large", json_string(large));
    assert_error(meta_store_commit(store, &txn, NULL, &problem), ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_non_null(strstr(problem.message, "metadata.db"));
    assert_int_equal(value_of(store, "a"), 1);
    assert_int_equal(meta_store_revision(store), 1);
    assert_error(put(store, "b", 3), ERR_IO); /* though it would work again */
    meta_store_close(store);
    store = open_store();
    assert_int_equal(value_of(store, "a"), 1);
    assert_ok(put(store, "b", 3));
    assert_int_equal(meta_store_revision(store), 2);
    meta_store_close(store);
    meta_txn_fini(&txn);
    mem_free(large);
}

/* An operator may read the file with SQLite's own shell while the broker runs. */
static void test_readable_beside_us(void **state)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    char *path = temp_path("metadata.db");
    wipe();
    mem_free(path);
    struct meta_store *store = open_store();
    path = temp_path("metadata.db");
    assert_ok(put(store, "a", 5));
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT value FROM kv WHERE key = 'a'", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(stmt, 0), "5");
    assert_ok(put(store, "a", 6)); /* and does not hold up a write */
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    meta_store_close(store);
    mem_free(path);
}

int main(void)
{
    static const struct store_backend backend = {.open = open_store, .wipe = wipe};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newer_version),           cmocka_unit_test(test_another_program_s_file),
        cmocka_unit_test(test_damaged_files),           cmocka_unit_test(test_a_file_that_is_no_database),
        cmocka_unit_test(test_a_value_that_is_no_json), cmocka_unit_test(test_a_folder_that_is_missing),
        cmocka_unit_test(test_killed_while_writing),    cmocka_unit_test(test_a_write_that_fails),
        cmocka_unit_test(test_readable_beside_us),
    };
    int failed = store_suite_run(&backend);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    temp_remove();
    return failed;
}
