/* The moves of spec section 4, each of the 64, and the walk towards what the operator wants. */
#include "unit.h"

#include "base/assert.h"
#include "mirror/state.h"

#define STATES 8

static void only_the_moves_of_the_spec_are_allowed(void **state)
{
    /* rows: from; columns: to. f: only when the failure came from there. */
    static const char *const table[STATES] = {
        /*              -PMpPsSF  (none, PREPARING, MIRRORING, PAUSING, PAUSED, STOPPING, STOPPED, FAILED) */
        /* NONE      */ ".y......",
        /* PREPARING */ "..y..y.y",
        /* MIRRORING */ "...y.y.y",
        /* PAUSING   */ "....yy.y",
        /* PAUSED    */ "..y..y.y",
        /* STOPPING  */ "......yy",
        /* STOPPED   */ ".y.....y",
        /* FAILED    */ ".yfffy..",
    };

    for (int from = 0; from < STATES; from++) {
        for (int to = 0; to < STATES; to++) {
            char rule = table[from][to];
            for (int came = MIRROR_PREPARING; came <= MIRROR_STOPPED; came++) {
                bool expected = rule == 'y' || (rule == 'f' && came == to);
                if (mirror_state_allowed((enum mirror_state)from, (enum mirror_state)to, (enum mirror_state)came) != expected)
                    fail_msg("%s -> %s after a failure in %s", mirror_state_name((enum mirror_state)from),
                             mirror_state_name((enum mirror_state)to), mirror_state_name((enum mirror_state)came));
            }
        }
    }
}

static void every_step_towards_the_wanted_state_is_allowed_and_it_is_reached(void **state)
{
    static const enum mirror_state wanted[] = {MIRROR_MIRRORING, MIRROR_PAUSED, MIRROR_STOPPED};

    for (size_t w = 0; w < ARRAY_SIZE(wanted); w++) {
        for (int from = MIRROR_PREPARING; from <= MIRROR_FAILED; from++) {
            enum mirror_state at = (enum mirror_state)from;
            int steps = 0;
            if (wanted[w] == MIRROR_PAUSED && (at == MIRROR_STOPPED || at == MIRROR_STOPPING))
                continue; /* nobody can want that */
            if (wanted[w] == MIRROR_MIRRORING && at == MIRROR_STOPPING)
                continue;
            for (enum mirror_state next; (next = mirror_state_next(at, wanted[w])) != at; at = next) {
                assert_true(mirror_state_allowed(at, next, MIRROR_NONE));
                assert_true(++steps < STATES);
            }
            assert_int_equal(at, from == MIRROR_FAILED && wanted[w] != MIRROR_STOPPED ? MIRROR_FAILED : wanted[w]);
        }
    }
}

static void writes_are_allowed_in_two_states(void **state)
{
    for (int s = 0; s < STATES; s++)
        assert_int_equal(mirror_state_writable((enum mirror_state)s), s == MIRROR_NONE || s == MIRROR_STOPPED);
}

static void names_round_trip(void **state)
{
    enum mirror_state back;

    for (int s = 0; s < STATES; s++) {
        assert_true(mirror_state_parse(str_of(mirror_state_name((enum mirror_state)s)), &back));
        assert_int_equal(back, s);
    }
    assert_false(mirror_state_parse(STR("mirroring"), &back));
}

static void retries_double_up_to_the_longest_with_full_jitter(void **state)
{
    struct seeded_random r;
    int64_t bound = MIRROR_RETRY_FIRST_MS;

    seeded_random_init(&r, 7);
    for (int attempt = 1; attempt <= MIRROR_RETRY_MAX; attempt++) {
        int64_t low = INT64_MAX, high = 0;
        for (int i = 0; i < 500; i++) {
            int64_t d = mirror_retry_delay_ms(attempt, &r.source);
            assert_true(d >= 0 && d <= bound);
            low = MIN(low, d);
            high = MAX(high, d);
        }
        assert_true(low < bound / 10 && high > bound - bound / 10);
        bound = MIN(bound * 2, (int64_t)MIRROR_RETRY_LONGEST_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_moves_of_the_spec_are_allowed),
        cmocka_unit_test(every_step_towards_the_wanted_state_is_allowed_and_it_is_reached),
        cmocka_unit_test(writes_are_allowed_in_two_states),
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(retries_double_up_to_the_longest_with_full_jitter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
