#include "server/named.h"

#include "unit.h"

static void what_is_named_twice_is_marked(void **state)
{
    bool twice[6] = {false};
    struct named named[6] = {{STR("b"), 1, &twice[0]}, {STR("a"), 1, &twice[1]}, {STR("b"), 2, &twice[2]},
                             {STR("b"), 1, &twice[3]}, {STR("a"), 0, &twice[4]}, {STR("b"), 1, &twice[5]}};
    named_mark_twice(named, 6);
    const bool expected[6] = {true, false, false, true, false, true};
    assert_memory_equal(twice, expected, sizeof(twice));
    named_mark_twice(NULL, 0);
}

static void one_is_found(void **state)
{
    struct named named[3] = {{STR("b"), 1, NULL}, {STR("a"), 7, NULL}, {STR("ab"), -1, NULL}};
    named_sort(named, 3);
    assert_true(named_has(named, 3, STR("a"), 7));
    assert_true(named_has(named, 3, STR("ab"), -1));
    assert_false(named_has(named, 3, STR("a"), 1));
    assert_false(named_has(named, 3, STR("c"), 1));
    assert_false(named_has(NULL, 0, STR("a"), 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_named_twice_is_marked), cmocka_unit_test(one_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
