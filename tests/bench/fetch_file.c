/* What a mirror cannot do without, and nothing else: one connection, fetches of 1 MiB a partition (larger ones fall out of the
 * cache and are slower), the CRC of every batch, the bytes into a file. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "bench.h"
#include "codec/record_batch.h"

struct copy {
    const char *topic;
    int32_t partitions;
    int fd, file;
    uint64_t file_pos;
    int64_t *offsets, *ends;
    bool ended;
    struct buf request, answer;
};

static void keep(struct copy *c, int32_t partition, const uint8_t *p, int32_t len)
{
    int32_t at = 0;
    while (len - at >= BATCH_OVERHEAD && batch_size_bytes(p + at) <= len - at) {
        const uint8_t *b = p + at;
        int64_t size = batch_size_bytes(b);
        if (crc32c(0, b + BATCH_POS_ATTRIBUTES, (size_t)size - BATCH_POS_ATTRIBUTES) != batch_crc(b))
            die("a batch at offset %lld is damaged", (long long)batch_base_offset(b));
        c->offsets[partition] = batch_next_offset(b);
        at += (int32_t)size;
    }
    if (at > 0 && pwrite(c->file, p, (size_t)at, (off_t)c->file_pos) != at)
        die("writing failed: %m");
    c->file_pos += (uint64_t)at;
}

static void round_trip(struct copy *c, const struct fetch_want *want)
{
    struct fetch_want all = *want;
    all.max_bytes = want->max_bytes * MIN(c->partitions, 10);
    fetch_begin(&c->request, &all, 1);
    fetch_topic(&c->request, c->topic, c->partitions);
    int32_t begin = (int32_t)(c->file_pos / 1048576 % (uint64_t)c->partitions); /* not always the same ones first */
    for (int32_t i = 0; i < c->partitions; i++) {
        int32_t n = (begin + i) % c->partitions;
        fetch_partition(&c->request, n, c->offsets[n], want->max_bytes);
    }
    fetch_end(&c->request);
    uint8_t head[8];
    send_all(c->fd, c->request.data, c->request.len);
    receive_all(c->fd, head, sizeof(head));
    size_t len = (size_t)get_i32(head) - 4;
    buf_clear(&c->answer);
    receive_all(c->fd, buf_reserve(&c->answer, len), len);
    const uint8_t *p = c->answer.data + 14 + 2 + strlen(c->topic) + 4;
    int32_t partitions = get_i32(p - 4);
    for (int32_t i = 0; i < partitions; i++) {
        int32_t index = get_i32(p), aborted = MAX(get_i32(p + 30), 0);
        if (get_i16(p + 4) != 0)
            die("Fetch of %s-%d: error %d", c->topic, index, get_i16(p + 4));
        p += 34 + aborted * 16 + 4;
        int32_t records = get_i32(p);
        keep(c, index, p + 4, records);
        p += 4 + MAX(records, 0);
    }
    c->ended = true;
    for (int32_t i = 0; i < c->partitions; i++)
        c->ended = c->ended && c->offsets[i] >= c->ends[i];
}

void run_fetch_file(const struct args *a)
{
    struct copy c = {.topic = arg_needed(a, "topic"), .partitions = (int32_t)arg_int(a, "partitions", 1)};
    struct fetch_want want = {.max_wait_ms = 100,
                              .min_bytes = 1,
                              .max_bytes = (int32_t)arg_int(a, "max-bytes", 1048576),
                              .session_epoch = -1};
    c.fd = connect_to(arg_needed(a, "server"));
    c.file = open(arg_needed(a, "file"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (c.file < 0)
        die("%s: %m", arg_needed(a, "file"));
    c.offsets = mem_calloc((size_t)c.partitions, sizeof(int64_t));
    c.ends = mem_calloc((size_t)c.partitions, sizeof(int64_t));
    for (int32_t i = 0; i < c.partitions; i++) {
        c.offsets[i] = list_offset(c.fd, c.topic, i, -2);
        c.ends[i] = list_offset(c.fd, c.topic, i, -1);
    }
    struct measure m;
    measure_start(&m, (int)arg_int(a, "pid", 0));
    while (!c.ended)
        round_trip(&c, &want);
    if (arg_int(a, "sync", 0) != 0 && fdatasync(c.file) != 0)
        die("fdatasync: %m");
    measure_stop(&m);
    out_begin();
    out_measure(&m, (double)c.file_pos);
    out_end();
    close(c.file);
    unlink(arg_needed(a, "file"));
    close(c.fd);
    mem_free(c.offsets);
    mem_free(c.ends);
    buf_fini(&c.request);
    buf_fini(&c.answer);
}
