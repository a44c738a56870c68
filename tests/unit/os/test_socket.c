#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/socket.h"

static void addresses_are_parsed_and_printed(void **state)
{
    static const struct {
        const char *text;
        int default_port;
        const char *host; /* NULL: refused */
        int port;
        const char *printed;
    } table[] = {
        {"broker:9092", -1, "broker", 9092, "broker:9092"},
        {"broker", 9092, "broker", 9092, "broker:9092"},
        {"broker", -1, NULL, 0, NULL},
        {":0", -1, "", 0, ":0"},
        {"[::1]:19092", -1, "::1", 19092, "[::1]:19092"},
        {"[::1]", 9, "::1", 9, "[::1]:9"},
        {"[::1", 9, NULL, 0, NULL},
        {"[::1]9", 9, NULL, 0, NULL},
        {"::1", 9, NULL, 0, NULL},
        {"a:", 9, NULL, 0, NULL},
        {"a:65535", 9, "a", 65535, "a:65535"},
        {"a:65536", 9, NULL, 0, NULL},
        {"a:-1", 9, NULL, 0, NULL},
        {"a:9x", 9, NULL, 0, NULL},
        {"", 9, "", 9, ":9"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct host_port a = {.port = -5};
        char text[SOCKET_TEXT_MAX];
        bool ok = host_port_parse(str_of(table[i].text), table[i].default_port, &a);
        assert_int_equal(ok, table[i].host != NULL);
        if (!ok) {
            assert_int_equal(a.port, -5); /* untouched */
            continue;
        }
        assert_string_equal(a.host, table[i].host);
        assert_int_equal(a.port, table[i].port);
        assert_string_equal(host_port_text(&a, text), table[i].printed);
    }
    struct host_port a;
    char *longest = malloc(600);
    memset(longest, 'a', 600);
    assert_false(host_port_parse((struct str){longest, 600}, 1, &a));
    assert_false(host_port_parse((struct str){longest, SOCKET_HOST_MAX}, 1, &a));
    assert_true(host_port_parse((struct str){longest, SOCKET_HOST_MAX - 1}, 1, &a));
    char text[SOCKET_TEXT_MAX];
    host_port_text(&a, text);
    free(longest);
}

static void wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    assert_int_equal(poll(&p, 1, 10000), 1);
}

struct pair {
    int listener, client, server, port;
    char peer[SOCKET_TEXT_MAX];
};

static void listen_here(struct pair *p, const char *host)
{
    struct host_port address = {.port = 0};
    snprintf(address.host, sizeof(address.host), "%s", host);
    struct problem problem;
    assert_ok(socket_listen(&address, 16, &p->listener, &p->port, &problem));
    assert_true(p->port > 0);
}

static void connect_here(struct pair *p)
{
    struct host_port address = {.host = "127.0.0.1", .port = p->port};
    struct socket_address numeric;
    assert_true(socket_numeric(&address, &numeric));
    assert_ok(socket_connect(&numeric, 0, &p->client));
    wait_for(p->client, POLLOUT);
    int number = -1;
    assert_ok(socket_error(p->client, &number));
    assert_int_equal(number, 0);
    wait_for(p->listener, POLLIN);
    assert_ok(socket_accept(p->listener, &p->server, p->peer));
}

static void close_pair(struct pair *p)
{
    socket_close(p->client);
    socket_close(p->server);
    socket_close(p->listener);
}

static void a_connection_carries_bytes_and_files(void **state)
{
    struct pair p;
    listen_here(&p, ""); /* all addresses: IPv4 shows as such */
    int fd;
    char peer[SOCKET_TEXT_MAX];
    assert_error(socket_accept(p.listener, &fd, peer), ERR_NOT_FOUND);
    connect_here(&p);
    assert_memory_equal(p.peer, "127.0.0.1:", 10);
    assert_string_equal(socket_peer_text(p.server, peer), p.peer);
    assert_string_equal(socket_local_ip(p.server, peer), "127.0.0.1");

    char data[16];
    struct iovec in = {.iov_base = data, .iov_len = sizeof(data)};
    size_t n;
    assert_error(socket_readv(p.server, &in, 1, &n), ERR_NOT_FOUND);
    struct iovec out[2] = {{.iov_base = (char[]){'a', 'b'}, .iov_len = 2}, {.iov_base = (char[]){'c'}, .iov_len = 1}};
    assert_ok(socket_writev(p.client, out, 2, true, &n));
    FILE *f = tmpfile();
    fputs("0123456789", f);
    fflush(f);
    size_t sent;
    assert_ok(socket_sendfile(p.client, fileno(f), 3, 4, &sent));
    assert_int_equal(sent, 4);
    assert_error(socket_sendfile(p.client, fileno(f), 10, 4, &sent), ERR_TRUNCATED);
    assert_error(socket_sendfile(p.client, -1, 0, 4, &sent), ERR_IO);
    for (size_t got = 0; got < 7; got += n) {
        wait_for(p.server, POLLIN);
        in = (struct iovec){.iov_base = data + got, .iov_len = sizeof(data) - got};
        assert_ok(socket_readv(p.server, &in, 1, &n));
    }
    assert_memory_equal(data, "abc3456", 7);
    fclose(f);
    close_pair(&p);
}

static void a_broken_connection_is_an_error_and_no_signal(void **state)
{
    struct pair p;
    listen_here(&p, "127.0.0.1");
    connect_here(&p);
    char data[1 << 16] = {0};
    struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
    size_t n;
    enum error e;
    while ((e = socket_writev(p.server, &iov, 1, false, &n)) == OK) /* until the buffers are full */
        ;
    assert_error(e, ERR_NOT_FOUND);
    socket_close(p.client);
    wait_for(p.server, POLLHUP);
    while ((e = socket_writev(p.server, &iov, 1, false, &n)) == OK || e == ERR_NOT_FOUND)
        ;
    assert_error(e, ERR_CLOSED);
    assert_error(socket_writev(p.server, &iov, 1, false, &n), ERR_CLOSED); /* the second time it would be the signal */
    assert_error(socket_readv(p.server, &iov, 1, &n), ERR_CLOSED);
    socket_close(p.server);
    socket_close(p.listener);
}

static void nobody_listens(void **state)
{
    struct pair p;
    listen_here(&p, "127.0.0.1");
    socket_close(p.listener);
    struct host_port address = {.host = "127.0.0.1", .port = p.port};
    struct socket_address numeric;
    assert_true(socket_numeric(&address, &numeric));
    int fd;
    if (socket_connect(&numeric, 0, &fd) == OK) {
        wait_for(fd, POLLOUT);
        int number = 0;
        assert_ok(socket_error(fd, &number));
        assert_int_not_equal(number, 0);
        socket_close(fd);
    }
}

static void a_port_in_use_is_named(void **state)
{
    struct pair p;
    listen_here(&p, "127.0.0.1");
    struct host_port address = {.host = "127.0.0.1", .port = p.port};
    struct problem problem;
    int fd, port;
    char text[SOCKET_TEXT_MAX];
    assert_int_not_equal(socket_listen(&address, 16, &fd, &port, &problem), OK);
    assert_non_null(strstr(problem.message, host_port_text(&address, text)));
    assert_non_null(strstr(problem.hint, "another port"));
    socket_close(p.listener);
    address.port = 0;
    snprintf(address.host, sizeof(address.host), "192.0.2.1"); /* TEST-NET: nobody's */
    assert_int_not_equal(socket_listen(&address, 16, &fd, &port, &problem), OK);
    assert_non_null(strstr(problem.hint, "does not belong"));
}

static void names_are_resolved_or_refused(void **state)
{
    struct host_port address = {.host = "localhost", .port = 9092};
    struct socket_address out[8];
    int count = 0;
    struct problem problem;
    assert_false(socket_numeric(&address, out));
    assert_ok(socket_resolve(&address, out, 8, &count, &problem));
    assert_in_range(count, 1, 8);
    snprintf(address.host, sizeof(address.host), "no such host");
    assert_error(socket_resolve(&address, out, 8, &count, &problem), ERR_UNREACHABLE);
    assert_non_null(strstr(problem.message, "no such host"));
    snprintf(address.host, sizeof(address.host), "::1");
    assert_true(socket_numeric(&address, out));
    address.host[0] = '\0';
    assert_false(socket_numeric(&address, out));
}

static void without_descriptors_the_connection_waits(void **state)
{
    if (getenv("KAGAMI_VALGRIND") != NULL) /* it keeps descriptors, and a limit, of its own */
        skip();
    struct pair p;
    listen_here(&p, "127.0.0.1");
    struct host_port address = {.host = "127.0.0.1", .port = p.port};
    struct socket_address numeric;
    assert_true(socket_numeric(&address, &numeric));
    assert_ok(socket_connect(&numeric, 0, &p.client));
    wait_for(p.listener, POLLIN);
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    enum error e = socket_accept(p.listener, &p.server, p.peer);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_error(e, ERR_NO_SPACE);
    assert_ok(socket_accept(p.listener, &p.server, p.peer));
    close_pair(&p);
}

int main(void)
{
    signal(SIGPIPE, SIG_DFL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_parsed_and_printed),
        cmocka_unit_test(a_connection_carries_bytes_and_files),
        cmocka_unit_test(a_broken_connection_is_an_error_and_no_signal),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(names_are_resolved_or_refused),
        cmocka_unit_test(without_descriptors_the_connection_waits),
    };
    return cmocka_run_group_tests_name("os/socket", tests, NULL, NULL);
}
