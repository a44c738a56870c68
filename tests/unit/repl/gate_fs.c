#include "gate_fs.h"

#include <string.h>

#include "base/assert.h"

struct gate_file {
    struct file file;
    struct file *real;
    struct gate_fs *gate;
    bool gated;
};

static struct gate_file *of(struct file *f)
{
    return CONTAINER_OF(f, struct gate_file, file);
}

static void g_close(struct file *f)
{
    file_close(of(f)->real);
    mem_free(of(f));
}

static enum error g_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    return file_pread(of(f)->real, out, len, pos, ret_read);
}

static enum error g_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    return file_pwritev(of(f)->real, iov, iov_count, pos);
}

static enum error g_truncate(struct file *f, uint64_t size)
{
    return file_truncate(of(f)->real, size);
}
static enum error g_size(struct file *f, uint64_t *ret_size)
{
    return file_size(of(f)->real, ret_size);
}
static int g_fd(struct file *f)
{
    return file_fd(of(f)->real);
}

static enum error g_sync(struct file *f)
{
    struct gate_fs *g = of(f)->gate;
    if (!of(f)->gated)
        return file_sync(of(f)->real);
    mutex_lock(&g->mutex);
    g->entered++;
    condition_broadcast(&g->changed);
    while (g->closed && g->tickets == 0)
        condition_wait(&g->changed, &g->mutex);
    g->tickets -= g->closed ? 1 : 0;
    g->left++;
    bool failing = g->failing;
    mutex_unlock(&g->mutex);
    return failing ? ERR_IO : file_sync(of(f)->real);
}

static const struct file_ops FILE_OPS = {g_close, g_pread, g_pwritev, g_truncate, g_sync, g_size, g_fd, NULL};

static enum error g_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    struct file *real;
    enum error error = fs_open(fs_system(), path, flags, &real);
    if (error != OK)
        return error;
    struct gate_file *f = mem_calloc(1, sizeof(*f));
    size_t len = strlen(path);
    f->file.ops = &FILE_OPS;
    f->real = real;
    f->gate = CONTAINER_OF(fs, struct gate_fs, fs);
    f->gated = len > 4 && strcmp(path + len - 4, ".log") == 0;
    *ret_file = &f->file;
    return OK;
}

static enum error g_mkdir(struct fs *fs, const char *path)
{
    return fs_mkdir(fs_system(), path);
}
static enum error g_rmdir(struct fs *fs, const char *path)
{
    return fs_rmdir(fs_system(), path);
}
static enum error g_unlink(struct fs *fs, const char *path)
{
    return fs_unlink(fs_system(), path);
}
static enum error g_rename(struct fs *fs, const char *from, const char *to)
{
    return fs_rename(fs_system(), from, to);
}
static enum error g_sync_dir(struct fs *fs, const char *path)
{
    return fs_sync_dir(fs_system(), path);
}

static enum error g_list(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir),
                         void *arg)
{
    return fs_list(fs_system(), path, visit, arg);
}

static enum error g_lock(struct fs *fs, const char *path, struct file **ret_file)
{
    return fs_lock(fs_system(), path, ret_file);
}

static enum error g_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms)
{
    return fs_stat(fs_system(), path, ret_is_dir, ret_size, ret_mtime_ms);
}

static enum error g_space(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable)
{
    return fs_space(fs_system(), path, ret_total, ret_usable);
}

static const struct fs_ops FS_OPS = {g_open, g_mkdir, g_rmdir, g_unlink, g_rename, g_sync_dir, g_list, g_lock, g_stat, g_space};

void gate_fs_init(struct gate_fs *g)
{
    *g = (struct gate_fs){.fs = {.ops = &FS_OPS}};
    mutex_init(&g->mutex);
    condition_init(&g->changed);
}

void gate_fs_fini(struct gate_fs *g)
{
    condition_fini(&g->changed);
    mutex_fini(&g->mutex);
}

static void set(struct gate_fs *g, bool closed, bool failing)
{
    mutex_lock(&g->mutex);
    g->closed = closed;
    g->failing = g->failing || failing;
    condition_broadcast(&g->changed);
    mutex_unlock(&g->mutex);
}

void gate_let_pass(struct gate_fs *g, int count)
{
    mutex_lock(&g->mutex);
    g->tickets += count;
    condition_broadcast(&g->changed);
    mutex_unlock(&g->mutex);
}

void gate_close(struct gate_fs *g)
{
    set(g, true, false);
}
void gate_open(struct gate_fs *g)
{
    set(g, false, false);
}
void gate_fail(struct gate_fs *g)
{
    set(g, false, true);
}

void gate_await_entered(struct gate_fs *g, int count)
{
    mutex_lock(&g->mutex);
    while (g->entered < count)
        condition_wait(&g->changed, &g->mutex);
    mutex_unlock(&g->mutex);
}

int gate_entered(struct gate_fs *g)
{
    mutex_lock(&g->mutex);
    int entered = g->entered;
    mutex_unlock(&g->mutex);
    return entered;
}
