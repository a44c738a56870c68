#include "tools/dump.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "storage/checkpoint.h"
#include "storage/segment.h"
#include "tools/commands.h"

/* ---- Lines ---- */

void dump_begin(struct dump *d)
{
    if (!d->json)
        return;
    out_begin(d->out, '{');
    out_field_text(d->out, "file", str_of(d->path));
}

void dump_end(struct dump *d)
{
    if (d->json)
        out_end(d->out, '}');
    else
        out_char(d->out, '\n');
}

/* Between two fields of a line for people. */
static void gap(struct dump *d)
{
    const struct buf *b = &d->out->buf;
    if (b->len > 0 && b->data[b->len - 1] != '\n' && b->data[b->len - 1] != ' ')
        out_char(d->out, ' ');
}

void dump_i64(struct dump *d, const char *key, int64_t value)
{
    if (d->json) {
        out_field_i64(d->out, key, value);
        return;
    }
    gap(d);
    out_printf(d->out, "%s: %lld", key, (long long)value);
}

void dump_bool(struct dump *d, const char *key, bool value)
{
    if (d->json) {
        out_field_bool(d->out, key, value);
        return;
    }
    gap(d);
    out_printf(d->out, "%s: %s", key, value ? "true" : "false");
}

void dump_text(struct dump *d, const char *key, struct str value)
{
    if (d->json) {
        out_field_text(d->out, key, value);
        return;
    }
    gap(d);
    out_printf(d->out, "%s: ", key);
    if (value.p == NULL)
        out_str(d->out, STR("null"));
    else
        out_safe(d->out, (struct bytes){(const uint8_t *)value.p, value.len});
}

/* ---- What is wrong ---- */

bool dump_problem(struct dump *d, const struct problem *problem)
{
    tool_fail(d->tool, problem);
    if (d->json) {
        dump_begin(d);
        out_field_text(d->out, "error", str_of(problem->message));
        dump_end(d);
    }
    return false;
}

bool dump_damage(struct dump *d, int64_t position, const char *format, ...)
{
    char what[256];
    struct problem problem = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (position >= 0)
        problem_set(&problem, ERR_CORRUPT, "%s is damaged at position %lld: %s.", d->path, (long long)position, what);
    else
        problem_set(&problem, ERR_CORRUPT, "%s is damaged: %s.", d->path, what);
    tool_fail(d->tool, &problem);
    if (d->json) {
        dump_begin(d);
        out_field_text(d->out, "error", str_of(what));
        out_field_i64(d->out, "errorPosition", position);
        dump_end(d);
    }
    return false;
}

bool dump_unreadable(struct dump *d, enum error error)
{
    struct problem problem = {0};
    problem_set(&problem, error, "%s cannot be read: %s", d->path, error_message(error));
    return dump_problem(d, &problem);
}

/* ---- Which kind ---- */

static const struct {
    const char *end; /* of the name; all of it when whole */
    bool whole;
    bool (*dump)(struct dump *d);
} KINDS[] = {
    {SEGMENT_LOG_SUFFIX, false, dump_segment},
    {SEGMENT_INDEX_SUFFIX, false, dump_offset_index},
    {SEGMENT_TIME_INDEX_SUFFIX, false, dump_time_index},
    {SEGMENT_TXN_INDEX_SUFFIX, false, dump_txn_index},
    {".snapshot", false, dump_snapshot},
    {RECOVERY_POINT_CHECKPOINT, true, dump_checkpoint},
    {LOG_START_CHECKPOINT, true, dump_checkpoint},
    {HIGH_WATERMARK_CHECKPOINT, true, dump_checkpoint},
    {"cleaner-offset-checkpoint", true, dump_checkpoint},
    {LEADER_EPOCH_CHECKPOINT, true, dump_leader_epochs},
    {PARTITION_METADATA_FILE, true, dump_partition_metadata},
    {META_PROPERTIES_FILE, true, dump_meta_properties},
    {CLEAN_SHUTDOWN_FILE, true, dump_clean_shutdown},
};

static bool ends_with(const char *s, const char *end)
{
    size_t len = strlen(s), end_len = strlen(end);
    return len >= end_len && strcmp(s + len - end_len, end) == 0;
}

static bool dump_by_name(struct dump *d)
{
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++) {
        if (KINDS[i].whole ? strcmp(d->name, KINDS[i].end) == 0 : ends_with(d->name, KINDS[i].end))
            return KINDS[i].dump(d);
    }
    struct problem problem = {0};
    problem_set(&problem, ERR_UNSUPPORTED, "%s has the name of no file that dump-log knows.", d->path);
    problem_hint(
        &problem,
        "It reads .log, .index, .timeindex, .txnindex and .snapshot files, checkpoints, partition.metadata and meta.properties.");
    return dump_problem(d, &problem);
}

static bool dump_file(struct dump *d)
{
    static const char *const passing[] = {".deleted", ".cleaned", ".swap"}; /* a file on its way in or out */
    const char *slash = strrchr(d->path, '/');
    char *name = mem_strdup(slash != NULL ? slash + 1 : d->path);
    for (size_t i = 0; i < ARRAY_SIZE(passing); i++) {
        if (ends_with(name, passing[i]))
            name[strlen(name) - strlen(passing[i])] = '\0';
    }
    d->name = name;
    bool is_dir = false, good;
    enum error error = fs_stat(d->fs, d->path, &is_dir, NULL, NULL);
    if (error != OK) {
        good = dump_unreadable(d, error);
    } else if (is_dir) {
        struct problem problem = {0};
        problem_set(&problem, ERR_INVALID, "%s is a folder.", d->path);
        problem_hint(&problem, "Name the files: %s/*.log", d->path);
        good = dump_problem(d, &problem);
    } else {
        if (!d->json)
            out_printf(d->out, "Dumping %s\n", d->path);
        good = dump_by_name(d);
    }
    mem_free(name);
    return good;
}

int run_dump_log(struct tool *tool)
{
    const struct args *a = &tool->args;
    struct dump d = {.tool = tool, .out = &tool->out, .fs = fs_system(), .json = tool->json, .records = args_flag(a, "records")};
    bool good = true;
    for (int i = 0; i < a->word_count && out_ok(d.out); i++) {
        d.path = a->words[i];
        good = dump_file(&d) && good;
    }
    for (int i = 0; (d.path = args_text_at(a, "producers", i)) != NULL; i++)
        good = dump_file(&d) && good;
    return good ? 0 : EXIT_FAILED;
}
