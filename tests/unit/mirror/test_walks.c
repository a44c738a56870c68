/* Random lives of a mirror: a source that writes, pauses, ends of the process clean or not, and at last a stop that is broken off where it happens to be, once or twice. Whatever came
 * before, the end is what the model of a partition (tests/support/model.h) says of the copied batches: a byte-equal prefix of the source, an ABORT for each transaction that is open in
 * it, in order, the barrier, and nothing else. KAGAMI_MIRROR_WALKS says how many; threads and sockets are real, so a seed repeats the steps and not their timing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hooks.h"
#include "codec/control.h"
#include "one_source.h"
#include "producer_model.h"

#define PARTITIONS 2
#define TOPIC "orders"

static struct seeded_random walk_random;
static struct model_state truth;

static uint64_t pick(uint64_t bound)
{
    return random_below(&walk_random.source, bound);
}

/* ---- The source writes ---- */

static struct {
    int32_t sequence[4];
    int16_t epoch[4];
    int32_t leader_epoch;
} writers[PARTITIONS];

static void write_some(struct fake_topic *t)
{
    static const int64_t IDS[4] = {3, 5, 8, 4000};
    int p = (int)pick(PARTITIONS), w = (int)pick(4), n = 1 + (int)pick(3);
    writers[p].leader_epoch += pick(6) == 0;
    struct fake_batch b = {.producer_id = IDS[w], .leader_epoch = writers[p].leader_epoch, .records = n};
    switch (pick(6)) {
    case 0:
        fake_append_plain(&source, t, p, n, writers[p].leader_epoch);
        return;
    case 1:
    case 2: /* a marker, whether there is something to end or not */
        b.end_txn = true;
        b.commit = pick(2) == 0;
        b.producer_epoch = writers[p].epoch[w];
        break;
    default:
        if (pick(10) == 0) {
            writers[p].epoch[w]++;
            writers[p].sequence[w] = 0;
        }
        b.producer_epoch = writers[p].epoch[w];
        b.base_sequence = writers[p].sequence[w];
        b.transactional = pick(2) == 0;
        writers[p].sequence[w] += n;
    }
    fake_append(&source, t, p, &b);
}

/* ---- What must stand in the end ---- */

static void source_log(struct fake_topic *t, int p, struct buf *out)
{
    mutex_lock(&source.mutex);
    buf_append(out, t->partitions[p].log.data, t->partitions[p].log.len);
    mutex_unlock(&source.mutex);
}

/* Walks over the copied batches of both logs; the model learns from the source's. Returns the offset where the copy ends. */
static int64_t check_copy(struct batch_iter *copy, struct batch_iter *original, int64_t position, int64_t *ret_max_id)
{
    const uint8_t *a, *b;
    int64_t end = 0;
    truth.producer_count = truth.txn_count = 0;
    *ret_max_id = -1;
    while (batch_iter_next(original, &b) == BATCH_FOUND && batch_base_offset(b) < position) {
        struct model_batch m;
        assert_int_equal(batch_iter_next(copy, &a), BATCH_FOUND);
        assert_int_equal(batch_size_bytes(a), batch_size_bytes(b));
        assert_memory_equal(a, b, (size_t)batch_size_bytes(b));
        model_read_batch(b, f.cluster_id, &m);
        model_state_add(&truth, &m);
        *ret_max_id = MAX(*ret_max_id, m.producer_id);
        end = batch_next_offset(b);
    }
    return end;
}

static const struct model_producer *first_open(void)
{
    const struct model_producer *first = NULL;
    for (int i = 0; i < truth.producer_count; i++)
        if (truth.producers[i].txn_first >= 0 && (first == NULL || truth.producers[i].txn_first < first->txn_first))
            first = &truth.producers[i];
    return first;
}

static void check_hand_over(struct batch_iter *copy, int64_t end)
{
    const uint8_t *b;
    struct control_record c;
    struct model_batch m;
    const struct model_producer *p;
    while ((p = first_open()) != NULL) {
        assert_int_equal(batch_iter_next(copy, &b), BATCH_FOUND);
        assert_true(batch_is_control(b));
        assert_ok(control_parse(b, &c));
        assert_int_equal(c.type, CONTROL_ABORT);
        assert_int_equal(batch_base_offset(b), end++);
        assert_int_equal(batch_producer_id(b), p->id);
        assert_int_equal(batch_producer_epoch(b), p->epoch);
        model_read_batch(b, f.cluster_id, &m);
        model_state_add(&truth, &m);
    }
    assert_int_equal(batch_iter_next(copy, &b), BATCH_FOUND);
    assert_true(batch_is_control(b));
    assert_ok(control_parse(b, &c));
    assert_int_equal(c.type, CONTROL_MIRROR_PID_RESET);
    assert_true(str_is(c.writer_cluster_id, f.cluster_id));
    assert_int_equal(batch_base_offset(b), end);
}

static void check_partition(int p)
{
    struct partition_state s;
    struct partition *partition = fixture_partition(&f, TOPIC, p);
    partition_get_state(partition, &s);
    assert_true(s.writable);
    assert_int_equal(s.last_stable_offset, s.end_offset);
    assert_int_equal(s.high_watermark, s.end_offset);
    assert_true(s.durable_offset <= s.end_offset); /* what a process before this one flushed is known by the checkpoints alone */
    struct plog *log = partition_lock(partition);
    assert_int_equal(producer_state_count(plog_producers(log)), 0);
    partition_unlock(partition);
    partition_unref(partition);
}

static void check_stopped(struct fake_topic *t, bool truncated)
{
    for (int p = 0; p < PARTITIONS; p++) {
        struct buf copied = {0}, original = {0};
        struct batch_iter copy, from;
        int64_t max_id;
        const uint8_t *b;
        fixture_await_state(&f, TOPIC, p, "STOPPED");
        int64_t position = fixture_describe(&f, TOPIC, p)->last_mirror_offset;
        fixture_read(&f, TOPIC, p, &copied);
        source_log(t, p, &original);
        batch_iter_init(&copy, buf_bytes(&copied));
        batch_iter_init(&from, buf_bytes(&original));
        int64_t end = check_copy(&copy, &from, MAX(position, 0), &max_id);
        assert_int_equal(end, MAX(position, 0));
        assert_true(!truncated || first_open() == NULL);
        check_hand_over(&copy, end);
        assert_int_equal(batch_iter_next(&copy, &b), BATCH_END);
        check_partition(p);
        assert_true(controller_producer_id_floor(f.controller) > max_id);
        buf_fini(&copied);
        buf_fini(&original);
    }
}

/* ---- A walk ---- */

static void restart(void)
{
    fixture_stop(&f, pick(2) == 0);
    fixture_start(&f);
}

static void pause_and_go_on(struct fake_topic *t)
{
    assert_error(fixture_act(&f, API_PAUSE_MIRROR_TOPICS, "dr", TOPIC), OK);
    for (int p = 0; p < PARTITIONS; p++)
        fixture_await_state(&f, TOPIC, p, "PAUSED");
    write_some(t);
    if (pick(3) == 0)
        restart();
    for (int p = 0; p < PARTITIONS; p++)
        fixture_await_state(&f, TOPIC, p, "PAUSED");
    assert_error(fixture_act(&f, API_RESUME_MIRROR_TOPICS, "dr", TOPIC), OK);
}

static void await_all(struct fake_topic *t)
{
    for (int p = 0; p < PARTITIONS; p++) {
        mutex_lock(&source.mutex);
        int64_t end = t->partitions[p].end;
        mutex_unlock(&source.mutex);
        fixture_await_end(&f, TOPIC, p, end);
    }
}

static void live(struct fake_topic *t)
{
    for (uint64_t i = 0, steps = 4 + pick(10); i < steps; i++) {
        struct problem problem;
        switch (pick(8)) {
        case 0:
            restart();
            break;
        case 1:
            for (int p = 0; p < PARTITIONS; p++)
                fixture_await_state(&f, TOPIC, p, "MIRRORING");
            pause_and_go_on(t);
            break;
        case 2:
            assert_int_equal(fixture_write(&f, TOPIC, 0, &problem), POLICY_VIOLATION);
            break;
        case 3:
            await_all(t);
            break;
        default:
            for (uint64_t n = 1 + pick(5); n > 0; n--)
                write_some(t);
        }
    }
}

static void stop_somehow(bool truncate)
{
    static const char *const POINTS[] = {"stop.1", "stop.2",        "stop.3", "stop.4", "stop.5.marker",
                                         "stop.5", "stop.6.append", "stop.6", "stop.7", "stop.8"};
    struct stop_mirror_topics_request_topics topic = {STR(TOPIC)};
    struct stop_mirror_topics_request request = {.mirror_name = STR("dr"), .topics = &topic, .topics_n = 1, .force = truncate};
    request.open_transactions = truncate ? STR("truncate") : STR("abort");
    const char *point = POINTS[pick(ARRAY_SIZE(POINTS))];
    if (pick(4) == 0) {
        (void)fixture_call(&f, API_STOP_MIRROR_TOPICS, &request);
        return;
    }
    hook_switch_set(point, true);
    print_message("  stopped, broken off at %s%s\n", point, truncate ? ", truncating" : "");
    (void)fixture_call(&f, API_STOP_MIRROR_TOPICS, &request);
    hook_switch_set(point, false);
    point = POINTS[pick(ARRAY_SIZE(POINTS))];
    bool twice = pick(2) == 0;
    if (twice) {
        print_message("  and again at %s\n", point);
        hook_switch_set(point, true);
    }
    fixture_stop(&f, false);
    fixture_start(&f);
    if (!twice)
        return;
    usleep(20000); /* it may get there, or not */
    hook_switch_set(point, false);
    fixture_stop(&f, false);
    fixture_start(&f);
}

static void walk(uint64_t seed)
{
    print_message("walk %llu\n", (unsigned long long)seed);
    seeded_random_init(&walk_random, seed);
    memset(writers, 0, sizeof(writers));
    fake_source_start(&source, "source-cluster");
    fixture_init(&f);
    struct fake_topic *t = fake_topic_add(&source, TOPIC, PARTITIONS);
    for (int i = 0; i < 4; i++)
        write_some(t);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", TOPIC, false);
    for (int p = 0; p < PARTITIONS; p++)
        fixture_await_state(&f, TOPIC, p, "MIRRORING");
    live(t);
    bool truncate = pick(4) == 0;
    stop_somehow(truncate);
    check_stopped(t, truncate);
    restart();
    check_stopped(t, truncate);
    struct problem problem;
    assert_ok(fixture_write(&f, TOPIC, 0, &problem));
    fixture_fini(&f);
    fake_source_stop(&source);
}

static void random_lives(void **state)
{
    (void)state;
    const char *seed = getenv("KAGAMI_MIRROR_WALK"), *count = getenv("KAGAMI_MIRROR_WALKS");
    if (seed != NULL) {
        walk(strtoull(seed, NULL, 10));
        return;
    }
    for (uint64_t i = 1, n = count != NULL ? strtoull(count, NULL, 10) : 12; i <= n; i++)
        walk(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_lives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
