#include "base/chain.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/buf.h"

#define CHAIN_BLOCK 1024

struct owned_piece {
    struct chain_piece piece;
    uint8_t data[];
};

void chain_init(struct chain *c)
{
    TAILQ_INIT(&c->pieces);
    c->len = 0;
}

static void piece_destroy(struct chain_piece *p)
{
    if (p->release != NULL)
        p->release(p->arg);
    mem_free(p); /* an owned piece is the first member of its block */
}

void chain_fini(struct chain *c)
{
    struct chain_piece *p;

    while ((p = TAILQ_FIRST(&c->pieces)) != NULL) {
        TAILQ_REMOVE(&c->pieces, p, link);
        piece_destroy(p);
    }
    chain_init(c);
}

static struct chain_piece *add_owned(struct chain *c, size_t capacity)
{
    struct owned_piece *o = mem_alloc(sizeof(*o) + capacity);

    o->piece = (struct chain_piece){.kind = CHAIN_OWNED, .mem = o->data, .room = capacity};
    TAILQ_INSERT_TAIL(&c->pieces, &o->piece, link);
    return &o->piece;
}

static struct chain_piece *last_owned(struct chain *c)
{
    struct chain_piece *last = TAILQ_LAST(&c->pieces, chain_pieces);

    return last != NULL && last->kind == CHAIN_OWNED ? last : NULL;
}

uint8_t *chain_extend(struct chain *c, size_t len)
{
    struct chain_piece *p = last_owned(c);
    uint8_t *at;

    if (p == NULL || p->room < len)
        p = add_owned(c, MAX(len, (size_t)CHAIN_BLOCK));
    at = (uint8_t *)p->mem + p->len;
    p->len += len;
    p->room -= len;
    c->len += len;
    return at;
}

void chain_append(struct chain *c, const void *data, size_t len)
{
    struct chain_piece *p = last_owned(c);

    if (len == 0)
        return;
    if (p != NULL && p->room > 0) { /* fill the block up first */
        size_t part = MIN(p->room, len);
        memcpy((uint8_t *)p->mem + p->len, data, part);
        p->len += part;
        p->room -= part;
        c->len += part;
        data = (const uint8_t *)data + part;
        len -= part;
    }
    if (len > 0)
        memcpy(chain_extend(c, len), data, len);
}

static struct chain_piece *add_piece(struct chain *c, enum chain_kind kind, size_t len, void (*release)(void *arg), void *arg)
{
    struct chain_piece *p = mem_calloc(1, sizeof(*p));

    p->kind = kind;
    p->len = len;
    p->fd = -1;
    p->release = release;
    p->arg = arg;
    TAILQ_INSERT_TAIL(&c->pieces, p, link);
    c->len += len;
    return p;
}

void chain_append_ref(struct chain *c, const void *data, size_t len, void (*release)(void *arg), void *arg)
{
    if (len == 0) {
        if (release != NULL)
            release(arg);
        return;
    }
    add_piece(c, CHAIN_REF, len, release, arg)->mem = data;
}

void chain_append_file(struct chain *c, int fd, uint64_t pos, size_t len, void (*release)(void *arg), void *arg)
{
    struct chain_piece *p;

    ASSERT(fd >= 0);
    if (len == 0) {
        if (release != NULL)
            release(arg);
        return;
    }
    p = add_piece(c, CHAIN_FILE, len, release, arg);
    p->fd = fd;
    p->pos = pos;
}

void chain_splice(struct chain *dst, struct chain *src)
{
    dst->len += src->len;
    TAILQ_CONCAT(&dst->pieces, &src->pieces, link);
    chain_init(src);
}

void chain_consume(struct chain *c, size_t len)
{
    ASSERT(len <= c->len);
    c->len -= len;
    while (len > 0 || (TAILQ_FIRST(&c->pieces) != NULL && TAILQ_FIRST(&c->pieces)->len == 0)) {
        struct chain_piece *p = TAILQ_FIRST(&c->pieces);
        size_t part = MIN(p->len, len);
        p->len -= part;
        len -= part;
        if (p->kind == CHAIN_FILE)
            p->pos += part;
        else
            p->mem += part;
        if (p->len == 0) {
            TAILQ_REMOVE(&c->pieces, p, link);
            piece_destroy(p);
        }
    }
}

enum error chain_read(const struct chain *c, struct buf *out)
{
    struct chain_piece *p;

    TAILQ_FOREACH(p, &c->pieces, link) {
        if (p->kind != CHAIN_FILE) {
            buf_append(out, p->mem, p->len);
            continue;
        }
        for (size_t done = 0; done < p->len;) {
            ssize_t n = pread(p->fd, buf_reserve(out, p->len - done), p->len - done, (off_t)(p->pos + done));
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return n == 0 ? ERR_TRUNCATED : error_from_errno(errno);
            out->len += (size_t)n;
            done += (size_t)n;
        }
    }
    return OK;
}
