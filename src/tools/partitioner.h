/* Which partition a keyed record belongs to, as Kafka's own clients decide it (class BuiltInPartitioner, murmur2): records that kagami
 * writes lie beside those of the applications. Any thread. */
#ifndef KAGAMI_TOOLS_PARTITIONER_H
#define KAGAMI_TOOLS_PARTITIONER_H

#include <stdint.h>

#include "base/str.h"

uint32_t murmur2(struct bytes data);
int32_t partition_for_key(struct bytes key, int32_t partitions);

#endif
