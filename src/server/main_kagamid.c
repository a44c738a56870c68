/* kagamid: the broker. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/assert.h"
#include "base/logger.h"
#include "base/properties.h"
#include "server/broker.h"

#define EXIT_USAGE 2

static const char HELP[] =
    "kagamid - a Kafka-compatible broker that mirrors Kafka clusters\n"
    "\n"
    "Usage: kagamid --data DIR [--listen HOST:PORT] [--config FILE] [--set KEY=VALUE]..\n"
    "\n"
    "  --data DIR          folder for logs and metadata; made when it is not there\n"
    "  --listen HOST:PORT  address to serve on (default :9092, all addresses); port 0 takes a free one\n"
    "  --config FILE       settings in the form of Kafka's server.properties\n"
    "  --set KEY=VALUE     one setting; goes before the file's\n"
    "  --help, --version\n"
    "\n"
    "When it serves it prints one line: kagamid ready: HOST:PORT cluster=ID. Logs go to stderr. SIGTERM or SIGINT ends it.\n"
    "Settings have Kafka's names; an unknown one is refused, with the nearest that exists.\n"
    "Exit status: 0 after a clean end, 1 when it could not start, 2 for a mistake on the command line.\n";

static int usage(const char *message, const char *what)
{
    fprintf(stderr, "kagamid: %s%s\nTry: kagamid --help\n", message, what);
    return EXIT_USAGE;
}

static int fail(const struct problem *problem)
{
    fprintf(stderr, "kagamid: %s\n", problem->message[0] != '\0' ? problem->message : error_message(problem->code));
    if (problem->detail[0] != '\0')
        fprintf(stderr, "  %s\n", problem->detail);
    if (problem->hint[0] != '\0')
        fprintf(stderr, "  %s\n", problem->hint);
    return 1;
}

static enum error read_config(const char *path, struct properties *out, struct problem *problem)
{
    struct buf text = {0};
    enum error error = fs_read_file(fs_system(), path, PROPERTIES_MAX_BYTES, &text);
    if (error != OK) {
        problem_set(problem, error, "the settings file %s cannot be read", path);
        problem_detail(problem, "%s", error_message(error));
    } else
        error = properties_parse(out, buf_str(&text), problem);
    buf_fini(&text);
    return error;
}

struct arguments {
    const char *data, *listen, *config;
    struct properties sets;
};

/* Returns -1 to go on, else the exit status. */
static int parse(int argc, char **argv, struct arguments *a)
{
    static const struct option OPTIONS[] = {{"data", required_argument, NULL, 'd'},
                                            {"listen", required_argument, NULL, 'l'},
                                            {"config", required_argument, NULL, 'c'},
                                            {"set", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        const char *equals;
        switch (option) {
        case 'd':
            a->data = optarg;
            break;
        case 'l':
            a->listen = optarg;
            break;
        case 'c':
            a->config = optarg;
            break;
        case 's':
            equals = strchr(optarg, '=');
            if (equals == NULL || equals == optarg)
                return usage("--set needs KEY=VALUE, and got ", optarg);
            properties_set(&a->sets, (struct str){optarg, (int32_t)(equals - optarg)}, str_of(equals + 1));
            break;
        case 'h':
            fputs(HELP, stdout);
            return 0;
        case 'v':
            puts("kagamid " KAGAMI_VERSION);
            return 0;
        default:
            return usage("unknown option or missing value: ", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return usage("unexpected argument: ", argv[optind]);
    if (a->data == NULL && a->config == NULL && a->sets.count == 0)
        return usage("--data DIR is missing", "");
    return -1;
}

/* Files, then --set, then the options of their own. */
static enum error collect(const struct arguments *a, struct properties *out, struct problem *problem)
{
    if (a->config != NULL) {
        enum error error = read_config(a->config, out, problem);
        if (error != OK)
            return error;
    }
    for (size_t i = 0; i < a->sets.count; i++)
        properties_set(out, str_of(a->sets.items[i].key), str_of(a->sets.items[i].value));
    if (a->data != NULL)
        properties_set(out, STR("log.dirs"), str_of(a->data));
    if (a->listen != NULL) {
        char text[600];
        snprintf(text, sizeof(text), "PLAINTEXT://%s", a->listen);
        properties_set(out, STR("listeners"), str_of(text));
    }
    return OK;
}

static int serve(const struct properties *properties, const sigset_t *signals)
{
    struct problem problem = {0};
    struct broker *broker;
    struct broker_params params = {.fs = fs_system(), .clock = CLOCK_SYSTEM, .random = random_system(), .properties = properties};
    if (broker_start(&params, &broker, &problem) != OK)
        return fail(&problem);
    printf("kagamid ready: %s cluster=%s\n", broker_address(broker), broker_cluster_id(broker));
    fflush(stdout);
    int number = 0;
    while (sigwait(signals, &number) != 0)
        continue;
    log_info("server", "ending signal=%s", strsignal(number));
    broker_stop(broker);
    log_info("server", "ended");
    return 0;
}

/* A broker holds a file per partition and a socket per client open; what the shell grants by default is for programs that don't. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)!setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct properties properties = {0};
    struct problem problem = {0};
    sigset_t signals;
    /* Blocked before any thread is made: the main thread alone takes them. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();

    int status = parse(argc, argv, &arguments);
    if (status < 0)
        status = collect(&arguments, &properties, &problem) == OK ? serve(&properties, &signals) : fail(&problem);
    properties_fini(&arguments.sets);
    properties_fini(&properties);
    return status;
}
