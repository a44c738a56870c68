/* Connections over socket pairs, on one loop that the test steps. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "net/conn.h"
#include "os/thread.h"

struct world {
    struct manual_clock clock;
    struct loop *loop;
    struct conn_pool *pool;
    int peer; /* the client's end */
    struct conn *conn;
    bool answer_at_once;
    int opened, requests, closed, released;
    enum error why;
    uint8_t *frame; /* of the request in flight */
    size_t len;
    struct buf seen; /* first byte of each request */
};

static void on_opened(void *arg, struct conn *conn)
{
    struct world *w = arg;
    w->opened++;
    w->conn = conn;
    conn_set_data(conn, w);
}

/* The answer repeats the request behind its length. */
static void echo(struct conn *conn, const uint8_t *frame, size_t len)
{
    struct chain c;
    chain_init(&c);
    put_u32(chain_extend(&c, 4), (uint32_t)len);
    chain_append_ref(&c, frame, len, NULL, NULL); /* the frame lives until the answer is written */
    conn_reply(conn, &c);
}

static void on_request(void *arg, struct conn *conn, uint8_t *frame, size_t len)
{
    struct world *w = arg;
    assert_ptr_equal(conn_data(conn), w);
    w->requests++;
    w->frame = frame;
    w->len = len;
    if (len > 0)
        buf_append(&w->seen, frame, 1);
    if (w->answer_at_once)
        echo(conn, frame, len);
}

static void on_closed(void *arg, struct conn *conn, enum error why)
{
    struct world *w = arg;
    w->closed++;
    w->why = why;
    assert_true(conn_is_closed(conn));
}

static void on_released(void *arg, const char *peer)
{
    assert_string_equal(peer, "10.0.0.1:99");
    ((struct world *)arg)->released++;
}

static void open_another(struct world *w, int *ret_peer)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *ret_peer = fds[1];
    assert_ok(conn_open(w->pool, transport_plain(fds[0]), "10.0.0.1:99", on_released, w));
}

/* A disk that is cold for ever: each range that is asked for is loaded first. */
static struct {
    struct helpers *helpers;
    atomic_int asked, loads;
    sem_t go;         /* one for each load */
    atomic_bool free; /* loads do not wait for it */
} disk;

static bool disk_cached(int fd, uint64_t pos, size_t len)
{
    atomic_fetch_add(&disk.asked, 1);
    return false;
}

static void disk_load(int fd, uint64_t pos, size_t len)
{
    atomic_fetch_add(&disk.loads, 1);
    while (!disk.free && sem_wait(&disk.go) != 0)
        ;
}

static int begin_with(void **state, struct conn_disk with)
{
    static const struct conn_events events = {.opened = on_opened, .request = on_request, .closed = on_closed};
    struct conn_limits limits = {.request_max_bytes = 8 << 20, .idle_max_ms = 1000, .disk = with};
    struct world *w = calloc(1, sizeof(*w));
    *state = w;
    manual_clock_init(&w->clock, 0);
    assert_ok(loop_create(&w->clock.clock, &w->loop));
    w->pool = conn_pool_create(w->loop, &limits, &events, w);
    open_another(w, &w->peer);
    assert_int_equal(w->opened, 1);
    assert_string_equal(conn_peer(w->conn), "10.0.0.1:99");
    assert_ptr_equal(conn_loop(w->conn), w->loop);
    return 0;
}

static int begin(void **state)
{
    return begin_with(state, (struct conn_disk){0});
}

static int begin_cold(void **state)
{
    sem_init(&disk.go, 0, 0);
    disk.asked = disk.loads = 0;
    disk.free = false;
    assert_ok(helpers_start(1, &disk.helpers));
    return begin_with(state, (struct conn_disk){disk.helpers, disk_cached, disk_load});
}

static int end(void **state)
{
    struct world *w = *state;
    conn_pool_close_all(w->pool);
    assert_int_equal(w->closed, w->opened);
    assert_int_equal(w->released, w->opened);
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_error(conn_open(w->pool, transport_plain(fds[0]), "x", NULL, NULL), ERR_STATE);
    close(fds[1]);
    conn_pool_unref(w->pool);
    loop_destroy(w->loop);
    if (w->peer >= 0)
        close(w->peer);
    buf_fini(&w->seen);
    free(w);
    return 0;
}

static void send_bytes(struct world *w, const void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = write(w->peer, (const char *)data + done, len - done);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            loop_step(w->loop, 0);
            continue;
        }
        done += (size_t)n;
    }
}

static void send_frame(struct world *w, const void *data, size_t len)
{
    uint8_t length[4];
    put_u32(length, (uint32_t)len);
    send_bytes(w, length, 4);
    send_bytes(w, data, len);
}

/* Steps the loop until the peer has got len bytes. */
static void receive(struct world *w, void *out, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(w->peer, (char *)out + done, len - done);
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        assert_int_equal(n, -1);
        assert_int_equal(errno, EAGAIN);
        loop_step(w->loop, 1000);
    }
}

static void settle(struct world *w)
{
    for (int i = 0; i < 20; i++)
        loop_step(w->loop, 0);
}

static void a_request_is_answered_wherever_it_is_cut(void **state)
{
    struct world *w = *state;
    uint8_t message[24], answer[24];
    w->answer_at_once = true;
    put_u32(message, 20);
    for (int i = 4; i < 24; i++)
        message[i] = (uint8_t)(i * 3);
    for (size_t cut = 0; cut <= sizeof(message); cut++) {
        send_bytes(w, message, cut);
        settle(w);
        assert_int_equal(w->requests, (int)cut + (cut == sizeof(message)));
        send_bytes(w, message + cut, sizeof(message) - cut);
        receive(w, answer, sizeof(answer));
        assert_memory_equal(answer, message, sizeof(answer));
        assert_int_equal(w->requests, (int)cut + 1);
    }
}

static void requests_sent_ahead_are_handled_one_at_a_time_and_in_order(void **state)
{
    struct world *w = *state;
    struct buf stream = {0};
    enum { COUNT = 200 };
    for (int i = 0; i < COUNT; i++) {
        uint8_t frame[5];
        put_u32(frame, 1);
        frame[4] = (uint8_t)i;
        buf_append(&stream, frame, 5);
    }
    send_bytes(w, stream.data, stream.len);
    for (int i = 0; i < COUNT / 2; i++) { /* each is answered later */
        settle(w);
        assert_int_equal(w->requests, i + 1);
        uint8_t answer[5];
        echo(w->conn, w->frame, w->len);
        receive(w, answer, 5);
        assert_int_equal(answer[4], i);
    }
    w->answer_at_once = true; /* the one in flight, then the rest without recursion */
    settle(w);
    echo(w->conn, w->frame, w->len);
    uint8_t answers[5 * COUNT / 2];
    receive(w, answers, sizeof(answers));
    for (int i = 0; i < COUNT / 2; i++)
        assert_int_equal(answers[i * 5 + 4], i + COUNT / 2);
    assert_int_equal(w->requests, COUNT);
    buf_fini(&stream);
}

/* An answer of owned memory may wait for those of the requests behind it, one that refers to the frame may not: either way all come,
 * in order. */
static void on_request_answered_with_a_copy_or_by_reference(void *arg, struct conn *conn, uint8_t *frame, size_t len)
{
    struct world *w = arg;
    w->requests++;
    if (frame[0] % 3 == 0) {
        echo(conn, frame, len);
        return;
    }
    struct chain c;
    chain_init(&c);
    put_u32(chain_extend(&c, 4), (uint32_t)len);
    chain_append(&c, frame, len);
    conn_reply(conn, &c);
}

static void answers_that_leave_together_keep_their_order(void **state)
{
    static const struct conn_events events = {.request = on_request_answered_with_a_copy_or_by_reference};
    struct conn_limits limits = {.request_max_bytes = 1000};
    struct world *w = *state;
    struct conn_pool *pool = conn_pool_create(w->loop, &limits, &events, w);
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_ok(conn_open(pool, transport_plain(fds[0]), "", NULL, NULL));
    uint8_t stream[5 * 100] = {0}, got[5 * 100];
    for (int i = 0; i < 100; i++) {
        put_u32(stream + i * 5, 1);
        stream[i * 5 + 4] = (uint8_t)(i * 7);
    }
    int own = w->peer;
    w->peer = fds[1];
    send_bytes(w, stream, sizeof(stream));
    receive(w, got, sizeof(got));
    assert_memory_equal(got, stream, sizeof(got));
    w->peer = own;
    close(fds[1]);
    settle(w);
    assert_int_equal(conn_pool_count(pool), 0);
    conn_pool_unref(pool);
}

static void one_connection_does_not_hold_up_the_loop(void **state)
{
    struct world *w = *state;
    uint8_t frames[5 * 1000] = {0};
    for (int i = 0; i < 1000; i++)
        put_u32(frames + i * 5, 1);
    w->answer_at_once = true;
    send_bytes(w, frames, sizeof(frames));
    loop_step(w->loop, 0);
    assert_in_range(w->requests, 1, 100);
    receive(w, frames, sizeof(frames));
    assert_int_equal(w->requests, 1000);
}

static void hostile_lengths_close_the_connection(void **state)
{
    static const struct {
        uint32_t length;
        enum error why;
    } table[] = {{0xffffffffU, ERR_MALFORMED}, {(8 << 20) + 1, ERR_TOO_LARGE}, {0x7fffffffU, ERR_TOO_LARGE}};
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        uint8_t bytes[8] = {0};
        put_u32(bytes, table[i].length);
        send_bytes(w, bytes, 8);
        settle(w);
        assert_int_equal(w->closed, (int)i + 1);
        assert_error(w->why, table[i].why);
        close(w->peer);
        open_another(w, &w->peer);
    }
    assert_int_equal(w->requests, 0);
}

static void large_frames_come_whole(void **state)
{
    struct world *w = *state;
    size_t len = 5 << 20;
    uint8_t *data = malloc(len), *answer = malloc(len + 4);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 12));
    send_frame(w, data, len);
    while (w->requests == 0)
        loop_step(w->loop, 1000);
    assert_int_equal(w->len, len);
    assert_memory_equal(w->frame, data, len);
    w->frame[0]++; /* it is writable */
    data[0]++;
    echo(w->conn, w->frame, len); /* more than the socket takes: goes on when the peer reads */
    receive(w, answer, len + 4);
    assert_memory_equal(answer + 4, data, len);
    free(data);
    free(answer);
}

static int released_pieces;
static void release_piece(void *arg)
{
    released_pieces++;
}

/* Of 4 MiB, and the request that it answers. */
static FILE *file_for_an_answer(struct world *w)
{
    FILE *f = tmpfile();
    uint8_t block[4096];
    for (int i = 0; i < 1024; i++) {
        memset(block, i, sizeof(block));
        assert_int_equal(fwrite(block, 1, sizeof(block), f), sizeof(block));
    }
    fflush(f);
    released_pieces = 0;
    send_frame(w, "a", 1);
    settle(w);
    return f;
}

static void file_pieces_are_sent(void **state)
{
    struct world *w = *state;
    FILE *f = file_for_an_answer(w);
    struct chain c;
    struct buf expected = {0};
    chain_init(&c);
    chain_append(&c, "front", 5);
    chain_append_file(&c, fileno(f), 1000, 4000000, release_piece, NULL);
    chain_append(&c, "back", 4);
    assert_ok(chain_read(&c, &expected));
    conn_reply(w->conn, &c);
    assert_int_equal(c.len, 0);
    uint8_t *got = malloc(expected.len);
    receive(w, got, expected.len);
    assert_memory_equal(got, expected.data, expected.len);
    assert_int_equal(released_pieces, 1);
    free(got);
    buf_fini(&expected);
    fclose(f);
    /* A file that ends before its piece: the peer waits for bytes that cannot come. */
    f = tmpfile();
    fputs("short", f);
    fflush(f);
    send_frame(w, "b", 1);
    settle(w);
    chain_append_file(&c, fileno(f), 0, 10, release_piece, NULL);
    conn_reply(w->conn, &c);
    assert_int_equal(w->closed, 1);
    assert_error(w->why, ERR_TRUNCATED);
    assert_int_equal(released_pieces, 2);
    fclose(f);
}

/* The answer that is its content. */
static FILE *answer_with_a_file(struct world *w, struct buf *ret_expected)
{
    FILE *f = file_for_an_answer(w);
    struct chain c;
    chain_init(&c);
    chain_append(&c, "front", 5);
    chain_append_file(&c, fileno(f), 0, 4 << 20, release_piece, NULL);
    chain_append_file(&c, fileno(f), 0, 4000, release_piece, NULL);
    if (ret_expected != NULL)
        assert_ok(chain_read(&c, ret_expected));
    conn_reply(w->conn, &c);
    return f;
}

static void await_loads(struct world *w, int loads)
{
    for (int i = 0; i < 5000 && atomic_load(&disk.loads) < loads; i++) {
        loop_step(w->loop, 0);
        usleep(1000);
    }
    assert_int_equal(atomic_load(&disk.loads), loads);
}

static void what_is_not_in_memory_is_loaded_while_others_are_served(void **state)
{
    struct world *w = *state;
    struct buf expected = {0};
    char seen[6] = "", got[5];
    FILE *f = answer_with_a_file(w, &expected);
    await_loads(w, 1);
    settle(w);
    assert_int_equal(read(w->peer, seen, sizeof(seen)), 5); /* what stands before it, and nothing of the file */
    assert_string_equal(seen, "front");
    int first = w->peer;
    open_another(w, &w->peer);
    w->answer_at_once = true;
    send_frame(w, "b", 1);
    receive(w, got, sizeof(got));
    close(w->peer);
    w->peer = first;
    assert_int_equal(atomic_load(&disk.loads), 1);
    assert_int_equal(released_pieces, 0);
    disk.free = true;
    sem_post(&disk.go);
    uint8_t *rest = malloc(expected.len);
    receive(w, rest, expected.len - 5);
    assert_memory_equal(rest, expected.data + 5, expected.len - 5);
    assert_true(atomic_load(&disk.loads) >= 4);
    assert_int_equal(atomic_load(&disk.asked),
                     atomic_load(&disk.loads)); /* once for each: what was loaded is sent; 4,000 bytes are not asked for */
    assert_int_equal(released_pieces, 2);
    free(rest);
    buf_fini(&expected);
    fclose(f);
    helpers_stop(disk.helpers);
    settle(w);
}

static void a_connection_that_ends_keeps_its_file_until_it_is_loaded(void **state)
{
    struct world *w = *state;
    for (int by_peer = 0; by_peer < 2; by_peer++) {
        if (by_peer)
            open_another(w, &w->peer);
        FILE *f = answer_with_a_file(w, NULL);
        await_loads(w, 1 + by_peer);
        if (by_peer)
            shutdown(w->peer, SHUT_RDWR);
        else
            conn_close(w->conn);
        for (int i = 0; i < 100 && w->closed < 1 + by_peer; i++)
            loop_step(w->loop, 1);
        assert_int_equal(w->closed, 1 + by_peer);
        assert_int_equal(released_pieces, 0);
        sem_post(&disk.go);
        for (int i = 0; i < 5000 && released_pieces < 2; i++) {
            loop_step(w->loop, 0);
            usleep(1000);
        }
        assert_int_equal(released_pieces, 2);
        fclose(f);
        close(w->peer);
        w->peer = -1;
    }
    helpers_stop(disk.helpers);
    settle(w);
}

static void a_peer_that_closes_in_the_middle_of_an_answer(void **state)
{
    struct world *w = *state;
    size_t len = 4 << 20;
    uint8_t *data = calloc(1, len);
    released_pieces = 0;
    send_frame(w, "a", 1);
    settle(w);
    struct chain c;
    chain_init(&c);
    chain_append_ref(&c, data, len, release_piece, NULL);
    conn_reply(w->conn, &c);
    settle(w);
    assert_int_equal(w->closed, 0); /* stuck: the peer does not read */
    close(w->peer);
    w->peer = -1;
    settle(w);
    assert_int_equal(w->closed, 1);
    assert_error(w->why, ERR_CLOSED);
    assert_int_equal(released_pieces, 1);
    free(data);
}

static void an_answer_for_a_dead_connection_is_harmless(void **state)
{
    struct world *w = *state;
    send_frame(w, "a", 1);
    settle(w);
    close(w->peer);
    w->peer = -1;
    settle(w);
    assert_int_equal(w->closed, 1);
    assert_int_equal(conn_pool_count(w->pool), 0);
    assert_int_equal(w->frame[0], 'a'); /* still there: the handler reads it */
    echo(w->conn, w->frame, w->len);
}

static void every_way_to_end_the_request_of_a_dead_connection(void **state)
{
    struct world *w = *state;
    for (int way = 0; way < 3; way++) {
        send_frame(w, "a", 1);
        settle(w);
        assert_int_equal(w->requests, way + 1);
        conn_close(w->conn);
        conn_close(w->conn);
        assert_int_equal(w->closed, way + 1);
        assert_error(w->why, ERR_CANCELLED);
        if (way == 0)
            conn_no_reply(w->conn);
        else if (way == 1)
            conn_refuse(w->conn);
        else {
            conn_free_frame(w->conn);
            struct chain c;
            chain_init(&c);
            chain_append(&c, "late", 4);
            conn_reply_post(w->conn, &c);
            settle(w);
        }
        close(w->peer);
        open_another(w, &w->peer);
    }
}

static void a_request_may_get_no_answer_or_end_the_connection(void **state)
{
    struct world *w = *state;
    send_frame(w, "a", 1);
    send_frame(w, "b", 1);
    settle(w);
    assert_int_equal(w->requests, 1);
    conn_no_reply(w->conn);
    settle(w);
    assert_int_equal(w->requests, 2);
    conn_refuse(w->conn);
    assert_int_equal(w->closed, 1);
    char byte;
    assert_int_equal(read(w->peer, &byte, 1), 0);
}

struct replier {
    struct thread thread;
    struct conn *conn;
};

static void reply_from_elsewhere(void *arg)
{
    struct chain c;
    chain_init(&c);
    chain_append(&c, "later", 5);
    conn_reply_post(((struct replier *)arg)->conn, &c);
}

static void an_answer_may_come_from_another_thread(void **state)
{
    struct world *w = *state;
    char got[5];
    for (int i = 0; i < 20; i++) {
        send_frame(w, "a", 1);
        while (w->requests == i)
            loop_step(w->loop, 1000);
        struct replier r = {.conn = w->conn};
        assert_ok(thread_start(&r.thread, "replier", reply_from_elsewhere, &r));
        receive(w, got, 5);
        assert_memory_equal(got, "later", 5);
        thread_join(&r.thread);
    }
}

static void idle_connections_end_but_not_while_they_wait_for_us(void **state)
{
    struct world *w = *state;
    int second;
    manual_clock_advance(&w->clock, 600);
    settle(w);
    struct conn *waiting = w->conn;
    open_another(w, &second); /* 600 ms younger */
    send_frame(w, "a", 1);    /* the first has a request in flight from 600 ms on */
    settle(w);
    manual_clock_advance(&w->clock, 900);
    settle(w);
    assert_int_equal(w->closed, 0);
    manual_clock_advance(&w->clock, 200);
    settle(w);
    assert_int_equal(w->closed, 1);
    assert_error(w->why, ERR_TIMED_OUT);
    assert_int_equal(conn_pool_count(w->pool), 1);
    manual_clock_advance(&w->clock, 100000);
    settle(w);
    assert_int_equal(conn_pool_count(w->pool), 1);
    conn_no_reply(waiting);
    manual_clock_advance(&w->clock, 1000);
    settle(w);
    assert_int_equal(conn_pool_count(w->pool), 0);
    close(second);
}

/* Takes `count` one-byte requests, each of which gives way. */
static void take_and_give_way(struct world *w, struct conn_place **places, int count)
{
    for (int i = 0; i < count; i++) {
        int before = w->requests;
        send_frame(w, &(char){(char)('a' + i)}, 1);
        settle(w);
        assert_int_equal(w->requests, before + 1);
        places[i] = conn_give_way(w->conn);
        assert_non_null(places[i]);
    }
}

static void reply_at(struct conn_place *place, char text)
{
    struct chain c;
    chain_init(&c);
    chain_append(&c, &text, 1);
    conn_place_reply(place, &c);
}

static void assert_received(struct world *w, const char *text)
{
    char got[16] = "";
    settle(w);
    ssize_t n = read(w->peer, got, sizeof(got) - 1);
    if (text[0] == '\0')
        assert_true(n < 0 && errno == EAGAIN);
    else
        assert_string_equal(got, text);
}

static void requests_that_give_way_are_answered_in_order(void **state)
{
    struct world *w = *state;
    struct conn_place *places[3];
    take_and_give_way(w, places, 3);
    reply_at(places[2], '3');
    reply_at(places[1], '2');
    assert_received(w, "");
    reply_at(places[0], '1');
    assert_received(w, "123");
}

static void an_answer_waits_behind_those_that_gave_way(void **state)
{
    struct world *w = *state;
    struct conn_place *places[2];
    take_and_give_way(w, places, 2);
    send_frame(w, "x", 1); /* answered at once: echoed with its length */
    send_frame(w, "y", 1);
    settle(w);
    echo(w->conn, w->frame, w->len);
    assert_received(w, "");
    assert_int_equal(w->requests, 3); /* nothing is read while an answer is held */
    reply_at(places[0], '1');
    assert_received(w, "1");
    reply_at(places[1], '2');
    char got[6];
    receive(w, got, 6);
    assert_memory_equal(got, "2\0\0\0\1x", 6);
    settle(w);
    assert_int_equal(w->requests, 4);
    conn_no_reply(w->conn);
}

static void a_frame_may_stay_with_its_place(void **state)
{
    struct world *w = *state;
    send_frame(w, "kept", 4);
    settle(w);
    const uint8_t *frame = w->frame;
    struct conn_place *place = conn_give_way_with_frame(w->conn);
    send_frame(w, "next", 4);
    settle(w);
    assert_int_equal(w->requests, 2);
    assert_memory_equal(frame, "kept", 4);
    conn_place_free_frame(place);
    conn_no_reply(w->conn);
    reply_at(place, '1');
    assert_received(w, "1");
    send_frame(w, "gone", 4);
    settle(w);
    place = conn_give_way_with_frame(w->conn); /* the frame goes with its place, when the peer has gone too */
    close(w->peer);
    w->peer = -1;
    settle(w);
    reply_at(place, '2');
}

static void so_many_may_give_way_and_no_more(void **state)
{
    struct world *w = *state;
    struct conn_place *places[CONN_WAITING_MAX];
    take_and_give_way(w, places, CONN_WAITING_MAX);
    send_frame(w, "z", 1);
    settle(w);
    assert_null(conn_give_way(w->conn));
    manual_clock_advance(&w->clock, 100000);
    settle(w);
    assert_int_equal(w->closed, 0); /* the peer waits for us */
    for (int i = 0; i < CONN_WAITING_MAX; i++)
        reply_at(places[i], 'p');
    settle(w);
    conn_no_reply(w->conn);
    char got[CONN_WAITING_MAX];
    receive(w, got, sizeof(got));
}

static void places_outlive_their_connection(void **state)
{
    struct world *w = *state;
    struct conn_place *places[3];
    take_and_give_way(w, places, 3);
    reply_at(places[1], '2'); /* never sent */
    conn_close(w->conn);
    assert_int_equal(w->closed, 1);
    reply_at(places[0], '1');
    conn_place_refuse(places[2]);
    close(w->peer);
    open_another(w, &w->peer);
    take_and_give_way(w, places, 2);
    conn_place_refuse(places[1]); /* ends the connection */
    assert_int_equal(w->closed, 2);
    reply_at(places[0], '1');
    settle(w);
}

static void a_kept_reference_outlives_the_connection(void **state)
{
    struct world *w = *state;
    struct conn *conn = conn_ref(w->conn);
    conn_close(conn);
    assert_true(conn_is_closed(conn));
    assert_string_equal(conn_peer(conn), "10.0.0.1:99");
    char ip[64];
    assert_string_equal(conn_local_ip(conn, ip, sizeof(ip)), "");
    conn_unref(conn);
    conn_unref(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_answered_wherever_it_is_cut),
        TEST(requests_sent_ahead_are_handled_one_at_a_time_and_in_order),
        TEST(answers_that_leave_together_keep_their_order),
        TEST(one_connection_does_not_hold_up_the_loop),
        TEST(hostile_lengths_close_the_connection),
        TEST(large_frames_come_whole),
        TEST(file_pieces_are_sent),
        cmocka_unit_test_setup_teardown(what_is_not_in_memory_is_loaded_while_others_are_served, begin_cold, end),
        cmocka_unit_test_setup_teardown(a_connection_that_ends_keeps_its_file_until_it_is_loaded, begin_cold, end),
        TEST(a_peer_that_closes_in_the_middle_of_an_answer),
        TEST(an_answer_for_a_dead_connection_is_harmless),
        TEST(every_way_to_end_the_request_of_a_dead_connection),
        TEST(a_request_may_get_no_answer_or_end_the_connection),
        TEST(an_answer_may_come_from_another_thread),
        TEST(idle_connections_end_but_not_while_they_wait_for_us),
        TEST(requests_that_give_way_are_answered_in_order),
        TEST(an_answer_waits_behind_those_that_gave_way),
        TEST(a_frame_may_stay_with_its_place),
        TEST(so_many_may_give_way_and_no_more),
        TEST(places_outlive_their_connection),
        TEST(a_kept_reference_outlives_the_connection),
    };
    return cmocka_run_group_tests_name("net/conn", tests, NULL, NULL);
}
