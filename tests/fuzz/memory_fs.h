/* A file system of a few files in memory, for fuzz targets of what reads and writes files. */
#ifndef KAGAMI_TESTS_MEMORY_FS_H
#define KAGAMI_TESTS_MEMORY_FS_H

#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "os/file.h"

struct memory_entry {
    char path[128];
    struct buf content;
    bool used;
};

struct memory_fs {
    struct fs fs;
    struct memory_entry entries[8];
};

struct memory_file {
    struct file file;
    struct memory_entry *entry;
};

static inline struct buf *memory_content(struct file *f)
{
    return &((struct memory_file *)f)->entry->content;
}

static inline struct memory_entry *memory_find(struct fs *fs, const char *path)
{
    struct memory_fs *m = (struct memory_fs *)fs;
    for (size_t i = 0; i < ARRAY_SIZE(m->entries); i++) {
        if (m->entries[i].used && strcmp(m->entries[i].path, path) == 0)
            return &m->entries[i];
    }
    return NULL;
}

/* Creates or replaces. */
static inline struct memory_entry *memory_put(struct memory_fs *m, const char *path, const void *data, size_t len)
{
    struct memory_entry *e = memory_find(&m->fs, path);
    for (size_t i = 0; e == NULL && i < ARRAY_SIZE(m->entries); i++) {
        if (!m->entries[i].used)
            e = &m->entries[i];
    }
    ASSERT(e != NULL && strlen(path) < sizeof(e->path));
    strcpy(e->path, path);
    e->used = true;
    buf_clear(&e->content);
    buf_append(&e->content, data, len);
    return e;
}

static inline void memory_close(struct file *f)
{
    mem_free(f);
}

static inline enum error memory_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    const struct buf *b = memory_content(f);
    size_t n = pos >= b->len ? 0 : MIN(len, b->len - (size_t)pos);
    if (n > 0)
        memcpy(out, b->data + pos, n);
    *ret_read = n;
    return OK;
}

static inline enum error memory_truncate(struct file *f, uint64_t size)
{
    struct buf *b = memory_content(f);
    if (size > b->len)
        memset(buf_reserve(b, (size_t)size - b->len), 0, (size_t)size - b->len);
    b->len = (size_t)size;
    return OK;
}

static inline enum error memory_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    struct buf *b = memory_content(f);
    for (int i = 0; i < iov_count; i++) {
        if (pos + iov[i].iov_len > b->len)
            (void)memory_truncate(f, pos + iov[i].iov_len);
        memcpy(b->data + pos, iov[i].iov_base, iov[i].iov_len);
        pos += iov[i].iov_len;
    }
    return OK;
}

static inline enum error memory_sync(struct file *f)
{
    return OK;
}

static inline enum error memory_size(struct file *f, uint64_t *ret_size)
{
    *ret_size = memory_content(f)->len;
    return OK;
}

static inline int memory_fd(struct file *f)
{
    return -1;
}

static const struct file_ops MEMORY_FILE_OPS = {memory_close, memory_pread, memory_pwritev, memory_truncate,
                                                memory_sync,  memory_size,  memory_fd};

static inline enum error memory_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    struct memory_entry *e = memory_find(fs, path);
    if (e == NULL && (flags & FILE_CREATE) == 0)
        return ERR_NOT_FOUND;
    if (e == NULL)
        e = memory_put((struct memory_fs *)fs, path, "", 0);
    struct memory_file *f = mem_calloc(1, sizeof(*f));
    *f = (struct memory_file){{&MEMORY_FILE_OPS}, e};
    *ret_file = &f->file;
    return OK;
}

static inline enum error memory_unlink(struct fs *fs, const char *path)
{
    struct memory_entry *e = memory_find(fs, path);
    if (e == NULL)
        return ERR_NOT_FOUND;
    e->used = false;
    return OK;
}

static inline enum error memory_sync_dir(struct fs *fs, const char *path)
{
    return OK;
}

static inline enum error memory_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms)
{
    struct memory_entry *e = memory_find(fs, path);
    if (e == NULL)
        return ERR_NOT_FOUND;
    *ret_is_dir = false;
    *ret_size = e->content.len;
    *ret_mtime_ms = 0;
    return OK;
}

static const struct fs_ops MEMORY_FS_OPS = {
    .open = memory_open, .unlink = memory_unlink, .sync_dir = memory_sync_dir, .stat = memory_stat};

static inline void memory_fs_init(struct memory_fs *m)
{
    memset(m, 0, sizeof(*m));
    m->fs.ops = &MEMORY_FS_OPS;
}

static inline void memory_fs_fini(struct memory_fs *m)
{
    for (size_t i = 0; i < ARRAY_SIZE(m->entries); i++)
        buf_fini(&m->entries[i].content);
}

#endif
