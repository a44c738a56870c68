/* Reads with a thread a connection and drops the records inside the kernel (MSG_TRUNC). The topic must have been written by
 * `produce`: batches of one size, so that the first header of an answer tells where the next fetch begins. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "bench.h"
#include "codec/record_batch.h"

struct consumer {
    const struct args *args;
    const char *topic;
    struct fetch_want want;
    int32_t partition_bytes;
    bool sessions, wrap, once;
    int64_t bytes_max, requests_max;
    _Atomic int64_t bytes, requests, empty;
    atomic_bool finished;
};

struct position {
    int32_t index;
    int64_t offset;
    bool moved; /* the session does not know it yet */
    bool ended; /* with --once: read to its end */
};

struct reader {
    struct consumer *consumer;
    pthread_t thread;
    int fd;
    struct position *positions; /* of my partitions, by index / step */
    int32_t count, step, unended;
    int32_t session_id, session_epoch;
    struct buf request;
    uint8_t in[65536];
    size_t in_pos, in_len;
    size_t frame_left; /* of the answer, behind what lies in `in` at in_pos */
    struct samples latency;
};

static const uint8_t *take(struct reader *r, size_t len)
{
    if (len > r->frame_left)
        die("an answer is shorter than it says");
    if (r->in_len - r->in_pos < len) {
        memmove(r->in, r->in + r->in_pos, r->in_len - r->in_pos);
        r->in_len -= r->in_pos;
        r->in_pos = 0;
        while (r->in_len < len) {
            ssize_t n = recv(r->fd, r->in + r->in_len, MIN(sizeof(r->in) - r->in_len, r->frame_left - r->in_len), 0);
            if (n <= 0)
                die(n == 0 ? "the broker closed the connection" : "no answer: %m");
            r->in_len += (size_t)n;
        }
    }
    const uint8_t *at = r->in + r->in_pos;
    r->in_pos += len;
    r->frame_left -= len;
    return at;
}

static void drop(struct reader *r, size_t len)
{
    size_t here = MIN(len, r->in_len - r->in_pos);
    take(r, here);
    for (len -= here; len > 0;) {
        ssize_t n = recv(r->fd, NULL, len, MSG_TRUNC);
        if (n <= 0)
            die(n == 0 ? "the broker closed the connection" : "no answer: %m");
        len -= (size_t)n;
        r->frame_left -= (size_t)n;
    }
}

static void ask(struct reader *r)
{
    struct consumer *c = r->consumer;
    bool all = !c->sessions || r->session_id == 0;
    int32_t count = 0;
    for (int32_t i = 0; i < r->count; i++)
        count += all || r->positions[i].moved ? 1 : 0;
    struct fetch_want want = c->want;
    want.session_id = r->session_id;
    want.session_epoch = !c->sessions ? -1 : r->session_epoch;
    fetch_begin(&r->request, &want, count > 0 ? 1 : 0);
    if (count > 0)
        fetch_topic(&r->request, c->topic, count);
    for (int32_t i = 0; i < r->count; i++) {
        struct position *p = &r->positions[i];
        if (all || p->moved)
            fetch_partition(&r->request, p->index, p->offset, c->partition_bytes);
        p->moved = false;
    }
    fetch_end(&r->request);
    send_all(r->fd, r->request.data, r->request.len);
}

static void take_partition(struct reader *r)
{
    struct consumer *c = r->consumer;
    const uint8_t *p = take(r, 34);
    struct position *position = &r->positions[get_i32(p) / r->step];
    int16_t error = get_i16(p + 4);
    int64_t high_watermark = get_i64(p + 6);
    int32_t aborted = get_i32(p + 30);
    if (error != 0)
        die("Fetch of %s-%d: error %d", c->topic, position->index, error);
    for (int32_t i = 0; i < aborted; i++)
        take(r, 16);
    p = take(r, 8);
    int32_t len = get_i32(p + 4);
    if (len >= BATCH_OVERHEAD) {
        p = take(r, BATCH_OVERHEAD);
        int64_t size = batch_size_bytes(p);
        position->offset = batch_base_offset(p) + len / size * (batch_last_offset_delta(p) + 1);
        position->moved = true;
        atomic_fetch_add_explicit(&c->bytes, len, memory_order_relaxed);
        drop(r, (size_t)len - BATCH_OVERHEAD);
    } else if (len > 0)
        drop(r, (size_t)len);
    if (position->offset < high_watermark)
        return;
    if (c->once) {
        r->unended -= position->ended ? 0 : 1;
        position->ended = true;
    } else if (c->wrap) { /* once more from the beginning */
        position->offset = 0;
        position->moved = true;
    }
}

static void take_answer(struct reader *r)
{
    struct consumer *c = r->consumer;
    r->frame_left = 8;
    r->frame_left = (size_t)get_i32(take(r, 8)) - 4;
    const uint8_t *p = take(r, 14);
    if (get_i16(p + 4) != 0)
        die("Fetch: error %d", get_i16(p + 4));
    if (c->sessions) {
        r->session_id = get_i32(p + 6);
        r->session_epoch++;
    }
    int32_t topics = get_i32(p + 10);
    if (topics == 0)
        atomic_fetch_add_explicit(&c->empty, 1, memory_order_relaxed);
    for (int32_t t = 0; t < topics; t++) {
        take(r, (size_t)get_i16(take(r, 2)));
        int32_t partitions = get_i32(take(r, 4));
        for (int32_t i = 0; i < partitions; i++)
            take_partition(r);
    }
    if (r->frame_left != 0)
        die("an answer is longer than it says");
}

static void *run(void *arg)
{
    struct reader *r = arg;
    struct consumer *c = r->consumer;
    while (!atomic_load(&c->finished) && r->unended > 0) {
        int64_t start = now_ns();
        ask(r);
        take_answer(r);
        samples_add(&r->latency, now_ns() - start);
        int64_t requests = atomic_fetch_add(&c->requests, 1) + 1;
        if ((c->bytes_max > 0 && atomic_load(&c->bytes) >= c->bytes_max) || (c->requests_max > 0 && requests >= c->requests_max))
            atomic_store(&c->finished, true);
    }
    return NULL;
}

static void open_reader(struct reader *r, struct consumer *c, int index, int readers, int32_t partitions)
{
    r->consumer = c;
    r->fd = connect_to(arg_needed(c->args, "server"));
    bool shared = partitions < readers;
    r->step = shared ? 1 : readers;
    r->positions = mem_calloc((size_t)partitions, sizeof(*r->positions));
    for (int32_t i = shared ? 0 : index; i < partitions; i += r->step) {
        struct position *p = &r->positions[r->count++];
        p->index = i;
        p->offset = list_offset(r->fd, c->topic, i, arg_int(c->args, "end", 0) != 0 ? -1 : -2);
    }
    r->unended = r->count;
}

void run_consume(const struct args *a)
{
    struct consumer c = {.args = a,
                         .topic = arg_needed(a, "topic"),
                         .want = {.max_wait_ms = (int32_t)arg_int(a, "wait-ms", 100),
                                  .min_bytes = (int32_t)arg_int(a, "min-bytes", 1),
                                  .max_bytes = (int32_t)arg_int(a, "max-bytes", 10485760)},
                         .partition_bytes = (int32_t)arg_int(a, "partition-bytes", 1048576),
                         .sessions = arg_int(a, "sessions", 1) != 0,
                         .wrap = arg_int(a, "end", 0) == 0,
                         .once = arg_int(a, "once", 0) != 0,
                         .bytes_max = arg_int(a, "bytes", 0),
                         .requests_max = arg_int(a, "requests", 0)};
    int count = (int)arg_int(a, "connections", 1);
    struct reader *readers = mem_calloc((size_t)count, sizeof(*readers));
    for (int i = 0; i < count; i++)
        open_reader(&readers[i], &c, i, count, (int32_t)arg_int(a, "partitions", 1));
    struct measure m;
    struct samples latency = {0};
    measure_start(&m, (int)arg_int(a, "pid", 0));
    for (int i = 0; i < count; i++)
        if (pthread_create(&readers[i].thread, NULL, run, &readers[i]) != 0)
            die("no thread");
    for (int i = 0; i < count; i++)
        pthread_join(readers[i].thread, NULL);
    measure_stop(&m);
    for (int i = 0; i < count; i++) {
        for (size_t s = 0; s < readers[i].latency.count; s++)
            samples_add(&latency, readers[i].latency.ns[s]);
        samples_fini(&readers[i].latency);
        buf_fini(&readers[i].request);
        mem_free(readers[i].positions);
        close(readers[i].fd);
    }
    mem_free(readers);
    out_begin();
    out_measure(&m, (double)atomic_load(&c.bytes));
    out_number("requests", (double)atomic_load(&c.requests));
    out_number("requests_s", (double)atomic_load(&c.requests) / measure_seconds(&m));
    out_number("empty", (double)atomic_load(&c.empty));
    out_samples("fetch", &latency);
    out_end();
    samples_fini(&latency);
}
