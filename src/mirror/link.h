/* A link to one source cluster, as link.c and prepare.c see it. Everything here belongs to its home loop, but what says
 * otherwise. */
#ifndef KAGAMI_MIRROR_LINK_H
#define KAGAMI_MIRROR_LINK_H

#include "client/client.h"
#include "mirror/internal.h"
#include "proto/messages.h"
#include "proto/proto.h"

struct asking { /* ListOffsets for partitions in PREPARING */
    LIST_ENTRY(asking) link;
    struct link *owner;
    struct arena arena;
    struct list_offsets_request request;
    struct partition_list list;
};

struct link {
    struct mirror *mirror; /* that owns it */
    struct mirrors *m;
    struct loop *loop;
    struct client_cluster *cluster;
    struct loop_timer timer;
    bool started, closed, refreshing;
    bool wanted;                     /* metadata are wanted as soon as the backoff allows */
    int64_t periodic_ms, backoff_ms; /* monotonic: when metadata are asked for anyway, and not before when they are wanted */
    int trouble;                     /* since it was calm last */
    int64_t last_trouble_ms;
    struct fetcher **fetchers;
    int fetcher_count;
    LIST_HEAD(, asking) asking;
    _Atomic bool kicked;
    _Atomic int64_t throttle_free_ms; /* monotonic */
};

/* link.c */
void link_look(struct link *link);     /* does what is to be done now */
void link_back_off(struct link *link); /* something went wrong: metadata are asked for again, after a while */

/* prepare.c */
/* Asks the leader of list[first] where its log starts, for all in PREPARING that it leads; then they go to MIRRORING. */
void link_ask_starts(struct link *link, const struct partition_list *list, int first);
void link_asking_free(struct asking *a);

#endif
