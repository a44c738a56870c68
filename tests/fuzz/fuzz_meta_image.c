/* Entries of the metadata store as an image reads them: lines "key<TAB>JSON", an empty JSON deletes. Whatever they hold, an image is
 * whole or not built. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "meta/image.h"
#include "meta/image_build.h"

#define EVENTS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_topic(const struct image *image, const struct image_topic *topic)
{
    ASSERT(image_topic(image, str_of(topic->name)) == topic);
    ASSERT(image_topic_by_id(image, &topic->id) != NULL);
    ASSERT(topic->partition_count > 0);
    for (int32_t i = 0; i < topic->partition_count; i++)
        ASSERT(topic->partitions[i].replicas != NULL && topic->partitions[i].isr != NULL);
}

static int parse(struct str text, struct meta_event *events)
{
    struct str line, key;
    int count = 0;
    while (count < EVENTS_MAX && str_split(&text, '\n', &line)) {
        if (!str_split(&line, '\t', &key) || key.len == 0 || memchr(key.p, '\0', (size_t)key.len) != NULL)
            continue;
        json_t *value = line.len > 0 ? json_loadb(line.p, (size_t)line.len, JSON_DECODE_ANY, NULL) : NULL;
        events[count++] = (struct meta_event){.key = str_dup(key), .value = value};
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct meta_event events[EVENTS_MAX];
    struct problem problem;
    const struct image *after = NULL, *again = NULL;
    if (size > 1 << 16)
        return 0;
    struct image *before = image_create(1, NULL);
    int count = parse((struct str){(const char *)data, (int32_t)size}, events);
    if (image_apply(before, events, count, 1, &after, &problem) == OK) {
        for (int i = 0; i < after->topic_count; i++)
            check_topic(after, after->topics[i]);
        if (image_apply(after, events, count, 2, &again, &problem) == OK) /* on top of itself */
            ASSERT(again->topic_count <= after->topic_count);
    } else {
        ASSERT(problem.message[0] != '\0');
    }
    image_unref(again);
    image_unref(after);
    image_unref(before);
    for (int i = 0; i < count; i++) {
        mem_free((char *)events[i].key);
        json_decref(events[i].value);
    }
    return 0;
}
