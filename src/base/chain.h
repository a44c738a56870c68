/* Chain: an output made of pieces, each memory or a range of a file, written with writev and sendfile (nginx's idea).
 *
 * Small appends are collected in blocks that the chain owns; larger memory is referenced and released when its piece has been
 * consumed or the chain ends. A chain stays where it was initialised (its list points at it); chain_splice moves. One thread at a time; the release callbacks run on the thread that consumes. */
#ifndef KAGAMI_BASE_CHAIN_H
#define KAGAMI_BASE_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/str.h"

enum chain_kind { CHAIN_OWNED, CHAIN_REF, CHAIN_FILE };

struct chain_piece {
    TAILQ_ENTRY(chain_piece) link;
    enum chain_kind kind;
    const uint8_t *mem;  /* OWNED, REF: the next byte */
    uint64_t pos;        /* FILE: position of the next byte in fd */
    size_t len;          /* bytes left */
    size_t room;         /* OWNED: bytes free behind mem + len */
    int fd;              /* FILE; not owned, release keeps it open */
    void (*release)(void *arg); /* REF, FILE; may be NULL */
    void *arg;
};

struct chain {
    TAILQ_HEAD(chain_pieces, chain_piece) pieces;
    size_t len; /* bytes in all */
};

void chain_init(struct chain *c);
void chain_fini(struct chain *c); /* releases all pieces; the chain is empty and valid afterwards */
void chain_append(struct chain *c, const void *data, size_t len); /* copies */
/* `len` writable bytes at the end, in one piece, counted at once; stays in place until consumed (for lengths that are known later). */
uint8_t *chain_extend(struct chain *c, size_t len);
void chain_append_ref(struct chain *c, const void *data, size_t len, void (*release)(void *arg), void *arg);
void chain_append_file(struct chain *c, int fd, uint64_t pos, size_t len, void (*release)(void *arg), void *arg);
/* Moves all of src behind dst; src is empty afterwards. */
void chain_splice(struct chain *dst, struct chain *src);
/* Drops the first len bytes (written to the peer). */
void chain_consume(struct chain *c, size_t len);
/* Copies the whole content (file ranges are read with pread) behind *out; for tests and tools. */
struct buf;
MUST_CHECK enum error chain_read(const struct chain *c, struct buf *out);

#endif
