/* A transport whose bytes a test provides: in pieces of a chosen size, and with a chosen end. */
#ifndef KAGAMI_TESTS_UNIT_NET_FAKE_TRANSPORT_H
#define KAGAMI_TESTS_UNIT_NET_FAKE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/transport.h"

struct fake_transport {
    struct transport transport; /* first */
    const uint8_t *in;
    size_t in_len, in_pos;
    size_t per_read;     /* bytes that one read gives at most */
    size_t per_write;    /* bytes that one write takes at most; 0: ERR_NOT_FOUND */
    enum error at_end;   /* what a read gives at the end: ERR_NOT_FOUND or ERR_CLOSED */
    size_t largest_room; /* largest room that a read was given */
    int more_writes;     /* writes that were told that more follows */
    struct buf out;
};

void fake_transport_init(struct fake_transport *f, const void *in, size_t len);

#endif
