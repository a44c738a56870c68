/* One connection: RESOLVING, CONNECTING, HANDSHAKE, READY, ENDED.
 *
 * Kafka answers in order, so the requests in flight are a queue and an answer belongs to its head; the correlation id only
 * confirms it. The owner may destroy the connection in any callback: `busy` counts the callers on the stack, the last one
 * frees. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/assert.h"
#include "base/limits.h"
#include "client/client_internal.h"
#include "net/frame.h"
#include "net/transport.h"

#define ADDRESSES_MAX 8
/* An ApiVersions answer has some hundred entries; what is longer is no Kafka. */
#define HANDSHAKE_MAX_BYTES (1024 * 1024)
#define HANDSHAKE_VERSION 3 /* of ApiVersions: with names of the client's software, and flexible (KIP-511) */

enum client_state { CLIENT_RESOLVING, CLIENT_CONNECTING, CLIENT_HANDSHAKE, CLIENT_READY, CLIENT_ENDED };

struct pending {
    STAILQ_ENTRY(pending) link;
    struct client_conn *conn;
    const struct proto_api *api;
    int16_t version;
    int32_t correlation_id;
    int64_t timeout_ms;
    struct loop_timer timer;
    client_done *done;
    void *arg;
};

/* Outlives the connection when that is destroyed meanwhile. */
struct lookup {
    struct helper_job job;    /* first */
    struct client_conn *conn; /* NULL: nobody waits any more */
    struct host_port address;
    struct socket_address found[ADDRESSES_MAX];
    int count;
    enum error error;
    struct problem problem;
};

struct version_range {
    int16_t api_key, min, max;
};

struct feature {
    char *name;
    int16_t level;
};

struct client_conn {
    struct loop *loop;
    struct host_port address;
    struct client_options options;
    struct client_conn_events events;
    void *arg;
    enum client_state state;
    int busy;
    bool destroyed;

    struct loop_timer timer; /* begins, then bounds connection and handshake */
    struct loop_timer idle;  /* runs while the connection is ready and nothing is asked */
    struct lookup *lookup;
    struct socket_address addresses[ADDRESSES_MAX];
    int addresses_n, next_address;
    int last_errno;

    struct transport *transport;
    struct loop_fd watch;
    struct frame_reader reader;
    uint8_t *scratch;
    struct chain out;
    int32_t next_correlation_id;
    STAILQ_HEAD(, pending) pendings;
    int in_flight;

    struct version_range *versions;
    int32_t versions_n;
    struct feature *features;
    int32_t features_n;
};

static void connect_next(struct client_conn *c);
static void on_ready(struct loop_fd *w, int events);

static const char *name_of(const struct client_conn *c, char text[SOCKET_TEXT_MAX])
{
    return host_port_text(&c->address, text);
}

/* ---- end ---- */

static void idle_too_long(struct loop_timer *timer);

static void rest(struct client_conn *c)
{
    if (c->in_flight == 0 && c->state == CLIENT_READY && c->options.idle_timeout_ms > 0)
        loop_timer_start(c->loop, &c->idle, c->options.idle_timeout_ms, idle_too_long);
}

static void free_pending(struct client_conn *c, struct pending *p)
{
    STAILQ_REMOVE(&c->pendings, p, pending, link);
    c->in_flight--;
    loop_timer_stop(&p->timer);
    mem_free(p);
    rest(c);
}

static void forget_peer(struct client_conn *c)
{
    for (int32_t i = 0; i < c->features_n; i++)
        mem_free(c->features[i].name);
    mem_free(c->features);
    mem_free(c->versions);
    c->features = NULL;
    c->versions = NULL;
    c->features_n = c->versions_n = 0;
}

/* Lets go of all that waits for the peer, but of the requests in flight. */
static void disconnect(struct client_conn *c)
{
    loop_timer_stop(&c->timer);
    loop_timer_stop(&c->idle);
    if (c->lookup != NULL)
        c->lookup->conn = NULL;
    c->lookup = NULL;
    int connecting = c->watch.loop != NULL && c->transport == NULL ? c->watch.fd : -1;
    loop_fd_stop(&c->watch);
    if (connecting >= 0)
        socket_close(connecting);
    transport_close(c->transport);
    c->transport = NULL;
    frame_reader_fini(&c->reader);
    chain_fini(&c->out);
    mem_free(c->scratch);
    c->scratch = NULL;
}

static void leave(struct client_conn *c)
{
    if (--c->busy == 0 && c->destroyed)
        mem_free(c);
}

static void end_conn(struct client_conn *c, const struct problem *problem)
{
    if (c->state == CLIENT_ENDED)
        return;
    c->state = CLIENT_ENDED;
    disconnect(c);
    c->busy++;
    struct problem why = *problem; /* it may lie in what a callback frees */
    struct pending *p;
    while ((p = STAILQ_FIRST(&c->pendings)) != NULL) {
        client_done *done = p->done;
        void *arg = p->arg;
        int16_t key = p->api->key, version = p->version;
        free_pending(c, p);
        if (done != NULL)
            client_fail(done, arg, key, version, &why);
    }
    if (!c->destroyed)
        c->events.closed(c->arg, c, &why);
    leave(c);
}

void client_conn_close(struct client_conn *conn, const struct problem *problem)
{
    struct problem ours;
    char text[SOCKET_TEXT_MAX];
    if (problem == NULL) {
        problem_set(&ours, ERR_CANCELLED, "The connection to %s was closed.", name_of(conn, text));
        problem = &ours;
    }
    end_conn(conn, problem);
}

void client_conn_destroy(struct client_conn *conn)
{
    if (conn == NULL)
        return;
    ASSERT(!conn->destroyed);
    conn->state = CLIENT_ENDED;
    conn->destroyed = true;
    disconnect(conn);
    while (!STAILQ_EMPTY(&conn->pendings))
        free_pending(conn, STAILQ_FIRST(&conn->pendings));
    forget_peer(conn);
    conn->busy++;
    leave(conn);
}

/* ---- problems ---- */

static void no_broker(struct client_conn *c, const char *detail)
{
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    problem_set(&problem, ERR_MALFORMED, "%s is not a Kafka broker.", name_of(c, text));
    problem_detail(&problem, "%s", detail);
    /* A TLS alert or handshake record, seen as the length of a frame. */
    bool tls = (c->reader.length[0] == 0x15 || c->reader.length[0] == 0x16) && c->reader.length[1] == 3;
    problem_hint(&problem, tls ? "The port speaks TLS: give the address of a PLAINTEXT listener."
                               : "Give the address of a broker's PLAINTEXT listener.");
    end_conn(c, &problem);
}

static void stream_ended(struct client_conn *c, enum error why)
{
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    if (c->state == CLIENT_HANDSHAKE && why != ERR_CLOSED) {
        no_broker(c, "its first bytes are no answer to ApiVersions");
        return;
    }
    if (c->state == CLIENT_HANDSHAKE) {
        problem_set(&problem, ERR_CLOSED, "%s closed the connection in the handshake.", name_of(c, text));
        problem_hint(&problem, "It is no Kafka broker, or its listener wants TLS or SASL, or it is just going down.");
    } else if (why == ERR_TOO_LARGE) {
        problem_set(&problem, ERR_TOO_LARGE, "%s sent an answer that is too large.", name_of(c, text));
        problem_detail(&problem, "the limit is %zu bytes", c->reader.limit_bytes);
    } else if (why == ERR_CLOSED) {
        problem_set(&problem, ERR_CLOSED, "%s closed the connection.", name_of(c, text));
    } else {
        problem_set(&problem, ERR_MALFORMED, "%s sent bytes that are no answer.", name_of(c, text));
    }
    end_conn(c, &problem);
}

static void unreachable(struct client_conn *c)
{
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    problem_set(&problem, ERR_UNREACHABLE, "%s cannot be reached.", name_of(c, text));
    problem_detail(&problem, "%s", strerror(c->last_errno));
    problem_hint(&problem, c->last_errno == ECONNREFUSED ? "Nobody listens there: check the port, and that the broker runs."
                                                         : "Check the address and the network.");
    end_conn(c, &problem);
}

static void setup_timed_out(struct loop_timer *timer)
{
    struct client_conn *c = CONTAINER_OF(timer, struct client_conn, timer);
    static const char *const doing[] = {"its name was looked up", "connecting", "waiting for its answer to ApiVersions"};
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    ASSERT(c->state < CLIENT_READY);
    problem_set(&problem, ERR_TIMED_OUT, "%s could not be reached within %lld ms.", name_of(c, text),
                (long long)c->options.connect_timeout_ms);
    problem_detail(&problem, "while %s", doing[c->state]);
    problem_hint(&problem, "Check the address and the network.");
    end_conn(c, &problem);
}

static void idle_too_long(struct loop_timer *timer)
{
    struct client_conn *c = CONTAINER_OF(timer, struct client_conn, idle);
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    problem_set(&problem, ERR_CLOSED, "The connection to %s was not used for %lld ms.", name_of(c, text),
                (long long)c->options.idle_timeout_ms);
    end_conn(c, &problem);
}

static void request_timed_out(struct loop_timer *timer)
{
    struct pending *p = CONTAINER_OF(timer, struct pending, timer);
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    problem_set(&problem, ERR_TIMED_OUT, "%s did not answer %s within %lld ms.", name_of(p->conn, text), p->api->name,
                (long long)p->timeout_ms);
    end_conn(p->conn, &problem);
}

/* ---- requests ---- */

static void watch_failed(struct loop_timer *timer)
{
    stream_ended(CONTAINER_OF(timer, struct client_conn, timer), ERR_CLOSED);
}

static void update_watch(struct client_conn *c)
{
    if (c->transport == NULL)
        return;
    int events = LOOP_READ | (c->out.len > 0 ? LOOP_WRITE : 0);
    if (loop_fd_change(&c->watch, c->transport->ops->wants(c->transport, events)) != OK)
        loop_timer_start(c->loop, &c->timer, 0, watch_failed);
}

/* What cannot be written is left to on_ready: a broken connection is reported there and never inside the call that sends. */
static void write_out(struct client_conn *c)
{
    size_t written;
    enum error e = transport_write_chain(c->transport, &c->out, SIZE_MAX, NULL, &written);
    (void)e;
    update_watch(c);
}

static enum error send_request(struct client_conn *c, const struct proto_api *api, int16_t version, const void *request,
                               int64_t timeout_ms, client_done *done, void *arg)
{
    const char *id = c->options.client_id != NULL ? c->options.client_id : "kagami";
    int32_t correlation_id = c->next_correlation_id;
    enum error e = proto_encode_request(api, version, correlation_id, str_of(id), request, &c->out);
    if (e != OK)
        return e;
    c->next_correlation_id = correlation_id == INT32_MAX ? 0 : correlation_id + 1;
    struct pending *p = mem_calloc(1, sizeof(*p));
    p->conn = c;
    p->api = api;
    p->version = version;
    p->correlation_id = correlation_id;
    p->done = done;
    p->arg = arg;
    p->timeout_ms = timeout_ms > 0 ? timeout_ms : c->options.request_timeout_ms;
    STAILQ_INSERT_TAIL(&c->pendings, p, link);
    c->in_flight++;
    loop_timer_stop(&c->idle);
    if (c->state == CLIENT_READY)
        loop_timer_start(c->loop, &p->timer, p->timeout_ms, request_timed_out);
    write_out(c);
    return OK;
}

enum error client_conn_send(struct client_conn *conn, int16_t api_key, int16_t version, const void *request, int64_t timeout_ms,
                            client_done *done, void *arg, struct problem *problem)
{
    ASSERT(loop_is_current(conn->loop));
    char text[SOCKET_TEXT_MAX];
    int16_t chosen;
    int16_t min = version < 0 ? 0 : version, max = version < 0 ? -1 : version;
    enum error e = client_conn_version(conn, api_key, min, max, &chosen, problem);
    if (e != OK)
        return e;
    const struct proto_api *api = proto_api(api_key);
    e = send_request(conn, api, chosen, request, timeout_ms, done, arg);
    if (e != OK) {
        problem_set(problem, e, "The %s request cannot be said in version %d.", api->name, chosen);
        problem_detail(problem, "the highest version in common with %s; %s", name_of(conn, text), error_message(e));
    }
    return e;
}

/* ---- answers ---- */

static void answer_malformed(struct client_conn *c, const struct pending *p, enum error why)
{
    struct problem problem;
    char text[SOCKET_TEXT_MAX];
    if (c->state == CLIENT_HANDSHAKE) {
        no_broker(c, "its answer to ApiVersions cannot be understood");
        return;
    }
    problem_set(&problem, why == ERR_TOO_LARGE ? ERR_TOO_LARGE : ERR_MALFORMED,
                "The answer of %s to %s version %d cannot be understood.", name_of(c, text), p->api->name, p->version);
    problem_detail(&problem, "%s", error_message(why));
    end_conn(c, &problem);
}

static bool error_35_in_version_0(const uint8_t *frame, size_t len)
{
    return len >= 6 && frame[4] == 0 && frame[5] == UNSUPPORTED_VERSION;
}

static enum error decode_answer(struct client_conn *c, struct pending *p, struct client_response *r)
{
    /* KIP-511: a broker that does not know the version of ApiVersions answers in version 0, with this error. */
    if (c->state == CLIENT_HANDSHAKE && error_35_in_version_0(r->frame, r->frame_len))
        r->version = p->version = 0;
    void *body = arena_calloc(&r->arena, 1, proto_struct_size(p->api->response));
    if (body == NULL)
        return ERR_TOO_LARGE;
    enum error e = proto_decode_response(p->api, p->version, p->correlation_id, (struct bytes){r->frame, (int64_t)r->frame_len},
                                         &r->arena, body);
    if (e == OK)
        r->body = body;
    return e;
}

/* Takes over the frame. */
static void take_answer(struct client_conn *c, uint8_t *frame, size_t len)
{
    struct pending *p = STAILQ_FIRST(&c->pendings);
    if (p == NULL) {
        mem_free(frame);
        stream_ended(c, ERR_MALFORMED);
        return;
    }
    struct client_response *r = client_response_new(p->api->key, p->version);
    r->frame = frame;
    r->frame_len = len;
    enum error e = decode_answer(c, p, r);
    if (e != OK) {
        client_response_free(r);
        answer_malformed(c, p, e);
        return;
    }
    client_done *done = p->done;
    void *arg = p->arg;
    free_pending(c, p);
    if (done != NULL)
        done(arg, r);
    if (!r->kept)
        client_response_free(r);
}

static void read_in(struct client_conn *c)
{
    while (c->state == CLIENT_HANDSHAKE || c->state == CLIENT_READY) {
        uint8_t *frame;
        size_t len, got;
        enum error e = frame_reader_next(&c->reader, c->transport, c->scratch, &frame, &len, &got);
        if (e == ERR_NOT_FOUND)
            return;
        if (e == OK)
            take_answer(c, frame, len);
        else
            stream_ended(c, e);
    }
}

/* ---- handshake ---- */

static void handshake_answered(void *arg, struct client_response *r);

static void ask_versions(struct client_conn *c, int16_t version)
{
    struct api_versions_request request;
    proto_init(&PROTO_API_VERSIONS_REQUEST, &request);
    if (version >= HANDSHAKE_VERSION) {
        request.client_software_name = STR("kagami");
        request.client_software_version = STR(KAGAMI_VERSION);
    }
    ASSERT(send_request(c, proto_api(API_API_VERSIONS), version, &request, 0, handshake_answered, c) == OK);
}

static void remember_peer(struct client_conn *c, const struct api_versions_response *body)
{
    int32_t keys = MAX(body->api_keys_n, 0), features = MAX(body->finalized_features_n, 0);
    c->versions = mem_calloc((size_t)keys, sizeof(c->versions[0]));
    for (; c->versions_n < keys; c->versions_n++) {
        const struct api_versions_response_api_keys *k = &body->api_keys[c->versions_n];
        c->versions[c->versions_n] = (struct version_range){k->api_key, k->min_version, k->max_version};
    }
    c->features = mem_calloc((size_t)features, sizeof(c->features[0]));
    for (; c->features_n < features; c->features_n++) {
        const struct api_versions_response_finalized_features *f = &body->finalized_features[c->features_n];
        c->features[c->features_n] = (struct feature){str_dup(f->name), f->max_version_level};
    }
}

static void handshake_answered(void *arg, struct client_response *r)
{
    struct client_conn *c = arg;
    const struct api_versions_response *body = r->body;
    if (r->error != OK)
        return; /* the connection ended, which `closed` tells */
    if (body->error_code == UNSUPPORTED_VERSION && c->next_correlation_id == 1) {
        int16_t next = 0;
        for (int32_t i = 0; i < body->api_keys_n; i++) {
            if (body->api_keys[i].api_key == API_API_VERSIONS)
                next = MIN(body->api_keys[i].max_version, (int16_t)(HANDSHAKE_VERSION - 1));
        }
        ask_versions(c, MAX(next, 0));
        return;
    }
    if (body->error_code != OK) {
        struct problem problem;
        char text[SOCKET_TEXT_MAX];
        problem_set(&problem, (enum error)body->error_code, "%s refused the handshake.", name_of(c, text));
        problem_detail(&problem, "ApiVersions answered %s", error_name(body->error_code));
        end_conn(c, &problem);
        return;
    }
    remember_peer(c, body);
    loop_timer_stop(&c->timer);
    c->reader.limit_bytes = c->options.response_max_bytes;
    c->state = CLIENT_READY;
    rest(c);
    if (c->events.ready != NULL)
        c->events.ready(c->arg, c);
}

/* ---- connecting ---- */

static void connected(struct client_conn *c)
{
    c->transport = transport_plain(c->watch.fd);
    c->state = CLIENT_HANDSHAKE;
    c->scratch = mem_alloc(FRAME_SCRATCH_BYTES);
    frame_reader_init(&c->reader, MIN(c->options.response_max_bytes, (size_t)HANDSHAKE_MAX_BYTES));
    ask_versions(c, HANDSHAKE_VERSION);
}

static void check_connected(struct client_conn *c)
{
    int fd = c->watch.fd;
    int number = 0;
    if (socket_error(fd, &number) == OK && number == 0) {
        connected(c);
        return;
    }
    loop_fd_stop(&c->watch);
    socket_close(fd);
    c->last_errno = number;
    connect_next(c);
}

static void on_ready(struct loop_fd *w, int events)
{
    struct client_conn *c = CONTAINER_OF(w, struct client_conn, watch);
    c->busy++;
    if (c->state == CLIENT_CONNECTING) {
        check_connected(c);
    } else {
        read_in(c);
        if (c->state != CLIENT_ENDED && c->out.len > 0)
            write_out(c);
    }
    leave(c);
}

static void connect_next(struct client_conn *c)
{
    c->state = CLIENT_CONNECTING;
    while (c->next_address < c->addresses_n) {
        int fd;
        if (socket_connect(&c->addresses[c->next_address++], c->options.receive_buffer_bytes, &fd) != OK) {
            c->last_errno = errno;
            continue;
        }
        if (loop_fd_start(c->loop, &c->watch, fd, LOOP_WRITE, on_ready) == OK)
            return;
        c->last_errno = ENOMEM;
        socket_close(fd);
    }
    unreachable(c);
}

static void look_up(struct helper_job *job)
{
    struct lookup *l = (struct lookup *)job;
    l->error = socket_resolve(&l->address, l->found, ADDRESSES_MAX, &l->count, &l->problem);
}

static void looked_up(struct helper_job *job)
{
    struct lookup *l = (struct lookup *)job;
    struct client_conn *c = l->conn;
    if (c != NULL) {
        c->lookup = NULL;
        c->busy++;
        if (l->error == OK) {
            memcpy(c->addresses, l->found, sizeof(c->addresses));
            c->addresses_n = l->count;
            connect_next(c);
        } else {
            end_conn(c, &l->problem);
        }
        leave(c);
    }
    mem_free(l);
}

static void begin(struct loop_timer *timer)
{
    struct client_conn *c = CONTAINER_OF(timer, struct client_conn, timer);
    loop_timer_start(c->loop, &c->timer, c->options.connect_timeout_ms, setup_timed_out);
    if (socket_numeric(&c->address, &c->addresses[0])) {
        c->addresses_n = 1;
        connect_next(c);
        return;
    }
    struct lookup *l = mem_calloc(1, sizeof(*l));
    l->conn = c;
    l->address = c->address;
    l->job = (struct helper_job){.work = look_up, .done = looked_up, .loop = c->loop};
    c->lookup = l;
    if (c->options.helpers != NULL) {
        helpers_submit(c->options.helpers, &l->job);
    } else {
        look_up(&l->job);
        looked_up(&l->job);
    }
}

struct client_conn *client_conn_create(struct loop *loop, const struct host_port *address, const struct client_options *options,
                                       const struct client_conn_events *events, void *arg)
{
    struct client_conn *c = mem_calloc(1, sizeof(*c));
    c->loop = loop;
    c->address = *address;
    c->options = *options;
    if (c->options.connect_timeout_ms <= 0)
        c->options.connect_timeout_ms = 10000;
    if (c->options.request_timeout_ms <= 0)
        c->options.request_timeout_ms = 30000;
    if (c->options.response_max_bytes == 0)
        c->options.response_max_bytes = LIMIT_RESPONSE_BYTES;
    c->events = *events;
    c->arg = arg;
    STAILQ_INIT(&c->pendings);
    chain_init(&c->out);
    frame_reader_init(&c->reader, 0);
    loop_timer_start(loop, &c->timer, 0, begin); /* no callback inside this call */
    return c;
}

/* ---- what is known of it ---- */

bool client_conn_is_ready(const struct client_conn *conn)
{
    return conn->state == CLIENT_READY;
}
int client_conn_in_flight(const struct client_conn *conn)
{
    return conn->in_flight;
}
const struct host_port *client_conn_address(const struct client_conn *conn)
{
    return &conn->address;
}

int16_t client_conn_feature(const struct client_conn *conn, const char *name)
{
    for (int32_t i = 0; i < conn->features_n; i++) {
        if (conn->features[i].name != NULL && strcmp(conn->features[i].name, name) == 0)
            return conn->features[i].level;
    }
    return -1;
}

static enum error no_version(const struct client_conn *c, const struct proto_api *api, const struct version_range *peer,
                             int16_t min, int16_t max, struct problem *problem)
{
    char text[SOCKET_TEXT_MAX];
    enum error e =
        problem_set(problem, ERR_UNSUPPORTED, "%s does not offer a version of %s that is needed.", name_of(c, text), api->name);
    if (peer == NULL)
        problem_detail(problem, "it does not offer %s at all; needed is a version from %d to %d", api->name, min, max);
    else
        problem_detail(problem, "it offers versions %d to %d of %s; needed is one from %d to %d", peer->min, peer->max, api->name,
                       min, max);
    problem_hint(problem, "The programs are too far apart in age: Kagami works with Kafka 2.1 and newer.");
    return e;
}

enum error client_conn_version(const struct client_conn *conn, int16_t api_key, int16_t min, int16_t max, int16_t *ret_version,
                               struct problem *problem)
{
    char text[SOCKET_TEXT_MAX];
    if (conn->state != CLIENT_READY)
        return problem_set(problem, ERR_STATE, "The connection to %s is not ready.", name_of(conn, text));
    const struct proto_api *api = proto_api(api_key);
    if (api == NULL)
        return problem_set(problem, ERR_UNSUPPORTED, "There is no API with the key %d.", api_key);
    min = MAX(min, api->valid_min);
    max = max < 0 ? api->valid_max : MIN(max, api->valid_max);
    const struct version_range *peer = NULL;
    for (int32_t i = 0; i < conn->versions_n && peer == NULL; i++) {
        if (conn->versions[i].api_key == api_key)
            peer = &conn->versions[i];
    }
    if (peer == NULL || MIN(max, peer->max) < MAX(min, peer->min))
        return no_version(conn, api, peer, min, max, problem);
    *ret_version = MIN(max, peer->max);
    return OK;
}
