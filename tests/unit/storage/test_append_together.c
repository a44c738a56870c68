/* Client batches that are appended together: whatever comes of it must be what comes of one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "log_fixture.h"
#include "os/random.h"
#include "sim_disk.h"

#define TOGETHER_MAX 200

struct together {
    int count;
    struct buf batches[TOGETHER_MAX];
    struct validated validated[TOGETHER_MAX];
    struct problem problems[TOGETHER_MAX];
    struct plog_client_append items[TOGETHER_MAX];
    struct plog_client_append *pointers[TOGETHER_MAX];
};

static void add(struct together *t, struct log_fixture *f, const struct batch_spec *spec)
{
    int i = t->count++;
    make_batch(f, spec, &t->batches[i]);
    assert_int_equal(validate_records(buf_bytes(&t->batches[i]), 11, VALIDATE_CLIENT, &f->params.config.validate, f->clock.now_ms,
                                      NULL, &t->validated[i], NULL, &t->problems[i]),
                     OK);
    t->items[i] = (struct plog_client_append){.records = &t->validated[i], .problem = &t->problems[i]};
    t->pointers[i] = &t->items[i];
}

static void run(struct together *t, struct log_fixture *f)
{
    plog_append_clients(f->log, t->pointers, t->count, MAX(plog_latest_epoch(f->log), 0));
}

static void clear(struct together *t)
{
    for (int i = 0; i < t->count; i++) {
        validated_fini(&t->validated[i]);
        buf_fini(&t->batches[i]);
    }
    memset(t, 0, sizeof(*t));
}

/* Three producers that mostly go on, sometimes repeat and sometimes leave one out. */
static struct batch_spec any_batch(struct random_source *random, int32_t next[3])
{
    int p = (int)(random_u64(random) % 4);
    struct batch_spec spec = {.producer_id = NO_PID, .producer_epoch = -1, .base_sequence = -1, .value_bytes = 1};
    spec.records = 1 + (int)(random_u64(random) % 3);
    spec.value_bytes += (int)(random_u64(random) % 300);
    if (p == 3)
        return spec;
    spec.producer_id = p;
    spec.producer_epoch = 0;
    spec.records = 2; /* all alike: a repetition is one */
    uint64_t luck = random_u64(random) % 10;
    if (luck == 0 && next[p] > 0) {
        spec.base_sequence = next[p] - 2;
    } else if (luck == 1) {
        spec.base_sequence = next[p] + 2;
    } else {
        spec.base_sequence = next[p];
        next[p] += 2;
    }
    return spec;
}

static void assert_same_log(struct log_fixture *a, struct log_fixture *b)
{
    struct buf x = {0}, y = {0};
    assert_int_equal(plog_end_offset(a->log), plog_end_offset(b->log));
    assert_int_equal(plog_segment_count(a->log), plog_segment_count(b->log));
    read_all(a, 0, &x);
    read_all(b, 0, &y);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    buf_clear(&x);
    buf_clear(&y);
    describe_producers(a, &x);
    describe_producers(b, &y);
    assert_string_equal(buf_cstr(&x), buf_cstr(&y));
    buf_fini(&x);
    buf_fini(&y);
}

static void together_is_as_one_by_one(void **state)
{
    struct log_fixture *one = *state, other;
    struct together *t = calloc(1, sizeof(*t));
    struct seeded_random random;
    int32_t next[3] = {0};
    int refused = 0, duplicates = 0;
    seeded_random_init(&random, 1);
    log_fixture_init(&other);
    one->params.config.segment_bytes = other.params.config.segment_bytes = 20000;
    plog_set_config(one->log, &one->params.config);
    plog_set_config(other.log, &other.params.config);
    for (int round = 0; round < 40; round++) {
        enum error errors[TOGETHER_MAX];
        struct plog_appended appended[TOGETHER_MAX];
        int count = 1 + (int)(random_u64(&random.source) % (round % 4 == 0 ? TOGETHER_MAX : 8));
        for (int i = 0; i < count; i++) {
            struct batch_spec spec = any_batch(&random.source, next);
            errors[i] = append(one, &spec, &appended[i]);
            add(t, &other, &spec);
        }
        run(t, &other);
        for (int i = 0; i < count; i++) {
            assert_int_equal(t->items[i].error, errors[i]);
            refused += errors[i] != OK;
            if (errors[i] != OK)
                continue;
            duplicates += appended[i].duplicate;
            assert_int_equal(t->items[i].appended.base_offset, appended[i].base_offset);
            assert_int_equal(t->items[i].appended.last_offset, appended[i].last_offset);
            assert_int_equal(t->items[i].appended.duplicate, appended[i].duplicate);
            assert_int_equal(t->items[i].appended.max_producer_id, appended[i].max_producer_id);
        }
        clear(t);
    }
    assert_true(refused > 10 && duplicates > 10 && plog_segment_count(one->log) > 5);
    assert_same_log(one, &other);
    log_fixture_fini(&other);
    free(t);
}

/* All that was to be written is refused with what repeats it, the rest has its own answers, and all may come again. */
static void a_write_that_fails_takes_all_that_was_in_it(void **state)
{
    struct together *t = calloc(1, sizeof(*t));
    struct seeded_random random;
    struct sim_disk disk;
    struct log_fixture f;
    struct problem problem;
    seeded_random_init(&random, 1);
    sim_disk_init(&disk, &random.source);
    assert_int_equal(fs_mkdirs(&disk.fs, "/sim"), OK);
    log_fixture_init_on(&f, &disk.fs);
    assert_int_equal(log_fixture_try_open(&f, &problem), OK);
    append_from(&f, 7, 0, 0, 1);
    for (int i = 1; i <= 4; i++)
        add(t, &f, &(struct batch_spec){.producer_id = 7, .base_sequence = i, .records = 1});
    add(t, &f, &(struct batch_spec){.producer_id = 7, .base_sequence = 3, .records = 1});  /* repeats one of them */
    add(t, &f, &(struct batch_spec){.producer_id = 7, .base_sequence = 0, .records = 1});  /* repeats what is there */
    add(t, &f, &(struct batch_spec){.producer_id = 7, .base_sequence = 99, .records = 1}); /* out of order */
    sim_disk_fail(&disk, SIM_WRITE, 1, ERR_NO_SPACE, false);
    run(t, &f);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(t->items[i].error, ERR_NO_SPACE);
        assert_true(t->problems[i].message[0] != '\0');
    }
    assert_int_equal(t->items[5].error, OK);
    assert_int_equal(t->items[6].error, OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(plog_end_offset(f.log), 1);
    run(t, &f);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(t->items[i].error, OK);
        assert_int_equal(t->items[i].appended.base_offset, i < 4 ? i + 1 : i == 4 ? 3 : 0);
        assert_int_equal(t->items[i].appended.duplicate, i >= 4);
    }
    assert_int_equal(plog_end_offset(f.log), 5);
    clear(t);
    log_fixture_fini(&f);
    sim_disk_fini(&disk);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(together_is_as_one_by_one, log_fixture_setup, log_fixture_teardown),
        cmocka_unit_test(a_write_that_fails_takes_all_that_was_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
