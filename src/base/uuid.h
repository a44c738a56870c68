/* 128-bit ids as Kafka uses them: 16 bytes on the wire, 22 characters of URL-safe base64 without padding in text (org.apache.kafka.common.Uuid).
 * All zeroes is "none". Any thread. */
#ifndef KAGAMI_BASE_UUID_H
#define KAGAMI_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define UUID_TEXT_SIZE 23

struct uuid {
    uint8_t b[16];
};

extern const struct uuid UUID_ZERO;

bool uuid_eq(const struct uuid *a, const struct uuid *b);
bool uuid_is_zero(const struct uuid *u);
/* Version 4 from 16 random bytes; never zero, never text that begins with '-' (Kafka's tools would take it for an option). */
bool uuid_from_random(const uint8_t random[16], struct uuid *ret_uuid); /* false: draw again */
char *uuid_text(const struct uuid *u, char out[UUID_TEXT_SIZE]);
bool uuid_parse(struct str text, struct uuid *ret_uuid);

#endif
