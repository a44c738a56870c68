/* A broker without its server: store, controller, logs, partitions, mirrors on real threads and a real folder; and calls on
 * its mirrors as a client would make them. */
#ifndef KAGAMI_TESTS_MIRROR_FIXTURE_H
#define KAGAMI_TESTS_MIRROR_FIXTURE_H

#include "base/arena.h"
#include "fake_source.h"
#include "mirror/internal.h"
#include "os/file.h"
#include "proto/messages.h"
#include "proto/proto.h"
#include "storage/log_manager.h"
#include "unit.h"

struct mirror_fixture {
    char root[64];
    struct fs *fs; /* of the logs; the metadata are on the real disk */
    struct seeded_random random;
    struct properties properties;
    struct helpers *helpers;
    struct loop_group *loops;
    struct meta_store *store;
    struct controller *controller;
    struct log_manager *logs;
    struct partitions *partitions;
    struct mirrors *mirrors;
    struct image_listener listener;
    char cluster_id[UUID_TEXT_SIZE];
    struct arena arena;
};

void fixture_init(struct mirror_fixture *f);                   /* a new folder; started */
void fixture_init_on(struct mirror_fixture *f, struct fs *fs); /* the same, with the logs on another file system */
void fixture_start(struct mirror_fixture *f);
void fixture_stop(struct mirror_fixture *f, bool clean); /* clean false: as kill -9 leaves it */
void fixture_fini(struct mirror_fixture *f);             /* stops, removes the folder */

/* Response struct in the arena. */
void *fixture_call(struct mirror_fixture *f, int16_t key, const void *request);
/* The usual ones; they assert that all went well. settings: pairs, NULL at the end. */
void fixture_create(struct mirror_fixture *f, const char *mirror, struct fake_source *s, const char *const *settings);
void fixture_start_topic(struct mirror_fixture *f, const char *mirror, const char *topic, bool discard);
int16_t fixture_try_start(struct mirror_fixture *f, const char *mirror, const char *topic, bool discard);
struct stop_mirror_topics_response *fixture_stop_topic(struct mirror_fixture *f, const char *mirror, const char *topic);
const struct describe_cluster_mirrors_response_mirrors_topics_partitions *fixture_describe(struct mirror_fixture *f,
                                                                                           const char *topic, int partition);
int16_t fixture_act(struct mirror_fixture *f, int16_t key, const char *mirror,
                    const char *topic); /* pause, resume, recover: the topic's error code */

/* Waits (10 s) until the partition is in the state; fails the test else. */
void fixture_await_state(struct mirror_fixture *f, const char *topic, int partition, const char *state);
void fixture_await_end(struct mirror_fixture *f, const char *topic, int partition, int64_t end_offset);
struct partition *fixture_partition(struct mirror_fixture *f, const char *topic, int partition); /* a reference */
/* All bytes of the log. */
void fixture_read(struct mirror_fixture *f, const char *topic, int partition, struct buf *out);
/* What a client write of n plain records is answered. */
enum error fixture_write(struct mirror_fixture *f, const char *topic, int partition, struct problem *problem);

#endif
