/* produce: lines of standard input as records. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "tools/commands.h"
#include "tools/line_format.h"
#include "tools/producer.h"
#include "tools/text.h"

#define READ_BYTES (64 * 1024)
/* Longest line: what no broker takes as a record. */
#define LINE_MAX_BYTES (128 * 1024 * 1024)

struct input {
    struct producer producer;
    struct line_format format;
    int32_t partition;
    int64_t timestamp; /* -1: the time of sending */
    struct buf text;   /* read and not used yet */
    int64_t line;
};

static bool add_record(struct input *in, struct parsed_line *line)
{
    struct batch_record record = {.timestamp = in->timestamp >= 0 ? in->timestamp : tool_now_ms(in->producer.tool),
                                  .key = line->key,
                                  .value = line->value,
                                  .headers = line->headers,
                                  .header_count = line->header_count};
    return producer_add(&in->producer, in->partition, &record);
}

static bool add_line(struct input *in, struct bytes text)
{
    struct parsed_line line;
    struct problem problem = {0};
    in->line++;
    if (line_format_parse(&in->format, text, in->line, &line, &problem) == OK)
        return add_record(in, &line);
    if (producer_flush(&in->producer)) /* what stands before the bad line is written */
        tool_fail(in->producer.tool, &problem);
    return false;
}

/* The whole lines of what was read; at the end of the input also the rest without a line end. */
static bool add_lines(struct input *in, bool end)
{
    size_t done = 0;
    bool good = true;
    while (good && done < in->text.len) {
        const uint8_t *begin = in->text.data + done, *stop = memchr(begin, '\n', in->text.len - done);
        if (stop == NULL && !end)
            break;
        if (stop == NULL)
            stop = in->text.data + in->text.len;
        good = add_line(in, (struct bytes){begin, stop - begin});
        done += (size_t)(stop - begin) + 1;
    }
    done = MIN(done, in->text.len);
    if (done > 0)
        memmove(in->text.data, in->text.data + done, in->text.len - done);
    in->text.len -= done;
    return good;
}

static bool more_is_there(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static bool read_error(struct input *in, const char *what)
{
    struct problem problem = {0};
    problem_set(&problem, ERR_IO, "Standard input cannot be read: %s", what);
    if (producer_flush(&in->producer))
        tool_fail(in->producer.tool, &problem);
    return false;
}

static bool from_stdin(struct input *in)
{
    while (!tool_interrupted()) {
        ssize_t n = read(STDIN_FILENO, buf_reserve(&in->text, READ_BYTES), READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return read_error(in, strerror(errno));
        in->text.len += (size_t)n;
        if (in->text.len > LINE_MAX_BYTES)
            return read_error(in, "a line is longer than any record may be");
        if (!add_lines(in, n == 0))
            return false;
        /* Nobody waits for records that are here: send what there is before sleeping. */
        if ((n == 0 || !more_is_there()) && !producer_flush(&in->producer))
            return false;
        if (n == 0)
            return true;
    }
    return producer_flush(&in->producer);
}

static bool from_options(struct input *in)
{
    const char *value;
    for (int i = 0; (value = args_text_at(&in->producer.tool->args, "value", i)) != NULL; i++) {
        struct parsed_line line;
        line_format_value(&in->format, value, &line);
        if (!add_record(in, &line))
            return false;
    }
    return producer_flush(&in->producer);
}

static void summary(struct input *in)
{
    const struct producer *p = &in->producer;
    for (int32_t i = 0; i < p->count; i++) {
        const struct produced *d = &p->partitions[i];
        if (d->records > 0)
            out_printf(&p->tool->out, "%s-%d: %lld record%s written, offsets %lld to %lld\n", p->topic, i, (long long)d->records,
                       d->records == 1 ? "" : "s", (long long)d->first_offset, (long long)d->last_offset);
    }
}

static int check_partition(struct tool *tool, const struct input *in)
{
    if (in->partition < in->producer.count)
        return 0;
    struct problem problem = {0};
    problem_set(&problem, UNKNOWN_TOPIC_OR_PARTITION, "Topic %s has no partition %d.", in->producer.topic, in->partition);
    problem_hint(&problem, "It has partitions 0 to %d.", in->producer.count - 1);
    return tool_fail(tool, &problem);
}

int run_produce(struct tool *tool)
{
    const struct args *a = &tool->args;
    struct input in = {.timestamp = -1, .partition = (int32_t)args_number(a, "partition", -1)};
    enum codec codec = CODEC_NONE;
    const char *timestamp = args_text(a, "timestamp");
    if (timestamp != NULL && (!parse_time(str_of(timestamp), &in.timestamp) || in.timestamp < 0))
        return tool_usage(tool, "Write milliseconds since 1970, or 2026-11-29T15:04:05Z.", "--timestamp cannot be \"%s\".",
                          timestamp);
    bool known = codec_parse(str_of(args_text(a, "compression")), &codec);
    ASSERT(known); /* the table has the same names */
    int16_t acks = strcmp(args_text(a, "acks"), "1") == 0 ? 1 : -1;
    if (args_flag(a, "idempotent") && acks == 1)
        return tool_usage(tool, "Leave out --acks.", "--idempotent needs --acks all.");
    line_format_init(&in.format, a);
    tool_catch_interrupts();
    int status = producer_init(&in.producer, tool, a->words[0], codec, acks, args_flag(a, "idempotent"),
                               args_number(a, "batch-records", 1))
                     ? check_partition(tool, &in)
                     : EXIT_FAILED;
    if (status == 0)
        status = (args_given(a, "value") ? from_options(&in) : from_stdin(&in)) ? 0 : EXIT_FAILED;
    if (!tool->json)
        summary(&in);
    producer_fini(&in.producer);
    line_format_fini(&in.format);
    buf_fini(&in.text);
    return status;
}
