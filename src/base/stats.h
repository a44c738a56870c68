/* Counters and gauges of the process, for metrics and tests: named, monotonic or set, relaxed atomics. Registered statically; any thread. */
#ifndef KAGAMI_BASE_STATS_H
#define KAGAMI_BASE_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"

/* clang-format off */
#define STATS(X) \
    X(connections_accepted, "Connections accepted") \
    X(requests, "Requests handled") \
    X(bytes_in, "Bytes of requests read") \
    X(bytes_out, "Bytes of responses written") \
    X(records_bytes_appended, "Bytes of record batches appended by clients") \
    X(fsyncs, "fdatasync calls on logs") \
    X(mirror_bytes, "Bytes of record batches copied by mirrors") \
    X(mirror_batches, "Record batches copied by mirrors") \
    X(mirror_gaps, "Gaps recorded because the source's retention was faster than the mirror") \
    X(mirror_failures, "Mirror partitions that went FAILED") \
    X(barriers_written, "MIRROR_PID_RESET barriers written") \
    X(log_dir_failures, "Log directories taken out of service")
/* clang-format on */

struct stats {
#define X(name, help) _Atomic int64_t name;
    STATS(X)
#undef X
};

extern struct stats stats;

#define STAT_ADD(name, n) atomic_fetch_add_explicit(&stats.name, (n), memory_order_relaxed)
#define STAT_GET(name) atomic_load_explicit(&stats.name, memory_order_relaxed)

/* "name value\n" for each, in the order of the table. */
void stats_print(struct buf *out);

#endif
