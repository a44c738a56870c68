/* The text files: Kafka's own are read, ours are written to the byte, damaged ones are named with their line. */
#include "store_help.h"

#include "base/assert.h"
#include "storage/checkpoint.h"

static const char *file_in(void **state, const char *name)
{
    return path_in(((struct scratch *)*state)->dir, name);
}

static void assert_content(const char *path, const char *expected)
{
    struct buf content = {0};
    read_file(path, &content);
    assert_string_equal(buf_cstr(&content), expected);
    buf_fini(&content);
}

static void offsets(void **state)
{
    const char *path = file_in(state, RECOVERY_POINT_CHECKPOINT);
    struct offset_checkpoint c;
    static const struct offset_checkpoint_entry ENTRIES[] = {
        {{"topic", 5}, 1, 42}, {{"topic", 5}, 0, INT64_MAX}, {{"a.b_c-1", 7}, 12, 0}, {{"topic", 5}, 10, 7}};
    assert_error(offset_checkpoint_read(fs_system(), path, &c, NULL), ERR_NOT_FOUND);
    assert_ok(offset_checkpoint_write(fs_system(), path, ENTRIES, ARRAY_SIZE(ENTRIES)));
    assert_content(path, "0\n4\ntopic 1 42\ntopic 0 9223372036854775807\na.b_c-1 12 0\ntopic 10 7\n");
    assert_ok(offset_checkpoint_read(fs_system(), path, &c, NULL));
    assert_int_equal(c.count, 4);
    assert_int_equal(*offset_checkpoint_get(&c, STR("topic"), 1), 42);
    assert_int_equal(*offset_checkpoint_get(&c, STR("topic"), 10), 7);
    assert_int_equal(*offset_checkpoint_get(&c, STR("a.b_c-1"), 12), 0);
    assert_null(offset_checkpoint_get(&c, STR("topic"), 2));
    assert_null(offset_checkpoint_get(&c, STR("topi"), 1));
    offset_checkpoint_fini(&c);
    assert_ok(offset_checkpoint_write(fs_system(), path, NULL, 0));
    assert_content(path, "0\n0\n");
    assert_ok(offset_checkpoint_read(fs_system(), path, &c, NULL));
    assert_int_equal(c.count, 0);
    offset_checkpoint_fini(&c);
    write_file(path, "0\n3\nt 0 1\nt 1 5\nt 0 2\n", 22);
    assert_ok(offset_checkpoint_read(fs_system(), path, &c, NULL));
    assert_int_equal(c.count, 2);
    assert_int_equal(*offset_checkpoint_get(&c, STR("t"), 0), 2); /* the last one counts */
    offset_checkpoint_fini(&c);
}

static void kafkas_files(void **state)
{
    struct offset_checkpoint c;
    struct epoch_entry *epochs;
    size_t count;
    struct uuid id;
    struct meta_properties meta;
    char text[UUID_TEXT_SIZE];
    int64_t broker_epoch;
    assert_ok(offset_checkpoint_read(fs_system(), GOLDEN_STOPPED "/" RECOVERY_POINT_CHECKPOINT, &c, NULL));
    assert_int_equal(*offset_checkpoint_get(&c, STR("golden"), 0), 46);
    offset_checkpoint_fini(&c);
    assert_ok(offset_checkpoint_read(fs_system(), GOLDEN_STOPPED "/" HIGH_WATERMARK_CHECKPOINT, &c, NULL));
    assert_int_equal(*offset_checkpoint_get(&c, STR("golden"), 0), 46);
    offset_checkpoint_fini(&c);
    assert_ok(offset_checkpoint_read(fs_system(), GOLDEN_STOPPED "/" LOG_START_CHECKPOINT, &c, NULL));
    assert_int_equal(c.count, 0);
    offset_checkpoint_fini(&c);
    assert_ok(epoch_checkpoint_read(fs_system(), GOLDEN_STOPPED "/" LEADER_EPOCH_CHECKPOINT, &epochs, &count, NULL));
    assert_int_equal(count, 1);
    assert_int_equal(epochs[0].epoch, 0);
    assert_int_equal(epochs[0].start_offset, 0);
    assert_ok(epoch_checkpoint_write(fs_system(), file_in(state, "epochs"), epochs, count));
    assert_files_equal(file_in(state, "epochs"), GOLDEN_STOPPED "/" LEADER_EPOCH_CHECKPOINT);
    mem_free(epochs);
    assert_ok(partition_metadata_read(fs_system(), GOLDEN_STOPPED "/" PARTITION_METADATA_FILE, &id, NULL));
    assert_ok(partition_metadata_write(fs_system(), file_in(state, "meta"), &id));
    assert_files_equal(file_in(state, "meta"), GOLDEN_STOPPED "/" PARTITION_METADATA_FILE);
    assert_ok(meta_properties_read(fs_system(), GOLDEN_STOPPED "/" META_PROPERTIES_FILE, &meta, NULL));
    assert_int_equal(meta.node_id, 1);
    assert_int_equal(strlen(meta.cluster_id), 22);
    assert_int_equal(strlen(uuid_text(&meta.directory_id, text)), 22);
    assert_true(clean_shutdown_present(fs_system(), GOLDEN_STOPPED "/kafka_cleanshutdown", &broker_epoch));
    assert_true(broker_epoch > 0);
    assert_ok(clean_shutdown_write(fs_system(), file_in(state, "clean"), broker_epoch));
    assert_files_equal(file_in(state, "clean"), GOLDEN_STOPPED "/kafka_cleanshutdown");
}

static void meta(void **state)
{
    const char *path = file_in(state, META_PROPERTIES_FILE);
    struct meta_properties meta = {.cluster_id = "cluster", .node_id = 7}, read;
    assert_ok(meta_properties_write(fs_system(), path, &meta));
    assert_content(path, "cluster.id=cluster\nnode.id=7\nversion=1\n");
    assert_ok(meta_properties_read(fs_system(), path, &read, NULL));
    assert_string_equal(read.cluster_id, "cluster");
    assert_true(uuid_is_zero(&read.directory_id));
    assert_ok(meta_properties_parse(STR("version=0\nbroker.id=3\ncluster.id=x\n"), "m", &read, NULL));
    assert_int_equal(read.node_id, 3);
}

static void clean_shutdown(void **state)
{
    const char *dir = ((struct scratch *)*state)->dir;
    const char *path = path_in(dir, CLEAN_SHUTDOWN_FILE);
    int64_t broker_epoch = 5;
    assert_false(clean_shutdown_present(fs_system(), path, &broker_epoch));
    write_file(path, "", 0); /* as Kafka before 3.7 */
    assert_true(clean_shutdown_present(fs_system(), path, &broker_epoch));
    assert_int_equal(broker_epoch, -1);
    assert_ok(clean_shutdown_remove(fs_system(), dir));
    assert_false(clean_shutdown_present(fs_system(), path, NULL));
    assert_ok(clean_shutdown_remove(fs_system(), dir));
}

enum kind { OFFSETS, EPOCHS, PARTITION, META };

static enum error parse(enum kind kind, const char *text, struct problem *problem)
{
    struct buf copy = {0};
    struct offset_checkpoint c;
    struct epoch_entry *epochs;
    size_t count;
    struct uuid id;
    struct meta_properties m;
    enum error error;
    switch (kind) {
    case OFFSETS:
        buf_append_str(&copy, str_of(text));
        error = offset_checkpoint_parse(&copy, "the-file", &c, problem);
        if (error == OK)
            offset_checkpoint_fini(&c);
        return error;
    case EPOCHS:
        error = epoch_checkpoint_parse(str_of(text), "the-file", &epochs, &count, problem);
        if (error == OK)
            mem_free(epochs);
        return error;
    case PARTITION:
        return partition_metadata_parse(str_of(text), "the-file", &id, problem);
    default:
        return meta_properties_parse(str_of(text), "the-file", &m, problem);
    }
}

static void damage(void **state)
{
    static const struct {
        enum kind kind;
        const char *text;
        enum error expected;
        const char *line;
    } TABLE[] = {
        {OFFSETS, "", ERR_CORRUPT, "line 1"},
        {OFFSETS, "x\n", ERR_CORRUPT, "line 1"},
        {OFFSETS, "1\n0\n", ERR_UNSUPPORTED, "version 1"},
        {OFFSETS, "0\n", ERR_CORRUPT, "line 2"},
        {OFFSETS, "0\n-1\n", ERR_CORRUPT, "line 2"},
        {OFFSETS, "0\n99999999999999\n", ERR_CORRUPT, "line 2"},
        {OFFSETS, "0\n1000000000\nt 0 0\n", ERR_CORRUPT, "line 2"},
        {OFFSETS, "0\n2\nt 0 0\n", ERR_CORRUPT, "line 4"},
        {OFFSETS, "0\n1\nt 0 0\nt 1 0\n", ERR_CORRUPT, "line 4"},
        {OFFSETS, "0\n1\nt 0\n", ERR_CORRUPT, "line 3"},
        {OFFSETS, "0\n1\nt 0 0 0\n", ERR_CORRUPT, "line 3"},
        {OFFSETS, "0\n1\nt x 0\n", ERR_CORRUPT, "line 3"},
        {OFFSETS, "0\n1\nt 0 -4\n", ERR_CORRUPT, "line 3"},
        {OFFSETS, "0\n1\nt 4294967296 0\n", ERR_CORRUPT, "line 3"},
        {OFFSETS, "0\n1\n 0 0\n", ERR_CORRUPT, "line 3"},
        {OFFSETS, "0\n1\nt 0 99999999999999999999\n", ERR_CORRUPT, "line 3"},
        {OFFSETS, "0\r\n1\r\nt 0 5\r\n", OK, NULL},
        {OFFSETS, "0\n1\nt 0 5", OK, NULL},
        {EPOCHS, "0\n2\n1 5\n2 9\n", OK, NULL},
        {EPOCHS, "0\n2\n1 5\n1 9\n", ERR_CORRUPT, "line 4"},
        {EPOCHS, "0\n2\n1 5\n2 4\n", ERR_CORRUPT, "line 4"},
        {EPOCHS, "0\n1\n-1 4\n", ERR_CORRUPT, "line 3"},
        {EPOCHS, "0\n1\n1 4 5\n", ERR_CORRUPT, "line 3"},
        {EPOCHS, "0\n1\n", ERR_CORRUPT, "line 2"},
        {EPOCHS, "\0", ERR_CORRUPT, "line 1"},
        {PARTITION, "version: 0\ntopic_id: Cd9Z5NwtQHuosbzYGi_oag\n", OK, NULL},
        {PARTITION, "version: 1\ntopic_id: Cd9Z5NwtQHuosbzYGi_oag\n", ERR_UNSUPPORTED, "version 1"},
        {PARTITION, "topic_id: Cd9Z5NwtQHuosbzYGi_oag\n", ERR_CORRUPT, "line 1"},
        {PARTITION, "version: 0\n", ERR_CORRUPT, "line 2"},
        {PARTITION, "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", ERR_CORRUPT, "line 2"},
        {PARTITION, "version: 0\ntopic_id: Cd9Z5NwtQHuosbzYGi\n", ERR_CORRUPT, "line 2"},
        {META, "cluster.id=x\nnode.id=1\n", ERR_CORRUPT, "no version"},
        {META, "version=2\ncluster.id=x\n", ERR_UNSUPPORTED, "version 2"},
        {META, "version=1\nnode.id=1\n", ERR_CORRUPT, "cluster.id"},
        {META, "version=1\ncluster.id=x\nnode.id=-3\n", ERR_CORRUPT, "node id"},
        {META, "version=1\ncluster.id=x\ndirectory.id=?\n", ERR_CORRUPT, "directory.id"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        struct problem problem = {0};
        enum error error = parse(TABLE[i].kind, TABLE[i].text, &problem);
        if (error != TABLE[i].expected)
            fail_msg("row %zu: %s (%s)", i, error_name(error), problem.message);
        if (error == OK)
            continue;
        if (strstr(problem.message, TABLE[i].line) == NULL || strstr(problem.message, "the-file") == NULL)
            fail_msg("row %zu: %s", i, problem.message);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup_teardown(offsets, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(kafkas_files, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(meta, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(clean_shutdown, scratch_setup, scratch_teardown),
    cmocka_unit_test(damage),
};

int main(void)
{
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
