/* Writes batches over epoll, without threads. Each connection writes to its own share of the partitions, in turns. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "bench.h"
#include "codec/record_batch.h"

#define PART_HEAD (8 + BATCH_OVERHEAD) /* index, length of the records, the batch's header */

struct slot { /* one request on its way */
    uint8_t *memory;
    int64_t sent_ns;
};

struct link {
    int fd;
    struct template template;
    int32_t *partitions; /* mine */
    int32_t partition_count, next_partition;
    int32_t *sequences; /* of my partitions */
    struct slot *slots; /* a ring */
    uint32_t first, in_flight;
    struct iovec *room, *iov; /* for all requests in flight; in it: what is not yet written of the newest ones */
    int iov_count;
    bool want_out;
    struct buf in;
};

struct producer {
    const char *topic;
    int16_t acks;
    int32_t batches; /* a request */
    uint32_t in_flight_max;
    struct link *links;
    int link_count, turn, epoll_fd;
    struct buf prefix; /* of each request, up to the first partition */
    int64_t bytes_max, seconds_max, warm_bytes, rate;
    int64_t bytes, requests, records, unanswered;
    int64_t start_ns, next_due_ns, period_ns;
    bool measuring, finished;
    struct measure measure;
    struct samples latency;
};

static void make_prefix(struct producer *p)
{
    frame_begin(&p->prefix, 0, PRODUCE_VERSION, 1);
    add_string(&p->prefix, NULL);
    add_i16(&p->prefix, p->acks);
    add_i32(&p->prefix, 30000);
    add_i32(&p->prefix, 1);
    add_string(&p->prefix, p->topic);
    add_i32(&p->prefix, p->batches);
}

static void open_link(struct producer *p, struct link *l, const struct args *a, int index, int32_t partitions)
{
    l->fd = connect_to(arg_needed(a, "server"));
    int64_t producer_id = -1;
    int16_t producer_epoch = -1;
    if (arg_int(a, "idempotent", 0) != 0)
        get_producer_id(l->fd, &producer_id, &producer_epoch);
    template_init(&l->template, arg_text(a, "codec", "none"), (int32_t)arg_int(a, "records", 100),
                  (int32_t)arg_int(a, "record-bytes", 1000), producer_id, producer_epoch);
    l->partitions = mem_calloc((size_t)partitions, sizeof(int32_t));
    l->sequences = mem_calloc((size_t)partitions, sizeof(int32_t));
    for (int32_t i = 0; i < partitions; i++)
        if (i % p->link_count == index || partitions < p->link_count)
            l->partitions[l->partition_count++] = i;
    if (partitions < p->link_count)
        l->next_partition = index % partitions;
    if (l->partition_count < p->batches)
        die("fewer partitions a connection than --batches");
    for (int32_t i = 0; i < l->partition_count; i++)
        l->sequences[i] = producer_id >= 0 ? 0 : -1;
    size_t memory = p->prefix.len + (size_t)p->batches * PART_HEAD;
    l->slots = mem_calloc(p->in_flight_max, sizeof(*l->slots));
    l->room = mem_calloc((size_t)p->in_flight_max * (size_t)p->batches * 2, sizeof(struct iovec));
    for (uint32_t i = 0; i < p->in_flight_max; i++)
        l->slots[i].memory = mem_alloc(memory);
    fcntl(l->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};
    if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, l->fd, &event) != 0)
        die("epoll: %m");
}

static void fill_slot(struct producer *p, struct link *l, struct slot *slot)
{
    const struct template *t = &l->template;
    size_t tail = t->batch.len - BATCH_OVERHEAD;
    uint8_t *at = slot->memory, *begin = at;
    memcpy(at, p->prefix.data, p->prefix.len);
    put_i32(at, (int32_t)(p->prefix.len - 4 + (size_t)p->batches * (PART_HEAD + tail)));
    at += p->prefix.len;
    for (int32_t i = 0; i < p->batches; i++) {
        int32_t n = l->next_partition;
        l->next_partition = (n + 1) % l->partition_count;
        put_i32(at, l->partitions[n]);
        put_i32(at + 4, (int32_t)t->batch.len);
        template_header(t, l->sequences[n], at + 8);
        if (l->sequences[n] >= 0)
            l->sequences[n] = sequence_increment(l->sequences[n], t->records);
        at += PART_HEAD;
        l->iov[l->iov_count++] = (struct iovec){begin, (size_t)(at - begin)};
        l->iov[l->iov_count++] = (struct iovec){l->template.batch.data + BATCH_OVERHEAD, tail};
        begin = at;
    }
}

static void watch(struct producer *p, struct link *l, bool out)
{
    if (l->want_out == out)
        return;
    l->want_out = out;
    struct epoll_event event = {.events = EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0), .data.ptr = l};
    epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, l->fd, &event);
}

/* False: the socket is full. */
static bool write_out(struct producer *p, struct link *l)
{
    while (l->iov_count > 0) {
        struct msghdr message = {.msg_iov = l->iov, .msg_iovlen = (size_t)MIN(l->iov_count, 512)};
        ssize_t n = sendmsg(l->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(p, l, true);
            return false;
        }
        if (n < 0)
            die("the connection broke: %m");
        while (n > 0) {
            size_t part = MIN((size_t)n, l->iov->iov_len);
            l->iov->iov_base = (uint8_t *)l->iov->iov_base + part;
            l->iov->iov_len -= part;
            n -= (ssize_t)part;
            if (l->iov->iov_len == 0) {
                l->iov++;
                l->iov_count--;
            }
        }
    }
    watch(p, l, false);
    return true;
}

static void answered(struct producer *p, struct link *l, int64_t now)
{
    struct slot *slot = &l->slots[l->first];
    if (p->measuring && p->acks != 0)
        samples_add(&p->latency, now - slot->sent_ns);
    l->first = (l->first + 1) % p->in_flight_max;
    l->in_flight--;
    p->unanswered--;
    if (p->finished)
        return; /* came behind the end of the measurement */
    p->bytes += (int64_t)l->template.batch.len * p->batches;
    p->records += (int64_t)l->template.records * p->batches;
    p->requests++;
    if (!p->measuring && p->bytes >= p->warm_bytes) {
        p->measuring = true;
        p->bytes = p->records = p->requests = 0;
        measure_start(&p->measure, p->measure.pid);
    }
    if (p->measuring && ((p->bytes_max > 0 && p->bytes >= p->bytes_max) ||
                         (p->seconds_max > 0 && now - p->measure.start_ns >= p->seconds_max * 1000000000)))
        p->finished = true;
}

static bool may_send(struct producer *p, struct link *l, int64_t now)
{
    if (p->finished || l->in_flight == p->in_flight_max)
        return false;
    return p->rate == 0 || p->next_due_ns <= now;
}

/* All that may go leaves in one call: several small requests then cost us one. */
static void send_more(struct producer *p, struct link *l)
{
    if (l->iov_count > 0 && !write_out(p, l))
        return;
    do {
        int64_t now = now_ns();
        l->iov = l->room;
        while (may_send(p, l, now)) {
            struct slot *slot = &l->slots[(l->first + l->in_flight) % p->in_flight_max];
            fill_slot(p, l, slot);
            slot->sent_ns = p->rate > 0 ? p->next_due_ns : now; /* when it should have gone: waiting counts */
            p->next_due_ns += p->period_ns;
            l->in_flight++;
            p->unanswered++;
        }
        if (!write_out(p, l))
            return;
        while (p->acks == 0 && l->in_flight > 0)
            answered(p, l, now);
    } while (p->acks == 0 && may_send(p, l, now_ns()));
}

/* Error codes of one answer. */
static void check_answer(struct producer *p, const uint8_t *frame, size_t len)
{
    const uint8_t *at = frame + 4 + 4 + 2 + strlen(p->topic) + 4;
    for (int32_t i = 0; i < p->batches; i++, at += 30) {
        if (at + 30 > frame + len)
            die("an answer is too short");
        if (get_i16(at + 4) != 0)
            die("Produce to %s-%d: error %d", p->topic, get_i32(at), get_i16(at + 4));
    }
}

static void read_in(struct producer *p, struct link *l)
{
    uint8_t *room = buf_reserve(&l->in, 65536);
    ssize_t n = recv(l->fd, room, 65536, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        die("the broker closed the connection");
    l->in.len += (size_t)n;
    int64_t now = now_ns();
    size_t at = 0;
    while (l->in.len - at >= 4 && l->in.len - at >= 4 + (size_t)get_i32(l->in.data + at)) {
        size_t len = (size_t)get_i32(l->in.data + at);
        check_answer(p, l->in.data + at + 4, len);
        answered(p, l, now);
        at += 4 + len;
    }
    memmove(l->in.data, l->in.data + at, l->in.len - at);
    l->in.len -= at;
}

static void wait_and_work(struct producer *p)
{
    struct epoll_event events[64];
    struct timespec timeout = {NO_ANSWER_SECONDS, 0};
    if (p->rate > 0 && !p->finished) {
        int64_t left = MAX(p->next_due_ns - now_ns(), 0);
        timeout = (struct timespec){left / 1000000000, left % 1000000000};
    }
    int n = epoll_pwait2(p->epoll_fd, events, 64, &timeout, NULL);
    if (n == 0 && p->rate == 0)
        die("no answer for %d s, %lld requests wait", NO_ANSWER_SECONDS, (long long)p->unanswered);
    for (int i = 0; i < n; i++) {
        struct link *l = events[i].data.ptr;
        if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0)
            read_in(p, l);
        if (p->rate == 0 || l->iov_count > 0)
            send_more(p, l);
    }
    if (p->rate > 0 && !p->finished) { /* what is due goes over one connection after the other */
        send_more(p, &p->links[p->turn]);
        p->turn = (p->turn + 1) % p->link_count;
    }
}

static void print(struct producer *p)
{
    double seconds = measure_seconds(&p->measure);
    out_begin();
    out_measure(&p->measure, (double)p->bytes);
    out_number("requests", (double)p->requests);
    out_number("requests_s", (double)p->requests / seconds);
    out_number("records_s", (double)p->records / seconds);
    out_samples("ack", &p->latency);
    out_end();
}

static void close_all(struct producer *p)
{
    for (int i = 0; i < p->link_count; i++) {
        struct link *l = &p->links[i];
        close(l->fd);
        template_fini(&l->template);
        for (uint32_t s = 0; s < p->in_flight_max; s++)
            mem_free(l->slots[s].memory);
        mem_free(l->room);
        mem_free(l->slots);
        mem_free(l->partitions);
        mem_free(l->sequences);
        buf_fini(&l->in);
    }
    mem_free(p->links);
    buf_fini(&p->prefix);
    samples_fini(&p->latency);
    close(p->epoll_fd);
}

void run_produce(const struct args *a)
{
    struct producer p = {.topic = arg_needed(a, "topic"),
                         .acks = (int16_t)arg_int(a, "acks", 1),
                         .batches = (int32_t)arg_int(a, "batches", 1),
                         .in_flight_max = (uint32_t)arg_int(a, "in-flight", 5),
                         .link_count = (int)arg_int(a, "connections", 1),
                         .bytes_max = arg_int(a, "bytes", 0),
                         .seconds_max = arg_int(a, "seconds", 0),
                         .warm_bytes = arg_int(a, "warm-bytes", 0),
                         .rate = arg_int(a, "rate", 0),
                         .measure = {.pid = (int)arg_int(a, "pid", 0)}};
    if (p.bytes_max == 0 && p.seconds_max == 0)
        p.seconds_max = 3;
    p.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    make_prefix(&p);
    p.links = mem_calloc((size_t)p.link_count, sizeof(*p.links));
    for (int i = 0; i < p.link_count; i++)
        open_link(&p, &p.links[i], a, i, (int32_t)arg_int(a, "partitions", 1));
    if (p.rate > 0)
        p.period_ns = 1000000000 / MAX(p.rate / (p.batches * p.links[0].template.records), 1);
    p.next_due_ns = now_ns();
    p.measuring = p.warm_bytes == 0;
    measure_start(&p.measure, p.measure.pid);
    for (int i = 0; i < p.link_count; i++)
        send_more(&p, &p.links[i]);
    while (!p.finished)
        wait_and_work(&p);
    measure_stop(&p.measure);
    while (p.unanswered > 0 && p.acks != 0)
        wait_and_work(&p);
    print(&p);
    close_all(&p);
}
