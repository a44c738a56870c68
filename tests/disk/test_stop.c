/* The stop sequence of a mirror on a disk that fails, with the metadata store on the same disk. Threads, loops and sockets are real, so a seed fixes where the power goes and what the disk
 * keeps, not how threads interleave. See README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/logger.h"
#include "codec/control.h"
#include "mirror_fixture.h"
#include "seeds.h"
#include "sim_sqlite.h"

#define COPIED_END 9 /* of partition 0 */
#define PARTITIONS 2
#define STOP_OPERATIONS 90 /* about as many as a stop has on this disk */

static struct sim_disk disk;
static struct seeded_random randomness, choices; /* the disk's, under its lock; ours */
static struct mirror_fixture f;
static struct fake_source source;
static const int64_t ENDS[PARTITIONS] = {COPIED_END, 4};
static const char *doing;
static uint64_t the_seed;
static int64_t promised[PARTITIONS]; /* where the copied part ended when the stop was answered */

/* In place of os/file_system.c: whoever asks for the system's files gets the simulated disk. */
struct fs *fs_system(void)
{
    return &disk.fs;
}

#define wrong(...)                                                                                                               \
    do {                                                                                                                         \
        print_error("seed %" PRIu64 ", %s, failed at %s: ", the_seed, doing, disk.failed_path);                                  \
        fail_msg(__VA_ARGS__);                                                                                                   \
    } while (0)

static void quiet(void *arg, enum log_level level, const char *line)
{
    if (getenv("UNIT_LOG") != NULL)
        fputs(line, stderr);
}

static void mirrored(void)
{
    struct fake_topic *t = fake_topic_add(&source, "orders", PARTITIONS);
    fake_append_plain(&source, t, 0, 3, 2);
    fake_append(&source, t, 0, &(struct fake_batch){.producer_id = 7, .records = 2, .leader_epoch = 2});
    fake_append(
        &source, t, 0,
        &(struct fake_batch){.producer_id = 9, .producer_epoch = 4, .transactional = true, .records = 2, .leader_epoch = 3});
    fake_append(
        &source, t, 0,
        &(struct fake_batch){.producer_id = 11, .producer_epoch = 1, .transactional = true, .records = 1, .leader_epoch = 3});
    fake_append_plain(&source, t, 0, 1, 3);
    fake_append_plain(&source, t, 1, 4, 2);
    fixture_create(&f, "dr", &source, NULL);
    fixture_start_topic(&f, "dr", "orders", false);
    for (int p = 0; p < PARTITIONS; p++)
        fixture_await_end(&f, "orders", p, ENDS[p]);
}

struct seen {
    int aborts[2]; /* of 9 and 11 */
    int barriers, clients, clients_before_barrier;
    int64_t copied_end;
    int32_t last_epoch;
};

static struct seen look(int partition)
{
    struct buf bytes = {0};
    struct batch_iter it;
    const uint8_t *b;
    struct seen s = {.last_epoch = -1, .copied_end = 0};
    fixture_read(&f, "orders", partition, &bytes);
    batch_iter_init(&it, buf_bytes(&bytes));
    while (batch_iter_next(&it, &b) == BATCH_FOUND) {
        struct control_record c;
        if (batch_leader_epoch(b) < s.last_epoch)
            wrong("epochs fall at offset %" PRId64, batch_base_offset(b));
        s.last_epoch = batch_leader_epoch(b);
        if (!batch_is_control(b) && batch_leader_epoch(b) <= 3) {
            s.copied_end = batch_next_offset(b);
        } else if (!batch_is_control(b)) {
            s.clients++;
            s.clients_before_barrier += s.barriers == 0;
        } else {
            assert_ok(control_parse(b, &c));
            if (c.type == CONTROL_ABORT)
                s.aborts[batch_producer_id(b) == 11]++;
            s.barriers += c.type == CONTROL_MIRROR_PID_RESET;
        }
    }
    buf_fini(&bytes);
    return s;
}

/* A partition may be written to only behind its barrier. */
static bool check_writable(int partition)
{
    struct problem problem;
    if (fixture_write(&f, "orders", partition, &problem) != OK)
        return false;
    struct seen s = look(partition);
    if (s.barriers == 0 || s.clients_before_barrier > 0)
        wrong("partition %d is writable and has no barrier", partition);
    return true;
}

static bool is_state(int partition, const char *state)
{
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", partition);
    return d != NULL && str_is(d->state, state);
}

static void await_stopped(int partition)
{
    for (int waited = 0; waited < 1500; waited++) {
        if (is_state(partition, "STOPPED"))
            return;
        bool waits = is_state(partition, "FAILED") && fixture_describe(&f, "orders", partition)->next_retry_ms < 0;
        if (is_state(partition, "MIRRORING") || is_state(partition, "PREPARING") || waits) /* else it goes on by itself */
            (void)fixture_stop_topic(&f, "dr", "orders"); /* that it was asked for is not stored yet */
        usleep(10000);
    }
    wrong("partition %d does not come to STOPPED", partition);
}

static void check_end(bool answered)
{
    struct partition_state state;
    for (int i = 0; i < PARTITIONS; i++) {
        if (answered && !is_state(i, "STOPPED"))
            wrong("partition %d was reported as stopped and is not", i);
        (void)check_writable(i);
        await_stopped(i);
        struct seen s = look(i);
        if (s.barriers != 1 || s.clients_before_barrier > 0)
            wrong("partition %d has %d barriers", i, s.barriers);
        bool has[2] = {i == 0 && s.copied_end >= 7, i == 0 && s.copied_end >= 8};
        if (s.aborts[0] != has[0] || s.aborts[1] != has[1])
            wrong("partition %d has %d and %d markers", i, s.aborts[0], s.aborts[1]);
        if (answered && s.copied_end != promised[i])
            wrong("partition %d ends its copied part at %" PRId64, i, s.copied_end);
        struct partition *p = fixture_partition(&f, "orders", i);
        partition_get_state(p, &state);
        struct plog *log = partition_lock(p);
        if (producer_state_count(plog_producers(log)) != 0)
            wrong("partition %d remembers producers of the source", i);
        partition_unlock(p);
        partition_unref(p);
        if (state.leader_epoch < s.last_epoch)
            wrong("partition %d has leader epoch %d and batches of %d", i, state.leader_epoch, s.last_epoch);
        const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(&f, "orders", i);
        int64_t position = s.copied_end > 0 ? s.copied_end : -1;
        if (d->last_mirror_offset != position)
            wrong("partition %d says that it equals its source up to %" PRId64 ", and it holds up to %" PRId64, i,
                  d->last_mirror_offset, position);
        bool writable = false;
        for (int waited = 0; waited < 500 && !writable; waited++, usleep(writable ? 0 : 10000))
            writable = check_writable(i);
        if (!writable)
            wrong("partition %d is stopped and cannot be written", i);
    }
    if (controller_producer_id_floor(f.controller) <= 11)
        wrong("the floor of producer ids is below the source's");
}

static bool all_stopped(const struct stop_mirror_topics_response *r)
{
    if (r->error_code != OK || r->topics_n != 1 || r->topics[0].error_code != OK || r->topics[0].partitions_n != PARTITIONS)
        return false;
    for (int i = 0; i < PARTITIONS; i++)
        if (r->topics[0].partitions[i].error_code != OK)
            return false;
    return true;
}

static bool stop_it(bool answered)
{
    const struct stop_mirror_topics_response *r = fixture_stop_topic(&f, "dr", "orders");
    if (!all_stopped(r))
        return false;
    for (int i = 0; i < PARTITIONS && !answered; i++)
        promised[i] = MAX(r->topics[0].partitions[i].last_mirror_offset, 0);
    return true;
}

static void begin(uint64_t seed)
{
    the_seed = seed;
    doing = "start";
    seeded_random_init(&randomness, seed);
    seeded_random_init(&choices, seed + UINT64_C(1000000));
    sim_disk_init(&disk, &randomness.source);
    sim_sqlite_use(&disk.fs);
    fake_source_start(&source, "source-cluster");
    memset(&f, 0, sizeof(f));
    f.fs = &disk.fs;
    logger_set_sink(quiet, NULL);
    strcpy(f.root, "/data");
    assert_ok(fs_mkdirs(&disk.fs, f.root));
    arena_init(&f.arena, SIZE_MAX);
    fixture_start(&f);
    mirrored();
}

static void end(void)
{
    fixture_stop(&f, true);
    arena_fini(&f.arena);
    fake_source_stop(&source);
    sim_disk_fini(&disk);
}

static void run_seed(uint64_t seed)
{
    begin(seed);
    bool answered = false;
    int lives = 1 + (int)random_below(&choices.source, 3);
    for (int life = 0; life < lives; life++) {
        bool kill = random_below(&choices.source, 5) == 0, once = random_below(&choices.source, 6) == 0;
        uint64_t at = 1 + random_below(&choices.source, STOP_OPERATIONS);
        if (life == 0)
            at = 1 + seed % STOP_OPERATIONS; /* each of them has its turn */
        sim_disk_fail(&disk, SIM_CHANGES, at, ERR_IO, !once);
        doing = life == 0 ? "stop" : "the stop is taken up";
        if (life == 0 || !is_state(0, "STOPPING"))
            answered |= stop_it(answered);
        else
            for (int waited = 0; waited < 50 && !sim_disk_has_failed(&disk) && !is_state(0, "STOPPED"); waited++)
                usleep(4000);
        for (int i = 0; i < PARTITIONS; i++)
            (void)check_writable(i);
        fixture_stop(&f, false);
        char where[sizeof(disk.failed_path)];
        memcpy(where, disk.failed_path, sizeof(where));
        if (kill || once)
            sim_disk_heal(&disk);
        if (!kill)
            sim_disk_power_cut(&disk);
        memcpy(disk.failed_path, where, sizeof(where));
        doing = "restart";
        fixture_start(&f);
    }
    check_end(answered);
    end();
}

/* No room from some moment on; then there is room again, and nobody restarts anything. */
static void run_full(uint64_t seed)
{
    begin(seed);
    doing = "stop on a full disk";
    bool whole = random_below(&choices.source, 2) == 0;
    mutex_lock(&disk.mutex);
    if (whole)
        disk.capacity_bytes = disk.used_bytes + random_below(&choices.source, 12000);
    mutex_unlock(&disk.mutex);
    if (!whole)
        sim_disk_fail(&disk, SIM_WRITE | SIM_CREATE, 1 + random_below(&choices.source, STOP_OPERATIONS / 2), ERR_NO_SPACE, false);
    const struct stop_mirror_topics_response *r = fixture_stop_topic(&f, "dr", "orders");
    bool answered = all_stopped(r);
    if (whole) /* the mirror tries again meanwhile */
        usleep((useconds_t)random_below(&choices.source, 250000));
    if (!answered && r->error_message.len <= 0 && (r->topics_n == 0 || r->topics[0].error_message.len <= 0))
        wrong("the stop fails without a word");
    for (int i = 0; i < PARTITIONS; i++) {
        promised[i] = ENDS[i];
        (void)check_writable(i);
    }
    mutex_lock(&disk.mutex);
    disk.capacity_bytes = 0;
    mutex_unlock(&disk.mutex);
    check_end(answered);
    end();
}

static void a_full_disk_costs_a_stop_nothing_but_time(void **state)
{
    each_seed(100, run_full);
}

static void a_stop_comes_to_its_end_wherever_the_power_goes(void **state)
{
    each_seed(200, run_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_costs_a_stop_nothing_but_time),
        cmocka_unit_test(a_stop_comes_to_its_end_wherever_the_power_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
