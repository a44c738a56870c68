/* The brokers of a cluster: one connection an address, made when somebody calls.
 *
 * A call waits at its node (address) until the node's connection is ready and known to be the broker that is meant. When a
 * connection fails before that, a call for any broker goes on to the next address and one for a certain broker ends. Nothing
 * is sent twice. */
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/assert.h"
#include "client/client_internal.h"

/* Of the Metadata request: the first that can forbid topics to be created by asking for them (KIP-204). */
#define METADATA_MIN 4
/* Of ApiVersions: the first that tells the broker which cluster and node are meant (KIP-1242). */
#define API_VERSIONS_WITH_NODE 5

struct call {
    STAILQ_ENTRY(call) link; /* at its node */
    struct client_cluster *cluster;
    int32_t id;
    int16_t api_key, min, max;
    const void *request;
    int64_t timeout_ms;
    client_done *done;
    void *arg;
    int next_candidate;      /* for CLIENT_ANY */
    struct loop_timer timer; /* begins: no callback inside client_cluster_call */
    LIST_ENTRY(call) all;
};

STAILQ_HEAD(calls, call);

struct node {
    LIST_ENTRY(node) link;
    struct client_cluster *cluster;
    struct host_port address;
    struct client_conn *conn;      /* NULL: none */
    int32_t verified_id, asked_id; /* broker that it is known to be, that it is being asked about; -1: none */
    struct calls waiting;
};

struct refresh {
    LIST_ENTRY(refresh) link;
    struct client_cluster *cluster;
    struct metadata_request request;
    struct arena arena;
    bool again; /* tried once more after a broken connection */
    void (*done)(void *arg, const struct problem *problem);
    void *arg;
};

struct client_cluster {
    struct loop *loop;
    struct client_options options;
    struct host_port bootstrap[CLIENT_BOOTSTRAP_MAX];
    int bootstrap_n;
    struct client_metadata *metadata;
    char *cluster_id; /* that it must have; NULL: not known yet */
    LIST_HEAD(, node) nodes;
    LIST_HEAD(, call) calls;
    LIST_HEAD(, refresh) refreshes;
};

static void pump(struct node *n);
static void place(struct call *call, const struct problem *last);

/* ---- calls ---- */

static void free_call(struct call *call)
{
    loop_timer_stop(&call->timer);
    LIST_REMOVE(call, all);
    mem_free(call);
}

static void fail_call(struct call *call, const struct problem *problem)
{
    client_done *done = call->done;
    void *arg = call->arg;
    int16_t key = call->api_key;
    free_call(call);
    client_fail(done, arg, key, -1, problem);
}

static void call_answered(void *arg, struct client_response *r)
{
    struct call *call = arg;
    client_done *done = call->done;
    void *done_arg = call->arg;
    free_call(call);
    done(done_arg, r);
}

static void send_call(struct node *n, struct call *call)
{
    struct problem problem;
    int16_t version;
    enum error e = client_conn_version(n->conn, call->api_key, call->min, call->max, &version, &problem);
    if (e == OK)
        e = client_conn_send(n->conn, call->api_key, version, call->request, call->timeout_ms, call_answered, call, &problem);
    if (e != OK)
        fail_call(call, &problem);
}

/* ---- nodes ---- */

static bool same_address(const struct host_port *a, const struct host_port *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static struct node *node_at(struct client_cluster *cl, const struct host_port *address)
{
    struct node *n;
    LIST_FOREACH (n, &cl->nodes, link) {
        if (same_address(&n->address, address))
            return n;
    }
    n = mem_calloc(1, sizeof(*n));
    n->cluster = cl;
    n->address = *address;
    n->verified_id = n->asked_id = -1;
    STAILQ_INIT(&n->waiting);
    LIST_INSERT_HEAD(&cl->nodes, n, link);
    return n;
}

static void node_ready(void *arg, struct client_conn *conn)
{
    pump(arg);
}

static void node_closed(void *arg, struct client_conn *conn, const struct problem *problem)
{
    struct node *n = arg;
    client_conn_destroy(n->conn);
    n->conn = NULL;
    n->verified_id = n->asked_id = -1;
    struct calls waiting = STAILQ_HEAD_INITIALIZER(waiting);
    STAILQ_CONCAT(&waiting, &n->waiting);
    struct call *call;
    while ((call = STAILQ_FIRST(&waiting)) != NULL) {
        STAILQ_REMOVE_HEAD(&waiting, link);
        if (call->id == CLIENT_ANY)
            place(call, problem);
        else
            fail_call(call, problem);
    }
}

static void conflict(struct node *n, int32_t id)
{
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    problem_set(&problem, ERR_CONFLICT, "%s is not broker %d of cluster %s any more.", host_port_text(&n->address, text), id,
                n->cluster->cluster_id);
    problem_hint(&problem,
                 "Another cluster answers at this address: check the addresses, and whether the cluster was set up anew.");
    client_conn_close(n->conn, &problem);
}

static void verified(struct node *n, bool ok)
{
    int32_t id = n->asked_id;
    n->asked_id = -1;
    if (!ok) {
        conflict(n, id);
        return;
    }
    n->verified_id = id;
    pump(n);
}

static void versions_answered(void *arg, struct client_response *r)
{
    if (r->error == OK)
        verified(arg, ((const struct api_versions_response *)r->body)->error_code != REBOOTSTRAP_REQUIRED);
}

static void metadata_answered(void *arg, struct client_response *r)
{
    struct node *n = arg;
    const struct metadata_response *body = r->body;
    if (r->error != OK)
        return;
    bool listed = false;
    for (int32_t i = 0; i < body->brokers_n; i++)
        listed |= body->brokers[i].node_id == n->asked_id;
    verified(n, listed && (body->cluster_id.p == NULL || str_is(body->cluster_id, n->cluster->cluster_id)));
}

/* Asks a connection whether it leads to that node of our cluster. */
static void verify(struct node *n, int32_t id)
{
    struct problem problem;
    int16_t version;
    n->asked_id = id;
    if (client_conn_version(n->conn, API_API_VERSIONS, API_VERSIONS_WITH_NODE, -1, &version, NULL) == OK) {
        struct api_versions_request request;
        proto_init(&PROTO_API_VERSIONS_REQUEST, &request);
        request.client_software_name = STR("kagami");
        request.client_software_version = STR(KAGAMI_VERSION);
        request.cluster_id = str_of(n->cluster->cluster_id);
        request.node_id = id;
        if (client_conn_send(n->conn, API_API_VERSIONS, version, &request, 0, versions_answered, n, &problem) != OK)
            client_conn_close(n->conn, &problem);
        return;
    }
    struct metadata_request request;
    proto_init(&PROTO_METADATA_REQUEST, &request);
    request.topics_n = 0;
    request.allow_auto_topic_creation = false;
    enum error e = client_conn_version(n->conn, API_METADATA, METADATA_MIN, -1, &version, &problem);
    if (e == OK)
        e = client_conn_send(n->conn, API_METADATA, version, &request, 0, metadata_answered, n, &problem);
    if (e != OK)
        client_conn_close(n->conn, &problem);
}

/* Sends what waits at the node, as far as it is known to be the broker that each call means. */
static void pump(struct node *n)
{
    while (n->conn != NULL && client_conn_is_ready(n->conn) && n->asked_id < 0 && !STAILQ_EMPTY(&n->waiting)) {
        struct call *call = STAILQ_FIRST(&n->waiting);
        if (call->id >= 0 && call->id != n->verified_id && n->cluster->cluster_id != NULL) {
            verify(n, call->id);
            return;
        }
        STAILQ_REMOVE_HEAD(&n->waiting, link);
        send_call(n, call);
    }
}

static void wait_at(struct call *call, const struct host_port *address)
{
    static const struct client_conn_events events = {.ready = node_ready, .closed = node_closed};
    struct client_cluster *cl = call->cluster;
    struct node *n = node_at(cl, address);
    STAILQ_INSERT_TAIL(&n->waiting, call, link);
    if (n->conn == NULL)
        n->conn = client_conn_create(cl->loop, address, &cl->options, &events, n);
    else
        pump(n);
}

/* ---- where a call goes ---- */

static const struct host_port *candidate(const struct client_cluster *cl, int index)
{
    int known = cl->metadata != NULL ? cl->metadata->brokers_n : 0;
    if (index < known)
        return &cl->metadata->brokers[index].address;
    return index - known < cl->bootstrap_n ? &cl->bootstrap[index - known] : NULL;
}

static void place_anywhere(struct call *call, const struct problem *last)
{
    struct client_cluster *cl = call->cluster;
    struct node *n;
    if (call->next_candidate == 0) {
        LIST_FOREACH (n, &cl->nodes, link) {
            if (n->conn != NULL && client_conn_is_ready(n->conn)) {
                wait_at(call, &n->address);
                return;
            }
        }
    }
    const struct host_port *address = candidate(cl, call->next_candidate++);
    if (address != NULL) {
        wait_at(call, address);
        return;
    }
    struct problem problem = {0};
    if (last != NULL)
        problem = *last;
    else
        problem_set(&problem, ERR_UNREACHABLE, "There is no address of a broker to ask.");
    fail_call(call, &problem);
}

/* last: why the address before it failed; NULL at first. */
static void place(struct call *call, const struct problem *last)
{
    struct client_cluster *cl = call->cluster;
    struct problem problem;
    if (call->id == CLIENT_ANY) {
        place_anywhere(call, last);
        return;
    }
    int32_t id = call->id == CLIENT_CONTROLLER && cl->metadata != NULL ? cl->metadata->controller : call->id;
    const struct client_broker *broker = client_metadata_broker(cl->metadata, id);
    if (broker != NULL) {
        call->id = id;
        wait_at(call, &broker->address);
        return;
    }
    if (call->id == CLIENT_CONTROLLER)
        problem_set(&problem, ERR_UNREACHABLE, "The cluster has no controller that is known.");
    else
        problem_set(&problem, ERR_UNREACHABLE, "Broker %d is not among the brokers of the cluster.", id);
    problem_hint(&problem, "It may be starting: try again in a moment.");
    fail_call(call, &problem);
}

static void begin_call(struct loop_timer *timer)
{
    place(CONTAINER_OF(timer, struct call, timer), NULL);
}

void client_cluster_call(struct client_cluster *cluster, int32_t id, int16_t api_key, int16_t min, int16_t max,
                         const void *request, int64_t timeout_ms, client_done *done, void *arg)
{
    ASSERT(id >= CLIENT_CONTROLLER && done != NULL);
    struct call *call = mem_calloc(1, sizeof(*call));
    call->cluster = cluster;
    call->id = id;
    call->api_key = api_key;
    call->min = min;
    call->max = max;
    call->request = request;
    call->timeout_ms = timeout_ms;
    call->done = done;
    call->arg = arg;
    LIST_INSERT_HEAD(&cluster->calls, call, all);
    loop_timer_start(cluster->loop, &call->timer, 0, begin_call);
}

/* ---- metadata ---- */

static void end_refresh(struct refresh *f, const struct problem *problem)
{
    void (*done)(void *arg, const struct problem *problem) = f->done;
    void *arg = f->arg;
    LIST_REMOVE(f, link);
    arena_fini(&f->arena);
    mem_free(f);
    done(arg, problem);
}

static bool has_address(const struct client_cluster *cl, const struct host_port *address)
{
    const struct host_port *known;
    for (int i = 0; (known = candidate(cl, i)) != NULL; i++) {
        if (same_address(known, address))
            return true;
    }
    return false;
}

/* Lets go of addresses that the cluster does not have any more and that nobody waits for. */
static void prune_nodes(struct client_cluster *cl)
{
    struct node *n, *next;
    for (n = LIST_FIRST(&cl->nodes); n != NULL; n = next) {
        next = LIST_NEXT(n, link);
        bool used = !STAILQ_EMPTY(&n->waiting) || (n->conn != NULL && client_conn_in_flight(n->conn) > 0);
        if (used || has_address(cl, &n->address))
            continue;
        client_conn_destroy(n->conn);
        LIST_REMOVE(n, link);
        mem_free(n);
    }
}

static enum error take_metadata(struct client_cluster *cl, const struct metadata_response *body, struct problem *problem)
{
    struct client_metadata *m;
    if (body->error_code != OK) {
        problem_set(problem, (enum error)body->error_code, "The cluster refused to describe itself.");
        problem_detail(problem, "Metadata answered %s", error_name(body->error_code));
        return problem->code;
    }
    if (client_metadata_create(body, &m) != OK)
        return problem_set(problem, ERR_MALFORMED, "The description that the cluster gives of itself makes no sense.");
    if (cl->cluster_id != NULL && m->cluster_id != NULL && strcmp(cl->cluster_id, m->cluster_id) != 0) {
        problem_set(problem, ERR_CONFLICT, "Another cluster answers: its id is %s, expected was %s.", m->cluster_id,
                    cl->cluster_id);
        problem_hint(problem, "Check the addresses, and whether the cluster was set up anew.");
        client_metadata_destroy(m);
        return ERR_CONFLICT;
    }
    if (cl->cluster_id == NULL && m->cluster_id != NULL)
        cl->cluster_id = mem_strdup(m->cluster_id);
    client_metadata_destroy(cl->metadata);
    cl->metadata = m;
    prune_nodes(cl);
    return OK;
}

static void refresh_answered(void *arg, struct client_response *r)
{
    struct refresh *f = arg;
    struct problem problem = r->problem;
    if (r->error == ERR_CLOSED && !f->again) {
        f->again = true;
        client_cluster_call(f->cluster, CLIENT_ANY, API_METADATA, METADATA_MIN, -1, &f->request, 0, refresh_answered, f);
        return;
    }
    enum error e = r->error != OK ? r->error : take_metadata(f->cluster, r->body, &problem);
    end_refresh(f, e == OK ? NULL : &problem);
}

void client_cluster_refresh(struct client_cluster *cluster, const struct str *topics, int32_t n,
                            void (*done)(void *arg, const struct problem *problem), void *arg)
{
    struct refresh *f = mem_calloc(1, sizeof(*f));
    f->cluster = cluster;
    f->done = done;
    f->arg = arg;
    arena_init(&f->arena, SIZE_MAX);
    LIST_INSERT_HEAD(&cluster->refreshes, f, link);
    proto_init(&PROTO_METADATA_REQUEST, &f->request);
    f->request.allow_auto_topic_creation = false;
    f->request.topics_n = n;
    f->request.topics = n < 0 ? NULL : metadata_request_topics_new(&f->arena, n);
    for (int32_t i = 0; i < n; i++)
        f->request.topics[i].name = arena_str(&f->arena, topics[i]);
    client_cluster_call(cluster, CLIENT_ANY, API_METADATA, METADATA_MIN, -1, &f->request, 0, refresh_answered, f);
}

const struct client_metadata *client_cluster_metadata(const struct client_cluster *cluster)
{
    return cluster->metadata;
}

void client_cluster_expect(struct client_cluster *cluster, const char *cluster_id)
{
    mem_free(cluster->cluster_id);
    cluster->cluster_id = cluster_id != NULL ? mem_strdup(cluster_id) : NULL;
}

/* ---- life ---- */

struct client_cluster *client_cluster_create(struct loop *loop, const struct host_port *bootstrap, int count,
                                             const struct client_options *options)
{
    ASSERT(count > 0 && count <= CLIENT_BOOTSTRAP_MAX);
    struct client_cluster *cl = mem_calloc(1, sizeof(*cl));
    cl->loop = loop;
    cl->options = *options;
    memcpy(cl->bootstrap, bootstrap, (size_t)count * sizeof(bootstrap[0]));
    cl->bootstrap_n = count;
    LIST_INIT(&cl->nodes);
    LIST_INIT(&cl->calls);
    LIST_INIT(&cl->refreshes);
    return cl;
}

void client_cluster_destroy(struct client_cluster *cluster)
{
    if (cluster == NULL)
        return;
    struct node *n;
    while ((n = LIST_FIRST(&cluster->nodes)) != NULL) {
        client_conn_destroy(n->conn);
        LIST_REMOVE(n, link);
        mem_free(n);
    }
    while (!LIST_EMPTY(&cluster->calls))
        free_call(LIST_FIRST(&cluster->calls));
    struct refresh *f;
    while ((f = LIST_FIRST(&cluster->refreshes)) != NULL) {
        LIST_REMOVE(f, link);
        arena_fini(&f->arena);
        mem_free(f);
    }
    client_metadata_destroy(cluster->metadata);
    mem_free(cluster->cluster_id);
    mem_free(cluster);
}

static enum error bad_address(struct str piece, const char *why, struct problem *problem)
{
    problem_set(problem, ERR_INVALID, "\"%.*s\" is not the address of a broker.", STR_ARG(piece));
    problem_detail(problem, "%s", why);
    problem_hint(problem, "Write HOST:PORT, several with commas between them; IPv6 addresses in brackets.");
    return ERR_INVALID;
}

enum error client_bootstrap_parse(const char *text, struct host_port out[CLIENT_BOOTSTRAP_MAX], int *ret_count,
                                  struct problem *problem)
{
    struct problem unused;
    struct str rest = str_of(text), piece;
    int count = 0;
    if (problem == NULL)
        problem = &unused;
    while (str_split(&rest, ',', &piece)) {
        struct host_port address;
        piece = str_trim(piece);
        if (!host_port_parse(piece, -1, &address) || address.host[0] == '\0' || address.port == 0)
            return bad_address(piece, "host and port are needed", problem);
        if (count == CLIENT_BOOTSTRAP_MAX)
            return bad_address(piece, "more addresses than are taken", problem);
        out[count++] = address;
    }
    if (count == 0)
        return bad_address(STR(""), "host and port are needed", problem);
    *ret_count = count;
    return OK;
}
