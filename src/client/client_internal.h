/* Shared by the files of this layer only. */
#ifndef KAGAMI_CLIENT_CLIENT_INTERNAL_H
#define KAGAMI_CLIENT_CLIENT_INTERNAL_H

#include "client/client.h"
#include "proto/messages.h"
#include "proto/proto.h"

struct client_response *client_response_new(int16_t api_key, int16_t version);
/* An answer that did not come. Runs done and frees what it does not keep. */
void client_fail(client_done *done, void *arg, int16_t api_key, int16_t version, const struct problem *problem);

/* A copy of a Metadata answer, in memory of its own. ERR_MALFORMED: partitions that are missing or double, addresses that are
 * none. */
MUST_CHECK enum error client_metadata_create(const struct metadata_response *response, struct client_metadata **ret_metadata);
void client_metadata_destroy(struct client_metadata *m); /* NULL is OK */

#endif
