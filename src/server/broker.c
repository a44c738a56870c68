/* Order of a start: folder, metadata store, controller, log manager (recovers logs), folders without metadata, leader epochs, mirrors' records, partitions, listener, mirrors. The end runs the
 * other way round. Whatever fails takes down what was started before it. */
#include "server/broker.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/logger.h"
#include "meta/config_defs.h"
#include "meta/controller.h"
#include "meta/image.h"
#include "meta/store.h"
#include "mirror/mirrors.h"
#include "net/listener.h"
#include "os/page_cache.h"
#include "repl/fetch_session.h"
#include "repl/partitions.h"
#include "server/adopt.h"
#include "server/housekeeping.h"
#include "server/listeners.h"
#include "server/request.h"
#include "server/server.h"
#include "server/worker.h"
#include "storage/log_manager.h"

#define FETCH_SESSION_EVICTION_MS 120000 /* Kafka: min.incremental.fetch.session.eviction.ms */
#define REMOVAL_INTERVAL_MS 10000
#define COLD_READERS 4
#define PATH_ROOM 4200

struct broker {
    struct server server;
    const struct properties *properties;
    char data_dir[4096];
    bool new_store;
    struct meta_store *store;
    struct listener *listener;
    struct listener_limits listener_limits;
    struct housekeeping *housekeeping;
    struct image_listener image_listener;
    bool listens_to_images;
    char address[SOCKET_TEXT_MAX];
};

/* ---- Upward calls of the parts ---- */

static void topic_config(void *arg, struct str topic, struct plog_config *ret_config)
{
    struct broker *b = arg;
    const struct image *image = image_cell_get(b->server.images);
    config_topic_log(image, image_topic(image, topic), ret_config);
    image_unref(image);
}

static void log_event(void *arg, const char *text)
{
    log_info("storage", "%s", text);
}

static void log_dir_failed(void *arg, const char *dir, const char *text)
{
    log_error("storage",
              "the log directory is out of service, its partitions answer KAFKA_STORAGE_ERROR until a restart dir=%s: %s", dir,
              text);
}

static void set_listener_limits(struct broker *b, const struct image *image)
{
    atomic_store(&b->listener_limits.connections, (int)config_broker_long(image, "max.connections"));
    atomic_store(&b->listener_limits.per_ip, (int)config_broker_long(image, "max.connections.per.ip"));
}

static void image_changed(struct image_listener *listener, const struct image *before, const struct image *after)
{
    struct broker *b = CONTAINER_OF(listener, struct broker, image_listener);
    set_listener_limits(b, after);
    partitions_apply(b->server.partitions, after);
}

static void kept_out(void *arg, const char *peer, enum error why)
{
    log_warn("server", "a connection was not taken peer=%s why=%s", peer, error_name(why));
}

/* ---- Parts of the start ---- */

static enum error check_settings(struct broker *b, struct problem *problem)
{
    const char *dir = config_static_string(b->properties, "log.dirs");
    if (dir == NULL)
        dir = config_static_string(b->properties, "log.dir");
    enum log_level level;
    if (dir == NULL || dir[0] == '\0') {
        problem_set(problem, INVALID_CONFIG, "no data folder is given");
        problem_hint(problem, "Give one: kagamid --data DIR");
        return INVALID_CONFIG;
    }
    if (strchr(dir, ',') != NULL) {
        problem_set(problem, INVALID_CONFIG, "log.dirs names several folders: %s", dir);
        problem_hint(problem, "This version keeps everything in one folder; name one.");
        return INVALID_CONFIG;
    }
    if (snprintf(b->data_dir, sizeof(b->data_dir), "%s", dir) >= (int)sizeof(b->data_dir))
        return problem_set(problem, INVALID_CONFIG, "the path of the data folder is too long");
    if (logger_level_parse(str_of(config_static_string(b->properties, "log.level")), &level))
        logger_set_level(level);
    return OK;
}

static enum error start_threads(struct broker *b, struct problem *problem)
{
    struct server *s = &b->server;
    int loops = config_static_string(b->properties, "num.network.threads") != NULL
                    ? (int)config_static_long(b->properties, "num.network.threads")
                    : (int)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
    enum error error = helpers_start((int)config_static_long(b->properties, "background.threads"), &s->helpers);
    if (error == OK)
        error = helpers_start(COLD_READERS, &s->readers);
    if (error == OK)
        error = loop_group_start(s->clock, loops, &s->loops);
    if (error == OK)
        s->workers = workers_create(s->loops);
    return error == OK ? OK : problem_set(problem, error, "threads cannot be started");
}

static enum error make_folder(struct broker *b, struct problem *problem)
{
    enum error error = fs_mkdirs(b->server.fs, b->data_dir);
    if (error == OK)
        return OK;
    problem_set(problem, error, "the data folder %s cannot be made", b->data_dir);
    problem_detail(problem, "%s", error_message(error));
    problem_hint(problem, "Check that its parent is there and may be written, or name another folder with --data.");
    return error;
}

/* The cluster id: what the folder's meta.properties says (also Kafka's), else what the store has, else a new one. */
static enum error open_metadata(struct broker *b, const struct host_port *advertised, struct problem *problem)
{
    struct server *s = &b->server;
    char cluster_id[64];
    int32_t node_id;
    enum error error = log_manager_read_identity(s->fs, b->data_dir, cluster_id, &node_id, problem);
    bool known = error == OK;
    if (error == ERR_UNSUPPORTED && problem->hint[0] == '\0')
        problem_hint(problem, "A newer version wrote this folder: use that version, or name another folder.");
    if (error != OK && error != ERR_NOT_FOUND)
        return error;
    *problem = (struct problem){0};
    if (known && node_id >= 0 && node_id != s->node_id) {
        problem_set(problem, ERR_CONFLICT, "the data folder %s belongs to node %d, and this is node %d", b->data_dir, node_id,
                    s->node_id);
        problem_hint(problem, "Start with --set node.id=%d, or name the folder of node %d.", node_id, s->node_id);
        return ERR_CONFLICT;
    }
    char path[PATH_ROOM];
    snprintf(path, sizeof(path), "%s/metadata.db", b->data_dir);
    error = meta_store_open_sqlite(path, &b->store, problem);
    if (error != OK)
        return error;
    b->new_store = meta_store_revision(b->store) == 0;
    struct controller_params params = {.store = b->store,
                                       .random = s->random,
                                       .node_id = s->node_id,
                                       .host = advertised->host,
                                       .port = advertised->port,
                                       .rack = config_static_string(b->properties, "broker.rack"),
                                       .properties = b->properties,
                                       .cluster_id = known ? cluster_id : NULL};
    error = controller_create(&params, &s->controller, problem);
    if (error == INCONSISTENT_CLUSTER_ID)
        problem_detail(problem, "meta.properties and metadata.db in %s name different clusters", b->data_dir);
    if (error != OK)
        return error;
    s->images = controller_images(s->controller);
    const struct image *image = image_cell_get(s->images);
    snprintf(s->cluster_id, sizeof(s->cluster_id), "%s", image->cluster_id_text);
    image_unref(image);
    return OK;
}

static enum error open_logs(struct broker *b, struct problem *problem)
{
    struct server *s = &b->server;
    struct log_manager_params params = {.fs = s->fs,
                                        .clock = s->clock,
                                        .random = s->random,
                                        .helpers = s->helpers,
                                        .dir = b->data_dir,
                                        .cluster_id = s->cluster_id,
                                        .node_id = s->node_id,
                                        .foreign = b->new_store,
                                        .topic_config = topic_config,
                                        .event = log_event,
                                        .failed = log_dir_failed,
                                        .arg = b};
    enum error error = log_manager_open(&params, &s->logs, problem);
    if (error != OK)
        return error;
    bool clean = log_manager_was_clean(s->logs);
    if (!clean && !b->new_store)
        log_warn("server", "the last end was not clean, logs were recovered dir=%s", b->data_dir);
    error = adopt_folders(s->controller, s->logs, b->new_store, problem);
    if (error == OK)
        error = adopt_leader_epochs(s->controller, s->logs, !clean || b->new_store, problem);
    if (error == OK)
        error = adopt_producer_ids(s->controller, s->logs, problem);
    return error;
}

/* Before any partition opens: those of mirror topics are read-only from their first moment. */
static enum error create_mirrors(struct broker *b, struct problem *problem)
{
    struct server *s = &b->server;
    struct mirrors_params params = {.clock = s->clock,
                                    .random = s->random,
                                    .loops = s->loops,
                                    .helpers = s->helpers,
                                    .store = b->store,
                                    .controller = s->controller,
                                    .partitions = s->partitions,
                                    .cluster_id = s->cluster_id,
                                    .node_id = s->node_id};
    enum error error = mirrors_create(&params, &s->mirrors, problem);
    if (error == OK)
        controller_set_topic_guard(s->controller, &(struct topic_guard){mirrors_topic_allowed, s->mirrors});
    return error;
}

static void partition_opened(void *arg, struct partition *p)
{
    mirrors_partition_opened(((struct broker *)arg)->server.mirrors, p);
}

static void partition_closing(void *arg, struct partition *p)
{
    mirrors_partition_closing(((struct broker *)arg)->server.mirrors, p);
}

static void create_partitions(struct broker *b)
{
    struct server *s = &b->server;
    struct partitions_params params = {.clock = s->clock,
                                       .helpers = s->helpers,
                                       .logs = s->logs,
                                       .flush_acks_all = config_static_bool(b->properties, "flush.acks.all"),
                                       .callbacks = {.opened = partition_opened, .closing = partition_closing, .arg = b}};
    s->partitions = partitions_create(&params);
    s->sessions = fetch_sessions_create(s->partitions, s->clock, s->random,
                                        (int)config_static_long(b->properties, "max.incremental.fetch.session.cache.slots"),
                                        FETCH_SESSION_EVICTION_MS);
    s->fetch_max_bytes = (size_t)config_static_long(b->properties, "fetch.max.bytes");
}

static void open_partitions(struct broker *b)
{
    b->image_listener.changed = image_changed;
    image_cell_listen(b->server.images, &b->image_listener);
    b->listens_to_images = true;
}

static void start_housekeeping(struct broker *b)
{
    const struct properties *p = b->properties;
    int64_t recovery = config_static_long(p, "log.flush.offset.checkpoint.interval.ms");
    int64_t hw = config_static_long(p, "replica.high.watermark.checkpoint.interval.ms");
    struct housekeeping_times times = {.checkpoint_ms = MAX(MIN(recovery, hw), 100),
                                       .retention_ms = config_static_long(p, "log.retention.check.interval.ms"),
                                       .removal_ms = REMOVAL_INTERVAL_MS};
    b->housekeeping = housekeeping_start(&b->server, &times);
}

/* ---- Addresses ---- */

static enum error read_addresses(struct broker *b, struct host_port *ret_listen, bool *ret_advertised, struct problem *problem)
{
    struct host_port *advertised = &b->server.advertised;
    const char *told = config_static_string(b->properties, "advertised.listeners");
    enum error error =
        listeners_parse("listeners", str_of(config_static_string(b->properties, "listeners")), ret_listen, problem);
    if (error != OK)
        return error;
    *ret_advertised = told != NULL && told[0] != '\0';
    if (*ret_advertised) {
        error = listeners_parse("advertised.listeners", str_of(told), advertised, problem);
        if (error == OK && (listeners_any_address(advertised->host) || advertised->port == 0)) {
            error = problem_set(problem, INVALID_CONFIG, "advertised.listeners must name a host and a port, and is %s", told);
            problem_hint(problem, "It is what clients connect to.");
        }
        return error;
    }
    *advertised = *ret_listen;
    if (listeners_any_address(advertised->host))
        listeners_default_host(advertised->host);
    return OK;
}

static enum error listen_and_register(struct broker *b, const struct host_port *address, bool advertised, struct problem *problem)
{
    struct server *s = &b->server;
    struct listener_config config = {
        .address = *address,
        .backlog = (int)config_static_long(b->properties, "socket.listen.backlog.size"),
        .limits = &b->listener_limits,
        .conn_limits = {.request_max_bytes = (size_t)config_static_long(b->properties, "socket.request.max.bytes"),
                        .idle_max_ms = config_static_long(b->properties, "connections.max.idle.ms"),
                        .disk = {s->readers, page_cache_holds, page_cache_load}},
        .events = {.opened = request_conn_opened, .request = request_arrived, .closed = request_conn_closed},
        .arg = s,
        .kept_out = kept_out};
    enum error error = listener_start(s->loops, &config, &b->listener, problem);
    if (error != OK)
        return error;
    if (!advertised && address->port == 0) { /* nobody can know the port before we print it */
        s->advertised.port = listener_port(b->listener);
        error = controller_register_broker(s->controller, s->advertised.host, s->advertised.port, problem);
    }
    host_port_text(&s->advertised, b->address);
    return error;
}

/* ---- Start and stop ---- */

static enum error start(struct broker *b, struct problem *problem)
{
    struct host_port address;
    bool advertised = false;
    enum error error = config_check_static(b->properties, problem);
    if (error == OK)
        error = check_settings(b, problem);
    if (error == OK)
        error = read_addresses(b, &address, &advertised, problem);
    if (error != OK)
        return error;
    b->server.node_id = (int32_t)config_static_long(b->properties, "node.id");
    error = start_threads(b, problem);
    if (error == OK)
        error = make_folder(b, problem);
    if (error == OK)
        error = open_metadata(b, &b->server.advertised, problem);
    if (error == OK)
        error = open_logs(b, problem);
    if (error != OK)
        return error;
    create_partitions(b);
    error = create_mirrors(b, problem);
    if (error != OK)
        return error;
    open_partitions(b);
    error = listen_and_register(b, &address, advertised, problem);
    if (error != OK)
        return error;
    start_housekeeping(b);
    mirrors_start(b->server.mirrors);
    return OK;
}

enum error broker_start(const struct broker_params *params, struct broker **ret_broker, struct problem *problem)
{
    struct broker *b = mem_calloc(1, sizeof(*b));
    b->properties = params->properties;
    b->server.fs = params->fs;
    b->server.clock = params->clock;
    b->server.random = params->random;
    enum error error = start(b, problem);
    if (error != OK)
        broker_stop(b);
    else
        *ret_broker = b;
    return error;
}

const char *broker_address(const struct broker *b)
{
    return b->address;
}
const char *broker_cluster_id(const struct broker *b)
{
    return b->server.cluster_id;
}

/* Requests whose connection is gone are ended by their hooks or when their helper has done its work; none waits for a client. */
static void await_requests(struct server *s)
{
    while (atomic_load(&s->requests_in_flight) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void broker_stop(struct broker *b)
{
    if (b == NULL)
        return;
    struct server *s = &b->server;
    if (b->listener != NULL)
        listener_destroy(b->listener);
    helpers_stop(s->readers);
    housekeeping_stop(b->housekeeping);
    if (s->mirrors != NULL)
        mirrors_stop(s->mirrors); /* ends the calls that wait for a source or a time limit, too */
    await_requests(s);
    if (b->listens_to_images)
        image_cell_unlisten(s->images, &b->image_listener);
    bool opened = s->partitions != NULL;
    fetch_sessions_destroy(s->sessions);
    partitions_destroy(s->partitions);
    mirrors_destroy(s->mirrors);
    log_manager_close(s->logs, opened); /* clean only when the leader epochs that an unclean end asks for were raised */
    controller_destroy(s->controller);
    meta_store_close(b->store);
    helpers_stop(s->helpers);
    int loops = s->loops != NULL ? loop_group_count(s->loops) : 0;
    loop_group_stop(s->loops);
    workers_destroy(s->workers, loops);
    mem_free(b);
}
