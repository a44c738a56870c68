#include "fake_transport.h"

#include <string.h>

#include "base/assert.h"

static enum error fake_readv(struct transport *t, const struct iovec *iov, int iov_count, size_t *ret_read)
{
    struct fake_transport *f = (struct fake_transport *)t;
    size_t room = 0, got = 0;
    for (int i = 0; i < iov_count; i++)
        room += iov[i].iov_len;
    f->largest_room = MAX(f->largest_room, room);
    size_t give = MIN(MIN(room, f->per_read), f->in_len - f->in_pos);
    if (give == 0)
        return f->at_end;
    for (int i = 0; i < iov_count && got < give; i++) {
        size_t part = MIN(iov[i].iov_len, give - got);
        memcpy(iov[i].iov_base, f->in + f->in_pos, part);
        f->in_pos += part;
        got += part;
    }
    *ret_read = got;
    return OK;
}

static enum error fake_writev(struct transport *t, const struct iovec *iov, int iov_count, bool more, size_t *ret_written)
{
    struct fake_transport *f = (struct fake_transport *)t;
    size_t left = f->per_write, done = 0;
    if (left == 0)
        return ERR_NOT_FOUND;
    ASSERT(iov_count > 0);
    f->more_writes += more;
    for (int i = 0; i < iov_count && left > 0; i++) {
        size_t part = MIN(iov[i].iov_len, left);
        buf_append(&f->out, iov[i].iov_base, part);
        left -= part;
        done += part;
    }
    *ret_written = done;
    return OK;
}

static enum error fake_sendfile(struct transport *t, int file_fd, uint64_t pos, size_t len, size_t *ret_written)
{
    struct fake_transport *f = (struct fake_transport *)t;
    struct chain one;
    if (f->per_write == 0)
        return ERR_NOT_FOUND;
    size_t part = MIN(len, f->per_write);
    chain_init(&one);
    chain_append_file(&one, file_fd, pos, part, NULL, NULL);
    enum error e = chain_read(&one, &f->out);
    chain_fini(&one);
    if (e == OK)
        *ret_written = part;
    return e;
}

static int fake_wants(struct transport *t, int events)
{
    return events;
}
static void fake_close(struct transport *t)
{
    buf_fini(&((struct fake_transport *)t)->out);
}

void fake_transport_init(struct fake_transport *f, const void *in, size_t len)
{
    static const struct transport_ops ops = {fake_readv, fake_writev, fake_sendfile, fake_wants, fake_close};
    *f = (struct fake_transport){.transport = {.ops = &ops, .fd = -1},
                                 .in = in,
                                 .in_len = len,
                                 .per_read = SIZE_MAX,
                                 .per_write = SIZE_MAX,
                                 .at_end = ERR_NOT_FOUND};
}
