#include "one_source.h"

struct mirror_fixture f;
struct fake_source source;

int fixture_setup(void **state)
{
    (void)state;
    fake_source_start(&source, "source-cluster");
    fixture_init(&f);
    return 0;
}

int fixture_teardown(void **state)
{
    (void)state;
    fake_bend(&source, NULL, NULL);
    fixture_fini(&f);
    fake_source_stop(&source);
    return 0;
}
