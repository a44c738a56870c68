/* DescribeTopicPartitions (KIP-966): topics in the order of their names, a page at a time. A page holds a limited number of
 * partitions; the cursor says where the next one starts (Kafka: DescribeTopicPartitionsRequestHandler). */
#include <stdlib.h>

#include "base/assert.h"
#include "meta/config_defs.h"
#include "meta/controller.h"
#include "server/handlers.h"
#include "server/server.h"

enum { ALL_TOPIC_OPERATIONS = 0xdf8 };

struct page {
    struct request *r;
    const struct image *image;
    struct describe_topic_partitions_response response;
    int32_t left; /* partitions that still fit */
    bool full;
};

static int by_name(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static void set_cursor(struct page *page, struct str topic, int32_t partition)
{
    page->response.next_cursor = describe_topic_partitions_response_next_cursor_new(&page->r->arena, 1);
    ASSERT(page->response.next_cursor != NULL);
    page->response.next_cursor->topic_name = topic;
    page->response.next_cursor->partition_index = partition;
    page->full = true;
}

static bool add_partitions(struct page *page, const struct image_topic *topic, int32_t first,
                           struct describe_topic_partitions_response_topics *out)
{
    int32_t count = MIN(MAX(topic->partition_count - first, 0), page->left);
    out->partitions = describe_topic_partitions_response_topics_partitions_new(&page->r->arena, count);
    if (out->partitions == NULL)
        return false;
    out->partitions_n = count;
    for (int32_t i = 0; i < count; i++) {
        const struct image_partition *p = &topic->partitions[first + i];
        out->partitions[i] = (struct describe_topic_partitions_response_topics_partitions){
            .error_code = p->leader < 0 ? LEADER_NOT_AVAILABLE : OK,
            .partition_index = first + i,
            .leader_id = p->leader,
            .leader_epoch = p->leader_epoch,
            .replica_nodes = p->replicas,
            .replica_nodes_n = p->replica_count,
            .isr_nodes = p->isr,
            .isr_nodes_n = p->isr_count,
        };
    }
    page->left -= count;
    if (first + count < topic->partition_count)
        set_cursor(page, out->name, first + count);
    return true;
}

static bool add_topic(struct page *page, struct str name, int32_t first)
{
    struct describe_topic_partitions_response_topics *out = &page->response.topics[page->response.topics_n++];
    const struct image_topic *topic = image_topic(page->image, name);
    out->name = name;
    out->topic_authorized_operations = ALL_TOPIC_OPERATIONS;
    if (topic == NULL) {
        out->error_code = topic_name_check(name, NULL) == OK ? UNKNOWN_TOPIC_OR_PARTITION : INVALID_TOPIC_EXCEPTION;
        return true;
    }
    out->topic_id = topic->id;
    out->is_internal = topic->internal;
    return add_partitions(page, topic, first, out);
}

/* The names that are wanted, in order; NULL when there is no memory for them. */
static struct str *wanted_names(struct page *page, int32_t *ret_count)
{
    const struct describe_topic_partitions_request *request = page->r->body;
    bool all = request->topics_n <= 0;
    int32_t count = all ? page->image->topic_count : request->topics_n;
    struct str *names = arena_calloc(&page->r->arena, (size_t)count, sizeof(*names));
    if (names == NULL)
        return NULL;
    for (int32_t i = 0; i < count; i++)
        names[i] = all ? str_of(page->image->topics[i]->name) : request->topics[i].name;
    if (!all)
        qsort(names, (size_t)count, sizeof(*names), by_name);
    *ret_count = count;
    return names;
}

static bool fill(struct page *page)
{
    const struct describe_topic_partitions_request *request = page->r->body;
    struct str start = request->cursor != NULL ? request->cursor->topic_name : STR_NULL;
    int32_t count = 0;
    struct str *names = wanted_names(page, &count);
    if (names == NULL)
        return false;
    page->response.topics = describe_topic_partitions_response_topics_new(&page->r->arena, count);
    bool good = page->response.topics != NULL;
    for (int32_t i = 0; i < count && good && !page->full; i++) {
        if (str_cmp(names[i], start) < 0 || (i > 0 && str_eq(names[i], names[i - 1])))
            continue;
        if (page->left == 0)
            set_cursor(page, names[i], 0);
        else
            good = add_topic(page, names[i], str_eq(names[i], start) ? request->cursor->partition_index : 0);
    }
    return good;
}

void handle_describe_topic_partitions(struct request *r)
{
    const struct describe_topic_partitions_request *request = r->body;
    struct page page = {.r = r};
    if (request->cursor != NULL && request->cursor->partition_index < 0) { /* the answer has no place for an error of its own */
        request_close(r, "the cursor's partition is negative");
        return;
    }
    proto_init(&PROTO_DESCRIBE_TOPIC_PARTITIONS_RESPONSE, &page.response);
    page.image = image_cell_get(r->server->images);
    int32_t limit = (int32_t)config_broker_long(page.image, "max.request.partition.size.limit");
    page.left = MAX(MIN(request->response_partition_limit, limit), 1);
    if (fill(&page))
        request_respond(r, &page.response);
    else
        request_close(r, "the answer would be too large");
    image_unref(page.image);
}
