/* A disk in memory behind the file system's vtable: counts operations, fails a chosen one, and cuts the power.
 *
 * What was not synced when the power goes may be there, be torn or be missing, write by write and name by name, as a seed says; what was synced is there. Folders
 * are made once and are always durable. One thread at a time. */
#ifndef KAGAMI_TESTS_SIM_DISK_H
#define KAGAMI_TESTS_SIM_DISK_H

#include "os/file.h"
#include "os/random.h"

struct sim_disk {
    struct fs fs;             /* first */
    struct sim_name *names;   /* as a process sees them */
    struct sim_name *durable; /* as they are found after a power cut */
    struct sim_inode *inodes;
    uint64_t operations; /* that change something */
    uint64_t fail_at;    /* this one fails; 0: none */
    enum error fail_with;
    bool fail_all_after; /* and every one that follows: the process is as good as dead */
};

void sim_disk_init(struct sim_disk *d);
void sim_disk_fini(struct sim_disk *d);
/* All files must be closed. */
void sim_disk_power_cut(struct sim_disk *d, struct random_source *r);

#endif
