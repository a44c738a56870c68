/* A disk in memory behind the file system's vtable: it loses power, fails chosen operations, lies about a sync, and fills up.
 *
 * What POSIX promises is kept and nothing more. Content is there after a power cut when the file was synced; else each 512-byte sector of each write, and each change of
 * size, is there or is not, by itself. A name (creation, removal, rename; of files and folders) is as it was changed when its folder was synced; else each change took place
 * or did not, in any subset, a rename as a whole. A synced file with an unsynced name may be gone. A sync that failed has thrown away what it did not write: reads still
 * see it until the power goes or somebody asks the cache to forget it, and the next sync says OK.
 *
 * Threads: any. With one thread everything follows from the seed of `random`. */
#ifndef KAGAMI_TESTS_SIM_DISK_H
#define KAGAMI_TESTS_SIM_DISK_H

#include "os/file.h"
#include "os/mutex.h"
#include "os/random.h"

enum sim_op {
    SIM_WRITE = 1,
    SIM_RESIZE = 2,
    SIM_SYNC = 4,
    SIM_CREATE = 8, /* a file or folder */
    SIM_REMOVE = 16,
    SIM_RENAME = 32,
    SIM_SYNC_DIR = 64,
    SIM_CHANGES = 127,
    SIM_READ = 128, /* also listings and looks at a name */
    SIM_ANY = 255,
};

struct sim_disk {
    struct fs fs; /* first */
    struct mutex mutex;
    struct random_source *random;
    struct sim_inode *inodes, *root;
    uint64_t used_bytes, capacity_bytes; /* 0: endless */
    int open_files;

    /* Operations of these kinds are counted; number fail_at fails (0: none). Set before what is to fail. */
    int counted; /* enum sim_op; SIM_CHANGES at first */
    uint64_t operations, fail_at;
    enum error fail_with;
    bool fail_all_after; /* and every one that follows, of whatever kind but SIM_READ: the power is gone */
    bool paused;         /* a checker looks: nothing is counted and nothing fails */
    enum sim_op failed_op;
    char failed_path[256]; /* what failed first, for messages */

    /* Called when a file is about to be synced, without the disk's lock: what happens in the meantime. May be NULL. */
    void (*on_sync)(void *arg, const char *path);
    void *on_sync_arg;
};

void sim_disk_init(struct sim_disk *d, struct random_source *random);
void sim_disk_fini(struct sim_disk *d);
/* The chosen operation fails from now on: the next one is number 1. With OK, of syncs only: it says so and does nothing. */
void sim_disk_fail(struct sim_disk *d, int kinds, uint64_t at, enum error with, bool all_after);
bool sim_disk_has_failed(struct sim_disk *d);
/* Nothing fails any more; what is written stays as it is: kill -9. */
void sim_disk_heal(struct sim_disk *d);
/* The power goes and comes back. All files must be closed. */
void sim_disk_power_cut(struct sim_disk *d);

#endif
