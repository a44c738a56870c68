#include "mirror_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/logger.h"
#include "codec/batch_builder.h"

#define PATIENCE_MS 10000

static void quiet(void *arg, enum log_level level, const char *line)
{
    if (getenv("UNIT_LOG") != NULL)
        fputs(line, stderr);
    (void)arg;
    (void)level;
}

static void image_changed(struct image_listener *listener, const struct image *before, const struct image *after)
{
    struct mirror_fixture *f = CONTAINER_OF(listener, struct mirror_fixture, listener);
    (void)before;
    partitions_apply(f->partitions, after);
}

static void opened(void *arg, struct partition *p)
{
    mirrors_partition_opened(((struct mirror_fixture *)arg)->mirrors, p);
}

static void closing(void *arg, struct partition *p)
{
    mirrors_partition_closing(((struct mirror_fixture *)arg)->mirrors, p);
}

static void must(enum error error, const struct problem *problem)
{
    if (error != OK)
        fail_msg("%s: %s (%s)", error_name(error), problem->message, problem->detail);
}

void fixture_start(struct mirror_fixture *f)
{
    struct problem problem = {0};
    char path[128];
    assert_ok(helpers_start(2, &f->helpers));
    assert_ok(loop_group_start(CLOCK_SYSTEM, 2, &f->loops));
    snprintf(path, sizeof(path), "%s/metadata.db", f->root);
    must(meta_store_open_sqlite(path, &f->store, &problem), &problem);
    struct controller_params cp = {.store = f->store,
                                   .random = random_system(),
                                   .node_id = 1,
                                   .host = "localhost",
                                   .port = 9092,
                                   .properties = &f->properties};
    must(controller_create(&cp, &f->controller, &problem), &problem);
    const struct image *image = image_cell_get(controller_images(f->controller));
    snprintf(f->cluster_id, sizeof(f->cluster_id), "%s", image->cluster_id_text);
    image_unref(image);
    snprintf(path, sizeof(path), "%s/logs", f->root);
    struct log_manager_params lp = {.fs = f->fs,
                                    .clock = CLOCK_SYSTEM,
                                    .random = random_system(),
                                    .helpers = f->helpers,
                                    .dir = path,
                                    .cluster_id = f->cluster_id,
                                    .node_id = 1};
    must(log_manager_open(&lp, &f->logs, &problem), &problem);
    struct partitions_params pp = {
        .clock = CLOCK_SYSTEM, .helpers = f->helpers, .logs = f->logs, .flush_acks_all = true, .callbacks = {opened, closing, f}};
    f->partitions = partitions_create(&pp);
    struct mirrors_params mp = {.clock = CLOCK_SYSTEM,
                                .random = random_system(),
                                .loops = f->loops,
                                .helpers = f->helpers,
                                .store = f->store,
                                .controller = f->controller,
                                .partitions = f->partitions,
                                .cluster_id = f->cluster_id,
                                .node_id = 1};
    must(mirrors_create(&mp, &f->mirrors, &problem), &problem);
    controller_set_topic_guard(f->controller, &(struct topic_guard){mirrors_topic_allowed, f->mirrors});
    f->listener.changed = image_changed;
    image_cell_listen(controller_images(f->controller), &f->listener);
    mirrors_start(f->mirrors);
}

void fixture_init(struct mirror_fixture *f)
{
    fixture_init_on(f, fs_system());
}

void fixture_init_on(struct mirror_fixture *f, struct fs *fs)
{
    memset(f, 0, sizeof(*f));
    f->fs = fs;
    logger_set_sink(quiet, NULL);
    strcpy(f->root, "/tmp/kagami-mirror-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    arena_init(&f->arena, SIZE_MAX);
    fixture_start(f);
}

void fixture_stop(struct mirror_fixture *f, bool clean)
{
    mirrors_stop(f->mirrors);
    image_cell_unlisten(controller_images(f->controller), &f->listener);
    partitions_destroy(f->partitions);
    mirrors_destroy(f->mirrors);
    log_manager_close(f->logs, clean);
    controller_destroy(f->controller);
    meta_store_close(f->store);
    helpers_stop(f->helpers);
    loop_group_stop(f->loops);
}

void fixture_fini(struct mirror_fixture *f)
{
    fixture_stop(f, true);
    arena_fini(&f->arena);
    assert_ok(fs_remove_tree(fs_system(), f->root));
}

/* ---- Calls ---- */

struct waiting_call {
    struct mirror_call call;
    struct latch latch;
};

static void done(struct mirror_call *call)
{
    latch_down(&((struct waiting_call *)call)->latch);
}

void *fixture_call(struct mirror_fixture *f, int16_t key, const void *request)
{
    const struct proto_api *api = proto_api(key);
    struct waiting_call w = {.call = {.api_key = key,
                                      .request = request,
                                      .arena = &f->arena,
                                      .loop = loop_group_at(f->loops, 0),
                                      .done = done,
                                      .timeout_ms = 3000}};
    w.call.response = arena_calloc(&f->arena, 1, proto_struct_size(api->response));
    proto_init(api->response, w.call.response);
    latch_init(&w.latch, 1);
    mirrors_call(f->mirrors, &w.call);
    latch_wait(&w.latch);
    return w.call.response;
}

void fixture_create(struct mirror_fixture *f, const char *mirror, struct fake_source *s, const char *const *settings)
{
    struct create_cluster_mirror_request request = {.mirror_name = str_of(mirror)};
    struct create_cluster_mirror_request_config config[16];
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", s->port);
    config[request.config_n++] = (struct create_cluster_mirror_request_config){STR("bootstrap.servers"), str_of(address)};
    config[request.config_n++] = (struct create_cluster_mirror_request_config){STR("fetch.wait.max.ms"), STR("20")};
    config[request.config_n++] = (struct create_cluster_mirror_request_config){STR("metadata.refresh.interval.ms"), STR("100")};
    for (int i = 0; settings != NULL && settings[i] != NULL; i += 2)
        config[request.config_n++] = (struct create_cluster_mirror_request_config){str_of(settings[i]), str_of(settings[i + 1])};
    request.config = config;
    struct create_cluster_mirror_response *r = fixture_call(f, API_CREATE_CLUSTER_MIRROR, &request);
    if (r->error_code != OK)
        fail_msg("create: %s %.*s", error_name(r->error_code), STR_ARG(r->error_message));
    assert_true(str_is(r->source_cluster_id, s->cluster_id));
}

int16_t fixture_try_start(struct mirror_fixture *f, const char *mirror, const char *topic, bool discard)
{
    struct start_mirror_topics_request_topics t = {str_of(topic)};
    struct start_mirror_topics_request request = {
        .mirror_name = str_of(mirror), .topics = &t, .topics_n = 1, .discard_local_data = discard};
    struct start_mirror_topics_response *r = fixture_call(f, API_START_MIRROR_TOPICS, &request);
    if (r->error_code != OK)
        return r->error_code;
    assert_int_equal(r->topics_n, 1);
    return r->topics[0].error_code;
}

void fixture_start_topic(struct mirror_fixture *f, const char *mirror, const char *topic, bool discard)
{
    assert_error(fixture_try_start(f, mirror, topic, discard), OK);
}

struct stop_mirror_topics_response *fixture_stop_topic(struct mirror_fixture *f, const char *mirror, const char *topic)
{
    struct stop_mirror_topics_request_topics t = {str_of(topic)};
    struct stop_mirror_topics_request request = {.mirror_name = str_of(mirror), .topics = &t, .topics_n = 1};
    return fixture_call(f, API_STOP_MIRROR_TOPICS, &request);
}

int16_t fixture_act(struct mirror_fixture *f, int16_t key, const char *mirror, const char *topic)
{
    struct pause_mirror_topics_request_topics t = {str_of(topic)};
    struct pause_mirror_topics_request request = {.mirror_name = str_of(mirror), .topics = &t, .topics_n = 1};
    struct pause_mirror_topics_response *r = fixture_call(f, key, &request); /* the three have the same form */
    return r->error_code != OK ? r->error_code : r->topics[0].error_code;
}

const struct describe_cluster_mirrors_response_mirrors_topics_partitions *fixture_describe(struct mirror_fixture *f,
                                                                                           const char *topic, int partition)
{
    struct describe_cluster_mirrors_request request = {.mirror_names_n = -1, .topics_n = -1};
    struct describe_cluster_mirrors_response *r = fixture_call(f, API_DESCRIBE_CLUSTER_MIRRORS, &request);
    for (int32_t i = 0; i < r->mirrors_n; i++) {
        for (int32_t t = 0; t < r->mirrors[i].topics_n; t++) {
            if (str_is(r->mirrors[i].topics[t].topic_name, topic) && partition < r->mirrors[i].topics[t].partitions_n)
                return &r->mirrors[i].topics[t].partitions[partition];
        }
    }
    return NULL;
}

/* ---- Waiting and looking ---- */

void fixture_await_state(struct mirror_fixture *f, const char *topic, int partition, const char *state)
{
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *p = NULL;
    for (int waited = 0; waited < PATIENCE_MS; waited += 10) {
        p = fixture_describe(f, topic, partition);
        if (p != NULL && str_is(p->state, state))
            return;
        usleep(10000);
    }
    fail_msg("%s-%d is %.*s, not %s: %.*s", topic, partition, p != NULL ? p->state.len : 0, p != NULL ? p->state.p : "", state,
             p != NULL ? p->error_message.len : 0, p != NULL ? p->error_message.p : "");
}

struct partition *fixture_partition(struct mirror_fixture *f, const char *topic, int partition)
{
    enum error error = OK;
    struct partition *p = partitions_find(f->partitions, str_of(topic), partition, &error);
    if (p == NULL)
        fail_msg("%s-%d: %s", topic, partition, error_name(error));
    return p;
}

void fixture_await_end(struct mirror_fixture *f, const char *topic, int partition, int64_t end_offset)
{
    struct partition_state state = {0};
    for (int waited = 0; waited < PATIENCE_MS; waited += 10) {
        struct partition *p = fixture_partition(f, topic, partition);
        partition_get_state(p, &state);
        partition_unref(p);
        if (state.end_offset == end_offset)
            return;
        usleep(10000);
    }
    const struct describe_cluster_mirrors_response_mirrors_topics_partitions *d = fixture_describe(f, topic, partition);
    fail_msg("%s-%d ends at %lld, not at %lld; %.*s %.*s", topic, partition, (long long)state.end_offset, (long long)end_offset,
             STR_ARG(d->state), STR_ARG(d->error_message));
}

void fixture_read(struct mirror_fixture *f, const char *topic, int partition, struct buf *out)
{
    struct partition *p = fixture_partition(f, topic, partition);
    struct partition_state state;
    partition_get_state(p, &state);
    for (int64_t at = state.log_start_offset; at < state.end_offset;) {
        struct plog_slice slice = {0};
        struct plog *log = partition_lock(p);
        assert_ok(plog_read(log, at, state.end_offset, 1 << 20, true, &slice));
        partition_unlock(p);
        assert_ok(plog_slice_copy(&slice, out));
        at = slice.end_offset;
        plog_slice_release(&slice);
    }
    partition_unref(p);
}

enum error fixture_write(struct mirror_fixture *f, const char *topic, int partition, struct problem *problem)
{
    struct partition *p = fixture_partition(f, topic, partition);
    struct batch_builder b;
    struct buf bytes = {0};
    struct validated v = {0};
    struct partition_appended appended;
    struct validate_config config = validate_config_default();
    struct batch_params params = BATCH_PARAMS_INIT;
    struct batch_record r = {.timestamp = clock_wall_ms(CLOCK_SYSTEM), .value = {(const uint8_t *)"local", 5}};
    batch_builder_init(&b, &params);
    assert_ok(batch_builder_add(&b, &r));
    assert_ok(batch_builder_finish(&b, &bytes));
    assert_ok(validate_records(buf_bytes(&bytes), 9, VALIDATE_CLIENT, &config, clock_wall_ms(CLOCK_SYSTEM), &f->arena, &v, NULL,
                               problem));
    enum error error = partition_append_client(p, &v, 1, NULL, &appended, problem);
    validated_fini(&v);
    batch_builder_fini(&b);
    buf_fini(&bytes);
    partition_unref(p);
    return error;
}
