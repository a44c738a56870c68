/* dump-log: what is in the files of a partition and of a log directory, read-only. Each kind of file has a function that prints it;
 * where a file is damaged it prints everything before, then says the position and what is wrong, and returns false. */
#ifndef KAGAMI_TOOLS_DUMP_H
#define KAGAMI_TOOLS_DUMP_H

#include "os/file.h"
#include "tools/tool.h"

struct dump {
    struct tool *tool;
    struct out *out;
    struct fs *fs;
    const char *path; /* as it was given */
    const char *name; /* its last part, without .deleted, .cleaned, .swap */
    bool json;
    bool records;
};

bool dump_segment(struct dump *d);       /* .log */
bool dump_offset_index(struct dump *d);  /* .index */
bool dump_time_index(struct dump *d);    /* .timeindex */
bool dump_txn_index(struct dump *d);     /* .txnindex */
bool dump_snapshot(struct dump *d);      /* .snapshot */
bool dump_checkpoint(struct dump *d);    /* .. -offset-checkpoint */
bool dump_leader_epochs(struct dump *d); /* leader-epoch-checkpoint */
bool dump_partition_metadata(struct dump *d);
bool dump_meta_properties(struct dump *d);
bool dump_clean_shutdown(struct dump *d);

/* "key: value " for people, a field for programs. A line is begun and ended by dump_begin and dump_end. */
void dump_begin(struct dump *d);
void dump_end(struct dump *d);
void dump_i64(struct dump *d, const char *key, int64_t value);
void dump_bool(struct dump *d, const char *key, bool value);
void dump_text(struct dump *d, const char *key, struct str value);
/* Says what is wrong with the file; position -1: none. Returns false. */
bool dump_damage(struct dump *d, int64_t position, const char *format, ...) PRINTF_LIKE(3, 4);
/* The problem as it is. Returns false. */
bool dump_problem(struct dump *d, const struct problem *problem);
/* The file could not be opened or read. Returns false. */
bool dump_unreadable(struct dump *d, enum error error);

#endif
