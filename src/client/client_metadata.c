/* A Metadata answer, copied into an arena of its own: it is read long after the frame has gone. */
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "client/client_internal.h"

struct owned {
    struct client_metadata metadata; /* first */
    struct arena arena;
    bool failed; /* an allocation, or something that makes no sense */
};

static void *take(struct owned *o, int32_t count, size_t size)
{
    void *p = arena_calloc(&o->arena, (size_t)MAX(count, 0), size);
    if (p == NULL)
        o->failed = true;
    return p;
}

static char *take_text(struct owned *o, struct str s)
{
    if (s.p == NULL)
        return NULL;
    char *p = take(o, s.len + 1, 1);
    if (p != NULL && s.len > 0)
        memcpy(p, s.p, (size_t)s.len);
    return p;
}

static int32_t *take_ids(struct owned *o, const int32_t *ids, int32_t n, int32_t *ret_n)
{
    int32_t *p = take(o, n, sizeof(*p));
    if (p != NULL && n > 0)
        memcpy(p, ids, (size_t)n * sizeof(*p));
    *ret_n = MAX(n, 0);
    return p;
}

static void copy_brokers(struct owned *o, const struct metadata_response *in)
{
    struct client_metadata *m = &o->metadata;
    m->brokers = take(o, in->brokers_n, sizeof(m->brokers[0]));
    for (int32_t i = 0; i < in->brokers_n && !o->failed; i++) {
        const struct metadata_response_brokers *b = &in->brokers[i];
        struct client_broker *out = &m->brokers[m->brokers_n++];
        if (b->host.len >= SOCKET_HOST_MAX || b->host.len == 0 || memchr(b->host.p, '\0', (size_t)b->host.len) != NULL ||
            b->port < 1 || b->port > 65535 || b->node_id < 0) {
            o->failed = true;
            return;
        }
        out->id = b->node_id;
        memcpy(out->address.host, b->host.p, (size_t)b->host.len);
        out->address.port = b->port;
        out->rack = take_text(o, b->rack);
    }
}

static void copy_partitions(struct owned *o, const struct metadata_response_topics *in, struct client_topic *out)
{
    out->partitions = take(o, in->partitions_n, sizeof(out->partitions[0]));
    out->partitions_n = MAX(in->partitions_n, 0);
    for (int32_t i = 0; i < out->partitions_n && !o->failed; i++)
        out->partitions[i].index = -1;
    for (int32_t i = 0; i < out->partitions_n && !o->failed; i++) {
        const struct metadata_response_topics_partitions *p = &in->partitions[i];
        /* As many as there are, each once: so each index has its place. */
        if (p->partition_index < 0 || p->partition_index >= out->partitions_n || out->partitions[p->partition_index].index >= 0) {
            o->failed = true;
            return;
        }
        struct client_partition *to = &out->partitions[p->partition_index];
        to->index = p->partition_index;
        to->error_code = p->error_code;
        to->leader = p->leader_id;
        to->leader_epoch = p->leader_epoch;
        to->replicas = take_ids(o, p->replica_nodes, p->replica_nodes_n, &to->replicas_n);
        to->isr = take_ids(o, p->isr_nodes, p->isr_nodes_n, &to->isr_n);
    }
}

static void copy_topics(struct owned *o, const struct metadata_response *in)
{
    struct client_metadata *m = &o->metadata;
    m->topics = take(o, in->topics_n, sizeof(m->topics[0]));
    for (int32_t i = 0; i < in->topics_n && !o->failed; i++) {
        const struct metadata_response_topics *t = &in->topics[i];
        struct client_topic *out = &m->topics[m->topics_n++];
        out->name = take_text(o, t->name.p != NULL ? t->name : STR(""));
        out->id = t->topic_id;
        out->error_code = t->error_code;
        out->internal = t->is_internal;
        copy_partitions(o, t, out);
    }
}

enum error client_metadata_create(const struct metadata_response *response, struct client_metadata **ret_metadata)
{
    struct owned *o = mem_calloc(1, sizeof(*o));
    arena_init(&o->arena, LIMIT_DECODE_ARENA_BYTES);
    o->metadata.cluster_id = take_text(o, response->cluster_id);
    o->metadata.controller = response->controller_id;
    if (!o->failed)
        copy_brokers(o, response);
    if (!o->failed)
        copy_topics(o, response);
    if (o->failed) {
        client_metadata_destroy(&o->metadata);
        return ERR_MALFORMED;
    }
    *ret_metadata = &o->metadata;
    return OK;
}

void client_metadata_destroy(struct client_metadata *m)
{
    if (m == NULL)
        return;
    struct owned *o = (struct owned *)m;
    arena_fini(&o->arena);
    mem_free(o);
}

const struct client_broker *client_metadata_broker(const struct client_metadata *m, int32_t id)
{
    for (int32_t i = 0; m != NULL && i < m->brokers_n; i++) {
        if (m->brokers[i].id == id)
            return &m->brokers[i];
    }
    return NULL;
}

const struct client_topic *client_metadata_topic(const struct client_metadata *m, const char *name)
{
    for (int32_t i = 0; m != NULL && i < m->topics_n; i++) {
        if (strcmp(m->topics[i].name, name) == 0)
            return &m->topics[i];
    }
    return NULL;
}
