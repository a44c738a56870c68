/* One run of the command line: what was asked, where output goes, the connection, and how errors reach people. One thread. */
#ifndef KAGAMI_TOOLS_TOOL_H
#define KAGAMI_TOOLS_TOOL_H

#include "base/error.h"
#include "client/client.h"
#include "proto/messages.h"
#include "tools/args.h"
#include "tools/out.h"

struct tool {
    struct args args;
    struct out out;
    struct out *err; /* NULL: standard error */
    bool json;
    int64_t timeout_ms;
    struct client_sync *client; /* set for commands that are not local */
};

/* Parses, runs, flushes; returns the exit status. argv without the program's name. */
int tool_main(int argc, const char *const *argv);

/* ---- Errors, on stderr: "kagami: what happened", then detail and what to do next, indented. Output so far is written first. All
 * return EXIT_FAILED. ---- */

int tool_fail(struct tool *tool, const struct problem *problem);
/* An error code inside an answer. what: "topic orders", "mirror dc2"; message and hint may be null. */
int tool_fail_code(struct tool *tool, int16_t code, struct str message, struct str hint, const char *what, ...) PRINTF_LIKE(5, 6);
/* A mistake on the command line that the table cannot see: returns EXIT_USAGE. */
int tool_usage(struct tool *tool, const char *hint, const char *format, ...) PRINTF_LIKE(3, 4);

/* ---- Calls ---- */

/* As client_sync_call, with --timeout; an error has been printed when it returns false. */
bool tool_call(struct tool *tool, int32_t broker, int16_t api_key, int16_t max_version, const void *request,
               struct client_response **ret_response);
/* The same with a time limit of its own. */
bool tool_call_for(struct tool *tool, int32_t broker, int16_t api_key, int16_t max_version, const void *request,
                   int64_t timeout_ms, struct client_response **ret_response);
/* The answer as JSON. */
void tool_print_response(struct tool *tool, const struct client_response *response);
/* Metadata of one topic; false when it is not there (printed). Valid until the next refresh of the client. */
bool tool_topic(struct tool *tool, struct client_sync *client, const char *name, const struct client_topic **ret_topic);
/* "KEY=VALUE" apart; false when there is no key or no '='. */
bool tool_split_setting(const char *text, struct str *ret_key, struct str *ret_value);

/* ---- Waiting ---- */

/* From now on Ctrl-C and SIGTERM set a flag and end waits, in place of the process. */
void tool_catch_interrupts(void);
bool tool_interrupted(void);
/* Sleeps on the client's loop; earlier when interrupted. */
void tool_sleep(struct tool *tool, int64_t ms);
int64_t tool_now_ms(const struct tool *tool);  /* since 1970 */
int64_t tool_mono_ms(const struct tool *tool); /* for intervals */

#endif
