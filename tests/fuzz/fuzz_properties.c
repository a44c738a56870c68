/* Properties files: whatever is read can be written down again and reads the same. */
#include <stdint.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_escaped(struct buf *out, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '\n' || *s == '\r' || *s == '\t' || *s == '\f') {
            buf_putc(out, '\\');
            buf_putc(out, *s == '\n' ? 'n' : *s == '\r' ? 'r' : *s == '\t' ? 't' : 'f');
            continue;
        }
        if (strchr("=: \\#!", *s) != NULL)
            buf_putc(out, '\\');
        buf_putc(out, *s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct properties first = {0}, second = {0};
    struct buf text = {0};

    if (size <= PROPERTIES_MAX_BYTES && properties_parse(&first, (struct str){(const char *)data, (int32_t)size}, NULL) == OK) {
        for (size_t i = 0; i < first.count; i++) {
            put_escaped(&text, first.items[i].key);
            buf_putc(&text, '=');
            put_escaped(&text, first.items[i].value);
            buf_putc(&text, '\n');
        }
        ASSERT(properties_parse(&second, (struct str){buf_cstr(&text), (int32_t)text.len}, NULL) == OK);
        ASSERT(first.count == second.count);
        for (size_t i = 0; i < first.count; i++)
            ASSERT(strcmp(first.items[i].value, properties_get(&second, first.items[i].key)) == 0);
    }
    properties_fini(&first);
    properties_fini(&second);
    buf_fini(&text);
    return 0;
}
