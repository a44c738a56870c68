/* One producer at a steady rate and a reader behind it (of the same broker, or of the one that mirrors it): how long after it
 * was due to be sent a batch is seen, and how long after its acknowledgement. Every record of a batch carries the batch's
 * number, so that it is known again where a copier has put it into other batches. --beside HOST:PORT: another reader, of that
 * broker, at the same time; then also how much later than this one the first sees a batch. So the part of a mirror is told from
 * that of its source and of the machine. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "bench.h"
#include "codec/record_batch.h"

struct lag;

struct reader {
    const struct lag *l;
    int fd;                  /* -1: none */
    int32_t idle_partitions; /* of idle_topic, in its session */
    int64_t next_offset;
    int64_t *seen_ns; /* by batch */
    bool ended;
};

struct lag {
    const char *topic, *idle_topic;
    int writer;
    struct reader reader, beside;
    struct template template;
    int16_t acks;
    int64_t rate, count, first_measured; /* batches */
    int64_t *due_ns, *acked_ns;          /* by batch */
};

static void wait_until_ns(int64_t at)
{
    struct timespec t = {at / 1000000000, at % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* ---- The writer ---- */

static void number_records(const struct lag *l, uint8_t *batch, int64_t number)
{
    struct record_iter it;
    struct record record;
    record_iter_init(&it, batch, batch_payload(batch));
    while (record_iter_next(&it, &record))
        put_i64(batch + (record.value.p - batch), number);
    put_u32(batch + BATCH_POS_CRC, crc32c(0, batch + BATCH_POS_ATTRIBUTES, l->template.batch.len - BATCH_POS_ATTRIBUTES));
}

static void *write_records(void *arg)
{
    struct lag *l = arg;
    struct buf request = {0};
    frame_begin(&request, 0, PRODUCE_VERSION, 1);
    add_string(&request, NULL);
    add_i16(&request, l->acks);
    add_i32(&request, 30000);
    add_i32(&request, 1);
    add_string(&request, l->topic);
    add_i32(&request, 1);
    add_i32(&request, 0);
    add_i32(&request, (int32_t)l->template.batch.len);
    size_t at = request.len;
    buf_append(&request, l->template.batch.data, l->template.batch.len);
    frame_end(&request, 0);
    prctl(PR_SET_TIMERSLACK, 1UL);
    int64_t begin = now_ns() + 10000000;
    for (int64_t i = 0; i < l->count; i++) {
        l->due_ns[i] = begin + i * 1000000000 / l->rate;
        if (l->due_ns[i] > now_ns())
            wait_until_ns(l->due_ns[i]);
        number_records(l, request.data + at, i);
        send_all(l->writer, request.data, request.len);
    }
    buf_fini(&request);
    return NULL;
}

static void *read_acks(void *arg)
{
    struct lag *l = arg;
    uint8_t answer[1024];
    for (int64_t i = 0; i < l->count; i++) {
        receive_all(l->writer, answer, 4);
        size_t len = (size_t)get_i32(answer);
        if (len > sizeof(answer))
            die("an answer of %zu bytes", len);
        receive_all(l->writer, answer, len);
        l->acked_ns[i] = now_ns();
        const uint8_t *p = answer + 4 + 4 + 2 + strlen(l->topic) + 4;
        if (get_i16(p + 4) != 0)
            die("Produce: error %d", get_i16(p + 4));
    }
    return NULL;
}

/* ---- The reader ---- */

static void see_batch(struct reader *r, const uint8_t *batch, int64_t now)
{
    const struct lag *l = r->l;
    struct record_iter it;
    struct record record;
    r->next_offset = batch_next_offset(batch);
    if (batch_is_control(batch))
        return;
    if (batch_codec(batch) != 0)
        die("the records come back compressed");
    record_iter_init(&it, batch, batch_payload(batch));
    while (record_iter_next(&it, &record)) {
        int64_t number = record.value.len >= 8 ? get_i64(record.value.p) : -1;
        if (number < 0 || number >= l->count)
            die("a record that was never sent: %" PRId64, number);
        if (r->seen_ns[number] == 0)
            r->seen_ns[number] = now;
        r->ended = number == l->count - 1;
    }
}

static void see(struct reader *r, const uint8_t *p, int32_t len, int64_t now)
{
    struct batch_iter it;
    const uint8_t *batch;
    batch_iter_init(&it, (struct bytes){p, len});
    while (batch_iter_next(&it, &batch) == BATCH_FOUND)
        see_batch(r, batch, now);
}

/* True: something was there for our partition, and the session has to be told the next offset. */
static bool see_answer(struct reader *r, const uint8_t *p, int64_t now)
{
    const struct lag *l = r->l;
    bool moved = false;
    int32_t topics = get_i32(p + 10);
    p += 14;
    for (int32_t t = 0; t < topics; t++) {
        bool ours = (size_t)get_i16(p) == strlen(l->topic) && memcmp(p + 2, l->topic, strlen(l->topic)) == 0;
        p += 2 + get_i16(p);
        int32_t partitions = get_i32(p);
        p += 4;
        for (int32_t i = 0; i < partitions; i++) {
            if (get_i16(p + 4) != 0)
                die("Fetch: error %d", get_i16(p + 4));
            p += 34 + MAX(get_i32(p + 30), 0) * 16 + 4;
            int32_t len = MAX(get_i32(p), 0);
            if (ours && len > 0) {
                see(r, p + 4, len, now);
                moved = true;
            }
            p += 4 + len;
        }
    }
    return moved;
}

static void *read_records(void *arg)
{
    struct reader *r = arg;
    const struct lag *l = r->l;
    struct fetch_want want = {.max_wait_ms = 500, .min_bytes = 1, .max_bytes = 10 << 20, .session_epoch = 0};
    struct buf request = {0}, answer = {0};
    for (bool moved = true; !r->ended;) {
        bool all_of_it = want.session_epoch == 0 && r->idle_partitions > 0;
        fetch_begin(&request, &want, (moved ? 1 : 0) + (all_of_it ? 1 : 0));
        if (moved) {
            fetch_topic(&request, l->topic, 1);
            fetch_partition(&request, 0, r->next_offset, 10 << 20);
        }
        if (all_of_it)
            fetch_topic(&request, l->idle_topic, r->idle_partitions);
        for (int32_t i = 0; all_of_it && i < r->idle_partitions; i++)
            fetch_partition(&request, i, 0, 1 << 20);
        fetch_end(&request);
        call(r->fd, &request, &answer);
        int64_t now = now_ns();
        if (get_i16(answer.data + 4) != 0)
            die("Fetch: error %d", get_i16(answer.data + 4));
        want.session_id = get_i32(answer.data + 6);
        want.session_epoch++;
        moved = see_answer(r, answer.data, now);
    }
    buf_fini(&request);
    buf_fini(&answer);
    return NULL;
}

static void reader_init(struct reader *r, const struct lag *l, const char *server)
{
    *r = (struct reader){.l = l, .fd = -1};
    if (server == NULL)
        return;
    r->fd = connect_to(server);
    r->next_offset = list_offset(r->fd, l->topic, 0, -1);
    r->seen_ns = mem_calloc((size_t)l->count, sizeof(int64_t));
}

static void reader_fini(struct reader *r)
{
    mem_free(r->seen_ns);
    if (r->fd >= 0)
        close(r->fd);
}

/* ---- All of it ---- */

static void print(const struct lag *l, const struct measure *m)
{
    struct samples seen = {0}, acked = {0}, behind = {0}, beside = {0}, later = {0};
    double records = (double)l->count * l->template.records;
    for (int64_t i = l->first_measured; i < l->count; i++) {
        samples_add(&seen, l->reader.seen_ns[i] - l->due_ns[i]);
        samples_add(&acked, l->acked_ns[i] - l->due_ns[i]);
        samples_add(&behind, l->reader.seen_ns[i] - l->acked_ns[i]);
        if (l->beside.fd < 0)
            continue;
        samples_add(&beside, l->beside.seen_ns[i] - l->acked_ns[i]);
        samples_add(&later, l->reader.seen_ns[i] - l->beside.seen_ns[i]);
    }
    out_begin();
    out_measure(m, (double)l->count * (double)l->template.batch.len);
    out_number("records", records);
    out_number("cpu_us_record", (double)m->peer_cpu_ns / 1e3 / records);
    out_samples("seen", &seen);
    out_samples("ack", &acked);
    out_samples("behind_ack", &behind);
    out_samples("beside_behind_ack", &beside);
    out_samples("later_than_beside", &later);
    out_end();
    samples_fini(&seen);
    samples_fini(&acked);
    samples_fini(&behind);
    samples_fini(&beside);
    samples_fini(&later);
}

void run_lag(const struct args *a)
{
    int32_t records = (int32_t)arg_int(a, "records", 1);
    struct lag l = {.topic = arg_needed(a, "topic"),
                    .idle_topic = arg_text(a, "idle-topic", NULL),
                    .rate = MAX(arg_int(a, "rate", 1000) / records, 1),
                    .acks = (int16_t)arg_int(a, "acks", 1)};
    l.first_measured = l.rate * arg_int(a, "warm-seconds", 1);
    l.count = l.first_measured + l.rate * arg_int(a, "seconds", 5);
    l.writer = connect_to(arg_needed(a, "server"));
    reader_init(&l.reader, &l, arg_text(a, "read-server", arg_needed(a, "server")));
    reader_init(&l.beside, &l, arg_text(a, "beside", NULL));
    l.reader.idle_partitions = (int32_t)arg_int(a, "idle-partitions", 0);
    template_init(&l.template, "none", records, (int32_t)arg_int(a, "record-bytes", 1000), -1, -1);
    l.due_ns = mem_calloc((size_t)l.count, sizeof(int64_t));
    l.acked_ns = mem_calloc((size_t)l.count, sizeof(int64_t));
    pthread_t writer, acks, beside;
    struct measure m;
    measure_start(&m, (int)arg_int(a, "pid", 0));
    if (pthread_create(&writer, NULL, write_records, &l) != 0 || pthread_create(&acks, NULL, read_acks, &l) != 0 ||
        (l.beside.fd >= 0 && pthread_create(&beside, NULL, read_records, &l.beside) != 0))
        die("no thread");
    read_records(&l.reader);
    if (l.beside.fd >= 0)
        pthread_join(beside, NULL);
    pthread_join(writer, NULL);
    pthread_join(acks, NULL);
    measure_stop(&m);
    print(&l, &m);
    mem_free(l.due_ns);
    mem_free(l.acked_ns);
    reader_fini(&l.reader);
    reader_fini(&l.beside);
    template_fini(&l.template);
    close(l.writer);
}
