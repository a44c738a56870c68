/* Helper threads: a few threads that take what blocks (fsync, cold reads, recovery, file removal, DNS). Jobs start in order;
 * their `done` is posted to a loop, or runs on the helper when loop is NULL.
 * Loops outlive the helpers that post to them. */
#ifndef KAGAMI_OS_HELPERS_H
#define KAGAMI_OS_HELPERS_H

#include "base/error.h"
#include "os/loop.h"

struct helpers;

struct helper_job {                       /* embedded; valid until done ran */
    struct loop_task task;                /* first */
    void (*work)(struct helper_job *job); /* on a helper thread */
    void (*done)(struct helper_job *job); /* on `loop`, or on the helper when loop is NULL; may be NULL; may free the job */
    struct loop *loop;
};

MUST_CHECK enum error helpers_start(int threads, struct helpers **ret_helpers);
void helpers_stop(struct helpers *h);                           /* finishes all jobs, then joins; NULL is OK */
void helpers_submit(struct helpers *h, struct helper_job *job); /* any thread */

#endif
