/* The load generator and the yardsticks: one program, a subcommand each. Prints one line of JSON. It has to cost much less than
 * what it measures: batches are built before the clock starts, answers are looked at and not decoded, fetched records are dropped
 * inside the kernel. An error ends it with a message and status 1. */
#ifndef KAGAMI_BENCH_H
#define KAGAMI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"

/* ---- Command line: --name value ---- */

struct args {
    int count;
    char **words;
};
/* What was given last, or the default. die() on what is no number. */
int64_t arg_int(const struct args *a, const char *name, int64_t otherwise);
const char *arg_text(const struct args *a, const char *name, const char *otherwise);
const char *arg_needed(const struct args *a, const char *name);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Measuring ---- */

int64_t now_ns(void);

/* Time, CPU of ourselves and of the process --pid (0: none) between start and stop. */
struct measure {
    int pid;
    int64_t start_ns, own_cpu_ns, peer_cpu_ns; /* after stop: differences; start_ns: wall */
};
void measure_start(struct measure *m, int pid);
void measure_stop(struct measure *m);
double measure_seconds(const struct measure *m);

struct samples {
    int64_t *ns;
    size_t count, capacity;
};
void samples_add(struct samples *s, int64_t ns);
void samples_fini(struct samples *s);

/* One line of JSON. */
void out_begin(void);
void out_number(const char *name, double value);
void out_measure(const struct measure *m, double bytes); /* seconds, moved_mb, mb_s, cpu_s, cpu_s_gb, own_cpu_s_gb */
void out_samples(const char *prefix, struct samples *s); /* PREFIX_p50_ms, p99, p999, max */
void out_end(void);

/* ---- Wire: old versions without tagged fields, laid out by hand ---- */

enum { PRODUCE_VERSION = 7, FETCH_VERSION = 11 };

enum { NO_ANSWER_SECONDS = 30 }; /* whoever waits longer gives up and says so */

int connect_to(const char *address); /* blocking, no delay, receives time out */
void send_all(int fd, const void *data, size_t len);
void receive_all(int fd, void *data, size_t len);

/* A request under construction: frame_begin, put_*, frame_end fills the length in. */
void frame_begin(struct buf *b, int16_t api_key, int16_t version, int32_t correlation_id);
void frame_end(struct buf *b, size_t more_bytes); /* more_bytes follow that are not in the buffer */
void add_i8(struct buf *b, int8_t v);
void add_i16(struct buf *b, int16_t v);
void add_i32(struct buf *b, int32_t v);
void add_i64(struct buf *b, int64_t v);
void add_string(struct buf *b, const char *s); /* NULL: null */
/* Sends the request and returns the answer's frame behind the correlation id (freed by the next call with the same buffer). */
void call(int fd, struct buf *request, struct buf *answer);
void get_producer_id(int fd, int64_t *ret_id, int16_t *ret_epoch);
int64_t list_offset(int fd, const char *topic, int32_t partition, int64_t time);

/* Fetch */
struct fetch_want {
    int32_t max_wait_ms, min_bytes, max_bytes;
    int32_t session_id, session_epoch; /* 0 and -1: no session */
};
void fetch_begin(struct buf *b, const struct fetch_want *want, int32_t topics);
void fetch_topic(struct buf *b, const char *topic, int32_t partitions);
void fetch_partition(struct buf *b, int32_t index, int64_t offset, int32_t max_bytes);
void fetch_end(struct buf *b);

/* ---- Batches, built before the clock starts ---- */

/* One batch that is sent again and again. Producer id and sequence are patched in with the CRC, which is linear: each bit of
 * the sequence has its own contribution. */
struct template
{
    struct buf batch;
    int32_t records;
    uint32_t base_crc, bit_crc[32];
};
void template_init(struct template *t, const char *codec, int32_t records, int32_t record_bytes, int64_t producer_id,
                   int16_t producer_epoch);
void template_fini(struct template *t);
/* Writes the batch's header with this sequence (-1: none) to out[BATCH_OVERHEAD]. */
void template_header(const struct template *t, int32_t sequence, uint8_t *out);

/* ---- Subcommands ---- */

void run_produce(const struct args *a);
void run_consume(const struct args *a);
void run_fetch_file(const struct args *a);
void run_await(const struct args *a);
void run_disk(const struct args *a);
void run_sendfile(const struct args *a);
void run_lag(const struct args *a);
void run_connections(const struct args *a);

#endif
