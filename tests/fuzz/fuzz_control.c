/* The first byte is the key's length, then key and value of a control record. What parses as a barrier is written anew and must parse to the
 * same. */
#include <string.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "codec/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_again(const struct control_record *control)
{
    struct buf out = {0};
    struct control_record again;

    if (control->source_cluster_id.len > LIMIT_CLUSTER_ID || control->writer_cluster_id.len > LIMIT_CLUSTER_ID)
        return;
    control_build_mirror_pid_reset(&out, control->source_cluster_id, control->writer_cluster_id, control->scope, 1, 2, 3);
    ASSERT(control_parse(out.data, &again) == OK);
    ASSERT(str_eq(again.source_cluster_id, control->source_cluster_id) && again.scope == control->scope);
    ASSERT(str_eq(again.writer_cluster_id, control->writer_cluster_id));
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_record record = {.timestamp = 1};
    struct batch_builder builder;
    struct control_record control;
    struct buf out = {0};

    if (size == 0)
        return 0;
    params.control = true;
    record.key = (struct bytes){data + 1, (int64_t)MIN(size - 1, data[0])};
    record.value = (struct bytes){record.key.p + record.key.len, (int64_t)size - 1 - record.key.len};
    batch_builder_init(&builder, &params);
    ASSERT(batch_builder_add(&builder, &record) == OK && batch_builder_finish(&builder, &out) == OK);
    if (control_parse(out.data, &control) == OK && control.type == CONTROL_MIRROR_PID_RESET)
        same_again(&control);
    batch_builder_fini(&builder);
    buf_fini(&out);
    return 0;
}
