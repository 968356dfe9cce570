/*
 * Rows of a table by id: the scale is applied, ids out of range give zeros.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/kernel_harness.h"

extern const struct kernel kernel_embed;

static void check_case(int64_t V, int64_t D, int64_t T, const struct native *native)
{
    struct harness *harness = harness_create(&kernel_embed);
    harness_attributes(harness)->value = 1.5;
    float *table = harness_input(harness, DTYPE_F32, 2, (int64_t[]){V, D});
    int32_t *ids = harness_input(harness, DTYPE_I32, 2, (int64_t[]){2, T});
    float *y = harness_output(harness, DTYPE_F32, 3, (int64_t[]){2, T, D});
    harness_fill(table, V * D, 1, 1.0);
    for (int64_t i = 0; i < 2 * T; i++) {
        ids[i] = (int32_t)(i * 31 % (V + 2) - 1); /* -1 and V too */
    }
    harness_run(harness, native);
    for (int64_t i = 0; i < 2 * T; i++) {
        const bool is_inside = ids[i] >= 0 && ids[i] < V;
        for (int64_t d = 0; d < D; d++) {
            const float expected = is_inside ? table[ids[i] * D + d] * 1.5F : 0;
            assert_true(y[i * D + d] == expected);
        }
    }
    harness_destroy(harness);
}

static void test_every_set(void **state)
{
    (void)state;
    const struct native *sets[3];
    const int n_sets = native_list(sets);
    for (int s = 0; s < n_sets; s++) {
        check_case(1, 1, 1, sets[s]);
        check_case(7, 5, 9, sets[s]);
        check_case(30, 641, 70, sets[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
