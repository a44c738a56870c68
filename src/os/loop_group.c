#include <stdio.h>

#include "base/assert.h"
#include "os/loop.h"
#include "os/thread.h"

struct loop_group {
    int count;   /* loops */
    int running; /* threads */
    struct loop **loops;
    struct thread *threads;
};

static void loop_main(void *arg)
{
    loop_run(arg);
}

static void nothing(void *arg) {}

static enum error start_one(struct loop_group *group, const struct clock *clock, int index)
{
    enum error e = loop_create(clock, &group->loops[index]);
    if (e != OK)
        return e;
    group->count++;
    char name[THREAD_NAME_MAX];
    snprintf(name, sizeof(name), "loop-%hd", (short)index);
    e = thread_start(&group->threads[index], name, loop_main, group->loops[index]);
    if (e != OK)
        return e;
    group->running++;
    /* Until a loop runs it takes its creator for its thread: nobody gets it before that has changed. */
    loop_call(group->loops[index], nothing, NULL);
    return OK;
}

enum error loop_group_start(const struct clock *clock, int count, struct loop_group **ret_group)
{
    ASSERT(count > 0);
    struct loop_group *group = mem_calloc(1, sizeof(*group));
    group->loops = mem_calloc((size_t)count, sizeof(struct loop *));
    group->threads = mem_calloc((size_t)count, sizeof(struct thread));
    for (int i = 0; i < count; i++) {
        enum error e = start_one(group, clock, i);
        if (e != OK) {
            loop_group_stop(group);
            return e;
        }
    }
    *ret_group = group;
    return OK;
}

void loop_group_stop(struct loop_group *group)
{
    if (group == NULL)
        return;
    for (int i = 0; i < group->running; i++)
        loop_stop(group->loops[i]);
    for (int i = 0; i < group->running; i++)
        thread_join(&group->threads[i]);
    for (int i = 0; i < group->count; i++)
        loop_destroy(group->loops[i]);
    mem_free(group->loops);
    mem_free(group->threads);
    mem_free(group);
}

int loop_group_count(const struct loop_group *group)
{
    return group->count;
}

struct loop *loop_group_at(struct loop_group *group, int index)
{
    ASSERT(index >= 0 && index < group->count);
    return group->loops[index];
}
