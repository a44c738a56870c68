/* A fetcher: one connection to one broker of the source, and the partitions that are copied over it. Shared by fetcher*.c and
 * resolve.c; everything here belongs to the fetcher's loop. */
#ifndef KAGAMI_MIRROR_FETCHER_H
#define KAGAMI_MIRROR_FETCHER_H

#include "client/client.h"
#include "codec/record_batch.h"
#include "mirror/internal.h"
#include "proto/messages.h"
#include "proto/proto.h"

struct fetch_topic {
    UT_hash_handle by_name, by_id;
    char *name;
    struct uuid id;                      /* zero: the source has none */
    struct fetch_partition **partitions; /* by index; holes */
    int32_t room, count;
};

struct fetch_partition {
    TAILQ_ENTRY(fetch_partition) link, in_marked;
    struct mirror_partition *mp; /* referenced */
    struct partition *partition; /* referenced */
    struct fetch_topic *topic;
    int32_t index;
    int64_t next_offset;  /* to be fetched; behind what is appended, or what the response in hand will append */
    int32_t last_epoch;   /* of the batch before it; -1 none */
    int32_t leader_epoch; /* the source's */
    int32_t local_epoch;  /* our leader epoch: no batch above it is appended */
    int32_t max_bytes;
    int64_t told_start; /* the source's log start that our log follows already */
    bool in_session;    /* the source's session has it */
    bool marked;        /* differs from what the session has: the next request names it */
    uint64_t answer;    /* the last that named it */
    bool held;          /* not fetched now: a question about it is open */
    struct resolving *resolving;
};

struct fetch_piece {            /* what one response has for one partition */
    struct fetch_partition *fp; /* NULL: given up meanwhile */
    struct bytes batches;       /* whole and checked */
    int64_t next_offset, restart_at;
    int64_t records_bytes;
    int32_t batch_count, max_epoch, last_epoch;
    int64_t max_producer_id;
    int64_t log_start;
    struct problem bad; /* what stands behind the good batches, when it is bad */
    bool bad_retryable;
};

struct forgotten {
    struct str topic;
    struct uuid id;
    int32_t index;
};

struct fetcher {
    struct link *owner;
    struct mirror *mirror; /* lives longer: its link owns us */
    struct mirrors *m;
    struct loop *loop;
    int32_t broker;
    bool closed;
    struct client_conn *conn;
    bool checked; /* it is a broker of the right cluster */
    bool in_flight;
    int16_t version;                     /* of Fetch */
    struct fetch_topic *by_name, *by_id; /* by_id: those that have one */
    TAILQ_HEAD(fetch_partitions, fetch_partition) partitions;
    struct fetch_partitions marked; /* a request costs these, and not what else the session holds */
    int partition_count, held_count, marked_count;
    int32_t session_id, session_epoch; /* 0, 0: the next request is a full one */
    bool sent_full;
    struct forgotten *forgotten; /* names in forgotten_names */
    int forgotten_count, forgotten_room;
    struct arena forgotten_names;
    int64_t joined_ms;       /* when a partition came last; 0: never */
    struct loop_timer pause; /* throttle */
    int64_t seen_ms;         /* when all partitions were told of the last response */
    /* A response in hand: appended at once, or after epochs and producer ids were raised. */
    uint64_t answers;
    struct fetch_piece *pieces;
    int piece_count;
    bool raising; /* and so the response is kept beyond its callback */
    LIST_HEAD(resolvings, resolving) resolving;
};

/* fetcher.c */
void fetcher_send(struct fetcher *f); /* the next request, when there is something to ask and nothing in flight */
/* Takes the partition out; it gets no further callback. */
void fetcher_drop(struct fetcher *f, struct fetch_partition *fp);
void fetcher_mark(struct fetcher *f, struct fetch_partition *fp); /* the next request names it */
void fetcher_hold(struct fetcher *f, struct fetch_partition *fp);
void fetcher_resume(struct fetcher *f, struct fetch_partition *fp); /* positions are read from the log */
void fetcher_give_up(struct fetcher *f, struct fetch_partition *fp,
                     const struct problem *why); /* drop, and the link looks for it */
void fetcher_fail(struct fetcher *f, struct fetch_partition *fp, const struct problem *why, bool retryable); /* drop, FAILED */
void fetcher_give_up_all(struct fetcher *f, const struct problem *why);
void fetcher_reset_session(struct fetcher *f);
void fetcher_throttle(struct fetcher *f, int64_t delay_ms); /* no request before that */
struct fetch_partition *fetcher_find(struct fetcher *f, struct str topic, const struct uuid *id, int32_t index);
struct fetch_partition *fetcher_find_mp(struct fetcher *f, const struct mirror_partition *mp);

/* fetch_answer.c */
void fetcher_answer(struct fetcher *f, struct client_response *response); /* in its callback */

/* resolve.c */
/* The source says that our position is none of its own: a gap, or a divergence. */
void fetcher_resolve(struct fetcher *f, struct fetch_partition *fp);
/* Sources before Fetch 12 are asked whether the histories agree before the first fetch. */
void fetcher_check_history(struct fetcher *f, struct fetch_partition *fp);
void resolving_cancel(struct fetch_partition *fp);
void resolving_disconnected(struct fetcher *f); /* no answer comes any more */

#endif
