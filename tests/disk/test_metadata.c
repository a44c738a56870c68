/* The metadata store on a disk that fails: SQLite as we set it up, over the simulated disk. What a commit acknowledged is there, a commit is there whole or not at all, a full disk passes.
 * See README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "meta/store.h"
#include "seeds.h"
#include "sim_sqlite.h"

#define KEYS 6

static struct sim_disk disk;
static struct seeded_random randomness;

/* In place of os/file_system.c: whoever asks for the system's files gets the simulated disk. */
struct fs *fs_system(void)
{
    return &disk.fs;
}

struct world {
    uint64_t seed;
    struct meta_store *store;
    int64_t acknowledged, tried; /* every commit gives all keys its number */
    enum trouble trouble;
};

static uint64_t pick(uint64_t bound)
{
    return random_below(&randomness.source, bound);
}

#define wrong(w, ...)                                                                                                            \
    do {                                                                                                                         \
        print_error("seed %" PRIu64 " (%s), failed at %s: ", (w)->seed, trouble_text((w)->trouble), disk.failed_path);           \
        fail_msg(__VA_ARGS__);                                                                                                   \
    } while (0)

static enum error commit(struct world *w, struct problem *problem)
{
    struct meta_txn txn = {0};
    char key[32];
    w->tried++;
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "topics/t%d", i);
        char *text = mem_calloc(1, 1500);
        memset(text, 'x', (size_t)pick(1400));
        meta_txn_put(&txn, key, json_pack("{s:I,s:s}", "number", (json_int_t)w->tried, "text", text));
        mem_free(text);
    }
    enum error error = meta_store_commit(w->store, &txn, NULL, problem);
    meta_txn_fini(&txn);
    if (getenv("SIM_DISK_TRACE") != NULL)
        fprintf(stderr, "commit %" PRId64 ": %s\n", w->tried, error_name(error));
    if (error == OK)
        w->acknowledged = w->tried;
    return error;
}

static void check(struct world *w)
{
    int64_t first = -1;
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        json_t *value = NULL;
        snprintf(key, sizeof(key), "topics/t%d", i);
        enum error error = meta_store_get(w->store, key, &value, NULL);
        int64_t number = error == OK ? json_integer_value(json_object_get(value, "number")) : 0;
        json_decref(value);
        if (error != OK && error != ERR_NOT_FOUND)
            wrong(w, "%s cannot be read: %s", key, error_name(error));
        first = i == 0 ? number : first;
        if (number != first)
            wrong(w, "half of commit %" PRId64 " is there, and half of %" PRId64, first, number);
    }
    if (first < w->acknowledged || first > w->tried)
        wrong(w, "commit %" PRId64 " is there; acknowledged was %" PRId64 " of %" PRId64, first, w->acknowledged, w->tried);
    w->acknowledged = w->tried = first;
}

static void prepare(struct world *w, enum trouble trouble, uint64_t at)
{
    w->trouble = trouble;
    if (trouble == TROUBLE_FULL)
        disk.capacity_bytes = disk.used_bytes + at - 1;
    else if (trouble == TROUBLE_SYNC)
        sim_disk_fail(&disk, SIM_SYNC | SIM_SYNC_DIR, at, ERR_IO, false);
    else if (trouble != TROUBLE_NONE)
        sim_disk_fail(&disk, trouble == TROUBLE_NO_SPACE ? SIM_WRITE : SIM_CHANGES, at,
                      trouble == TROUBLE_NO_SPACE ? ERR_NO_SPACE : ERR_IO, trouble <= TROUBLE_KILL);
}

static void arm(struct world *w, uint64_t operations)
{
    enum trouble trouble = (enum trouble)pick(TROUBLE_NONE + 1);
    uint64_t most = trouble == TROUBLE_FULL ? 60000 : trouble == TROUBLE_SYNC ? operations / 4 : operations;
    prepare(w, trouble, trouble == TROUBLE_NONE ? 0 : 1 + pick(most));
}

static void end(struct world *w)
{
    meta_store_close(w->store);
    w->store = NULL;
    if (w->trouble == TROUBLE_POWER || (w->trouble != TROUBLE_KILL && pick(2) == 0))
        sim_disk_power_cut(&disk);
    else
        sim_disk_heal(&disk);
    disk.capacity_bytes = 0;
}

/* The first tries may have trouble of their own. */
static void start(struct world *w, int troubled)
{
    for (int tries = 0;; tries++) {
        struct problem problem = {0};
        w->trouble = TROUBLE_NONE;
        if (tries < troubled && pick(3) == 0)
            arm(w, 20);
        enum error error = meta_store_open_sqlite("/data/metadata.db", &w->store, &problem);
        if (error == OK && !sim_disk_has_failed(&disk))
            break;
        if (error != OK && !sim_disk_has_failed(&disk) && w->trouble != TROUBLE_FULL)
            wrong(w, "needs a hand to start: %s (%s)", problem.message, problem.detail);
        if (error != OK && problem.message[0] == '\0')
            wrong(w, "fails to start without a word");
        if (error != OK)
            w->store = NULL;
        end(w);
    }
    sim_disk_heal(&disk);
    disk.capacity_bytes = 0;
    check(w);
}

static void live(struct world *w, int commits)
{
    bool out = false;
    for (int i = 0; i < commits && !(w->trouble <= TROUBLE_KILL && sim_disk_has_failed(&disk)); i++) {
        struct problem problem = {0};
        enum error error = commit(w, &problem);
        if (error != OK && problem.message[0] == '\0')
            wrong(w, "refuses without a word");
        if (out && error == OK)
            wrong(w, "takes a commit after its disk failed");
        out = out || error == ERR_IO;
        if (error == OK || error == ERR_IO)
            continue;
        if (error != ERR_NO_SPACE || w->trouble < TROUBLE_NO_SPACE)
            wrong(w, "answers %s", error_name(error));
        if (pick(3) == 0) {
            disk.capacity_bytes = 0; /* there is room again */
            error = commit(w, &problem);
            if (error != OK)
                wrong(w, "does not go on when there is room: %s (%s)", problem.message, problem.detail);
        }
    }
}

static void begin(struct world *w, uint64_t seed, int troubled)
{
    *w = (struct world){.seed = seed};
    seeded_random_init(&randomness, seed);
    sim_disk_init(&disk, &randomness.source);
    sim_sqlite_use(&disk.fs);
    assert_int_equal(fs_mkdirs(&disk.fs, "/data"), OK);
    start(w, troubled);
}

static void run_seed(uint64_t seed)
{
    struct world w;
    begin(&w, seed, 2);
    for (int i = 0; i < 4; i++) {
        arm(&w, 60);
        live(&w, 12);
        end(&w);
        start(&w, 2);
    }
    end(&w);
    sim_disk_fini(&disk);
}

/* Operation `at` of a few commits and of the close behind them fails; whether there was one. */
static bool fails(uint64_t seed, enum trouble trouble, uint64_t at)
{
    struct world w;
    begin(&w, seed, 0);
    prepare(&w, trouble, at);
    live(&w, 3);
    meta_store_close(w.store);
    bool hit = sim_disk_has_failed(&disk);
    w.store = NULL;
    end(&w);
    start(&w, 0);
    w.trouble = TROUBLE_NONE;
    live(&w, 2);
    end(&w);
    sim_disk_fini(&disk);
    return hit;
}

static void run_each(uint64_t seed)
{
    for (enum trouble trouble = TROUBLE_POWER; trouble <= TROUBLE_NO_SPACE; trouble++)
        for (uint64_t at = 1; fails(seed, trouble, at); at++)
            ;
}

static void each_operation_of_some_commits_fails_in_its_turn(void **state)
{
    each_sweep(2, run_each);
}

static void what_was_committed_is_there_whole(void **state)
{
    each_seed(250, run_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_of_some_commits_fails_in_its_turn),
        cmocka_unit_test(what_was_committed_is_there_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
