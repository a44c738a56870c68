/* TCP sockets, non-blocking, close-on-exec, TCP_NODELAY. Any thread; a socket is used by one at a time. */
#ifndef KAGAMI_OS_SOCKET_H
#define KAGAMI_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
MUST_CHECK enum error socket_listen(const struct host_port *address, int backlog, int *ret_fd, int *ret_port, struct problem *problem);
/* ERR_NOT_FOUND when nobody waits. peer is "ip:port". */
MUST_CHECK enum error socket_accept(int listen_fd, int *ret_fd, char peer[SOCKET_TEXT_MAX]);
/* One numeric address, for socket_connect. */
struct socket_address {
    uint8_t storage[128];
    uint32_t len;
};
/* Resolves; blocks (run it on a helper). Numeric addresses do not ask anybody. At most max; returns how many. */
MUST_CHECK enum error socket_resolve(const struct host_port *address, struct socket_address *out, int max, int *ret_count, struct problem *problem);
/* Begins to connect; writable means done: then ask socket_error. */
MUST_CHECK enum error socket_connect(const struct socket_address *address, int *ret_fd);
enum error socket_error(int fd, int *ret_errno); /* SO_ERROR */
char *socket_peer_text(int fd, char out[SOCKET_TEXT_MAX]);
char *socket_local_ip(int fd, char out[SOCKET_TEXT_MAX]);
void socket_close(int fd);

#endif
