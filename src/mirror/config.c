#include "mirror/config.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "os/socket.h"

enum setting_kind { SETTING_TEXT, SETTING_NUMBER, SETTING_CHOICE, SETTING_LATER };

struct setting {
    const char *name;
    enum setting_kind kind;
    size_t member;             /* TEXT, CHOICE: char *; NUMBER: int64_t */
    const char *default_value; /* NULL: none */
    int64_t min, max;          /* NUMBER */
    const char *choices;       /* CHOICE: "a,b"; LATER: what the setting belongs to */
    const char *not_yet;       /* CHOICE: those of choices that this version refuses */
    const char *doc;
};

#define AT(member) offsetof(struct mirror_config, member)
#define LATER(name, what)                                                                                                        \
    {                                                                                                                            \
        name, SETTING_LATER, 0, NULL, 0, 0, what, NULL, NULL                                                                     \
    }

static const struct setting settings[] = {
    {"bootstrap.servers", SETTING_TEXT, AT(bootstrap_servers), NULL, 0, 0, NULL, NULL,
     "Addresses of the source cluster: host:port, several with commas. Required."},
    {"security.protocol", SETTING_CHOICE, AT(security_protocol), "PLAINTEXT", 0, 0, "PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL",
     "SSL,SASL_PLAINTEXT,SASL_SSL", "How to speak to the source."},
    {"request.timeout.ms", SETTING_NUMBER, AT(request_timeout_ms), "30000", 1, INT_MAX, NULL, NULL,
     "How long an answer of the source may take."},
    {"connections.max.idle.ms", SETTING_NUMBER, AT(connections_max_idle_ms), "600000", -1, INT64_MAX, NULL, NULL,
     "Unused connections to the source are closed after this time; -1: never."},
    {"socket.receive.buffer.bytes", SETTING_NUMBER, AT(socket_receive_buffer_bytes), "-1", -1, INT_MAX, NULL, NULL,
     "SO_RCVBUF of connections to the source; -1: the system's choice."},
    {"fetch.wait.max.ms", SETTING_NUMBER, AT(fetch_wait_max_ms), "1000", 0, INT_MAX, NULL, NULL,
     "How long the source may wait for new data."},
    {"fetch.min.bytes", SETTING_NUMBER, AT(fetch_min_bytes), "1", 0, INT_MAX, NULL, NULL,
     "The source answers early once it has this much."},
    {"fetch.max.bytes", SETTING_NUMBER, AT(fetch_max_bytes), "10485760", 1, INT_MAX, NULL, NULL,
     "Limit of one answer; a single larger batch is taken all the same."},
    {"partition.fetch.max.bytes", SETTING_NUMBER, AT(partition_fetch_max_bytes), "1048576", 1, INT_MAX, NULL, NULL,
     "Limit of one partition in an answer; a single larger batch is taken all the same."},
    {"fetchers", SETTING_NUMBER, AT(fetchers), "1", 1, 64, NULL, NULL, "Connections per source broker."},
    {"producer.ids", SETTING_CHOICE, AT(producer_ids), "preserve", 0, 0, "preserve,negate", "negate",
     "What becomes of copied producer ids."},
    {"open.transactions", SETTING_CHOICE, AT(open_transactions_text), "abort", 0, 0, "abort,truncate", NULL,
     "What a stop does with open transactions: end them by an ABORT marker, or cut the log before the first."},
    {"on.divergence", SETTING_CHOICE, AT(on_divergence_text), "fail", 0, 0, "fail,truncate", NULL,
     "What to do when the source has lost records that are here: fail, or cut them off here too."},
    {"throttle.bytes.per.second", SETTING_NUMBER, AT(throttle_bytes_per_second), "-1", -1, INT64_MAX, NULL, NULL,
     "How much the mirror may copy; -1: as fast as it can."},
    {"metadata.refresh.interval.ms", SETTING_NUMBER, AT(metadata_refresh_interval_ms), "60000", 100, INT_MAX, NULL, NULL,
     "How often topics, partitions and leaders of the source are looked at anew."},
    LATER("topics.include", "synchronising metadata"),
    LATER("topics.exclude", "synchronising metadata"),
    LATER("groups.include", "synchronising group offsets"),
    LATER("groups.exclude", "synchronising group offsets"),
    LATER("acls.include", "synchronising ACLs"),
    LATER("topic.configs.exclude", "synchronising topic configs"),
};

static struct str next_choice(struct str *rest)
{
    struct str piece;

    return str_split(rest, ',', &piece) ? piece : STR_NULL;
}

static bool is_choice(const char *choices, struct str value)
{
    struct str rest = str_of(choices);

    for (struct str c = next_choice(&rest); c.p != NULL; c = next_choice(&rest)) {
        if (str_eq(c, value))
            return true;
    }
    return false;
}

static void *member_of(struct mirror_config *config, const struct setting *s)
{
    return (char *)config + s->member;
}

/* The text of a setting that is in force, for comparisons and JSON; NULL for none. */
static const char *text_of(const struct mirror_config *config, const struct setting *s, char number[24])
{
    const void *member = (const char *)config + s->member;

    if (s->kind != SETTING_NUMBER)
        return *(char *const *)member;
    snprintf(number, 24, "%lld", (long long)*(const int64_t *)member);
    return number;
}

static void set_checked(struct mirror_config *config, const struct setting *s, struct str value)
{
    if (s->kind == SETTING_NUMBER) {
        bool ok = str_to_i64(value, member_of(config, s));
        ASSERT(ok);
        return;
    }
    mem_free(*(char **)member_of(config, s));
    *(char **)member_of(config, s) = str_dup(value);
    if (s->member == AT(open_transactions_text))
        config->open_transactions = str_is(value, "truncate") ? MIRROR_TXN_TRUNCATE : MIRROR_TXN_ABORT;
    else if (s->member == AT(on_divergence_text))
        config->on_divergence = str_is(value, "truncate") ? MIRROR_DIVERGENCE_TRUNCATE : MIRROR_DIVERGENCE_FAIL;
}

void mirror_config_init(struct mirror_config *config)
{
    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (settings[i].default_value != NULL)
            set_checked(config, &settings[i], str_of(settings[i].default_value));
    }
}

void mirror_config_fini(struct mirror_config *config)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (settings[i].kind == SETTING_TEXT || settings[i].kind == SETTING_CHOICE)
            mem_free(*(char **)member_of(config, &settings[i]));
    }
    memset(config, 0, sizeof(*config));
}

void mirror_config_copy(struct mirror_config *to, const struct mirror_config *from)
{
    char number[24];

    mirror_config_init(to);
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        const char *text = settings[i].kind == SETTING_LATER ? NULL : text_of(from, &settings[i], number);
        if (text != NULL)
            set_checked(to, &settings[i], str_of(text));
    }
}

static enum error unknown(struct str name, struct problem *problem)
{
    const char *nearest = NULL;
    int best = INT_MAX;

    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        int distance = str_distance(name, str_of(settings[i].name));
        if (distance < best) {
            best = distance;
            nearest = settings[i].name;
        }
    }
    problem_set(problem, INVALID_CONFIG, "Unknown mirror setting %.*s", STR_ARG(name));
    if (nearest != NULL && best <= 1 + name.len / 3)
        problem_hint(problem, "Did you mean %s?", nearest);
    else
        problem_hint(problem, "`kagami mirror create --help` lists the settings");
    return INVALID_CONFIG;
}

static enum error check_value(const struct setting *s, struct str value, struct problem *problem)
{
    int64_t number;

    switch (s->kind) {
    case SETTING_LATER:
        problem_set(problem, INVALID_CONFIG, "Mirror setting %s is not supported yet: it belongs to %s", s->name, s->choices);
        problem_hint(problem, "Leave it out; topics are mirrored by name: `kagami mirror start`");
        return INVALID_CONFIG;
    case SETTING_NUMBER:
        if (!str_to_i64(value, &number)) {
            problem_set(problem, INVALID_CONFIG, "Invalid value %.*s for mirror setting %s: not a whole number", STR_ARG(value),
                        s->name);
            problem_hint(problem, "It must be between %lld and %lld", (long long)s->min, (long long)s->max);
            return INVALID_CONFIG;
        }
        if (number < s->min || number > s->max) {
            problem_set(problem, INVALID_CONFIG, "Invalid value %.*s for mirror setting %s", STR_ARG(value), s->name);
            problem_hint(problem, "It must be between %lld and %lld", (long long)s->min, (long long)s->max);
            return INVALID_CONFIG;
        }
        return OK;
    case SETTING_CHOICE:
        if (!is_choice(s->choices, value)) {
            problem_set(problem, INVALID_CONFIG, "Invalid value %.*s for mirror setting %s", STR_ARG(value), s->name);
            problem_hint(problem, "It must be one of %s", s->choices);
            return INVALID_CONFIG;
        }
        if (s->not_yet != NULL && is_choice(s->not_yet, value)) {
            problem_set(problem, INVALID_CONFIG, "%s=%.*s is not supported yet", s->name, STR_ARG(value));
            problem_hint(problem, "This version offers only %s", s->default_value);
            return INVALID_CONFIG;
        }
        return OK;
    case SETTING_TEXT:
        return OK;
    }
    UNREACHABLE();
}

enum error mirror_config_set(struct mirror_config *config, struct str name, struct str value, struct problem *problem)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        const struct setting *s = &settings[i];
        enum error error;
        if (!str_is(name, s->name))
            continue;
        if (value.p == NULL && s->kind == SETTING_TEXT) {
            mem_free(*(char **)member_of(config, s));
            *(char **)member_of(config, s) = NULL;
            return OK;
        }
        if (value.p == NULL && s->kind != SETTING_LATER)
            value = str_of(s->default_value);
        value = str_trim(value);
        error = check_value(s, value, problem);
        if (error == OK)
            set_checked(config, s, value);
        return error;
    }
    if (str_starts(name, STR("ssl.")) || str_starts(name, STR("sasl."))) {
        problem_set(problem, INVALID_CONFIG, "Mirror setting %.*s is not supported yet: this version speaks PLAINTEXT only",
                    STR_ARG(name));
        problem_hint(problem, "Leave it out");
        return INVALID_CONFIG;
    }
    return unknown(name, problem);
}

enum error mirror_config_check(const struct mirror_config *config, struct problem *problem)
{
    struct str rest = str_of(config->bootstrap_servers), piece;
    struct host_port address;
    int count = 0;

    while (str_split(&rest, ',', &piece)) {
        piece = str_trim(piece);
        if (piece.len == 0)
            continue;
        if (!host_port_parse(piece, -1, &address) || address.host[0] == '\0' || address.port == 0) {
            problem_set(problem, INVALID_CONFIG, "Invalid address %.*s in bootstrap.servers", STR_ARG(piece));
            problem_hint(problem, "Write host:port, several with commas");
            return INVALID_CONFIG;
        }
        count++;
    }
    if (count > 0)
        return OK;
    problem_set(problem, INVALID_CONFIG, "The mirror has no bootstrap.servers");
    problem_hint(problem, "Name the source cluster: --source HOST:PORT[,HOST:PORT..]");
    return INVALID_CONFIG;
}

json_t *mirror_config_to_json(const struct mirror_config *config)
{
    json_t *json = json_object();
    char number[24];

    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        const struct setting *s = &settings[i];
        const char *text = s->kind == SETTING_LATER ? NULL : text_of(config, s, number);
        if (text != NULL && (s->default_value == NULL || strcmp(text, s->default_value) != 0))
            json_object_set_new(json, s->name, json_string(text));
    }
    return json;
}

enum error mirror_config_from_json(const json_t *json, struct mirror_config *ret_config, struct problem *problem)
{
    struct mirror_config config;
    enum error error = OK;
    const char *name;
    json_t *value;

    mirror_config_init(&config);
    if (!json_is_object(json))
        error = problem_set(problem, ERR_CORRUPT, "The settings of a mirror are not a JSON object");
    json_object_foreach((json_t *)json, name, value)
    {
        if (error == OK)
            error = json_is_string(value) ? mirror_config_set(&config, str_of(name), str_of(json_string_value(value)), problem)
                                          : problem_set(problem, ERR_CORRUPT, "The mirror setting %s is not a string", name);
    }
    if (error == OK)
        error = mirror_config_check(&config, problem);
    if (error != OK) {
        mirror_config_fini(&config);
        return error;
    }
    *ret_config = config;
    return OK;
}

bool mirror_config_doc(int i, const char **ret_name, const char **ret_default, const char **ret_doc)
{
    if (i < 0 || (size_t)i >= ARRAY_SIZE(settings) || settings[i].kind == SETTING_LATER)
        return false; /* what is not supported stands at the end of the table */
    *ret_name = settings[i].name;
    *ret_default = settings[i].default_value;
    *ret_doc = settings[i].doc;
    return true;
}
