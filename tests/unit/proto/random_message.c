#include "random_message.h"

#include <string.h>

#include "base/assert.h"

static void fill_struct(struct random *r, const struct proto_struct *s, int16_t version, void *out);

uint32_t random_next(struct random *r) /* xorshift64* */
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return (uint32_t)((r->state * 0x2545f4914f6cdd1dULL) >> 32);
}

static uint8_t *fill_bytes(struct random *r, int32_t len)
{
    uint8_t *p = arena_alloc(r->arena, (size_t)len);
    ASSERT(p != NULL);
    for (int32_t i = 0; i < len; i++)
        p[i] = (uint8_t)random_next(r);
    return p;
}

static void fill_value(struct random *r, const struct proto_field *f, int16_t version, bool nullable, void *at)
{
    bool null = nullable && random_next(r) % 4 == 0;
    int32_t len = (int32_t)(random_next(r) % 8 == 0 ? random_next(r) % 300 : random_next(r) % 6);
    switch ((enum proto_type)f->type) {
    case TYPE_BOOL:
        *(bool *)at = random_next(r) % 2;
        return;
    case TYPE_STRING:
        *(struct str *)at = null ? STR_NULL : (struct str){(const char *)fill_bytes(r, len), len};
        return;
    case TYPE_BYTES:
        *(struct bytes *)at = null ? (struct bytes){NULL, 0} : (struct bytes){fill_bytes(r, len), len};
        return;
    case TYPE_RECORDS:
        *(struct records *)at = null ? (struct records){0} : (struct records){.p = fill_bytes(r, len), .len = len};
        return;
    case TYPE_STRUCT:
        fill_struct(r, f->fields, version, at);
        return;
    default:
        memcpy(at, fill_bytes(r, (int32_t)f->size), f->size);
        return;
    }
}

static void fill_field(struct random *r, const struct proto_field *f, int16_t version, void *out)
{
    char *at = (char *)out + f->offset;
    bool nullable = field_nullable(f, version);
    if (f->flags & FIELD_ARRAY) {
        int32_t count = nullable && random_next(r) % 4 == 0 ? -1 : (int32_t)(random_next(r) % 4);
        char *elements = count < 0 ? NULL : arena_alloc(r->arena, (size_t)count * f->size);
        for (int32_t i = 0; i < count; i++)
            fill_value(r, f, version, false, elements + (size_t)i * f->size);
        *(void **)(void *)at = elements;
        *(int32_t *)(void *)((char *)out + f->n_offset) = count;
    } else if (f->flags & FIELD_POINTER) {
        void *target = nullable && random_next(r) % 4 == 0 ? NULL : arena_alloc(r->arena, f->fields->size);
        if (target != NULL)
            fill_struct(r, f->fields, version, target);
        *(void **)(void *)at = target;
    } else {
        fill_value(r, f, version, nullable, at);
    }
}

static void fill_struct(struct random *r, const struct proto_struct *s, int16_t version, void *out)
{
    memcpy(out, s->defaults, s->size);
    for (int i = 0; i < s->plain_n + s->tagged_n; i++) {
        const struct proto_field *f = &s->fields[i];
        bool keep = i >= s->plain_n && random_next(r) % 3 == 0; /* tagged fields also at their default */
        if (field_in(f, version) && !keep)
            fill_field(r, f, version, out);
    }
}

void random_message(struct random *r, const struct proto_message *message, int16_t version, void *out)
{
    fill_struct(r, message->body, version, out);
}
