/* What producer_state.c and producer_snapshot.c share. */
#ifndef KAGAMI_STORAGE_PRODUCER_STATE_PRIVATE_H
#define KAGAMI_STORAGE_PRODUCER_STATE_PRIVATE_H

#include "storage/producer_map.h"
#include "storage/producer_state.h"

struct open_txn {
    int64_t first_offset;
    int64_t producer_id;
};

struct open_txns { /* ascending by first offset */
    struct open_txn *items;
    int count, capacity;
};

struct done_txn {
    int64_t first_offset;
    int64_t last_offset;
};

struct producer_state {
    struct fs *fs;
    char *dir;
    int64_t expiration_ms;

    struct producer_map producers;
    struct open_txns open;
    struct done_txn *unreplicated; /* ended, marker not below the high watermark; ascending by first offset */
    int unreplicated_count, unreplicated_capacity;
    int64_t end_offset;

    /* What is staged: entries as they will be, over those of `producers`. */
    struct {
        struct producer_map producers;
        bool drop_all, drop_negative; /* a barrier: entries of `producers` that no longer count */
        bool open_changed;            /* `open` below replaces the other */
        struct open_txns open;
        struct completed_txn *completed;
        int completed_count, completed_capacity;
    } staged;

    int64_t *snapshots; /* offsets, ascending */
    int snapshot_count, snapshot_capacity;
    int64_t last_snapshot_offset; /* no snapshot is taken at or below it */
};

/* Empties all but the list of snapshots. */
void producer_state_clear(struct producer_state *ps);
/* Takes over decoded entries (expired ones are left out); the state is empty before. */
void producer_state_fill(struct producer_state *ps, const struct producer_entry *entries, int count, int64_t now_ms);

#endif
