#include "fake_source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/chain.h"
#include "codec/batch_builder.h"
#include "codec/control.h"
#include "proto/messages.h"
#include "proto/proto.h"
#include "unit.h"

#define MAX_FDS ((int)ARRAY_SIZE(((struct fake_source *)0)->fds))

/* ---- The log ---- */

struct fake_topic *fake_topic_add(struct fake_source *s, const char *name, int partitions)
{
    mutex_lock(&s->mutex);
    struct fake_topic *t = &s->topics[s->topics_n];
    memset(t, 0, sizeof(*t));
    snprintf(t->name, sizeof(t->name), "%s", name);
    memset(t->id.b, 0x40 + s->topics_n, sizeof(t->id.b));
    t->partitions_n = partitions;
    s->topics_n++;
    mutex_unlock(&s->mutex);
    return t;
}

void fake_append(struct fake_source *s, struct fake_topic *t, int partition, const struct fake_batch *batch)
{
    mutex_lock(&s->mutex);
    struct fake_partition *p = &t->partitions[partition];
    if (batch->end_txn) {
        struct end_txn end = {batch->commit, batch->producer_id, batch->producer_epoch, 0};
        control_build_end_txn(&p->log, &end, INT64_C(1760000000000), p->end, batch->leader_epoch);
        p->end++;
    } else {
        struct batch_builder b;
        struct batch_params params = BATCH_PARAMS_INIT;
        params.base_offset = p->end;
        params.leader_epoch = batch->leader_epoch;
        params.producer_id = batch->producer_id;
        params.producer_epoch = batch->producer_id >= 0 ? batch->producer_epoch : NO_PRODUCER_EPOCH;
        params.base_sequence = batch->producer_id >= 0 ? batch->base_sequence : NO_SEQUENCE;
        params.transactional = batch->transactional;
        batch_builder_init(&b, &params);
        for (int i = 0; i < batch->records; i++) {
            char value[32];
            int len = snprintf(value, sizeof(value), "value %lld", (long long)p->end + i);
            struct batch_record r = {.timestamp = INT64_C(1760000000000), .value = {(const uint8_t *)value, len}};
            assert_ok(batch_builder_add(&b, &r));
        }
        assert_ok(batch_builder_finish(&b, &p->log));
        batch_builder_fini(&b);
        p->end += batch->records;
    }
    p->leader_epoch = MAX(p->leader_epoch, batch->leader_epoch);
    mutex_unlock(&s->mutex);
}

void fake_append_plain(struct fake_source *s, struct fake_topic *t, int partition, int records, int32_t leader_epoch)
{
    fake_append(s, t, partition, &(struct fake_batch){.producer_id = -1, .records = records, .leader_epoch = leader_epoch});
}

/* Position of the batch that holds the offset, or the end. */
static int64_t find(const struct fake_partition *p, int64_t offset)
{
    int64_t pos = 0;
    while (pos < (int64_t)p->log.len && batch_last_offset(p->log.data + pos) < offset)
        pos += batch_size_bytes(p->log.data + pos);
    return pos;
}

void fake_truncate(struct fake_source *s, struct fake_topic *t, int partition, int64_t offset, int32_t next_epoch)
{
    mutex_lock(&s->mutex);
    struct fake_partition *p = &t->partitions[partition];
    p->log.len = (size_t)find(p, offset);
    p->end = offset;
    p->leader_epoch = next_epoch;
    mutex_unlock(&s->mutex);
}

void fake_set_log_start(struct fake_source *s, struct fake_topic *t, int partition, int64_t offset)
{
    mutex_lock(&s->mutex);
    t->partitions[partition].log_start = offset;
    mutex_unlock(&s->mutex);
}

void fake_bend(struct fake_source *s,
               bool (*bend)(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena), void *arg)
{
    mutex_lock(&s->mutex);
    s->bend = bend;
    s->bend_arg = arg;
    mutex_unlock(&s->mutex);
}

static bool bend_leaders(void *arg, int16_t api_key, const void *request, void *response, struct arena *arena)
{
    (void)request;
    (void)arena;
    struct metadata_response *r = response;
    for (int32_t t = 0; api_key == API_METADATA && t < r->topics_n; t++)
        for (int32_t p = 0; p < r->topics[t].partitions_n; p++)
            r->topics[t].partitions[p].leader_id = *(int32_t *)arg;
    return true;
}

void fake_bend_leaders(struct fake_source *s, int32_t leader_id)
{
    fake_bend(s, NULL, NULL);
    s->bent_leader_id = leader_id;
    fake_bend(s, bend_leaders, &s->bent_leader_id);
}

int fake_fetches(struct fake_source *s)
{
    mutex_lock(&s->mutex);
    int n = s->fetches;
    mutex_unlock(&s->mutex);
    return n;
}

/* The largest epoch <= asked, and where it ends. */
static void epoch_end(const struct fake_partition *p, int32_t asked, int32_t *ret_epoch, int64_t *ret_end)
{
    *ret_epoch = -1;
    *ret_end = -1;
    int64_t pos = 0;
    for (; pos < (int64_t)p->log.len; pos += batch_size_bytes(p->log.data + pos)) {
        if (batch_leader_epoch(p->log.data + pos) > asked) {
            if (*ret_epoch >= 0)
                *ret_end = batch_base_offset(p->log.data + pos);
            return;
        }
        *ret_epoch = batch_leader_epoch(p->log.data + pos);
    }
    if (asked >= p->leader_epoch && asked != p->leader_epoch) {
        *ret_epoch = *ret_end = -1;
        return;
    }
    if (*ret_epoch >= 0 || asked == p->leader_epoch)
        *ret_end = p->end;
    if (asked == p->leader_epoch)
        *ret_epoch = asked;
}

static struct fake_topic *topic_of(struct fake_source *s, struct str name, const struct uuid *id)
{
    for (int i = 0; i < s->topics_n; i++) {
        if (s->topics[i].deleted)
            continue;
        if (name.len > 0 ? str_is(name, s->topics[i].name) : uuid_eq(id, &s->topics[i].id))
            return &s->topics[i];
    }
    return NULL;
}

/* ---- Answers ---- */

static void api_versions(struct fake_source *s, int16_t version, struct arena *arena, struct api_versions_response *r)
{
    static const int16_t KEYS[] = {API_FETCH, API_LIST_OFFSETS, API_METADATA, API_API_VERSIONS, API_OFFSET_FOR_LEADER_EPOCH};
    (void)version;
    r->api_keys = api_versions_response_api_keys_new(arena, (int)ARRAY_SIZE(KEYS));
    r->api_keys_n = (int)ARRAY_SIZE(KEYS);
    for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++) {
        r->api_keys[i].api_key = KEYS[i];
        r->api_keys[i].min_version = proto_api(KEYS[i])->valid_min;
        r->api_keys[i].max_version = KEYS[i] == API_FETCH ? s->fetch_max : proto_api(KEYS[i])->valid_max;
    }
}

static void metadata(struct fake_source *s, const struct metadata_request *q, struct arena *arena, struct metadata_response *r)
{
    int n = q->topics_n < 0 ? s->topics_n : q->topics_n;
    r->brokers = metadata_response_brokers_new(arena, 1);
    r->brokers_n = 1;
    r->brokers[0].node_id = 7;
    r->brokers[0].host = STR("127.0.0.1");
    r->brokers[0].port = s->port;
    r->cluster_id = str_of(s->cluster_id);
    r->controller_id = 7;
    r->topics = metadata_response_topics_new(arena, n);
    r->topics_n = n;
    for (int i = 0; i < n; i++) {
        struct metadata_response_topics *out = &r->topics[i];
        struct fake_topic *t = q->topics_n < 0 ? &s->topics[i] : topic_of(s, q->topics[i].name, &UUID_ZERO);
        out->name = q->topics_n < 0 ? str_of(s->topics[i].name) : q->topics[i].name;
        if (t == NULL) {
            out->error_code = UNKNOWN_TOPIC_OR_PARTITION;
            continue;
        }
        out->topic_id = s->fetch_max >= 13 ? t->id : UUID_ZERO;
        out->partitions = metadata_response_topics_partitions_new(arena, t->partitions_n);
        out->partitions_n = t->partitions_n;
        for (int p = 0; p < t->partitions_n; p++) {
            out->partitions[p].partition_index = p;
            out->partitions[p].leader_id = 7;
            out->partitions[p].leader_epoch = t->partitions[p].leader_epoch;
        }
    }
}

static void list_offsets(struct fake_source *s, const struct list_offsets_request *q, struct arena *arena,
                         struct list_offsets_response *r)
{
    r->topics = list_offsets_response_topics_new(arena, q->topics_n);
    r->topics_n = q->topics_n;
    for (int i = 0; i < q->topics_n; i++) {
        struct fake_topic *t = topic_of(s, q->topics[i].name, &UUID_ZERO);
        r->topics[i].name = q->topics[i].name;
        r->topics[i].partitions = list_offsets_response_topics_partitions_new(arena, q->topics[i].partitions_n);
        r->topics[i].partitions_n = q->topics[i].partitions_n;
        for (int p = 0; p < q->topics[i].partitions_n; p++) {
            struct list_offsets_response_topics_partitions *out = &r->topics[i].partitions[p];
            out->partition_index = q->topics[i].partitions[p].partition_index;
            if (t == NULL) {
                out->error_code = UNKNOWN_TOPIC_OR_PARTITION;
                continue;
            }
            const struct fake_partition *from = &t->partitions[out->partition_index];
            out->offset = q->topics[i].partitions[p].timestamp == -2 ? from->log_start : from->end;
            out->leader_epoch = from->leader_epoch;
        }
    }
}

static void epochs(struct fake_source *s, const struct offset_for_leader_epoch_request *q, struct arena *arena,
                   struct offset_for_leader_epoch_response *r)
{
    r->topics = offset_for_leader_epoch_response_topics_new(arena, q->topics_n);
    r->topics_n = q->topics_n;
    for (int i = 0; i < q->topics_n; i++) {
        struct fake_topic *t = topic_of(s, q->topics[i].topic, &UUID_ZERO);
        r->topics[i].topic = q->topics[i].topic;
        r->topics[i].partitions = offset_for_leader_epoch_response_topics_partitions_new(arena, q->topics[i].partitions_n);
        r->topics[i].partitions_n = q->topics[i].partitions_n;
        for (int p = 0; p < q->topics[i].partitions_n; p++) {
            struct offset_for_leader_epoch_response_topics_partitions *out = &r->topics[i].partitions[p];
            out->partition = q->topics[i].partitions[p].partition;
            epoch_end(&t->partitions[out->partition], q->topics[i].partitions[p].leader_epoch, &out->leader_epoch,
                      &out->end_offset);
        }
    }
}

static void fetch_one(struct fake_topic *t, const struct fetch_request_topics_partitions *q,
                      struct fetch_response_responses_partitions *out, bool *data)
{
    out->partition_index = q->partition;
    out->high_watermark = out->last_stable_offset = out->log_start_offset = -1;
    out->aborted_transactions_n = -1;
    if (t == NULL || q->partition >= t->partitions_n) {
        out->error_code = UNKNOWN_TOPIC_ID;
        return;
    }
    struct fake_partition *p = &t->partitions[q->partition];
    int32_t epoch;
    int64_t end;
    if (p->fetch_error != OK || (q->current_leader_epoch >= 0 && q->current_leader_epoch != p->leader_epoch)) {
        out->error_code = p->fetch_error != OK                        ? p->fetch_error
                          : q->current_leader_epoch < p->leader_epoch ? FENCED_LEADER_EPOCH
                                                                      : UNKNOWN_LEADER_EPOCH;
        return;
    }
    if (q->fetch_offset < p->log_start || q->fetch_offset > p->end) {
        out->error_code = OFFSET_OUT_OF_RANGE;
        return;
    }
    out->high_watermark = out->last_stable_offset = p->end;
    out->log_start_offset = p->log_start;
    if (q->last_fetched_epoch >= 0) {
        epoch_end(p, q->last_fetched_epoch, &epoch, &end);
        if (end < 0) {
            out->error_code = OFFSET_OUT_OF_RANGE;
            return;
        }
        if (epoch < q->last_fetched_epoch || end < q->fetch_offset) {
            out->diverging_epoch.epoch = epoch;
            out->diverging_epoch.end_offset = end;
            return;
        }
    }
    int64_t pos = find(p, q->fetch_offset);
    out->records.p = p->log.data + pos;
    out->records.len = (int32_t)((int64_t)p->log.len - pos);
    *data = *data || out->records.len > 0;
}

static void remember(struct fake_topic *t, const struct fetch_request_topics_partitions *q)
{
    t->watched[q->partition] = (struct fake_watched){.in = true,
                                                     .fetch_offset = q->fetch_offset,
                                                     .told_end = -1,
                                                     .told_start = -1,
                                                     .current_epoch = q->current_leader_epoch,
                                                     .last_fetched_epoch = q->last_fetched_epoch};
}

/* Takes over what the request changes in the session. False: there is no such session, and the answer says so. */
static bool update_session(struct fake_source *s, const struct fetch_request *q, struct fetch_response *r)
{
    if (q->session_epoch == 0) {
        for (int i = 0; i < s->topics_n; i++)
            memset(s->topics[i].watched, 0, sizeof(s->topics[i].watched));
        s->session_id++;
        s->session_epoch = 1;
        s->full_fetches++;
    } else if (q->session_id != s->session_id || q->session_epoch != s->session_epoch || s->forget_session) {
        s->forget_session = false;
        r->error_code = FETCH_SESSION_ID_NOT_FOUND;
        return false;
    } else {
        s->session_epoch++;
    }
    for (int i = 0; i < q->topics_n; i++) {
        struct fake_topic *t = topic_of(s, q->topics[i].topic, &q->topics[i].topic_id);
        for (int p = 0; t != NULL && p < q->topics[i].partitions_n; p++)
            remember(t, &q->topics[i].partitions[p]);
    }
    for (int i = 0; i < q->forgotten_topics_data_n; i++) {
        const struct fetch_request_forgotten_topics_data *gone = &q->forgotten_topics_data[i];
        struct fake_topic *t = topic_of(s, gone->topic, &gone->topic_id);
        for (int p = 0; t != NULL && p < gone->partitions_n; p++)
            t->watched[gone->partitions[p]].in = false;
    }
    r->session_id = s->session_id;
    return true;
}

static bool fetch_session(struct fake_source *s, const struct fetch_request *q, struct arena *arena, struct fetch_response *r)
{
    bool data = false;
    if (!update_session(s, q, r))
        return true;
    r->responses = fetch_response_responses_new(arena, s->topics_n);
    for (int i = 0; i < s->topics_n; i++) {
        struct fake_topic *t = &s->topics[i];
        struct fetch_response_responses *out = &r->responses[r->responses_n];
        out->partitions = fetch_response_responses_partitions_new(arena, FAKE_PARTITIONS);
        for (int32_t p = 0; p < FAKE_PARTITIONS; p++) {
            struct fake_watched *w = &t->watched[p];
            struct fetch_request_topics_partitions asked = {.partition = p,
                                                            .fetch_offset = w->fetch_offset,
                                                            .current_leader_epoch = w->current_epoch,
                                                            .last_fetched_epoch = w->last_fetched_epoch};
            if (!w->in)
                continue;
            struct fetch_response_responses_partitions *answer = fetch_response_responses_partitions_new(arena, 1);
            fetch_one(t->deleted ? NULL : t, &asked, answer, &data);
            bool news = q->session_epoch == 0 || answer->error_code != OK || answer->records.len > 0 ||
                        answer->diverging_epoch.end_offset >= 0 || answer->high_watermark != w->told_end ||
                        answer->log_start_offset != w->told_start;
            data = data || answer->error_code != OK || answer->diverging_epoch.end_offset >= 0;
            w->told_end = answer->error_code == OK ? answer->high_watermark : -1;
            w->told_start = answer->log_start_offset;
            if (news)
                out->partitions[out->partitions_n++] = *answer;
        }
        out->topic = str_of(t->name);
        out->topic_id = t->id;
        r->responses_n += out->partitions_n > 0;
    }
    return data;
}

static bool fetch_plain(struct fake_source *s, const struct fetch_request *q, struct arena *arena, struct fetch_response *r)
{
    bool data = false;
    r->responses = fetch_response_responses_new(arena, q->topics_n);
    r->responses_n = q->topics_n;
    for (int i = 0; i < q->topics_n; i++) {
        struct fake_topic *t = topic_of(s, q->topics[i].topic, &q->topics[i].topic_id);
        r->responses[i].topic = q->topics[i].topic;
        r->responses[i].topic_id = q->topics[i].topic_id;
        r->responses[i].partitions = fetch_response_responses_partitions_new(arena, q->topics[i].partitions_n);
        r->responses[i].partitions_n = q->topics[i].partitions_n;
        for (int p = 0; p < q->topics[i].partitions_n; p++)
            fetch_one(t, &q->topics[i].partitions[p], &r->responses[i].partitions[p], &data);
    }
    return data;
}

/* True: it has something to say at once. */
static bool fetch(struct fake_source *s, const struct fetch_request *q, struct arena *arena, struct fetch_response *r)
{
    s->fetches++;
    s->wait_ms = q->max_wait_ms;
    s->short_waits += q->max_wait_ms < 100;
    for (int i = 0; i < q->topics_n; i++)
        s->named += q->topics[i].partitions_n;
    return s->no_sessions ? fetch_plain(s, q, arena, r) : fetch_session(s, q, arena, r);
}

/* The frame to be sent; false: none. */
static bool answer(struct fake_source *s, struct bytes frame, struct buf *out)
{
    struct request_header header;
    const struct proto_api *api;
    size_t used;
    struct arena arena;
    struct chain chain;
    bool idle = false;
    arena_init(&arena, SIZE_MAX);
    chain_init(&chain);
    assert_ok(proto_decode_request_header(frame, &header, &api, &used));
    void *request = arena_calloc(&arena, 1, proto_struct_size(api->request));
    void *response = arena_calloc(&arena, 1, proto_struct_size(api->response));
    struct bytes body = {frame.p + used, frame.len - (int64_t)used};
    assert_ok(proto_decode(api->request, header.request_api_version, body, &arena, request, NULL));
    proto_init(api->response, response);
    mutex_lock(&s->mutex);
    switch (api->key) {
    case API_API_VERSIONS:
        api_versions(s, header.request_api_version, &arena, response);
        break;
    case API_METADATA:
        metadata(s, request, &arena, response);
        break;
    case API_LIST_OFFSETS:
        list_offsets(s, request, &arena, response);
        break;
    case API_OFFSET_FOR_LEADER_EPOCH:
        epochs(s, request, &arena, response);
        break;
    case API_FETCH:
        idle = !fetch(s, request, &arena, response);
        break;
    default:
        fail_msg("the fake source was asked for API %d", api->key);
    }
    bool send = s->bend == NULL || s->bend(s->bend_arg, api->key, request, response, &arena);
    enum error error = proto_encode_response(api, header.request_api_version, header.correlation_id, response, &chain);
    mutex_unlock(&s->mutex);
    assert_ok(error);
    if (idle)
        usleep(5000);
    assert_ok(chain_read(&chain, out));
    chain_fini(&chain);
    arena_fini(&arena);
    return send;
}

/* ---- Sockets ---- */

static bool read_exactly(int fd, void *out, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = read(fd, (uint8_t *)out + got, len - got);
        if (n <= 0 && errno != EINTR)
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool serve_one(struct fake_source *s, int fd)
{
    uint8_t length[4];
    struct buf out = {0};
    if (!read_exactly(fd, length, 4))
        return false;
    size_t len = (size_t)get_u32(length);
    uint8_t *frame = mem_alloc(len + 1);
    bool ok = read_exactly(fd, frame, len);
    if (ok)
        ok = answer(s, (struct bytes){frame, (int64_t)len}, &out);
    for (size_t sent = 0; ok && sent < out.len;) {
        ssize_t n = send(fd, out.data + sent, out.len - sent, MSG_NOSIGNAL);
        ok = n > 0;
        sent += n > 0 ? (size_t)n : 0;
    }
    mem_free(frame);
    buf_fini(&out);
    return ok;
}

static void serve(void *arg)
{
    struct fake_source *s = arg;
    for (;;) {
        struct pollfd fds[34] = {{s->wake[0], POLLIN, 0}, {s->listen_fd, POLLIN, 0}};
        for (int i = 0; i < MAX_FDS; i++)
            fds[2 + i] = (struct pollfd){s->fds[i], POLLIN, 0};
        poll(fds, ARRAY_SIZE(fds), -1);
        if (fds[0].revents != 0)
            break;
        for (int i = 0; i < MAX_FDS; i++) {
            if (fds[2 + i].fd >= 0 && fds[2 + i].revents != 0 && !serve_one(s, s->fds[i])) {
                close(s->fds[i]);
                s->fds[i] = -1;
            }
        }
        if (fds[1].revents != 0) {
            int fd = accept(s->listen_fd, NULL, NULL), i = 0;
            while (i < MAX_FDS && s->fds[i] >= 0)
                i++;
            if (i < MAX_FDS)
                s->fds[i] = fd;
            else
                close(fd);
        }
    }
    for (int i = 0; i < MAX_FDS; i++) {
        if (s->fds[i] >= 0)
            close(s->fds[i]);
    }
}

void fake_source_start(struct fake_source *s, const char *cluster_id)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    memset(s, 0, sizeof(*s));
    mutex_init(&s->mutex);
    snprintf(s->cluster_id, sizeof(s->cluster_id), "%s", cluster_id);
    s->fetch_max = proto_api(API_FETCH)->valid_max;
    for (int i = 0; i < MAX_FDS; i++)
        s->fds[i] = -1;
    s->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(s->listen_fd, 16), 0);
    assert_int_equal(getsockname(s->listen_fd, (struct sockaddr *)&address, &len), 0);
    s->port = ntohs(address.sin_port);
    assert_int_equal(pipe(s->wake), 0);
    assert_ok(thread_start(&s->thread, "fake-source", serve, s));
}

void fake_source_stop(struct fake_source *s)
{
    assert_int_equal(write(s->wake[1], "x", 1), 1);
    thread_join(&s->thread);
    close(s->wake[0]);
    close(s->wake[1]);
    close(s->listen_fd);
    for (int t = 0; t < s->topics_n; t++) {
        for (int p = 0; p < FAKE_PARTITIONS; p++)
            buf_fini(&s->topics[t].partitions[p].log);
    }
    mutex_fini(&s->mutex);
}
