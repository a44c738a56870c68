/* What every unit test includes: cmocka with its prerequisites. */
#ifndef KAGAMI_TESTS_UNIT_H
#define KAGAMI_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "base/error.h"
#include "base/str.h"

#define assert_ok(expression) assert_string_equal(error_name(expression), "NONE")
#define assert_error(expression, expected) assert_string_equal(error_name(expression), error_name(expected))
#define assert_str(s, literal)                                                                                                   \
    do {                                                                                                                         \
        struct str s_ = (s);                                                                                                     \
        assert_int_equal(s_.len, (int)strlen(literal));                                                                          \
        assert_memory_equal(s_.p, (literal), strlen(literal));                                                                   \
    } while (0)

#endif
