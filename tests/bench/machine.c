/* What the machine can do without a broker, and what a connection costs one. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "bench.h"
#include "codec/record_batch.h"

/* ---- disk ---- */

void run_disk(const struct args *a)
{
    size_t len = (size_t)arg_int(a, "bytes", 16384);
    int64_t seconds = arg_int(a, "seconds", 3), pos = 0;
    uint8_t *data = mem_calloc(1, len);
    int fd = open(arg_needed(a, "file"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        die("%s: %m", arg_needed(a, "file"));
    struct measure m;
    struct samples latency = {0};
    measure_start(&m, 0);
    while (now_ns() - m.start_ns < seconds * 1000000000) {
        int64_t start = now_ns();
        if (pwrite(fd, data, len, pos) != (ssize_t)len || fdatasync(fd) != 0)
            die("%s: %m", arg_needed(a, "file"));
        samples_add(&latency, now_ns() - start);
        pos += (int64_t)len;
    }
    measure_stop(&m);
    out_begin();
    out_measure(&m, (double)pos);
    out_number("syncs_s", (double)latency.count / measure_seconds(&m));
    out_samples("sync", &latency);
    out_end();
    samples_fini(&latency);
    mem_free(data);
    close(fd);
    unlink(arg_needed(a, "file"));
}

/* ---- sendfile ---- */

struct pump {
    int socket, file;
    int64_t file_bytes, bytes;
    size_t piece;
    int64_t cpu_ns;
};

static void *pump(void *arg)
{
    struct pump *p = arg;
    int64_t sent = 0;
    while (sent < p->bytes) {
        off_t pos = sent % p->file_bytes;
        ssize_t n = sendfile(p->socket, p->file, &pos, (size_t)MIN((int64_t)p->piece, p->file_bytes - pos));
        if (n <= 0)
            die("sendfile: %m");
        sent += n;
    }
    shutdown(p->socket, SHUT_WR);
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    p->cpu_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return NULL;
}

static void connect_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0 ||
        connect(pair[0], (struct sockaddr *)&address, len) != 0 || (pair[1] = accept(listener, NULL, NULL)) < 0)
        die("no loopback connection: %m");
    close(listener);
}

void run_sendfile(const struct args *a)
{
    struct pump p = {.file_bytes = arg_int(a, "file-bytes", 256 << 20), .piece = (size_t)arg_int(a, "piece", 1 << 20)};
    p.bytes = arg_int(a, "bytes", p.file_bytes * 8);
    p.file = open(arg_needed(a, "file"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    static uint8_t block[1 << 20];
    for (int64_t at = 0; at < p.file_bytes; at += (int64_t)sizeof(block))
        if (pwrite(p.file, block, sizeof(block), at) != (ssize_t)sizeof(block))
            die("%s: %m", arg_needed(a, "file"));
    int pair[2];
    connect_pair(pair);
    p.socket = pair[0];
    pthread_t thread;
    struct measure m;
    measure_start(&m, 0);
    if (pthread_create(&thread, NULL, pump, &p) != 0)
        die("no thread");
    int64_t got = 0;
    for (ssize_t n; (n = recv(pair[1], NULL, 16 << 20, MSG_TRUNC)) > 0;)
        got += n;
    measure_stop(&m);
    pthread_join(thread, NULL);
    out_begin();
    out_measure(&m, (double)got);
    out_number("cpu_s_gb", (double)p.cpu_ns / (double)got); /* of the sending side */
    out_end();
    close(pair[0]);
    close(pair[1]);
    close(p.file);
    unlink(arg_needed(a, "file"));
}

/* ---- idle connections ---- */

static double rss_kb(int pid)
{
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            sscanf(line + 6, "%ld", &kb);
    if (f != NULL)
        fclose(f);
    return (double)kb;
}

void run_connections(const struct args *a)
{
    int count = (int)arg_int(a, "count", 1000), pid = (int)arg_int(a, "pid", 0);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int *fds = mem_calloc((size_t)count, sizeof(int));
    struct buf request = {0}, answer = {0};
    double before = rss_kb(pid), opened;
    struct measure m;
    measure_start(&m, pid);
    for (int i = 0; i < count; i++) {
        fds[i] = connect_to(arg_needed(a, "server"));
        frame_begin(&request, 18, 0, 1); /* ApiVersions */
        call(fds[i], &request, &answer);
    }
    opened = rss_kb(pid);
    int32_t records = (int32_t)arg_int(a, "records", 1);
    struct template t;
    template_init(&t, "none", records, (int32_t)arg_int(a, "record-bytes", 100), -1, -1);
    for (int i = 0; i < count && arg_text(a, "topic", NULL) != NULL; i++) {
        frame_begin(&request, 0, PRODUCE_VERSION, 1);
        add_string(&request, NULL);
        add_i16(&request, 1);
        add_i32(&request, 30000);
        add_i32(&request, 1);
        add_string(&request, arg_text(a, "topic", ""));
        add_i32(&request, 1);
        add_i32(&request, 0);
        add_i32(&request, (int32_t)t.batch.len);
        buf_append(&request, t.batch.data, t.batch.len);
        call(fds[i], &request, &answer);
    }
    measure_stop(&m);
    out_begin();
    out_measure(&m, 0);
    out_number("bytes_each_opened", (opened - before) * 1024 / count);
    out_number("bytes_each_used", (rss_kb(pid) - before) * 1024 / count);
    out_end();
    for (int i = 0; i < count; i++)
        close(fds[i]);
    mem_free(fds);
    template_fini(&t);
    buf_fini(&request);
    buf_fini(&answer);
}
