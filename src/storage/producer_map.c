#include "storage/producer_map.h"

#include <string.h>

#include "base/assert.h"

#define KEEP_TABLE 1024 /* clear() gives a larger table back */

void producer_map_fini(struct producer_map *m)
{
    mem_free(m->entries);
    mem_free(m->table);
    *m = (struct producer_map){0};
}

void producer_map_clear(struct producer_map *m)
{
    if (m->table_size > KEEP_TABLE) {
        producer_map_fini(m);
        return;
    }
    if (m->count > 0)
        memset(m->table, 0, m->table_size * sizeof(*m->table));
    m->count = 0;
}

/* Producer ids come in blocks of neighbours: mix all bits down. */
static uint32_t slot_of(const struct producer_map *m, int64_t producer_id)
{
    uint64_t h = (uint64_t)producer_id * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) & (m->table_size - 1);
}

struct producer_entry *producer_map_get(const struct producer_map *m, int64_t producer_id)
{
    if (m->count == 0)
        return NULL;
    for (uint32_t slot = slot_of(m, producer_id); m->table[slot] != 0; slot = (slot + 1) & (m->table_size - 1)) {
        struct producer_entry *e = &m->entries[m->table[slot] - 1];
        if (e->producer_id == producer_id)
            return e;
    }
    return NULL;
}

static void link_entry(struct producer_map *m, int32_t index)
{
    uint32_t slot = slot_of(m, m->entries[index].producer_id);
    while (m->table[slot] != 0)
        slot = (slot + 1) & (m->table_size - 1);
    m->table[slot] = index + 1;
}

static void rebuild(struct producer_map *m, uint32_t table_size)
{
    mem_free(m->table);
    m->table = mem_calloc(table_size, sizeof(*m->table));
    m->table_size = table_size;
    for (int32_t i = 0; i < m->count; i++)
        link_entry(m, i);
}

struct producer_entry *producer_map_put(struct producer_map *m, int64_t producer_id)
{
    ASSERT(producer_map_get(m, producer_id) == NULL);
    if (m->count == m->capacity) {
        ASSERT(m->capacity <= INT32_MAX / 4);
        m->capacity = m->capacity == 0 ? 4 : m->capacity * 2;
        m->entries = mem_realloc(m->entries, (size_t)m->capacity * sizeof(*m->entries));
    }
    if ((uint32_t)m->count * 2 >= m->table_size)
        rebuild(m, m->table_size == 0 ? 16 : m->table_size * 2);
    struct producer_entry *e = &m->entries[m->count];
    *e = (struct producer_entry){
        .producer_id = producer_id,
        .last_timestamp = -1,
        .current_txn_first_offset = -1,
        .coordinator_epoch = -1,
        .producer_epoch = -1,
    };
    link_entry(m, m->count++);
    return e;
}

int producer_map_filter(struct producer_map *m, bool (*keep)(void *arg, const struct producer_entry *entry), void *arg)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < m->count; i++) {
        if (!keep(arg, &m->entries[i]))
            continue;
        if (kept != i)
            m->entries[kept] = m->entries[i];
        kept++;
    }
    int removed = m->count - kept;
    if (removed == 0)
        return 0;
    m->count = kept;
    if (kept == 0)
        producer_map_fini(m);
    else
        rebuild(m, m->table_size);
    return removed;
}
