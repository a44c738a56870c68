#include "meta/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "meta/image_build.h"

/* ---- Looking up ---- */

/* Index of the first topic whose name is not below `name`. */
static int lower_bound(struct image_topic *const *topics, int count, struct str name)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (str_cmp(str_of(topics[middle]->name), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct image_topic *image_topic(const struct image *image, struct str name)
{
    int i = lower_bound(image->topics, image->topic_count, name);
    return i < image->topic_count && str_is(name, image->topics[i]->name) ? image->topics[i] : NULL;
}

const struct image_topic *image_topic_by_id(const struct image *image, const struct uuid *id)
{
    int low = 0, high = image->topic_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = memcmp(image->topics_by_id[middle]->id.b, id->b, sizeof(id->b));
        if (order == 0)
            return image->topics_by_id[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct image_partition *image_partition(const struct image_topic *topic, int32_t index)
{
    return index >= 0 && index < topic->partition_count ? &topic->partitions[index] : NULL;
}

const struct image_broker *image_broker(const struct image *image, int32_t id)
{
    for (int i = 0; i < image->broker_count; i++) {
        if (image->brokers[i].id == id)
            return &image->brokers[i];
    }
    return NULL;
}

const char *image_config(const struct image_configs *configs, const char *name)
{
    for (int i = 0; i < configs->count; i++) {
        if (strcmp(configs->items[i].name, name) == 0)
            return configs->items[i].value;
    }
    return NULL;
}

/* ---- Lifetime ---- */

void image_topic_unref(struct image_topic *topic)
{
    if (atomic_fetch_sub_explicit(&topic->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        mem_free(topic->partitions[i].replicas);
        mem_free(topic->partitions[i].isr);
    }
    mem_free(topic->partitions);
    image_configs_fini(&topic->configs);
    mem_free(topic->name);
    mem_free(topic);
}

const struct image *image_ref(const struct image *image)
{
    atomic_fetch_add_explicit(&((struct image *)image)->refs, 1, memory_order_relaxed);
    return image;
}

void image_unref(const struct image *shared)
{
    struct image *image = (struct image *)shared;
    if (image == NULL || atomic_fetch_sub_explicit(&image->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < image->topic_count; i++)
        image_topic_unref(image->topics[i]);
    for (int i = 0; i < image->broker_count; i++) {
        mem_free(image->brokers[i].host);
        mem_free(image->brokers[i].rack);
    }
    mem_free(image->topics);
    mem_free(image->topics_by_id);
    mem_free(image->brokers);
    image_configs_fini(&image->broker_default_configs);
    image_configs_fini(&image->broker_configs);
    mem_free(image);
}

/* ---- Differences ---- */

void image_diff(const struct image *before, const struct image *after,
                void (*visit)(void *arg, const struct image_topic *before, const struct image_topic *after), void *arg)
{
    int b = 0, a = 0;
    int before_count = before != NULL ? before->topic_count : 0;
    while (b < before_count || a < after->topic_count) {
        const struct image_topic *gone = b < before_count ? before->topics[b] : NULL;
        const struct image_topic *come = a < after->topic_count ? after->topics[a] : NULL;
        int order = gone == NULL ? 1 : come == NULL ? -1 : str_cmp(str_of(gone->name), str_of(come->name));
        b += order <= 0;
        a += order >= 0;
        if (order == 0 && gone != come && !uuid_eq(&gone->id, &come->id)) {
            visit(arg, gone, NULL);
            visit(arg, NULL, come);
        } else if (order != 0 || gone != come) {
            visit(arg, order <= 0 ? gone : NULL, order >= 0 ? come : NULL);
        }
    }
}

/* ---- The cell ---- */

void image_cell_init(struct image_cell *cell, const struct image *first)
{
    mutex_init(&cell->mutex);
    mutex_init(&cell->swap_mutex);
    TAILQ_INIT(&cell->listeners);
    cell->current = first;
}

void image_cell_fini(struct image_cell *cell)
{
    ASSERT(TAILQ_EMPTY(&cell->listeners));
    image_unref(cell->current);
    mutex_fini(&cell->mutex);
    mutex_fini(&cell->swap_mutex);
}

const struct image *image_cell_get(struct image_cell *cell)
{
    mutex_lock(&cell->mutex);
    const struct image *image = image_ref(cell->current);
    mutex_unlock(&cell->mutex);
    return image;
}

void image_cell_swap(struct image_cell *cell, const struct image *next)
{
    mutex_lock(&cell->swap_mutex);
    mutex_lock(&cell->mutex);
    const struct image *before = cell->current;
    cell->current = image_ref(next); /* our own reference is for the listeners */
    mutex_unlock(&cell->mutex);
    struct image_listener *listener;
    TAILQ_FOREACH (listener, &cell->listeners, link)
        listener->changed(listener, before, next);
    mutex_unlock(&cell->swap_mutex);
    image_unref(before);
    image_unref(next);
}

void image_cell_listen(struct image_cell *cell, struct image_listener *listener)
{
    mutex_lock(&cell->swap_mutex);
    const struct image *image = image_cell_get(cell);
    listener->changed(listener, NULL, image);
    TAILQ_INSERT_TAIL(&cell->listeners, listener, link);
    mutex_unlock(&cell->swap_mutex);
    image_unref(image);
}

void image_cell_unlisten(struct image_cell *cell, struct image_listener *listener)
{
    mutex_lock(&cell->swap_mutex);
    TAILQ_REMOVE(&cell->listeners, listener, link);
    mutex_unlock(&cell->swap_mutex);
}
