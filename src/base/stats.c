#include "base/stats.h"

struct stats stats;

void stats_print(struct buf *out)
{
#define X(name, help) buf_printf(out, #name " %lld\n", (long long)STAT_GET(name));
    STATS(X)
#undef X
}
