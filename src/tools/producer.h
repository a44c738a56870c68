/* Writes batches to a topic, one Produce call at a time: retries, and with a producer id and sequences (KIP-98) so that a repeated
 * attempt is stored once. One thread. */
#ifndef KAGAMI_TOOLS_PRODUCER_H
#define KAGAMI_TOOLS_PRODUCER_H

#include "codec/batch_builder.h"
#include "tools/tool.h"

/* A batch is sent before it grows beyond this: below max.message.bytes of any broker that was not changed. */
#define PRODUCER_BATCH_BYTES 900000

struct produced {
    struct batch_builder builder; /* records not sent yet */
    bool open;
    int32_t next_sequence;
    int64_t records, first_offset, last_offset; /* acknowledged */
};

struct producer {
    struct tool *tool;
    const char *topic;
    enum codec codec;
    int16_t acks;
    bool idempotent;
    int64_t producer_id;
    int16_t producer_epoch;
    int64_t batch_records; /* at most in one */
    struct produced *partitions;
    int32_t count;
    int32_t round; /* the partition that records without a key go to now */
    struct buf batch;
};

/* Reads the topic's metadata and, for idempotent, gets a producer id. False: an error has been printed. */
bool producer_init(struct producer *p, struct tool *tool, const char *topic, enum codec codec, int16_t acks, bool idempotent,
                   int64_t batch_records);
void producer_fini(struct producer *p);
/* partition -1: by the key, or round and round. Sends when a batch is full. False: an error has been printed. */
bool producer_add(struct producer *p, int32_t partition, const struct batch_record *record);
bool producer_flush(struct producer *p);

#endif
