/* What the files of the log manager share. Nobody else includes it. */
#ifndef KAGAMI_STORAGE_LOG_MANAGER_INTERNAL_H
#define KAGAMI_STORAGE_LOG_MANAGER_INTERNAL_H

#include <stdatomic.h>
#include <uthash.h>

#include "storage/checkpoint.h"
#include "storage/log_manager.h"

struct log_entry {
    UT_hash_handle hh;
    char *key; /* TOPIC-N, the folder's name */
    char *topic;
    int32_t partition;
    struct plog *log; /* NULL: could not be opened, or is being created */
    struct uuid topic_id;
    struct plog_checkpoint last; /* what the checkpoint files say of a log that is not open */
    struct mutex *lock;          /* of who adopted it; NULL: nobody */
    bool busy;                   /* created, deleted or visited by background work: others wait */
};

struct deleted_dir {
    struct deleted_dir *next;
    char *path;
    int64_t due_ms;
};

struct log_manager {
    struct log_manager_params params;
    char *dir;
    struct file *lock_file;
    struct meta_properties meta;
    bool was_clean, sync_failed;
    _Atomic bool loaded; /* checkpoints are not written before */
    _Atomic bool failed;

    struct mutex mutex; /* entries, deleted */
    struct condition idle;
    struct log_entry *entries;
    struct deleted_dir *deleted;

    struct mutex checkpointing; /* outside `mutex`: one writer of the checkpoint files */
    _Atomic bool lines_missing, lines_stale; /* the files lack a log that is here; have lines of one that was deleted */
    /* Folders made by us, and how many of them had been made when the directory was last synced. From 1: those that a start finds. */
    _Atomic uint64_t dirs_made, dirs_synced;
    struct mutex dir_syncing;
    _Atomic uint64_t checkpoints_wanted;
    uint64_t checkpoints_done;
};

/* ---- log_manager.c ---- */

void log_manager_event(struct log_manager *m, const char *format, ...) PRINTF_LIKE(2, 3);
/* DIR/NAME, to be freed. */
char *log_manager_path(const struct log_manager *m, const char *name);
/* An error of the directory's own files: the disk's take it out of service, as those of a log do. Returns the error. */
enum error log_manager_broken(struct log_manager *m, enum error error, const char *doing);
/* The names of all folders that were made before the call are durable when it returns. */
MUST_CHECK enum error log_manager_sync_dirs(struct log_manager *m);
/* plog_open for an entry that stands in the table; sets its log. */
MUST_CHECK enum error log_manager_open_entry(struct log_manager *m, struct log_entry *e, const struct plog_config *config,
                                             struct uuid topic_id, bool clean, struct problem *problem);
struct log_entry *log_manager_new_entry(struct str topic, int32_t partition);
void log_manager_free_entry(struct log_entry *e);
/* The entry, when nobody has it busy any more; NULL without one. With the mutex. */
struct log_entry *log_manager_await_entry(struct log_manager *m, const char *key);
void log_manager_add_deleted(struct log_manager *m, char *path, int64_t delay_ms); /* takes path over; with the mutex */

/* ---- log_manager_tasks.c ---- */

/* Runs work(arg, i) for 0 <= i < count on the helpers and on the caller, and returns when all are done. */
void log_manager_run_all(struct log_manager *m, int count, void (*work)(void *arg, int i), void *arg);
/* Writes the three files, or waits for somebody who began to after the call. */
MUST_CHECK enum error log_manager_write_checkpoints(struct log_manager *m);

#endif
