#include "mirror/state.h"

#include "base/assert.h"

static const char *const names[] = {"NONE", "PREPARING", "MIRRORING", "PAUSING", "PAUSED", "STOPPING", "STOPPED", "FAILED"};

const char *mirror_state_name(enum mirror_state state)
{
    ASSERT((size_t)state < ARRAY_SIZE(names));
    return names[state];
}

bool mirror_state_parse(struct str name, enum mirror_state *ret_state)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (str_is(name, names[i])) {
            *ret_state = (enum mirror_state)i;
            return true;
        }
    }
    return false;
}

bool mirror_state_writable(enum mirror_state state)
{
    return state == MIRROR_NONE || state == MIRROR_STOPPED;
}

bool mirror_state_allowed(enum mirror_state from, enum mirror_state to, enum mirror_state failed_from)
{
    if (from == to)
        return false;
    switch (to) {
    case MIRROR_PREPARING:
        return from == MIRROR_NONE || from == MIRROR_STOPPED || from == MIRROR_FAILED;
    case MIRROR_MIRRORING:
        return from == MIRROR_PREPARING || from == MIRROR_PAUSED || (from == MIRROR_FAILED && failed_from == MIRROR_MIRRORING);
    case MIRROR_PAUSING:
        return from == MIRROR_MIRRORING || (from == MIRROR_FAILED && failed_from == MIRROR_PAUSING);
    case MIRROR_PAUSED:
        return from == MIRROR_PAUSING || (from == MIRROR_FAILED && failed_from == MIRROR_PAUSED);
    case MIRROR_STOPPING: /* a failover must work whatever else is broken */
        return from != MIRROR_STOPPED && from != MIRROR_NONE;
    case MIRROR_STOPPED:
        return from == MIRROR_STOPPING;
    case MIRROR_FAILED:
        return from != MIRROR_NONE;
    case MIRROR_NONE:
        return false;
    }
    UNREACHABLE();
}

enum mirror_state mirror_state_next(enum mirror_state state, enum mirror_state wanted)
{
    if (state == MIRROR_FAILED && wanted != MIRROR_STOPPED)
        return state; /* a retry or `recover` leads out of it */
    switch (wanted) {
    case MIRROR_STOPPED:
        if (state == MIRROR_STOPPING)
            return MIRROR_STOPPED;
        return state == MIRROR_NONE || state == MIRROR_STOPPED ? state : MIRROR_STOPPING;
    case MIRROR_PAUSED:
        if (state == MIRROR_PREPARING) /* first comes to rest as a prefix of the source's log */
            return MIRROR_MIRRORING;
        return state == MIRROR_MIRRORING ? MIRROR_PAUSING : state == MIRROR_PAUSING ? MIRROR_PAUSED : state;
    case MIRROR_MIRRORING:
        if (state == MIRROR_NONE || state == MIRROR_STOPPED)
            return MIRROR_PREPARING;
        if (state == MIRROR_PAUSING) /* what was begun is ended first */
            return MIRROR_PAUSED;
        return state == MIRROR_PREPARING || state == MIRROR_PAUSED ? MIRROR_MIRRORING : state;
    default:
        UNREACHABLE();
    }
}

int64_t mirror_retry_delay_ms(int attempt, struct random_source *random)
{
    int64_t bound = MIRROR_RETRY_FIRST_MS;

    for (int i = 1; i < attempt && bound < MIRROR_RETRY_LONGEST_MS; i++)
        bound *= 2;
    bound = MIN(bound, (int64_t)MIRROR_RETRY_LONGEST_MS);
    return (int64_t)random_below(random, (uint64_t)bound + 1);
}
