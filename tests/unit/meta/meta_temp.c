#include "meta_temp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "os/file.h"
#include "unit.h"

static char dir[64];

const char *temp_dir(void)
{
    if (dir[0] == '\0') {
        strcpy(dir, "/tmp/kagami-meta-XXXXXX");
        assert_non_null(mkdtemp(dir));
    }
    return dir;
}

char *temp_path(const char *name)
{
    size_t size = strlen(temp_dir()) + strlen(name) + 2;
    char *path = mem_alloc(size);
    snprintf(path, size, "%s/%s", temp_dir(), name);
    return path;
}

void temp_remove(void)
{
    if (dir[0] != '\0')
        assert_ok(fs_remove_tree(fs_system(), dir));
    dir[0] = '\0';
}

void cluster_start(struct cluster *c)
{
    struct problem problem;
    char *path = temp_path("metadata.db");
    memset(c, 0, sizeof(*c));
    seeded_random_init(&c->random, 7);
    arena_init(&c->arena, 64 * 1024 * 1024);
    assert_ok(meta_store_open_sqlite(path, &c->store, &problem));
    struct controller_params params = {
        .store = c->store,
        .random = &c->random.source,
        .node_id = 1,
        .host = "localhost",
        .port = 9092,
        .properties = &c->properties,
    };
    assert_ok(controller_create(&params, &c->controller, &problem));
    mem_free(path);
}

void cluster_stop(struct cluster *c)
{
    controller_destroy(c->controller);
    meta_store_close(c->store);
    properties_fini(&c->properties);
    arena_fini(&c->arena);
}

const struct image *cluster_image(struct cluster *c)
{
    return image_cell_get(controller_images(c->controller));
}
