#include "sim_sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define SHARED_REGIONS 64

struct db_file {
    sqlite3_file base; /* first */
    struct file *file;
    char *path;
    bool sync_folder;
    void *shared[SHARED_REGIONS];
};

static struct fs *the_fs;

static int code_of(enum error error, int otherwise)
{
    return error == OK ? SQLITE_OK : error == ERR_NO_SPACE ? SQLITE_FULL : otherwise;
}

static int db_unmap(sqlite3_file *f, int delete)
{
    struct db_file *d = (struct db_file *)f;
    for (int i = 0; i < SHARED_REGIONS; i++) {
        mem_free(d->shared[i]);
        d->shared[i] = NULL;
    }
    return SQLITE_OK;
}

static int db_close(sqlite3_file *f)
{
    struct db_file *d = (struct db_file *)f;
    (void)db_unmap(f, 0);
    file_close(d->file);
    mem_free(d->path);
    return SQLITE_OK;
}

static int db_read(sqlite3_file *f, void *out, int len, sqlite3_int64 pos)
{
    size_t got = 0;
    enum error error = file_pread(((struct db_file *)f)->file, out, (size_t)len, (uint64_t)pos, &got);
    if (error != OK)
        return SQLITE_IOERR_READ;
    if (got == (size_t)len)
        return SQLITE_OK;
    memset((char *)out + got, 0, (size_t)len - got);
    return SQLITE_IOERR_SHORT_READ;
}

static int db_write(sqlite3_file *f, const void *data, int len, sqlite3_int64 pos)
{
    return code_of(file_pwrite(((struct db_file *)f)->file, data, (size_t)len, (uint64_t)pos), SQLITE_IOERR_WRITE);
}

static int db_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return code_of(file_truncate(((struct db_file *)f)->file, (uint64_t)size), SQLITE_IOERR_TRUNCATE);
}

static int db_sync(sqlite3_file *f, int flags)
{
    struct db_file *d = (struct db_file *)f;
    enum error error = file_sync(d->file);
    if (error == OK && d->sync_folder) {
        error = fs_sync_parent(the_fs, d->path);
        d->sync_folder = error != OK;
    }
    return error == OK ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

static int db_size(sqlite3_file *f, sqlite3_int64 *ret_size)
{
    uint64_t size = 0;
    enum error error = file_size(((struct db_file *)f)->file, &size);
    *ret_size = (sqlite3_int64)size;
    return error == OK ? SQLITE_OK : SQLITE_IOERR_FSTAT;
}

static int db_lock(sqlite3_file *f, int level)
{
    return SQLITE_OK;
}

static int db_reserved(sqlite3_file *f, int *ret)
{
    *ret = 0;
    return SQLITE_OK;
}

static int db_control(sqlite3_file *f, int op, void *arg)
{
    return SQLITE_NOTFOUND;
}

static int db_sector(sqlite3_file *f)
{
    return 4096;
}

static int db_characteristics(sqlite3_file *f)
{
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int db_map(sqlite3_file *f, int region, int bytes, int extend, void volatile **ret_region)
{
    struct db_file *d = (struct db_file *)f;
    if (region >= SHARED_REGIONS)
        return SQLITE_IOERR_SHMMAP;
    if (d->shared[region] == NULL && extend)
        d->shared[region] = mem_calloc(1, (size_t)bytes);
    *ret_region = d->shared[region];
    return SQLITE_OK;
}

static int db_map_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return SQLITE_OK;
}

static void db_barrier(sqlite3_file *f) {}

static const sqlite3_io_methods METHODS = {
    .iVersion = 2,
    .xClose = db_close,
    .xRead = db_read,
    .xWrite = db_write,
    .xTruncate = db_truncate,
    .xSync = db_sync,
    .xFileSize = db_size,
    .xLock = db_lock,
    .xUnlock = db_lock,
    .xCheckReservedLock = db_reserved,
    .xFileControl = db_control,
    .xSectorSize = db_sector,
    .xDeviceCharacteristics = db_characteristics,
    .xShmMap = db_map,
    .xShmLock = db_map_lock,
    .xShmBarrier = db_barrier,
    .xShmUnmap = db_unmap,
};

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *ret_flags)
{
    struct db_file *d = (struct db_file *)f;
    static _Atomic int temporary;
    char made[64];
    memset(d, 0, sizeof(*d));
    if (name == NULL) {
        snprintf(made, sizeof(made), "/temporary-%d", temporary++);
        name = made;
    }
    if (fs_open(the_fs, name, (flags & SQLITE_OPEN_CREATE) != 0 ? FILE_WRITE | FILE_CREATE : FILE_WRITE, &d->file) != OK)
        return SQLITE_CANTOPEN;
    d->path = mem_strdup(name);
    d->sync_folder = (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL)) != 0;
    d->base.pMethods = &METHODS;
    if (ret_flags != NULL)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    enum error error = fs_unlink(the_fs, name);
    if (error == ERR_NOT_FOUND)
        return SQLITE_IOERR_DELETE_NOENT;
    if (error == OK && sync_folder)
        error = fs_sync_parent(the_fs, name);
    return error == OK ? SQLITE_OK : SQLITE_IOERR_DELETE;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    *ret = fs_exists(the_fs, name);
    return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    snprintf(out, (size_t)size, "%s", name);
    return SQLITE_OK;
}

void sim_sqlite_use(struct fs *fs)
{
    static sqlite3_vfs vfs;
    the_fs = fs;
    if (vfs.zName != NULL)
        return;
    vfs = *sqlite3_vfs_find(NULL); /* randomness, sleep, time */
    vfs.iVersion = 1;
    vfs.pNext = NULL;
    vfs.szOsFile = sizeof(struct db_file);
    vfs.zName = "simulated";
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    vfs.xAccess = vfs_access;
    vfs.xFullPathname = vfs_full_path;
    int rc = sqlite3_vfs_register(&vfs, 1);
    ASSERT(rc == SQLITE_OK);
}
