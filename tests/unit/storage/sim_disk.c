#include "sim_disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct sim_change { /* a write, or a change of size when len is 0 */
    struct sim_change *next;
    uint64_t pos;
    size_t len;
    uint8_t *bytes;
};

struct sim_inode {
    struct sim_inode *next;
    struct buf data, durable;
    struct sim_change *changes, **last_change; /* since the last sync */
    bool locked;
};

struct sim_name {
    struct sim_name *next;
    char *path;
    struct sim_inode *inode; /* NULL: a folder */
};

struct sim_file {
    struct file file; /* first */
    struct sim_disk *disk;
    struct sim_inode *inode;
    bool lock;
};

static enum error operation(struct sim_disk *d)
{
    d->operations++;
    if (d->fail_at == 0 || d->operations < d->fail_at)
        return OK;
    return d->operations == d->fail_at || d->fail_all_after ? d->fail_with : OK;
}

/* ---- Names ---- */

static struct sim_name **find(struct sim_name **list, const char *path)
{
    struct sim_name **at = list;
    while (*at != NULL && strcmp((*at)->path, path) != 0)
        at = &(*at)->next;
    return at;
}

static void set_name(struct sim_name **list, const char *path, struct sim_inode *inode)
{
    struct sim_name **at = find(list, path);
    if (*at == NULL) {
        struct sim_name *n = mem_calloc(1, sizeof(*n));
        n->path = mem_strdup(path);
        *at = n;
    }
    (*at)->inode = inode;
}

static void drop_name(struct sim_name **at)
{
    struct sim_name *n = *at;
    *at = n->next;
    mem_free(n->path);
    mem_free(n);
}

static bool is_in(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}

/* ---- Content ---- */

static void resize(struct buf *b, uint64_t size)
{
    if (size > b->len)
        memset(buf_reserve(b, size - b->len), 0, size - b->len);
    b->len = size;
}

static void put(struct buf *b, uint64_t pos, const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return;
    if (pos + len > b->len)
        resize(b, pos + len);
    memcpy(b->data + pos, bytes, len);
}

static void forget_changes(struct sim_inode *inode)
{
    while (inode->changes != NULL) {
        struct sim_change *c = inode->changes;
        inode->changes = c->next;
        mem_free(c->bytes);
        mem_free(c);
    }
    inode->last_change = &inode->changes;
}

static void remember_change(struct sim_inode *inode, uint64_t pos, const uint8_t *bytes, size_t len)
{
    struct sim_change *c = mem_calloc(1, sizeof(*c));
    c->pos = pos;
    c->len = len;
    if (len > 0) {
        c->bytes = mem_alloc(len);
        memcpy(c->bytes, bytes, len);
    }
    *inode->last_change = c;
    inode->last_change = &c->next;
}

/* ---- Files ---- */

static void sim_close(struct file *f)
{
    struct sim_file *file = (struct sim_file *)f;
    if (file->lock)
        file->inode->locked = false;
    mem_free(file);
}

static enum error sim_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    const struct buf *data = &((struct sim_file *)f)->inode->data;
    size_t n = pos >= data->len ? 0 : MIN(len, data->len - pos);
    if (n > 0)
        memcpy(out, data->data + pos, n);
    *ret_read = n;
    return OK;
}

static enum error sim_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    struct sim_file *file = (struct sim_file *)f;
    enum error error = operation(file->disk);
    for (int i = 0; i < iov_count; i++) {
        /* A write that fails has written half. */
        size_t len = error == OK ? iov[i].iov_len : iov[i].iov_len / 2;
        if (len == 0)
            continue;
        put(&file->inode->data, pos, iov[i].iov_base, len);
        remember_change(file->inode, pos, iov[i].iov_base, len);
        pos += len;
        if (error != OK)
            break;
    }
    return error;
}

static enum error sim_truncate(struct file *f, uint64_t size)
{
    struct sim_file *file = (struct sim_file *)f;
    enum error error = operation(file->disk);
    if (error != OK)
        return error;
    resize(&file->inode->data, size);
    remember_change(file->inode, size, NULL, 0);
    return OK;
}

static enum error sim_sync(struct file *f)
{
    struct sim_file *file = (struct sim_file *)f;
    struct sim_inode *inode = file->inode;
    enum error error = operation(file->disk);
    if (error != OK)
        return error;
    buf_clear(&inode->durable);
    buf_append(&inode->durable, inode->data.data, inode->data.len);
    forget_changes(inode);
    return OK;
}

static enum error sim_size(struct file *f, uint64_t *ret_size)
{
    *ret_size = ((struct sim_file *)f)->inode->data.len;
    return OK;
}

static int sim_fd(struct file *f)
{
    return -1;
}

static const struct file_ops FILE_OPS = {sim_close, sim_pread, sim_pwritev, sim_truncate, sim_sync, sim_size, sim_fd};

/* ---- The file system ---- */

static enum error sim_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    struct sim_name *name = *find(&d->names, path);
    struct sim_inode *inode = name != NULL ? name->inode : NULL;
    if (name == NULL && (flags & FILE_CREATE) == 0)
        return ERR_NOT_FOUND;
    if (name != NULL && inode == NULL)
        return ERR_IO;
    if (name != NULL && (flags & FILE_EXCLUSIVE) != 0)
        return ERR_EXISTS;
    if (name == NULL) {
        enum error error = operation(d);
        if (error != OK)
            return error;
        inode = mem_calloc(1, sizeof(*inode));
        inode->last_change = &inode->changes;
        inode->next = d->inodes;
        d->inodes = inode;
        set_name(&d->names, path, inode);
    }
    struct sim_file *file = mem_calloc(1, sizeof(*file));
    *file = (struct sim_file){.file.ops = &FILE_OPS, .disk = d, .inode = inode};
    *ret_file = &file->file;
    return (flags & FILE_TRUNCATE) != 0 && inode->data.len > 0 ? sim_truncate(*ret_file, 0) : OK;
}

static enum error sim_mkdir(struct fs *fs, const char *path)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    if (*find(&d->names, path) != NULL)
        return ERR_EXISTS;
    set_name(&d->names, path, NULL);
    set_name(&d->durable, path, NULL);
    return OK;
}

static enum error sim_unlink(struct fs *fs, const char *path)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    struct sim_name **at = find(&d->names, path);
    if (*at == NULL)
        return ERR_NOT_FOUND;
    enum error error = operation(d);
    if (error == OK)
        drop_name(at);
    return error;
}

static enum error sim_rename(struct fs *fs, const char *from, const char *to)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    struct sim_name **at = find(&d->names, from);
    if (*at == NULL)
        return ERR_NOT_FOUND;
    enum error error = operation(d);
    if (error != OK)
        return error;
    struct sim_inode *inode = (*at)->inode;
    drop_name(at);
    set_name(&d->names, to, inode);
    return OK;
}

static enum error sim_sync_dir(struct fs *fs, const char *path)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    enum error error = operation(d);
    if (error != OK)
        return error;
    for (struct sim_name **at = &d->durable; *at != NULL;) {
        if (is_in((*at)->path, path) && (*at)->inode != NULL)
            drop_name(at);
        else
            at = &(*at)->next;
    }
    for (struct sim_name *n = d->names; n != NULL; n = n->next)
        if (is_in(n->path, path))
            set_name(&d->durable, n->path, n->inode);
    return OK;
}

static enum error sim_list(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir),
                           void *arg)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    for (struct sim_name *n = d->names; n != NULL; n = n->next) {
        if (!is_in(n->path, path))
            continue;
        enum error error = visit(arg, strrchr(n->path, '/') + 1, n->inode == NULL);
        if (error != OK)
            return error;
    }
    return OK;
}

static enum error sim_lock(struct fs *fs, const char *path, struct file **ret_file)
{
    enum error error = sim_open(fs, path, FILE_WRITE | FILE_CREATE, ret_file);
    if (error != OK)
        return error;
    struct sim_file *file = (struct sim_file *)*ret_file;
    if (file->inode->locked) {
        sim_close(*ret_file);
        return ERR_LOCKED;
    }
    file->lock = file->inode->locked = true;
    return OK;
}

static enum error sim_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    struct sim_name *n = *find(&d->names, path);
    if (n == NULL)
        return ERR_NOT_FOUND;
    *ret_is_dir = n->inode == NULL;
    *ret_size = n->inode != NULL ? n->inode->data.len : 0;
    *ret_mtime_ms = 0;
    return OK;
}

static enum error sim_space(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable)
{
    *ret_total = *ret_usable = 1 << 30;
    return OK;
}

static const struct fs_ops FS_OPS = {
    .open = sim_open,
    .mkdir = sim_mkdir,
    .rmdir = sim_unlink,
    .unlink = sim_unlink,
    .rename = sim_rename,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .lock = sim_lock,
    .stat = sim_stat,
    .space = sim_space,
};

/* ---- Life and power ---- */

void sim_disk_init(struct sim_disk *d)
{
    *d = (struct sim_disk){.fs.ops = &FS_OPS};
}

void sim_disk_fini(struct sim_disk *d)
{
    while (d->names != NULL)
        drop_name(&d->names);
    while (d->durable != NULL)
        drop_name(&d->durable);
    while (d->inodes != NULL) {
        struct sim_inode *inode = d->inodes;
        d->inodes = inode->next;
        forget_changes(inode);
        buf_fini(&inode->data);
        buf_fini(&inode->durable);
        mem_free(inode);
    }
}

static void lose_power(struct sim_inode *inode, struct random_source *r)
{
    uint64_t mood = random_below(r, 3); /* all of it survived, none, or some of each kind */
    for (struct sim_change *c = inode->changes; c != NULL; c = c->next) {
        uint64_t fate = mood < 2 ? mood : random_below(r, 3);
        if (fate == 1)
            continue;
        size_t len = fate == 0 || c->len == 0 ? c->len : (size_t)random_below(r, c->len);
        if (c->len == 0)
            resize(&inode->durable, c->pos);
        else
            put(&inode->durable, c->pos, c->bytes, len);
    }
    forget_changes(inode);
    buf_clear(&inode->data);
    buf_append(&inode->data, inode->durable.data, inode->durable.len);
}

void sim_disk_power_cut(struct sim_disk *d, struct random_source *r)
{
    /* A name that was not synced is there or is not, each by itself. */
    for (struct sim_name *n = d->names; n != NULL; n = n->next)
        if (random_below(r, 2) == 0)
            set_name(&d->durable, n->path, n->inode);
    for (struct sim_name **at = &d->durable; *at != NULL;) {
        if (*find(&d->names, (*at)->path) == NULL && random_below(r, 2) == 0)
            drop_name(at);
        else
            at = &(*at)->next;
    }
    while (d->names != NULL)
        drop_name(&d->names);
    for (struct sim_name *n = d->durable; n != NULL; n = n->next)
        set_name(&d->names, n->path, n->inode);
    for (struct sim_inode *inode = d->inodes; inode != NULL; inode = inode->next)
        lose_power(inode, r);
    d->operations = 0;
    d->fail_at = 0;
}
