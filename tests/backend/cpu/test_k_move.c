/*
 * Kernels that move elements, through the engine: what each result element must be is
 * known from its index. Values are their own row-major index, so a test reads as a table.
 */
#include "backend/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build.h"
#include "support/engine_run.h"

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static struct value *counted(struct graph *graph, int rank, const int64_t *dim)
{
    return build_input(graph, "x", type_make(DTYPE_I32, rank, dim));
}

/* Runs the graph with x = 0, 1, 2 ... and compares output y. */
static void check(struct graph *graph, const int32_t *expected)
{
    struct engine_run *run = engine_run_create(graph, NULL);
    const struct value *x = graph_find_argument(graph, "x");
    int32_t *values = engine_run_argument(run, "x", 0);
    for (int64_t i = 0; i < type_elements(&x->type); i++) {
        values[i] = (int32_t)i;
    }
    engine_run_execute(run);
    const int output = graph_find_output(graph, "y");
    assert_memory_equal(engine_run_output(run, "y", 0), expected,
                        type_bytes(&graph->outputs[output].value->type));
    engine_run_destroy(run);
}

static void transpose_changes_the_order(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = counted(graph, 3, (int64_t[]){2, 3, 2});
    graph_add_output(graph, "y", build_transpose(graph, x, (int[]){2, 0, 1}), NULL);
    check(graph, (int32_t[]){0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11});
}

static void broadcast_repeats(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = counted(graph, 2, (int64_t[]){2, 1});
    const struct shape shape = type_shape(3, (int64_t[]){2, 2, 3});
    graph_add_output(graph, "y", build_broadcast_like_x(graph, x, shape, (int[]){0, 2}),
                     NULL);
    check(graph, (int32_t[]){0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
}

static void slices_cut_boxes(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = counted(graph, 2, (int64_t[]){4, 5});
    graph_add_output(graph, "y",
                     build_slice(graph, x, (int64_t[]){1, 2}, (int64_t[]){3, 4}), NULL);
    check(graph, (int32_t[]){7, 8, 12, 13});
}

static void pad_surrounds_with_zeros(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = counted(graph, 2, (int64_t[]){2, 2});
    graph_add_output(graph, "y",
                     build_pad(graph, x, (int64_t[]){1, 0}, (int64_t[]){0, 2}), NULL);
    check(graph, (int32_t[]){0, 0, 0, 0, 0, 1, 0, 0, 2, 3, 0, 0});
}

static void concat_joins_along_an_axis(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = counted(graph, 2, (int64_t[]){2, 3});
    struct value *left = build_slice_axis(graph, x, 1, 0, 1);
    struct value *const parts[] = {x, left, x};
    graph_add_output(graph, "y", build_concat(graph, parts, 3, 1), NULL);
    check(graph, (int32_t[]){0, 1, 2, 0, 0, 1, 2, 3, 4, 5, 3, 3, 4, 5});
}

static void check_dynamic_slice(int start, const int32_t *expected)
{
    struct graph *graph = new_graph();
    struct value *x = counted(graph, 2, (int64_t[]){2, 4});
    struct value *at = build_scalar(graph, DTYPE_I32, start);
    graph_add_output(graph, "y", build_dynamic_slice(graph, x, at, 1, 2), NULL);
    check(graph, expected);
}

static void dynamic_slices_stay_inside(void **state)
{
    (void)state;
    check_dynamic_slice(1, (int32_t[]){1, 2, 5, 6});
    check_dynamic_slice(3, (int32_t[]){2, 3, 6, 7});
    check_dynamic_slice(-1, (int32_t[]){0, 1, 4, 5});
}

static void updates_write_their_part(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = counted(graph, 2, (int64_t[]){3, 2});
    struct value *part =
        build_constant(graph, type_make(DTYPE_I32, 2, (int64_t[]){1, 2}), 9.0);
    struct value *at = build_scalar(graph, DTYPE_I32, 1);
    graph_add_output(graph, "y", build_dynamic_update_slice(graph, x, part, at, 0),
                     NULL);
    graph_add_output(graph, "before", x, NULL); /* the argument itself stays */
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "x", 0), (int32_t[]){0, 1, 2, 3, 4, 5}, 24);
    engine_run_execute(run);
    assert_memory_equal(engine_run_output(run, "y", 0), ((int32_t[]){0, 1, 9, 9, 4, 5}),
                        24);
    assert_memory_equal(engine_run_output(run, "before", 0),
                        ((int32_t[]){0, 1, 2, 3, 4, 5}), 24);
    engine_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transpose_changes_the_order),
        cmocka_unit_test(broadcast_repeats),
        cmocka_unit_test(slices_cut_boxes),
        cmocka_unit_test(pad_surrounds_with_zeros),
        cmocka_unit_test(concat_joins_along_an_axis),
        cmocka_unit_test(dynamic_slices_stay_inside),
        cmocka_unit_test(updates_write_their_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
