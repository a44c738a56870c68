/* What carries a connection's bytes: a vtable, so that TLS and a test's network take the place of a plain socket without a
 * change above.
 *
 * Never waits. One thread at a time (the owner's loop). Errors: ERR_NOT_FOUND: nothing can be moved now, wait for the
 * descriptor (`wants` says for what: a TLS read may have to write first); ERR_CLOSED: the peer closed or the connection broke;
 * sendfile also ERR_IO and ERR_TRUNCATED (the file could not be read, or ends before the range does). */
#ifndef KAGAMI_NET_TRANSPORT_H
#define KAGAMI_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/chain.h"
#include "base/error.h"

struct transport {
    const struct transport_ops *ops;
    int fd; /* watched by the owner's loop; belongs to the transport */
};

struct transport_ops {
    /* Fewer bytes than there is room for means that no more have come. */
    enum error (*readv)(struct transport *t, const struct iovec *iov, int iov_count, size_t *ret_read);
    /* more: further bytes follow at once, so a short packet may wait for them. */
    enum error (*writev)(struct transport *t, const struct iovec *iov, int iov_count, bool more, size_t *ret_written);
    enum error (*sendfile)(struct transport *t, int file_fd, uint64_t pos, size_t len, size_t *ret_written);
    int (*wants)(struct transport *t, int events); /* loop events to wait for in order to do `events` (LOOP_READ, LOOP_WRITE) */
    void (*close)(struct transport *t);            /* closes fd and frees t */
};

/* Over a non-blocking socket, whose owner it becomes. */
struct transport *transport_plain(int fd);
void transport_close(struct transport *t); /* NULL is OK */

/* Asked before a large range of a file is sent, so that a loop does not wait for the disk. */
struct transport_probe {
    bool (*cached)(int fd, uint64_t pos, size_t len);
    bool loaded;       /* the first range was just loaded: not asked for it */
    bool cold;         /* out: `out` begins with a range that is not in memory, and that is why nothing more was written */
    size_t cold_bytes; /* of it that would have been sent */
};

/* Writes from the front of `out` and consumes what was written, until all is gone (OK), nothing can be moved (ERR_NOT_FOUND),
 * or about max_bytes have been (ERR_NOT_FOUND too: one fast reader does not hold up a loop). *ret_written counts in every
 * case, errors too. probe NULL: what is read from files is waited for. */
enum error transport_write_chain(struct transport *t, struct chain *out, size_t max_bytes, struct transport_probe *probe,
                                 size_t *ret_written);

#endif
