/* Whether a range of a file can be read without waiting for the disk, and getting it there. */
#ifndef KAGAMI_OS_PAGE_CACHE_H
#define KAGAMI_OS_PAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A look, not a promise: pages may go again. Never waits; two system calls. A file system that cannot tell counts as one that holds all. */
bool page_cache_holds(int fd, uint64_t pos, size_t len);
/* Reads the range. Waits for the disk. What cannot be read is found by whoever reads it next. */
void page_cache_load(int fd, uint64_t pos, size_t len);

#endif
