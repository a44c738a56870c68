/* The real file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/file.h"

struct system_file {
    struct file file; /* first */
    int fd;
};

static int fd_of(struct file *f)
{
    return ((struct system_file *)f)->fd;
}

static enum error last_error(void)
{
    return error_from_errno(errno);
}

static void system_close(struct file *f)
{
    /* Not repeated on EINTR: Linux has given the number free already. */
    close(fd_of(f));
    mem_free(f);
}

static enum error system_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = pread(fd_of(f), (char *)out + got, len - got, (off_t)(pos + got));
        if (n == 0)
            break;
        if (n > 0)
            got += (size_t)n;
        else if (errno != EINTR)
            return last_error();
    }
    *ret_read = got;
    return OK;
}

static enum error system_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    size_t done = 0; /* of iov[0] */
    while (iov_count > 0) {
        if (done == iov->iov_len) {
            iov++;
            iov_count--;
            done = 0;
            continue;
        }
        /* A piece that was cut by a partial write is finished alone, so that the caller's vector stays as it is. */
        ssize_t n = done > 0 ? pwrite(fd_of(f), (char *)iov->iov_base + done, iov->iov_len - done, (off_t)pos)
                             : pwritev(fd_of(f), iov, MIN(iov_count, IOV_MAX), (off_t)pos);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return last_error();
        if (n == 0)
            return ERR_IO;
        pos += (size_t)n;
        size_t left = (size_t)n;
        while (left > 0) {
            size_t step = MIN(left, iov->iov_len - done);
            left -= step;
            done += step;
            if (done == iov->iov_len) {
                iov++;
                iov_count--;
                done = 0;
            }
        }
    }
    return OK;
}

static enum error system_truncate(struct file *f, uint64_t size)
{
    int rc;
    do
        rc = ftruncate(fd_of(f), (off_t)size);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? last_error() : OK;
}

/* Not repeated on an error: the kernel has dropped the dirty pages then, and a second call would report success. */
static enum error system_sync(struct file *f)
{
    return fdatasync(fd_of(f)) < 0 ? last_error() : OK;
}

static enum error system_size(struct file *f, uint64_t *ret_size)
{
    struct stat st;
    if (fstat(fd_of(f), &st) < 0)
        return last_error();
    *ret_size = (uint64_t)st.st_size;
    return OK;
}

static void system_forget(struct file *f)
{
    (void)posix_fadvise(fd_of(f), 0, 0, POSIX_FADV_DONTNEED);
}

static const struct file_ops SYSTEM_FILE_OPS = {
    .close = system_close,
    .pread = system_pread,
    .pwritev = system_pwritev,
    .truncate = system_truncate,
    .sync = system_sync,
    .size = system_size,
    .fd = fd_of,
    .forget = system_forget,
};

static int open_retrying(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, 0644);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static enum error system_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    int open_flags = (flags & FILE_WRITE) != 0 ? O_RDWR : O_RDONLY;
    open_flags |= ((flags & FILE_CREATE) != 0 ? O_CREAT : 0) | ((flags & FILE_EXCLUSIVE) != 0 ? O_EXCL : 0) |
                  ((flags & FILE_TRUNCATE) != 0 ? O_TRUNC : 0);
    int fd = open_retrying(path, open_flags);
    if (fd < 0)
        return last_error();
    struct system_file *f = mem_alloc(sizeof(*f));
    f->file.ops = &SYSTEM_FILE_OPS;
    f->fd = fd;
    *ret_file = &f->file;
    return OK;
}

static enum error system_mkdir(struct fs *fs, const char *path)
{
    return mkdir(path, 0755) < 0 ? last_error() : OK;
}
static enum error system_rmdir(struct fs *fs, const char *path)
{
    return rmdir(path) < 0 ? last_error() : OK;
}
static enum error system_unlink(struct fs *fs, const char *path)
{
    return unlink(path) < 0 ? last_error() : OK;
}

static enum error system_rename(struct fs *fs, const char *from, const char *to)
{
    return rename(from, to) < 0 ? last_error() : OK;
}

static enum error system_sync_dir(struct fs *fs, const char *path)
{
    int fd = open_retrying(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return last_error();
    enum error e = fsync(fd) < 0 ? last_error() : OK;
    close(fd);
    return e;
}

static bool entry_is_dir(DIR *dir, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    struct stat st;
    return fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static enum error system_list(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir),
                              void *arg)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return last_error();
    enum error e = OK;
    while (e == OK) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            e = errno != 0 ? last_error() : OK;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            e = visit(arg, entry->d_name, entry_is_dir(dir, entry));
    }
    closedir(dir);
    return e;
}

/* flock and not fcntl: it belongs to the open file, so that two opens in one process exclude each other too, and closing an
 * unrelated descriptor of the same file does not give it up. */
static enum error system_lock(struct fs *fs, const char *path, struct file **ret_file)
{
    struct file *f;
    enum error e = system_open(fs, path, FILE_WRITE | FILE_CREATE, &f);
    if (e != OK)
        return e;
    int rc;
    do
        rc = flock(fd_of(f), LOCK_EX | LOCK_NB);
    while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        e = errno == EWOULDBLOCK ? ERR_LOCKED : last_error();
        system_close(f);
        return e;
    }
    *ret_file = f;
    return OK;
}

static enum error system_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return last_error();
    *ret_is_dir = S_ISDIR(st.st_mode);
    *ret_size = (uint64_t)st.st_size;
    *ret_mtime_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    return OK;
}

static enum error system_space(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable)
{
    struct statvfs st;
    if (statvfs(path, &st) < 0)
        return last_error();
    *ret_total = (uint64_t)st.f_blocks * st.f_frsize;
    *ret_usable = (uint64_t)st.f_bavail * st.f_frsize;
    return OK;
}

static const struct fs_ops SYSTEM_OPS = {
    .open = system_open,
    .mkdir = system_mkdir,
    .rmdir = system_rmdir,
    .unlink = system_unlink,
    .rename = system_rename,
    .sync_dir = system_sync_dir,
    .list = system_list,
    .lock = system_lock,
    .stat = system_stat,
    .space = system_space,
};

struct fs *fs_system(void)
{
    static struct fs system = {.ops = &SYSTEM_OPS};
    return &system;
}
