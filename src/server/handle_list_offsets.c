/* ListOffsets and OffsetForLeaderEpoch. Looking for a time reads segments, so such requests run on a helper. */
#include "base/assert.h"
#include "base/limits.h"
#include "repl/partitions.h"
#include "server/handlers.h"
#include "server/named.h"
#include "server/server.h"

/* Version from which a special timestamp may be asked (Kafka: ReplicaManager.timestampMinSupportedVersion); INT16_MAX: never. */
static int16_t first_version_of(int64_t timestamp)
{
    switch (timestamp) {
    case LIST_LATEST:
    case LIST_EARLIEST:
        return 1;
    case LIST_MAX_TIMESTAMP:
        return 7;
    case LIST_EARLIEST_LOCAL:
        return 8;
    case LIST_LATEST_TIERED:
        return 9;
    case LIST_EARLIEST_PENDING_UPLOAD:
        return 11;
    default:
        return INT16_MAX;
    }
}

/* Marks in *ret_twice, which runs over all partitions of the request in order. */
static void find_twice(struct request *r, const struct list_offsets_request *request, bool **ret_twice)
{
    size_t count = 0, n = 0;
    for (int32_t t = 0; t < request->topics_n; t++)
        count += (size_t)MAX(request->topics[t].partitions_n, 0);
    bool *twice = request_calloc(r, count, sizeof(*twice));
    struct named *named = request_calloc(r, count, sizeof(*named));
    for (int32_t t = 0; t < request->topics_n; t++)
        for (int32_t i = 0; i < request->topics[t].partitions_n; i++, n++)
            named[n] = (struct named){request->topics[t].name, request->topics[t].partitions[i].partition_index, &twice[n]};
    named_mark_twice(named, count);
    *ret_twice = twice;
}

static enum error list_one(struct request *r, struct str topic, const struct list_offsets_request_topics_partitions *asked,
                           struct plog_time_offset *ret_offset)
{
    const struct list_offsets_request *request = r->body;
    if (asked->timestamp < 0 && first_version_of(asked->timestamp) > r->version)
        return UNSUPPORTED_VERSION;
    enum error error = OK;
    struct partition *p = partitions_find(r->server->partitions, topic, asked->partition_index, &error);
    if (p == NULL)
        return error;
    error = partition_list_offset(p, asked->timestamp, request->isolation_level == 1, asked->current_leader_epoch, ret_offset);
    partition_unref(p);
    return error;
}

static void list_work(struct request *r)
{
    const struct list_offsets_request *request = r->body;
    struct list_offsets_response *response = r->state;
    bool *twice;
    size_t n = 0;
    find_twice(r, request, &twice);
    response->topics_n = MAX(request->topics_n, 0);
    response->topics = list_offsets_response_topics_new(&r->arena, response->topics_n);
    for (int32_t t = 0; t < response->topics_n; t++) {
        struct list_offsets_response_topics *topic = &response->topics[t];
        topic->name = request->topics[t].name;
        topic->partitions_n = MAX(request->topics[t].partitions_n, 0);
        topic->partitions = list_offsets_response_topics_partitions_new(&r->arena, topic->partitions_n);
        for (int32_t i = 0; i < topic->partitions_n; i++, n++) {
            struct list_offsets_response_topics_partitions *out = &topic->partitions[i];
            struct plog_time_offset found = {-1, -1, -1};
            const struct list_offsets_request_topics_partitions *asked = &request->topics[t].partitions[i];
            out->partition_index = asked->partition_index;
            enum error error = twice[n] ? INVALID_REQUEST : list_one(r, topic->name, asked, &found);
            out->error_code = error_wire(error);
            out->timestamp = found.timestamp;
            out->offset = found.offset;
            if (r->version >= 4)
                out->leader_epoch = found.leader_epoch;
        }
    }
}

static void list_done(struct request *r)
{
    request_respond(r, r->state);
}

void handle_list_offsets(struct request *r)
{
    const struct list_offsets_request *request = r->body;
    bool blocks = false;
    int64_t count = 0;
    for (int32_t t = 0; t < request->topics_n; t++)
        count += MAX(request->topics[t].partitions_n, 0);
    if (count > LIMIT_REQUEST_PARTITIONS) {
        request_close(r, "the request names more partitions than a request may");
        return;
    }
    for (int32_t t = 0; t < request->topics_n; t++)
        for (int32_t i = 0; i < request->topics[t].partitions_n; i++) {
            int64_t timestamp = request->topics[t].partitions[i].timestamp;
            blocks = blocks || timestamp >= 0 || timestamp == LIST_MAX_TIMESTAMP;
        }
    r->state = request_alloc(r, sizeof(struct list_offsets_response));
    proto_init(&PROTO_LIST_OFFSETS_RESPONSE, r->state);
    if (blocks) {
        request_run(r, list_work, list_done);
        return;
    }
    list_work(r);
    list_done(r);
}

/* ---- OffsetForLeaderEpoch (KIP-101, KIP-320) ---- */

static void find_epoch_end(struct request *r, struct str topic,
                           const struct offset_for_leader_epoch_request_topics_partitions *asked,
                           struct offset_for_leader_epoch_response_topics_partitions *out)
{
    enum error error = OK;
    out->partition = asked->partition;
    struct partition *p = partitions_find(r->server->partitions, topic, asked->partition, &error);
    if (p != NULL)
        error =
            partition_offset_for_epoch(p, asked->current_leader_epoch, asked->leader_epoch, &out->leader_epoch, &out->end_offset);
    partition_unref(p);
    out->error_code = error_wire(error);
}

void handle_offset_for_leader_epoch(struct request *r)
{
    const struct offset_for_leader_epoch_request *request = r->body;
    struct offset_for_leader_epoch_response response;
    proto_init(&PROTO_OFFSET_FOR_LEADER_EPOCH_RESPONSE, &response);
    response.topics_n = MAX(request->topics_n, 0);
    response.topics = offset_for_leader_epoch_response_topics_new(&r->arena, response.topics_n);
    for (int32_t t = 0; t < response.topics_n; t++) {
        struct offset_for_leader_epoch_response_topics *topic = &response.topics[t];
        topic->topic = request->topics[t].topic;
        topic->partitions_n = MAX(request->topics[t].partitions_n, 0);
        topic->partitions = offset_for_leader_epoch_response_topics_partitions_new(&r->arena, topic->partitions_n);
        for (int32_t i = 0; i < topic->partitions_n; i++)
            find_epoch_end(r, topic->topic, &request->topics[t].partitions[i], &topic->partitions[i]);
    }
    request_respond(r, &response);
}
