/* Making images out of the store's entries: the controller's part of meta/image.h. One thread at a time. */
#ifndef KAGAMI_META_IMAGE_BUILD_H
#define KAGAMI_META_IMAGE_BUILD_H

#include <jansson.h>

#include "base/error.h"
#include "meta/image.h"
#include "meta/store.h"

/* Keys of the store that an image is made of. */
#define KEY_CLUSTER "cluster"
#define KEY_BROKERS "brokers/"
#define KEY_TOPICS "topics/"
#define KEY_PARTITIONS "partitions/"
#define KEY_CONFIGS_TOPICS "configs/topics/"
#define KEY_CONFIGS_BROKERS "configs/brokers/"
#define KEY_CONFIGS_BROKERS_DEFAULT "configs/brokers-default"

/* An image with no topic and no broker. */
struct image *image_create(int32_t node_id, const struct properties *static_configs);
/* The image after the events of one commit. ERR_CORRUPT names the key that can't be understood (nothing is built then). */
MUST_CHECK enum error image_apply(const struct image *before, const struct meta_event *events, int count, int64_t revision,
                                  const struct image **ret_image, struct problem *problem);

void image_topic_unref(struct image_topic *topic);

/* Values as they are written. A new reference each. */
json_t *image_topic_json(const struct uuid *id, int32_t partitions);
json_t *image_partition_json(const struct image_partition *partition);
json_t *image_configs_json(const struct image_configs *configs);
json_t *image_broker_json(const char *host, int32_t port, const char *rack);

void image_configs_fini(struct image_configs *configs);
void image_configs_copy(struct image_configs *dst, const struct image_configs *src);      /* dst is uninitialised */
void image_configs_set(struct image_configs *configs, struct str name, struct str value); /* value null: remove */

#endif
