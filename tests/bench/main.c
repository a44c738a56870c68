#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

static const struct {
    const char *name;
    void (*run)(const struct args *a);
    const char *help;
} COMMANDS[] = {
    {"produce", run_produce,
     "--server H:P --topic T [--partitions 1] [--connections 1] [--acks -1|0|1] [--idempotent 0|1] [--codec none]\n"
     "      [--record-bytes 1000] [--records 100] [--batches 1 (partitions a request)] [--in-flight 5] [--bytes N | --seconds "
     "S]\n"
     "      [--warm-bytes 0] [--rate records/s] [--pid P]"},
    {"consume", run_consume,
     "--server H:P --topic T [--partitions 1] [--connections 1] [--max-bytes 10485760] [--partition-bytes 1048576]\n"
     "      [--sessions 1] [--wait-ms 100] [--min-bytes 1] [--bytes N] [--requests N] [--pid P]\n"
     "      [--end 0 (1: begin at the end)] [--once 0 (1: from beginning to end, once)]"},
    {"fetch-file", run_fetch_file,
     "--server H:P --topic T [--partitions 1] --file F [--max-bytes 1048576 (a partition)] [--sync 0] [--pid P]"},
    {"await", run_await,
     "--server H:P --topic T [--partitions 1] --total OFFSETS [--bytes N (in all)] [--pid P] [--broker-pid P]: a copy to be "
     "complete"},
    {"disk", run_disk, "--file F [--bytes 16384] [--seconds 3]: append and fdatasync"},
    {"sendfile", run_sendfile,
     "--file F [--file-bytes 268435456] [--files 1] [--bytes N] [--piece 1048576] [--connections 1]\n"
     "      [--cold 0 (1: every byte once, and from the disk)]: a bare loop over TCP"},
    {"lag", run_lag,
     "--server H:P --topic T [--read-server H:P] [--beside H:P] [--rate 1000 (records/s)] [--records 1 (a request)] "
     "[--record-bytes 1000]\n"
     "      [--acks 1] [--seconds 5] [--warm-seconds 1] [--idle-topic T --idle-partitions N: in the reader's session too] "
     "[--pid P]"},
    {"connections", run_connections, "--server H:P [--count 1000] [--bytes 1000] [--pid P]: what an idle connection costs"},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc > 1 && i < sizeof(COMMANDS) / sizeof(COMMANDS[0]); i++) {
        if (strcmp(argv[1], COMMANDS[i].name) == 0) {
            COMMANDS[i].run(&(struct args){argc - 2, argv + 2});
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof(COMMANDS) / sizeof(COMMANDS[0]); i++)
        fprintf(stderr, "  %s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    return 2;
}
