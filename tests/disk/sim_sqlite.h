/* SQLite over a file system of ours: a VFS that becomes the default one, so that the metadata store lies on the simulated disk too. As SQLite's own does on Unix, the first sync of
 * a journal or write-ahead log syncs its folder. One connection a file; shared memory is memory. */
#ifndef KAGAMI_TESTS_SIM_SQLITE_H
#define KAGAMI_TESTS_SIM_SQLITE_H

#include "os/file.h"

/* May be called again for another file system, when no database is open. */
void sim_sqlite_use(struct fs *fs);

#endif
