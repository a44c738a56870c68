#include "mirror/divergence.h"

#include "base/assert.h"

bool divergence_is_gap(int64_t end_offset, int64_t source_start)
{
    return source_start > end_offset;
}

static struct divergence_step truncate_to(const struct divergence_view *v, int64_t offset)
{
    if (offset >= v->end_offset)
        return (struct divergence_step){.verdict = DIVERGENCE_NONE};
    if (offset < v->source_start) /* nothing of what both had is left there */
        return (struct divergence_step){.verdict = DIVERGENCE_NOTHING};
    return (struct divergence_step){.verdict = DIVERGENCE_TRUNCATE, .offset = offset};
}

struct divergence_step divergence_judge(const struct divergence_view *v)
{
    if (divergence_is_gap(v->end_offset, v->source_start))
        return (struct divergence_step){.verdict = DIVERGENCE_GAP};
    if (v->source_end < 0 || v->source_epoch < 0 || v->source_epoch > v->asked_epoch)
        return (struct divergence_step){.verdict = DIVERGENCE_NOTHING};
    if (v->source_epoch == v->asked_epoch) /* both have the epoch: it is shared up to the shorter end */
        return truncate_to(v, MIN(v->source_end, v->end_offset));
    if (v->local_epoch == v->source_epoch)
        return truncate_to(v, MIN(v->source_end, v->local_end));
    if (v->local_epoch < 0)
        return (struct divergence_step){.verdict = DIVERGENCE_NOTHING};
    return (struct divergence_step){.verdict = DIVERGENCE_ASK, .epoch = v->local_epoch};
}
