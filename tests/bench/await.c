/* Waits until a copy is complete: polls the end offsets of a topic that need not exist yet, until their sum is that of the
 * original. Says when the first record was there, when the last, and what the copying process had used by then. */
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "bench.h"

enum { API_LIST_OFFSETS_KEY = 2, PAUSE_US = 5000 };

/* Partitions that answer with an error (not there yet) count as empty. */
static int64_t sum_of_ends(int fd, const char *topic, int32_t partitions, struct buf *request, struct buf *answer)
{
    frame_begin(request, API_LIST_OFFSETS_KEY, 1, 1);
    add_i32(request, -1);
    add_i32(request, 1);
    add_string(request, topic);
    add_i32(request, partitions);
    for (int32_t i = 0; i < partitions; i++) {
        add_i32(request, i);
        add_i64(request, -1);
    }
    call(fd, request, answer);
    const uint8_t *p = answer->data + 4 + 2 + strlen(topic) + 4;
    int32_t count = get_i32(p - 4);
    int64_t sum = 0;
    for (int32_t i = 0; i < count; i++, p += 22)
        sum += get_i16(p + 4) == 0 ? get_i64(p + 14) : 0;
    return sum;
}

void run_await(const struct args *a)
{
    const char *topic = arg_needed(a, "topic");
    int32_t partitions = (int32_t)arg_int(a, "partitions", 1);
    int64_t total = arg_int(a, "total", 1), sum, first_sum = 0;
    double record_bytes = (double)arg_int(a, "bytes", 0) / (double)total;
    int fd = connect_to(arg_needed(a, "server"));
    struct buf request = {0}, answer = {0};
    struct measure all, first, copying, broker;
    measure_start(&all, (int)arg_int(a, "pid", 0));
    first = all;
    while ((sum = sum_of_ends(fd, topic, partitions, &request, &answer)) < total) {
        if (first_sum == 0 && sum > 0) {
            first_sum = sum;
            measure_stop(&first);
            measure_start(&copying, all.pid);
            measure_start(&broker, (int)arg_int(a, "broker-pid", 0));
        }
        usleep(PAUSE_US);
    }
    if (first_sum == 0) { /* all at once */
        measure_stop(&first);
        copying = broker = all;
        broker.pid = 0;
    }
    measure_stop(&copying);
    measure_stop(&broker);
    measure_stop(&all);
    double bytes = (double)(total - first_sum) * record_bytes;
    out_begin();
    out_measure(&all, record_bytes * (double)total);
    out_number("first_s", measure_seconds(&first));
    out_number("copy_mb_s", bytes / 1e6 / measure_seconds(&copying)); /* from the first record seen to the last */
    out_number("copy_cpu_s_gb", (double)copying.peer_cpu_ns / bytes);
    out_number("broker_cpu_s_gb", (double)broker.peer_cpu_ns / bytes);
    out_end();
    buf_fini(&request);
    buf_fini(&answer);
    close(fd);
}
