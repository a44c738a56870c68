/* Errors: one enum for the wire and for ourselves.
 *
 * 0 is success, values above 0 (and UNKNOWN_SERVER_ERROR, -1) are Kafka's error codes (class org.apache.kafka.common.protocol.Errors)
 * and the mirror's of mirror_wire.h; values of -1001 and below are local and never leave the process (error_wire() maps them).
 * Functions return `enum error`; outputs are the last parameters, named ret_x, and written only on success. */
#ifndef KAGAMI_BASE_ERROR_H
#define KAGAMI_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mirror_wire.h"

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* clang-format off */
#define WIRE_ERRORS(X) \
    X(UNKNOWN_SERVER_ERROR, -1, "The server met an unexpected error.") \
    X(OFFSET_OUT_OF_RANGE, 1, "The offset is outside the range that the partition holds.") \
    X(CORRUPT_MESSAGE, 2, "The data failed its CRC check or is otherwise damaged.") \
    X(UNKNOWN_TOPIC_OR_PARTITION, 3, "This server does not host this topic or partition.") \
    X(INVALID_FETCH_SIZE, 4, "The requested fetch size is invalid.") \
    X(LEADER_NOT_AVAILABLE, 5, "The partition has no leader at the moment.") \
    X(NOT_LEADER_OR_FOLLOWER, 6, "This broker is not the leader or not a replica of the partition.") \
    X(REQUEST_TIMED_OUT, 7, "The request timed out.") \
    X(BROKER_NOT_AVAILABLE, 8, "The broker is not available.") \
    X(REPLICA_NOT_AVAILABLE, 9, "The replica is not available.") \
    X(MESSAGE_TOO_LARGE, 10, "The batch is larger than the topic allows.") \
    X(STALE_CONTROLLER_EPOCH, 11, "The controller moved to another broker.") \
    X(OFFSET_METADATA_TOO_LARGE, 12, "The metadata of the offset commit is too large.") \
    X(NETWORK_EXCEPTION, 13, "The connection ended before an answer came.") \
    X(COORDINATOR_LOAD_IN_PROGRESS, 14, "The coordinator is loading.") \
    X(COORDINATOR_NOT_AVAILABLE, 15, "The coordinator is not available.") \
    X(NOT_COORDINATOR, 16, "This is not the right coordinator.") \
    X(INVALID_TOPIC_EXCEPTION, 17, "The topic name is invalid.") \
    X(RECORD_LIST_TOO_LARGE, 18, "The request holds more records than a segment may.") \
    X(NOT_ENOUGH_REPLICAS, 19, "Fewer replicas are in sync than are required.") \
    X(NOT_ENOUGH_REPLICAS_AFTER_APPEND, 20, "The records were written, but to fewer replicas than are required.") \
    X(INVALID_REQUIRED_ACKS, 21, "The value of acks is invalid.") \
    X(ILLEGAL_GENERATION, 22, "The group generation is not the current one.") \
    X(INCONSISTENT_GROUP_PROTOCOL, 23, "The group protocols do not match.") \
    X(INVALID_GROUP_ID, 24, "The group id is invalid.") \
    X(UNKNOWN_MEMBER_ID, 25, "The coordinator does not know this member.") \
    X(INVALID_SESSION_TIMEOUT, 26, "The session timeout is outside the allowed range.") \
    X(REBALANCE_IN_PROGRESS, 27, "The group is rebalancing.") \
    X(INVALID_COMMIT_OFFSET_SIZE, 28, "The commit is too large.") \
    X(TOPIC_AUTHORIZATION_FAILED, 29, "Not authorized to access the topic.") \
    X(GROUP_AUTHORIZATION_FAILED, 30, "Not authorized to access the group.") \
    X(CLUSTER_AUTHORIZATION_FAILED, 31, "Not authorized for this operation on the cluster.") \
    X(INVALID_TIMESTAMP, 32, "The record's timestamp is outside the allowed range.") \
    X(UNSUPPORTED_SASL_MECHANISM, 33, "The SASL mechanism is not supported.") \
    X(ILLEGAL_SASL_STATE, 34, "The request does not fit the SASL state.") \
    X(UNSUPPORTED_VERSION, 35, "The version of the API is not supported.") \
    X(TOPIC_ALREADY_EXISTS, 36, "A topic of this name exists already.") \
    X(INVALID_PARTITIONS, 37, "The number of partitions is invalid.") \
    X(INVALID_REPLICATION_FACTOR, 38, "The replication factor is invalid.") \
    X(INVALID_REPLICA_ASSIGNMENT, 39, "The replica assignment is invalid.") \
    X(INVALID_CONFIG, 40, "The configuration is invalid.") \
    X(NOT_CONTROLLER, 41, "This is not the controller.") \
    X(INVALID_REQUEST, 42, "The request is malformed or contradicts itself.") \
    X(UNSUPPORTED_FOR_MESSAGE_FORMAT, 43, "The message format does not support this.") \
    X(POLICY_VIOLATION, 44, "The request violates a policy.") \
    X(OUT_OF_ORDER_SEQUENCE_NUMBER, 45, "The producer's sequence is out of order.") \
    X(DUPLICATE_SEQUENCE_NUMBER, 46, "The producer's sequence is a duplicate.") \
    X(INVALID_PRODUCER_EPOCH, 47, "The producer's epoch is older than the current one.") \
    X(INVALID_TXN_STATE, 48, "The transaction's state does not allow this.") \
    X(INVALID_PRODUCER_ID_MAPPING, 49, "The producer id does not belong to this transactional id.") \
    X(INVALID_TRANSACTION_TIMEOUT, 50, "The transaction timeout is larger than the broker allows.") \
    X(CONCURRENT_TRANSACTIONS, 51, "Another operation on the transaction is under way.") \
    X(TRANSACTION_COORDINATOR_FENCED, 52, "The transaction coordinator is fenced.") \
    X(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 53, "Not authorized to use this transactional id.") \
    X(SECURITY_DISABLED, 54, "Security features are disabled.") \
    X(OPERATION_NOT_ATTEMPTED, 55, "The operation was not attempted.") \
    X(KAFKA_STORAGE_ERROR, 56, "The log directory failed.") \
    X(LOG_DIR_NOT_FOUND, 57, "The log directory does not exist.") \
    X(SASL_AUTHENTICATION_FAILED, 58, "SASL authentication failed.") \
    X(UNKNOWN_PRODUCER_ID, 59, "The partition does not know this producer id.") \
    X(REASSIGNMENT_IN_PROGRESS, 60, "A partition reassignment is in progress.") \
    X(DELEGATION_TOKEN_AUTH_DISABLED, 61, "Delegation tokens are disabled.") \
    X(DELEGATION_TOKEN_NOT_FOUND, 62, "The delegation token does not exist.") \
    X(DELEGATION_TOKEN_OWNER_MISMATCH, 63, "The principal does not own the delegation token.") \
    X(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, 64, "Delegation tokens are not allowed on this connection.") \
    X(DELEGATION_TOKEN_AUTHORIZATION_FAILED, 65, "Not authorized to use the delegation token.") \
    X(DELEGATION_TOKEN_EXPIRED, 66, "The delegation token has expired.") \
    X(INVALID_PRINCIPAL_TYPE, 67, "The principal type is not supported.") \
    X(NON_EMPTY_GROUP, 68, "The group is not empty.") \
    X(GROUP_ID_NOT_FOUND, 69, "The group id does not exist.") \
    X(FETCH_SESSION_ID_NOT_FOUND, 70, "The fetch session does not exist.") \
    X(INVALID_FETCH_SESSION_EPOCH, 71, "The epoch of the fetch session is wrong.") \
    X(LISTENER_NOT_FOUND, 72, "The leader has no listener that matches the request's.") \
    X(TOPIC_DELETION_DISABLED, 73, "Deletion of topics is disabled.") \
    X(FENCED_LEADER_EPOCH, 74, "The leader epoch in the request is older than the broker's.") \
    X(UNKNOWN_LEADER_EPOCH, 75, "The leader epoch in the request is newer than the broker's.") \
    X(UNSUPPORTED_COMPRESSION_TYPE, 76, "The client does not support the compression type of the partition.") \
    X(STALE_BROKER_EPOCH, 77, "The broker epoch has changed.") \
    X(OFFSET_NOT_AVAILABLE, 78, "The high watermark of the new leader has not caught up.") \
    X(MEMBER_ID_REQUIRED, 79, "The member must come again with this member id.") \
    X(PREFERRED_LEADER_NOT_AVAILABLE, 80, "The preferred leader is not available.") \
    X(GROUP_MAX_SIZE_REACHED, 81, "The group has as many members as it may.") \
    X(FENCED_INSTANCE_ID, 82, "Another member has the same group instance id.") \
    X(ELIGIBLE_LEADERS_NOT_AVAILABLE, 83, "No eligible leader is available.") \
    X(ELECTION_NOT_NEEDED, 84, "No election is needed.") \
    X(NO_REASSIGNMENT_IN_PROGRESS, 85, "No reassignment is in progress.") \
    X(GROUP_SUBSCRIBED_TO_TOPIC, 86, "The group is subscribed to the topic.") \
    X(INVALID_RECORD, 87, "The broker refused a record.") \
    X(UNSTABLE_OFFSET_COMMIT, 88, "There are offsets that are not stable yet.") \
    X(THROTTLING_QUOTA_EXCEEDED, 89, "The throttling quota is exceeded.") \
    X(PRODUCER_FENCED, 90, "A newer producer with the same transactional id fences this one.") \
    X(RESOURCE_NOT_FOUND, 91, "The resource does not exist.") \
    X(DUPLICATE_RESOURCE, 92, "The resource exists already.") \
    X(UNACCEPTABLE_CREDENTIAL, 93, "The credential does not meet the requirements.") \
    X(INCONSISTENT_VOTER_SET, 94, "The voter set is inconsistent.") \
    X(INVALID_UPDATE_VERSION, 95, "The feature version is invalid.") \
    X(FEATURE_UPDATE_FAILED, 96, "The feature could not be updated.") \
    X(PRINCIPAL_DESERIALIZATION_FAILURE, 97, "The principal could not be read.") \
    X(SNAPSHOT_NOT_FOUND, 98, "The snapshot does not exist.") \
    X(POSITION_OUT_OF_RANGE, 99, "The position is out of range.") \
    X(UNKNOWN_TOPIC_ID, 100, "This server does not know the topic id.") \
    X(DUPLICATE_BROKER_REGISTRATION, 101, "The broker id is in use.") \
    X(BROKER_ID_NOT_REGISTERED, 102, "The broker id is not registered.") \
    X(INCONSISTENT_TOPIC_ID, 103, "The topic id does not match the log's.") \
    X(INCONSISTENT_CLUSTER_ID, 104, "The cluster id in the request does not match.") \
    X(TRANSACTIONAL_ID_NOT_FOUND, 105, "The transactional id does not exist.") \
    X(FETCH_SESSION_TOPIC_ID_ERROR, 106, "The fetch session used topic ids inconsistently.") \
    X(INELIGIBLE_REPLICA, 107, "The replica is not eligible.") \
    X(NEW_LEADER_ELECTED, 108, "The request was answered by a new leader.") \
    X(OFFSET_MOVED_TO_TIERED_STORAGE, 109, "The offset is in tiered storage.") \
    X(FENCED_MEMBER_EPOCH, 110, "The member epoch is fenced.") \
    X(UNRELEASED_INSTANCE_ID, 111, "The instance id is still in use.") \
    X(UNSUPPORTED_ASSIGNOR, 112, "The assignor is not supported.") \
    X(STALE_MEMBER_EPOCH, 113, "The member epoch is stale.") \
    X(MISMATCHED_ENDPOINT_TYPE, 114, "The request went to an endpoint of the wrong type.") \
    X(UNSUPPORTED_ENDPOINT_TYPE, 115, "The endpoint type is not supported.") \
    X(UNKNOWN_CONTROLLER_ID, 116, "The controller id is unknown.") \
    X(UNKNOWN_SUBSCRIPTION_ID, 117, "The subscription id is unknown.") \
    X(TELEMETRY_TOO_LARGE, 118, "The telemetry is too large.") \
    X(INVALID_REGISTRATION, 119, "The registration is invalid.") \
    X(TRANSACTION_ABORTABLE, 120, "The transaction must be aborted.") \
    X(INVALID_RECORD_STATE, 121, "The record's state does not allow this.") \
    X(SHARE_SESSION_NOT_FOUND, 122, "The share session does not exist.") \
    X(INVALID_SHARE_SESSION_EPOCH, 123, "The epoch of the share session is wrong.") \
    X(FENCED_STATE_EPOCH, 124, "The share state epoch is fenced.") \
    X(INVALID_VOTER_KEY, 125, "The voter key does not match.") \
    X(DUPLICATE_VOTER, 126, "The voter exists already.") \
    X(VOTER_NOT_FOUND, 127, "The voter does not exist.") \
    X(INVALID_REGULAR_EXPRESSION, 128, "The regular expression is invalid.") \
    X(REBOOTSTRAP_REQUIRED, 129, "The client must start again from its bootstrap servers.") \
    X(STREAMS_INVALID_TOPOLOGY, 130, "The topology is invalid.") \
    X(STREAMS_INVALID_TOPOLOGY_EPOCH, 131, "The topology epoch is invalid.") \
    X(STREAMS_TOPOLOGY_FENCED, 132, "The topology is fenced.") \
    X(SHARE_SESSION_LIMIT_REACHED, 133, "The limit of share sessions is reached.")

#define LOCAL_ERRORS(X) \
    X(ERR_IO, -1001, "An operation of the operating system failed.") \
    X(ERR_NO_SPACE, -1002, "The disk is full.") \
    X(ERR_NOT_FOUND, -1003, "Not found.") \
    X(ERR_EXISTS, -1004, "Exists already.") \
    X(ERR_LOCKED, -1005, "In use by another process.") \
    X(ERR_TRUNCATED, -1006, "The data ends too early.") \
    X(ERR_CORRUPT, -1007, "The data is damaged.") \
    X(ERR_TOO_LARGE, -1008, "A size is above its limit.") \
    X(ERR_MALFORMED, -1009, "The data is malformed.") \
    X(ERR_UNSUPPORTED, -1010, "Not supported.") \
    X(ERR_CLOSED, -1011, "Closed.") \
    X(ERR_TIMED_OUT, -1012, "Timed out.") \
    X(ERR_CONFLICT, -1013, "Somebody else changed it first.") \
    X(ERR_INVALID, -1014, "Invalid.") \
    X(ERR_CANCELLED, -1015, "Cancelled.") \
    X(ERR_UNREACHABLE, -1016, "The other side cannot be reached.") \
    X(ERR_STATE, -1017, "The state does not allow this.")
/* clang-format on */

enum error {
    OK = 0,
#define X(name, code, message) name = code,
    WIRE_ERRORS(X) MIRROR_ERRORS(X) LOCAL_ERRORS(X)
#undef X
};

/* The enum's name, "NONE" for OK, "ERROR_n" for a number that is not in the table. Static storage; any thread. */
const char *error_name(int code);
/* One sentence for people. Static storage; any thread. */
const char *error_message(int code);
/* The code to put on the wire: wire codes as they are, local ones mapped (I/O to KAFKA_STORAGE_ERROR, the rest by meaning). */
int16_t error_wire(enum error error);
/* Whether a Kafka client would come again with the same request (RetriableException in Kafka's client). */
bool error_retriable(int code);
/* ERR_NO_SPACE, ERR_NOT_FOUND, ERR_EXISTS, ERR_LOCKED or ERR_IO for an errno. */
enum error error_from_errno(int number);

/* What reaches a person: what happened and to what, the facts, what to do next. Written by the function that fails; the caller
 * may add to it. Fixed size, so that reporting an error needs no memory. Any of the texts may be empty. */
struct problem {
    enum error code;
    char message[320];
    char detail[320];
    char hint[320];
};

/* No problem, for one that was not set to {0}: on a hot path a kilobyte of zeros is worth avoiding. */
static inline void problem_clear(struct problem *problem)
{
    problem->code = OK;
    problem->message[0] = problem->detail[0] = problem->hint[0] = '\0';
}
/* Sets code and message and clears the rest; returns code. problem may be NULL. */
enum error problem_set(struct problem *problem, enum error code, const char *format, ...) PRINTF_LIKE(3, 4);
void problem_detail(struct problem *problem, const char *format, ...) PRINTF_LIKE(2, 3);
void problem_hint(struct problem *problem, const char *format, ...) PRINTF_LIKE(2, 3);
/* "message (detail). hint" in one line, cut at size. Returns out. */
char *problem_line(const struct problem *problem, char *out, int size);

#endif
