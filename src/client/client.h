/* A Kafka client over the loop, in three steps: one connection (client_conn), the brokers of a cluster (client_cluster), and a
 * blocking form for the command line (client_sync).
 *
 * A connection that ended stays ended: when to come again is its owner's decision. Everything belongs to the loop's thread but
 * client_sync, which runs a loop of its own. Callbacks never run inside the call that asked for them, except inside
 * client_conn_close. */
#ifndef KAGAMI_CLIENT_CLIENT_H
#define KAGAMI_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/uuid.h"
#include "os/helpers.h"
#include "os/loop.h"
#include "os/socket.h"

struct client_options {
    const char *client_id;      /* NULL: "kagami"; stays valid */
    int64_t connect_timeout_ms; /* for address, connection and handshake together; 0: 10000 */
    int64_t request_timeout_ms; /* where a request says none; 0: 30000 */
    size_t response_max_bytes;  /* 0: LIMIT_RESPONSE_BYTES */
    int64_t idle_timeout_ms;    /* a connection that was not asked for so long ends (ERR_CLOSED); 0: never */
    int receive_buffer_bytes;   /* SO_RCVBUF; 0: the system's choice */
    struct helpers *helpers;    /* for names; NULL: looked up on the loop, which blocks it */
};

/* One answer. Memory of its own: strings and records view the frame (writable, so that records can be changed in place),
 * arrays lie in the arena. */
struct client_response {
    enum error error;       /* OK, or why there is no answer */
    struct problem problem; /* when error is not OK */
    int16_t api_key, version;
    void *body;     /* struct NAME_response of proto/messages.h; NULL on an error */
    uint8_t *frame; /* without its length; header in front */
    size_t frame_len;
    struct arena arena;
    bool kept;
};
/* Inside the callback: the response lives on until client_response_free. */
struct client_response *client_response_keep(struct client_response *response);
void client_response_free(struct client_response *response); /* NULL is OK */

/* Runs once for each request that was taken, with the answer or with the error: also when the connection ends (the same
 * problem as `closed` gets), but not after client_conn_destroy. */
typedef void client_done(void *arg, struct client_response *response);

/* ---- One connection ---- */

struct client_conn;

struct client_conn_events {
    void (*ready)(void *arg, struct client_conn *conn); /* connected, versions known; may be NULL */
    /* Ended, or never came to be; once. Problem codes: ERR_UNREACHABLE (name, refused, no route; detail says which),
     * ERR_TIMED_OUT, ERR_CLOSED (the peer closed), ERR_MALFORMED (not a Kafka broker, or bytes that cannot be understood),
     * ERR_TOO_LARGE (an answer above the limit). The callback may destroy conn. */
    void (*closed)(void *arg, struct client_conn *conn, const struct problem *problem);
};

/* Begins to connect. options are copied. Never fails by itself: what goes wrong comes as `closed`. */
struct client_conn *client_conn_create(struct loop *loop, const struct host_port *address, const struct client_options *options,
                                       const struct client_conn_events *events, void *arg);
void client_conn_destroy(struct client_conn *conn); /* no callback comes after it; NULL is OK; allowed in any callback */
/* Ends it: requests end with the problem (NULL: ERR_CANCELLED), then `closed` runs. */
void client_conn_close(struct client_conn *conn, const struct problem *problem);

bool client_conn_is_ready(const struct client_conn *conn);
int client_conn_in_flight(const struct client_conn *conn);
const struct host_port *client_conn_address(const struct client_conn *conn);
/* Highest version that the peer, our table and [min, max] have in common; max -1: no bound. ERR_UNSUPPORTED: none; the problem
 * says which API, what the peer has and what is needed. Before ready: ERR_STATE. */
MUST_CHECK enum error client_conn_version(const struct client_conn *conn, int16_t api_key, int16_t min, int16_t max,
                                          int16_t *ret_version, struct problem *problem);
/* Level of a finalized feature of the peer's cluster ("transaction.version", "metadata.version"); -1 when it has none. */
int16_t client_conn_feature(const struct client_conn *conn, const char *name);

/* Sends `request` (struct NAME_request) in this version (client_conn_version; -1: the highest in common). It is encoded at
 * once and not kept. timeout_ms 0: the options' request_timeout_ms; when it runs out the whole connection ends with
 * ERR_TIMED_OUT (answers come in order: what is behind cannot come either). Not OK: not taken and `done` does not run;
 * ERR_STATE before ready or after the end, or an error of client_conn_version or proto_encode. */
MUST_CHECK enum error client_conn_send(struct client_conn *conn, int16_t api_key, int16_t version, const void *request,
                                       int64_t timeout_ms, client_done *done, void *arg, struct problem *problem);

/* ---- The brokers of a cluster ---- */

struct client_cluster;

struct client_broker {
    int32_t id;
    struct host_port address;
    char *rack; /* NULL: none */
};

struct client_partition {
    int32_t index;
    int16_t error_code;           /* LEADER_NOT_AVAILABLE.. */
    int32_t leader, leader_epoch; /* -1: none, unknown */
    int32_t replicas_n, isr_n;
    int32_t *replicas, *isr;
};

struct client_topic {
    char *name;
    struct uuid id; /* zero: the source gives none (before 2.8) */
    int16_t error_code;
    bool internal;
    int32_t partitions_n;
    struct client_partition *partitions; /* by index: partitions[i].index == i */
};

/* One answer to Metadata. Replaced as a whole by each refresh. */
struct client_metadata {
    char *cluster_id; /* NULL: unknown (before 0.10.1) */
    int32_t controller;
    int32_t brokers_n, topics_n;
    struct client_broker *brokers;
    struct client_topic *topics; /* of the last refresh, in the order of the answer */
};
const struct client_broker *client_metadata_broker(const struct client_metadata *m, int32_t id);     /* NULL: unknown */
const struct client_topic *client_metadata_topic(const struct client_metadata *m, const char *name); /* NULL: not in it */

/* "host:port,host:port" of bootstrap servers. ERR_INVALID names what is wrong. At most max. */
#define CLIENT_BOOTSTRAP_MAX 16
MUST_CHECK enum error client_bootstrap_parse(const char *text, struct host_port out[CLIENT_BOOTSTRAP_MAX], int *ret_count,
                                             struct problem *problem);

/* count <= CLIENT_BOOTSTRAP_MAX. Connects to nobody yet. */
struct client_cluster *client_cluster_create(struct loop *loop, const struct host_port *bootstrap, int count,
                                             const struct client_options *options);
void client_cluster_destroy(
    struct client_cluster *cluster); /* no callback comes after it; not inside one of its callbacks; NULL is OK */

/* Asks any broker that can be reached (those known, then the bootstrap servers, in turn) for Metadata of these topics: n -1
 * all, 0 none (brokers and cluster id only). Names are copied. done(problem NULL): client_cluster_metadata is the new one.
 * ERR_CONFLICT: another cluster id than before, or than client_cluster_expect: the metadata is not taken over. Several may be
 * under way. */
void client_cluster_refresh(struct client_cluster *cluster, const struct str *topics, int32_t n,
                            void (*done)(void *arg, const struct problem *problem), void *arg);
/* NULL before the first refresh; valid until the next one. */
const struct client_metadata *client_cluster_metadata(const struct client_cluster *cluster);
/* The id that the cluster must have from now on (as stored from an earlier time). */
void client_cluster_expect(struct client_cluster *cluster, const char *cluster_id);

/* Calls broker `id` (CLIENT_ANY: any that can be reached; CLIENT_CONTROLLER: the controller), connecting when there is no
 * connection. A new connection to a known broker is asked first whether it is that node of that cluster (ApiVersions 5 or
 * Metadata): ERR_CONFLICT if not. `request` and what it points to stay valid until done ran; min and max bound the version
 * (max -1: none). Errors come through done. */
#define CLIENT_ANY (-1)
#define CLIENT_CONTROLLER (-2)
void client_cluster_call(struct client_cluster *cluster, int32_t id, int16_t api_key, int16_t min, int16_t max,
                         const void *request, int64_t timeout_ms, client_done *done, void *arg);

/* ---- Blocking, for the command line ---- */

struct client_sync;

/* Connects to one of "host:port,.." and reads the metadata without topics. */
MUST_CHECK enum error client_sync_create(const char *bootstrap, const struct client_options *options,
                                         struct client_sync **ret_client, struct problem *problem);
void client_sync_destroy(struct client_sync *client); /* NULL is OK */
/* As client_cluster_call; the response is the caller's (client_response_free). Only what kept the answer from coming is an
 * error: error codes inside it are the caller's to read. */
MUST_CHECK enum error client_sync_call(struct client_sync *client, int32_t id, int16_t api_key, int16_t min, int16_t max,
                                       const void *request, int64_t timeout_ms, struct client_response **ret_response,
                                       struct problem *problem);
/* As client_cluster_refresh. */
MUST_CHECK enum error client_sync_refresh(struct client_sync *client, const struct str *topics, int32_t n,
                                          struct problem *problem);
const struct client_metadata *client_sync_metadata(const struct client_sync *client);
struct loop *client_sync_loop(struct client_sync *client); /* runs only inside the calls here */
struct client_cluster *client_sync_cluster(struct client_sync *client);

#endif
