#include "net/transport.h"

#include "base/assert.h"
#include "os/socket.h"

#define PIECES_PER_CALL 64
/* Looking costs two system calls: for less, one short wait at the worst is cheaper. */
#define PROBE_MIN_BYTES (64 * 1024)

static enum error plain_readv(struct transport *t, const struct iovec *iov, int iov_count, size_t *ret_read)
{
    return socket_readv(t->fd, iov, iov_count, ret_read);
}

static enum error plain_writev(struct transport *t, const struct iovec *iov, int iov_count, bool more, size_t *ret_written)
{
    return socket_writev(t->fd, iov, iov_count, more, ret_written);
}

static enum error plain_sendfile(struct transport *t, int file_fd, uint64_t pos, size_t len, size_t *ret_written)
{
    return socket_sendfile(t->fd, file_fd, pos, len, ret_written);
}

static int plain_wants(struct transport *t, int events)
{
    return events;
}

static void plain_close(struct transport *t)
{
    socket_close(t->fd);
    mem_free(t);
}

static const struct transport_ops PLAIN = {
    .readv = plain_readv,
    .writev = plain_writev,
    .sendfile = plain_sendfile,
    .wants = plain_wants,
    .close = plain_close,
};

struct transport *transport_plain(int fd)
{
    struct transport *t = mem_alloc(sizeof(*t));
    *t = (struct transport){.ops = &PLAIN, .fd = fd};
    return t;
}

void transport_close(struct transport *t)
{
    if (t != NULL)
        t->ops->close(t);
}

/* The memory pieces at the front as a vector; *ret_more: something stands behind them. */
static int gather(const struct chain *out, struct iovec iov[PIECES_PER_CALL], bool *ret_more)
{
    int n = 0;
    const struct chain_piece *p = TAILQ_FIRST(&out->pieces);
    for (; p != NULL && p->kind != CHAIN_FILE && n < PIECES_PER_CALL; p = TAILQ_NEXT(p, link)) {
        if (p->len > 0)
            iov[n++] = (struct iovec){.iov_base = (void *)(uintptr_t)p->mem, .iov_len = p->len};
    }
    *ret_more = p != NULL;
    return n;
}

static bool is_cold(struct transport_probe *probe, const struct chain_piece *piece, size_t len)
{
    if (probe == NULL)
        return false;
    bool ask = !probe->loaded && len >= PROBE_MIN_BYTES;
    probe->loaded = false;
    probe->cold = ask && !probe->cached(piece->fd, piece->pos, len);
    probe->cold_bytes = len;
    return probe->cold;
}

enum error transport_write_chain(struct transport *t, struct chain *out, size_t max_bytes, struct transport_probe *probe,
                                 size_t *ret_written)
{
    size_t done = 0;
    enum error e = OK;
    while (out->len > 0 && e == OK) {
        chain_consume(out, 0); /* drops empty pieces at the front */
        if (done >= max_bytes) {
            e = ERR_NOT_FOUND;
            break;
        }
        const struct chain_piece *first = TAILQ_FIRST(&out->pieces);
        size_t n = 0;
        if (first->kind == CHAIN_FILE) {
            size_t len = MIN(first->len, max_bytes - done);
            e = is_cold(probe, first, len) ? ERR_NOT_FOUND : t->ops->sendfile(t, first->fd, first->pos, len, &n);
        } else {
            struct iovec iov[PIECES_PER_CALL];
            bool more;
            int count = gather(out, iov, &more);
            e = t->ops->writev(t, iov, count, more, &n);
        }
        if (e == OK) {
            chain_consume(out, n);
            done += n;
        }
    }
    *ret_written = done;
    return e;
}
