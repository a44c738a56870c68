/* Shared by the units below the log: a scratch folder, golden files written by a real Kafka (data/README.md), batches. */
#ifndef KAGAMI_TESTS_STORE_HELP_H
#define KAGAMI_TESTS_STORE_HELP_H

#include "unit.h"

#include "base/buf.h"
#include "os/file.h"
#include "storage/producer_state.h"
#include "storage/segment.h"

#define GOLDEN_RUNNING UNIT_DATA "/running" /* as kill -9 would leave it */
#define GOLDEN_STOPPED UNIT_DATA "/stopped" /* after a clean stop */

struct scratch {
    char dir[64];
};
int scratch_setup(void **state); /* *state is a struct scratch */
int scratch_teardown(void **state);
/* "DIR/NAME" in one of a few rotating buffers. */
const char *path_in(const char *dir, const char *name);
void read_file(const char *path, struct buf *out); /* clears *out */
void write_file(const char *path, const void *data, size_t len);
void copy_file(const char *from_dir, const char *name, const char *to_dir);
void assert_files_equal(const char *path, const char *golden_path);

/* One record of `payload` bytes and the given offset and timestamp. */
void put_batch(struct buf *out, int64_t offset, int64_t timestamp, size_t payload);
/* Several records, timestamps one apart from `timestamp` on. */
void put_batch_of(struct buf *out, int64_t offset, int count, int64_t timestamp);
/* Appends the batches in `batches` to a segment. */
void append_batches(struct segment *s, const struct buf *batches, int64_t index_interval_bytes);
/* segment_visit: feeds a batch to a producer state (arg) as a replay does, and the aborted ones to nothing. */
enum error replay_batch(void *arg, const uint8_t *batch, uint64_t pos);

#endif
