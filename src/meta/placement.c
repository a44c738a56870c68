/* Which brokers hold which partition (Kafka: StripedReplicaPlacer,
 * ReplicationControlManager.validateManualPartitionAssignment), with Kafka's messages. */
#include "base/assert.h"
#include "meta/controller_internal.h"

void placement_fini(struct placement *p)
{
    mem_free(p->replicas);
    *p = (struct placement){0};
}

enum error place_evenly(const struct image *image, int32_t first, int32_t partitions, int32_t factor,
                        struct placement *ret_placement, struct problem *problem)
{
    if (factor > image->broker_count)
        return problem_set(
            problem, INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d "
            "broker(s) are registered.",
            factor, factor, image->broker_count);
    struct placement p = {.partitions = partitions, .factor = factor};
    p.replicas = mem_calloc((size_t)partitions * (size_t)factor, sizeof(*p.replicas));
    for (int32_t i = 0; i < partitions; i++) {
        for (int32_t r = 0; r < factor; r++)
            p.replicas[i * factor + r] = image->brokers[((int64_t)first + i + r) % image->broker_count].id;
    }
    *ret_placement = p;
    return OK;
}

static enum error check_replicas(const struct image *image, const struct topic_assignment *a, struct problem *problem)
{
    if (a->broker_count <= 0)
        return problem_set(problem, INVALID_REPLICA_ASSIGNMENT,
                           "The manual partition assignment includes an empty replica list.");
    for (int32_t i = 0; i < a->broker_count; i++) {
        if (image_broker(image, a->broker_ids[i]) == NULL)
            return problem_set(problem, INVALID_REPLICA_ASSIGNMENT,
                               "The manual partition assignment includes broker %d, but no such broker is registered.",
                               a->broker_ids[i]);
        for (int32_t j = 0; j < i; j++) { /* i is below the number of brokers here */
            if (a->broker_ids[j] == a->broker_ids[i])
                return problem_set(problem, INVALID_REPLICA_ASSIGNMENT,
                                   "The manual partition assignment includes the broker %d more than once.", a->broker_ids[i]);
        }
    }
    return OK;
}

enum error place_as_told(const struct image *image, const struct topic_assignment *assignments, int32_t count, int32_t factor,
                         struct placement *ret_placement, struct problem *problem)
{
    ASSERT(count > 0);
    for (int32_t i = 0; i < count; i++) {
        enum error error = check_replicas(image, &assignments[i], problem);
        if (error != OK)
            return error;
        if (factor == 0)
            factor = assignments[0].broker_count;
        if (assignments[i].broker_count != factor)
            return problem_set(problem, INVALID_REPLICA_ASSIGNMENT,
                               "The manual partition assignment includes a partition with %d replica(s), but others have %d.",
                               assignments[i].broker_count, factor);
    }
    struct placement p = {.partitions = count, .factor = factor};
    p.replicas = mem_calloc((size_t)count * (size_t)factor, sizeof(*p.replicas));
    for (int32_t i = 0; i < count; i++)
        memcpy(&p.replicas[i * factor], assignments[i].broker_ids, (size_t)factor * sizeof(*p.replicas));
    *ret_placement = p;
    return OK;
}

void put_partitions(struct meta_txn *txn, const char *topic, int32_t first, const struct placement *placement)
{
    char key[META_KEY_MAX];
    for (int32_t i = 0; i < placement->partitions; i++) {
        int32_t *replicas = &placement->replicas[i * placement->factor];
        struct image_partition p = {
            .leader = replicas[0],
            .replicas = replicas,
            .replica_count = placement->factor,
            .isr = replicas,
            .isr_count = placement->factor,
        };
        meta_txn_put(txn, meta_key(key, KEY_PARTITIONS "%s/%d", topic, first + i), image_partition_json(&p));
    }
}
