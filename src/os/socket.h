/* TCP sockets, non-blocking, close-on-exec, TCP_NODELAY. Any thread; a socket is used by one at a time.
 *
 * Nothing here waits but socket_resolve. sendfile raises SIGPIPE on a broken connection (there is no flag against it): the
 * threads of os/thread.h do not take it, a program that sends from its main thread ignores it. */
#ifndef KAGAMI_OS_SOCKET_H
#define KAGAMI_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"
#include "base/str.h"

#define SOCKET_HOST_MAX 256
#define SOCKET_TEXT_MAX 300 /* "[v6 address]:port" */

struct host_port {
    char host[SOCKET_HOST_MAX];
    int port;
};

/* "host:port", "[::1]:port", ":port" (all addresses, host ""). default_port -1: a port is required. */
bool host_port_parse(struct str text, int default_port, struct host_port *ret_address);
char *host_port_text(const struct host_port *address, char out[SOCKET_TEXT_MAX]);

/* Listens; port 0 takes a free one. *ret_port is the one taken. The problem names the address. */
MUST_CHECK enum error socket_listen(const struct host_port *address, int backlog, int *ret_fd, int *ret_port,
                                    struct problem *problem);
/* ERR_NOT_FOUND when nobody waits, ERR_NO_SPACE when the process or the system has no descriptor or memory left (the
 * connection keeps waiting), else ERR_IO. peer is "ip:port" or "[v6 ip]:port". */
MUST_CHECK enum error socket_accept(int listen_fd, int *ret_fd, char peer[SOCKET_TEXT_MAX]);
/* One numeric address, for socket_connect. */
struct socket_address {
    uint8_t storage[128];
    uint32_t len;
};
/* Resolves; blocks (run it on a helper). Numeric addresses do not ask anybody. At most max; returns how many. */
MUST_CHECK enum error socket_resolve(const struct host_port *address, struct socket_address *out, int max, int *ret_count,
                                     struct problem *problem);
/* A numeric host, at once and without asking anybody; false when it is a name. */
bool socket_numeric(const struct host_port *address, struct socket_address *ret_address);
/* Begins to connect; writable means done: then ask socket_error. ERR_UNREACHABLE, with the reason in errno, when it fails at
 * once. receive_buffer_bytes: SO_RCVBUF; 0: the system's choice. */
MUST_CHECK enum error socket_connect(const struct socket_address *address, int receive_buffer_bytes, int *ret_fd);
enum error socket_error(int fd, int *ret_errno); /* SO_ERROR */

/* Move what can be moved now. ERR_NOT_FOUND: nothing to read, or no room to write, at the moment (wait for the loop);
 * ERR_CLOSED: the peer closed or the connection broke; for socket_sendfile also ERR_IO (the file could not be read) and
 * ERR_TRUNCATED (it ends at or before pos). */
MUST_CHECK enum error socket_readv(int fd, const struct iovec *iov, int iov_count, size_t *ret_read);
/* more: further bytes follow at once, so a short packet may wait for them (MSG_MORE). */
MUST_CHECK enum error socket_writev(int fd, const struct iovec *iov, int iov_count, bool more, size_t *ret_written);
MUST_CHECK enum error socket_sendfile(int fd, int file_fd, uint64_t pos, size_t len, size_t *ret_written);
char *socket_peer_text(int fd, char out[SOCKET_TEXT_MAX]);
char *socket_local_ip(int fd, char out[SOCKET_TEXT_MAX]);
void socket_close(int fd);

#endif
