#include "os/mutex.h"

#include "base/assert.h"

/* Holder and flag are written under the mutex, but mutex_held reads them without it: relaxed atomics are enough, since a thread
 * that holds the mutex sees its own writes and any other thread sees something that is not itself. */
static void set_holder(struct mutex *m, bool held)
{
    if (held)
        __atomic_store_n(&m->holder, pthread_self(), __ATOMIC_RELAXED);
    __atomic_store_n(&m->held, held, __ATOMIC_RELAXED);
}

void mutex_init(struct mutex *m)
{
    *m = (struct mutex){.held = false};
    ASSERT(pthread_mutex_init(&m->m, NULL) == 0);
}

void mutex_fini(struct mutex *m)
{
    ASSERT(!__atomic_load_n(&m->held, __ATOMIC_RELAXED));
    ASSERT(pthread_mutex_destroy(&m->m) == 0);
}

void mutex_lock(struct mutex *m)
{
    ASSERT(!mutex_held(m));
    ASSERT(pthread_mutex_lock(&m->m) == 0);
    set_holder(m, true);
}

void mutex_unlock(struct mutex *m)
{
    ASSERT(mutex_held(m));
    set_holder(m, false);
    ASSERT(pthread_mutex_unlock(&m->m) == 0);
}

bool mutex_held(const struct mutex *m)
{
    return __atomic_load_n(&m->held, __ATOMIC_RELAXED) &&
           pthread_equal(__atomic_load_n(&m->holder, __ATOMIC_RELAXED), pthread_self());
}

void condition_init(struct condition *c)
{
    ASSERT(pthread_cond_init(&c->c, NULL) == 0);
}
void condition_fini(struct condition *c)
{
    ASSERT(pthread_cond_destroy(&c->c) == 0);
}

void condition_wait(struct condition *c, struct mutex *m)
{
    ASSERT(mutex_held(m));
    set_holder(m, false);
    ASSERT(pthread_cond_wait(&c->c, &m->m) == 0);
    set_holder(m, true);
}

void condition_signal(struct condition *c)
{
    pthread_cond_signal(&c->c);
}
void condition_broadcast(struct condition *c)
{
    pthread_cond_broadcast(&c->c);
}
