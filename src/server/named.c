#include "server/named.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    int order = str_cmp(a->topic, b->topic);
    return order != 0 ? order : (a->partition > b->partition) - (a->partition < b->partition);
}

void named_sort(struct named *named, size_t count)
{
    if (count > 1)
        qsort(named, count, sizeof(*named), compare);
}

void named_mark_twice(struct named *named, size_t count)
{
    named_sort(named, count);
    for (size_t i = 1; i < count; i++)
        if (compare(&named[i - 1], &named[i]) == 0)
            *named[i - 1].twice = *named[i].twice = true;
}

bool named_has(const struct named *named, size_t count, struct str topic, int32_t partition)
{
    const struct named key = {topic, partition, NULL};
    return count > 0 && bsearch(&key, named, count, sizeof(key), compare) != NULL;
}
