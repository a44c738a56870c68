/* A file system in memory behind the os vtable, for what reads and writes files many thousand times: fuzz targets and the walks of tests/model. It keeps what was written, as the
 * page cache of a machine that stays up does; for power cuts see sim_disk.h. An open file outlives its name. One thread at a time. */
#ifndef KAGAMI_TESTS_MEMORY_FS_H
#define KAGAMI_TESTS_MEMORY_FS_H

#include "base/buf.h"
#include "base/clock.h"
#include "os/file.h"

struct memory_entry { /* a file or a folder */
    char *path;
    uint32_t hash;
    int refs; /* its name, and each open file */
    bool is_dir;
    struct buf content;
    int64_t modified_ms;
};

struct memory_fs {
    struct fs fs;                                 /* first */
    void (*on_sync)(void *arg, const char *path); /* called when a file is synced; may be NULL */
    void *on_sync_arg;
    const struct clock *clock; /* of modification times; NULL: they are 0 */
    struct memory_entry **entries;
    int count, capacity;
};

void memory_fs_init(struct memory_fs *m);
void memory_fs_fini(struct memory_fs *m);                          /* all files must be closed */
struct memory_entry *memory_find(struct fs *fs, const char *path); /* NULL when there is none */
/* Creates or replaces. */
struct memory_entry *memory_put(struct memory_fs *m, const char *path, const void *data, size_t len);
/* Makes `to`, which must be empty, a copy: all names for which keep (NULL: any) is true. */
void memory_fs_copy(const struct memory_fs *from, struct memory_fs *to, bool (*keep)(const char *path));

#endif
