#include "storage/checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/properties.h"

#define CHECKPOINT_VERSION 0
#define SMALL_FILE_MAX (64 * 1024)
#define EPOCHS_MAX_BYTES (16 * 1024 * 1024)

static enum error damaged(struct problem *problem, const char *name, int line, const char *what)
{
    enum error error = problem_set(problem, ERR_CORRUPT, "%s is damaged in line %d: %s.", name, line, what);
    problem_hint(problem, "Restore the file, or move it away to start without it.");
    return error;
}

static enum error read_text(struct fs *fs, const char *path, size_t limit, struct buf *out, struct problem *problem)
{
    enum error error = fs_read_file(fs, path, limit, out);
    if (error == ERR_TOO_LARGE)
        return problem_set(problem, ERR_CORRUPT, "%s is larger than any file of its kind.", path);
    if (error != OK && error != ERR_NOT_FOUND)
        return problem_set(problem, error, "%s cannot be read.", path);
    return error;
}

/* ---- Version line, count line, entries (Kafka: CheckpointFile) ---- */

struct lines {
    struct str rest;
    const char *name;
    int line;
};

static bool next_line(struct lines *in, struct str *ret_line)
{
    if (in->rest.p == NULL || in->rest.len == 0 || !str_split(&in->rest, '\n', ret_line))
        return false;
    if (ret_line->len > 0 && ret_line->p[ret_line->len - 1] == '\r')
        ret_line->len--;
    in->line++;
    return true;
}

/* *ret_count is at most what can stand in the rest, so that memory may be taken for it. */
static enum error read_head(struct lines *in, int64_t *ret_count, struct problem *problem)
{
    struct str line;
    int64_t version, count;
    if (!next_line(in, &line) || !str_to_i64(line, &version))
        return damaged(problem, in->name, MAX(1, in->line), "no version number");
    if (version != CHECKPOINT_VERSION)
        return problem_set(problem, ERR_UNSUPPORTED, "%s has version %lld; known is %d.", in->name, (long long)version,
                           CHECKPOINT_VERSION);
    if (!next_line(in, &line) || !str_to_i64(line, &count) || count < 0)
        return damaged(problem, in->name, 2, "no number of entries");
    if (count > in->rest.len) /* an entry has two bytes at least */
        return damaged(problem, in->name, 2, "more entries than there is room for");
    *ret_count = count;
    return OK;
}

static enum error read_end(struct lines *in, struct problem *problem)
{
    struct str line;
    while (next_line(in, &line)) {
        if (line.len > 0)
            return damaged(problem, in->name, in->line, "more entries than the file says");
    }
    return OK;
}

/* Cuts "a b c" into exactly n pieces. */
static bool split_fields(struct str line, struct str *pieces, int n)
{
    struct str rest = line;
    for (int i = 0; i < n; i++) {
        if (!str_split(&rest, ' ', &pieces[i]) || pieces[i].len == 0)
            return false;
    }
    return rest.p == NULL;
}

static bool to_number(struct str s, int64_t max, int64_t *ret_value)
{
    return str_to_i64(s, ret_value) && *ret_value >= 0 && *ret_value <= max;
}

/* ---- Offsets of partitions ---- */

void offset_checkpoint_fini(struct offset_checkpoint *c)
{
    mem_free(c->entries);
    buf_fini(&c->text);
    *c = (struct offset_checkpoint){0};
}

static int by_partition(const struct offset_checkpoint_entry *x, const struct offset_checkpoint_entry *y)
{
    int order = str_cmp(x->topic, y->topic);
    return order != 0 ? order : (x->partition > y->partition) - (x->partition < y->partition);
}

/* Equal partitions stay in the order of the file: entries of a view point into it. */
static int by_partition_and_line(const void *a, const void *b)
{
    const struct offset_checkpoint_entry *x = a, *y = b;
    int order = by_partition(x, y);
    return order != 0 ? order : (x->topic.p > y->topic.p) - (x->topic.p < y->topic.p);
}

static void sort_entries(struct offset_checkpoint *c)
{
    if (c->count < 2)
        return;
    qsort(c->entries, c->count, sizeof(*c->entries), by_partition_and_line);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (i + 1 < c->count && by_partition(&c->entries[i], &c->entries[i + 1]) == 0)
            continue;
        c->entries[kept++] = c->entries[i];
    }
    c->count = kept;
}

static enum error parse_offsets(struct lines *in, struct offset_checkpoint *c, struct problem *problem)
{
    int64_t count = 0;
    enum error error = read_head(in, &count, problem);
    if (error != OK)
        return error;
    c->capacity = (size_t)count;
    c->entries = mem_calloc(c->capacity + 1, sizeof(*c->entries));
    for (int64_t i = 0; i < count; i++) {
        struct str line, field[3];
        int64_t partition, offset;
        if (!next_line(in, &line))
            return damaged(problem, in->name, in->line + 1, "fewer entries than the file says");
        if (!split_fields(line, field, 3) || !to_number(field[1], INT32_MAX, &partition) ||
            !to_number(field[2], INT64_MAX, &offset))
            return damaged(problem, in->name, in->line, "not \"topic partition offset\"");
        c->entries[c->count++] = (struct offset_checkpoint_entry){field[0], (int32_t)partition, offset};
    }
    error = read_end(in, problem);
    if (error == OK)
        sort_entries(c);
    return error;
}

enum error offset_checkpoint_parse(struct buf *text, const char *name, struct offset_checkpoint *ret_checkpoint,
                                   struct problem *problem)
{
    struct offset_checkpoint c = {.text = *text};
    *text = (struct buf){0};
    if (c.text.len > CHECKPOINT_MAX_BYTES) {
        offset_checkpoint_fini(&c);
        return problem_set(problem, ERR_CORRUPT, "%s is larger than any file of its kind.", name);
    }
    struct lines in = {.rest = buf_str(&c.text), .name = name};
    enum error error = parse_offsets(&in, &c, problem);
    if (error != OK) {
        offset_checkpoint_fini(&c);
        return error;
    }
    *ret_checkpoint = c;
    return OK;
}

enum error offset_checkpoint_read(struct fs *fs, const char *path, struct offset_checkpoint *ret_checkpoint,
                                  struct problem *problem)
{
    struct buf text = {0};
    *ret_checkpoint = (struct offset_checkpoint){0};
    enum error error = read_text(fs, path, CHECKPOINT_MAX_BYTES, &text, problem);
    if (error != OK) {
        buf_fini(&text);
        return error;
    }
    return offset_checkpoint_parse(&text, path, ret_checkpoint, problem);
}

const int64_t *offset_checkpoint_get(const struct offset_checkpoint *c, struct str topic, int32_t partition)
{
    struct offset_checkpoint_entry key = {topic, partition, 0};
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = by_partition(&c->entries[middle], &key);
        if (order == 0)
            return &c->entries[middle].offset;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

enum error offset_checkpoint_write(struct fs *fs, const char *path, const struct offset_checkpoint_entry *entries, size_t count)
{
    struct buf out = {0};
    buf_printf(&out, "%d\n%zu\n", CHECKPOINT_VERSION, count);
    for (size_t i = 0; i < count; i++)
        buf_printf(&out, "%.*s %d %lld\n", STR_ARG(entries[i].topic), entries[i].partition, (long long)entries[i].offset);
    enum error error = fs_write_atomic(fs, path, out.data, out.len);
    buf_fini(&out);
    return error;
}

/* ---- Leader epochs ---- */

static enum error parse_epochs(struct lines *in, struct epoch_entry **entries, size_t *count, struct problem *problem)
{
    int64_t expected = 0;
    enum error error = read_head(in, &expected, problem);
    if (error != OK)
        return error;
    *entries = mem_calloc((size_t)expected + 1, sizeof(**entries));
    for (int64_t i = 0; i < expected; i++) {
        struct str line, field[2];
        int64_t epoch, offset;
        if (!next_line(in, &line))
            return damaged(problem, in->name, in->line + 1, "fewer entries than the file says");
        if (!split_fields(line, field, 2) || !to_number(field[0], INT32_MAX, &epoch) || !to_number(field[1], INT64_MAX, &offset))
            return damaged(problem, in->name, in->line, "not \"epoch start-offset\"");
        if (*count > 0 && (epoch <= (*entries)[*count - 1].epoch || offset < (*entries)[*count - 1].start_offset))
            return damaged(problem, in->name, in->line, "epochs and offsets do not rise");
        (*entries)[(*count)++] = (struct epoch_entry){(int32_t)epoch, offset};
    }
    return read_end(in, problem);
}

enum error epoch_checkpoint_parse(struct str text, const char *name, struct epoch_entry **ret_entries, size_t *ret_count,
                                  struct problem *problem)
{
    struct lines in = {.rest = text, .name = name};
    struct epoch_entry *entries = NULL;
    size_t count = 0;
    enum error error = parse_epochs(&in, &entries, &count, problem);
    if (error != OK) {
        mem_free(entries);
        return error;
    }
    *ret_entries = entries;
    *ret_count = count;
    return OK;
}

enum error epoch_checkpoint_read(struct fs *fs, const char *path, struct epoch_entry **ret_entries, size_t *ret_count,
                                 struct problem *problem)
{
    struct buf text = {0};
    enum error error = read_text(fs, path, EPOCHS_MAX_BYTES, &text, problem);
    if (error == OK)
        error = epoch_checkpoint_parse(buf_str(&text), path, ret_entries, ret_count, problem);
    buf_fini(&text);
    return error;
}

enum error epoch_checkpoint_write(struct fs *fs, const char *path, const struct epoch_entry *entries, size_t count)
{
    struct buf out = {0};
    buf_printf(&out, "%d\n%zu\n", CHECKPOINT_VERSION, count);
    for (size_t i = 0; i < count; i++)
        buf_printf(&out, "%d %lld\n", entries[i].epoch, (long long)entries[i].start_offset);
    enum error error = fs_write_atomic(fs, path, out.data, out.len);
    buf_fini(&out);
    return error;
}

/* ---- partition.metadata ---- */

enum error partition_metadata_parse(struct str text, const char *name, struct uuid *ret_topic_id, struct problem *problem)
{
    struct lines in = {.rest = text, .name = name};
    struct str line;
    int64_t version;
    if (!next_line(&in, &line) || !str_starts(line, STR("version:")) ||
        !str_to_i64(str_trim((struct str){line.p + 8, line.len - 8}), &version))
        return damaged(problem, name, 1, "no version");
    if (version != 0)
        return problem_set(problem, ERR_UNSUPPORTED, "%s has version %lld; known is 0.", name, (long long)version);
    struct uuid id;
    if (!next_line(&in, &line) || !str_starts(line, STR("topic_id:")) ||
        !uuid_parse(str_trim((struct str){line.p + 9, line.len - 9}), &id) || uuid_is_zero(&id))
        return damaged(problem, name, 2, "no topic id");
    *ret_topic_id = id;
    return OK;
}

enum error partition_metadata_read(struct fs *fs, const char *path, struct uuid *ret_topic_id, struct problem *problem)
{
    struct buf text = {0};
    enum error error = read_text(fs, path, SMALL_FILE_MAX, &text, problem);
    if (error == OK)
        error = partition_metadata_parse(buf_str(&text), path, ret_topic_id, problem);
    buf_fini(&text);
    return error;
}

static size_t metadata_text(const struct uuid *topic_id, char out[64])
{
    char id[UUID_TEXT_SIZE];
    return (size_t)snprintf(out, 64, "version: 0\ntopic_id: %s", uuid_text(topic_id, id));
}

enum error partition_metadata_write(struct fs *fs, const char *path, const struct uuid *topic_id)
{
    char text[64];
    size_t len = metadata_text(topic_id, text);
    return fs_write_atomic(fs, path, text, len);
}

enum error partition_metadata_replace(struct fs *fs, const char *path, const struct uuid *topic_id)
{
    char text[64];
    size_t len = metadata_text(topic_id, text);
    return fs_write_replace(fs, path, text, len);
}

enum error partition_metadata_create(struct fs *fs, const char *path, const struct uuid *topic_id)
{
    char text[64];
    size_t len = metadata_text(topic_id, text);
    struct file *f;
    enum error error = fs_open(fs, path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &f);
    if (error != OK)
        return error;
    error = file_pwrite(f, text, len, 0);
    file_close(f);
    return error;
}

/* ---- meta.properties ---- */

static enum error take_meta(const struct properties *p, const char *name, struct meta_properties *meta, struct problem *problem)
{
    const char *text = properties_get(p, "version");
    int64_t version, node = -1;
    if (text == NULL || !str_to_i64(str_of(text), &version))
        return problem_set(problem, ERR_CORRUPT, "%s has no version.", name);
    if (version != 0 && version != 1)
        return problem_set(problem, ERR_UNSUPPORTED, "%s has version %lld; known are 0 and 1.", name, (long long)version);
    text = properties_get(p, version == 0 ? "broker.id" : "node.id");
    if (text != NULL && !to_number(str_of(text), INT32_MAX, &node))
        return problem_set(problem, ERR_CORRUPT, "%s has a node id that is no number: %s.", name, text);
    text = properties_get(p, "cluster.id");
    if (text == NULL || *text == '\0' || strlen(text) >= CLUSTER_ID_MAX)
        return problem_set(problem, ERR_CORRUPT, "%s has no cluster.id, or one of more than %d characters.", name,
                           CLUSTER_ID_MAX - 1);
    *meta = (struct meta_properties){.node_id = (int32_t)node};
    memcpy(meta->cluster_id, text, strlen(text) + 1);
    text = properties_get(p, "directory.id");
    if (text != NULL && !uuid_parse(str_of(text), &meta->directory_id))
        return problem_set(problem, ERR_CORRUPT, "%s has a directory.id that is none: %s.", name, text);
    return OK;
}

enum error meta_properties_parse(struct str text, const char *name, struct meta_properties *ret_meta, struct problem *problem)
{
    struct properties p = {0};
    struct problem inner = {0};
    enum error error = properties_parse(&p, text, &inner);
    if (error != OK) {
        error = problem_set(problem, ERR_CORRUPT, "%s is damaged.", name);
        problem_detail(problem, "%s", inner.message);
    } else {
        struct meta_properties meta;
        error = take_meta(&p, name, &meta, problem);
        if (error == OK)
            *ret_meta = meta;
    }
    properties_fini(&p);
    return error;
}

enum error meta_properties_read(struct fs *fs, const char *path, struct meta_properties *ret_meta, struct problem *problem)
{
    struct buf text = {0};
    enum error error = read_text(fs, path, SMALL_FILE_MAX, &text, problem);
    if (error == OK)
        error = meta_properties_parse(buf_str(&text), path, ret_meta, problem);
    buf_fini(&text);
    return error;
}

enum error meta_properties_write(struct fs *fs, const char *path, const struct meta_properties *meta)
{
    char id[UUID_TEXT_SIZE];
    struct buf out = {0};
    buf_printf(&out, "cluster.id=%s\n", meta->cluster_id);
    if (!uuid_is_zero(&meta->directory_id))
        buf_printf(&out, "directory.id=%s\n", uuid_text(&meta->directory_id, id));
    if (meta->node_id >= 0)
        buf_printf(&out, "node.id=%d\n", meta->node_id);
    buf_printf(&out, "version=1\n");
    enum error error = fs_write_atomic(fs, path, out.data, out.len);
    buf_fini(&out);
    return error;
}

/* ---- .kafka_cleanshutdown ---- */

enum error clean_shutdown_write(struct fs *fs, const char *path, int64_t broker_epoch)
{
    char text[80];
    int len = snprintf(text, sizeof(text), "{\"version\":0,\"brokerEpoch\":%lld}", (long long)broker_epoch);
    return fs_write_atomic(fs, path, text, (size_t)len);
}

bool clean_shutdown_present(struct fs *fs, const char *path, int64_t *ret_broker_epoch)
{
    struct buf text = {0};
    enum error error = fs_read_file(fs, path, SMALL_FILE_MAX, &text);
    if (ret_broker_epoch != NULL) {
        *ret_broker_epoch = -1;
        const char *found = error == OK ? strstr(buf_cstr(&text), "\"brokerEpoch\":") : NULL;
        if (found != NULL)
            *ret_broker_epoch = strtoll(found + strlen("\"brokerEpoch\":"), NULL, 10);
    }
    buf_fini(&text);
    return error == OK; /* in doubt the end was not clean: recovery costs time, trust costs data */
}

enum error clean_shutdown_remove(struct fs *fs, const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, CLEAN_SHUTDOWN_FILE);
    enum error error = fs_unlink(fs, path);
    if (error == ERR_NOT_FOUND)
        return OK;
    return error != OK ? error : fs_sync_dir(fs, dir);
}
