/*
 * The kernel table: one per op, run functions where something runs, and which composites
 * must be lowered first.
 */
#include "backend/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build.h"

static void every_op_has_a_kernel(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        assert_non_null(kernel_of((enum op)op));
        for (int other = 0; other < op; other++) {
            assert_ptr_not_equal(kernel_of((enum op)op), kernel_of((enum op)other));
        }
    }
    assert_null(kernel_of(OP_PARAMETER)->run);
    assert_null(kernel_of(OP_REPEAT)->run);
    assert_null(kernel_of(OP_RESHAPE)->run);
    assert_non_null(kernel_of(OP_ADD)->run);
    assert_non_null(kernel_of(OP_ATTENTION)->run);
}

static bool takes_silu(enum dtype dtype)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", type_make(dtype, 1, (int64_t[]){4}));
    const bool takes = kernel_takes(build_silu(graph, x)->node);
    graph_destroy(graph);
    return takes;
}

static void composites_run_natively_in_f32(void **state)
{
    (void)state;
    assert_true(takes_silu(DTYPE_F32));
    assert_false(takes_silu(DTYPE_F64));
}

static void parameters_are_lowered_and_primitives_never(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const struct type type = type_make(DTYPE_F64, 1, (int64_t[]){4});
    struct value *w = build_parameter(graph, "w", type, true);
    assert_true(kernel_takes(w->node));
    assert_true(kernel_takes(build_add(graph, w, w)->node));
    w = build_parameter(graph, "v", type_make(DTYPE_F32, 1, (int64_t[]){4}), true);
    assert_false(kernel_takes(build_use_param(graph, w, DTYPE_BF16)->node));
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_kernel),
        cmocka_unit_test(composites_run_natively_in_f32),
        cmocka_unit_test(parameters_are_lowered_and_primitives_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
