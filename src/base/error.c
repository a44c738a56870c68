/* Tables of names and sentences; kept beside the enum by the same X-macros. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *error_name(int code)
{
    static _Thread_local char unknown[24];

    switch (code) {
    case OK:
        return "NONE";
#define X(name, number, message)                                                                                                 \
    case number:                                                                                                                 \
        return #name;
        WIRE_ERRORS(X) MIRROR_ERRORS(X) LOCAL_ERRORS(X)
#undef X
    default:
        snprintf(unknown, sizeof(unknown), "ERROR_%d", code);
        return unknown;
    }
}

const char *error_message(int code)
{
    switch (code) {
    case OK:
        return "Success.";
#define X(name, number, message)                                                                                                 \
    case number:                                                                                                                 \
        return message;
        WIRE_ERRORS(X) MIRROR_ERRORS(X) LOCAL_ERRORS(X)
#undef X
    default:
        return "An error that this version does not know.";
    }
}

int16_t error_wire(enum error error)
{
    if (error >= UNKNOWN_SERVER_ERROR)
        return (int16_t)error;
    switch (error) {
    case ERR_IO:
    case ERR_NO_SPACE:
        return KAFKA_STORAGE_ERROR;
    case ERR_TRUNCATED:
    case ERR_CORRUPT:
        return CORRUPT_MESSAGE;
    case ERR_MALFORMED:
    case ERR_INVALID:
        return INVALID_REQUEST;
    case ERR_TOO_LARGE:
        return MESSAGE_TOO_LARGE;
    case ERR_UNSUPPORTED:
        return UNSUPPORTED_VERSION;
    case ERR_TIMED_OUT:
        return REQUEST_TIMED_OUT;
    case ERR_UNREACHABLE:
    case ERR_CLOSED:
        return NETWORK_EXCEPTION;
    case ERR_NOT_FOUND:
        return RESOURCE_NOT_FOUND;
    case ERR_EXISTS:
        return DUPLICATE_RESOURCE;
    case ERR_STATE:
        return INVALID_REQUEST;
    default:
        return UNKNOWN_SERVER_ERROR;
    }
}

bool error_retriable(int code)
{
    switch (code) {
    case CORRUPT_MESSAGE:
    case UNKNOWN_TOPIC_OR_PARTITION:
    case LEADER_NOT_AVAILABLE:
    case NOT_LEADER_OR_FOLLOWER:
    case REQUEST_TIMED_OUT:
    case REPLICA_NOT_AVAILABLE:
    case NETWORK_EXCEPTION:
    case COORDINATOR_LOAD_IN_PROGRESS:
    case COORDINATOR_NOT_AVAILABLE:
    case NOT_COORDINATOR:
    case NOT_ENOUGH_REPLICAS:
    case NOT_ENOUGH_REPLICAS_AFTER_APPEND:
    case NOT_CONTROLLER:
    case CONCURRENT_TRANSACTIONS:
    case KAFKA_STORAGE_ERROR:
    case FETCH_SESSION_ID_NOT_FOUND:
    case INVALID_FETCH_SESSION_EPOCH:
    case LISTENER_NOT_FOUND:
    case FENCED_LEADER_EPOCH:
    case UNKNOWN_LEADER_EPOCH:
    case OFFSET_NOT_AVAILABLE:
    case PREFERRED_LEADER_NOT_AVAILABLE:
    case ELIGIBLE_LEADERS_NOT_AVAILABLE:
    case ELECTION_NOT_NEEDED:
    case UNSTABLE_OFFSET_COMMIT:
    case THROTTLING_QUOTA_EXCEEDED:
    case UNKNOWN_TOPIC_ID:
    case INCONSISTENT_TOPIC_ID:
    case FETCH_SESSION_TOPIC_ID_ERROR:
    case ERR_CLOSED:
    case ERR_TIMED_OUT:
    case ERR_UNREACHABLE:
    case ERR_CANCELLED:
        return true;
    default:
        return false;
    }
}

enum error error_from_errno(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
        return ERR_EXISTS;
    case EWOULDBLOCK:
        return ERR_LOCKED;
    default:
        return ERR_IO;
    }
}

enum error problem_set(struct problem *problem, enum error code, const char *format, ...)
{
    va_list args;

    if (problem == NULL)
        return code;
    problem->code = code;
    problem->detail[0] = problem->hint[0] = '\0';
    va_start(args, format);
    vsnprintf(problem->message, sizeof(problem->message), format, args);
    va_end(args);
    return code;
}

void problem_detail(struct problem *problem, const char *format, ...)
{
    va_list args;

    if (problem == NULL)
        return;
    va_start(args, format);
    vsnprintf(problem->detail, sizeof(problem->detail), format, args);
    va_end(args);
}

void problem_hint(struct problem *problem, const char *format, ...)
{
    va_list args;

    if (problem == NULL)
        return;
    va_start(args, format);
    vsnprintf(problem->hint, sizeof(problem->hint), format, args);
    va_end(args);
}

char *problem_line(const struct problem *problem, char *out, int size)
{
    const char *message = problem->message[0] != '\0' ? problem->message : error_message(problem->code);
    size_t len = strlen(message);
    bool ended = len > 0 && strchr(".!?", message[len - 1]) != NULL;
    bool detail = problem->detail[0] != '\0', hint = problem->hint[0] != '\0';

    if (detail && ended) /* the full stop comes behind the bracket */
        len--;
    snprintf(out, (size_t)size, "%.*s%s%s%s%s%s", (int)len, message, detail ? " (" : "", problem->detail, detail ? ")" : "",
             hint ? (ended && !detail ? " " : ". ") : (detail && ended ? "." : ""), problem->hint);
    return out;
}
