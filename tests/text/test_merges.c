/*
 * Pairs are found through growth; the last rank of a pair counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/merges.h"

enum { SIDE = 120 };

static void finds_pairs(void **state)
{
    (void)state;
    struct merges merges = {0};
    assert_null(merges_find(&merges, 0, 0));
    merges_reserve(&merges, 3000);
    assert_null(merges_find(&merges, 0, 0));
    for (int32_t a = 0; a < SIDE; a++) {
        for (int32_t b = a; b < SIDE; b++) {
            merges_add(&merges,
                       (struct merge){.left = a, .right = b, .rank = 7, .merged = 1});
            merges_add(&merges, (struct merge){.left = a,
                                               .right = b,
                                               .rank = a * SIDE + b,
                                               .merged = a + b});
        }
    }
    assert_int_equal(merges.n, SIDE * (SIDE + 1) / 2);
    for (int32_t a = 0; a < SIDE; a++) {
        for (int32_t b = 0; b < SIDE; b++) {
            const struct merge *merge = merges_find(&merges, a, b);
            if (b < a) {
                assert_null(merge);
            } else {
                assert_int_equal(merge->rank, a * SIDE + b);
                assert_int_equal(merge->merged, a + b);
            }
        }
    }
    assert_null(merges_find(&merges, -1, 3));
    assert_null(merges_find(&merges, 3, -1));
    merges_deinit(&merges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
