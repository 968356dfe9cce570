/*
 * Every library tells its version, and what is missing tells what that means.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <string.h>

#include "backend/libraries.h"

static void all_are_described(void **state)
{
    (void)state;
    struct libraries_row rows[LIBRARIES_MAX];
    const int n = libraries_list(rows);
    assert_true(n >= 5 && n <= LIBRARIES_MAX);
    for (int i = 0; i < n; i++) {
        assert_true(strlen(rows[i].name) > 3 && strlen(rows[i].purpose) > 3);
        if (rows[i].version[0] == '\0') {
            assert_non_null(rows[i].absence);
        } else {
            assert_true(isdigit((unsigned char)rows[i].version[0]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_are_described)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
