/* The small text files of a log directory and of a partition's folder, as Kafka writes them (CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile,
 * MetaPropertiesEnsemble, CleanShutdownFileHandler).
 *
 *   recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint (one per log directory)
 *       0 / COUNT / "TOPIC PARTITION OFFSET" per line
 *   leader-epoch-checkpoint (one per partition)       0 / COUNT / "EPOCH START_OFFSET" per line
 *   partition.metadata (one per partition)            "version: 0" / "topic_id: BASE64"
 *   meta.properties (one per log directory)           version=1, cluster.id, node.id, directory.id, as a properties file
 *   .kafka_cleanshutdown (one per log directory)      {"version":0,"brokerEpoch":N}; that it is there says that the last end was clean
 *
 * Written with fs_write_atomic: after a crash the old or the new content stands. Reading: ERR_NOT_FOUND when the file is missing; ERR_CORRUPT with a problem that names file and
 * line when it is damaged; ERR_UNSUPPORTED for a version that is not known; ERR_IO. Any thread; one writer per file at a time. */
#ifndef KAGAMI_STORAGE_CHECKPOINT_H
#define KAGAMI_STORAGE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "os/file.h"

#define RECOVERY_POINT_CHECKPOINT "recovery-point-offset-checkpoint"
#define LOG_START_CHECKPOINT "log-start-offset-checkpoint"
#define HIGH_WATERMARK_CHECKPOINT "replication-offset-checkpoint"
#define LEADER_EPOCH_CHECKPOINT "leader-epoch-checkpoint"
#define PARTITION_METADATA_FILE "partition.metadata"
#define META_PROPERTIES_FILE "meta.properties"
#define SYNC_FAILED_FILE ".kagami-sync-failed" /* empty; our own: see log_manager.c */
#define CLEAN_SHUTDOWN_FILE ".kafka_cleanshutdown"

/* A million partitions of one directory with long names; more is damage. */
#define CHECKPOINT_MAX_BYTES (300 * 1024 * 1024)

/* ---- Offsets of partitions ---- */

struct offset_checkpoint_entry {
    struct str topic; /* in the checkpoint's memory */
    int32_t partition;
    int64_t offset;
};

struct offset_checkpoint {
    struct offset_checkpoint_entry *entries; /* sorted by topic and partition when read */
    size_t count, capacity;
    struct buf text;
};

void offset_checkpoint_fini(struct offset_checkpoint *c);
/* path is the whole path. On an error *c is empty. A partition that comes twice has its last value. */
MUST_CHECK enum error offset_checkpoint_read(struct fs *fs, const char *path, struct offset_checkpoint *ret_checkpoint,
                                             struct problem *problem);
/* NULL when it is not there. */
const int64_t *offset_checkpoint_get(const struct offset_checkpoint *c, struct str topic, int32_t partition);
/* Entries in any order; topics need not be owned by a checkpoint. */
MUST_CHECK enum error offset_checkpoint_write(struct fs *fs, const char *path, const struct offset_checkpoint_entry *entries,
                                              size_t count);
/* The parser alone, for fuzzing; name is for the problem. Takes over text (cleared on error). */
MUST_CHECK enum error offset_checkpoint_parse(struct buf *text, const char *name, struct offset_checkpoint *ret_checkpoint,
                                              struct problem *problem);

/* ---- Leader epochs ---- */

struct epoch_entry {
    int32_t epoch;
    int64_t start_offset;
};
/* *ret_entries is to be freed with mem_free. Epochs and offsets rise, or it is ERR_CORRUPT. */
MUST_CHECK enum error epoch_checkpoint_read(struct fs *fs, const char *path, struct epoch_entry **ret_entries, size_t *ret_count,
                                            struct problem *problem);
MUST_CHECK enum error epoch_checkpoint_write(struct fs *fs, const char *path, const struct epoch_entry *entries, size_t count);
MUST_CHECK enum error epoch_checkpoint_parse(struct str text, const char *name, struct epoch_entry **ret_entries,
                                             size_t *ret_count, struct problem *problem);

/* ---- partition.metadata ---- */

MUST_CHECK enum error partition_metadata_read(struct fs *fs, const char *path, struct uuid *ret_topic_id,
                                              struct problem *problem);
MUST_CHECK enum error partition_metadata_write(struct fs *fs, const char *path, const struct uuid *topic_id);
/* Without the folder's sync, which is left to the caller. */
MUST_CHECK enum error partition_metadata_replace(struct fs *fs, const char *path, const struct uuid *topic_id);
/* Neither atomic nor durable: for a folder that was made just now. A power cut may leave the file missing, empty or torn. */
MUST_CHECK enum error partition_metadata_create(struct fs *fs, const char *path, const struct uuid *topic_id);
MUST_CHECK enum error partition_metadata_parse(struct str text, const char *name, struct uuid *ret_topic_id,
                                               struct problem *problem);

/* ---- meta.properties ---- */

#define CLUSTER_ID_MAX 64

struct meta_properties {
    char cluster_id[CLUSTER_ID_MAX];
    int32_t node_id;          /* -1: not in the file */
    struct uuid directory_id; /* zero: not in the file */
};
/* Version 0 (broker.id) and 1 (node.id) are read, 1 is written. */
MUST_CHECK enum error meta_properties_read(struct fs *fs, const char *path, struct meta_properties *ret_meta,
                                           struct problem *problem);
MUST_CHECK enum error meta_properties_write(struct fs *fs, const char *path, const struct meta_properties *meta);
MUST_CHECK enum error meta_properties_parse(struct str text, const char *name, struct meta_properties *ret_meta,
                                            struct problem *problem);

/* ---- .kafka_cleanshutdown ---- */

/* broker_epoch: -1 when there is none. */
MUST_CHECK enum error clean_shutdown_write(struct fs *fs, const char *path, int64_t broker_epoch);
/* Whether it is there; *ret_broker_epoch (may be NULL) is -1 when its content says nothing. */
bool clean_shutdown_present(struct fs *fs, const char *path, int64_t *ret_broker_epoch);
/* Durably; a missing one is OK. `path` and the folder that holds it. */
MUST_CHECK enum error clean_shutdown_remove(struct fs *fs, const char *dir);

#endif
