/* Descriptor tables, as the generator writes them and the interpreter reads them. Private to this layer. */
#ifndef KAGAMI_PROTO_TABLES_H
#define KAGAMI_PROTO_TABLES_H

#include "proto/proto.h"

enum proto_type {
    TYPE_BOOL,
    TYPE_INT8,
    TYPE_INT16,
    TYPE_UINT16,
    TYPE_INT32,
    TYPE_INT64,
    TYPE_FLOAT64,
    TYPE_UUID,
    TYPE_STRING,
    TYPE_BYTES,
    TYPE_RECORDS,
    TYPE_STRUCT,
};

#define FIELD_ARRAY 1     /* pointer at `offset`, count at `n_offset` */
#define FIELD_POINTER 2   /* nullable struct: pointer at `offset` */
#define FIELD_IGNORABLE 4 /* versions without the field drop its value */
#define FIELD_PLAIN 8     /* never compact (the client id of the request header) */

struct proto_field {
    uint8_t type; /* enum proto_type; of the elements for an array */
    uint8_t flags;
    int16_t first, last;           /* versions that have the field; tagged in all or in none of them */
    int16_t null_first, null_last; /* versions in which it may be null; first > last: none */
    uint32_t offset, n_offset;     /* in the C struct */
    uint32_t size;                 /* of one value in memory; numbers, booleans and uuids are as wide on the wire */
    const struct proto_struct *fields;
    const char *name; /* camelCase */
};

struct proto_struct {
    uint32_t size;
    uint16_t plain_n,
        tagged_n; /* fields[0..plain_n) in the order of the wire, then the tagged ones: tag t is fields[plain_n + t] */
    const struct proto_field *fields; /* first and last of a nested field lie within its parent's */
    const void *defaults;             /* a struct of `size` bytes with every default */
    const uint16_t *min_size; /* by version: bytes of the smallest form on the wire; 0 only where the struct is not used */
};

struct proto_message {
    const char *name;
    int16_t valid_min, valid_max, flexible_min; /* flexible_min INT16_MAX: never */
    const struct proto_struct *body;
};

extern const struct proto_api proto_apis[];
extern const size_t proto_apis_n;

static inline bool message_flexible(const struct proto_message *m, int16_t version)
{
    return version >= m->flexible_min;
}
static inline bool field_in(const struct proto_field *f, int16_t version)
{
    return version >= f->first && version <= f->last;
}
static inline bool field_nullable(const struct proto_field *f, int16_t version)
{
    return version >= f->null_first && version <= f->null_last;
}
static inline const void *field_at(const struct proto_field *f, const void *in)
{
    return (const char *)in + f->offset;
}
static inline int32_t field_count(const struct proto_field *f, const void *in)
{
    return *(const int32_t *)(const void *)((const char *)in + f->n_offset);
}

#endif
