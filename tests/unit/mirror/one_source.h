/* What nearly every test of the layer works on, with cmocka's setup and teardown for it: one broker, one scripted source. */
#ifndef KAGAMI_TESTS_ONE_SOURCE_H
#define KAGAMI_TESTS_ONE_SOURCE_H

#include "mirror_fixture.h"

extern struct mirror_fixture f;
extern struct fake_source source;

int fixture_setup(void **state);
int fixture_teardown(void **state); /* the source is no longer bent when the mirrors end */

#endif
