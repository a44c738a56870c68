/* The listener over real sockets and loops on threads of their own. The clients block, in the test's thread. */
#include "unit.h"

#include <arpa/inet.h>
#include <limits.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "net/listener.h"

enum { LOOPS = 3 };

static struct loop_group *group;
static struct listener *listener;
static atomic_int opened_on[LOOPS], opened, closed, kept_out, without_descriptor;
static sem_t kept;                  /* one for each that was kept out */
static _Atomic(struct conn *) held; /* its request waits for the test */

static void on_opened(void *arg, struct conn *conn)
{
    for (int i = 0; i < LOOPS; i++) {
        if (conn_loop(conn) == loop_group_at(group, i)) {
            ASSERT(loop_is_current(conn_loop(conn)));
            opened_on[i]++;
        }
    }
    opened++;
}

static void on_request(void *arg, struct conn *conn, uint8_t *frame, size_t len)
{
    if (len == 1 && frame[0] == 'h') {
        held = conn;
        return;
    }
    struct chain c;
    chain_init(&c);
    put_u32(chain_extend(&c, 4), (uint32_t)len);
    chain_append(&c, frame, len);
    conn_reply(conn, &c);
}

static void on_closed(void *arg, struct conn *conn, enum error why)
{
    closed++;
}

static void on_kept_out(void *arg, const char *peer, enum error why)
{
    if (why == ERR_NO_SPACE)
        without_descriptor++;
    kept_out++;
    sem_post(&kept);
}

static struct listener_limits limits;

static void start(int max_connections, int max_per_ip)
{
    atomic_store(&limits.connections, max_connections);
    atomic_store(&limits.per_ip, max_per_ip);
    struct listener_config config = {
        .address = {.host = "", .port = 0},
        .limits = &limits,
        .conn_limits = {.request_max_bytes = 1000},
        .events = {.opened = on_opened, .request = on_request, .closed = on_closed},
        .kept_out = on_kept_out,
    };
    struct problem problem;
    for (int i = 0; i < LOOPS; i++)
        opened_on[i] = 0;
    opened = closed = kept_out = without_descriptor = 0;
    sem_init(&kept, 0, 0);
    assert_ok(loop_group_start(CLOCK_SYSTEM, LOOPS, &group));
    assert_ok(listener_start(group, &config, &listener, &problem));
}

static void stop(void)
{
    listener_destroy(listener);
    assert_int_equal(opened, closed);
    loop_group_stop(group);
    sem_destroy(&kept);
}

/* A blocking client; from 127.0.0.1, or from another of the machine's loopback addresses. */
static int connect_from(const char *ip)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in from = {.sin_family = AF_INET},
                       to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)listener_port(listener))};
    struct timeval limit = {.tv_sec = 30};
    inet_pton(AF_INET, ip, &from.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Whether the other side answers; false when it has closed. */
static bool is_served(int fd)
{
    uint8_t out[5] = {0, 0, 0, 1, 'x'}, in[5];
    if (send(fd, out, 5, MSG_NOSIGNAL) != 5)
        return false;
    return recv(fd, in, 5, MSG_WAITALL) == 5 && memcmp(in, out, 5) == 0;
}

static void connections_are_spread_evenly(void **state)
{
    int fds[LOOPS * 4];
    start(INT_MAX, INT_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = connect_from("127.0.0.1");
        assert_true(is_served(fds[i]));
    }
    for (int i = 0; i < LOOPS; i++)
        assert_int_equal(opened_on[i], 4);
    assert_int_equal(listener_connections(listener), LOOPS * 4);
    stop(); /* closes them */
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        assert_false(is_served(fds[i]));
        close(fds[i]);
    }
}

static void wait_for_connections(int count)
{
    while (listener_connections(listener) != count) {
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
}

static void limits_keep_connections_out(void **state)
{
    start(5, 2);
    int a1 = connect_from("127.0.0.1"), a2 = connect_from("127.0.0.1");
    assert_true(is_served(a1) && is_served(a2));
    int a3 = connect_from("127.0.0.1");
    assert_false(is_served(a3));
    assert_int_equal(kept_out, 1);
    int b1 = connect_from("127.0.0.2"), b2 = connect_from("127.0.0.2"), c1 = connect_from("127.0.0.3");
    assert_true(is_served(b1) && is_served(b2) && is_served(c1));
    int d1 = connect_from("127.0.0.4"); /* the sixth */
    assert_false(is_served(d1));
    assert_int_equal(kept_out, 2);
    close(a1);
    wait_for_connections(4);
    int a4 = connect_from("127.0.0.1"); /* its place is free again */
    assert_true(is_served(a4));
    int fds[] = {a2, a3, a4, b1, b2, c1, d1};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
    wait_for_connections(0);
    stop();
}

static void limits_change_while_connections_are_open(void **state)
{
    start(INT_MAX, INT_MAX);
    int fds[] = {connect_from("127.0.0.1"), connect_from("127.0.0.1"), connect_from("127.0.0.2")};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        assert_true(is_served(fds[i]));
    atomic_store(&limits.per_ip, 1); /* what came before it counts, and stays */
    int other = connect_from("127.0.0.2");
    assert_false(is_served(other));
    assert_true(is_served(fds[0]) && is_served(fds[1]));
    close(other);
    atomic_store(&limits.per_ip, INT_MAX);
    atomic_store(&limits.connections, 3);
    other = connect_from("127.0.0.3");
    assert_false(is_served(other));
    close(other);
    atomic_store(&limits.connections, 4);
    other = connect_from("127.0.0.3");
    assert_true(is_served(other));
    assert_int_equal(kept_out, 2);
    close(other);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
    wait_for_connections(0);
    stop();
}

static void without_descriptors_accepting_pauses(void **state)
{
    if (getenv("KAGAMI_VALGRIND") != NULL) /* it keeps descriptors, and a limit, of its own */
        skip();
    start(INT_MAX, INT_MAX);
    int fd = connect_from("127.0.0.1");
    assert_true(is_served(fd));
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    none.rlim_cur = 3; /* below the highest in use: no new one */
    setrlimit(RLIMIT_NOFILE, &none);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)listener_port(listener))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int rc = connect(second, (struct sockaddr *)&to, sizeof(to));
    while (sem_wait(&kept) != 0)
        ;
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(rc, 0);
    assert_true(without_descriptor >= 1);
    assert_true(is_served(second)); /* after the pause */
    close(fd);
    close(second);
    stop();
}

static void closing_frees_the_port_and_keeps_connections(void **state)
{
    start(INT_MAX, INT_MAX);
    int fd = connect_from("127.0.0.1");
    assert_true(is_served(fd));
    struct host_port address = {.host = "127.0.0.1", .port = listener_port(listener)};
    listener_close(listener);
    assert_true(is_served(fd));
    int again, port;
    struct problem problem;
    assert_ok(socket_listen(&address, 1, &again, &port, &problem));
    socket_close(again);
    close(fd);
    stop();
}

static void answer_held(void *arg)
{
    struct chain c;
    chain_init(&c);
    chain_append(&c, "late", 4);
    conn_reply(arg, &c);
}

static void a_request_may_outlive_the_listener(void **state)
{
    start(INT_MAX, INT_MAX);
    held = NULL;
    int fd = connect_from("127.0.0.1");
    assert_int_equal(send(fd, "\0\0\0\1h", 5, MSG_NOSIGNAL), 5);
    while (held == NULL) {
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    listener_destroy(listener);
    assert_int_equal(closed, 1);
    struct conn *conn = held;
    loop_call(conn_loop(conn), answer_held, conn); /* dropped */
    loop_group_stop(group);
    sem_destroy(&kept);
    close(fd);
}

static void a_port_in_use_is_a_problem(void **state)
{
    start(INT_MAX, INT_MAX);
    struct listener_config config = {.address = {.host = "", .port = listener_port(listener)}};
    struct listener *second = NULL;
    struct problem problem;
    assert_int_not_equal(listener_start(group, &config, &second, &problem), OK);
    assert_null(second);
    assert_non_null(strstr(problem.message, "Cannot listen"));
    listener_destroy(NULL);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_spread_evenly),
        cmocka_unit_test(limits_keep_connections_out),
        cmocka_unit_test(limits_change_while_connections_are_open),
        cmocka_unit_test(without_descriptors_accepting_pauses),
        cmocka_unit_test(closing_frees_the_port_and_keeps_connections),
        cmocka_unit_test(a_request_may_outlive_the_listener),
        cmocka_unit_test(a_port_in_use_is_a_problem),
    };
    return cmocka_run_group_tests_name("net/listener", tests, NULL, NULL);
}
