/* A folder of its own for a test, and what several tests of this layer start with. */
#ifndef KAGAMI_TESTS_UNIT_META_TEMP_H
#define KAGAMI_TESTS_UNIT_META_TEMP_H

#include "base/arena.h"
#include "meta/controller.h"
#include "meta/store.h"
#include "os/random.h"

const char *temp_dir(void);        /* made on the first call */
char *temp_path(const char *name); /* mem_free */
void temp_remove(void);            /* the folder and all in it */

/* A controller on a new store with one broker, id 1; seeded random numbers. */
struct cluster {
    struct meta_store *store;
    struct controller *controller;
    struct seeded_random random;
    struct properties properties;
    struct arena arena;
};
void cluster_start(struct cluster *c);                /* on what the folder holds */
void cluster_stop(struct cluster *c);                 /* keeps the folder */
const struct image *cluster_image(struct cluster *c); /* image_unref */

#endif
