/* Mutex that knows its holder, so that "the caller holds the lock" can be asserted. Never recursive. Lock order: group,
 * partition, log manager, mailbox (design: two partitions are never locked together). */
#ifndef KAGAMI_OS_MUTEX_H
#define KAGAMI_OS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

struct mutex {
    pthread_mutex_t m;
    pthread_t holder;
    bool held;
};

struct condition {
    pthread_cond_t c;
};

void mutex_init(struct mutex *m);
void mutex_fini(struct mutex *m);
void mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);
bool mutex_held(const struct mutex *m); /* by the calling thread; for assertions only */

void condition_init(struct condition *c);
void condition_fini(struct condition *c);
void condition_wait(struct condition *c, struct mutex *m);
void condition_signal(struct condition *c);
void condition_broadcast(struct condition *c);

#endif
