/* What lies in a log's folder when it opens: leftovers of a crash go, finished swaps get their names, what remains are the segments. Which name means what
 * stands at the top of plog_recover.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "codec/record_batch.h"
#include "storage/batch_reader.h"
#include "storage/plog_internal.h"

struct offsets {
    int64_t *items;
    int count, capacity;
};

struct listing {
    struct plog *log;
    struct offsets logs, swaps, swap_indexes, indexes;
    struct buf doomed; /* names, each ended by 0 */
    int64_t lowest_cleaned;
};

static void offsets_add(struct offsets *o, int64_t offset)
{
    if (o->count == o->capacity) {
        o->capacity = MAX(16, o->capacity * 2);
        o->items = mem_realloc(o->items, (size_t)o->capacity * sizeof(int64_t));
    }
    o->items[o->count++] = offset;
}

static int compare_offsets(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void offsets_sort(struct offsets *o)
{
    if (o->count > 1)
        qsort(o->items, (size_t)o->count, sizeof(int64_t), compare_offsets);
}

static bool offsets_has(const struct offsets *o, int64_t offset)
{
    return o->count > 0 && bsearch(&offset, o->items, (size_t)o->count, sizeof(int64_t), compare_offsets) != NULL;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return n >= s && strcmp(name + n - s, suffix) == 0;
}

static const char *const INDEX_SUFFIXES[] = {SEGMENT_INDEX_SUFFIX, SEGMENT_TIME_INDEX_SUFFIX, SEGMENT_TXN_INDEX_SUFFIX};

static enum error visit_name(void *arg, const char *name, bool is_dir)
{
    struct listing *l = arg;
    int64_t offset;
    if (is_dir)
        return OK;
    bool cleaned = ends_with(name, ".cleaned");
    if (cleaned || ends_with(name, SEGMENT_DELETED_SUFFIX) || ends_with(name, ".tmp")) {
        buf_append(&l->doomed, name, strlen(name) + 1);
        if (cleaned && segment_parse_name(name, SEGMENT_LOG_SUFFIX ".cleaned", &offset))
            l->lowest_cleaned = MIN(l->lowest_cleaned, offset);
    } else if (segment_parse_name(name, SEGMENT_LOG_SUFFIX, &offset)) {
        offsets_add(&l->logs, offset);
    } else if (segment_parse_name(name, SEGMENT_LOG_SUFFIX ".swap", &offset)) {
        offsets_add(&l->swaps, offset);
    }
    for (size_t i = 0; i < ARRAY_SIZE(INDEX_SUFFIXES); i++) {
        char swap[32];
        snprintf(swap, sizeof(swap), "%s.swap", INDEX_SUFFIXES[i]);
        if (segment_parse_name(name, INDEX_SUFFIXES[i], &offset))
            offsets_add(&l->indexes, offset);
        else if (segment_parse_name(name, swap, &offset))
            offsets_add(&l->swap_indexes, offset);
    }
    return OK;
}

static void listing_fini(struct listing *l)
{
    mem_free(l->logs.items);
    mem_free(l->swaps.items);
    mem_free(l->swap_indexes.items);
    mem_free(l->indexes.items);
    buf_fini(&l->doomed);
}

static enum error remove_name(struct plog *log, const char *name)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", log->dir, name);
    enum error error = fs_unlink(log->fs, buf_cstr(&path));
    buf_fini(&path);
    return error == ERR_NOT_FOUND ? OK : error;
}

static enum error remove_doomed(struct listing *l)
{
    enum error error = OK;
    for (size_t i = 0; i < l->doomed.len && error == OK; i += strlen((char *)l->doomed.data + i) + 1)
        error = remove_name(l->log, (char *)l->doomed.data + i);
    return error;
}

static enum error remove_segment_name(struct plog *log, int64_t base_offset, const char *suffix, const char *more)
{
    char name[SEGMENT_NAME_MAX], full[SEGMENT_NAME_MAX + 16];
    snprintf(full, sizeof(full), "%s%s", segment_file_name(base_offset, suffix, name), more);
    return remove_name(log, full);
}

/* ---- .swap ---- */

static const char *const SWAP_SUFFIXES[] = {SEGMENT_INDEX_SUFFIX, SEGMENT_TIME_INDEX_SUFFIX, SEGMENT_TXN_INDEX_SUFFIX,
                                            SEGMENT_LOG_SUFFIX};

/* Where the range of NAME.log.swap ends. */
static enum error swap_end(struct plog *log, int64_t base_offset, int64_t *ret_end)
{
    struct buf path = {0};
    char name[SEGMENT_NAME_MAX];
    struct file *file = NULL;
    uint64_t size = 0;
    buf_printf(&path, "%s/%s.swap", log->dir, segment_file_name(base_offset, SEGMENT_LOG_SUFFIX, name));
    enum error error = fs_open(log->fs, buf_cstr(&path), FILE_READ, &file);
    buf_fini(&path);
    if (error != OK)
        return error;
    error = file_size(file, &size);
    struct batch_reader reader;
    const uint8_t *header;
    int64_t end = base_offset;
    batch_reader_init(&reader, file, 0, size, BATCH_READER_SCAN_BYTES);
    while (error == OK && (error = batch_reader_next(&reader, &header)) == OK)
        end = batch_next_offset(header);
    batch_reader_fini(&reader);
    file_close(file);
    *ret_end = end;
    return error == ERR_NOT_FOUND ? OK : error;
}

static enum error finish_swap(struct plog *log, struct offsets *logs, int64_t base_offset)
{
    int64_t end;
    enum error error = swap_end(log, base_offset, &end);
    if (error != OK)
        return error;
    for (int i = 0; i < logs->count; i++)
        for (size_t k = 0; k < ARRAY_SIZE(SWAP_SUFFIXES) && logs->items[i] >= base_offset && logs->items[i] < end; k++)
            if ((error = remove_segment_name(log, logs->items[i], SWAP_SUFFIXES[k], "")) != OK)
                return error;
    for (size_t k = 0; k < ARRAY_SIZE(SWAP_SUFFIXES) && error == OK; k++) {
        struct buf from = {0}, to = {0};
        char name[SEGMENT_NAME_MAX];
        segment_file_name(base_offset, SWAP_SUFFIXES[k], name);
        buf_printf(&to, "%s/%s", log->dir, name);
        buf_printf(&from, "%s/%s.swap", log->dir, name);
        error = fs_rename(log->fs, buf_cstr(&from), buf_cstr(&to));
        if (error == ERR_NOT_FOUND)
            error = OK;
        buf_fini(&from);
        buf_fini(&to);
    }
    if (error == OK)
        plog_event(log, "finished the replacement of the segments %" PRId64 " to %" PRId64 " that a crash had interrupted",
                   base_offset, end - 1);
    return error == OK ? fs_sync_dir(log->fs, log->dir) : error;
}

static enum error remove_swap(struct plog *log, int64_t base_offset)
{
    enum error error = OK;
    for (size_t k = 0; k < ARRAY_SIZE(SWAP_SUFFIXES) && error == OK; k++)
        error = remove_segment_name(log, base_offset, SWAP_SUFFIXES[k], ".swap");
    return error;
}

static enum error finish_swaps(struct listing *l)
{
    enum error error = OK;
    offsets_sort(&l->swaps);
    for (int i = 0; i < l->swap_indexes.count && error == OK; i++)
        if (!offsets_has(&l->swaps, l->swap_indexes.items[i]))
            error = remove_swap(l->log, l->swap_indexes.items[i]); /* its .log has its name already; the index is built anew */
    for (int i = 0; i < l->swaps.count && error == OK; i++) {
        int64_t base_offset = l->swaps.items[i];
        if (base_offset < l->lowest_cleaned)
            error = finish_swap(l->log, &l->logs, base_offset);
        else
            error = remove_swap(l->log, base_offset);
    }
    return error;
}

static enum error remove_orphans(struct listing *l)
{
    enum error error = OK;
    for (int i = 0; i < l->indexes.count && error == OK; i++) {
        if (offsets_has(&l->logs, l->indexes.items[i]))
            continue;
        for (size_t k = 0; k < ARRAY_SIZE(INDEX_SUFFIXES) && error == OK; k++)
            error = remove_segment_name(l->log, l->indexes.items[i], INDEX_SUFFIXES[k], "");
    }
    return error;
}

/* Cleans the folder up and opens the segments, sealed. */
enum error plog_open_segments(struct plog *log)
{
    struct listing l = {.log = log, .lowest_cleaned = INT64_MAX};
    enum error error = fs_list(log->fs, log->dir, visit_name, &l);
    if (error == OK)
        error = remove_doomed(&l);
    if (error == OK && l.swaps.count + l.swap_indexes.count > 0) {
        error = finish_swaps(&l);
        listing_fini(&l);
        l = (struct listing){.log = log, .lowest_cleaned = INT64_MAX};
        if (error == OK)
            error = fs_list(log->fs, log->dir, visit_name, &l);
    }
    offsets_sort(&l.logs);
    if (error == OK)
        error = remove_orphans(&l);
    for (int i = 0; i < l.logs.count && error == OK; i++) {
        struct segment *s;
        error = segment_open(log->fs, log->dir, l.logs.items[i], &s);
        if (error == OK)
            plog_add_segment(log, s);
    }
    listing_fini(&l);
    return error;
}
