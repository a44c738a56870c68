/* Partitions on a log directory and metadata of their own, without a network: a controller makes topics and the registry follows. */
#ifndef KAGAMI_TESTS_REGISTRY_FIXTURE_H
#define KAGAMI_TESTS_REGISTRY_FIXTURE_H

#include "base/arena.h"
#include "meta/controller.h"
#include "meta/store.h"
#include "repl/partitions.h"
#include "storage/log_manager.h"

struct registry_fixture {
    char root[64];
    struct manual_clock clock;
    struct seeded_random random;
    struct properties properties;
    struct helpers *helpers;
    struct loop *loop;
    struct meta_store *store;
    struct controller *controller;
    struct log_manager *logs;
    struct partitions *partitions;
    struct image_listener listener;
    struct arena arena;
    _Atomic int opened, closing; /* callbacks */
};

void registry_fixture_init(struct registry_fixture *f);
void registry_fixture_fini(struct registry_fixture *f);
/* Ends and begins anew on the same folder. */
void registry_fixture_restart(struct registry_fixture *f);
struct uuid create_topic(struct registry_fixture *f, const char *name, int32_t partitions);
void delete_topic(struct registry_fixture *f, const char *name);
/* One record with acks=1. */
void write_to(struct registry_fixture *f, const char *topic, int32_t index);
struct partition *must_find(struct registry_fixture *f, const char *topic, int32_t index);

#endif
