/* Talks with a source before anything is stored: can it be reached, is it a Kafka, is it another cluster than ours, can it do
 * what mirroring needs? Blocks. */
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "mirror/internal.h"
#include "proto/messages.h"
#include "proto/proto.h"

/* Kafka 2.1: leader epochs in Fetch (KIP-320), zstd. */
#define FETCH_MIN 10
#define LIST_OFFSETS_MIN 4
#define EPOCHS_MIN 2

static enum error unreachable(const struct mirror_config *config, enum error error, struct problem *problem)
{
    struct problem why = *problem;
    problem_set(problem, error, "The source %.200s cannot be used: %s", config->bootstrap_servers,
                why.message[0] != '\0' ? why.message : error_message(error));
    if (why.detail[0] != '\0')
        problem_detail(problem, "%s", why.detail);
    problem_hint(problem, "%s",
                 error == ERR_MALFORMED ? "Check that a Kafka broker listens there without TLS and SASL"
                                        : "Check the address, and that the source runs and can be reached from here");
    return error;
}

/* An empty question of each kind: what the source cannot do, it cannot answer. */
static enum error probe(struct client_sync *client, int32_t timeout_ms, struct problem *problem)
{
    struct fetch_request fetch;
    struct list_offsets_request offsets;
    struct offset_for_leader_epoch_request epochs;
    const struct {
        int16_t key, min;
        const void *request;
    } questions[] = {{API_FETCH, FETCH_MIN, &fetch},
                     {API_LIST_OFFSETS, LIST_OFFSETS_MIN, &offsets},
                     {API_OFFSET_FOR_LEADER_EPOCH, EPOCHS_MIN, &epochs}};
    proto_init(&PROTO_FETCH_REQUEST, &fetch);
    proto_init(&PROTO_LIST_OFFSETS_REQUEST, &offsets);
    proto_init(&PROTO_OFFSET_FOR_LEADER_EPOCH_REQUEST, &epochs);
    fetch.replica_id = offsets.replica_id = epochs.replica_id = -1;
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
        struct client_response *response = NULL;
        enum error error = client_sync_call(client, CLIENT_ANY, questions[i].key, questions[i].min, -1, questions[i].request,
                                            timeout_ms, &response, problem);
        client_response_free(response);
        if (error == ERR_UNSUPPORTED) {
            struct problem why = *problem;
            problem_set(problem, UNSUPPORTED_VERSION, "The source is too old to be mirrored");
            problem_detail(problem, "%s", why.message);
            problem_hint(problem, "Apache Kafka 2.1 or newer, or Kagami, can be a source");
            return UNSUPPORTED_VERSION;
        }
        if (error != OK)
            return error;
    }
    return OK;
}

enum error source_connect(struct mirrors *m, const struct mirror_config *config, int32_t timeout_ms,
                          struct client_sync **ret_client, char **ret_cluster_id, struct problem *problem)
{
    struct client_sync *client = NULL;
    struct client_options options = {
        .client_id = "kagami-mirror", .connect_timeout_ms = MIN(timeout_ms, 10000), .request_timeout_ms = timeout_ms};
    *problem = (struct problem){0};
    enum error error = client_sync_create(config->bootstrap_servers, &options, &client, problem);
    if (error != OK)
        return unreachable(config, error, problem);
    const char *cluster_id = client_sync_metadata(client)->cluster_id;
    if (cluster_id == NULL || cluster_id[0] == '\0') {
        error = problem_set(problem, UNSUPPORTED_VERSION, "The source %.200s gives no cluster id: it is too old, or not a Kafka",
                            config->bootstrap_servers);
    } else if (strcmp(cluster_id, m->params.cluster_id) == 0) {
        error = problem_set(problem, INVALID_REQUEST, "The source %.200s is this cluster itself (cluster id %.64s)",
                            config->bootstrap_servers, cluster_id);
        problem_hint(problem, "Name the brokers of the other cluster with --source");
    } else {
        error = probe(client, timeout_ms, problem);
        if (error != OK && error != UNSUPPORTED_VERSION)
            error = unreachable(config, error, problem);
    }
    if (error != OK) {
        client_sync_destroy(client);
        return error;
    }
    *ret_cluster_id = mem_strdup(cluster_id);
    *ret_client = client;
    return OK;
}
