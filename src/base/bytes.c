#include "base/bytes.h"

int get_uvarlong(const uint8_t *p, const uint8_t *end, uint64_t *ret_v)
{
    uint64_t v = 0;

    for (int i = 0; i < VARLONG_MAX && p + i < end; i++) {
        v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
        if ((p[i] & 0x80) == 0) {
            if (i == VARLONG_MAX - 1 && p[i] > 1) /* bits beyond the 64th */
                return 0;
            *ret_v = v;
            return i + 1;
        }
    }
    return 0;
}

int get_uvarint(const uint8_t *p, const uint8_t *end, uint32_t *ret_v)
{
    uint32_t v = 0;

    for (int i = 0; i < VARINT_MAX && p + i < end; i++) {
        v |= (uint32_t)(p[i] & 0x7f) << (7 * i);
        if ((p[i] & 0x80) == 0) {
            if (i == VARINT_MAX - 1 && p[i] > 0x0f) /* bits beyond the 32nd */
                return 0;
            *ret_v = v;
            return i + 1;
        }
    }
    return 0;
}

int get_varint(const uint8_t *p, const uint8_t *end, int32_t *ret_v)
{
    uint32_t u;
    int used = get_uvarint(p, end, &u);

    if (used > 0)
        *ret_v = unzigzag32(u);
    return used;
}

int get_varlong(const uint8_t *p, const uint8_t *end, int64_t *ret_v)
{
    uint64_t u;
    int used = get_uvarlong(p, end, &u);

    if (used > 0)
        *ret_v = unzigzag64(u);
    return used;
}

int put_uvarlong(uint8_t *p, uint64_t v)
{
    int used = 0;

    for (; v >= 0x80; v >>= 7)
        p[used++] = (uint8_t)(v | 0x80);
    p[used++] = (uint8_t)v;
    return used;
}

int put_uvarint(uint8_t *p, uint32_t v) { return put_uvarlong(p, v); }

int uvarlong_size(uint64_t v)
{
    int size = 1;

    for (; v >= 0x80; v >>= 7)
        size++;
    return size;
}

int uvarint_size(uint32_t v) { return uvarlong_size(v); }
