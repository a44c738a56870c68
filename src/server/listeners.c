#include "server/listeners.h"

#include <stdio.h>
#include <unistd.h>

enum error listeners_parse(const char *setting, struct str value, struct host_port *ret_address, struct problem *problem)
{
    const struct str scheme = STR("PLAINTEXT://");
    struct str rest = str_trim(value);
    if (rest.len > 0 && memchr(rest.p, ',', (size_t)rest.len) != NULL) {
        problem_set(problem, INVALID_CONFIG, "%s names several listeners: %.*s", setting, STR_ARG(value));
        problem_hint(problem, "Name one.");
        return INVALID_CONFIG;
    }
    if (!str_starts(rest, scheme)) {
        problem_set(problem, INVALID_CONFIG, "%s must have the form PLAINTEXT://HOST:PORT, and is %.*s", setting, STR_ARG(value));
        problem_hint(problem, "This version serves PLAINTEXT only.");
        return INVALID_CONFIG;
    }
    rest.p += scheme.len;
    rest.len -= scheme.len;
    if (!host_port_parse(rest, -1, ret_address)) {
        problem_set(problem, INVALID_CONFIG, "%s has no valid HOST:PORT: %.*s", setting, STR_ARG(value));
        problem_hint(problem, "Examples: 127.0.0.1:9092, broker.example.com:9092, [::1]:9092, or :9092 for all addresses.");
        return INVALID_CONFIG;
    }
    return OK;
}

bool listeners_any_address(const char *host)
{
    return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

void listeners_default_host(char out[SOCKET_HOST_MAX])
{
    struct host_port name = {.port = 0};
    struct socket_address address;
    int count = 0;
    if (gethostname(name.host, sizeof(name.host) - 1) == 0 && socket_resolve(&name, &address, 1, &count, NULL) == OK && count > 0)
        snprintf(out, SOCKET_HOST_MAX, "%s", name.host);
    else
        snprintf(out, SOCKET_HOST_MAX, "localhost");
}
