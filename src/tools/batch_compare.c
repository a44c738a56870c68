#include "tools/batch_compare.h"

#include <string.h>

#include "base/assert.h"
#include "codec/record_batch.h"

static int64_t field(const uint8_t *batch, size_t index, const char **ret_name)
{
    const struct {
        const char *name;
        int64_t value;
    } fields[] = {
        {"baseOffset", batch_base_offset(batch)},
        {"lastOffsetDelta", batch_last_offset_delta(batch)},
        {"partitionLeaderEpoch", batch_leader_epoch(batch)},
        {"magic", batch_magic(batch)},
        {"attributes", batch_attributes(batch)},
        {"producerId", batch_producer_id(batch)},
        {"producerEpoch", batch_producer_epoch(batch)},
        {"baseSequence", batch_base_sequence(batch)},
        {"baseTimestamp", batch_base_timestamp(batch)},
        {"maxTimestamp", batch_max_timestamp(batch)},
        {"count", batch_count(batch)},
        {"size", batch_size_bytes(batch)},
        {"crc", batch_crc(batch)},
    };
    *ret_name = index < ARRAY_SIZE(fields) ? fields[index].name : NULL;
    return index < ARRAY_SIZE(fields) ? fields[index].value : 0;
}

bool batch_compare(const uint8_t *source, const uint8_t *destination, struct batch_difference *ret_difference)
{
    int64_t size = batch_size_bytes(source);
    if (size == batch_size_bytes(destination) && memcmp(source, destination, (size_t)size) == 0)
        return true;
    struct batch_difference d = {.offset = MIN(batch_base_offset(source), batch_base_offset(destination))};
    for (size_t i = 0;; i++) {
        d.source = field(source, i, &d.field);
        d.destination = field(destination, i, &d.field);
        if (d.field == NULL || d.source != d.destination)
            break;
    }
    if (d.field == NULL) { /* the headers are equal, and so are the sizes */
        int64_t at = BATCH_OVERHEAD;
        while (source[at] == destination[at])
            at++;
        d.field = "records";
        d.source = d.destination = at;
    }
    *ret_difference = d;
    return false;
}
