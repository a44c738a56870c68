/* dump-log over a file with any content. The first byte says which kind of file it is and how it is printed. The file system here has one
 * file and refuses everything but reading it; every line of JSON must be JSON; an error must be told. */
#include <jansson.h>
#include <string.h>

#include "base/assert.h"
#include "tools/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory_file {
    struct file file;
    struct bytes content;
};

static void memory_close(struct file *f)
{
    mem_free(f);
}

static enum error memory_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    struct bytes content = CONTAINER_OF(f, struct memory_file, file)->content;
    size_t left = pos < (uint64_t)content.len ? (size_t)content.len - (size_t)pos : 0;
    *ret_read = MIN(len, left);
    if (*ret_read > 0)
        memcpy(out, content.p + pos, *ret_read);
    return OK;
}

static enum error memory_size(struct file *f, uint64_t *ret_size)
{
    *ret_size = (uint64_t)CONTAINER_OF(f, struct memory_file, file)->content.len;
    return OK;
}

static int memory_fd(struct file *f)
{
    (void)f;
    return -1;
}

static const struct file_ops FILE_OPS = {.close = memory_close, .pread = memory_pread, .size = memory_size, .fd = memory_fd};

struct memory_fs {
    struct fs fs;
    struct bytes content;
};

static enum error memory_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    (void)path;
    ASSERT(flags == FILE_READ); /* a dump changes nothing */
    struct memory_file *f = mem_calloc(1, sizeof(*f));
    f->file.ops = &FILE_OPS;
    f->content = CONTAINER_OF(fs, struct memory_fs, fs)->content;
    *ret_file = &f->file;
    return OK;
}

static const struct fs_ops FS_OPS = {.open = memory_open};

static const struct {
    const char *name;
    bool (*dump)(struct dump *d);
} KINDS[] = {
    {"00000000000000000000.log", dump_segment},          {"00000000000000000100.index", dump_offset_index},
    {"00000000000000000100.timeindex", dump_time_index}, {"00000000000000000100.txnindex", dump_txn_index},
    {"00000000000000000100.snapshot", dump_snapshot},    {"replication-offset-checkpoint", dump_checkpoint},
    {"leader-epoch-checkpoint", dump_leader_epochs},     {"partition.metadata", dump_partition_metadata},
    {"meta.properties", dump_meta_properties},           {".kafka_cleanshutdown", dump_clean_shutdown},
};

static void check_lines(struct str text)
{
    struct str line;
    while (str_split(&text, '\n', &line)) {
        if (line.len == 0)
            continue;
        json_t *json = json_loadb(line.p, (size_t)line.len, JSON_ALLOW_NUL, NULL);
        ASSERT(json != NULL);
        json_decref(json);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t kind = data[0] / 4 % ARRAY_SIZE(KINDS);
    struct memory_fs fs = {{&FS_OPS}, {data + 1, (int64_t)size - 1}};
    struct out err;
    struct tool tool = {.json = (data[0] & 1) != 0, .err = &err};
    out_init(&tool.out, -1);
    out_init(&err, -1);
    struct dump d = {.tool = &tool,
                     .out = &tool.out,
                     .fs = &fs.fs,
                     .path = KINDS[kind].name,
                     .name = KINDS[kind].name,
                     .json = tool.json,
                     .records = (data[0] & 2) != 0};
    bool good = KINDS[kind].dump(&d);
    ASSERT(good || err.buf.len > 0);
    if (d.json)
        check_lines(buf_str(&tool.out.buf));
    out_fini(&tool.out);
    out_fini(&err);
    return 0;
}
