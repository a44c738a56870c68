/* Addresses: what to listen on and what clients are told, from the settings listeners and advertised.listeners. */
#ifndef KAGAMI_SERVER_LISTENERS_H
#define KAGAMI_SERVER_LISTENERS_H

#include "base/error.h"
#include "base/str.h"
#include "os/socket.h"

/* "PLAINTEXT://HOST:PORT", the only protocol of this version; one listener. INVALID_CONFIG names the setting. */
MUST_CHECK enum error listeners_parse(const char *setting, struct str value, struct host_port *ret_address,
                                      struct problem *problem);
/* The host that clients can use for a listener on all addresses: this machine's name when it resolves, else localhost. Blocks. */
void listeners_default_host(char out[SOCKET_HOST_MAX]);
bool listeners_any_address(const char *host);

#endif
