/* Big-endian numbers and Kafka's variable-length integers (org.apache.kafka.common.utils.ByteUtils), in memory. Any thread. */
#ifndef KAGAMI_BASE_BYTES_H
#define KAGAMI_BASE_BYTES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t get_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return be16toh(v);
}
static inline uint32_t get_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}
static inline uint64_t get_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return be64toh(v);
}
static inline int16_t get_i16(const void *p) { return (int16_t)get_u16(p); }
static inline int32_t get_i32(const void *p) { return (int32_t)get_u32(p); }
static inline int64_t get_i64(const void *p) { return (int64_t)get_u64(p); }
static inline void put_u16(void *p, uint16_t v)
{
    v = htobe16(v);
    memcpy(p, &v, sizeof(v));
}
static inline void put_u32(void *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof(v));
}
static inline void put_u64(void *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof(v));
}
static inline void put_i16(void *p, int16_t v) { put_u16(p, (uint16_t)v); }
static inline void put_i32(void *p, int32_t v) { put_u32(p, (uint32_t)v); }
static inline void put_i64(void *p, int64_t v) { put_u64(p, (uint64_t)v); }

#define VARINT_MAX 5
#define VARLONG_MAX 10

static inline uint32_t zigzag32(int32_t v) { return ((uint32_t)v << 1) ^ (uint32_t)(v >> 31); }
static inline uint64_t zigzag64(int64_t v) { return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63); }
static inline int32_t unzigzag32(uint32_t v) { return (int32_t)(v >> 1) ^ -(int32_t)(v & 1); }
static inline int64_t unzigzag64(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

/* Read from p, never at or past end. Return the bytes used, 0 when the number is cut short or longer than it may be. */
int get_uvarint(const uint8_t *p, const uint8_t *end, uint32_t *ret_v);
int get_uvarlong(const uint8_t *p, const uint8_t *end, uint64_t *ret_v);
int get_varint(const uint8_t *p, const uint8_t *end, int32_t *ret_v);   /* zigzag */
int get_varlong(const uint8_t *p, const uint8_t *end, int64_t *ret_v);  /* zigzag */
/* Write to p (VARINT_MAX or VARLONG_MAX bytes of room); return the bytes used. */
int put_uvarint(uint8_t *p, uint32_t v);
int put_uvarlong(uint8_t *p, uint64_t v);
static inline int put_varint(uint8_t *p, int32_t v) { return put_uvarint(p, zigzag32(v)); }
static inline int put_varlong(uint8_t *p, int64_t v) { return put_uvarlong(p, zigzag64(v)); }
int uvarint_size(uint32_t v);
int uvarlong_size(uint64_t v);

#endif
