/* Threads with a name (as `top -H` and gdb show it). They take no signals: those go to the main thread; a SIGPIPE that
 * sendfile raises stays pending and has no effect. */
#ifndef KAGAMI_OS_THREAD_H
#define KAGAMI_OS_THREAD_H

#include <pthread.h>

#include "base/error.h"

#define THREAD_NAME_MAX 16 /* Linux: 15 characters and the end */

struct thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
    char name[THREAD_NAME_MAX];
};

/* t stays in place until thread_join. ERR_IO when the system gives no thread. */
MUST_CHECK enum error thread_start(struct thread *t, const char *name, void (*run)(void *arg), void *arg);
void thread_join(struct thread *t);

#endif
