#include "os/helpers.h"

#include <stdio.h>

#include "base/assert.h"
#include "os/mutex.h"
#include "os/thread.h"

struct helpers {
    struct mutex mutex;
    struct condition wanted;
    struct loop_task *first; /* queue, linked by task.next */
    struct loop_task **last;
    bool stopping;
    int count;
    struct thread threads[];
};

static void run_done(struct loop_task *task)
{
    struct helper_job *job = (struct helper_job *)task;
    job->done(job);
}

static void run_job(struct helper_job *job)
{
    void (*done)(struct helper_job * job) = job->done;
    struct loop *loop = job->loop;
    job->work(job);
    if (done == NULL)
        return; /* the job may be gone */
    if (loop != NULL) {
        job->task.run = run_done;
        loop_post(loop, &job->task);
    } else {
        done(job);
    }
}

static void helper_main(void *arg)
{
    struct helpers *h = arg;
    mutex_lock(&h->mutex);
    for (;;) {
        if (h->first != NULL) {
            struct loop_task *task = h->first;
            h->first = task->next;
            if (h->first == NULL)
                h->last = &h->first;
            mutex_unlock(&h->mutex);
            run_job((struct helper_job *)task);
            mutex_lock(&h->mutex);
        } else if (h->stopping) {
            break;
        } else {
            condition_wait(&h->wanted, &h->mutex);
        }
    }
    mutex_unlock(&h->mutex);
}

enum error helpers_start(int threads, struct helpers **ret_helpers)
{
    ASSERT(threads > 0);
    struct helpers *h = mem_calloc(1, sizeof(*h) + (size_t)threads * sizeof(h->threads[0]));
    mutex_init(&h->mutex);
    condition_init(&h->wanted);
    h->last = &h->first;
    for (int i = 0; i < threads; i++) {
        char name[THREAD_NAME_MAX];
        snprintf(name, sizeof(name), "helper-%hd", (short)i);
        enum error e = thread_start(&h->threads[i], name, helper_main, h);
        if (e != OK) {
            helpers_stop(h);
            return e;
        }
        h->count++;
    }
    *ret_helpers = h;
    return OK;
}

void helpers_stop(struct helpers *h)
{
    if (h == NULL)
        return;
    mutex_lock(&h->mutex);
    h->stopping = true;
    mutex_unlock(&h->mutex);
    condition_broadcast(&h->wanted);
    for (int i = 0; i < h->count; i++)
        thread_join(&h->threads[i]);
    condition_fini(&h->wanted);
    mutex_fini(&h->mutex);
    mem_free(h);
}

void helpers_submit(struct helpers *h, struct helper_job *job)
{
    job->task.next = NULL;
    mutex_lock(&h->mutex);
    *h->last = &job->task;
    h->last = &job->task.next;
    mutex_unlock(&h->mutex);
    condition_signal(&h->wanted);
}
