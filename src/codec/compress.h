/* The four compressors of record batches (Kafka: org.apache.kafka.common.compress), through zlib, libsnappy, liblz4 and libzstd.
 *
 * Every decompression has a hard limit on its output, and memory grows with what really comes out: a size that the input claims
 * is never believed. Both functions append to *out and leave it as it was on an error. Any thread; contexts are kept
 * per thread and freed when it ends.
 *
 * The bytes on the wire are Kafka's:
 *   gzip    RFC 1952; several members in a row are one stream.
 *   snappy  written in the framing of snappy-java: 82 'SNAPPY' 00, int32 version 1, int32 lowest compatible version 1, then
 *           blocks of {int32 length, raw snappy of at most 32 KiB of data}. Read: that, or one raw snappy block (as
 *           librdkafka and snappy-java do).
 *   lz4     one LZ4 frame with independent blocks. Linked blocks are refused, as Kafka does (Lz4BlockInputStream): its clients
 *           could not read them. Checksums are verified where the frame has them.
 *   zstd    RFC 8878 frames, several in a row are one stream; windows of up to 128 MiB (what Kafka's reader takes). */
#ifndef KAGAMI_CODEC_COMPRESS_H
#define KAGAMI_CODEC_COMPRESS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/str.h"

/* The numbers of the attributes field (CompressionType). */
enum codec { CODEC_NONE = 0, CODEC_GZIP = 1, CODEC_SNAPPY = 2, CODEC_LZ4 = 3, CODEC_ZSTD = 4, CODEC_COUNT };

#define CODEC_LEVEL_DEFAULT INT_MIN

/* "none", "gzip", ..; "unknown" for numbers beyond the table. Static storage. */
const char *codec_name(int codec);
/* The names above (Kafka's values of compression.type but "producer" and "uncompressed"). */
bool codec_parse(struct str name, enum codec *ret_codec);
/* Kafka's ranges (compression.gzip.level 1..9 or -1, compression.lz4.level 1..17, compression.zstd.level -131072..22); DEFAULT is
 * always valid, nothing else is for none and snappy. */
bool codec_level_valid(enum codec codec, int level);

/* (Not plain compress(): zlib has a function of that name.)
 * Appends the compressed form of `in` to *out. level: CODEC_LEVEL_DEFAULT or a valid one (asserted). CODEC_NONE copies.
 * ERR_UNSUPPORTED for an unknown codec; ERR_TOO_LARGE when `in` is above LIMIT_DECOMPRESSED_BYTES (no reader would take it). */
MUST_CHECK enum error codec_compress(int codec, int level, struct bytes in, struct buf *out);

/* Appends the decompressed form of all of `in` to *out, limit_bytes of it at most (0 is legal: only empty data passes).
 * ERR_TOO_LARGE beyond the limit; ERR_CORRUPT for damaged or truncated input and for bytes behind its end; ERR_UNSUPPORTED for an
 * unknown codec, for lz4 frames with linked blocks and for zstd windows above 128 MiB. CODEC_NONE copies. */
MUST_CHECK enum error codec_decompress(int codec, struct bytes in, size_t limit_bytes, struct buf *out);

#endif
