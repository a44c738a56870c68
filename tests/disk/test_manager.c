/* A directory of logs on a disk that fails: everything that storage does to it, with the trouble of one seed, life after life. See README.md. */
#include "world.h"

static void draw_trouble(struct world *w)
{
    static const uint64_t MOST[] = {[TROUBLE_POWER] = 200, [TROUBLE_KILL] = 200,     [TROUBLE_EIO] = 600,
                                    [TROUBLE_SYNC] = 60,   [TROUBLE_NO_SPACE] = 100, [TROUBLE_FULL] = 3000};
    enum trouble trouble = (enum trouble)pick(w, TROUBLE_NONE + 1);
    prepare(w, trouble, trouble == TROUBLE_NONE ? 0 : 1 + pick(w, MOST[trouble]));
}

static void run_seed(uint64_t seed)
{
    struct world w;
    world_init(&w, seed);
    reopen(&w);
    for (int i = 0; i < 5; i++) {
        draw_trouble(&w);
        live(&w, 100);
        end(&w, pick(&w, 3) == 0);
        reopen(&w);
    }
    end_life(&w, false);
    world_fini(&w);
}

static void whatever_fails_nothing_is_lost_and_nothing_comes_back(void **state)
{
    each_seed(800, run_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_fails_nothing_is_lost_and_nothing_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
