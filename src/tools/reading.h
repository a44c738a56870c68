/* Reading a partition by raw ListOffsets and Fetch calls to its leader, without a group. One thread. */
#ifndef KAGAMI_TOOLS_READING_H
#define KAGAMI_TOOLS_READING_H

#include "client/client.h"
#include "codec/record_batch.h"
#include "proto/messages.h"

#define TIMESTAMP_LATEST (-1)
#define TIMESTAMP_EARLIEST (-2)

enum isolation { READ_UNCOMMITTED = 0, READ_COMMITTED = 1 };

/* The last version of Fetch and Produce that speaks of topics by name (KIP-516). */
#define FETCH_BY_NAME 12
#define PRODUCE_BY_NAME 12

/* One offset per partition of the topic (metadata of client), by timestamp (TIMESTAMP_..: LATEST is the high watermark, with
 * READ_COMMITTED the last stable offset). ret_offsets has partitions_n entries and is always written: -1 where there is no answer,
 * and where no record is as new. The error is the first that a partition had. */
MUST_CHECK enum error read_offsets(struct client_sync *client, const struct client_topic *topic, int64_t timestamp,
                                   enum isolation isolation, int64_t timeout_ms, int64_t *ret_offsets, struct problem *problem);

/* Whether metadata must be read again before the next try. */
bool is_leader_error(int16_t code);

/* ---- The batches of one partition, one after the other ---- */

struct batch_source {
    struct client_sync *client;
    const char *topic;
    int32_t partition, leader; /* leader: a broker's id, from the metadata */
    int64_t timeout_ms;
    int64_t position;       /* next offset to ask for */
    int64_t high_watermark; /* of the last answer; -1 before */
    int64_t log_start_offset;
    struct client_response *response;
    struct batch_iter it; /* over the response's records */
    int32_t max_bytes;    /* per fetch */
};

void batch_source_init(struct batch_source *s, struct client_sync *client, const char *topic, int32_t partition, int32_t leader,
                       int64_t position, int64_t timeout_ms);
void batch_source_fini(struct batch_source *s);
/* The next whole batch that reaches the position, headers checked and valid until the next call. ERR_NOT_FOUND: the position is at
 * `end` or at the high watermark, or nothing more comes. CORRUPT_MESSAGE, codes of the answer, errors of the client: the problem
 * says what. */
MUST_CHECK enum error batch_source_next(struct batch_source *s, int64_t end, const uint8_t **ret_batch, struct problem *problem);

#endif
