/* Shared by the files of this layer only.
 *
 * Who owns what:
 *   - `mutex` guards the registry: which mirrors, topics and partitions there are, their records, the open partition behind
 *     each. Held for memory only, never over a call that blocks. It comes before the partitions' locks and after the
 *     controller's.
 *   - `change_mutex` makes changes of records one after the other, each held from the look at the records to the commit; it
 *     comes before the controller's and is taken on workers only, never on a loop.
 *   - a link belongs to its home loop, a fetcher to its loop; they speak by messages (mirrors_post).
 *   - what blocks runs on `workers` (metadata, disks; the stop sequence) or on `callers` (whatever waits for a source or a
 *     time limit, so that it delays no stop).
 * Mirrors and mirror partitions are reference-counted; topics live under `mutex` alone. */
#ifndef KAGAMI_MIRROR_INTERNAL_H
#define KAGAMI_MIRROR_INTERNAL_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <uthash.h>

#include "base/assert.h"
#include "mirror/mirrors.h"
#include "mirror/records.h"
#include "os/mutex.h"

#define MIRROR_AREA "mirror"
#define MIRROR_EPOCH_MARGIN 10 /* so that the next few source elections cost no write (spec section 7) */
#define MIRROR_LINE_MAX 1000

struct link;
struct fetcher;

struct mirror { /* one named mirror */
    UT_hash_handle hh;
    _Atomic int refs;
    struct mirrors *all;
    char *name;
    struct mirror_record record; /* config: never changes; source_cluster_id: under `mutex` */
    struct link *link;           /* set when it is made */
    struct problem trouble;      /* under `mutex`: why the source cannot be used now; code OK: it can */
    int64_t trouble_since_ms;    /* wall time */
};

struct mirror_partition {
    _Atomic int refs;
    struct mirror *mirror; /* referenced */
    char *topic;
    struct uuid topic_id;
    int32_t index;
    /* Under `mutex`. */
    struct mirror_partition_record record;
    struct partition *partition; /* referenced; NULL while it is not open */
    bool stopping;               /* a stop sequence has it in hand */
    int64_t retry_at_ms;         /* monotonic; a retryable FAILED */
    struct problem trouble;      /* what keeps it from copying now, though it is not FAILED; code OK: nothing */
    /* What the fetcher saw last; any thread. */
    _Atomic int64_t source_high_watermark, source_log_start; /* -1: never seen */
    _Atomic int64_t source_seen_ms;                          /* monotonic; -1 */
    _Atomic bool settled;                                    /* it copies again after retries: the count may go back to 0 */
    /* The home loop's. */
    struct fetcher *fetcher; /* that has it */
    int32_t leader, leader_epoch;
    bool source_has_ids;
    bool preparing; /* its start is being asked for */
};

struct mirror_topic {
    UT_hash_handle hh;
    char *name;
    struct mirror_topic_record record;
    struct mirror *mirror; /* referenced */
    int32_t partitions_n;
    struct mirror_partition **partitions; /* referenced */
    int64_t missing_since_ms;             /* monotonic: when the source first said that it has no such topic; 0: it has */
};

struct mirrors {
    struct mirrors_params params;
    struct mutex change_mutex;
    struct mutex mutex;
    struct condition stopped; /* with mutex: some stop sequence ended */
    struct mirror *by_name;
    struct mirror_topic *topics;
    struct helpers *workers, *callers;
    _Atomic int64_t messages; /* posted or submitted and not yet run */
    _Atomic bool ending;
    _Atomic int next_loop;
    bool started;
};

/* ---- mirrors.c: registry. "locked": the caller holds m->mutex ---- */

struct mirror *mirror_ref(struct mirror *mirror);
void mirror_unref(struct mirror *mirror);
struct mirror_partition *mirror_partition_ref(struct mirror_partition *mp);
void mirror_partition_unref(struct mirror_partition *mp);
struct mirror *mirrors_find_locked(struct mirrors *m, struct str name);        /* NULL: none */
struct mirror_topic *mirrors_topic_locked(struct mirrors *m, struct str name); /* NULL: none */
struct mirror *mirrors_add_locked(struct mirrors *m, const char *name,
                                  struct mirror_record *record); /* takes the record's content */
void mirrors_remove_locked(struct mirrors *m, struct mirror *mirror);
/* Replaces what stands under the name. Takes the record's content; partitions are NONE. */
struct mirror_topic *mirrors_add_topic_locked(struct mirrors *m, struct mirror *mirror, struct str name,
                                              struct mirror_topic_record *record, int32_t partitions);
void mirrors_grow_topic_locked(struct mirrors *m, struct mirror_topic *topic, int32_t partitions);
void mirrors_remove_topic_locked(struct mirrors *m, struct mirror_topic *topic);
/* Topic not STOPPED as a whole: not for clients to change. */
bool mirror_topic_busy_locked(const struct mirror_topic *topic);
struct loop *mirrors_next_loop(struct mirrors *m);
/* Sets origin and refusal of an open partition from the state. */
void mirror_partition_apply_locked(struct mirror_partition *mp);
/* Finds partitions that were opened before their records were known. */
void mirrors_bind_locked(struct mirrors *m, struct mirror_topic *topic);

struct partition_list { /* referenced */
    struct mirror_partition **items;
    int count, capacity;
};
void partition_list_add(struct partition_list *list, struct mirror_partition *mp);
void partition_list_fini(struct partition_list *list);
/* All partitions of a mirror. */
void mirrors_partitions(struct mirror *mirror, struct partition_list *ret_list);

/* Runs run(arg) on the loop's thread, later; on a worker or caller. In the order of the calls. */
void mirrors_post(struct mirrors *m, struct loop *loop, void (*run)(void *arg), void *arg);
void mirrors_work(struct mirrors *m, void (*run)(void *arg), void *arg);
void mirrors_work_slow(struct mirrors *m, void (*run)(void *arg), void *arg);

struct latch { /* waits for a number of things */
    struct mutex mutex;
    struct condition condition;
    int count;
};
void latch_init(struct latch *l, int count);
void latch_add(struct latch *l, int n);
void latch_down(struct latch *l);
void latch_wait(struct latch *l); /* and ends it */

/* ---- change.c: changes of records ---- */

struct change_item {
    struct mirror_partition *mp; /* referenced */
    struct mirror_partition_record record;
};
struct change {
    struct mirrors *m;
    struct meta_txn txn;
    struct change_item *items;
    int count, capacity;
    bool sealed;
};
void change_begin(struct change *c, struct mirrors *m); /* takes change_mutex */
/* A copy of the record to be edited; valid until the next call. */
struct mirror_partition_record *change_edit(struct change *c, struct mirror_partition *mp);
/* Also a topic's record, as it stands now in memory. */
void change_put_topic(struct change *c, const char *name, const struct mirror_topic_record *record);
/* Puts everything into c->txn, for a commit by somebody else (a controller call with `also`). */
void change_seal(struct change *c);
/* The commit went well: what was edited is now seen; states are logged. */
void change_apply(struct change *c);
/* Seals, commits, applies. */
MUST_CHECK enum error change_commit(struct change *c, struct problem *problem);
void change_end(struct change *c);

/* Whether the partition is in this state, and stays in it until change_mutex is given back: asked by whoever is about to cut
 * its log. The caller holds change_mutex. */
bool mirror_partition_is(struct mirror_partition *mp, enum mirror_state state);
/* What a cut of its log at `offset` would throw away, for the record. Any thread. */
MUST_CHECK enum error mirror_truncation_find(struct mirrors *m, struct partition *p, int64_t offset,
                                             struct mirror_truncation *ret_truncation);
/* The partition goes FAILED, unless it is being stopped or has already failed. Any thread. */
void mirror_partition_fail(struct mirror_partition *mp, const struct problem *problem, bool retryable);
/* The same for a stop sequence, blocking. */
void mirror_partition_fail_now(struct mirror_partition *mp, const struct problem *problem, bool retryable);
/* FAILED partitions go back to where they came from; by_hand: those too that do not retry by themselves, and the count of
 * retries begins anew. Blocks; takes over the list. */
void mirrors_recover(struct mirrors *m, struct partition_list *list, bool by_hand);
/* Takes MIRRORING partitions to PAUSED. Blocks. */
MUST_CHECK enum error mirrors_pause(struct mirrors *m, struct partition_list *list, struct problem *problem);
/* Those that came to MIRRORING though their topic is to be PAUSED. Blocks. */
void mirrors_pause_wanted(struct mirrors *m, const struct partition_list *list);
void mirror_partition_note_trouble(struct mirror_partition *mp, const struct problem *problem); /* NULL: none */

/* ---- link.c: one source cluster ---- */

struct link *link_create(struct mirror *mirror); /* connects to nobody before link_start */
void link_start(struct link *link);              /* any thread */
void link_close(struct link *link);   /* ends connections and timers; blocks, not on a loop; no callback comes after it */
void link_destroy(struct link *link); /* NULL is OK */
/* States changed: look again. Any thread. */
void link_kick(struct link *link);
/* The same, with metadata of the source asked for anew. */
void link_refresh(struct link *link);
/* Takes these (all of one mirror) from their fetchers; done when the latch (count raised by the callee) is down. Any thread
 * but a loop's. */
void link_detach(struct link *link, const struct partition_list *list, struct latch *latch);
/* A fetcher gave the partition up: new metadata may help. On any loop. */
void link_lost(struct link *link, struct fetcher *fetcher, struct mirror_partition *mp, const struct problem *why);

/* ---- fetcher.c ---- */

struct fetcher *fetcher_create(struct link *link, struct mirror *mirror, struct loop *loop, int32_t broker);
void fetcher_close(void *fetcher); /* on its loop */
void fetcher_destroy(struct fetcher *fetcher);
struct loop *fetcher_loop(const struct fetcher *fetcher);
int32_t fetcher_broker(const struct fetcher *fetcher);

struct fetcher_attach {
    struct fetcher *fetcher;
    struct mirror_partition *mp; /* referenced: the fetcher's */
    struct partition *partition; /* referenced: the fetcher's */
    struct uuid source_id;       /* zero: the source has no topic ids */
    int32_t leader_epoch;        /* the source's; -1 unknown */
    char host[256];
    int port;
};
void fetcher_attach(void *attach); /* on its loop; frees attach */
struct fetcher_detach {
    struct fetcher *fetcher;
    struct mirror_partition *mp; /* referenced */
    struct latch *latch;         /* NULL: none waits */
};
void fetcher_detach(void *detach); /* on its loop; frees detach */

/* ---- throttle of a link, shared by its fetchers ---- */
/* Bytes came; how long the next fetch must wait. Any thread. */
int64_t link_throttle_ms(struct link *link, int64_t bytes);

/* ---- source.c: blocking talks with a source, for create and start ---- */

struct client_sync;
/* Connects, learns the cluster id and that it can serve as a source. The problems say what is wrong and what to do. */
MUST_CHECK enum error source_connect(struct mirrors *m, const struct mirror_config *config, int32_t timeout_ms,
                                     struct client_sync **ret_client, char **ret_cluster_id, struct problem *problem);

/* ---- stop.c ---- */

struct stop_options {
    enum mirror_open_transactions open_transactions;
    bool force;
};
/* The stop sequence over all of them together; those that another stop has in hand are waited for. Blocks. Results stand in
 * the records. */
void mirrors_stop_partitions(struct mirrors *m, const struct partition_list *list, const struct stop_options *options);
/* open.transactions=truncate: how many records of others would go. */
MUST_CHECK enum error stop_truncation_cost(struct partition *p, int64_t *ret_own, int64_t *ret_others);
/* Records STOPPED partitions whose topic is gone from here are forgotten. Blocks. */
void mirrors_forget_deleted(void *m);

/* ---- calls ---- */

void calls_create(struct mirrors *m, struct mirror_call *call);
void calls_delete(struct mirrors *m, struct mirror_call *call);
void calls_start(struct mirrors *m, struct mirror_call *call);
void calls_stop(struct mirrors *m, struct mirror_call *call);
void calls_pause(struct mirrors *m, struct mirror_call *call);
void calls_resume(struct mirrors *m, struct mirror_call *call);
void calls_recover(struct mirrors *m, struct mirror_call *call);
void calls_list(struct mirrors *m, struct mirror_call *call);
void calls_describe(struct mirrors *m, struct mirror_call *call);
struct str call_text(struct mirror_call *call, const char *text); /* copied to the arena; null for "" */
/* "message (detail)". */
struct str call_message(struct mirror_call *call, const struct problem *problem);

#endif
