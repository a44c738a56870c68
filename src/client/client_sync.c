/* The loop runs inside each call until its answer is there. Every call ends: connecting and requests have their timers. */
#include "base/assert.h"
#include "client/client_internal.h"

struct client_sync {
    struct loop *loop;
    struct client_cluster *cluster;
};

struct waiting {
    bool ended;
    enum error error;
    struct problem problem;
    struct client_response *response;
};

static void wait_until_ended(struct client_sync *client, const struct waiting *w)
{
    while (!w->ended)
        loop_step(client->loop, -1);
}

static void answered(void *arg, struct client_response *r)
{
    struct waiting *w = arg;
    w->ended = true;
    w->error = r->error;
    w->problem = r->problem;
    if (r->error == OK)
        w->response = client_response_keep(r);
}

enum error client_sync_call(struct client_sync *client, int32_t id, int16_t api_key, int16_t min, int16_t max,
                            const void *request, int64_t timeout_ms, struct client_response **ret_response,
                            struct problem *problem)
{
    struct waiting w = {0};
    client_cluster_call(client->cluster, id, api_key, min, max, request, timeout_ms, answered, &w);
    wait_until_ended(client, &w);
    if (w.error == OK)
        *ret_response = w.response;
    else if (problem != NULL)
        *problem = w.problem;
    return w.error;
}

static void refreshed(void *arg, const struct problem *problem)
{
    struct waiting *w = arg;
    w->ended = true;
    if (problem != NULL) {
        w->error = problem->code;
        w->problem = *problem;
    }
}

enum error client_sync_refresh(struct client_sync *client, const struct str *topics, int32_t n, struct problem *problem)
{
    struct waiting w = {0};
    client_cluster_refresh(client->cluster, topics, n, refreshed, &w);
    wait_until_ended(client, &w);
    if (w.error != OK && problem != NULL)
        *problem = w.problem;
    return w.error;
}

enum error client_sync_create(const char *bootstrap, const struct client_options *options, struct client_sync **ret_client,
                              struct problem *problem)
{
    struct host_port addresses[CLIENT_BOOTSTRAP_MAX];
    int count;
    enum error e = client_bootstrap_parse(bootstrap, addresses, &count, problem);
    if (e != OK)
        return e;
    struct client_sync *client = mem_calloc(1, sizeof(*client));
    e = loop_create(CLOCK_SYSTEM, &client->loop);
    if (e != OK) {
        mem_free(client);
        return problem_set(problem, e, "No event loop can be made: the system is out of descriptors or memory.");
    }
    client->cluster = client_cluster_create(client->loop, addresses, count, options);
    e = client_sync_refresh(client, NULL, 0, problem);
    if (e != OK) {
        client_sync_destroy(client);
        return e;
    }
    *ret_client = client;
    return OK;
}

void client_sync_destroy(struct client_sync *client)
{
    if (client == NULL)
        return;
    client_cluster_destroy(client->cluster);
    loop_destroy(client->loop);
    mem_free(client);
}

const struct client_metadata *client_sync_metadata(const struct client_sync *client)
{
    return client_cluster_metadata(client->cluster);
}
struct loop *client_sync_loop(struct client_sync *client)
{
    return client->loop;
}
struct client_cluster *client_sync_cluster(struct client_sync *client)
{
    return client->cluster;
}
