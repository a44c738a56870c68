#include "base/uuid.h"

#include <string.h>

const struct uuid UUID_ZERO = {{0}};

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool uuid_eq(const struct uuid *a, const struct uuid *b) { return memcmp(a->b, b->b, sizeof(a->b)) == 0; }

bool uuid_is_zero(const struct uuid *u) { return uuid_eq(u, &UUID_ZERO); }

bool uuid_from_random(const uint8_t random[16], struct uuid *ret_uuid)
{
    struct uuid u;
    char text[UUID_TEXT_SIZE];

    memcpy(u.b, random, sizeof(u.b));
    u.b[6] = (uint8_t)((u.b[6] & 0x0f) | 0x40);
    u.b[8] = (uint8_t)((u.b[8] & 0x3f) | 0x80);
    if (uuid_text(&u, text)[0] == '-')
        return false;
    *ret_uuid = u;
    return true;
}

char *uuid_text(const struct uuid *u, char out[UUID_TEXT_SIZE])
{
    int n = 0;

    for (int i = 0; i < 16; i += 3) {
        uint32_t v = (uint32_t)u->b[i] << 16;
        if (i + 1 < 16)
            v |= (uint32_t)u->b[i + 1] << 8 | u->b[i + 2];
        out[n++] = alphabet[v >> 18];
        out[n++] = alphabet[v >> 12 & 63];
        if (i + 1 < 16) {
            out[n++] = alphabet[v >> 6 & 63];
            out[n++] = alphabet[v & 63];
        }
    }
    out[n] = '\0';
    return out;
}

bool uuid_parse(struct str text, struct uuid *ret_uuid)
{
    struct uuid u;
    uint32_t v = 0;
    int n = 0;

    if (text.len != UUID_TEXT_SIZE - 1)
        return false;
    for (int i = 0; i < text.len; i++) {
        const char *at = text.p[i] != '\0' ? strchr(alphabet, text.p[i]) : NULL;
        if (at == NULL)
            return false;
        v = v << 6 | (uint32_t)(at - alphabet);
        if (i % 4 == 3) {
            u.b[n++] = (uint8_t)(v >> 16);
            u.b[n++] = (uint8_t)(v >> 8);
            u.b[n++] = (uint8_t)v;
            v = 0;
        }
    }
    if ((v & 15) != 0) /* the last character holds two bits only */
        return false;
    u.b[n] = (uint8_t)(v >> 4);
    *ret_uuid = u;
    return true;
}
