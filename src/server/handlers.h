/* The handlers, one per API: which function answers which request. One file per API family. A line here makes an API offered, with the versions that its
 * schema says are offered; whoever writes a handler adds its line.
 *
 * HANDLER(API key, function) */
#ifndef KAGAMI_SERVER_HANDLERS_H
#define KAGAMI_SERVER_HANDLERS_H

#include "server/request.h"

/* clang-format off */
#define HANDLERS(X) \
    X(18, handle_api_versions)
/* clang-format on */

#define X(key, function) void function(struct request *r);
HANDLERS(X)
#undef X

#endif
