/* One producer at a steady rate, one record a request, and a reader behind it (of the same broker, or of the one that mirrors
 * it): how long after it was due to be sent a record is seen, and how long after its acknowledgement. --beside HOST:PORT: another reader, of
 * that broker, at the same time; then also how much later than this one the first sees a record. So the part of a mirror is told from
 * that of its source and of the machine. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
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
    int fd;
    int64_t start_offset;
    int64_t *seen_ns; /* by record */
};

struct lag {
    const char *topic;
    int writer;
    struct reader reader, beside; /* beside.fd -1: none */
    struct template template;
    int16_t acks;
    int64_t rate, count, first_measured;
    int64_t *due_ns, *acked_ns; /* by record */
};

static void wait_until_ns(int64_t at)
{
    struct timespec t = {at / 1000000000, at % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
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
    uint8_t *batch = request.data + at;
    prctl(PR_SET_TIMERSLACK, 1UL);
    int64_t begin = now_ns() + 10000000;
    for (int64_t i = 0; i < l->count; i++) {
        l->due_ns[i] = begin + i * 1000000000 / l->rate;
        if (l->due_ns[i] > now_ns())
            wait_until_ns(l->due_ns[i]);
        put_i64(batch + l->template.value_pos, i);
        put_u32(batch + BATCH_POS_CRC, crc32c(0, batch + BATCH_POS_ATTRIBUTES, l->template.batch.len - BATCH_POS_ATTRIBUTES));
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

static int64_t see(const struct reader *r, const uint8_t *p, int32_t len, int64_t now, int64_t *next_offset)
{
    const struct lag *l = r->l;
    int64_t last = -1;
    for (int32_t at = 0; len - at >= BATCH_OVERHEAD && batch_size_bytes(p + at) <= len - at;
         at += (int32_t)batch_size_bytes(p + at)) {
        const uint8_t *b = p + at;
        *next_offset = batch_next_offset(b);
        if (batch_size_bytes(b) != (int64_t)l->template.batch.len)
            continue; /* a barrier, or somebody else's */
        last = get_i64(b + l->template.value_pos);
        if (last < 0 || last >= l->count)
            die("a record that was never sent: %" PRId64, last);
        r->seen_ns[last] = now;
    }
    return last;
}

static void *read_records(void *arg)
{
    const struct reader *r = arg;
    const struct lag *l = r->l;
    struct fetch_want want = {.topic = l->topic, .max_wait_ms = 500, .min_bytes = 1, .max_bytes = 10 << 20, .session_epoch = 0};
    struct buf request = {0}, answer = {0};
    int64_t offset = r->start_offset;
    for (bool moved = true, ended = false; !ended;) {
        fetch_begin(&request, &want, moved ? 1 : 0);
        if (moved)
            fetch_partition(&request, 0, offset, 10 << 20);
        fetch_end(&request);
        call(r->fd, &request, &answer);
        int64_t now = now_ns();
        if (get_i16(answer.data + 4) != 0)
            die("Fetch: error %d", get_i16(answer.data + 4));
        want.session_id = get_i32(answer.data + 6);
        want.session_epoch++;
        moved = get_i32(answer.data + 10) > 0;
        if (!moved)
            continue;
        const uint8_t *p = answer.data + 14 + 2 + strlen(l->topic) + 4;
        if (get_i16(p + 4) != 0)
            die("Fetch: error %d", get_i16(p + 4));
        p += 34 + MAX(get_i32(p + 30), 0) * 16 + 4;
        if (get_i32(p) > 0)
            ended = see(r, p + 4, get_i32(p), now, &offset) == l->count - 1;
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
    r->start_offset = list_offset(r->fd, l->topic, 0, -1);
    r->seen_ns = mem_calloc((size_t)l->count, sizeof(int64_t));
}

static void reader_fini(struct reader *r)
{
    mem_free(r->seen_ns);
    if (r->fd >= 0)
        close(r->fd);
}

static void report(const struct lag *l)
{
    struct samples seen = {0}, acked = {0}, behind = {0}, beside = {0}, later = {0};
    for (int64_t i = l->first_measured; i < l->count; i++) {
        samples_add(&seen, l->reader.seen_ns[i] - l->due_ns[i]);
        samples_add(&acked, l->acked_ns[i] - l->due_ns[i]);
        samples_add(&behind, l->reader.seen_ns[i] - l->acked_ns[i]);
        if (l->beside.fd < 0)
            continue;
        samples_add(&beside, l->beside.seen_ns[i] - l->acked_ns[i]);
        samples_add(&later, l->reader.seen_ns[i] - l->beside.seen_ns[i]);
    }
    out_samples("seen", &seen);
    out_samples("ack", &acked);
    out_samples("behind_ack", &behind);
    out_samples("beside_behind_ack", &beside);
    out_samples("later_than_beside", &later);
    samples_fini(&seen);
    samples_fini(&acked);
    samples_fini(&behind);
    samples_fini(&beside);
    samples_fini(&later);
}

void run_lag(const struct args *a)
{
    struct lag l = {.topic = arg_needed(a, "topic"), .rate = arg_int(a, "rate", 1000), .acks = (int16_t)arg_int(a, "acks", 1)};
    l.first_measured = l.rate * arg_int(a, "warm-seconds", 1);
    l.count = l.first_measured + l.rate * arg_int(a, "seconds", 5);
    l.writer = connect_to(arg_needed(a, "server"));
    reader_init(&l.reader, &l, arg_text(a, "read-server", arg_needed(a, "server")));
    reader_init(&l.beside, &l, arg_text(a, "beside", NULL));
    template_init(&l.template, "none", 1, (int32_t)arg_int(a, "record-bytes", 1000), -1, -1);
    l.due_ns = mem_calloc((size_t)l.count, sizeof(int64_t));
    l.acked_ns = mem_calloc((size_t)l.count, sizeof(int64_t));
    pthread_t writer, acks, beside;
    struct measure m;
    measure_start(&m, (int)arg_int(a, "pid", 0));
    if (pthread_create(&writer, NULL, write_records, &l) != 0 || pthread_create(&acks, NULL, read_acks, &l) != 0 ||
        (l.beside.fd >= 0 && pthread_create(&beside, NULL, read_records, &l.beside) != 0))
        die("no thread");
    read_records(&l.reader);
    pthread_join(writer, NULL);
    pthread_join(acks, NULL);
    if (l.beside.fd >= 0)
        pthread_join(beside, NULL);
    measure_stop(&m);
    out_begin();
    out_measure(&m, (double)l.count * (double)l.template.batch.len);
    report(&l);
    out_end();
    reader_fini(&l.reader);
    reader_fini(&l.beside);
    mem_free(l.due_ns);
    mem_free(l.acked_ns);
    template_fini(&l.template);
    close(l.writer);
}
