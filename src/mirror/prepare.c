/* PREPARING: the log here is made to begin where the source's does, the leader epoch raised above the source's, and the
 * partition goes to MIRRORING. Every step may be repeated: until MIRRORING is stored nothing is copied, so the log is empty. */
#include <stdio.h>
#include <string.h>

#include "base/logger.h"
#include "mirror/link.h"

void link_asking_free(struct asking *a)
{
    LIST_REMOVE(a, link);
    partition_list_fini(&a->list);
    arena_fini(&a->arena);
    mem_free(a);
}

struct preparing {
    struct mirrors *m;
    struct mirror *mirror; /* referenced */
    struct partition_list list;
    int64_t *starts;
    int32_t *epochs;
};

/* The log is made to begin where the source's does. */
static bool prepare_log(struct mirror_partition *mp, struct partition *p, int64_t start)
{
    struct partition_state state;
    struct problem problem;
    partition_get_state(p, &state);
    enum error error = state.error;
    if (error == OK && state.end_offset != state.log_start_offset) {
        problem_set(&problem, INVALID_CLUSTER_MIRROR_STATE, "Topic %s partition %d holds data here, offsets %lld to %lld",
                    mp->topic, mp->index, (long long)state.log_start_offset, (long long)state.end_offset);
        problem_hint(&problem, "Stop it, then start it with --discard-local-data");
        mirror_partition_fail_now(mp, &problem, false);
        return false;
    }
    mutex_lock(&mp->mirror->all->change_mutex); /* a stop that begins meanwhile must find the log at rest */
    if (!mirror_partition_is(mp, MIRROR_PREPARING)) {
        mutex_unlock(&mp->mirror->all->change_mutex);
        return false;
    }
    if (error == OK && state.end_offset != start)
        error = partition_restart_at(p, start);
    mutex_unlock(&mp->mirror->all->change_mutex);
    if (error != OK) {
        problem_set(&problem, error, "The log of %s-%d cannot be made to begin at offset %lld: %s", mp->topic, mp->index,
                    (long long)start, error_message(error));
        mirror_partition_fail_now(mp, &problem, error == ERR_NO_SPACE);
    }
    return error == OK;
}

static void prepare_work(void *arg)
{
    struct preparing *w = arg;
    struct mirrors *m = w->m;
    struct partition_list ready = {0};
    struct epoch_raise *raises = mem_calloc((size_t)w->list.count + 1, sizeof(*raises));
    struct partition **partitions = mem_calloc((size_t)w->list.count + 1, sizeof(struct partition *));
    struct change c;
    struct problem problem;
    for (int i = 0; i < w->list.count; i++) {
        struct mirror_partition *mp = w->list.items[i];
        mutex_lock(&m->mutex);
        struct partition *p = mp->partition != NULL && mp->record.state == MIRROR_PREPARING ? partition_ref(mp->partition) : NULL;
        mutex_unlock(&m->mutex);
        if (p != NULL && prepare_log(mp, p, w->starts[i])) {
            raises[ready.count] = (struct epoch_raise){
                .topic = mp->topic, .partition = mp->index, .at_least = MIN(w->epochs[i], INT32_MAX / 2) + MIRROR_EPOCH_MARGIN};
            partitions[ready.count] = partition_ref(p);
            partition_list_add(&ready, mp);
        }
        partition_unref(p);
    }
    change_begin(&c, m);
    for (int i = 0; i < ready.count; i++) {
        mutex_lock(&m->mutex);
        bool still = ready.items[i]->record.state == MIRROR_PREPARING;
        mutex_unlock(&m->mutex);
        if (still)
            change_edit(&c, ready.items[i])->state = MIRROR_MIRRORING;
    }
    change_seal(&c);
    enum error error =
        c.count > 0 ? controller_raise_leader_epochs(m->params.controller, raises, ready.count, &c.txn, &problem) : OK;
    if (error == OK)
        change_apply(&c);
    change_end(&c);
    for (int i = 0; i < ready.count; i++) {
        enum error each = error;
        if (each == OK && raises[i].leader_epoch >= 0)
            each = partition_set_leader_epoch(partitions[i], raises[i].leader_epoch);
        if (each != OK && each != ERR_STATE) { /* ERR_STATE: it stands higher already */
            problem_set(&problem, each, "The start of %s-%d could not be stored: %s", ready.items[i]->topic,
                        ready.items[i]->index, error_message(each));
            mirror_partition_fail_now(ready.items[i], &problem, true);
        }
        partition_unref(partitions[i]);
    }
    mirrors_pause_wanted(m, &ready);
    partition_list_fini(&ready);
    mem_free(partitions);
    mem_free(raises);
    partition_list_fini(&w->list);
    mem_free(w->starts);
    mem_free(w->epochs);
    link_kick(w->mirror->link);
    mirror_unref(w->mirror);
    mem_free(w);
}

static const struct list_offsets_response_topics_partitions *find_answer(const struct list_offsets_response *r,
                                                                         const struct mirror_partition *mp)
{
    for (int32_t t = 0; t < r->topics_n; t++) {
        if (!str_is(r->topics[t].name, mp->topic))
            continue;
        for (int32_t p = 0; p < r->topics[t].partitions_n; p++) {
            if (r->topics[t].partitions[p].partition_index == mp->index)
                return &r->topics[t].partitions[p];
        }
    }
    return NULL;
}

static void starts_known(void *arg, struct client_response *response)
{
    struct asking *a = arg;
    struct link *link = a->owner;
    struct preparing *w = mem_calloc(1, sizeof(*w));
    w->starts = mem_calloc((size_t)a->list.count + 1, sizeof(*w->starts));
    w->epochs = mem_calloc((size_t)a->list.count + 1, sizeof(*w->epochs));
    for (int i = 0; i < a->list.count; i++) {
        struct mirror_partition *mp = a->list.items[i];
        struct problem why = response->problem;
        const struct list_offsets_response_topics_partitions *answer =
            response->error == OK ? find_answer(response->body, mp) : NULL;
        mp->preparing = false;
        if (answer != NULL && answer->error_code == OK && answer->offset >= 0) {
            w->starts[w->list.count] = answer->offset;
            w->epochs[w->list.count] = MAX(mp->leader_epoch, answer->leader_epoch);
            partition_list_add(&w->list, mp);
            continue;
        }
        if (response->error == OK && answer != NULL && answer->error_code != OK)
            problem_set(&why, (enum error)answer->error_code, "The source did not say where %s-%d begins: %s", mp->topic,
                        mp->index, error_name(answer->error_code));
        else if (response->error == OK)
            problem_set(&why, ERR_MALFORMED, "The source did not say where %s-%d begins: %s", mp->topic, mp->index,
                        answer != NULL ? "an offset below 0" : "no answer");
        mp->leader = -1;
        mirror_partition_note_trouble(mp, &why);
        link_back_off(link);
    }
    link_asking_free(a);
    if (w->list.count > 0) {
        for (int i = 0; i < w->list.count; i++)
            w->list.items[i]->preparing = true; /* until the state has changed */
        w->m = link->m;
        w->mirror = mirror_ref(link->mirror);
        mirrors_work(link->m, prepare_work, w);
    } else {
        mem_free(w->starts);
        mem_free(w->epochs);
        mem_free(w);
    }
    link_look(link);
}

/* One request to the leader of `first` for all that it leads. */
void link_ask_starts(struct link *link, const struct partition_list *list, int first)
{
    struct asking *a = mem_calloc(1, sizeof(*a));
    int32_t leader = list->items[first]->leader, topics = 0, used = 0;
    arena_init(&a->arena, SIZE_MAX);
    a->owner = link;
    LIST_INSERT_HEAD(&link->asking, a, link);
    for (int i = first; i < list->count; i++) {
        if (list->items[i]->leader == leader && !list->items[i]->preparing) {
            topics += a->list.count == 0 || strcmp(a->list.items[a->list.count - 1]->topic, list->items[i]->topic) != 0;
            list->items[i]->preparing = true;
            partition_list_add(&a->list, list->items[i]);
        }
    }
    proto_init(&PROTO_LIST_OFFSETS_REQUEST, &a->request);
    a->request.replica_id = -1;
    a->request.topics = list_offsets_request_topics_new(&a->arena, topics);
    a->request.topics_n = topics;
    for (int32_t t = 0; t < topics; t++) {
        int end = used;
        while (end < a->list.count && strcmp(a->list.items[end]->topic, a->list.items[used]->topic) == 0)
            end++;
        a->request.topics[t].name = str_of(a->list.items[used]->topic);
        a->request.topics[t].partitions = list_offsets_request_topics_partitions_new(&a->arena, end - used);
        a->request.topics[t].partitions_n = end - used;
        for (int i = used; i < end; i++) {
            a->request.topics[t].partitions[i - used].partition_index = a->list.items[i]->index;
            a->request.topics[t].partitions[i - used].timestamp = -2;
        }
        used = end;
    }
    client_cluster_call(link->cluster, leader, API_LIST_OFFSETS, 1, -1, &a->request, 0, starts_known, a);
}
