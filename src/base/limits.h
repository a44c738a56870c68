/* Limits on what comes from outside, each with the reason for its size. Checked before memory is taken. */
#ifndef KAGAMI_BASE_LIMITS_H
#define KAGAMI_BASE_LIMITS_H

/* Largest request frame: Kafka's default of socket.request.max.bytes. */
#define LIMIT_REQUEST_BYTES (100 * 1024 * 1024)
/* Partitions that one Produce, Fetch or ListOffsets request may name: a broker has fewer, and each costs some hundred bytes until it is answered. */
#define LIMIT_REQUEST_PARTITIONS 200000
/* Largest response frame that our own client takes: a fetch of one batch of any legal size, with room for the envelope. */
#define LIMIT_RESPONSE_BYTES (1024 * 1024 * 1024)
/* What decoding one request may take besides the frame: arrays of structs are larger than their wire form. */
#define LIMIT_DECODE_ARENA_BYTES (256 * 1024 * 1024)
/* One decompressed batch: what a record batch may hold at most, against decompression bombs. */
#define LIMIT_DECOMPRESSED_BYTES (256 * 1024 * 1024)
/* Longest string on the wire, in compact form too (Kafka's generated code refuses longer ones). */
#define LIMIT_WIRE_STRING 32767
/* Kafka's limit on topic names (the folder name is topic-partition and must fit in 255). */
#define LIMIT_TOPIC_NAME 249
/* Partitions of one topic that CreateTopics takes, against typing errors. */
#define LIMIT_PARTITIONS_PER_TOPIC 100000

#endif
