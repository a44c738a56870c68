#include "server/worker.h"

#include "base/assert.h"
#include "server/server.h"

struct worker *workers_create(struct loop_group *loops)
{
    int count = loop_group_count(loops);
    struct worker *workers = mem_calloc((size_t)count, sizeof(*workers));
    for (int i = 0; i < count; i++)
        append_queue_init(&workers[i].appends, loop_group_at(loops, i));
    return workers;
}

void workers_destroy(struct worker *workers, int count)
{
    for (int i = 0; workers != NULL && i < count; i++) {
        ASSERT(workers[i].appends.count == 0);
        while (workers[i].spare_count > 0)
            request_free(workers[i].spares[--workers[i].spare_count]);
    }
    mem_free(workers);
}

struct worker *worker_of(struct server *server, const struct loop *loop)
{
    for (int i = 0; i < loop_group_count(server->loops); i++)
        if (loop_group_at(server->loops, i) == loop)
            return &server->workers[i];
    UNREACHABLE();
}
