/* DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources (Kafka: ConfigHelper, ConfigAdminManager;
 * KIP-226, KIP-339, KIP-1142). */
#include <uthash.h>

#include "base/assert.h"
#include "base/logger.h"
#include "meta/config_defs.h"
#include "meta/controller.h"
#include "server/handlers.h"
#include "server/server.h"

#define TOO_LARGE "the answer would be too large"

/* ---- DescribeConfigs ---- */

struct describe {
    struct request *r;
    const struct image *image;
    const struct image_topic *topic; /* NULL for a broker */
    bool defaults_only;              /* what was set for all brokers, and nothing else */
};

#define SETTINGS_MAX 128 /* in one table */

/* Which settings of the table are asked for; none named: all. */
static void mark_wanted(const struct describe_configs_request_resources *resource, enum config_scope scope,
                        bool wanted[SETTINGS_MAX])
{
    int count;
    const struct config_def *table = config_defs(scope, &count);
    ASSERT(count <= SETTINGS_MAX);
    memset(wanted, resource->configuration_keys_n <= 0, SETTINGS_MAX);
    for (int32_t i = 0; i < resource->configuration_keys_n; i++) {
        const struct config_def *def = config_def_find(scope, resource->configuration_keys[i]);
        if (def != NULL)
            wanted[def - table] = true;
    }
}

static bool fill_synonyms(const struct describe *d, const struct config_def *def,
                          struct describe_configs_response_results_configs *out)
{
    struct config_value found[CONFIG_SYNONYMS_MAX];
    int count = config_synonyms(d->image, d->topic, def, found, CONFIG_SYNONYMS_MAX);
    out->synonyms = describe_configs_response_results_configs_synonyms_new(&d->r->arena, count);
    if (out->synonyms == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        if (d->defaults_only && found[i].source != CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER)
            continue;
        out->synonyms[out->synonyms_n++] = (struct describe_configs_response_results_configs_synonyms){
            .name = str_of(found[i].name),
            .value = def->type == CONFIG_PASSWORD ? STR_NULL : str_of(found[i].value),
            .source = (int8_t)found[i].source,
        };
    }
    return true;
}

static bool fill_config(const struct describe *d, const struct config_def *def,
                        struct describe_configs_response_results_configs *out)
{
    const struct describe_configs_request *request = d->r->body;
    struct config_value value;
    config_resolve(d->image, d->topic, def, &value);
    if (d->defaults_only)
        value = (struct config_value){.name = def->name,
                                      .value = image_config(&d->image->broker_default_configs, def->name),
                                      .factor = 1,
                                      .source = CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER};
    out->name = str_of(def->name);
    out->is_sensitive = def->type == CONFIG_PASSWORD;
    out->value = out->is_sensitive ? STR_NULL : config_value_text(&d->r->arena, &value);
    out->read_only = def->read_only;
    out->config_source = (int8_t)value.source;
    out->config_type = (int8_t)def->type;
    out->documentation = request->include_documentation ? str_of(def->doc) : STR_NULL;
    return !request->include_synonyms || fill_synonyms(d, def, out);
}

static bool fill_configs(const struct describe *d, const struct describe_configs_request_resources *resource,
                         struct describe_configs_response_results *out)
{
    int count;
    bool wanted[SETTINGS_MAX];
    enum config_scope scope = out->resource_type == CONFIG_RESOURCE_TOPIC ? CONFIG_SCOPE_TOPIC : CONFIG_SCOPE_BROKER;
    const struct config_def *table = config_defs(scope, &count);
    mark_wanted(resource, scope, wanted);
    out->configs = describe_configs_response_results_configs_new(&d->r->arena, count);
    bool good = out->configs != NULL;
    for (int i = 0; i < count && good; i++) {
        if (!wanted[i])
            continue;
        if (d->defaults_only && image_config(&d->image->broker_default_configs, table[i].name) == NULL)
            continue;
        good = fill_config(d, &table[i], &out->configs[out->configs_n++]);
    }
    return good;
}

static enum error find_topic(struct describe *d, struct str name, struct problem *problem)
{
    enum error error = topic_name_check(name, problem);
    if (error != OK)
        return error;
    d->topic = image_topic(d->image, name);
    if (d->topic == NULL)
        return problem_set(problem, UNKNOWN_TOPIC_OR_PARTITION, "The topic '%.*s' does not exist.", STR_ARG(name));
    return OK;
}

static enum error find_broker(struct describe *d, struct str name, struct problem *problem)
{
    int64_t id;
    d->defaults_only = name.len == 0;
    if (!d->defaults_only && (!str_to_i64(name, &id) || id != d->image->node_id))
        return problem_set(problem, INVALID_REQUEST, "Unexpected broker id, expected %d or empty string, but received %.*s",
                           d->image->node_id, MIN(name.len, 100), name.p);
    return OK;
}

static enum error find_resource(struct describe *d, const struct describe_configs_request_resources *resource,
                                struct problem *problem)
{
    switch (resource->resource_type) {
    case CONFIG_RESOURCE_TOPIC:
        return find_topic(d, resource->resource_name, problem);
    case CONFIG_RESOURCE_BROKER:
        return find_broker(d, resource->resource_name, problem);
    case CONFIG_RESOURCE_BROKER_LOGGER:
        return problem_set(problem, INVALID_REQUEST,
                           "There are no loggers to describe: log.level of the broker is the one level.");
    case CONFIG_RESOURCE_CLIENT_METRICS:
        return problem_set(problem, INVALID_REQUEST, "Client metrics are not supported.");
    case CONFIG_RESOURCE_GROUP:
        return problem_set(problem, INVALID_REQUEST, "Settings of groups are not supported.");
    default:
        return problem_set(problem, INVALID_REQUEST, "Unsupported resource type: %d", resource->resource_type);
    }
}

void handle_describe_configs(struct request *r)
{
    const struct describe_configs_request *request = r->body;
    struct describe_configs_response response;
    proto_init(&PROTO_DESCRIBE_CONFIGS_RESPONSE, &response);
    const struct image *image = image_cell_get(r->server->images);
    response.results_n = MAX(request->resources_n, 0);
    response.results = describe_configs_response_results_new(&r->arena, response.results_n);
    bool good = response.results != NULL;
    for (int32_t i = 0; i < response.results_n && good; i++) {
        const struct describe_configs_request_resources *resource = &request->resources[i];
        struct describe_configs_response_results *out = &response.results[i];
        struct describe d = {.r = r, .image = image};
        struct problem problem = {0};
        out->resource_type = resource->resource_type;
        out->resource_name = resource->resource_name;
        enum error error = find_resource(&d, resource, &problem);
        out->error_code = error_wire(error);
        if (error != OK)
            out->error_message = request_problem_text(r, &problem);
        else
            good = fill_configs(&d, resource, out);
    }
    if (good)
        request_respond(r, &response);
    else
        request_close(r, TOO_LARGE);
    image_unref(image);
}

/* ---- AlterConfigs, IncrementalAlterConfigs ---- */

struct alter_resource {
    UT_hash_handle hh; /* by type and name: which come twice */
    int8_t type;
    struct str name;
    struct config_op *ops;
    int32_t ops_n;
    bool twice;
    enum error error;
    struct str message;
};

struct alter_state {
    struct alter_resource *resources;
    int32_t count;
    bool replace, validate_only;
};

static struct alter_state *alter_begin(struct request *r, int32_t count)
{
    struct alter_state *s = request_alloc(r, sizeof(*s));
    s->count = MAX(count, 0);
    s->resources = arena_calloc(&r->arena, (size_t)s->count, sizeof(*s->resources));
    r->state = s;
    return s->resources != NULL ? s : NULL;
}

static void mark_twice(struct request *r, struct alter_state *s)
{
    struct alter_resource *set = NULL, *present;
    for (int32_t i = 0; i < s->count; i++) {
        struct alter_resource *resource = &s->resources[i];
        struct str key = arena_printf(&r->arena, "%d:%.*s", resource->type, STR_ARG(resource->name));
        if (key.p == NULL)
            continue;
        HASH_FIND(hh, set, key.p, (size_t)key.len, present);
        if (present != NULL)
            present->twice = resource->twice = true;
        else
            HASH_ADD_KEYPTR(hh, set, key.p, (size_t)key.len, resource);
    }
    HASH_CLEAR(hh, set);
}

static void alter_work(struct request *r)
{
    struct alter_state *s = r->state;
    mark_twice(r, s);
    for (int32_t i = 0; i < s->count; i++) {
        struct alter_resource *resource = &s->resources[i];
        struct problem problem = {0};
        if (resource->twice)
            resource->error = problem_set(&problem, INVALID_REQUEST, "Each resource must appear at most once.");
        else
            resource->error = controller_alter_configs(r->server->controller, resource->type, resource->name, resource->ops,
                                                       resource->ops_n, s->replace, s->validate_only, false, NULL, &problem);
        if (resource->error != OK)
            resource->message = request_problem_text(r, &problem);
        else if (!s->validate_only)
            log_info("server", "settings changed %s=%.*s", resource->type == CONFIG_RESOURCE_TOPIC ? "topic" : "broker",
                     STR_ARG(resource->name));
    }
}

static void alter_done(struct request *r)
{
    struct alter_state *s = r->state;
    struct alter_configs_response response;
    proto_init(&PROTO_ALTER_CONFIGS_RESPONSE, &response);
    response.responses_n = s->count;
    response.responses = alter_configs_response_responses_new(&r->arena, s->count);
    for (int32_t i = 0; i < s->count && response.responses != NULL; i++) {
        const struct alter_resource *resource = &s->resources[i];
        response.responses[i] = (struct alter_configs_response_responses){.error_code = error_wire(resource->error),
                                                                          .error_message = resource->message,
                                                                          .resource_type = resource->type,
                                                                          .resource_name = resource->name};
    }
    if (response.responses != NULL)
        request_respond(r, &response);
    else
        request_close(r, TOO_LARGE);
}

static void incremental_done(struct request *r)
{
    struct alter_state *s = r->state;
    struct incremental_alter_configs_response response;
    proto_init(&PROTO_INCREMENTAL_ALTER_CONFIGS_RESPONSE, &response);
    response.responses_n = s->count;
    response.responses = incremental_alter_configs_response_responses_new(&r->arena, s->count);
    for (int32_t i = 0; i < s->count && response.responses != NULL; i++) {
        const struct alter_resource *resource = &s->resources[i];
        response.responses[i] = (struct incremental_alter_configs_response_responses){.error_code = error_wire(resource->error),
                                                                                      .error_message = resource->message,
                                                                                      .resource_type = resource->type,
                                                                                      .resource_name = resource->name};
    }
    if (response.responses != NULL)
        request_respond(r, &response);
    else
        request_close(r, TOO_LARGE);
}

/* What AlterConfigs names is set, the rest goes back to its default. */
void handle_alter_configs(struct request *r)
{
    const struct alter_configs_request *request = r->body;
    struct alter_state *s = alter_begin(r, request->resources_n);
    bool good = s != NULL;
    for (int32_t i = 0; good && i < s->count; i++) {
        const struct alter_configs_request_resources *from = &request->resources[i];
        struct alter_resource *to = &s->resources[i];
        to->type = from->resource_type;
        to->name = from->resource_name;
        to->ops_n = MAX(from->configs_n, 0);
        to->ops = arena_calloc(&r->arena, (size_t)to->ops_n, sizeof(*to->ops));
        good = to->ops != NULL;
        for (int32_t c = 0; good && c < to->ops_n; c++)
            to->ops[c] =
                (struct config_op){.kind = CONFIG_OP_SET, .name = from->configs[c].name, .value = from->configs[c].value};
    }
    if (!good) {
        request_close(r, "the request is too large");
        return;
    }
    s->replace = true;
    s->validate_only = request->validate_only;
    request_run(r, alter_work, alter_done);
}

void handle_incremental_alter_configs(struct request *r)
{
    const struct incremental_alter_configs_request *request = r->body;
    struct alter_state *s = alter_begin(r, request->resources_n);
    bool good = s != NULL;
    for (int32_t i = 0; good && i < s->count; i++) {
        const struct incremental_alter_configs_request_resources *from = &request->resources[i];
        struct alter_resource *to = &s->resources[i];
        to->type = from->resource_type;
        to->name = from->resource_name;
        to->ops_n = MAX(from->configs_n, 0);
        to->ops = arena_calloc(&r->arena, (size_t)to->ops_n, sizeof(*to->ops));
        good = to->ops != NULL;
        for (int32_t c = 0; good && c < to->ops_n; c++)
            to->ops[c] = (struct config_op){.kind = (enum config_op_kind)from->configs[c].config_operation,
                                            .name = from->configs[c].name,
                                            .value = from->configs[c].value};
    }
    if (!good) {
        request_close(r, "the request is too large");
        return;
    }
    s->validate_only = request->validate_only;
    request_run(r, alter_work, incremental_done);
}

/* ---- ListConfigResources ---- */

/* Version 0 asks for client metrics only, of which there are none. */
static bool is_listed(const struct request *r, int8_t type)
{
    const struct list_config_resources_request *request = r->body;
    if (r->version == 0)
        return false;
    bool listed = request->resource_types_n <= 0;
    for (int32_t i = 0; i < request->resource_types_n && !listed; i++)
        listed = request->resource_types[i] == type;
    return listed;
}

static bool all_types_known(const struct list_config_resources_request *request)
{
    for (int32_t i = 0; i < request->resource_types_n; i++) {
        int8_t type = request->resource_types[i];
        if (type != CONFIG_RESOURCE_TOPIC && type != CONFIG_RESOURCE_BROKER && type != CONFIG_RESOURCE_BROKER_LOGGER &&
            type != CONFIG_RESOURCE_CLIENT_METRICS && type != CONFIG_RESOURCE_GROUP)
            return false;
    }
    return true;
}

void handle_list_config_resources(struct request *r)
{
    struct list_config_resources_response response;
    proto_init(&PROTO_LIST_CONFIG_RESOURCES_RESPONSE, &response);
    const struct image *image = image_cell_get(r->server->images);
    response.config_resources =
        list_config_resources_response_config_resources_new(&r->arena, image->broker_count + image->topic_count);
    ASSERT(response.config_resources != NULL);
    if (!all_types_known(r->body))
        response.error_code = UNSUPPORTED_VERSION;
    bool brokers = response.error_code == OK && is_listed(r, CONFIG_RESOURCE_BROKER);
    bool topics = response.error_code == OK && is_listed(r, CONFIG_RESOURCE_TOPIC);
    struct list_config_resources_response_config_resources *next = response.config_resources;
    for (int i = 0; i < image->broker_count && brokers; i++)
        *next++ = (struct list_config_resources_response_config_resources){
            .resource_name = arena_printf(&r->arena, "%d", image->brokers[i].id), .resource_type = CONFIG_RESOURCE_BROKER};
    for (int i = 0; i < image->topic_count && topics; i++)
        *next++ = (struct list_config_resources_response_config_resources){.resource_name = str_of(image->topics[i]->name),
                                                                           .resource_type = CONFIG_RESOURCE_TOPIC};
    response.config_resources_n = (int32_t)(next - response.config_resources);
    request_respond(r, &response);
    image_unref(image);
}
