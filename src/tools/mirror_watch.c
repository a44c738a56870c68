/* Progress of a mirror: per topic how much is copied, how fast, how long it will take. */
#include <string.h>

#include "base/assert.h"
#include "tools/mirror_view.h"
#include "tools/text.h"

#define REFRESH_MS 1000
#define BAR_WIDTH 20
/* Of the smoothed rate: what the newest second counts. */
#define RATE_WEIGHT 0.3

#define MIRROR struct describe_cluster_mirrors_response_mirrors
#define TOPIC struct describe_cluster_mirrors_response_mirrors_topics
#define PARTITION struct describe_cluster_mirrors_response_mirrors_topics_partitions

struct watched_topic {
    char *name; /* MIRROR/TOPIC */
    char *line; /* as last printed, where a line per change is printed */
    int64_t copied, at_ms;
    double rate; /* offsets per second; below 0: not known yet */
};

struct watch {
    struct tool *tool;
    bool in_place;
    int lines; /* on the terminal, to be overwritten */
    struct watched_topic *topics;
    int count;
};

/* One topic, its partitions added up. */
struct progress {
    int partitions, caught_up, retrying, failed, unknown;
    int64_t start, copied, end; /* offsets: log starts, log ends, source high watermarks */
    struct str state;           /* the one that most needs to be seen */
};

static int rank(struct str state)
{
    static const char *const order[] = {"STOPPED", "MIRRORING", "PAUSED", "PAUSING", "PREPARING", "STOPPING", "FAILED"};
    for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
        if (str_is(state, order[i]))
            return (int)i;
    }
    return 0;
}

static void add_up(const TOPIC *t, struct progress *sum)
{
    *sum = (struct progress){.partitions = t->partitions_n};
    for (int32_t i = 0; i < t->partitions_n; i++) {
        const PARTITION *p = &t->partitions[i];
        bool failed = str_is(p->state, "FAILED");
        if (sum->state.p == NULL || rank(p->state) > rank(sum->state))
            sum->state = p->state;
        sum->retrying += failed && p->retriable;
        sum->failed += failed && !p->retriable;
        if (p->source_high_watermark < 0 || p->destination_offset < 0) {
            sum->unknown++;
            continue;
        }
        int64_t start = MAX(p->log_start_offset, 0);
        sum->start += MIN(start, p->destination_offset);
        sum->copied += p->destination_offset;
        sum->end += MAX(p->source_high_watermark, p->destination_offset);
        sum->caught_up += !failed && p->destination_offset >= p->source_high_watermark && str_is(p->state, "MIRRORING");
    }
}

/* What a watch of `start` waits for: everything copied, or nothing more to hope for. */
static bool is_settled(const struct progress *p)
{
    return p->partitions > 0 && p->caught_up + p->failed == p->partitions;
}

static struct watched_topic *find(struct watch *w, const MIRROR *m, const TOPIC *t)
{
    struct buf name = {0};
    buf_printf(&name, "%.*s/%.*s", STR_ARG(m->mirror_name), STR_ARG(t->topic_name));
    for (int i = 0; i < w->count; i++) {
        if (strcmp(w->topics[i].name, buf_cstr(&name)) == 0) {
            buf_fini(&name);
            return &w->topics[i];
        }
    }
    w->topics = mem_realloc(w->topics, (size_t)(w->count + 1) * sizeof(*w->topics));
    w->topics[w->count] = (struct watched_topic){.name = mem_strdup(buf_cstr(&name)), .copied = -1, .rate = -1};
    buf_fini(&name);
    return &w->topics[w->count++];
}

static void measure(struct watched_topic *t, const struct progress *p, int64_t now_ms)
{
    if (t->copied >= 0 && now_ms > t->at_ms) {
        double rate = (double)MAX(0, p->copied - t->copied) * 1000 / (double)(now_ms - t->at_ms);
        t->rate = t->rate < 0 ? rate : RATE_WEIGHT * rate + (1 - RATE_WEIGHT) * t->rate;
    }
    t->copied = p->copied;
    t->at_ms = now_ms;
}

static void describe_progress(const struct watched_topic *t, const TOPIC *topic, const struct progress *p, struct buf *out,
                              bool bar)
{
    int64_t all = p->end - p->start, done = p->copied - p->start, lag = p->end - p->copied;
    int percent = p->unknown == p->partitions ? 0 : all <= 0 ? 100 : (int)((double)done * 100 / (double)all);
    char eta[TEXT_SIZE] = "-";
    if (percent == 100 && lag > 0)
        percent = 99;
    if (lag == 0)
        text_duration(0, eta);
    else if (t->rate >= 1)
        text_duration((int64_t)((double)lag / t->rate * 1000), eta);
    buf_printf(out, "%-24.*s %-9.*s ", STR_ARG(topic->topic_name), STR_ARG(p->state));
    if (bar) {
        buf_putc(out, '[');
        for (int i = 0; i < BAR_WIDTH; i++)
            buf_putc(out, i < percent * BAR_WIDTH / 100 ? '#' : '.');
        buf_printf(out, "] ");
    }
    buf_printf(out, "%3d%%  %d/%d partitions caught up", percent, p->caught_up, p->partitions);
    if (p->unknown < p->partitions)
        buf_printf(out, "  lag %lld", (long long)lag);
    if (bar && t->rate >= 0)
        buf_printf(out, "  %.0f/s  ETA %s", t->rate, eta);
    if (p->failed + p->retrying > 0)
        buf_printf(out, "  %d failed%s", p->failed + p->retrying, p->failed == 0 ? ", trying again" : "");
}

static void show_topic(struct watch *w, const MIRROR *m, const TOPIC *t, const struct progress *p)
{
    struct out *out = &w->tool->out;
    struct buf line = {0};
    struct watched_topic *watched = find(w, m, t);
    measure(watched, p, tool_mono_ms(w->tool));
    describe_progress(watched, t, p, &line, w->in_place);
    if (w->in_place) {
        out_printf(out, "\x1b[2K%s\n", buf_cstr(&line));
        w->lines++;
    } else if (watched->line == NULL || strcmp(watched->line, buf_cstr(&line)) != 0) {
        out_printf(out, "%s\n", buf_cstr(&line));
        mem_free(watched->line);
        watched->line = mem_strdup(buf_cstr(&line));
    }
    buf_fini(&line);
}

static void show(struct watch *w, const struct describe_cluster_mirrors_response *body)
{
    struct out *out = &w->tool->out;
    if (w->in_place && w->lines > 0)
        out_printf(out, "\x1b[%dA", w->lines);
    w->lines = 0;
    for (int32_t i = 0; i < body->mirrors_n; i++) {
        const MIRROR *m = &body->mirrors[i];
        for (int32_t k = 0; k < m->topics_n; k++) {
            struct progress p;
            add_up(&m->topics[k], &p);
            show_topic(w, m, &m->topics[k], &p);
        }
    }
    if (w->in_place)
        out_printf(out, "\x1b[J"); /* lines of topics that are gone */
}

/* Whether nothing is left to wait for. */
static bool all_settled(const struct describe_cluster_mirrors_response *body)
{
    int topics = 0;
    for (int32_t i = 0; i < body->mirrors_n; i++) {
        for (int32_t k = 0; k < body->mirrors[i].topics_n; k++, topics++) {
            struct progress p;
            add_up(&body->mirrors[i].topics[k], &p);
            if (!is_settled(&p))
                return false;
        }
    }
    return topics > 0;
}

/* The partitions that failed for good; the exit status. */
static int report_failed(struct tool *tool, const struct describe_cluster_mirrors_response *body)
{
    int status = 0;
    for (int32_t i = 0; i < body->mirrors_n; i++) {
        for (int32_t k = 0; k < body->mirrors[i].topics_n; k++) {
            const TOPIC *t = &body->mirrors[i].topics[k];
            for (int32_t n = 0; n < t->partitions_n; n++) {
                const PARTITION *p = &t->partitions[n];
                if (str_is(p->state, "FAILED"))
                    status = tool_fail_code(tool, p->error_code, p->error_message, p->error_hint, "%.*s-%d",
                                            STR_ARG(t->topic_name), p->partition_index);
            }
        }
    }
    return status;
}

static int watch_loop(struct watch *w, const struct topic_list *list, bool until_caught_up)
{
    struct tool *tool = w->tool;
    const char *name = tool->args.word_count > 0 ? tool->args.words[0] : NULL;
    while (!tool_interrupted()) {
        struct client_response *r;
        if (!mirror_ask(tool, name, list, false, &r))
            return EXIT_FAILED;
        int status = mirror_errors(tool, r->body);
        bool end = status != 0;
        if (!end && tool->json)
            tool_print_response(tool, r);
        else if (!end)
            show(w, r->body);
        if (!end && until_caught_up && all_settled(r->body)) {
            status = report_failed(tool, r->body);
            end = true;
        }
        client_response_free(r);
        if (!out_flush(&tool->out) || end)
            return status;
        tool_sleep(tool, REFRESH_MS);
    }
    if (!until_caught_up)
        return 0;
    struct problem problem = {0};
    problem_set(&problem, ERR_CANCELLED, "Not everything is copied yet. It goes on without this command.");
    return tool_fail(tool, &problem);
}

int mirror_watch(struct tool *tool, const struct topic_list *list, bool until_caught_up)
{
    struct watch w = {.tool = tool, .in_place = tool->out.terminal && !tool->json};
    tool_catch_interrupts();
    int status = watch_loop(&w, list, until_caught_up);
    for (int i = 0; i < w.count; i++) {
        mem_free(w.topics[i].name);
        mem_free(w.topics[i].line);
    }
    mem_free(w.topics);
    return status;
}
