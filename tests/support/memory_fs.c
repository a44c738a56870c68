#include "memory_fs.h"

#include <string.h>

#include "base/assert.h"

struct memory_file {
    struct file file;
    struct memory_fs *fs;
    struct memory_entry *entry;
};

static uint32_t hash_of(const char *path)
{
    uint32_t h = 2166136261u;
    for (; *path != '\0'; path++)
        h = (h ^ (uint8_t)*path) * 16777619u;
    return h;
}

static int find_index(const struct memory_fs *m, const char *path)
{
    uint32_t hash = hash_of(path);
    for (int i = 0; i < m->count; i++)
        if (m->entries[i]->hash == hash && strcmp(m->entries[i]->path, path) == 0)
            return i;
    return -1;
}

struct memory_entry *memory_find(struct fs *fs, const char *path)
{
    struct memory_fs *m = (struct memory_fs *)fs;
    int i = find_index(m, path);
    return i < 0 ? NULL : m->entries[i];
}

static void entry_unref(struct memory_entry *e)
{
    if (--e->refs > 0)
        return;
    buf_fini(&e->content);
    mem_free(e->path);
    mem_free(e);
}

static void touch(const struct memory_fs *m, struct memory_entry *e)
{
    if (m->clock != NULL)
        e->modified_ms = clock_wall_ms(m->clock);
}

static struct memory_entry *add(struct memory_fs *m, const char *path, bool is_dir)
{
    struct memory_entry *e = mem_calloc(1, sizeof(*e));
    e->path = mem_strdup(path);
    e->hash = hash_of(path);
    e->refs = 1;
    e->is_dir = is_dir;
    touch(m, e);
    if (m->count == m->capacity) {
        m->capacity = MAX(16, m->capacity * 2);
        m->entries = mem_realloc(m->entries, (size_t)m->capacity * sizeof(struct memory_entry *));
    }
    m->entries[m->count++] = e;
    return e;
}

static void drop_name(struct memory_fs *m, int index)
{
    struct memory_entry *e = m->entries[index];
    m->entries[index] = m->entries[--m->count];
    entry_unref(e);
}

struct memory_entry *memory_put(struct memory_fs *m, const char *path, const void *data, size_t len)
{
    struct memory_entry *e = memory_find(&m->fs, path);
    if (e == NULL)
        e = add(m, path, false);
    buf_clear(&e->content);
    buf_append(&e->content, data, len);
    touch(m, e);
    return e;
}

void memory_fs_copy(const struct memory_fs *from, struct memory_fs *to, bool (*keep)(const char *path))
{
    ASSERT(to->count == 0);
    for (int i = 0; i < from->count; i++) {
        const struct memory_entry *e = from->entries[i];
        if (keep != NULL && !keep(e->path))
            continue;
        struct memory_entry *copy = add(to, e->path, e->is_dir);
        if (e->content.len > 0)
            buf_append(&copy->content, e->content.data, e->content.len);
        copy->modified_ms = e->modified_ms;
    }
}

/* ---- Files ---- */

static struct buf *content_of(struct file *f)
{
    return &((struct memory_file *)f)->entry->content;
}

static void memory_close(struct file *f)
{
    entry_unref(((struct memory_file *)f)->entry);
    mem_free(f);
}

static enum error memory_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    const struct buf *b = content_of(f);
    size_t n = pos >= b->len ? 0 : MIN(len, b->len - (size_t)pos);
    if (n > 0)
        memcpy(out, b->data + pos, n);
    *ret_read = n;
    return OK;
}

static enum error memory_truncate(struct file *f, uint64_t size)
{
    struct buf *b = content_of(f);
    if (size > b->len)
        memset(buf_reserve(b, (size_t)size - b->len), 0, (size_t)size - b->len);
    b->len = (size_t)size;
    touch(((struct memory_file *)f)->fs, ((struct memory_file *)f)->entry);
    return OK;
}

static enum error memory_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    struct buf *b = content_of(f);
    for (int i = 0; i < iov_count; i++) {
        if (iov[i].iov_len == 0)
            continue;
        if (pos + iov[i].iov_len > b->len)
            (void)memory_truncate(f, pos + iov[i].iov_len);
        memcpy(b->data + pos, iov[i].iov_base, iov[i].iov_len);
        pos += iov[i].iov_len;
    }
    touch(((struct memory_file *)f)->fs, ((struct memory_file *)f)->entry);
    return OK;
}

static enum error memory_sync(struct file *f)
{
    struct memory_file *file = (struct memory_file *)f;
    if (file->fs->on_sync != NULL)
        file->fs->on_sync(file->fs->on_sync_arg, file->entry->path);
    return OK;
}

static enum error memory_size(struct file *f, uint64_t *ret_size)
{
    *ret_size = content_of(f)->len;
    return OK;
}

static int memory_fd(struct file *f)
{
    return -1;
}

static const struct file_ops FILE_OPS = {memory_close, memory_pread, memory_pwritev, memory_truncate,
                                         memory_sync,  memory_size,  memory_fd,    NULL};

/* ---- Names ---- */

static enum error memory_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    struct memory_fs *m = (struct memory_fs *)fs;
    struct memory_entry *e = memory_find(fs, path);
    if (e == NULL && (flags & FILE_CREATE) == 0)
        return ERR_NOT_FOUND;
    if (e != NULL && (flags & FILE_EXCLUSIVE) != 0)
        return ERR_EXISTS;
    if (e == NULL)
        e = add(m, path, false);
    if ((flags & FILE_TRUNCATE) != 0)
        buf_clear(&e->content);
    struct memory_file *f = mem_calloc(1, sizeof(*f));
    *f = (struct memory_file){{&FILE_OPS}, m, e};
    e->refs++;
    *ret_file = &f->file;
    return OK;
}

static enum error memory_mkdir(struct fs *fs, const char *path)
{
    if (memory_find(fs, path) != NULL)
        return ERR_EXISTS;
    (void)add((struct memory_fs *)fs, path, true);
    return OK;
}

static enum error memory_unlink(struct fs *fs, const char *path)
{
    int index = find_index((struct memory_fs *)fs, path);
    if (index < 0)
        return ERR_NOT_FOUND;
    drop_name((struct memory_fs *)fs, index);
    return OK;
}

static enum error memory_rename(struct fs *fs, const char *from, const char *to)
{
    struct memory_fs *m = (struct memory_fs *)fs;
    if (find_index(m, from) < 0)
        return ERR_NOT_FOUND;
    int old = find_index(m, to);
    if (old >= 0)
        drop_name(m, old);
    struct memory_entry *e = m->entries[find_index(m, from)];
    mem_free(e->path);
    e->path = mem_strdup(to);
    e->hash = hash_of(to);
    return OK;
}

static enum error memory_sync_dir(struct fs *fs, const char *path)
{
    return OK;
}

/* Visits may change names: what is to be visited is noted first. */
static enum error memory_list(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir),
                              void *arg)
{
    struct memory_fs *m = (struct memory_fs *)fs;
    size_t n = strlen(path);
    struct buf names = {0};
    for (int i = 0; i < m->count; i++) {
        const struct memory_entry *e = m->entries[i];
        if (strncmp(e->path, path, n) != 0 || e->path[n] != '/' || strchr(e->path + n + 1, '/') != NULL)
            continue;
        buf_putc(&names, e->is_dir ? 'd' : 'f');
        buf_append(&names, e->path + n + 1, strlen(e->path + n + 1) + 1);
    }
    enum error error = OK;
    for (size_t i = 0; i < names.len && error == OK; i += strlen((char *)names.data + i) + 1)
        error = visit(arg, (char *)names.data + i + 1, names.data[i] == 'd');
    buf_fini(&names);
    return error;
}

static enum error memory_lock(struct fs *fs, const char *path, struct file **ret_file)
{
    return memory_open(fs, path, FILE_WRITE | FILE_CREATE, ret_file);
}

static enum error memory_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms)
{
    const struct memory_entry *e = memory_find(fs, path);
    if (e == NULL)
        return ERR_NOT_FOUND;
    *ret_is_dir = e->is_dir;
    *ret_size = e->content.len;
    *ret_mtime_ms = e->modified_ms;
    return OK;
}

static enum error memory_space(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable)
{
    *ret_total = *ret_usable = UINT64_MAX;
    return OK;
}

static const struct fs_ops FS_OPS = {.open = memory_open,
                                     .mkdir = memory_mkdir,
                                     .rmdir = memory_unlink,
                                     .unlink = memory_unlink,
                                     .rename = memory_rename,
                                     .sync_dir = memory_sync_dir,
                                     .list = memory_list,
                                     .lock = memory_lock,
                                     .stat = memory_stat,
                                     .space = memory_space};

void memory_fs_init(struct memory_fs *m)
{
    *m = (struct memory_fs){.fs = {&FS_OPS}};
}

void memory_fs_fini(struct memory_fs *m)
{
    while (m->count > 0)
        drop_name(m, m->count - 1);
    mem_free(m->entries);
    *m = (struct memory_fs){0};
}
