/*
 * attributes_equal sees a change in every field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"

/* Each entry changes one field of cleared attributes. */
static const struct attributes changed[] = {
    {.n_axes = 1},
    {.axes = {0, 1}},
    {.axis = 1},
    {.shape = {.rank = 1, .dim = {2}}},
    {.placement = {.axis = {{PLACE_PARTIAL, 0}}}},
    {.has_placement = true},
    {.dtype = DTYPE_BF16},
    {.start = {0, 1}},
    {.limit = {0, 0, 3}},
    {.size = 4},
    {.transpose_a = true},
    {.transpose_b = true},
    {.compare = COMPARE_LE},
    {.mesh_axis = MESH_TENSOR},
    {.reduce = REDUCE_MAX},
    {.purpose = 9},
    {.value = 1.5},
    {.value = -0.0},
    {.eps = 1e-6},
    {.adds_one = true},
    {.theta = 1e4},
    {.factor = 8},
    {.pairs = 32},
    {.window = 512},
    {.ignore_row = -1},
    {.with_gradient = true},
    {.n_iterations = 3},
    {.n_carries = 1},
    {.n_stacked = 2},
};

static void each_field_counts(void **state)
{
    (void)state;
    const int n = (int)ARRAY_LENGTH(changed);
    const struct attributes none = {0};
    for (int i = 0; i < n; i++) {
        assert_false(attributes_equal(&none, &changed[i]));
        for (int j = 0; j < n; j++) {
            assert_int_equal(attributes_equal(&changed[i], &changed[j]), i == j);
        }
    }
}

/* Bytes between fields have no meaning. */
static void padding_does_not_count(void **state)
{
    (void)state;
    struct attributes a;
    struct attributes b;
    memset(&a, 0x00, sizeof(a));
    memset(&b, 0xff, sizeof(b));
    b = (struct attributes){.value = (double)NAN, .window = 4};
    a.value = b.value;
    a.window = 4;
    assert_true(attributes_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_counts),
        cmocka_unit_test(padding_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
