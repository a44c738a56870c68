/* The names and numbers of the mirror's wire protocol that may still move, in one place.
 *
 * KIP-1279 (Cluster Mirroring) is in no released Kafka, and Apache Kafka 4.4 has given API key 94 and the error codes 134 to
 * 136 to other things. Ours are the proposal's plus 1000, until a release settles them. */
#ifndef KAGAMI_BASE_MIRROR_WIRE_H
#define KAGAMI_BASE_MIRROR_WIRE_H

enum mirror_api_key {
    API_CREATE_CLUSTER_MIRROR = 1094,
    API_START_MIRROR_TOPICS = 1095,
    API_STOP_MIRROR_TOPICS = 1096,
    API_LIST_CLUSTER_MIRRORS = 1098,
    API_DESCRIBE_CLUSTER_MIRRORS = 1099,
    API_PAUSE_MIRROR_TOPICS = 1102,
    API_RESUME_MIRROR_TOPICS = 1103,
    API_DELETE_CLUSTER_MIRROR = 1104,
    API_RECOVER_MIRROR_TOPICS = 1106,
};

/* Appended to the error table of base/error.h: X(NAME, code, message). */
#define MIRROR_ERRORS(X)                                                                                                         \
    X(INVALID_CLUSTER_MIRROR_NAME, 1135, "The mirror name is invalid.")                                                          \
    X(CLUSTER_MIRROR_ALREADY_EXISTS, 1136, "A mirror of this name exists already.")                                              \
    X(UNKNOWN_CLUSTER_MIRROR, 1137, "There is no mirror of this name.")                                                          \
    X(TOPIC_ALREADY_IN_CLUSTER_MIRROR, 1138, "The topic belongs to a mirror already.")                                           \
    X(TOPIC_NOT_IN_CLUSTER_MIRROR, 1139, "The topic does not belong to this mirror.")                                            \
    X(MIRROR_TOPIC_ALREADY_PAUSED, 1140, "The mirror topic is paused already.")                                                  \
    X(MIRROR_TOPIC_NOT_PAUSED, 1141, "The mirror topic is not paused.")                                                          \
    X(MIRROR_TOPIC_BEING_STOPPED, 1142, "The mirror topic is being stopped.")                                                    \
    X(CLUSTER_MIRROR_NOT_EMPTY, 1143, "The mirror still has topics that are not stopped.")                                       \
    X(CLUSTER_MIRROR_AUTHORIZATION_FAILED, 1144, "Not authorized to access this mirror.")                                        \
    X(INVALID_CLUSTER_MIRROR_STATE, 1145, "The mirror is in a state that does not allow this.")                                  \
    X(MIRROR_TOPIC_NOT_STOPPED, 1146, "The mirror topic is not stopped.")

/* The barrier (spec section 5): control record type and version of key and value. */
#define MIRROR_PID_RESET_TYPE 7
#define MIRROR_PID_RESET_VERSION 0

/* Value of a client write that is refused because the topic mirrors: POLICY_VIOLATION, which every client knows and none retries. */
#define MIRROR_WRITE_REFUSED POLICY_VIOLATION

#endif
