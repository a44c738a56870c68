/* CRC-32C (Castagnoli), Kafka's checksum of record batches. crc32c(0, data, len) is the checksum; pass the result on to continue over
 * more data. Picks the fastest kernel of the machine: isa-l for long runs, an SSE4.2 loop for short ones, a table elsewhere. Any thread. */
#ifndef KAGAMI_BASE_CRC32C_H
#define KAGAMI_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t len);

#endif
