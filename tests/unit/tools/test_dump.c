/* dump-log over files that Apache Kafka wrote (tests/unit/storage/data), over control records, and over damaged files. */
#include "tools/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "codec/control.h"
#include "codec/record_batch.h"
#include "tools/commands.h"
#include "unit.h"

/* A golden file of the storage tests. */
static const char *golden(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%.*s/../storage/data/%s", (int)(strlen(UNIT_DATA) - strlen("/data")), UNIT_DATA, name);
    return path;
}

struct run {
    struct tool tool;
    struct out err;
    int status;
};

/* Runs dump-log with these words; output and errors stay in memory. */
static const char *dump(struct run *r, bool json, bool records, const char *file)
{
    const char *argv[4] = {"dump-log", file};
    int argc = 2;
    struct problem problem;
    memset(r, 0, sizeof(*r));
    if (records)
        argv[argc++] = "--records";
    out_init(&r->tool.out, -1);
    out_init(&r->err, -1);
    r->tool.err = &r->err;
    r->tool.json = json;
    assert_ok(args_parse(argc, argv, &r->tool.args, &problem));
    r->status = run_dump_log(&r->tool);
    return buf_cstr(&r->tool.out.buf);
}

static void end(struct run *r)
{
    args_fini(&r->tool.args);
    out_fini(&r->tool.out);
    out_fini(&r->err);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what))
        n++;
    return n;
}

static void assert_has(const char *text, const char *what)
{
    if (strstr(text, what) == NULL)
        fail_msg("\"%.2000s\" does not have \"%s\"", text, what);
}

static void test_a_segment_of_kafka(void **state)
{
    (void)state;
    struct run r;
    const char *text = dump(&r, false, true, golden("stopped/00000000000000000033.log"));
    assert_int_equal(r.status, 0);
    assert_int_equal(count(text, "baseOffset: "), 13);
    assert_int_equal(count(text, "\n| offset: "), 13);
    /* what Kafka's own tool says of these */
    assert_has(text,
               "Log starting offset: 33\n"
               "baseOffset: 33 lastOffset: 33 count: 1 baseSequence: -1 lastSequence: -1 producerId: 1 producerEpoch: 1 "
               "partitionLeaderEpoch: 0 isTransactional: true isControl: true deleteHorizonMs: - position: 0 CreateTime: "
               "1795966564873 size: 78 magic: 2 compresscodec: none crc: 378069636 isvalid: true\n"
               "| offset: 33 CreateTime: 1795966564873 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: ABORT "
               "coordinatorEpoch: 0\n");
    assert_has(
        text,
        "| offset: 43 CreateTime: 1700000040000 keySize: 2 valueSize: 6 sequence: 31 headerKeys: [] key: k1 payload: more-1\n");
    end(&r);
    text = dump(&r, false, false, golden("stopped/00000000000000000033.log"));
    assert_int_equal(count(text, "\n| offset: "), 4); /* control records always */
    end(&r);
    text = dump(&r, true, true, golden("stopped/00000000000000000033.log"));
    assert_int_equal(count(text, "\"baseOffset\":"), 13);
    assert_int_equal(count(text, "\"controlType\":\"COMMIT\""), 1);
    assert_int_equal(count(text, "\n"), 26);
    end(&r);
}

static void test_indexes_snapshots_and_checkpoints_of_kafka(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text;
        int lines;
    } cases[] = {
        {"stopped/00000000000000000000.index", "offset: 30 position: 2350\n", 10},
        {"running/00000000000000000000.index", "offset: 30 position: 2350\n", 10}, /* preallocated: a tail of zeroes */
        {"stopped/00000000000000000000.timeindex", "timestamp: 1700000525000 offset: 24\n", 4},
        {"stopped/00000000000000000033.txnindex",
         "version: 0 producerId: 1 firstOffset: 39 lastOffset: 40 lastStableOffset: 37\n", 3},
        {"stopped/00000000000000000033.snapshot",
         "producerId: 1 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: 30 lastTimestamp: 1700000033000 "
         "firstSequence: 2 "
         "lastSequence: 2 lastOffset: 32 offsetDelta: 0 timestamp: 1700000033000\n",
         2},
        {"stopped/leader-epoch-checkpoint", "leaderEpoch: 0 startOffset: 0\n", 1},
        {"stopped/recovery-point-offset-checkpoint", "topic: golden partition: 0 offset: 46\n", -1},
        {"stopped/partition.metadata", "version: 0 topicId: Cd9Z5NwtQHuosbzYGi_oag\n", 1},
        {"stopped/meta.properties", "nodeId: 1 ", 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct run r;
        const char *text = dump(&r, false, false, golden(cases[i].file));
        assert_int_equal(r.status, 0);
        assert_has(text, cases[i].text);
        if (cases[i].lines >= 0)
            assert_int_equal(count(text, "\n"), cases[i].lines + 1);
        end(&r);
    }
}

/* ---- Files of our own, in the folder of the test ---- */

static const char *write_file(const char *name, const void *data, size_t len)
{
    static char path[300];
    struct file *file;
    snprintf(path, sizeof(path), "dump-%d-%s", (int)getpid(), "files");
    assert_ok(fs_mkdirs(fs_system(), path));
    snprintf(path, sizeof(path), "dump-%d-files/%s", (int)getpid(), name);
    assert_ok(fs_open(fs_system(), path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file));
    if (len > 0)
        assert_ok(file_pwrite(file, data, len, 0));
    file_close(file);
    return path;
}

static int remove_files(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof(path), "dump-%d-files", (int)getpid());
    return fs_remove_tree(fs_system(), path) == OK ? 0 : -1;
}

static void test_the_barrier_with_all_its_fields(void **state)
{
    (void)state;
    struct buf log = {0};
    struct run r;
    control_build_mirror_pid_reset(&log, STR("source-id"), STR("writer-id"), 1, 1000, 5, 3);
    control_build_mirror_pid_reset(&log, STR("source-id"), STR_NULL, 0, 1000, 6, 3);
    const char *path = write_file("00000000000000000005.log", log.data, log.len);
    assert_has(dump(&r, false, false, path),
               "controlType: MIRROR_PID_RESET version: 0 sourceClusterId: source-id writerClusterId: writer-id scope: 1\n");
    assert_int_equal(r.status, 0);
    end(&r);
    const char *text = dump(&r, true, false, path);
    assert_has(text, "\"controlType\":\"MIRROR_PID_RESET\",\"controlTypeId\":7,\"version\":0,\"sourceClusterId\":\"source-id\","
                     "\"writerClusterId\":\"writer-id\",\"scope\":1}");
    assert_has(text, "\"writerClusterId\":null,\"scope\":0}");
    end(&r);
    buf_fini(&log);
}

static void read_golden(const char *name, struct buf *out)
{
    assert_ok(fs_read_file(fs_system(), golden(name), 16 << 20, out));
}

/* Everything before the damage is shown, then its place, then status 1. */
static void test_damage_is_named_with_its_position(void **state)
{
    (void)state;
    struct buf log = {0};
    struct run r;
    read_golden("stopped/00000000000000000000.log", &log);
    log.data[77 * 2 + BATCH_POS_CRC] ^= 1; /* the third batch */
    const char *text = dump(&r, false, false, write_file("00000000000000000000.log", log.data, log.len));
    assert_int_equal(r.status, 1);
    assert_has(buf_cstr(&r.err.buf), "damaged at position 154: the CRC of the batch at offset 2");
    assert_int_equal(count(text, "isvalid: false"), 1);
    assert_int_equal(count(text, "baseOffset: "), 33); /* and what lies behind it, since the next one is found */
    end(&r);

    text = dump(&r, false, false, write_file("00000000000000000000.log", log.data, 77 + 30));
    assert_int_equal(r.status, 1);
    assert_int_equal(count(text, "baseOffset: "), 1);
    assert_has(buf_cstr(&r.err.buf), "damaged at position 77: ");
    end(&r);

    put_i32(log.data + 77 + BATCH_POS_LENGTH, 3);
    text = dump(&r, true, false, write_file("00000000000000000000.log", log.data, log.len));
    assert_int_equal(r.status, 1);
    assert_has(text, "\"errorPosition\":77");
    end(&r);
    buf_fini(&log);
}

static void test_other_damage(void **state)
{
    (void)state;
    struct run r;
    static const uint8_t falling[] = {0, 0, 0, 5, 0, 0, 0, 50, 0, 0, 0, 4, 0, 0, 0, 60};
    const char *text = dump(&r, false, false, write_file("00000000000000000100.index", falling, sizeof(falling)));
    assert_int_equal(r.status, 1);
    assert_has(text, "offset: 105 position: 50\n");
    assert_has(buf_cstr(&r.err.buf), "position 8: offsets and positions do not rise");
    end(&r);
    (void)dump(&r, false, false, write_file("00000000000000000100.index", falling, 11));
    assert_int_equal(r.status, 1);
    assert_has(buf_cstr(&r.err.buf), "ends inside an entry");
    end(&r);
    (void)dump(&r, false, false, write_file("leader-epoch-checkpoint", "0\n1\nnonsense\n", 13));
    assert_int_equal(r.status, 1);
    assert_has(buf_cstr(&r.err.buf), "leader-epoch-checkpoint");
    end(&r);
    static const char *const names[] = {"strange.name", "not-20-digits.index"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        (void)dump(&r, false, false, write_file(names[i], "x", 1));
        assert_int_equal(r.status, 1);
        assert_has(buf_cstr(&r.err.buf), names[i]);
        end(&r);
    }
    (void)dump(&r, false, false, "no-such-folder/00000000000000000000.log");
    assert_int_equal(r.status, 1);
    end(&r);
}

/* Each kind of file, cut at every length and with every byte turned over: an answer, and never more than that. */
static void test_files_torn_and_turned(void **state)
{
    (void)state;
    static const char *const files[] = {"00000000000000000033.log",
                                        "00000000000000000000.index",
                                        "00000000000000000000.timeindex",
                                        "00000000000000000033.txnindex",
                                        "00000000000000000033.snapshot",
                                        "leader-epoch-checkpoint",
                                        "partition.metadata",
                                        "meta.properties"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct buf whole = {0};
        char name[64];
        struct run r;
        snprintf(name, sizeof(name), "stopped/%s", files[i]);
        read_golden(name, &whole);
        for (size_t k = 0; k < whole.len; k += 1 + whole.len / 200) {
            (void)dump(&r, true, true, write_file(files[i], whole.data, k));
            assert_true(r.status == 0 || r.err.buf.len > 0);
            end(&r);
            whole.data[k] ^= 0xff;
            (void)dump(&r, k % 2 == 0, true, write_file(files[i], whole.data, whole.len));
            assert_true(r.status == 0 || r.err.buf.len > 0);
            end(&r);
            whole.data[k] ^= 0xff;
        }
        buf_fini(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_segment_of_kafka),
        cmocka_unit_test(test_indexes_snapshots_and_checkpoints_of_kafka),
        cmocka_unit_test(test_the_barrier_with_all_its_fields),
        cmocka_unit_test(test_damage_is_named_with_its_position),
        cmocka_unit_test(test_other_damage),
        cmocka_unit_test(test_files_torn_and_turned),
    };
    return cmocka_run_group_tests(tests, NULL, remove_files);
}
