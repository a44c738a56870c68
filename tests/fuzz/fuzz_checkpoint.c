/* The text files of a log directory: whatever is read can be asked, damaged ones are refused with a problem. Byte 0 tells which file. */
#include <string.h>

#include "base/assert.h"
#include "storage/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum error try_offsets(struct str text, struct problem *problem)
{
    struct offset_checkpoint c;
    struct buf copy = {0};
    buf_append_str(&copy, text);
    enum error error = offset_checkpoint_parse(&copy, "file", &c, problem);
    ASSERT(copy.data == NULL);
    if (error != OK)
        return error;
    for (size_t i = 0; i < c.count; i++) {
        const int64_t *found = offset_checkpoint_get(&c, c.entries[i].topic, c.entries[i].partition);
        ASSERT(found == &c.entries[i].offset && *found >= 0);
    }
    offset_checkpoint_fini(&c);
    return OK;
}

static enum error try_epochs(struct str text, struct problem *problem)
{
    struct epoch_entry *entries;
    size_t count;
    enum error error = epoch_checkpoint_parse(text, "file", &entries, &count, problem);
    if (error != OK)
        return error;
    for (size_t i = 1; i < count; i++)
        ASSERT(entries[i].epoch > entries[i - 1].epoch && entries[i].start_offset >= entries[i - 1].start_offset);
    mem_free(entries);
    return OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem = {0};
    struct uuid id;
    struct meta_properties meta;
    enum error error;
    if (size < 1)
        return 0;
    struct str text = {(const char *)data + 1, (int32_t)size - 1};
    switch (data[0] % 4) {
    case 0:
        error = try_offsets(text, &problem);
        break;
    case 1:
        error = try_epochs(text, &problem);
        break;
    case 2:
        error = partition_metadata_parse(text, "file", &id, &problem);
        break;
    default:
        error = meta_properties_parse(text, "file", &meta, &problem);
        ASSERT(error != OK || strlen(meta.cluster_id) > 0);
        break;
    }
    ASSERT((error == OK) == (problem.message[0] == '\0'));
    return 0;
}
