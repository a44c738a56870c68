#include "server/adopt.h"

#include <inttypes.h>
#include <uthash.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/logger.h"
#include "meta/controller.h"
#include "meta/image.h"
#include "storage/log_manager.h"

struct found {
    UT_hash_handle hh;
    struct str name;
    struct uuid id;
    int32_t partitions;
    bool mixed; /* folders of one name with different topic ids */
};

struct adoption {
    struct arena arena;
    const struct image *image;
    struct found *topics;
};

static void look(void *arg, const struct log_info *info)
{
    struct adoption *a = arg;
    if (image_topic(a->image, info->topic) != NULL || str_is(info->topic, "__cluster_metadata"))
        return;
    struct found *f = NULL;
    HASH_FIND(hh, a->topics, info->topic.p, (unsigned)info->topic.len, f);
    if (f == NULL) {
        f = arena_calloc(&a->arena, 1, sizeof(*f));
        ASSERT(f != NULL);
        f->name = arena_str(&a->arena, info->topic);
        HASH_ADD_KEYPTR(hh, a->topics, f->name.p, (unsigned)f->name.len, f);
    }
    f->partitions = MAX(f->partitions, info->partition + 1);
    if (uuid_is_zero(&info->topic_id))
        return;
    f->mixed = f->mixed || (!uuid_is_zero(&f->id) && !uuid_eq(&f->id, &info->topic_id));
    f->id = info->topic_id;
}

static enum error create(struct controller *controller, struct adoption *a, struct problem *problem)
{
    int count = 0;
    struct topic_spec *specs = arena_calloc(&a->arena, HASH_COUNT(a->topics), sizeof(*specs));
    struct topic_result *results = arena_calloc(&a->arena, HASH_COUNT(a->topics), sizeof(*results));
    ASSERT(specs != NULL && results != NULL);
    for (struct found *f = a->topics; f != NULL; f = f->hh.next) {
        if (f->mixed) {
            log_warn("server", "folders of one topic carry different topic ids, they are left alone topic=%.*s",
                     STR_ARG(f->name));
            continue;
        }
        specs[count++] = (struct topic_spec){.name = f->name, .id = f->id, .partitions = f->partitions, .replication_factor = 1};
    }
    if (count == 0)
        return OK;
    enum error error = controller_create_topics(controller, specs, count, false, NULL, &a->arena, results, problem);
    for (int i = 0; i < count && error == OK; i++) {
        char id[UUID_TEXT_SIZE];
        if (results[i].error == OK)
            log_info("server", "topic taken over from its folders topic=%.*s id=%s partitions=%d", STR_ARG(specs[i].name),
                     uuid_text(&results[i].id, id), results[i].partitions);
        else
            log_error("server", "topic cannot be taken over from its folders topic=%.*s error=%s: %.*s", STR_ARG(specs[i].name),
                      error_name(results[i].error), STR_ARG(results[i].message));
    }
    return error;
}

enum error adopt_folders(struct controller *controller, struct log_manager *logs, bool new_store, struct problem *problem)
{
    struct adoption a = {.image = image_cell_get(controller_images(controller))};
    enum error error = OK;
    arena_init(&a.arena, SIZE_MAX);
    log_manager_each(logs, look, &a);
    if (new_store)
        error = create(controller, &a, problem);
    else
        for (struct found *f = a.topics; f != NULL; f = f->hh.next)
            log_warn("server", "folders of a topic that the metadata don't know are left alone topic=%.*s partitions=%d",
                     STR_ARG(f->name), f->partitions);
    HASH_CLEAR(hh, a.topics);
    arena_fini(&a.arena);
    image_unref(a.image);
    return error;
}

/* ---- Leader epochs ---- */

struct raising {
    const struct image *image;
    bool all;
    struct epoch_raise *raises;
    int count, capacity;
};

/* Also of a partition whose log is not there: a crash may have taken one that was never flushed, and with it batches of the epoch that stands in the metadata, which somebody may
 * have read. What takes their offsets must not have their epoch. */
static void consider(struct raising *r, struct log_manager *logs, const struct image_topic *topic, int32_t index)
{
    const struct image_partition *partition = &topic->partitions[index];
    struct plog *log;
    int32_t latest = log_manager_get(logs, str_of(topic->name), index, &log) == OK ? plog_latest_epoch(log) : -1;
    if (!r->all && latest <= partition->leader_epoch)
        return;
    if (r->count == r->capacity) {
        r->capacity = MAX(r->capacity * 2, 64);
        r->raises = mem_realloc(r->raises, (size_t)r->capacity * sizeof(*r->raises));
    }
    r->raises[r->count++] =
        (struct epoch_raise){.topic = topic->name, .partition = index, .at_least = latest + (r->all ? 1 : 0), .always = r->all};
}

enum error adopt_leader_epochs(struct controller *controller, struct log_manager *logs, bool raise_all, struct problem *problem)
{
    struct raising r = {.image = image_cell_get(controller_images(controller)), .all = raise_all};
    for (int i = 0; i < r.image->topic_count; i++)
        for (int32_t k = 0; k < r.image->topics[i]->partition_count; k++)
            consider(&r, logs, r.image->topics[i], k);
    enum error error = OK;
    if (r.count > 0) {
        error = controller_raise_leader_epochs(controller, r.raises, r.count, NULL, problem);
        if (error == OK)
            log_info("server", "leader epochs raised partitions=%d reason=%s", r.count, raise_all ? "start" : "log");
    }
    mem_free(r.raises);
    image_unref(r.image);
    return error;
}

/* ---- Producer ids ---- */

static bool higher(void *arg, const struct producer_entry *entry)
{
    int64_t *highest = arg;
    *highest = MAX(*highest, entry->producer_id);
    return true;
}

static void highest_of(void *arg, const struct log_info *info)
{
    if (info->log != NULL)
        producer_state_each(plog_producers(info->log), higher, arg);
}

enum error adopt_producer_ids(struct controller *controller, struct log_manager *logs, struct problem *problem)
{
    int64_t highest = -1;
    log_manager_each(logs, highest_of, &highest);
    if (highest < controller_producer_id_floor(controller))
        return OK;
    enum error error = controller_producer_ids_raise_above(controller, highest, problem);
    if (error == OK)
        log_info("server", "producer ids raised above those in the logs highest=%" PRId64, highest);
    return error;
}
