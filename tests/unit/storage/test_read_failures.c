/* A disk that cannot be read: whichever read of a question fails, the answer is the right one or an error, the log goes out of service once, and after a restart all is as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "log_fixture.h"
#include "os/random.h"
#include "sim_disk.h"

#define READS_MAX 200 /* no question needs so many */
#define FIRST_MS INT64_C(1760000000000)

struct world {
    struct seeded_random random;
    struct sim_disk disk;
    struct log_fixture f;
    struct arena arena;
    struct buf answer;
    enum error error;
    bool sending; /* the error came when the bytes of a slice were read, which is done without the log */
};

/* Three segments, each with a transaction that is aborted in the next one; times rise by a second a batch. */
static void fill(struct world *w)
{
    for (int s = 0; s < 3; s++) {
        if (s > 0) {
            append_end_txn(&w->f, 100 + s - 1, 0, false);
            assert_int_equal(plog_roll(w->f.log), OK);
        }
        append_txn(&w->f, 100 + s, 0, 0, 2);
        for (int i = 0; i < 10; i++) {
            struct plog_appended appended;
            struct batch_spec spec = {
                .producer_id = NO_PID, .records = 3, .timestamp = FIRST_MS + (s * 10 + i) * 1000, .value_bytes = 100};
            assert_int_equal(append(&w->f, &spec, &appended), OK);
        }
    }
    commit_all(&w->f);
}

static int setup(void **state)
{
    struct world *w = mem_calloc(1, sizeof(*w));
    seeded_random_init(&w->random, 1);
    sim_disk_init(&w->disk, &w->random.source);
    assert_int_equal(fs_mkdirs(&w->disk.fs, "/sim"), OK);
    log_fixture_init_on(&w->f, &w->disk.fs);
    log_fixture_open(&w->f);
    arena_init(&w->arena, 1 << 20);
    fill(w);
    log_fixture_close(&w->f);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    sim_disk_heal(&w->disk);
    log_fixture_fini(&w->f);
    sim_disk_fini(&w->disk);
    arena_fini(&w->arena);
    buf_fini(&w->answer);
    mem_free(w);
    return 0;
}

/* ---- Questions: the answer as bytes, or the error ---- */

static void note(struct world *w, enum error error, const void *data, size_t len)
{
    w->error = w->error != OK ? w->error : error;
    if (error == OK)
        buf_append(&w->answer, data, len);
}

static void read_all_bytes(struct world *w)
{
    for (int64_t offset = 0; w->error == OK && offset < plog_end_offset(w->f.log);) {
        struct plog_slice slice;
        struct chain chain;
        chain_init(&chain);
        w->error = plog_read(w->f.log, offset, INT64_MAX, 700, true, &slice);
        if (w->error == OK) {
            offset = slice.end_offset;
            w->error = plog_slice_to_chain(&slice, 0, &chain); /* the simulated disk has no descriptors: it copies */
            w->sending = w->error != OK;
            if (w->error == OK)
                w->error = chain_read(&chain, &w->answer);
            plog_slice_release(&slice);
        }
        chain_fini(&chain);
    }
}

static void find_times(struct world *w)
{
    for (int i = 0; i < 30 && w->error == OK; i += 7) {
        struct plog_time_offset found = {0};
        enum error error = plog_offset_for_time(w->f.log, FIRST_MS + i * 1000, INT64_MAX, &found);
        note(w, error, &found.offset, sizeof(found.offset));
    }
}

static void find_newest(struct world *w)
{
    struct plog_time_offset found = {0};
    enum error error = plog_offset_of_max_time(w->f.log, INT64_MAX, &found);
    note(w, error, &found.offset, sizeof(found.offset));
}

static void find_aborted(struct world *w)
{
    struct plog_slice slice;
    struct plog_aborted *aborted = NULL;
    int count = 0;
    w->error = plog_read(w->f.log, 0, INT64_MAX, 1 << 20, true, &slice);
    if (w->error != OK)
        return;
    enum error error = plog_aborted_for(w->f.log, 0, &slice, &w->arena, &aborted, &count);
    note(w, error, &count, sizeof(count));
    for (int i = 0; i < count; i++)
        note(w, OK, &aborted[i].first_offset, sizeof(aborted[i].first_offset));
    plog_slice_release(&slice);
}

static void append_more(struct world *w)
{
    struct plog_appended appended = {0};
    struct batch_spec spec = {.producer_id = NO_PID, .records = 1};
    enum error error = append(&w->f, &spec, &appended);
    note(w, error, &appended.base_offset, sizeof(appended.base_offset));
}

static void ask(struct world *w, void (*question)(struct world *w))
{
    buf_clear(&w->answer);
    w->error = OK;
    w->sending = false;
    question(w);
}

/* ---- */

/* Whichever read fails. */
static void each_read_fails(struct world *w, void (*question)(struct world *w))
{
    struct buf right = {0};
    uint64_t k = 1;
    for (; k < READS_MAX; k++) {
        log_fixture_open(&w->f);
        if (k == 1 && question != append_more) {
            ask(w, question);
            assert_int_equal(w->error, OK);
            assert_true(w->answer.len > 0);
            buf_append(&right, w->answer.data, w->answer.len);
            log_fixture_close(&w->f);
            log_fixture_open(&w->f); /* nothing is open or remembered */
        }
        int failures = w->f.failures;
        sim_disk_fail(&w->disk, SIM_READ, k, ERR_IO, false);
        ask(w, question);
        bool failed = sim_disk_has_failed(&w->disk);
        sim_disk_heal(&w->disk);
        if (w->error == OK && question != append_more) {
            assert_int_equal(w->answer.len, right.len);
            assert_memory_equal(w->answer.data, right.data, right.len);
        }
        if (w->error != OK) {
            assert_true(failed && (w->error == ERR_IO || w->error == KAFKA_STORAGE_ERROR));
            assert_int_equal(plog_failed(w->f.log), !w->sending);
            assert_int_equal(w->f.failures, failures + plog_failed(w->f.log));
        }
        if (plog_failed(w->f.log)) {
            ask(w, question);
            assert_int_equal(w->error, KAFKA_STORAGE_ERROR);
            assert_int_equal(w->f.failures, failures + 1); /* told once */
            log_fixture_crash(&w->f);
        } else {
            log_fixture_close(&w->f);
        }
        if (!failed)
            break;
    }
    assert_true(k > 1 && k < READS_MAX);
    buf_fini(&right);
}

static void bytes(void **state)
{
    each_read_fails(*state, read_all_bytes);
}

static void times(void **state)
{
    each_read_fails(*state, find_times);
}

static void the_newest_record(void **state)
{
    each_read_fails(*state, find_newest);
}

static void aborted_transactions(void **state)
{
    each_read_fails(*state, find_aborted);
}

/* It looks at the end of the indexes. */
static void an_append(void **state)
{
    each_read_fails(*state, append_more);
}

static void a_slice_of_a_real_file_is_sent_from_it_or_copied_when_small(void **state)
{
    struct log_fixture f;
    struct buf copied = {0}, sent = {0};
    (void)state;
    log_fixture_init(&f);
    append_plain(&f, 5);
    commit_all(&f);
    for (size_t copy_bytes = 0; copy_bytes <= 100000; copy_bytes += 100000) {
        struct plog_slice slice;
        struct chain chain;
        chain_init(&chain);
        assert_int_equal(plog_read(f.log, 0, INT64_MAX, 100000, true, &slice), OK);
        assert_int_equal(plog_slice_to_chain(&slice, copy_bytes, &chain), OK);
        assert_null(slice.segment); /* the chain has taken it over */
        assert_int_equal(TAILQ_FIRST(&chain.pieces)->kind == CHAIN_FILE, copy_bytes == 0);
        assert_int_equal(chain_read(&chain, copy_bytes == 0 ? &sent : &copied), OK);
        assert_int_equal(plog_slice_to_chain(&slice, 0, &chain), OK); /* an empty one adds nothing */
        plog_slice_release(&slice);
        chain_fini(&chain);
    }
    assert_true(sent.len > 0 && sent.len == copied.len);
    assert_memory_equal(sent.data, copied.data, sent.len);
    buf_fini(&copied);
    buf_fini(&sent);
    log_fixture_fini(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes),
        TEST(times),
        TEST(the_newest_record),
        TEST(aborted_transactions),
        TEST(an_append),
        cmocka_unit_test(a_slice_of_a_real_file_is_sent_from_it_or_copied_when_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
