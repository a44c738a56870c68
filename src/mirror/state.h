/* States of a mirror partition and the moves between them (spec section 4). Pure: no I/O, no time. Any thread.
 *
 * The wanted state (per mirror topic) is the operator's; the state is each partition's. Both live in the metadata store. The
 * state epoch grows with each write; with one broker the change mutex of mirror/internal.h keeps writes apart, with several
 * they are to be fenced by it (compare and set) and by the leader epoch of the partition's leader. */
#ifndef KAGAMI_MIRROR_STATE_H
#define KAGAMI_MIRROR_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "os/random.h"

enum mirror_state {
    MIRROR_NONE, /* not a mirror partition: an ordinary one */
    MIRROR_PREPARING,
    MIRROR_MIRRORING,
    MIRROR_PAUSING,
    MIRROR_PAUSED,
    MIRROR_STOPPING,
    MIRROR_STOPPED,
    MIRROR_FAILED,
};

const char *mirror_state_name(enum mirror_state state); /* "MIRRORING" */
bool mirror_state_parse(struct str name, enum mirror_state *ret_state);
/* Whether clients may write. */
bool mirror_state_writable(enum mirror_state state);
/* Whether spec section 4 allows the move. `failed_from` is the state that a FAILED partition came from (ignored otherwise).
 * Staying is no move. */
bool mirror_state_allowed(enum mirror_state from, enum mirror_state to, enum mirror_state failed_from);
/* The next step of a partition in `state` towards `wanted` (MIRRORING, PAUSED or STOPPED); `state` itself when there is none
 * to take. */
enum mirror_state mirror_state_next(enum mirror_state state, enum mirror_state wanted);

/* Retries of a retryable failure: 100 ms doubling to 300 s, full jitter, 20 tries. */
#define MIRROR_RETRY_FIRST_MS 100
#define MIRROR_RETRY_LONGEST_MS 300000
#define MIRROR_RETRY_MAX 20
/* Delay before try `attempt` (1-based), in [0, bound]; bound = min(first * 2^(attempt-1), longest). */
int64_t mirror_retry_delay_ms(int attempt, struct random_source *random);

#endif
