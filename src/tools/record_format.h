/* One consumed record, as text by a format or as a line of JSON. */
#ifndef KAGAMI_TOOLS_RECORD_FORMAT_H
#define KAGAMI_TOOLS_RECORD_FORMAT_H

#include "codec/record_batch.h"
#include "tools/out.h"

struct record_place {
    const char *topic;
    int32_t partition;
    int32_t leader_epoch;
    bool log_append_time;
};

/* Where a format is wrong ("%x", "\\x"); NULL: it is fine. */
const char *record_format_check(const char *format);
/* A line per record. format NULL: "%k\t%v", without a key "%v". On a terminal control characters are escaped; elsewhere keys and
 * values are written as they are. */
void record_print(struct out *out, const char *format, const struct record_place *place, const struct record *record);
void record_print_json(struct out *out, const struct record_place *place, const struct record *record);

#endif
