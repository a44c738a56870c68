#include "server/append_queue.h"

#include "base/assert.h"
#include "codec/record_batch.h"

static void run(struct loop_task *task)
{
    struct append_queue *q = CONTAINER_OF(task, struct append_queue, task);
    q->posted = false;
    append_queue_flush(q);
}

void append_queue_init(struct append_queue *q, struct loop *loop)
{
    q->loop = loop;
    q->task.run = run;
    q->posted = q->flushing = false;
    q->count = 0;
    q->bytes = 0;
}

void append_queue_add(struct append_queue *q, struct queued_append *a)
{
    ASSERT(!q->flushing && q->count < APPEND_QUEUE_MAX);
    struct problem *problem = &q->problems[q->count];
    problem_clear(problem);
    a->append.log.problem = problem;
    a->taken = false;
    q->items[q->count++] = a;
    q->bytes += BATCH_OVERHEAD + (size_t)a->append.log.records->rest.len;
    if (q->count == APPEND_QUEUE_MAX || q->bytes >= APPEND_QUEUE_BYTES) {
        append_queue_flush(q);
    } else if (!q->posted) {
        q->posted = true;
        loop_post(q->loop, &q->task);
    }
}

static void append_group(struct append_queue *q, int first)
{
    struct partition_append *group[APPEND_QUEUE_MAX];
    struct partition *partition = q->items[first]->partition;
    int count = 0;
    for (int i = first; i < q->count; i++) {
        if (q->items[i]->partition != partition)
            continue;
        q->items[i]->taken = true;
        group[count++] = &q->items[i]->append;
    }
    partition_append_clients(partition, group, count);
}

void append_queue_flush(struct append_queue *q)
{
    if (q->count == 0)
        return;
    q->flushing = true;
    for (int i = 0; i < q->count; i++)
        if (!q->items[i]->taken)
            append_group(q, i);
    for (int i = 0; i < q->count; i++)
        q->items[i]->appended(q->items[i]);
    q->count = 0;
    q->bytes = 0;
    q->flushing = false;
}
