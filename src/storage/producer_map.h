/* Producer id -> producer entry: a dense array with an open-addressing table over it, for one lookup per produced batch. Entries are removed in bulk only. Private to the
 * producer state. Pointers to entries are valid until the next put or filter. */
#ifndef KAGAMI_STORAGE_PRODUCER_MAP_H
#define KAGAMI_STORAGE_PRODUCER_MAP_H

#include "storage/producer_state.h"

struct producer_map {
    struct producer_entry *entries;
    int32_t count, capacity;
    int32_t *table;      /* index + 1; 0 is free. Linear probing */
    uint32_t table_size; /* a power of two, at least twice the count */
};

void producer_map_fini(struct producer_map *m);  /* leaves it empty and valid */
void producer_map_clear(struct producer_map *m); /* gives large memory back */
struct producer_entry *producer_map_get(const struct producer_map *m, int64_t producer_id);
/* A fresh entry of a producer that is not there yet (asserted). */
struct producer_entry *producer_map_put(struct producer_map *m, int64_t producer_id);
/* Keeps the entries for which keep() is true; returns how many went. */
int producer_map_filter(struct producer_map *m, bool (*keep)(void *arg, const struct producer_entry *entry), void *arg);

#endif
