/* The settings of a topic as its logs take them. */
#include <limits.h>

#include "base/assert.h"
#include "meta/config_defs.h"
#include "storage/plog.h"

static bool list_contains(const char *list, const char *wanted)
{
    struct str rest = str_of(list), item;
    while (str_split(&rest, ',', &item)) {
        if (str_is(str_trim(item), wanted))
            return true;
    }
    return false;
}

/* compression.type, and the level of that codec. */
static void set_compression(const struct image *image, const struct image_topic *topic, struct validate_config *v)
{
    static const struct {
        const char *type;
        int codec;
        const char *level; /* NULL: it has none */
    } codecs[] = {
        {"producer", VALIDATE_COMPRESSION_PRODUCER, NULL},
        {"uncompressed", 0, NULL},
        {"gzip", 1, "compression.gzip.level"},
        {"snappy", 2, NULL},
        {"lz4", 3, "compression.lz4.level"},
        {"zstd", 4, "compression.zstd.level"},
    };
    struct str type = str_trim(str_of(config_topic_string(image, topic, "compression.type")));
    for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
        if (!str_is(type, codecs[i].type))
            continue;
        v->compression = codecs[i].codec;
        v->compression_level = codecs[i].level != NULL ? (int)config_topic_long(image, topic, codecs[i].level) : INT_MIN;
        return;
    }
    UNREACHABLE();
}

void config_topic_log(const struct image *image, const struct image_topic *topic, struct plog_config *ret_config)
{
    const char *policy = config_topic_string(image, topic, "cleanup.policy");
    struct plog_config c = {
        .segment_bytes = config_topic_long(image, topic, "segment.bytes"),
        .segment_ms = config_topic_long(image, topic, "segment.ms"),
        .segment_index_bytes = config_topic_long(image, topic, "segment.index.bytes"),
        .index_interval_bytes = config_topic_long(image, topic, "index.interval.bytes"),
        .retention_ms = config_topic_long(image, topic, "retention.ms"),
        .retention_bytes = config_topic_long(image, topic, "retention.bytes"),
        .cleanup_delete = list_contains(policy, "delete"),
        .cleanup_compact = list_contains(policy, "compact"),
        .file_delete_delay_ms = config_topic_long(image, topic, "file.delete.delay.ms"),
        .producer_id_expiration_ms = config_broker_long(image, "producer.id.expiration.ms"),
        .validate = validate_config_default(),
    };
    c.validate.max_message_bytes = (int32_t)config_topic_long(image, topic, "max.message.bytes");
    c.validate.segment_bytes = c.segment_bytes;
    c.validate.log_append_time =
        str_is(str_trim(str_of(config_topic_string(image, topic, "message.timestamp.type"))), "LogAppendTime");
    c.validate.timestamp_before_max_ms = config_topic_long(image, topic, "message.timestamp.before.max.ms");
    c.validate.timestamp_after_max_ms = config_topic_long(image, topic, "message.timestamp.after.max.ms");
    c.validate.compacted = c.cleanup_compact;
    set_compression(image, topic, &c.validate);
    if (c.retention_bytes < 0) /* Kafka takes any negative number for "no limit" */
        c.retention_bytes = -1;
    *ret_config = c;
}
