#include "storage/leader_epochs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void leader_epochs_init(struct leader_epochs *e, struct fs *fs, const char *dir)
{
    *e = (struct leader_epochs){.fs = fs, .dir = mem_strdup(dir)};
}

void leader_epochs_fini(struct leader_epochs *e)
{
    mem_free(e->entries);
    mem_free(e->dir);
    *e = (struct leader_epochs){0};
}

static char *checkpoint_path(const struct leader_epochs *e, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", e->dir, LEADER_EPOCH_CHECKPOINT);
    return out;
}

enum error leader_epochs_load(struct leader_epochs *e, struct problem *problem)
{
    char path[PATH_MAX];
    mem_free(e->entries);
    e->entries = NULL;
    e->count = e->capacity = 0;
    enum error error = epoch_checkpoint_read(e->fs, checkpoint_path(e, path), &e->entries, &e->count, problem);
    if (error == ERR_NOT_FOUND)
        return OK;
    if (error == OK)
        e->capacity = e->count;
    return error;
}

enum error leader_epochs_store(struct leader_epochs *e)
{
    char path[PATH_MAX];
    return epoch_checkpoint_write(e->fs, checkpoint_path(e, path), e->entries, e->count);
}

int32_t leader_epochs_latest(const struct leader_epochs *e)
{
    return e->count > 0 ? e->entries[e->count - 1].epoch : -1;
}

int32_t leader_epochs_earliest(const struct leader_epochs *e)
{
    return e->count > 0 ? e->entries[0].epoch : -1;
}

bool leader_epochs_assign_quiet(struct leader_epochs *e, int32_t epoch, int64_t start_offset)
{
    ASSERT(epoch >= 0 && start_offset >= 0);
    if (e->count > 0) {
        const struct epoch_entry *latest = &e->entries[e->count - 1];
        if (latest->epoch == epoch && start_offset >= latest->start_offset)
            return false;
    }
    while (e->count > 0 && (e->entries[e->count - 1].epoch >= epoch || e->entries[e->count - 1].start_offset >= start_offset))
        e->count--;
    if (e->count == e->capacity) {
        e->capacity = MAX(4, e->capacity * 2);
        e->entries = mem_realloc(e->entries, e->capacity * sizeof(*e->entries));
    }
    e->entries[e->count++] = (struct epoch_entry){epoch, start_offset};
    return true;
}

enum error leader_epochs_assign(struct leader_epochs *e, int32_t epoch, int64_t start_offset)
{
    if (epoch < 0 || start_offset < 0)
        return ERR_INVALID;
    return leader_epochs_assign_quiet(e, epoch, start_offset) ? leader_epochs_store(e) : OK;
}

enum error leader_epochs_truncate_from_end(struct leader_epochs *e, int64_t end_offset)
{
    size_t count = e->count;
    while (e->count > 0 && e->entries[e->count - 1].start_offset >= end_offset)
        e->count--;
    return e->count != count ? leader_epochs_store(e) : OK;
}

enum error leader_epochs_truncate_from_start(struct leader_epochs *e, int64_t start_offset)
{
    size_t gone = 0;
    while (gone < e->count && e->entries[gone].start_offset <= start_offset)
        gone++;
    if (gone == 0 || (gone == 1 && e->entries[0].start_offset == start_offset))
        return OK;
    gone--; /* the last of them holds start_offset: it stays and begins there */
    memmove(e->entries, e->entries + gone, (e->count - gone) * sizeof(*e->entries));
    e->count -= gone;
    e->entries[0].start_offset = start_offset;
    return leader_epochs_store(e);
}

enum error leader_epochs_clear(struct leader_epochs *e)
{
    if (e->count == 0)
        return OK;
    e->count = 0;
    return leader_epochs_store(e);
}

/* Number of entries with an epoch <= the given one. */
static size_t count_up_to(const struct leader_epochs *e, int32_t epoch)
{
    size_t n = 0;
    while (n < e->count && e->entries[n].epoch <= epoch)
        n++;
    return n;
}

void leader_epochs_end_offset(const struct leader_epochs *e, int32_t requested, int64_t log_end_offset, int32_t *ret_epoch,
                              int64_t *ret_end_offset)
{
    *ret_epoch = -1;
    *ret_end_offset = -1;
    if (requested < 0 || e->count == 0)
        return;
    size_t n = count_up_to(e, requested);
    if (n == e->count) {
        if (e->entries[n - 1].epoch != requested)
            return; /* newer than all that is known here */
        *ret_epoch = requested;
        *ret_end_offset = log_end_offset;
        return;
    }
    *ret_epoch = n == 0 ? requested : e->entries[n - 1].epoch;
    *ret_end_offset = e->entries[n].start_offset;
}

int32_t leader_epochs_for_offset(const struct leader_epochs *e, int64_t offset)
{
    size_t n = e->count;
    while (n > 0 && e->entries[n - 1].start_offset > offset)
        n--;
    return n > 0 ? e->entries[n - 1].epoch : -1;
}

int32_t leader_epochs_previous(const struct leader_epochs *e, int32_t epoch)
{
    size_t n = e->count;
    while (n > 0 && e->entries[n - 1].epoch >= epoch)
        n--;
    return n > 0 ? e->entries[n - 1].epoch : -1;
}
