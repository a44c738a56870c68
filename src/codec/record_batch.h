/* Record batch v2 (magic 2) in memory: read, checked and rewritten in its raw bytes (Kafka: DefaultRecordBatch, DefaultRecord).
 *
 *   pos  type   field
 *     0  int64  BaseOffset             a broker assigns it: outside the CRC
 *     8  int32  BatchLength            bytes behind this field: the batch is 12 longer
 *    12  int32  PartitionLeaderEpoch   a broker assigns it: outside the CRC
 *    16  int8   Magic                  2
 *    17  uint32 CRC                    CRC-32C of everything from Attributes to the end
 *    21  int16  Attributes             bits 0-2 codec, 3 timestamp type (1 = LogAppendTime), 4 transactional, 5 control,
 *                                      6 BaseTimestamp is a delete horizon
 *    23  int32  LastOffsetDelta        last offset - BaseOffset; compaction keeps it though the last record may be gone
 *    27  int64  BaseTimestamp          milliseconds; records hold deltas to it
 *    35  int64  MaxTimestamp           with LogAppendTime: the timestamp of every record
 *    43  int64  ProducerId             -1: none
 *    51  int16  ProducerEpoch
 *    53  int32  BaseSequence           -1: none
 *    57  int32  RecordsCount           0 is legal: compaction leaves empty batches behind for their producer's sake
 *    61  records, compressed as one by the codec of Attributes
 *
 * A record: varint length of what follows; int8 attributes (0); varlong timestamp delta; varint offset delta; varint key length
 * (-1 null), key; varint value length (-1 null), value; varint header count; headers {varint key length, key, varint value
 * length (-1 null), value}.
 *
 * Pure functions on memory that the caller owns; any thread; nothing is allocated here but in batch_records() and
 * batch_recompress(). The accessors believe that BATCH_OVERHEAD bytes are there: use them behind batch_check_header(),
 * batch_iter_next() or batch_scan() only. */
#ifndef KAGAMI_CODEC_RECORD_BATCH_H
#define KAGAMI_CODEC_RECORD_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/str.h"
#include "codec/compress.h"

enum {
    BATCH_POS_BASE_OFFSET = 0,
    BATCH_POS_LENGTH = 8,
    BATCH_POS_LEADER_EPOCH = 12,
    BATCH_POS_MAGIC = 16,
    BATCH_POS_CRC = 17,
    BATCH_POS_ATTRIBUTES = 21,
    BATCH_POS_LAST_OFFSET_DELTA = 23,
    BATCH_POS_BASE_TIMESTAMP = 27,
    BATCH_POS_MAX_TIMESTAMP = 35,
    BATCH_POS_PRODUCER_ID = 43,
    BATCH_POS_PRODUCER_EPOCH = 51,
    BATCH_POS_BASE_SEQUENCE = 53,
    BATCH_POS_COUNT = 57,
    BATCH_OVERHEAD = 61,     /* bytes before the records */
    BATCH_LOG_OVERHEAD = 12, /* BaseOffset and BatchLength, common to all formats */
    BATCH_MAGIC_END = 17,    /* so many bytes tell size and format */
};

#define BATCH_MAGIC 2
#define NO_PRODUCER_ID INT64_C(-1)
#define NO_PRODUCER_EPOCH ((int16_t)-1)
#define NO_SEQUENCE (-1)
#define NO_LEADER_EPOCH (-1)
#define NO_TIMESTAMP INT64_C(-1)

enum {
    BATCH_CODEC_MASK = 0x07,
    BATCH_LOG_APPEND_TIME = 0x08,
    BATCH_TRANSACTIONAL = 0x10,
    BATCH_CONTROL = 0x20,
    BATCH_DELETE_HORIZON = 0x40,
};

/* ---- Fields ---- */

static inline int64_t batch_base_offset(const uint8_t *b)
{
    return get_i64(b + BATCH_POS_BASE_OFFSET);
}
static inline int32_t batch_length(const uint8_t *b)
{
    return get_i32(b + BATCH_POS_LENGTH);
}
static inline int64_t batch_size_bytes(const uint8_t *b)
{
    return (int64_t)batch_length(b) + BATCH_LOG_OVERHEAD;
}
static inline int32_t batch_leader_epoch(const uint8_t *b)
{
    return get_i32(b + BATCH_POS_LEADER_EPOCH);
}
static inline int8_t batch_magic(const uint8_t *b)
{
    return (int8_t)b[BATCH_POS_MAGIC];
}
static inline uint32_t batch_crc(const uint8_t *b)
{
    return get_u32(b + BATCH_POS_CRC);
}
static inline int16_t batch_attributes(const uint8_t *b)
{
    return get_i16(b + BATCH_POS_ATTRIBUTES);
}
/* 0 to 7; 5 to 7 are no codecs (codec_decompress refuses them). */
static inline int batch_codec(const uint8_t *b)
{
    return batch_attributes(b) & BATCH_CODEC_MASK;
}
static inline bool batch_is_log_append_time(const uint8_t *b)
{
    return (batch_attributes(b) & BATCH_LOG_APPEND_TIME) != 0;
}
static inline bool batch_is_transactional(const uint8_t *b)
{
    return (batch_attributes(b) & BATCH_TRANSACTIONAL) != 0;
}
static inline bool batch_is_control(const uint8_t *b)
{
    return (batch_attributes(b) & BATCH_CONTROL) != 0;
}
static inline bool batch_has_delete_horizon(const uint8_t *b)
{
    return (batch_attributes(b) & BATCH_DELETE_HORIZON) != 0;
}
static inline int32_t batch_last_offset_delta(const uint8_t *b)
{
    return get_i32(b + BATCH_POS_LAST_OFFSET_DELTA);
}
/* Wraps where the bytes are hostile (no undefined behaviour); batch_check_offsets() tells. */
static inline int64_t batch_last_offset(const uint8_t *b)
{
    return (int64_t)((uint64_t)batch_base_offset(b) + (uint64_t)(int64_t)batch_last_offset_delta(b));
}
static inline int64_t batch_next_offset(const uint8_t *b)
{
    return (int64_t)((uint64_t)batch_last_offset(b) + 1);
}
static inline int64_t batch_base_timestamp(const uint8_t *b)
{
    return get_i64(b + BATCH_POS_BASE_TIMESTAMP);
}
static inline int64_t batch_max_timestamp(const uint8_t *b)
{
    return get_i64(b + BATCH_POS_MAX_TIMESTAMP);
}
static inline int64_t batch_producer_id(const uint8_t *b)
{
    return get_i64(b + BATCH_POS_PRODUCER_ID);
}
/* As Kafka's hasProducerId: a negative id is none for a client (negated ones of a mirror are the storage's own matter). */
static inline bool batch_has_producer_id(const uint8_t *b)
{
    return batch_producer_id(b) > NO_PRODUCER_ID;
}
static inline int16_t batch_producer_epoch(const uint8_t *b)
{
    return get_i16(b + BATCH_POS_PRODUCER_EPOCH);
}
static inline int32_t batch_base_sequence(const uint8_t *b)
{
    return get_i32(b + BATCH_POS_BASE_SEQUENCE);
}
static inline int32_t batch_count(const uint8_t *b)
{
    return get_i32(b + BATCH_POS_COUNT);
}
/* The records as they are stored, compressed or not. */
static inline struct bytes batch_payload(const uint8_t *b)
{
    return (struct bytes){b + BATCH_OVERHEAD, batch_size_bytes(b) - BATCH_OVERHEAD};
}

/* ---- Sequences: they wrap from INT32_MAX to 0 (DefaultRecordBatch.incrementSequence, decrementSequence). sequence, n >= 0 ----
 */

static inline int32_t sequence_increment(int32_t sequence, int32_t n)
{
    return sequence > INT32_MAX - n ? n - (INT32_MAX - sequence) - 1 : sequence + n;
}
static inline int32_t sequence_decrement(int32_t sequence, int32_t n)
{
    return sequence < n ? INT32_MAX - (n - sequence) + 1 : sequence - n;
}
/* NO_SEQUENCE where the batch has none. Hostile negative numbers: as if NO_SEQUENCE. */
int32_t batch_last_sequence(const uint8_t *b);

/* ---- Changing a batch in place ---- */

/* Outside the CRC. */
static inline void batch_set_base_offset(uint8_t *b, int64_t offset)
{
    put_i64(b + BATCH_POS_BASE_OFFSET, offset);
}
/* Keeps the last offset delta: the batch's last record gets `offset` (Kafka: setLastOffset). */
static inline void batch_set_last_offset(uint8_t *b, int64_t offset)
{
    put_i64(b + BATCH_POS_BASE_OFFSET, offset - batch_last_offset_delta(b));
}
static inline void batch_set_leader_epoch(uint8_t *b, int32_t epoch)
{
    put_i32(b + BATCH_POS_LEADER_EPOCH, epoch);
}
/* Inside it: these compute the CRC anew over the whole batch, unless nothing changes. */
void batch_set_attributes(uint8_t *b, int16_t attributes);
/* Timestamp type and max timestamp together; the base timestamp stays (what Kafka's broker does for LogAppendTime, and for
 * CreateTime when the producer's maximum was wrong: setMaxTimestamp). */
void batch_set_max_timestamp(uint8_t *b, bool log_append_time, int64_t max_timestamp_ms);
/* For a mirror that maps producer ids. */
void batch_set_producer_id(uint8_t *b, int64_t producer_id);
/* Sets the CRC from the content; for those who change bytes by themselves. */
void batch_update_crc(uint8_t *b);

/* ---- Checking ---- */

/* Looks at the first bytes of what should be a batch; `have` of them are there (at least BATCH_MAGIC_END, asserted). *ret_size is
 * the size of the whole batch (it may be more than `have`). CORRUPT_MESSAGE: the length is below the format's least, the magic
 * unknown; UNSUPPORTED_FOR_MESSAGE_FORMAT: magic 0 or 1. */
MUST_CHECK enum error batch_check_header(const uint8_t *b, size_t have, int64_t *ret_size);
/* What a batch that already has its offsets must satisfy: base offset >= 0, last offset delta >= 0, last offset < INT64_MAX,
 * 0 <= count <= last offset delta + 1. CORRUPT_MESSAGE. Not for what producers send. */
MUST_CHECK enum error batch_check_offsets(const uint8_t *b);
/* All bytes of the batch must be there. */
bool batch_verify_crc(const uint8_t *b);

/* ---- A run of bytes with batches, as in a Fetch answer: the last one may be cut short ---- */

enum batch_found {
    BATCH_FOUND,
    BATCH_END,     /* all bytes are used up */
    BATCH_PARTIAL, /* pos .. len is the beginning of a batch (or too little to tell) */
    BATCH_BAD,     /* see error */
};

struct batch_iter {
    struct bytes run;
    int64_t pos;          /* of the next batch in run; stays in front of a partial or bad one */
    enum error error;     /* BATCH_BAD: as batch_check_header() */
    int64_t error_offset; /* BATCH_BAD: the base offset that stands there */
    int64_t partial_size; /* BATCH_PARTIAL: the size that the whole batch would have, 0 when too little is there */
};

static inline void batch_iter_init(struct batch_iter *it, struct bytes run)
{
    *it = (struct batch_iter){.run = run, .error_offset = -1};
}
/* Headers only: no CRC, no look at offsets. On FOUND *ret_batch points into the run with batch_size_bytes() bytes behind it. */
enum batch_found batch_iter_next(struct batch_iter *it, const uint8_t **ret_batch);

enum {
    BATCH_SCAN_CRC = 1,
    BATCH_SCAN_OFFSETS = 2 /* batch_check_offsets(), and base offsets rise above the last offset before them */
};

/* What a run holds up to its end, its partial batch or its first error: good_bytes of whole, checked batches. */
struct batch_scan {
    int64_t good_bytes;
    int32_t batches;
    enum batch_found end;     /* BATCH_END, BATCH_PARTIAL or BATCH_BAD */
    enum error error;         /* BATCH_BAD: CORRUPT_MESSAGE or UNSUPPORTED_FOR_MESSAGE_FORMAT; else OK */
    int64_t error_offset;     /* BATCH_BAD: base offset of the bad batch, which stands at good_bytes */
    const char *reason;       /* BATCH_BAD: what is wrong, static text for a problem ("CRC does not match"); else NULL */
    int64_t partial_size;     /* as in batch_iter */
    int64_t base_offset;      /* of the first good batch; -1 when there is none */
    int64_t last_offset;      /* of the last good batch; -1 */
    int64_t max_timestamp;    /* over all good batches; -1 */
    int64_t max_producer_id;  /* -1 */
    int32_t max_leader_epoch; /* -1 */
    int64_t records;          /* sum of the counts (hostile negative ones count as 0) */
};
void batch_scan(struct bytes run, int flags, struct batch_scan *ret_scan);

/* ---- Records ---- */

/* The records of a whole batch, decompressed: a view into the batch without compression, else into *scratch (which is cleared
 * first). ERR_TOO_LARGE, ERR_CORRUPT, ERR_UNSUPPORTED as codec_decompress(). */
MUST_CHECK enum error batch_records(const uint8_t *b, size_t limit_bytes, struct buf *scratch, struct bytes *ret_records);

struct record {
    int64_t offset;
    int64_t timestamp;       /* the batch's max timestamp with LogAppendTime */
    int64_t timestamp_delta; /* as stored */
    int32_t offset_delta;    /* as stored: may be anything in what a producer sent */
    int8_t attributes;
    struct bytes key;   /* p NULL: null */
    struct bytes value; /* p NULL: null */
    int32_t header_count;
    struct bytes headers; /* raw, checked; walk them with record_header_next() */
    int32_t size_bytes;   /* the record with its length field */
};

struct record_iter {
    const uint8_t *p, *end;
    int64_t base_offset, base_timestamp, max_timestamp;
    bool log_append_time;
    int32_t count, index; /* declared; handed out so far */
    enum error error;
};

/* batch: its header is used; records: as batch_records() gives them. Both stay in place while iterating. */
void record_iter_init(struct record_iter *it, const uint8_t *batch, struct bytes records);
/* false at the end and at the first damaged record: record_iter_finish() tells which. Keys and values point into the records. */
bool record_iter_next(struct record_iter *it, struct record *ret_record);
/* After next() said false: OK when exactly the declared number of records was there and nothing behind them, else ERR_CORRUPT. */
MUST_CHECK enum error record_iter_finish(const struct record_iter *it);

struct record_header {
    struct str key;
    struct bytes value; /* p NULL: null */
};
/* Takes the next header off *headers (begin with a copy of record.headers); false when none is left. Cannot fail: next() checked
 * them. */
bool record_header_next(struct bytes *headers, struct record_header *ret_header);

/* ---- Encoding anew ---- */

/* Appends to *out the batch with its records compressed by another codec; all other fields stay, the CRC is new. `records` are
 * the decompressed ones (batch_records); neither may lie in *out. ERR_TOO_LARGE when the result does not fit a batch. */
MUST_CHECK enum error batch_recompress(const uint8_t *b, struct bytes records, int codec, int level, struct buf *out);

#endif
