#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "bench.h"

enum { API_FETCH_KEY = 1, API_LIST_OFFSETS_KEY = 2, API_INIT_PRODUCER_ID_KEY = 22 };

int connect_to(const char *address)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    if (colon == NULL || (size_t)(colon - address) >= sizeof(host))
        die("%s is not HOST:PORT", address);
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    struct addrinfo *list, hints = {.ai_socktype = SOCK_STREAM};
    if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
        die("no address for %s", address);
    int fd = -1;
    for (struct addrinfo *i = list; i != NULL && fd < 0; i = i->ai_next) {
        fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, i->ai_addr, i->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        die("cannot connect to %s: %m", address);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){NO_ANSWER_SECONDS, 0}, sizeof(struct timeval));
    return fd;
}

void send_all(int fd, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            die("the connection broke: %m");
        p += n;
        len -= (size_t)n;
    }
}

void receive_all(int fd, void *data, size_t len)
{
    uint8_t *p = data;
    while (len > 0) {
        ssize_t n = recv(fd, p, len, 0);
        if (n <= 0)
            die(n == 0 ? "the broker closed the connection" : "no answer: %m");
        p += n;
        len -= (size_t)n;
    }
}

void add_i8(struct buf *b, int8_t v)
{
    buf_append(b, &v, 1);
}
void add_i16(struct buf *b, int16_t v)
{
    put_i16(buf_reserve(b, 2), v);
    b->len += 2;
}
void add_i32(struct buf *b, int32_t v)
{
    put_i32(buf_reserve(b, 4), v);
    b->len += 4;
}
void add_i64(struct buf *b, int64_t v)
{
    put_i64(buf_reserve(b, 8), v);
    b->len += 8;
}
void add_string(struct buf *b, const char *s)
{
    add_i16(b, s == NULL ? -1 : (int16_t)strlen(s));
    if (s != NULL)
        buf_append(b, s, strlen(s));
}

void frame_begin(struct buf *b, int16_t api_key, int16_t version, int32_t correlation_id)
{
    buf_clear(b);
    add_i32(b, 0);
    add_i16(b, api_key);
    add_i16(b, version);
    add_i32(b, correlation_id);
    add_string(b, "bench");
}

void frame_end(struct buf *b, size_t more_bytes)
{
    put_i32(b->data, (int32_t)(b->len - 4 + more_bytes));
}

void call(int fd, struct buf *request, struct buf *answer)
{
    uint8_t head[8];
    frame_end(request, 0);
    send_all(fd, request->data, request->len);
    receive_all(fd, head, sizeof(head));
    buf_clear(answer);
    size_t len = (size_t)get_i32(head) - 4;
    receive_all(fd, buf_reserve(answer, len), len);
    answer->len = len;
}

void get_producer_id(int fd, int64_t *ret_id, int16_t *ret_epoch)
{
    struct buf request = {0}, answer = {0};
    for (int tries = 0;; tries++) {
        frame_begin(&request, API_INIT_PRODUCER_ID_KEY, 0, 1);
        add_string(&request, NULL);
        add_i32(&request, 60000);
        call(fd, &request, &answer);
        int16_t error = get_i16(answer.data + 4);
        if (error == 0)
            break;
        if (tries == 50)
            die("InitProducerId: error %d", error);
        usleep(100000); /* a Kafka that has just started loads its coordinator */
    }
    *ret_id = get_i64(answer.data + 6);
    *ret_epoch = get_i16(answer.data + 14);
    buf_fini(&request);
    buf_fini(&answer);
}

int64_t list_offset(int fd, const char *topic, int32_t partition, int64_t time)
{
    struct buf request = {0}, answer = {0};
    frame_begin(&request, API_LIST_OFFSETS_KEY, 1, 1);
    add_i32(&request, -1);
    add_i32(&request, 1);
    add_string(&request, topic);
    add_i32(&request, 1);
    add_i32(&request, partition);
    add_i64(&request, time);
    call(fd, &request, &answer);
    const uint8_t *p = answer.data + 4 + 2 + strlen(topic) + 4 + 4;
    int16_t error = get_i16(p);
    if (error != 0)
        die("ListOffsets of %s-%d: error %d", topic, partition, error);
    int64_t offset = get_i64(p + 10);
    buf_fini(&request);
    buf_fini(&answer);
    return offset;
}

void fetch_begin(struct buf *b, const struct fetch_want *want, int32_t topics)
{
    frame_begin(b, API_FETCH_KEY, FETCH_VERSION, 1);
    add_i32(b, -1); /* replica id: a consumer */
    add_i32(b, want->max_wait_ms);
    add_i32(b, want->min_bytes);
    add_i32(b, want->max_bytes);
    add_i8(b, 0); /* isolation */
    add_i32(b, want->session_id);
    add_i32(b, want->session_epoch);
    add_i32(b, topics);
}

void fetch_topic(struct buf *b, const char *topic, int32_t partitions)
{
    add_string(b, topic);
    add_i32(b, partitions);
}

void fetch_partition(struct buf *b, int32_t index, int64_t offset, int32_t max_bytes)
{
    add_i32(b, index);
    add_i32(b, -1); /* current leader epoch */
    add_i64(b, offset);
    add_i64(b, -1); /* log start */
    add_i32(b, max_bytes);
}

void fetch_end(struct buf *b)
{
    add_i32(b, 0); /* forgotten topics */
    add_string(b, "");
    frame_end(b, 0);
}
