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

static void allow_many_files(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

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

struct loop {
    int files[1024], count;
    int64_t file_bytes, bytes; /* of each file; of each connection */
    int64_t piece;
    int connections;
};

struct pump { /* one connection: it sends from every so-many-th file in turn */
    const struct loop *loop;
    pthread_t sender, receiver;
    int pair[2], index;
    int64_t got, cpu_ns;
};

static void *pump(void *arg)
{
    struct pump *p = arg;
    const struct loop *l = p->loop;
    int step = l->count >= l->connections ? l->connections : 1, file = step == 1 ? 0 : p->index;
    int64_t sent = 0, at = 0;
    while (sent < l->bytes) {
        off_t pos = at;
        ssize_t n = sendfile(p->pair[0], l->files[file], &pos, (size_t)MIN(MIN(l->piece, l->file_bytes - at), l->bytes - sent));
        if (n <= 0)
            die("sendfile: %m");
        sent += n;
        file += step;
        if (file >= l->count) { /* the next piece of all of them */
            file = step == 1 ? 0 : p->index;
            at = pos >= l->file_bytes ? 0 : pos;
        }
    }
    shutdown(p->pair[0], SHUT_WR);
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    p->cpu_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return NULL;
}

static void *drain(void *arg)
{
    struct pump *p = arg;
    for (ssize_t n; (n = recv(p->pair[1], NULL, 16 << 20, MSG_TRUNC)) > 0;)
        p->got += n;
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

/* Unlinked at once: nothing stays behind, however this ends. */
static int make_file(const char *path, int64_t bytes, bool cold)
{
    static uint8_t block[1 << 20];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        die("%s: %m", path);
    unlink(path);
    for (int64_t at = 0; at < bytes;) {
        ssize_t n = pwrite(fd, block, (size_t)MIN((int64_t)sizeof(block), bytes - at), at);
        if (n <= 0)
            die("%s: %m", path);
        at += n;
    }
    if (cold && (fdatasync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0))
        die("%s: %m", path);
    return fd;
}

void run_sendfile(const struct args *a)
{
    bool cold = arg_int(a, "cold", 0) != 0;
    int64_t file_bytes = arg_int(a, "file-bytes", 256 << 20);
    struct loop l = {.count = (int)arg_int(a, "files", 1),
                     .piece = arg_int(a, "piece", 1 << 20),
                     .connections = (int)arg_int(a, "connections", 1)};
    if (l.count < 1 || l.count > (int)ARRAY_SIZE(l.files) || l.connections < 1)
        die("--files 1 to %zu, --connections from 1 on", ARRAY_SIZE(l.files));
    allow_many_files();
    l.file_bytes = file_bytes / l.count;
    l.bytes = cold ? l.file_bytes * l.count / l.connections : arg_int(a, "bytes", file_bytes * 8) / l.connections;
    for (int i = 0; i < l.count; i++)
        l.files[i] = make_file(arg_needed(a, "file"), l.file_bytes, cold);
    struct pump *pumps = mem_calloc((size_t)l.connections, sizeof(*pumps));
    for (int i = 0; i < l.connections; i++) {
        pumps[i] = (struct pump){.loop = &l, .index = i};
        connect_pair(pumps[i].pair);
    }
    struct measure m;
    int64_t got = 0, cpu_ns = 0;
    measure_start(&m, 0);
    for (int i = 0; i < l.connections; i++)
        if (pthread_create(&pumps[i].sender, NULL, pump, &pumps[i]) != 0 ||
            pthread_create(&pumps[i].receiver, NULL, drain, &pumps[i]) != 0)
            die("no thread");
    for (int i = 0; i < l.connections; i++)
        pthread_join(pumps[i].receiver, NULL);
    measure_stop(&m);
    for (int i = 0; i < l.connections; i++) {
        pthread_join(pumps[i].sender, NULL);
        got += pumps[i].got;
        cpu_ns += pumps[i].cpu_ns;
        close(pumps[i].pair[0]);
        close(pumps[i].pair[1]);
    }
    out_begin();
    out_measure(&m, (double)got);
    out_number("cpu_s_gb", (double)cpu_ns / (double)got); /* of the sending side */
    out_end();
    for (int i = 0; i < l.count; i++)
        close(l.files[i]);
    mem_free(pumps);
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
    allow_many_files();
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
