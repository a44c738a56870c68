/* Producer ids (Kafka: ProducerIdControlManager, ProducerIdsBlock). The entry producer-ids holds the first id that no block
 * was given. A block that was not used up when the process ended is lost: ids are never handed out twice. */
#include "base/assert.h"
#include "meta/controller_internal.h"

static void set_floor_locked(struct controller *c)
{
    ASSERT(mutex_held(&c->ids_mutex));
    atomic_store_explicit(&c->id_floor, c->id_next < c->id_end ? c->id_next : c->id_unallotted, memory_order_release);
}

enum error controller_load_producer_ids(struct controller *c, struct problem *problem)
{
    json_t *value;
    int64_t next = 0;
    enum error error = meta_store_get(c->store, KEY_PRODUCER_IDS, &value, NULL);
    if (error == OK) {
        json_t *number = json_object_get(value, "nextProducerId");
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            error = problem_set(problem, ERR_CORRUPT, "The metadata entry " KEY_PRODUCER_IDS " cannot be understood.");
        else
            next = json_integer_value(number);
        json_decref(value);
    } else if (error == ERR_NOT_FOUND) {
        error = OK;
    } else {
        problem_set(problem, error, "The metadata entry " KEY_PRODUCER_IDS " cannot be read.");
    }
    if (error != OK)
        return error;
    c->id_unallotted = next;
    atomic_init(&c->id_floor, next);
    return OK;
}

static bool take_next(struct controller *c, int64_t *ret_producer_id)
{
    mutex_lock(&c->ids_mutex);
    bool left = c->id_next < c->id_end;
    if (left) {
        *ret_producer_id = c->id_next++;
        set_floor_locked(c);
    }
    mutex_unlock(&c->ids_mutex);
    return left;
}

bool controller_next_producer_id(struct controller *c, int64_t *ret_producer_id)
{
    return take_next(c, ret_producer_id);
}

/* Writes the first unallotted id; then [block, block_end) is ours. Under the controller's mutex, so nobody else moves it. */
static enum error move_unallotted(struct controller *c, int64_t unallotted, int64_t block, int64_t block_end,
                                  struct problem *problem)
{
    ASSERT(mutex_held(&c->mutex));
    struct meta_txn txn = {0};
    meta_txn_put(&txn, KEY_PRODUCER_IDS, json_pack("{s:I}", "nextProducerId", (json_int_t)unallotted));
    enum error error = meta_store_commit(c->store, &txn, NULL, problem);
    meta_txn_fini(&txn);
    if (error != OK)
        return error;
    mutex_lock(&c->ids_mutex);
    c->id_unallotted = unallotted;
    c->id_next = block;
    c->id_end = block_end;
    set_floor_locked(c);
    mutex_unlock(&c->ids_mutex);
    return OK;
}

enum error controller_allot_producer_id(struct controller *c, int64_t *ret_producer_id, struct problem *problem)
{
    enum error error = OK;
    if (take_next(c, ret_producer_id))
        return OK;
    mutex_lock(&c->mutex);
    while (error == OK && !take_next(c, ret_producer_id)) { /* another thread may use up a whole block in between */
        int64_t block = c->id_unallotted;
        if (block > INT64_MAX - PRODUCER_ID_BLOCK)
            error = problem_set(problem, UNKNOWN_SERVER_ERROR, "All producer ids are used up.");
        else
            error = move_unallotted(c, block + PRODUCER_ID_BLOCK, block, block + PRODUCER_ID_BLOCK, problem);
    }
    mutex_unlock(&c->mutex);
    return error;
}

int64_t controller_producer_id_floor(struct controller *c)
{
    return atomic_load_explicit(&c->id_floor, memory_order_acquire);
}

enum error controller_producer_ids_raise_above(struct controller *c, int64_t producer_id, struct problem *problem)
{
    if (controller_producer_id_floor(c) > producer_id)
        return OK;
    if (producer_id > PRODUCER_ID_RAISE_MAX)
        return problem_set(problem, ERR_INVALID, "No producer id is left above %lld.", (long long)producer_id);
    mutex_lock(&c->mutex);
    enum error error = OK;
    if (controller_producer_id_floor(c) <= producer_id) /* our block may hold it: what is left of it is given up */
        error = move_unallotted(c, MAX(producer_id, c->id_unallotted - 1) + 1 + PRODUCER_ID_RAISE_STEP, 0, 0, problem);
    mutex_unlock(&c->mutex);
    return error;
}
