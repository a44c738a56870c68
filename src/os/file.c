/* What is made of the vtable's operations, the same on every file system: wrappers, whole files, whole trees, atomic replacement.
 */
#include "os/file.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum error fs_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    return fs->ops->open(fs, path, flags, ret_file);
}

enum error fs_mkdir(struct fs *fs, const char *path)
{
    return fs->ops->mkdir(fs, path);
}
enum error fs_rmdir(struct fs *fs, const char *path)
{
    return fs->ops->rmdir(fs, path);
}
enum error fs_unlink(struct fs *fs, const char *path)
{
    return fs->ops->unlink(fs, path);
}
enum error fs_rename(struct fs *fs, const char *from, const char *to)
{
    return fs->ops->rename(fs, from, to);
}
enum error fs_sync_dir(struct fs *fs, const char *path)
{
    return fs->ops->sync_dir(fs, path);
}

enum error fs_list(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir), void *arg)
{
    return fs->ops->list(fs, path, visit, arg);
}

enum error fs_lock(struct fs *fs, const char *path, struct file **ret_file)
{
    return fs->ops->lock(fs, path, ret_file);
}

enum error fs_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms)
{
    bool is_dir;
    uint64_t size;
    int64_t mtime_ms;
    enum error e = fs->ops->stat(fs, path, &is_dir, &size, &mtime_ms);
    if (e != OK)
        return e;
    if (ret_is_dir != NULL)
        *ret_is_dir = is_dir;
    if (ret_size != NULL)
        *ret_size = size;
    if (ret_mtime_ms != NULL)
        *ret_mtime_ms = mtime_ms;
    return OK;
}

enum error fs_space(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable)
{
    return fs->ops->space(fs, path, ret_total, ret_usable);
}

bool fs_exists(struct fs *fs, const char *path)
{
    return fs_stat(fs, path, NULL, NULL, NULL) == OK;
}

enum error fs_sync_parent(struct fs *fs, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return fs_sync_dir(fs, ".");
    if (slash == path)
        return fs_sync_dir(fs, "/");
    char *parent = str_dup((struct str){path, (int32_t)(slash - path)});
    enum error e = fs_sync_dir(fs, parent);
    mem_free(parent);
    return e;
}

static enum error make_dir_if_absent(struct fs *fs, const char *path)
{
    enum error e = fs_mkdir(fs, path);
    if (e == OK)
        return fs_sync_parent(fs, path);
    if (e != ERR_EXISTS)
        return e;
    bool is_dir;
    e = fs_stat(fs, path, &is_dir, NULL, NULL);
    return e != OK || is_dir ? e : ERR_EXISTS;
}

enum error fs_mkdirs(struct fs *fs, const char *path)
{
    char *copy = mem_strdup(path);
    enum error e = OK;
    for (char *p = copy + 1; *copy != '\0' && *p != '\0' && e == OK; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        e = make_dir_if_absent(fs, copy);
        *p = '/';
    }
    if (e == OK)
        e = make_dir_if_absent(fs, path);
    mem_free(copy);
    return e;
}

/* The names in a folder: collected first, since removing while listing may skip entries. */
struct entry {
    bool is_dir;
    char *path;
};

struct entries {
    const char *parent;
    struct entry *items;
    size_t count, capacity;
};

static char *join(const char *parent, const char *name)
{
    size_t size = strlen(parent) + strlen(name) + 2;
    char *path = mem_alloc(size);
    snprintf(path, size, "%s/%s", parent, name);
    return path;
}

static enum error collect(void *arg, const char *name, bool is_dir)
{
    struct entries *list = arg;
    if (list->count == list->capacity) {
        list->capacity = MAX(16, list->capacity * 2);
        list->items = mem_realloc(list->items, list->capacity * sizeof(list->items[0]));
    }
    list->items[list->count++] = (struct entry){.is_dir = is_dir, .path = join(list->parent, name)};
    return OK;
}

static enum error remove_folder(struct fs *fs, const char *path)
{
    struct entries list = {.parent = path};
    enum error e = fs_list(fs, path, collect, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (e == OK)
            e = list.items[i].is_dir ? remove_folder(fs, list.items[i].path) : fs_unlink(fs, list.items[i].path);
        mem_free(list.items[i].path);
    }
    mem_free(list.items);
    return e == OK ? fs_rmdir(fs, path) : e;
}

enum error fs_remove_tree(struct fs *fs, const char *path)
{
    enum error e = remove_folder(fs, path);
    return e == ERR_NOT_FOUND && !fs_exists(fs, path) ? OK : e;
}

enum error fs_read_file(struct fs *fs, const char *path, size_t limit, struct buf *out)
{
    struct file *f;
    enum error e = fs_open(fs, path, FILE_READ, &f);
    if (e != OK)
        return e;
    uint64_t size;
    e = file_size(f, &size);
    if (e == OK && size > limit)
        e = ERR_TOO_LARGE;
    if (e == OK) {
        size_t got;
        e = file_pread(f, buf_reserve(out, (size_t)size), (size_t)size, 0, &got);
        if (e == OK)
            out->len += got;
    }
    file_close(f);
    return e;
}

static enum error write_synced(struct fs *fs, const char *path, const void *data, size_t len)
{
    struct file *f;
    enum error e = fs_open(fs, path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &f);
    if (e != OK)
        return e;
    if (len > 0)
        e = file_pwrite(f, data, len, 0);
    if (e == OK)
        e = file_sync(f);
    file_close(f);
    return e;
}

enum error fs_write_replace(struct fs *fs, const char *path, const void *data, size_t len)
{
    size_t size = strlen(path) + sizeof(".tmp");
    char *temporary = mem_alloc(size);
    snprintf(temporary, size, "%s.tmp", path);
    enum error e = write_synced(fs, temporary, data, len);
    if (e == OK)
        e = fs_rename(fs, temporary, path);
    if (e != OK && fs_unlink(fs, temporary) != OK) {
        /* What is left is overwritten by the next attempt. */
    }
    mem_free(temporary);
    return e;
}

enum error fs_write_atomic(struct fs *fs, const char *path, const void *data, size_t len)
{
    enum error e = fs_write_replace(fs, path, data, len);
    return e == OK ? fs_sync_parent(fs, path) : e;
}

void file_close(struct file *f)
{
    if (f != NULL)
        f->ops->close(f);
}

enum error file_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    return f->ops->pread(f, out, len, pos, ret_read);
}

enum error file_pread_all(struct file *f, void *out, size_t len, uint64_t pos)
{
    size_t got;
    enum error e = f->ops->pread(f, out, len, pos, &got);
    return e == OK && got < len ? ERR_TRUNCATED : e;
}

enum error file_pwrite(struct file *f, const void *data, size_t len, uint64_t pos)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    return f->ops->pwritev(f, &iov, 1, pos);
}

enum error file_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    return f->ops->pwritev(f, iov, iov_count, pos);
}

enum error file_truncate(struct file *f, uint64_t size)
{
    return f->ops->truncate(f, size);
}
enum error file_sync(struct file *f)
{
    return f->ops->sync(f);
}
enum error file_size(struct file *f, uint64_t *ret_size)
{
    return f->ops->size(f, ret_size);
}
int file_fd(struct file *f)
{
    return f->ops->fd(f);
}

void file_forget(struct file *f)
{
    if (f->ops->forget != NULL)
        f->ops->forget(f);
}
