#include "os/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"

#define STEP_BYTES (256 * 1024)
#define SYS_CACHESTAT 451 /* Linux 6.5; the C library knows it later */

/* include/uapi/linux/mman.h */
struct cache_range {
    uint64_t pos, len;
};
struct cache_state {
    uint64_t cached, dirty, writeback, evicted, recently_evicted; /* pages */
};

/* At once, or it is not there. */
static bool readable_now(int fd, uint64_t pos)
{
    uint8_t byte;
    struct iovec iov = {&byte, 1};
    return preadv2(fd, &iov, 1, (off_t)pos, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

bool page_cache_holds(int fd, uint64_t pos, size_t len)
{
    struct cache_range range = {pos, len};
    struct cache_state state;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (len == 0)
        return true;
    uint64_t pages = (pos + len - 1) / page - pos / page + 1;
    if (syscall(SYS_CACHESTAT, fd, &range, &state, 0) == 0) {
        if (state.cached < pages)
            return false;
    } else if (!readable_now(fd, pos)) {
        return false;
    }
    return readable_now(fd, pos + len - 1); /* cached pages may still be on their way from the disk, the last one longest */
}

/* By plain reads in order: the kernel sees them go on where sendfile ended, and reads ahead far and in large pieces. readahead(2) would
 * take single pages, which cost twice as much CPU to read and to send. */
void page_cache_load(int fd, uint64_t pos, size_t len)
{
    uint8_t *scratch = mem_alloc(STEP_BYTES);
    for (size_t at = 0; at < len; at += STEP_BYTES)
        if (pread(fd, scratch, MIN((size_t)STEP_BYTES, len - at), (off_t)(pos + at)) <= 0)
            break;
    mem_free(scratch);
}
