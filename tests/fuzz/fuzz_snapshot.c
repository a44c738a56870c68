/* Producer snapshots: damaged ones are refused, and what is taken is written as it reads. Each input is tried as it is and with a CRC that fits. */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "os/file.h"
#include "storage/producer_state_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode_filled(const struct producer_entry *entries, int count, struct buf *out)
{
    struct producer_state *ps = producer_state_create(fs_system(), ".", INT64_MAX);
    producer_state_fill(ps, entries, count, 0);
    ASSERT(producer_state_count(ps) <= count && producer_state_open_count(ps) <= producer_state_count(ps));
    int64_t undecided = producer_state_first_undecided_offset(ps);
    ASSERT(undecided >= -1 && producer_state_first_unstable_offset(ps) == undecided);
    producer_state_encode(ps, out);
    producer_state_destroy(ps);
}

static void try_bytes(struct bytes in)
{
    struct producer_entry *first, *second;
    int first_count, second_count;
    struct buf once = {0}, twice = {0};
    struct problem problem = {0};
    if (producer_snapshot_decode(in, &first, &first_count, &problem) != OK) {
        ASSERT(problem.message[0] != '\0');
        return;
    }
    encode_filled(first, first_count, &once);
    ASSERT(producer_snapshot_decode(buf_bytes(&once), &second, &second_count, NULL) == OK);
    encode_filled(second, second_count, &twice);
    ASSERT(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    mem_free(first);
    mem_free(second);
    buf_fini(&once);
    buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf copy = {0};
    try_bytes((struct bytes){data, (int64_t)size});
    if (size >= 10) {
        buf_append(&copy, data, size);
        put_u32(copy.data + 2, crc32c(0, copy.data + 6, size - 6));
        try_bytes(buf_bytes(&copy));
    }
    buf_fini(&copy);
    return 0;
}
