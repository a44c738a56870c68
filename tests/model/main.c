/* Random walks: model_walks [--over log|partition] [--seed N] [--walks N] [--steps N] [--seconds N]
 *
 * Without --seed the walks of the seeds 1, 2, .. are run: `walks` of them (KAGAMI_WALKS of the environment, else what the build says), or for some seconds with seeds that nobody has run before. They run in a child
 * process, so that a failed assertion or a crash is a finding like any other. A walk that fails is shrunk: steps are left out as long as it still fails; what is left is printed. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "walk.h"

#define WALK_SECONDS 60 /* a walk that takes longer hangs */

struct options {
    uint64_t seed, walks;
    int steps;
    int64_t seconds;
};

static struct trace *trace;
static enum walk_kind over;

static int64_t now_s(void)
{
    return clock_mono_ns(CLOCK_SYSTEM) / 1000000000;
}

/* ---- Children ---- */

/* Waits for it; returns whether it failed, and says how in the trace when it could not do so itself. */
static bool child_failed(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    if (trace->failure[0] == '\0' && WIFSIGNALED(status))
        snprintf(trace->failure, sizeof(trace->failure), "%s",
                 WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)));
    else if (trace->failure[0] == '\0')
        snprintf(trace->failure, sizeof(trace->failure), "ends with status %d (see what it printed)", WEXITSTATUS(status));
    return true;
}

static pid_t fork_child(void)
{
    trace->failure[0] = '\0';
    fflush(NULL);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    return pid;
}

static bool walk_fails(uint64_t seed, const struct step *steps, int count, bool quiet)
{
    pid_t pid = fork_child();
    if (pid != 0)
        return child_failed(pid);
    if (quiet)
        (void)!freopen("/dev/null", "w", stderr); /* what assertions print while shrinking */
    alarm(WALK_SECONDS);
    walk_run(trace, over, seed, steps, count);
    _exit(0);
}

static void run_walks(const struct options *o)
{
    static struct step steps[WALK_STEPS];
    int64_t end_s = now_s() + o->seconds;
    for (uint64_t i = 0; o->seconds > 0 ? now_s() < end_s : i < o->walks; i++) {
        int count = walk_plan(over, o->seed + i, o->steps, steps);
        alarm(WALK_SECONDS);
        walk_run(trace, over, o->seed + i, steps, count);
    }
}

/* ---- Shrinking ---- */

static bool fails_without(uint64_t seed, struct step *steps, int *count, int from, int n)
{
    struct step kept[WALK_STEPS];
    int kept_count = 0;
    for (int i = 0; i < *count; i++)
        if (i < from || i >= from + n)
            kept[kept_count++] = steps[i];
    if (!walk_fails(seed, kept, kept_count, true))
        return false;
    memcpy(steps, kept, sizeof(kept[0]) * (size_t)kept_count);
    *count = kept_count;
    return true;
}

static bool shrink_steps(uint64_t seed, struct step *steps, int *count)
{
    bool shrunk = false;
    for (int n = MAX(*count / 2, 1); n > 0; n /= 2)
        for (int from = *count - n; from >= 0; from--)
            if (from + n <= *count && *count > n)
                shrunk |= fails_without(seed, steps, count, from, n);
    return shrunk;
}

static bool shrink_chunks(uint64_t seed, struct step *steps, int count)
{
    bool shrunk = false;
    for (int i = 0; i < count; i++) {
        for (int most = 1; most < MIN(steps[i].most, 7); most++) {
            int old = steps[i].most;
            steps[i].most = most;
            if (walk_fails(seed, steps, count, true))
                shrunk = true;
            else
                steps[i].most = old;
        }
    }
    return shrunk;
}

static void report(uint64_t seed, const struct options *o)
{
    static struct step steps[WALK_STEPS];
    int count = walk_plan(over, seed, o->steps, steps), planned = count;
    printf("walk %" PRIu64 " fails: %s\n", seed, trace->failure);
    fflush(stdout);
    if (!walk_fails(seed, steps, count, true)) {
        printf("but alone it does not: something outlives a walk\n");
        return;
    }
    for (bool shrunk = true; shrunk;) {
        shrunk = shrink_steps(seed, steps, &count);
        shrunk |= shrink_chunks(seed, steps, count);
    }
    trace->verbose = true;
    bool again = walk_fails(seed, steps, count, false);
    printf("shrunk from %d to %d steps, it fails: %s\n%s\nreplay: model_walks --over %s --seed %" PRIu64
           " --walks 1 --steps %d\n",
           planned, count, again ? trace->failure : "(not once more)", trace->text, over == WALK_LOG ? "log" : "partition", seed,
           o->steps);
}

/* ---- Options ---- */

static uint64_t number(const char *text, const char *what)
{
    char *end;
    uint64_t n = strtoull(text == NULL ? "" : text, &end, 10);
    if (text == NULL || *end != '\0' || end == text) {
        fprintf(stderr, "%s needs a number\n", what);
        exit(2);
    }
    return n;
}

static struct options parse(int argc, char **argv)
{
    const char *walks = getenv("KAGAMI_WALKS");
    struct options o = {.seed = 1, .walks = walks != NULL ? number(walks, "KAGAMI_WALKS") : MODEL_WALKS, .steps = 60};
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            o.seed = number(argv[i + 1], argv[i]);
        else if (strcmp(argv[i], "--walks") == 0)
            o.walks = number(argv[i + 1], argv[i]);
        else if (strcmp(argv[i], "--steps") == 0)
            o.steps = (int)number(argv[i + 1], argv[i]);
        else if (strcmp(argv[i], "--seconds") == 0)
            o.seconds = (int64_t)number(argv[i + 1], argv[i]);
        else if (strcmp(argv[i], "--over") == 0 && argv[i + 1] != NULL && strcmp(argv[i + 1], "partition") == 0)
            over = WALK_PARTITION;
        else if (strcmp(argv[i], "--over") == 0 && argv[i + 1] != NULL && strcmp(argv[i + 1], "log") == 0)
            over = WALK_LOG;
        else {
            fprintf(stderr, "usage: model_walks [--over log|partition] [--seed N] [--walks N] [--steps N] [--seconds N]\n");
            exit(2);
        }
    }
    if (o.seconds > 0 && o.seed == 1)
        o.seed = (uint64_t)clock_wall_ms(CLOCK_SYSTEM) * 1000000;
    o.steps = MAX(o.steps, 4);
    if (over == WALK_PARTITION && walks == NULL && o.walks == MODEL_WALKS)
        o.walks /= 2; /* most of what they do the others do too */
    return o;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(trace != MAP_FAILED);
    pid_t pid = fork_child();
    if (pid == 0) {
        run_walks(&o);
        exit(0);
    }
    bool failed = child_failed(pid);
    if (failed)
        report(trace->seed, &o);
    printf("%" PRIu64 " walks from seed %" PRIu64 "%s\n", trace->counted, o.seed, failed ? ", one failed" : "");
    return failed ? 1 : 0;
}
