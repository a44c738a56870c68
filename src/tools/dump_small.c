/* Producer snapshots and the small text files. */
#include "base/assert.h"
#include "storage/checkpoint.h"
#include "storage/producer_state.h"
#include "tools/dump.h"

static void print_producer(struct dump *d, const struct producer_entry *e)
{
    const struct producer_batch *last = e->batch_count > 0 ? &e->batches[e->batch_count - 1] : NULL;
    dump_begin(d);
    dump_i64(d, "producerId", e->producer_id);
    dump_i64(d, "producerEpoch", e->producer_epoch);
    dump_i64(d, "coordinatorEpoch", e->coordinator_epoch);
    dump_i64(d, "currentTxnFirstOffset", e->current_txn_first_offset);
    dump_i64(d, "lastTimestamp", e->last_timestamp);
    dump_i64(d, "firstSequence", last != NULL ? producer_batch_first_sequence(last) : -1);
    dump_i64(d, "lastSequence", producer_entry_last_sequence(e));
    dump_i64(d, "lastOffset", producer_entry_last_offset(e));
    dump_i64(d, "offsetDelta", last != NULL ? last->offset_delta : 0);
    dump_i64(d, "timestamp", last != NULL ? last->timestamp : -1);
    dump_end(d);
}

bool dump_snapshot(struct dump *d)
{
    struct buf content = {0};
    struct problem problem = {0};
    struct producer_entry *entries = NULL;
    int count = 0;
    bool good = true;
    enum error error = fs_read_file(d->fs, d->path, PRODUCER_SNAPSHOT_MAX_BYTES, &content);
    if (error != OK)
        good = dump_unreadable(d, error);
    else if (producer_snapshot_decode(buf_bytes(&content), &entries, &count, &problem) != OK)
        good = dump_damage(d, -1, "%.*s", (int)MAX(0, (int)str_of(problem.message).len - 1), problem.message);
    for (int i = 0; i < count; i++)
        print_producer(d, &entries[i]);
    mem_free(entries);
    buf_fini(&content);
    return good;
}

bool dump_checkpoint(struct dump *d)
{
    struct offset_checkpoint c = {0};
    struct problem problem = {0};
    if (offset_checkpoint_read(d->fs, d->path, &c, &problem) != OK)
        return dump_problem(d, &problem);
    for (size_t i = 0; i < c.count; i++) {
        dump_begin(d);
        dump_text(d, "topic", c.entries[i].topic);
        dump_i64(d, "partition", c.entries[i].partition);
        dump_i64(d, "offset", c.entries[i].offset);
        dump_end(d);
    }
    offset_checkpoint_fini(&c);
    return true;
}

bool dump_leader_epochs(struct dump *d)
{
    struct epoch_entry *entries = NULL;
    size_t count = 0;
    struct problem problem = {0};
    if (epoch_checkpoint_read(d->fs, d->path, &entries, &count, &problem) != OK)
        return dump_problem(d, &problem);
    for (size_t i = 0; i < count; i++) {
        dump_begin(d);
        dump_i64(d, "leaderEpoch", entries[i].epoch);
        dump_i64(d, "startOffset", entries[i].start_offset);
        dump_end(d);
    }
    mem_free(entries);
    return true;
}

bool dump_partition_metadata(struct dump *d)
{
    struct uuid id;
    struct problem problem = {0};
    char text[UUID_TEXT_SIZE];
    if (partition_metadata_read(d->fs, d->path, &id, &problem) != OK)
        return dump_problem(d, &problem);
    dump_begin(d);
    dump_i64(d, "version", 0);
    dump_text(d, "topicId", str_of(uuid_text(&id, text)));
    dump_end(d);
    return true;
}

bool dump_meta_properties(struct dump *d)
{
    struct meta_properties meta;
    struct problem problem = {0};
    char text[UUID_TEXT_SIZE];
    if (meta_properties_read(d->fs, d->path, &meta, &problem) != OK)
        return dump_problem(d, &problem);
    dump_begin(d);
    dump_text(d, "clusterId", str_of(meta.cluster_id));
    dump_i64(d, "nodeId", meta.node_id);
    dump_text(d, "directoryId", uuid_is_zero(&meta.directory_id) ? STR_NULL : str_of(uuid_text(&meta.directory_id, text)));
    dump_end(d);
    return true;
}

bool dump_clean_shutdown(struct dump *d)
{
    int64_t epoch = -1;
    (void)clean_shutdown_present(d->fs, d->path, &epoch);
    dump_begin(d);
    dump_i64(d, "brokerEpoch", epoch);
    dump_end(d);
    return true;
}
