/* Leader epochs: what Kafka's LeaderEpochFileCache answers, and that it is on disk. */
#include "store_help.h"

#include "base/assert.h"
#include "storage/leader_epochs.h"

static void assert_content(void **state, const char *expected)
{
    struct buf content = {0};
    read_file(path_in(((struct scratch *)*state)->dir, LEADER_EPOCH_CHECKPOINT), &content);
    assert_string_equal(buf_cstr(&content), expected);
    buf_fini(&content);
}

static void start(void **state, struct leader_epochs *e)
{
    leader_epochs_init(e, fs_system(), ((struct scratch *)*state)->dir);
    assert_ok(leader_epochs_load(e, NULL));
}

static void assigning(void **state)
{
    struct leader_epochs e;
    start(state, &e);
    assert_int_equal(leader_epochs_latest(&e), -1);
    assert_ok(leader_epochs_assign(&e, 2, 0));
    assert_ok(leader_epochs_assign(&e, 2, 7)); /* goes on */
    assert_ok(leader_epochs_assign(&e, 4, 10));
    assert_ok(leader_epochs_assign(&e, 6, 20));
    assert_content(state, "0\n3\n2 0\n4 10\n6 20\n");
    assert_ok(leader_epochs_assign(&e, 7, 20)); /* 6 got no record */
    assert_content(state, "0\n3\n2 0\n4 10\n7 20\n");
    assert_ok(leader_epochs_assign(&e, 5, 15)); /* contradicts 7 */
    assert_content(state, "0\n3\n2 0\n4 10\n5 15\n");
    assert_ok(leader_epochs_assign(&e, 5, 12)); /* began earlier */
    assert_content(state, "0\n3\n2 0\n4 10\n5 12\n");
    assert_error(leader_epochs_assign(&e, -1, 12), ERR_INVALID);
    assert_false(leader_epochs_assign_quiet(&e, 5, 30));
    assert_true(leader_epochs_assign_quiet(&e, 9, 30));
    assert_content(state, "0\n3\n2 0\n4 10\n5 12\n");
    assert_ok(leader_epochs_store(&e));
    assert_content(state, "0\n4\n2 0\n4 10\n5 12\n9 30\n");
    leader_epochs_fini(&e);
    start(state, &e);
    assert_int_equal(leader_epochs_latest(&e), 9);
    assert_int_equal(leader_epochs_earliest(&e), 2);
    assert_ok(leader_epochs_assign(&e, 10, 40)); /* behind what was read */
    assert_ok(leader_epochs_clear(&e));
    assert_content(state, "0\n0\n");
    leader_epochs_fini(&e);
}

static void asking(void **state)
{
    static const struct {
        int32_t requested, epoch;
        int64_t end;
    } TABLE[] = {{-1, -1, -1}, {0, 0, 5}, {1, 1, 5}, {2, 2, 10}, {3, 2, 10}, {4, 4, 20}, {5, 4, 20}, {6, 6, 33}, {7, -1, -1}};
    static const struct {
        int64_t offset;
        int32_t epoch;
    } OFFSETS[] = {{0, -1}, {4, -1}, {5, 2}, {9, 2}, {10, 4}, {19, 4}, {20, 6}, {1000, 6}};
    struct leader_epochs e;
    int32_t epoch;
    int64_t end;
    start(state, &e);
    leader_epochs_end_offset(&e, 0, 33, &epoch, &end);
    assert_int_equal(epoch, -1);
    assert_int_equal(end, -1);
    assert_ok(leader_epochs_assign(&e, 2, 5));
    assert_ok(leader_epochs_assign(&e, 4, 10));
    assert_ok(leader_epochs_assign(&e, 6, 20));
    for (size_t i = 0; i < ARRAY_SIZE(TABLE); i++) {
        leader_epochs_end_offset(&e, TABLE[i].requested, 33, &epoch, &end);
        if (epoch != TABLE[i].epoch || end != TABLE[i].end)
            fail_msg("row %zu: (%d, %lld)", i, epoch, (long long)end);
    }
    for (size_t i = 0; i < ARRAY_SIZE(OFFSETS); i++)
        assert_int_equal(leader_epochs_for_offset(&e, OFFSETS[i].offset), OFFSETS[i].epoch);
    assert_int_equal(leader_epochs_previous(&e, 6), 4);
    assert_int_equal(leader_epochs_previous(&e, 5), 4);
    assert_int_equal(leader_epochs_previous(&e, 2), -1);
    leader_epochs_fini(&e);
}

static void truncating(void **state)
{
    struct leader_epochs e;
    start(state, &e);
    for (int i = 0; i < 4; i++)
        assert_ok(leader_epochs_assign(&e, i, i * 10));
    assert_ok(leader_epochs_truncate_from_end(&e, 31));
    assert_int_equal(leader_epochs_latest(&e), 3);
    assert_ok(leader_epochs_truncate_from_end(&e, 30));
    assert_content(state, "0\n3\n0 0\n1 10\n2 20\n");
    assert_ok(leader_epochs_truncate_from_start(&e, 15));
    assert_content(state, "0\n2\n1 15\n2 20\n");
    assert_ok(leader_epochs_truncate_from_start(&e, 15));
    assert_ok(leader_epochs_truncate_from_start(&e, 20));
    assert_content(state, "0\n1\n2 20\n");
    assert_ok(leader_epochs_truncate_from_start(&e, 500));
    assert_content(state, "0\n1\n2 500\n");
    assert_ok(leader_epochs_truncate_from_start(&e, 3)); /* behind it already */
    assert_ok(leader_epochs_truncate_from_end(&e, 0));
    assert_int_equal(leader_epochs_latest(&e), -1);
    leader_epochs_fini(&e);
}

static void damage(void **state)
{
    struct leader_epochs e;
    struct problem problem = {0};
    write_file(path_in(((struct scratch *)*state)->dir, LEADER_EPOCH_CHECKPOINT), "0\n2\n1 0\n", 8);
    leader_epochs_init(&e, fs_system(), ((struct scratch *)*state)->dir);
    assert_error(leader_epochs_load(&e, &problem), ERR_CORRUPT);
    assert_non_null(strstr(problem.message, LEADER_EPOCH_CHECKPOINT));
    assert_ok(leader_epochs_assign(&e, 3, 1)); /* usable all the same */
    leader_epochs_fini(&e);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup_teardown(assigning, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(asking, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(truncating, scratch_setup, scratch_teardown),
    cmocka_unit_test_setup_teardown(damage, scratch_setup, scratch_teardown),
};

int main(void)
{
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
