/* mirror stop: the hand-over and its report (spec section 6). */
#include "base/assert.h"
#include "tools/commands.h"
#include "tools/table.h"
#include "tools/text.h"
#include "tools/topic_list.h"

#define REQUEST_ARENA_BYTES (16 * 1024 * 1024)
/* What the steps of the stop may take beyond the drain: fsyncs of a thousand partitions on a slow disk. */
#define STOP_MS 60000

#define TOPIC struct stop_mirror_topics_response_topics
#define PARTITION struct stop_mirror_topics_response_topics_partitions

struct totals {
    int64_t lost, aborted, expired, truncated, age_ms;
    int partitions, unknown, stopped;
};

static void add_up(const TOPIC *t, struct totals *sum)
{
    for (int32_t i = 0; i < t->partitions_n; i++) {
        const PARTITION *p = &t->partitions[i];
        sum->partitions++;
        sum->stopped += p->error_code == 0;
        sum->unknown += p->records_lost_estimate < 0;
        sum->lost += MAX(0, p->records_lost_estimate);
        sum->aborted += MAX(0, p->aborted_transactions);
        sum->expired += MAX(0, p->expired_producers);
        sum->truncated += MAX(0, p->truncated_records);
        sum->age_ms = MAX(sum->age_ms, p->source_age_ms);
    }
}

static void print_table(struct tool *tool, const struct stop_mirror_topics_response *body)
{
    static const char *const titles[] = {"TOPIC",    ">PARTITION", "STATE",      ">EPOCH",   ">POSITION", ">SOURCE HW", ">SEEN",
                                         ">MISSING", ">ABORTED",   ">TRUNCATED", ">EXPIRED", ">LOG END",  ">TIME"};
    struct table t;
    table_init(&t, titles, ARRAY_SIZE(titles));
    for (int32_t i = 0; i < body->topics_n; i++) {
        const TOPIC *topic = &body->topics[i];
        for (int32_t k = 0; k < topic->partitions_n; k++) {
            const PARTITION *p = &topic->partitions[k];
            table_str(&t, topic->name);
            table_count(&t, p->partition_index);
            table_str(&t, p->state);
            table_count(&t, p->last_mirror_epoch);
            table_count(&t, p->last_mirror_offset);
            table_count(&t, p->source_high_watermark);
            table_duration(&t, p->source_age_ms);
            table_count(&t, p->records_lost_estimate);
            table_count(&t, p->aborted_transactions);
            table_count(&t, p->truncated_records);
            table_count(&t, p->expired_producers);
            table_count(&t, p->log_end_offset);
            table_duration(&t, p->duration_ms);
        }
    }
    table_print(&t, &tool->out);
    table_fini(&t);
}

/* What it means, in a sentence a topic. */
static void print_sentence(struct tool *tool, const TOPIC *t, bool dry_run)
{
    struct out *out = &tool->out;
    struct totals sum = {.age_ms = -1};
    char age[TEXT_SIZE];
    add_up(t, &sum);
    if (t->error_code != 0 || sum.stopped < sum.partitions)
        return;
    text_duration(sum.age_ms, age);
    out_printf(out, "%.*s %s writable. ", STR_ARG(t->name), dry_run ? "would be" : "is");
    if (sum.unknown == sum.partitions)
        out_printf(out, "What the source had beyond it is not known: its high watermark was not seen.");
    else if (sum.lost == 0)
        out_printf(out, "It has everything that the source was known to have%s%s%s.", sum.age_ms >= 0 ? " (last seen " : "",
                   sum.age_ms >= 0 ? age : "", sum.age_ms >= 0 ? " ago)" : "");
    else
        out_printf(out, "%lld record%s may be missing: the source had them when it was last seen, %s ago.", (long long)sum.lost,
                   sum.lost == 1 ? "" : "s", age);
    if (sum.unknown > 0 && sum.unknown < sum.partitions)
        out_printf(out, " For %d of %d partitions it is not known.", sum.unknown, sum.partitions);
    if (sum.aborted > 0)
        out_printf(out, " %lld open transaction%s %s aborted.", (long long)sum.aborted, sum.aborted == 1 ? "" : "s",
                   dry_run            ? "would be"
                   : sum.aborted == 1 ? "was"
                                      : "were");
    if (sum.truncated > 0)
        out_printf(out, " %lld record%s behind open transactions %s cut off.", (long long)sum.truncated,
                   sum.truncated == 1 ? "" : "s",
                   dry_run              ? "would be"
                   : sum.truncated == 1 ? "was"
                                        : "were");
    out_char(out, '\n');
}

/* "3 producers expired" and the like. */
static void print_count(struct out *out, int64_t n, const char *noun, const char *rest)
{
    out_printf(out, "%lld %s%s%s", (long long)n, noun, n == 1 ? "" : "s", rest);
}

static void print_totals(struct tool *tool, const struct stop_mirror_topics_response *body)
{
    struct totals sum = {.age_ms = -1};
    for (int32_t i = 0; i < body->topics_n; i++)
        add_up(&body->topics[i], &sum);
    out_char(&tool->out, '\n');
    print_count(&tool->out, body->topics_n, "topic", ", ");
    print_count(&tool->out, sum.partitions, "partition", ": ");
    print_count(&tool->out, sum.lost, "record", " may be missing, ");
    print_count(&tool->out, sum.aborted, "transaction", " aborted, ");
    print_count(&tool->out, sum.expired, "producer", " expired\n");
}

static int report(struct tool *tool, const struct client_response *r)
{
    const struct stop_mirror_topics_response *body = r->body;
    bool dry_run = args_flag(&tool->args, "dry-run");
    int status = 0;
    if (tool->json) {
        tool_print_response(tool, r);
    } else if (body->topics_n > 0) {
        print_table(tool, body);
        print_totals(tool, body);
        for (int32_t i = 0; i < body->topics_n; i++)
            print_sentence(tool, &body->topics[i], dry_run);
        if (dry_run)
            out_printf(&tool->out, "Nothing was changed.\n");
    }
    if (body->error_code != 0)
        status = tool_fail_code(tool, body->error_code, body->error_message, body->error_hint, "mirror %s", tool->args.words[0]);
    for (int32_t i = 0; i < body->topics_n; i++) {
        const TOPIC *t = &body->topics[i];
        if (t->error_code != 0)
            status = tool_fail_code(tool, t->error_code, t->error_message, t->error_hint, "topic %.*s", STR_ARG(t->name));
        for (int32_t k = 0; k < t->partitions_n; k++) {
            if (t->partitions[k].error_code != 0)
                status = tool_fail_code(tool, t->partitions[k].error_code, t->partitions[k].error_message, STR_NULL, "%.*s-%d",
                                        STR_ARG(t->name), t->partitions[k].partition_index);
        }
    }
    if (status == 0 && body->topics_n == 0 && !tool->json)
        out_printf(&tool->out, "The mirror has no topics to stop.\n");
    return status;
}

static int stop(struct tool *tool, const struct topic_list *list)
{
    const struct args *a = &tool->args;
    struct arena arena;
    struct stop_mirror_topics_request request;
    struct client_response *r;
    int64_t drain_ms = MIN(args_number(a, "timeout", 0), INT32_MAX - STOP_MS);
    arena_init(&arena, REQUEST_ARENA_BYTES);
    proto_init(&PROTO_STOP_MIRROR_TOPICS_REQUEST, &request);
    request.mirror_name = str_of(a->words[0]);
    request.topics_n = list->name_count;
    request.topics = stop_mirror_topics_request_topics_new(&arena, request.topics_n);
    for (int32_t i = 0; i < request.topics_n; i++)
        request.topics[i].topic_name = list->names[i];
    request.patterns = list->patterns;
    request.patterns_n = list->pattern_count;
    request.open_transactions = str_of(args_text(a, "open-transactions"));
    request.force = args_flag(a, "force");
    request.drain = args_flag(a, "drain");
    request.drain_timeout_ms = (int32_t)drain_ms;
    request.dry_run = args_flag(a, "dry-run");
    bool answered = tool_call_for(tool, CLIENT_ANY, API_STOP_MIRROR_TOPICS, -1, &request, drain_ms + STOP_MS, &r);
    arena_fini(&arena);
    if (!answered)
        return EXIT_FAILED;
    int status = report(tool, r);
    client_response_free(r);
    return status;
}

int run_mirror_stop(struct tool *tool)
{
    struct topic_list list;
    struct problem problem = {0};
    if (topic_list_parse(&tool->args, &list, &problem) != OK) {
        tool_fail(tool, &problem);
        return EXIT_USAGE;
    }
    int status = stop(tool, &list);
    topic_list_fini(&list);
    return status;
}
