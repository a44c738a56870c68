/* Files and folders behind a vtable: the only way to a disk. A test gives a simulated one that cuts the power, tears unsynced
 * writes or fails the k-th operation.
 *
 * All calls block. A file may be used by several threads at once (pread, pwrite, sync and size are independent of each other;
 * what a concurrent pread sees of a pwrite under way is undefined). Errors: ERR_IO, ERR_NO_SPACE, ERR_NOT_FOUND, ERR_EXISTS,
 * ERR_LOCKED. */
#ifndef KAGAMI_OS_FILE_H
#define KAGAMI_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/error.h"

enum file_flags {
    FILE_READ = 0,
    FILE_WRITE = 1,     /* read and write */
    FILE_CREATE = 2,    /* create when absent */
    FILE_EXCLUSIVE = 4, /* with CREATE: ERR_EXISTS when present */
    FILE_TRUNCATE = 8,
};

struct file {
    const struct file_ops *ops;
};

struct file_ops {
    void (*close)(struct file *f); /* frees f */
    /* Reads up to len bytes; fewer only at the end of the file. */
    enum error (*pread)(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read);
    /* Writes all or fails (how much was written is then undefined). */
    enum error (*pwritev)(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos);
    enum error (*truncate)(struct file *f, uint64_t size); /* shrink or extend with zeroes */
    enum error (*sync)(struct file *f);                    /* fdatasync: content and size */
    enum error (*size)(struct file *f, uint64_t *ret_size);
    int (*fd)(struct file *f); /* for sendfile and mmap; -1 where there is none: read instead */
    /* The cache gives up what it holds of the file, but for what still waits to be written: what is read next comes from the medium. After a failed sync the cache holds, as
     * clean, what the medium never got. May be NULL. */
    void (*forget)(struct file *f);
};

struct fs {
    const struct fs_ops *ops;
};

struct fs_ops {
    enum error (*open)(struct fs *fs, const char *path, int flags, struct file **ret_file);
    enum error (*mkdir)(struct fs *fs, const char *path); /* ERR_EXISTS when present */
    enum error (*rmdir)(struct fs *fs, const char *path);
    enum error (*unlink)(struct fs *fs, const char *path);
    enum error (*rename)(struct fs *fs, const char *from, const char *to); /* replaces to */
    enum error (*sync_dir)(struct fs *fs, const char *path); /* makes creations, renames and removals in it durable */
    /* Calls visit for each entry but . and ..; an error it returns ends the listing and is returned. */
    enum error (*list)(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir), void *arg);
    /* Takes an exclusive lock on the file, kept until the file is closed or the process ends: ERR_LOCKED when another has it. */
    enum error (*lock)(struct fs *fs, const char *path, struct file **ret_file);
    enum error (*stat)(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms);
    enum error (*space)(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable);
};

/* The real one. Static; never freed. */
struct fs *fs_system(void);

MUST_CHECK enum error fs_open(struct fs *fs, const char *path, int flags, struct file **ret_file);
MUST_CHECK enum error fs_mkdir(struct fs *fs, const char *path);
MUST_CHECK enum error fs_mkdirs(struct fs *fs, const char *path); /* parents too, durably; present is OK */
MUST_CHECK enum error fs_rmdir(struct fs *fs, const char *path);
MUST_CHECK enum error fs_unlink(struct fs *fs, const char *path);
MUST_CHECK enum error fs_rename(struct fs *fs, const char *from, const char *to);
MUST_CHECK enum error fs_sync_dir(struct fs *fs, const char *path);
MUST_CHECK enum error fs_sync_parent(struct fs *fs, const char *path); /* sync_dir of the folder that path lies in */
MUST_CHECK enum error fs_list(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir),
                              void *arg);
MUST_CHECK enum error fs_lock(struct fs *fs, const char *path, struct file **ret_file);
/* The outputs may be NULL. */
MUST_CHECK enum error fs_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms);
MUST_CHECK enum error fs_space(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable);
bool fs_exists(struct fs *fs, const char *path);
/* Removes a folder with all that is in it (a missing one is OK). */
MUST_CHECK enum error fs_remove_tree(struct fs *fs, const char *path);
/* Whole file behind *out; ERR_TOO_LARGE above limit, before memory is taken. */
MUST_CHECK enum error fs_read_file(struct fs *fs, const char *path, size_t limit, struct buf *out);
/* Replaces path durably and atomically: write path.tmp, sync, rename, sync of the folder. After a crash the old or the new
 * content stands. */
MUST_CHECK enum error fs_write_atomic(struct fs *fs, const char *path, const void *data, size_t len);
/* The same but for the sync of the folder, which is left to the caller: until then a crash may show the old content. */
MUST_CHECK enum error fs_write_replace(struct fs *fs, const char *path, const void *data, size_t len);

void file_close(struct file *f); /* NULL is OK */
MUST_CHECK enum error file_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read);
/* ERR_TRUNCATED at the end of the file. */
MUST_CHECK enum error file_pread_all(struct file *f, void *out, size_t len, uint64_t pos);
MUST_CHECK enum error file_pwrite(struct file *f, const void *data, size_t len, uint64_t pos);
MUST_CHECK enum error file_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos);
MUST_CHECK enum error file_truncate(struct file *f, uint64_t size);
MUST_CHECK enum error file_sync(struct file *f);
MUST_CHECK enum error file_size(struct file *f, uint64_t *ret_size);
int file_fd(struct file *f);
void file_forget(struct file *f);

#endif
