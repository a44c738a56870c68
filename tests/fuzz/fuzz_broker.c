/* A whole connection to a whole broker: requests of every API and version as a stranger may send them, over a real socket. Nothing may crash or hang, every answer is a whole frame, answers come in
 * the order of their requests, each once, and memory stays within bounds. Not sent are the calls that make or remove topics (they only fill the disk) and those of the mirror (a stranger's bytes
 * would name hosts to connect to): fuzz_proto_request reads those.
 *
 * Input: byte 0, odd: the rest goes out as it is. Even: requests, each 2 bytes length, API, version (both folded into what there is), body; headers and lengths are added, and one more request is
 * sent behind them, whose answer says that all are through. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/logger.h"
#include "base/mirror_wire.h"
#include "os/file.h"
#include "proto/messages.h"
#include "proto/proto.h"
#include "server/broker.h"

#define REQUESTS_MAX 32
#define WAIT_MS 20          /* for what may wait as long as its client says */
#define HANG_MS 60000       /* for what may not; a metadata commit waits for the disk */
#define TOPIC_ID_FIRST 0x40 /* in inputs: 16 bytes of this stand for the topic's id */
#define MEMORY_MAX ((size_t)512 * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static struct broker *broker;
static struct properties properties;
static char dir[] = "/tmp/kagami-fuzz-XXXXXX";
static struct sockaddr_in address = {.sin_family = AF_INET};
static struct uuid topic_id;

/* ---- The connection ---- */

static int open_connection(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

/* With a reset: what the broker still waits for on this connection's behalf ends at once. */
static void close_connection(int fd)
{
    struct linger reset = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
}

/* False: the broker has hung up, as it may. */
static bool send_all(int fd, const struct buf *bytes)
{
    for (size_t sent = 0; sent < bytes->len;) {
        ssize_t n = send(fd, bytes->data + sent, bytes->len - sent, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

/* False: hung up, or nothing more within the time. */
static bool read_exactly(int fd, void *out, size_t len, int wait_ms)
{
    for (size_t got = 0; got < len;) {
        struct pollfd p = {fd, POLLIN, 0};
        int ready = poll(&p, 1, wait_ms);
        ASSERT(ready > 0 || wait_ms == WAIT_MS); /* it hangs */
        ssize_t n = ready > 0 ? recv(fd, (char *)out + got, len - got, 0) : 0;
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

/* Answers up to that of request `last`; the ids rise. */
static void read_answers(int fd, int32_t last, int wait_ms)
{
    for (int32_t before = 0; before < last;) {
        uint8_t head[8];
        if (!read_exactly(fd, head, sizeof(head), wait_ms))
            return;
        int32_t len = get_i32(head), id = get_i32(head + 4);
        ASSERT(len >= 4 && id > before && id <= last);
        before = id;
        for (size_t left = (size_t)len - 4; left > 0;) {
            uint8_t rest[16384];
            size_t part = MIN(left, sizeof(rest));
            if (!read_exactly(fd, rest, part, HANG_MS))
                return;
            left -= part;
        }
    }
}

/* ---- Requests ---- */

static void put_header(struct buf *out, const struct proto_api *api, int16_t version, int32_t id, size_t body)
{
    static const uint8_t CLIENT[] = {0, 4, 'f', 'u', 'z', 'z', 0}; /* the last: no tagged fields */
    size_t client = proto_request_header_version(api, version) >= 2 ? 7 : proto_request_header_version(api, version) == 1 ? 6 : 0;
    uint8_t head[12];
    put_i32(head, (int32_t)(8 + client + body));
    put_u16(head + 4, (uint16_t)api->key);
    put_u16(head + 6, (uint16_t)version);
    put_i32(head + 8, id);
    buf_append(out, head, sizeof(head));
    buf_append(out, CLIENT, client);
}

/* The id of a topic is another one in every run. */
static void put_body(struct buf *out, const uint8_t *body, size_t len)
{
    uint8_t stand_in[16];
    memset(stand_in, TOPIC_ID_FIRST, sizeof(stand_in));
    buf_append(out, body, len);
    uint8_t *p = len >= sizeof(stand_in) ? memmem(out->data + out->len - len, len, stand_in, sizeof(stand_in)) : NULL;
    if (p != NULL)
        memcpy(p, topic_id.b, sizeof(topic_id.b));
}

static bool left_out(int16_t key)
{
    return key == API_CREATE_TOPICS || key == API_CREATE_PARTITIONS || key == API_DELETE_TOPICS ||
           key >= API_CREATE_CLUSTER_MIRROR;
}

/* How many were put, and whether any may wait as long as it says. */
static int32_t put_requests(const uint8_t *data, size_t size, struct buf *out, bool *ret_may_wait)
{
    int32_t n = 0;
    size_t apis = 0;
    while (proto_api_at(apis) != NULL)
        apis++;
    while (size >= 4 && n < REQUESTS_MAX) {
        const struct proto_api *api = proto_api_at(data[2] % apis);
        int16_t version = (int16_t)(api->valid_min + data[3] % (api->valid_max - api->valid_min + 1));
        size_t len = MIN((size_t)get_u16(data), size - 4);
        if (!left_out(api->key)) {
            put_header(out, api, version, ++n, len);
            put_body(out, data + 4, len);
            *ret_may_wait = *ret_may_wait || api->key == API_FETCH;
        }
        data += 4 + len;
        size -= 4 + len;
    }
    put_header(out, proto_api(API_API_VERSIONS), 0, ++n, 0);
    return n;
}

static bool raw_allowed(const uint8_t *data, size_t size)
{
    while (size >= 6) {
        int32_t len = get_i32(data);
        if (left_out((int16_t)get_u16(data + 4)))
            return false;
        if (len < 0 || (size_t)len > size - 4)
            break;
        data += 4 + len;
        size -= 4 + (size_t)len;
    }
    return true;
}

/* ---- The broker ---- */

static void quiet(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void end_broker(void)
{
    broker_stop(broker);
    properties_fini(&properties);
    ASSERT(fs_remove_tree(fs_system(), dir) == OK);
}

static void make_topic(void)
{
    struct create_topics_request request;
    struct create_topics_request_topics topic = {.name = STR("t"), .num_partitions = 2, .replication_factor = 1};
    struct create_topics_response response;
    const struct proto_api *api = proto_api(API_CREATE_TOPICS);
    struct chain chain;
    struct buf bytes = {0};
    struct arena arena;
    uint8_t head[4];
    int fd = open_connection();
    chain_init(&chain);
    arena_init(&arena, 1 << 20);
    proto_init(&PROTO_CREATE_TOPICS_REQUEST, &request);
    request.topics = &topic;
    request.topics_n = 1;
    request.timeout_ms = 10000;
    ASSERT(proto_encode_request(api, 7, 1, STR("fuzz"), &request, &chain) == OK && chain_read(&chain, &bytes) == OK);
    ASSERT(send_all(fd, &bytes) && read_exactly(fd, head, sizeof(head), HANG_MS));
    buf_clear(&bytes);
    uint8_t *answer = buf_reserve(&bytes, (size_t)get_i32(head));
    ASSERT(read_exactly(fd, answer, (size_t)get_i32(head), HANG_MS));
    bytes.len = (size_t)get_i32(head);
    ASSERT(proto_decode_response(api, 7, 1, buf_bytes(&bytes), &arena, &response) == OK && response.topics[0].error_code == OK);
    topic_id = response.topics[0].topic_id;
    close_connection(fd);
    chain_fini(&chain);
    arena_fini(&arena);
    buf_fini(&bytes);
}

static void start_broker(void)
{
    struct problem problem;
    struct broker_params params = {
        .fs = fs_system(), .clock = CLOCK_SYSTEM, .random = random_system(), .properties = &properties};
    logger_set_sink(quiet, NULL);
    ASSERT(mkdtemp(dir) != NULL);
    properties_set(&properties, STR("log.dirs"), str_of(dir));
    properties_set(&properties, STR("listeners"), STR("PLAINTEXT://127.0.0.1:0"));
    properties_set(&properties, STR("flush.acks.all"), STR("false")); /* the disk is not what is tried here */
    if (broker_start(&params, &broker, &problem) != OK) {
        fprintf(stderr, "%s %s\n", problem.message, problem.detail);
        abort();
    }
    address.sin_port = htons((uint16_t)atoi(strrchr(broker_address(broker), ':') + 1));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    atexit(end_broker);
    make_topic();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf bytes = {0};
    bool may_wait = false, raw = size > 0 && (data[0] & 1) != 0;
    int32_t last = INT32_MAX;
    if (broker == NULL)
        start_broker();
    if (size < 1 || (raw && !raw_allowed(data + 1, size - 1)))
        return 0;
    if (raw)
        buf_append(&bytes, data + 1, size - 1);
    else
        last = put_requests(data + 1, size - 1, &bytes, &may_wait);
    int fd = open_connection();
    bool sent = send_all(fd, &bytes);
    if (sent && !raw)
        read_answers(fd, last, may_wait ? WAIT_MS : HANG_MS);
    if (raw) {
        uint8_t rest[4096];
        shutdown(fd, SHUT_WR); /* the broker reads the end and hangs up */
        while (read_exactly(fd, rest, sizeof(rest), WAIT_MS))
            continue;
    }
    close_connection(fd);
    if (__sanitizer_get_current_allocated_bytes != NULL)
        ASSERT(__sanitizer_get_current_allocated_bytes() < MEMORY_MAX);
    buf_fini(&bytes);
    return 0;
}
