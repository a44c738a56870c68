#include "tools/mirror_view.h"

#include <string.h>

#include "base/assert.h"
#include "tools/table.h"
#include "tools/text.h"

/* The generated names are long. */
#define MIRROR struct describe_cluster_mirrors_response_mirrors
#define TOPIC struct describe_cluster_mirrors_response_mirrors_topics
#define PARTITION struct describe_cluster_mirrors_response_mirrors_topics_partitions

/* ---- Asking ---- */

static void keep_failed(TOPIC *t)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < t->partitions_n; i++) {
        if (str_is(t->partitions[i].state, "FAILED"))
            t->partitions[kept++] = t->partitions[i];
    }
    t->partitions_n = kept;
}

static void filter(MIRROR *m, const struct topic_list *list, bool failed)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < m->topics_n; i++) {
        TOPIC *t = &m->topics[i];
        if (failed)
            keep_failed(t);
        if (topic_list_has(list, t->topic_name) && (!failed || t->partitions_n > 0))
            m->topics[kept++] = *t;
    }
    m->topics_n = kept;
}

bool mirror_ask(struct tool *tool, const char *name, const struct topic_list *list, bool failed,
                struct client_response **ret_response)
{
    struct describe_cluster_mirrors_request request;
    struct str only = str_of(name);
    struct client_response *r;
    proto_init(&PROTO_DESCRIBE_CLUSTER_MIRRORS_REQUEST, &request);
    request.mirror_names = name != NULL ? &only : NULL;
    request.mirror_names_n = name != NULL ? 1 : -1;
    request.topics_n = -1;
    if (!tool_call(tool, CLIENT_ANY, API_DESCRIBE_CLUSTER_MIRRORS, -1, &request, &r))
        return false;
    struct describe_cluster_mirrors_response *body = r->body;
    for (int32_t i = 0; i < body->mirrors_n; i++)
        filter(&body->mirrors[i], list, failed);
    *ret_response = r;
    return true;
}

int mirror_errors(struct tool *tool, const struct describe_cluster_mirrors_response *body)
{
    int status = 0;
    if (body->error_code != 0)
        status = tool_fail_code(tool, body->error_code, body->error_message, body->error_hint, "mirrors");
    for (int32_t i = 0; i < body->mirrors_n; i++) {
        const MIRROR *m = &body->mirrors[i];
        if (m->error_code != 0)
            status = tool_fail_code(tool, m->error_code, m->error_message, m->error_hint, "mirror %.*s", STR_ARG(m->mirror_name));
    }
    return status;
}

/* ---- Showing ---- */

static void print_partitions(struct tool *tool, const MIRROR *m)
{
    static const char *const titles[] = {"TOPIC",    ">PARTITION", "STATE", "WANTED", ">LOG START",
                                         ">LOG END", ">SOURCE HW", ">LAG",  ">SEEN",  ">LEADER EPOCH"};
    struct table t;
    table_init(&t, titles, ARRAY_SIZE(titles));
    for (int32_t i = 0; i < m->topics_n; i++) {
        const TOPIC *topic = &m->topics[i];
        for (int32_t k = 0; k < topic->partitions_n; k++) {
            const PARTITION *p = &topic->partitions[k];
            table_str(&t, topic->topic_name);
            table_count(&t, p->partition_index);
            table_str(&t, p->state);
            table_str(&t, topic->wanted_state);
            table_count(&t, p->log_start_offset);
            table_count(&t, p->destination_offset);
            table_count(&t, p->source_high_watermark);
            table_count(&t, p->lag);
            table_duration(&t, p->source_age_ms);
            table_count(&t, p->leader_epoch);
        }
    }
    table_print(&t, &tool->out);
    table_fini(&t);
}

static void print_failure(struct tool *tool, const TOPIC *t, const PARTITION *p)
{
    struct out *out = &tool->out;
    char text[TEXT_SIZE];
    out_printf(out, "\n%.*s-%d failed", STR_ARG(t->topic_name), p->partition_index);
    if (p->failed_from.len > 0)
        out_printf(out, " while it was %.*s", STR_ARG(p->failed_from));
    out_printf(out, ": ");
    if (p->error_message.len > 0)
        out_safe(out, (struct bytes){(const uint8_t *)p->error_message.p, p->error_message.len});
    else
        out_printf(out, "%s", error_message(p->error_code));
    out_printf(out, " (%s)\n", error_name(p->error_code));
    if (p->error_hint.len > 0) {
        out_printf(out, "  ");
        out_safe(out, (struct bytes){(const uint8_t *)p->error_hint.p, p->error_hint.len});
        out_char(out, '\n');
    }
    if (p->retriable && p->next_retry_ms >= 0)
        out_printf(out, "  It tries again in %s (%d so far).\n", text_duration(p->next_retry_ms, text), p->retry_attempt);
    else if (!p->retriable)
        out_printf(out, "  It does not try again by itself: kagami mirror recover, when the reason is gone.\n");
}

static void print_gaps(struct tool *tool, const TOPIC *t, const PARTITION *p)
{
    char text[TEXT_SIZE];
    if (p->gaps_n <= 0 && p->gaps_total <= 0)
        return;
    out_printf(&tool->out, "\n%.*s-%d has %lld gap%s: the source had removed these offsets before they could be copied\n",
               STR_ARG(t->topic_name), p->partition_index, (long long)MAX(p->gaps_total, p->gaps_n),
               MAX(p->gaps_total, p->gaps_n) == 1 ? "" : "s");
    for (int32_t i = 0; i < p->gaps_n; i++)
        out_printf(&tool->out, "  %lld to %lld, at %s\n", (long long)p->gaps[i].from_offset, (long long)p->gaps[i].to_offset - 1,
                   text_time(p->gaps[i].timestamp_ms, text));
}

static void print_truncation(struct tool *tool, const TOPIC *t, const PARTITION *p)
{
    char first[TEXT_SIZE], last[TEXT_SIZE], at[TEXT_SIZE], bytes[TEXT_SIZE];
    if (p->truncation.records > 0)
        out_printf(&tool->out,
                   "\n%.*s-%d: %lld records (%s) that the source does not have were thrown away at %s; written %s to %s\n",
                   STR_ARG(t->topic_name), p->partition_index, (long long)p->truncation.records,
                   text_bytes(p->truncation.bytes, bytes), text_time(p->truncation.timestamp_ms, at),
                   text_time(p->truncation.first_timestamp, first), text_time(p->truncation.last_timestamp, last));
}

/* The reports of the last stops. */
static void print_stops(struct tool *tool, const MIRROR *m)
{
    static const char *const titles[] = {"TOPIC",      ">PARTITION", "STOPPED AT", ">EPOCH",   ">POSITION",
                                         ">SOURCE HW", ">ABORTED",   ">TRUNCATED", ">EXPIRED", ">LOG END THEN"};
    char at[TEXT_SIZE];
    struct table t;
    table_init(&t, titles, ARRAY_SIZE(titles));
    for (int32_t i = 0; i < m->topics_n; i++) {
        for (int32_t k = 0; k < m->topics[i].partitions_n; k++) {
            const PARTITION *p = &m->topics[i].partitions[k];
            if (p->stop_report == NULL)
                continue;
            table_str(&t, m->topics[i].topic_name);
            table_count(&t, p->partition_index);
            table_cell(&t, "%s", text_time(p->stop_report->ended_ms, at));
            table_count(&t, p->last_mirror_epoch);
            table_count(&t, p->last_mirror_offset);
            table_count(&t, p->stop_report->source_high_watermark);
            table_count(&t, p->stop_report->aborted_transactions);
            table_count(&t, p->stop_report->truncated_records);
            table_count(&t, p->stop_report->expired_producers);
            table_count(&t, p->stop_report->log_end_offset);
        }
    }
    if (t.rows > 0)
        out_char(&tool->out, '\n');
    table_print(&t, &tool->out);
    table_fini(&t);
}

static void print_mirror(struct tool *tool, const MIRROR *m)
{
    char made[TEXT_SIZE];
    out_printf(&tool->out, "Mirror %.*s of cluster %.*s at %.*s", STR_ARG(m->mirror_name), STR_ARG(m->source_cluster_id),
               STR_ARG(m->source_bootstrap));
    if (m->created_ms >= 0)
        out_printf(&tool->out, ", made %s", text_time(m->created_ms, made));
    out_char(&tool->out, '\n');
    for (int32_t i = 0; i < m->config_n; i++) {
        if (!m->config[i].is_default && !str_is(m->config[i].name, "bootstrap.servers"))
            out_printf(&tool->out, "  %.*s=%.*s\n", STR_ARG(m->config[i].name), STR_ARG(m->config[i].value));
    }
    if (m->topics_n == 0)
        out_printf(&tool->out, "  no topics\n");
    else
        out_char(&tool->out, '\n');
    print_partitions(tool, m);
    for (int32_t i = 0; i < m->topics_n; i++) {
        const TOPIC *t = &m->topics[i];
        for (int32_t k = 0; k < t->partitions_n; k++) {
            if (str_is(t->partitions[k].state, "FAILED"))
                print_failure(tool, t, &t->partitions[k]);
            print_gaps(tool, t, &t->partitions[k]);
            print_truncation(tool, t, &t->partitions[k]);
        }
    }
    print_stops(tool, m);
}

void mirror_print(struct tool *tool, const struct describe_cluster_mirrors_response *body)
{
    bool first = true;
    for (int32_t i = 0; i < body->mirrors_n; i++) {
        if (body->mirrors[i].error_code != 0)
            continue;
        if (!first)
            out_char(&tool->out, '\n');
        first = false;
        print_mirror(tool, &body->mirrors[i]);
    }
    if (body->mirrors_n == 0)
        out_printf(&tool->out, "There are no mirrors.\n");
}
