/*
 * Grids cover every item once, whatever the shape.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "graph/build.h"

static void test_spans_cover_all_items_once(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 60; n++) {
        for (int64_t per_task = 1; per_task < 9; per_task++) {
            int64_t next = 0;
            for (int64_t task = 0; task < base_div_up(n, per_task); task++) {
                const struct grid_span span = grid_span(task, per_task, n);
                assert_int_equal(span.begin, next);
                assert_true(span.end > span.begin && span.end - span.begin <= per_task);
                next = span.end;
            }
            assert_int_equal(next, n);
            const struct grid_span beyond = grid_span(60, per_task, n);
            assert_true(beyond.begin == beyond.end && beyond.end <= n);
        }
    }
}

static void test_rows_fill_a_task(void **state)
{
    (void)state;
    assert_int_equal(grid_rows_per_task(1), KERNEL_CHUNK);
    assert_int_equal(grid_rows_per_task(640), KERNEL_CHUNK / 640);
    assert_int_equal(grid_rows_per_task(10 * KERNEL_CHUNK), 1);
    assert_int_equal(grid_row_tasks(7, 10 * KERNEL_CHUNK), 7);
    assert_int_equal(grid_row_tasks(KERNEL_CHUNK + 1, 1), 2);
}

static void test_rows_of_types(void **state)
{
    (void)state;
    const struct type matrix = type_make(DTYPE_F32, 3, (int64_t[]){2, 3, 5});
    const struct type scalar = type_scalar(DTYPE_F32);
    assert_int_equal(grid_row_length(&matrix), 5);
    assert_int_equal(grid_n_rows(&matrix), 6);
    assert_int_equal(grid_row_length(&scalar), 1);
    assert_int_equal(grid_n_rows(&scalar), 1);
}

/* An operand may be a scalar: the result says how much there is to do. */
static void test_element_tasks_go_by_the_result(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const struct type type = type_make(DTYPE_F32, 2, (int64_t[]){3, KERNEL_CHUNK});
    struct value *x = build_input(graph, "x", type);
    const struct value *y = build_mul(graph, build_scalar(graph, DTYPE_F32, 2.0), x);
    assert_int_equal(grid_element_tasks(y->node, 0, 0), 3);
    assert_int_equal(grid_two_phases(y->node, 0), 2);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_cover_all_items_once),
        cmocka_unit_test(test_rows_fill_a_task),
        cmocka_unit_test(test_rows_of_types),
        cmocka_unit_test(test_element_tasks_go_by_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
