/* The end of a process and the start of the next: clean or not, with checkpoint files of some earlier moment, with derived files lost or damaged in between. What was written stays (power
 * cuts are tested in tests/unit/storage). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "replica.h"
#include "walk.h"

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), s = strlen(suffix);
    return n >= s && strcmp(path + n - s, suffix) == 0;
}

static void damage(struct walk *w, struct memory_entry *e)
{
    switch (pick(w, 4)) {
    case 0: /* an odd number of bytes */
        buf_putc(&e->content, 'x');
        break;
    case 1: /* garbage all over */
        if (e->content.len > 0)
            memset(e->content.data, 0xff, e->content.len);
        break;
    case 2: /* cut short to something that no whole entry is */
        e->content.len = e->content.len > 5 ? 5 : 1;
        if (e->content.len == 1)
            buf_reserve(&e->content, 1)[0] = 'x';
        break;
    default: { /* gone, but for the folder's sake */
        char path[200];
        snprintf(path, sizeof(path), "%s", e->path);
        WALK_CHECK(w, fs_unlink(&w->fs.fs, path) == OK, "cannot remove %s", path);
    }
    }
}

/* A transaction index that is missing says nothing of itself (most segments have none), so it goes together with the offset index only. */
static void lose_txn_index(struct walk *w, const char *index_path)
{
    char path[200];
    snprintf(path, sizeof(path), "%.*s.txnindex", (int)(strlen(index_path) - strlen(".index")), index_path);
    (void)!fs_unlink(&w->fs.fs, path);
}

static bool is_damaged(const struct walk *w, const char *path, size_t old_len)
{
    const struct memory_entry *e = memory_find((struct fs *)&w->fs.fs, path);
    return e == NULL || e->content.len != old_len;
}

/* Returns whether the leader epochs must be built anew. */
static bool damage_files(struct walk *w)
{
    bool epochs_gone = false;
    for (int i = 0; i < w->fs.count; i++) {
        struct memory_entry *e = w->fs.entries[i];
        bool index = ends_with(e->path, ".index"), time_index = ends_with(e->path, ".timeindex");
        bool epochs = ends_with(e->path, "leader-epoch-checkpoint");
        if ((!index && !time_index && !epochs && !ends_with(e->path, ".snapshot")) || !chance(w, epochs ? 6 : 4))
            continue;
        char path[200];
        size_t len = e->content.len;
        snprintf(path, sizeof(path), "%s", e->path);
        walk_note(w, "\n             damaged %s", path + strlen(WALK_DIR) + 1);
        damage(w, e);
        epochs_gone |= epochs;
        if (index && is_damaged(w, path, len) && chance(w, 2))
            lose_txn_index(w, path);
    }
    return epochs_gone;
}

/* The beginning of a batch that the end of the process cut short. */
static void tear_tail(struct walk *w)
{
    struct segments now;
    struct model_batch b;
    char path[128];
    walk_list_segments(w, &w->fs, &now);
    snprintf(path, sizeof(path), WALK_DIR "/%020" PRId64 ".log", now.base[now.count - 1]);
    struct memory_entry *e = memory_find(&w->fs.fs, path);
    walk_make_copied(w, w->model.end, &b);
    size_t len = (size_t)pick(w, (int64_t)b.bytes.len);
    buf_append(&e->content, b.bytes.data, len);
    buf_fini(&b.bytes);
    walk_note(w, ", %zu bytes of a torn batch", len);
}

static void leave_junk(struct walk *w)
{
    static const char *const JUNK[] = {WALK_DIR "/00000000000000000007.log.deleted",
                                       WALK_DIR "/00000000000000000009.snapshot.tmp", WALK_DIR "/00000000000009999999.index",
                                       WALK_DIR "/00000000000000000000.log.cleaned"};
    (void)memory_put(&w->fs, JUNK[pick(w, ARRAY_SIZE(JUNK))], "junk", 4);
}

void walk_reopen(struct walk *w)
{
    struct model *m = &w->model;
    bool clean = chance(w, 2), epochs_gone = false;
    walk_note(w, "%s", clean ? "clean" : "unclean");
    replica_close(w);
    if (clean) {
        w->saved = plog_checkpoint_values(w->log);
        w->saved.recovery_point = m->end;
    }
    enum error error = plog_close(w->log, clean);
    w->log = NULL;
    WALK_CHECK(w, error == OK, "closing failed: %s", error_name(error));
    if (chance(w, 3))
        epochs_gone = damage_files(w);
    if (!clean && chance(w, 3))
        tear_tail(w);
    if (chance(w, 8))
        leave_junk(w);
    if (!clean || epochs_gone || m->end == 0) /* a clean end stores them, but where nothing was ever written */
        walk_epochs_on_disk(w, &w->fs, &w->saved, &m->epochs);
    w->params.clean_shutdown = clean;
    walk_note(w, "\n             recovery point %" PRId64 " log start %" PRId64 " HW %" PRId64, w->saved.recovery_point,
              w->saved.log_start_offset, w->saved.high_watermark);
    walk_open(w);
    struct segments now;
    walk_list_segments(w, &w->fs, &now);
    m->log_start = MAX(w->saved.log_start_offset, now.base[0]);
    m->hw = MAX(MIN(w->saved.high_watermark, m->end), m->log_start);
    model_epochs_complete(m, m->log_start, &m->epochs);
    walk_adopt_producers(w, m->end);
    if (w->replica.on)
        replica_open(w);
}
