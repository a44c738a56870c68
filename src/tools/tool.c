#include "tools/tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "tools/help.h"

#define EXIT_CLOSED 141 /* what a shell shows for a program that ended by SIGPIPE */
#define TOOL_TIMEOUT_MS 30000

static volatile sig_atomic_t interrupted;

/* ---- Errors ---- */

static void complain(struct tool *tool, const char *message, const char *detail, const char *hint)
{
    (void)out_flush(&tool->out);
    struct out standard, *err = tool->err != NULL ? tool->err : &standard;
    out_init(&standard, STDERR_FILENO);
    const char *const lines[] = {message, detail, hint};
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        if (lines[i][0] == '\0')
            continue;
        out_str(err, i == 0 ? STR("kagami: ") : STR("  "));
        out_safe(err, (struct bytes){(const uint8_t *)lines[i], (int64_t)strlen(lines[i])});
        out_char(err, '\n');
    }
    (void)out_flush(err);
    out_fini(&standard);
}

int tool_fail(struct tool *tool, const struct problem *problem)
{
    complain(tool, problem->message[0] != '\0' ? problem->message : error_message(problem->code), problem->detail, problem->hint);
    return EXIT_FAILED;
}

int tool_fail_code(struct tool *tool, int16_t code, struct str message, struct str hint, const char *what, ...)
{
    struct buf text = {0}, next = {0};
    char subject[512];
    va_list args;
    va_start(args, what);
    vsnprintf(subject, sizeof(subject), what, args);
    va_end(args);
    if (message.p == NULL || message.len == 0)
        message = str_of(error_message(code));
    buf_printf(&text, "%s: %.*s (%s)", subject, STR_ARG(message), error_name(code));
    buf_append_str(&next, hint);
    complain(tool, buf_cstr(&text), "", buf_cstr(&next));
    buf_fini(&text);
    buf_fini(&next);
    return EXIT_FAILED;
}

int tool_usage(struct tool *tool, const char *hint, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    complain(tool, message, "", hint);
    return EXIT_USAGE;
}

/* ---- Calls ---- */

bool tool_call_for(struct tool *tool, int32_t broker, int16_t api_key, int16_t max_version, const void *request,
                   int64_t timeout_ms, struct client_response **ret_response)
{
    struct problem problem = {0};
    enum error error =
        client_sync_call(tool->client, broker, api_key, 0, max_version, request, timeout_ms, ret_response, &problem);
    if (error == OK)
        return true;
    if (error == ERR_UNSUPPORTED && api_key >= API_CREATE_CLUSTER_MIRROR)
        problem_hint(&problem, "Mirrors live on the destination: --bootstrap-server must name a Kagami broker.");
    tool_fail(tool, &problem);
    return false;
}

bool tool_call(struct tool *tool, int32_t broker, int16_t api_key, int16_t max_version, const void *request,
               struct client_response **ret_response)
{
    return tool_call_for(tool, broker, api_key, max_version, request, tool->timeout_ms, ret_response);
}

void tool_print_response(struct tool *tool, const struct client_response *response)
{
    struct buf json = {0};
    const struct proto_api *api = proto_api(response->api_key);
    proto_print_json(api->response, response->version, response->body, &json);
    out_raw(&tool->out, buf_str(&json));
    buf_fini(&json);
}

bool tool_topic(struct tool *tool, struct client_sync *client, const char *name, const struct client_topic **ret_topic)
{
    struct problem problem = {0};
    struct str topic = str_of(name);
    if (client_sync_refresh(client, &topic, 1, &problem) != OK) {
        tool_fail(tool, &problem);
        return false;
    }
    const struct client_topic *found = client_metadata_topic(client_sync_metadata(client), name);
    int16_t code = found != NULL ? found->error_code : UNKNOWN_TOPIC_OR_PARTITION;
    if (code != 0) {
        bool unknown = code == UNKNOWN_TOPIC_OR_PARTITION;
        tool_fail_code(tool, code, unknown ? STR("There is no topic of this name.") : STR_NULL,
                       unknown ? STR("\"kagami topic list\" shows those that are there.") : STR_NULL, "topic %s", name);
        return false;
    }
    *ret_topic = found;
    return true;
}

bool tool_split_setting(const char *text, struct str *ret_key, struct str *ret_value)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return false;
    *ret_key = (struct str){text, (int32_t)(equals - text)};
    *ret_value = str_of(equals + 1);
    return true;
}

/* ---- Waiting ---- */

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void tool_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: waits end */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool tool_interrupted(void)
{
    return interrupted != 0;
}

void tool_sleep(struct tool *tool, int64_t ms)
{
    int64_t end = tool_mono_ms(tool) + ms, left;
    while (!tool_interrupted() && (left = end - tool_mono_ms(tool)) > 0)
        loop_step(client_sync_loop(tool->client), (int)MIN(left, 60000));
}

int64_t tool_now_ms(const struct tool *tool)
{
    (void)tool;
    return clock_wall_ms(CLOCK_SYSTEM);
}

int64_t tool_mono_ms(const struct tool *tool)
{
    (void)tool;
    return clock_mono_ms(CLOCK_SYSTEM);
}

/* ---- A run ---- */

static int connect_to_cluster(struct tool *tool)
{
    const char *bootstrap = args_text(&tool->args, "bootstrap-server");
    if (bootstrap == NULL)
        bootstrap = getenv("KAGAMI_BOOTSTRAP_SERVER");
    if (bootstrap == NULL || bootstrap[0] == '\0')
        return tool_usage(tool, "Add --bootstrap-server HOST:PORT, or set KAGAMI_BOOTSTRAP_SERVER.",
                          "\"kagami %s\" does not know which cluster to talk to.", tool->args.command->words);
    struct client_options options = {
        .client_id = "kagami", .connect_timeout_ms = MIN(tool->timeout_ms, 10000), .request_timeout_ms = tool->timeout_ms};
    struct problem problem = {0};
    enum error error = client_sync_create(bootstrap, &options, &tool->client, &problem);
    if (error == ERR_INVALID) {
        tool_fail(tool, &problem);
        return EXIT_USAGE;
    }
    return error != OK ? tool_fail(tool, &problem) : 0;
}

static int show_help(struct tool *tool)
{
    const struct args *a = &tool->args;
    if (args_flag(a, "version"))
        out_printf(&tool->out, "kagami %s\n", KAGAMI_VERSION);
    else if (a->command != NULL)
        help_command(a->command, &tool->out);
    else if (a->group != NULL)
        help_group(a->group, &tool->out);
    else
        help_program(&tool->out);
    return 0;
}

static int run(struct tool *tool)
{
    const struct args *a = &tool->args;
    if (args_flag(a, "help") || args_flag(a, "version"))
        return show_help(tool);
    tool->json = args_flag(a, "json");
    int64_t timeout = args_number(a, "timeout", -1);
    tool->timeout_ms = timeout > 0 ? timeout : TOOL_TIMEOUT_MS;
    int status = a->command->local ? 0 : connect_to_cluster(tool);
    if (status == 0)
        status = a->command->run(tool);
    client_sync_destroy(tool->client);
    return status;
}

int tool_main(int argc, const char *const *argv)
{
    struct tool tool = {0};
    struct problem problem = {0};
    out_init(&tool.out, STDOUT_FILENO);
    signal(SIGPIPE, SIG_IGN); /* a broken pipe is an error of write(2) */
    int status;
    if (args_parse(argc, argv, &tool.args, &problem) != OK) {
        tool_fail(&tool, &problem);
        status = EXIT_USAGE;
    } else {
        status = run(&tool);
    }
    (void)out_flush(&tool.out);
    if (tool.out.closed) {
        status = EXIT_CLOSED;
    } else if (tool.out.error != 0) {
        problem_set(&problem, error_from_errno(tool.out.error), "The output could not be written: %s.", strerror(tool.out.error));
        complain(&tool, problem.message, "", "What was asked for may have been done all the same.");
        status = EXIT_FAILED;
    }
    out_fini(&tool.out);
    args_fini(&tool.args);
    return status;
}
