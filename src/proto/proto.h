/* Kafka's wire messages: one table-driven interpreter decodes, encodes, sizes and prints every version of every message.
 *
 * The schemas are schema/NAME.api; the generator makes proto/messages.h (structs, message and struct descriptors, API keys) from them.
 * Names: struct snake_case of Kafka's message name, nested structs by path (struct fetch_request_topics_partitions), fields snake_case.
 * A struct has the fields of all versions; those that a version does not have keep their default. Arrays are a pointer and NAME_n
 * (-1 = null); a nullable struct is a pointer (NULL = null); a string, bytes or records whose p is NULL is null.
 * Rules: KIP-482 (flexible versions), Kafka's message README, class MessageDataGenerator. Everything here may run on any thread, on
 * objects that no other thread changes. */
#ifndef KAGAMI_PROTO_PROTO_H
#define KAGAMI_PROTO_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/chain.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"

/* Record batches. Decoded: p and len view the input. To encode, either p and len, or chain, whose content (of chain->len bytes) the encoder
 * moves into its output without a copy, leaving it empty. p and chain NULL: null. */
struct records {
    const uint8_t *p;
    int32_t len;
    struct chain *chain;
};

struct proto_message; /* PROTO_FETCH_REQUEST and so on, in proto/messages.h */
struct proto_struct;  /* one struct of a message */
struct request_header;

/* One API of the table. */
struct proto_api {
    int16_t key;
    const char *name; /* Kafka's: "Fetch" */
    const struct proto_message *request, *response;
    int16_t valid_min, valid_max;     /* versions that can be encoded and decoded */
    int16_t offered_min, offered_max; /* what ApiVersions announces; min > max: nothing. May begin below valid_min (Produce) */
    int16_t flexible_min;             /* INT16_MAX: none is flexible */
};

/* NULL: no such API. */
const struct proto_api *proto_api(int16_t key);
/* All of them by ascending key; NULL at the end. */
const struct proto_api *proto_api_at(size_t index);
bool proto_api_valid(const struct proto_api *api, int16_t version);
/* Both offered and valid: a request of any other version gets no answer (ApiVersions: error 35). */
bool proto_api_served(const struct proto_api *api, int16_t version);
int16_t proto_request_header_version(const struct proto_api *api, int16_t version);
int16_t proto_response_header_version(const struct proto_api *api, int16_t version); /* always 0 for ApiVersions (KIP-511) */

const char *proto_name(const struct proto_message *message); /* Kafka's: "FetchRequest" */
bool proto_valid(const struct proto_message *message, int16_t version);
size_t proto_struct_size(const struct proto_message *message); /* sizeof the C struct, for generic code */

/* Sets every field of a message's struct to its default. Needed before fields are filled in for proto_encode. */
void proto_init(const struct proto_message *message, void *ret_message);
/* `n` elements set to their defaults, for an array field; NULL above the arena's limit (or n < 0). Typed forms are generated:
 * struct fetch_response_responses *fetch_response_responses_new(struct arena *arena, int32_t n). */
void *proto_new(const struct proto_struct *type, struct arena *arena, int32_t n);

/* Decodes from the front of `in`. Strings, bytes and records view `in` and live as long as it; arrays are in the arena. *ret_used is
 * how many bytes the message had: what is behind them is the caller's affair (Kafka ignores it behind a body).
 * ERR_TRUNCATED: ends too early, or an array count that the rest could never hold. ERR_MALFORMED: a length below -1, null where the version
 * has none, a string above 32767 bytes, tags that repeat or descend, a tagged field that does not fill its size. ERR_TOO_LARGE: the
 * arena's limit. ERR_UNSUPPORTED: no valid version of the message. *out has any content after an error. ret_used may be NULL. */
MUST_CHECK enum error proto_decode(const struct proto_message *message, int16_t version, struct bytes in, struct arena *arena,
                                   void *out, size_t *ret_used);

/* Appends the message to `out`. Strings and bytes are copied, chains of records moved. Nothing is changed on error:
 * ERR_UNSUPPORTED: the version is not valid, or cannot express a field that has another value than its default and is not ignorable.
 * ERR_INVALID: null where the version has none, a negative length. ERR_TOO_LARGE: a string above 32767 bytes, a message above 2 GiB. */
MUST_CHECK enum error proto_encode(const struct proto_message *message, int16_t version, const void *in, struct chain *out);
/* Bytes that proto_encode would append, the records of chains included; the same errors. */
MUST_CHECK enum error proto_size(const struct proto_message *message, int16_t version, const void *in, size_t *ret_size);

/* One line of JSON: the fields that the version has, under the protocol's names in camelCase. int64 as numbers, uuids in Kafka's text,
 * bytes in base64, records as their size {"sizeInBytes":n}; bytes of strings that are not UTF-8 as U+FFFD. */
void proto_print_json(const struct proto_message *message, int16_t version, const void *in, struct buf *out);

/* The header at the front of a request frame (without its length): the header's version follows from API and version. *ret_api is NULL for
 * an unknown key. *ret_used: where the body begins.
 * ERR_UNSUPPORTED: unknown key or a version that is not valid; then the header's key, version and correlation id are set and *ret_api too, so
 * that ApiVersions can answer with error 35; *ret_used is not. Other errors as proto_decode, and nothing is set.
 * Whether the version is also offered is the caller's check (proto_api_served). */
MUST_CHECK enum error proto_decode_request_header(struct bytes in, struct request_header *ret_header,
                                                  const struct proto_api **ret_api, size_t *ret_used);

/* Whole frames, length in front, appended to `out`; errors as proto_encode, nothing is changed on error. client_id may be null. */
MUST_CHECK enum error proto_encode_request(const struct proto_api *api, int16_t version, int32_t correlation_id,
                                           struct str client_id, const void *body, struct chain *out);
MUST_CHECK enum error proto_encode_response(const struct proto_api *api, int16_t version, int32_t correlation_id,
                                            const void *body, struct chain *out);
/* A response frame (without its length): header, then body. ERR_MALFORMED also when the correlation id is another one. */
MUST_CHECK enum error proto_decode_response(const struct proto_api *api, int16_t version, int32_t correlation_id, struct bytes in,
                                            struct arena *arena, void *out);

/* The value of a control record as JSON, for those of Kafka's types and ours that have a schema: EndTxnMarker (types 0 and 1),
 * LeaderChangeMessage (2), the snapshot records (3, 4), KRaft version and voters (5, 6), MirrorPidResetRecord (7). ERR_NOT_FOUND: another
 * type; ERR_UNSUPPORTED: another version than known; else as proto_decode. Appends nothing on error. */
MUST_CHECK enum error proto_print_control(int16_t type, struct bytes value, struct buf *out);

#endif
