#include "os/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

_Static_assert(sizeof(struct sockaddr_storage) <= sizeof(((struct socket_address *)0)->storage), "any address fits");

bool host_port_parse(struct str text, int default_port, struct host_port *ret_address)
{
    struct str host = text;
    struct str port = STR_NULL;
    const char *colon;
    if (text.p == NULL)
        return false;
    if (text.len > 0 && text.p[0] == '[') {
        const char *end = memchr(text.p, ']', (size_t)text.len);
        if (end == NULL)
            return false;
        host = (struct str){text.p + 1, (int32_t)(end - text.p - 1)};
        struct str rest = {end + 1, text.len - (int32_t)(end + 1 - text.p)};
        if (rest.len > 0 && rest.p[0] != ':')
            return false;
        if (rest.len > 0)
            port = (struct str){rest.p + 1, rest.len - 1};
    } else if ((colon = memchr(text.p, ':', (size_t)text.len)) != NULL) {
        host.len = (int32_t)(colon - text.p);
        port = (struct str){colon + 1, text.len - host.len - 1};
        if (memchr(port.p, ':', (size_t)port.len) != NULL)
            return false; /* a v6 address without brackets */
    }
    int64_t number = default_port;
    if (port.p != NULL && !str_to_i64(port, &number))
        return false;
    if (number < 0 || number > 65535 || host.len >= SOCKET_HOST_MAX || memchr(host.p, '\0', (size_t)host.len) != NULL)
        return false;
    memcpy(ret_address->host, host.p, (size_t)host.len);
    ret_address->host[host.len] = '\0';
    ret_address->port = (int)number;
    return true;
}

char *host_port_text(const struct host_port *address, char out[SOCKET_TEXT_MAX])
{
    bool v6 = strchr(address->host, ':') != NULL;
    snprintf(out, SOCKET_TEXT_MAX, v6 ? "[%s]:%d" : "%s:%d", address->host, address->port);
    return out;
}

/* "ip" of a socket address, with the IPv4 address of a mapped one. */
static int address_ip(const struct sockaddr_storage *ss, char out[INET6_ADDRSTRLEN])
{
    out[0] = '\0';
    if (ss->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
        inet_ntop(AF_INET, &in->sin_addr, out, INET6_ADDRSTRLEN);
        return ntohs(in->sin_port);
    }
    if (ss->ss_family != AF_INET6)
        return 0;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, &in6->sin6_addr, out, INET6_ADDRSTRLEN);
    return ntohs(in6->sin6_port);
}

static char *address_text(const struct sockaddr_storage *ss, char out[SOCKET_TEXT_MAX])
{
    char ip[INET6_ADDRSTRLEN];
    int port = address_ip(ss, ip);
    snprintf(out, SOCKET_TEXT_MAX, strchr(ip, ':') != NULL ? "[%s]:%d" : "%s:%d", ip, port);
    return out;
}

static void set_option(int fd, int level, int option, int value)
{
    /* Each of them is a wish: a socket without it still works. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

static int listen_on(const struct addrinfo *info, int backlog)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (info->ai_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, backlog) == 0)
        return fd;
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

static enum error lookup(const struct host_port *address, int flags, struct addrinfo **ret_list, struct problem *problem)
{
    char service[16];
    snprintf(service, sizeof(service), "%d", address->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    int rc = getaddrinfo(address->host[0] != '\0' ? address->host : NULL, service, &hints, ret_list);
    if (rc == 0)
        return OK;
    enum error e = problem_set(problem, ERR_UNREACHABLE, "The host name %s cannot be resolved.", address->host);
    problem_detail(problem, "%s", rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    problem_hint(problem, "Check the name and the name servers, or give a numeric address.");
    return e;
}

static void listen_problem(const struct host_port *address, int number, struct problem *problem)
{
    char text[SOCKET_TEXT_MAX];
    enum error e = error_from_errno(number);
    problem_set(problem, e == OK ? ERR_IO : e, "Cannot listen on %s.", host_port_text(address, text));
    problem_detail(problem, "%s", strerror(number));
    if (number == EADDRINUSE)
        problem_hint(problem, "Another program listens there: stop it, or take another port.");
    else if (number == EADDRNOTAVAIL)
        problem_hint(problem, "The address does not belong to this machine.");
    else if (number == EACCES)
        problem_hint(problem, "Ports below 1024 need a privilege: take a higher one.");
}

enum error socket_listen(const struct host_port *address, int backlog, int *ret_fd, int *ret_port, struct problem *problem)
{
    struct problem local;
    if (problem == NULL)
        problem = &local;
    struct addrinfo *list;
    enum error e = lookup(address, AI_PASSIVE, &list, problem);
    if (e != OK)
        return e;
    int fd = -1, number = EADDRNOTAVAIL;
    /* All addresses: one v6 socket takes v4 too; v4 alone only where the machine has no v6. */
    for (int pass = 0; pass < 2 && fd < 0; pass++) {
        for (const struct addrinfo *info = list; info != NULL && fd < 0; info = info->ai_next) {
            bool later = address->host[0] == '\0' && info->ai_family != AF_INET6;
            if (later != (pass == 1))
                continue;
            fd = listen_on(info, backlog);
            if (fd < 0)
                number = errno;
        }
    }
    freeaddrinfo(list);
    if (fd < 0) {
        listen_problem(address, number, problem);
        return problem->code;
    }
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    ASSERT(getsockname(fd, (struct sockaddr *)&ss, &len) == 0);
    char ip[INET6_ADDRSTRLEN];
    *ret_port = address_ip(&ss, ip);
    *ret_fd = fd;
    return OK;
}

/* Whether accept4 failed for the one connection only, which is gone (accept(2): network errors are passed on). */
static bool accept_failed_for_one(int number)
{
    switch (number) {
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM:
        return true;
    default:
        return false;
    }
}

enum error socket_accept(int listen_fd, int *ret_fd, char peer[SOCKET_TEXT_MAX])
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    int fd;
    do
        fd = accept4(listen_fd, (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    while (fd < 0 && accept_failed_for_one(errno));
    if (fd >= 0) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        address_text(&ss, peer);
        *ret_fd = fd;
        return OK;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return ERR_NOT_FOUND;
    return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM ? ERR_NO_SPACE : ERR_IO;
}

static int copy_addresses(const struct addrinfo *list, struct socket_address *out, int max)
{
    int count = 0;
    for (const struct addrinfo *info = list; info != NULL && count < max; info = info->ai_next) {
        if (info->ai_addrlen > sizeof(out[count].storage))
            continue;
        memcpy(out[count].storage, info->ai_addr, info->ai_addrlen);
        out[count++].len = info->ai_addrlen;
    }
    return count;
}

enum error socket_resolve(const struct host_port *address, struct socket_address *out, int max, int *ret_count,
                          struct problem *problem)
{
    struct addrinfo *list;
    enum error e = lookup(address, 0, &list, problem);
    if (e != OK)
        return e;
    *ret_count = copy_addresses(list, out, max);
    freeaddrinfo(list);
    return OK;
}

bool socket_numeric(const struct host_port *address, struct socket_address *ret_address)
{
    struct addrinfo *list;
    if (address->host[0] == '\0' || lookup(address, AI_NUMERICHOST, &list, NULL) != OK)
        return false;
    int count = copy_addresses(list, ret_address, 1);
    freeaddrinfo(list);
    return count == 1;
}

enum error socket_connect(const struct socket_address *address, int receive_buffer_bytes, int *ret_fd)
{
    struct sockaddr_storage ss = {0};
    memcpy(&ss, address->storage, MIN(address->len, sizeof(ss)));
    int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return ERR_UNREACHABLE;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (receive_buffer_bytes > 0) /* before connecting: the window's scale is agreed then */
        set_option(fd, SOL_SOCKET, SO_RCVBUF, receive_buffer_bytes);
    if (connect(fd, (struct sockaddr *)&ss, address->len) < 0 && errno != EINPROGRESS && errno != EINTR) {
        int number = errno;
        close(fd);
        errno = number;
        return ERR_UNREACHABLE;
    }
    *ret_fd = fd;
    return OK;
}

enum error socket_error(int fd, int *ret_errno)
{
    socklen_t len = sizeof(*ret_errno);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, ret_errno, &len) < 0 ? error_from_errno(errno) : OK;
}

char *socket_peer_text(int fd, char out[SOCKET_TEXT_MAX])
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    if (getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
        ss.ss_family = AF_UNSPEC;
    return address_text(&ss, out);
}

char *socket_local_ip(int fd, char out[SOCKET_TEXT_MAX])
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
        ss.ss_family = AF_UNSPEC;
    address_ip(&ss, out);
    return out;
}

void socket_close(int fd)
{
    close(fd);
}

static enum error io_error(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK ? ERR_NOT_FOUND : ERR_CLOSED;
}

enum error socket_readv(int fd, const struct iovec *iov, int iov_count, size_t *ret_read)
{
    ssize_t n;
    do
        n = readv(fd, iov, MIN(iov_count, IOV_MAX));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n == 0 ? ERR_CLOSED : io_error();
    *ret_read = (size_t)n;
    return OK;
}

enum error socket_writev(int fd, const struct iovec *iov, int iov_count, bool more, size_t *ret_written)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)MIN(iov_count, IOV_MAX)};
    ssize_t n;
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return io_error();
    *ret_written = (size_t)n;
    return OK;
}

enum error socket_sendfile(int fd, int file_fd, uint64_t pos, size_t len, size_t *ret_written)
{
    off_t from = (off_t)pos;
    ssize_t n;
    do
        n = sendfile(fd, file_fd, &from, len);
    while (n < 0 && errno == EINTR);
    if (n == 0 && len > 0)
        return ERR_TRUNCATED;
    if (n < 0)
        return errno == EIO || errno == EBADF || errno == EINVAL || errno == ENOMEM ? ERR_IO : io_error();
    *ret_written = (size_t)n;
    return OK;
}
