/* The suite that every backend of the metadata store must pass: it sees only meta/store.h. */
#ifndef KAGAMI_TESTS_UNIT_META_STORE_SUITE_H
#define KAGAMI_TESTS_UNIT_META_STORE_SUITE_H

#include "meta/store.h"

struct store_backend {
    /* Opens the store of this run; a second call after close sees what was committed. */
    struct meta_store *(*open)(void);
    void (*wipe)(void); /* the next open finds an empty store */
};

int store_suite_run(const struct store_backend *backend);

#endif
