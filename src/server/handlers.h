/* The handlers, one per API: which function answers which request. One file per API family. A line here makes an API offered, with the versions that its
 * schema says are offered; whoever writes a handler adds its line. Without a line ApiVersions does not name the API, and a request for it closes the connection. */
#ifndef KAGAMI_SERVER_HANDLERS_H
#define KAGAMI_SERVER_HANDLERS_H

#include "server/request.h"

/* X(API key, function) */
/* clang-format off */
#define HANDLERS(X) \
    X(API_PRODUCE, handle_produce) \
    X(API_FETCH, handle_fetch) \
    X(API_LIST_OFFSETS, handle_list_offsets) \
    X(API_API_VERSIONS, handle_api_versions) \
    X(API_DELETE_RECORDS, handle_delete_records) \
    X(API_INIT_PRODUCER_ID, handle_init_producer_id) \
    X(API_OFFSET_FOR_LEADER_EPOCH, handle_offset_for_leader_epoch) \
    X(API_DESCRIBE_LOG_DIRS, handle_describe_log_dirs) \
    X(API_DESCRIBE_PRODUCERS, handle_describe_producers) \
    X(API_METADATA, handle_metadata) \
    X(API_CREATE_TOPICS, handle_create_topics) \
    X(API_DELETE_TOPICS, handle_delete_topics) \
    X(API_DESCRIBE_CONFIGS, handle_describe_configs) \
    X(API_ALTER_CONFIGS, handle_alter_configs) \
    X(API_CREATE_PARTITIONS, handle_create_partitions) \
    X(API_INCREMENTAL_ALTER_CONFIGS, handle_incremental_alter_configs) \
    X(API_DESCRIBE_CLUSTER, handle_describe_cluster) \
    X(API_LIST_CONFIG_RESOURCES, handle_list_config_resources) \
    X(API_DESCRIBE_TOPIC_PARTITIONS, handle_describe_topic_partitions) \
    X(API_CREATE_CLUSTER_MIRROR, handle_mirror) \
    X(API_START_MIRROR_TOPICS, handle_mirror) \
    X(API_STOP_MIRROR_TOPICS, handle_mirror) \
    X(API_LIST_CLUSTER_MIRRORS, handle_mirror) \
    X(API_DESCRIBE_CLUSTER_MIRRORS, handle_mirror) \
    X(API_PAUSE_MIRROR_TOPICS, handle_mirror) \
    X(API_RESUME_MIRROR_TOPICS, handle_mirror) \
    X(API_DELETE_CLUSTER_MIRROR, handle_mirror) \
    X(API_RECOVER_MIRROR_TOPICS, handle_mirror)
/* clang-format on */

#define X(key, function) void function(struct request *r);
HANDLERS(X)
#undef X

typedef void request_handler(struct request *r);
/* NULL when there is none. */
request_handler *handler_find(int16_t api_key);

#endif
