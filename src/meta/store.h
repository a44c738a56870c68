/* The metadata store: an ordered key-value store with revisions, atomic conditional writes and watches (design section 6).
 *
 * Keys are UTF-8 text ordered by their bytes, "topics/orders"; values are JSON, so that an operator can read them. Every
 * commit that changes something gets the next revision; a key remembers the revision of its last change (mod revision). What a
 * commit acknowledged is durable: a power loss takes nothing of it, and a commit is there as a whole or not at all.
 *
 * Threads: any. Every call may block on the disk: loops go through commit_async or a helper job, and read the image
 * (meta/image.h) in place of the store. No caller may hold a lock that a watch callback takes: the store's own lock comes
 * before every other in the lock order.
 * Errors: ERR_CONFLICT (a precondition failed: somebody else was first), ERR_NO_SPACE (may be tried again), ERR_IO (the store
 * is out of service from then on), ERR_CORRUPT, ERR_UNSUPPORTED (written by a newer version), ERR_LOCKED. */
#ifndef KAGAMI_META_STORE_H
#define KAGAMI_META_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/str.h"
#include "os/helpers.h"

#define META_KEY_MAX 1024
#define META_VALUE_MAX (16 * 1024 * 1024)

struct meta_store;

/* Opens or creates the database file `path` (DATA/metadata.db); its folder exists. The problem names the file. */
MUST_CHECK enum error meta_store_open_sqlite(const char *path, struct meta_store **ret_store, struct problem *problem);
void meta_store_close(struct meta_store *store); /* NULL is OK; no watch may be left */

/* ---- Reading ---- */

/* ERR_NOT_FOUND when absent. The value is the caller's (json_decref). ret_mod_revision may be NULL. */
MUST_CHECK enum error meta_store_get(struct meta_store *store, const char *key, json_t **ret_value, int64_t *ret_mod_revision);
/* All keys with the prefix ("" for all), in order, as of one moment. The value is borrowed: json_incref to keep it. An error
 * that visit returns ends the listing and is returned. visit must not call the store. */
MUST_CHECK enum error meta_store_list(struct meta_store *store, const char *prefix,
                                      enum error (*visit)(void *arg, const char *key, json_t *value, int64_t mod_revision),
                                      void *arg);
int64_t meta_store_revision(struct meta_store *store); /* of the last commit; 0 for a new store */

/* ---- Writing ---- */

enum meta_op_kind { META_CHECK, META_PUT, META_DELETE, META_DELETE_PREFIX };

struct meta_op {
    enum meta_op_kind kind;
    char *key;
    json_t *value;        /* PUT */
    int64_t mod_revision; /* CHECK: 0 = the key must be absent, META_PRESENT = must be there, else = must be unchanged since */
};
#define META_PRESENT (-1)

/* A set of preconditions and changes that is committed as a whole. Zero-initialised is empty. Preconditions look at the state
 * before the transaction; changes apply in their order (a later one of the same key wins). */
struct meta_txn {
    struct meta_op *ops;
    int count, capacity;
};
void meta_txn_fini(struct meta_txn *txn);
void meta_txn_check(struct meta_txn *txn, const char *key, int64_t mod_revision);
/* Takes over the caller's reference to value; value NULL (out of memory in jansson) ends the process. */
void meta_txn_put(struct meta_txn *txn, const char *key, json_t *value);
void meta_txn_delete(struct meta_txn *txn, const char *key); /* an absent key is OK */
void meta_txn_delete_prefix(struct meta_txn *txn, const char *prefix);
/* Copies all operations of `more` (NULL is OK) behind those of txn. */
void meta_txn_append(struct meta_txn *txn, const struct meta_txn *more);

/* Durable when it returns OK, and all watches have been called. ERR_CONFLICT changes nothing; the problem names the key. The
 * transaction stays the caller's and may be committed again. ret_revision may be NULL; problem may be NULL. A transaction
 * without changes only checks. */
MUST_CHECK enum error meta_store_commit(struct meta_store *store, const struct meta_txn *txn, int64_t *ret_revision,
                                        struct problem *problem);

/* The same from a loop: runs on a helper, then done on `loop`. Embedded in its owner, which lives until done ran; done may
 * free it. */
struct meta_write {
    struct helper_job job; /* first; set by commit_async */
    struct meta_store *store;
    struct meta_txn txn; /* filled by the caller, freed before done runs */
    void (*done)(struct meta_write *write);
    enum error result;
    int64_t revision;
    struct problem problem;
};
void meta_store_commit_async(struct meta_store *store, struct helpers *helpers, struct loop *loop, struct meta_write *write);

/* ---- Watching ---- */

struct meta_event {
    const char *key;
    json_t *value;        /* NULL: deleted. Borrowed */
    int64_t mod_revision; /* the commit's revision */
};

/* Called after each commit that touched a key with the prefix, with all its events in one call, in the order of revisions, on
 * the thread that commits and before its commit returns. Must not call the store, must not take a lock under which somebody
 * commits. */
struct meta_watch { /* embedded in its owner */
    TAILQ_ENTRY(meta_watch) link;
    const char *prefix; /* stays the caller's */
    void (*changed)(struct meta_watch *watch, const struct meta_event *events, int count, int64_t revision);
};
/* Calls `initial` (may be NULL) for every present key, then watches: nothing is missed or seen twice in between. Not from
 * inside a callback. */
MUST_CHECK enum error meta_store_watch(struct meta_store *store, struct meta_watch *watch,
                                       enum error (*initial)(void *arg, const char *key, json_t *value, int64_t mod_revision),
                                       void *arg);
void meta_store_unwatch(struct meta_store *store, struct meta_watch *watch); /* no callback runs any more when it returns */

#endif
