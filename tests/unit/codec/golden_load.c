#include <stdio.h>
#include <string.h>

#include "golden.h"

uint8_t *golden_load(const char *name, struct buf *out)
{
    size_t start = out->len;

    for (int i = 0; i < GOLDEN_COUNT; i++) {
        if (strcmp(GOLDEN[i].name, name) != 0)
            continue;
        for (const char *p = GOLDEN[i].hex; *p != '\0'; p += 2) {
            unsigned byte;

            assert_int_equal(sscanf(p, "%2x", &byte), 1);
            buf_putc(out, (char)byte);
        }
        return out->data + start;
    }
    fail_msg("no golden batch %s", name);
    return NULL;
}
