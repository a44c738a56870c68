/* DeleteRecords: moves the log start. Refused for topics that mirror, as every other change of them (spec section 4). */
#include "base/assert.h"
#include "base/logger.h"
#include "meta/controller.h"
#include "repl/partitions.h"
#include "server/handlers.h"
#include "server/server.h"

static enum error delete_one(struct request *r, struct str topic, int32_t index, int64_t offset, int64_t *ret_log_start)
{
    enum error error = OK;
    struct problem problem = {0};
    struct partition *p = partitions_find(r->server->partitions, topic, index, &error);
    if (p == NULL)
        return error;
    if (str_is(topic, "__consumer_offsets") || str_is(topic, "__transaction_state"))
        error = INVALID_TOPIC_EXCEPTION;
    if (error == OK)
        error = controller_topic_change_allowed(r->server->controller, topic, TOPIC_DELETE_RECORDS, &problem);
    if (error == OK)
        error = partition_delete_records(p, offset, ret_log_start, &problem);
    partition_unref(p);
    if (error != OK && problem.message[0] != '\0') { /* the protocol has no room for it */
        char line[1000];
        log_info("server", "records are not deleted: %s", problem_line(&problem, line, sizeof(line)));
    }
    return error;
}

static void work(struct request *r)
{
    const struct delete_records_request *request = r->body;
    struct delete_records_response *response = r->state;
    response->topics_n = MAX(request->topics_n, 0);
    response->topics = delete_records_response_topics_new(&r->arena, response->topics_n);
    for (int32_t t = 0; t < response->topics_n; t++) {
        struct delete_records_response_topics *topic = &response->topics[t];
        topic->name = request->topics[t].name;
        topic->partitions_n = MAX(request->topics[t].partitions_n, 0);
        topic->partitions = delete_records_response_topics_partitions_new(&r->arena, topic->partitions_n);
        for (int32_t i = 0; i < topic->partitions_n; i++) {
            struct delete_records_response_topics_partitions *out = &topic->partitions[i];
            out->partition_index = request->topics[t].partitions[i].partition_index;
            out->low_watermark = -1;
            out->error_code = error_wire(
                delete_one(r, topic->name, out->partition_index, request->topics[t].partitions[i].offset, &out->low_watermark));
        }
    }
}

static void done(struct request *r)
{
    request_respond(r, r->state);
}

void handle_delete_records(struct request *r)
{
    r->state = request_alloc(r, sizeof(struct delete_records_response));
    proto_init(&PROTO_DELETE_RECORDS_RESPONSE, r->state);
    request_run(r, work, done);
}
