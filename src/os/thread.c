#include "os/thread.h"

#include <signal.h>
#include <stdio.h>

#include "base/assert.h"

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    pthread_setname_np(pthread_self(), t->name);
    t->run(t->arg);
    return NULL;
}

enum error thread_start(struct thread *t, const char *name, void (*run)(void *arg), void *arg)
{
    t->run = run;
    t->arg = arg;
    snprintf(t->name, sizeof(t->name), "%s", name);
    /* A new thread has its creator's mask: all blocked while it is made, so that no signal comes in between. */
    sigset_t all, before;
    sigfillset(&all);
    ASSERT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    int rc = pthread_create(&t->id, NULL, thread_main, t);
    ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return rc == 0 ? OK : ERR_IO;
}

void thread_join(struct thread *t)
{
    ASSERT(pthread_join(t->id, NULL) == 0);
}
