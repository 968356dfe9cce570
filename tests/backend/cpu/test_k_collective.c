/*
 * Collectives among 2, 3 and 5 local ranks, along each mesh axis and dimension, against
 * index arithmetic: rank r's element i of x is r * 1000 + i, so each result tells where it
 * came from.
 */
#include "backend/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build.h"
#include "support/engine_run.h"

static const int group_sizes[] = {2, 3, 5};

/* A mesh whose `axis` has n ranks, and two groups of it along another axis. */
static struct mesh mesh_of(enum mesh_axis axis, int n)
{
    struct mesh mesh = mesh_single();
    mesh.size[axis] = n;
    mesh.size[axis == MESH_TENSOR ? MESH_SHARD : MESH_TENSOR] = 2;
    return mesh;
}

static struct value *input(struct graph *graph, int64_t rows, int64_t columns,
                           enum mesh_axis axis, enum place_kind kind, int dim)
{
    struct type type = type_make(DTYPE_F32, 2, (int64_t[]){rows, columns});
    type.placement = placement_with(placement_same(), axis, kind, dim);
    return build_input(graph, "x", type);
}

static float mark(int rank, int64_t i)
{
    return (float)(rank * 1000 + i);
}

static struct engine_run *run_marked(struct graph *graph, struct value *y)
{
    graph_add_output(graph, "y", y, NULL);
    const int64_t n = type_elements(&graph_find_argument(graph, "x")->type);
    struct engine_run *run = engine_run_create(graph, NULL);
    for (int rank = 0; rank < mesh_n_ranks(&graph->mesh); rank++) {
        float *x = engine_run_argument(run, "x", rank);
        for (int64_t i = 0; i < n; i++) {
            x[i] = mark(rank, i);
        }
    }
    engine_run_execute(run);
    return run;
}

/* What element (i, j) of y is on a rank; `there` gives ranks of its group. */
struct where {
    const struct mesh *mesh;
    enum mesh_axis axis;
    int rank, n, dim;
    int64_t rows, columns; /* of x */
};

static int there(const struct where *w, int64_t coordinate)
{
    return mesh_neighbour(w->mesh, w->rank, w->axis, (int)coordinate);
}

typedef float (*expected_fn)(const struct where *w, int64_t i, int64_t j);

static void check_all(struct engine_run *run, struct where w, int64_t y_rows,
                      int64_t y_columns, expected_fn expected)
{
    for (w.rank = 0; w.rank < mesh_n_ranks(w.mesh); w.rank++) {
        const float *y = engine_run_output(run, "y", w.rank);
        for (int64_t i = 0; i < y_rows; i++) {
            for (int64_t j = 0; j < y_columns; j++) {
                assert_true(y[i * y_columns + j] == expected(&w, i, j));
            }
        }
    }
    engine_run_destroy(run);
}

static float gathered(const struct where *w, int64_t i, int64_t j)
{
    if (w->dim == 0) {
        return mark(there(w, i / w->rows), i % w->rows * w->columns + j);
    }
    return mark(there(w, j / w->columns), i * w->columns + j % w->columns);
}

static float summed(const struct where *w, int64_t index)
{
    float sum = 0.0f;
    for (int c = 0; c < w->n; c++) {
        sum += mark(there(w, c), index);
    }
    return sum;
}

/* Index in x of element (i, j) of the rank's own block. */
static int64_t own_block(const struct where *w, int64_t i, int64_t j)
{
    const int64_t c = mesh_coordinate(w->mesh, w->rank, w->axis);
    if (w->dim == 0) {
        return (c * (w->rows / w->n) + i) * w->columns + j;
    }
    return i * w->columns + c * (w->columns / w->n) + j;
}

static float scattered(const struct where *w, int64_t i, int64_t j)
{
    return summed(w, own_block(w, i, j));
}

static float taken(const struct where *w, int64_t i, int64_t j)
{
    return mark(w->rank, own_block(w, i, j));
}

static float reduced(const struct where *w, int64_t i, int64_t j)
{
    return summed(w, i * w->columns + j);
}

/* Of a column over all ranks: the last row's element on the last rank. */
static float largest(const struct where *w, int64_t i, int64_t j)
{
    (void)i;
    return mark(there(w, w->n - 1), (w->rows - 1) * w->columns + j);
}

/* From split along dimension `dim` to split along the other. */
static float exchanged(const struct where *w, int64_t i, int64_t j)
{
    const int64_t c = mesh_coordinate(w->mesh, w->rank, w->axis);
    if (w->dim == 0) {
        return mark(there(w, i / w->rows),
                    i % w->rows * w->columns + c * (w->columns / w->n) + j);
    }
    return mark(there(w, j / w->columns),
                (c * (w->rows / w->n) + i) * w->columns + j % w->columns);
}

static void check_axis(enum mesh_axis axis, int n, int dim)
{
    const struct mesh mesh = mesh_of(axis, n);
    const int64_t rows = 2 * n;
    const int64_t columns = 3 * n;
    const struct where w = {.mesh = &mesh,
                            .axis = axis,
                            .n = n,
                            .dim = dim,
                            .rows = rows,
                            .columns = columns};
    const int64_t more_rows = dim == 0 ? rows * n : rows;
    const int64_t more_columns = dim == 1 ? columns * n : columns;
    const int64_t fewer_rows = dim == 0 ? rows / n : rows;
    const int64_t fewer_columns = dim == 1 ? columns / n : columns;

    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, rows, columns, axis, PLACE_SPLIT, dim);
    check_all(run_marked(graph, build_all_gather(graph, x, axis, dim)), w, more_rows,
              more_columns, gathered);

    graph = graph_create(&mesh);
    x = input(graph, rows, columns, axis, PLACE_SPLIT, dim);
    check_all(run_marked(graph, build_all_to_all(graph, x, axis, dim, 1 - dim)), w,
              dim == 0 ? rows * n : rows / n, dim == 0 ? columns / n : columns * n,
              exchanged);

    graph = graph_create(&mesh);
    x = input(graph, rows, columns, axis, PLACE_PARTIAL, 0);
    check_all(run_marked(graph, build_reduce_scatter(graph, x, axis, dim)), w,
              fewer_rows, fewer_columns, scattered);

    graph = graph_create(&mesh);
    x = input(graph, rows, columns, axis, PLACE_SAME, 0);
    check_all(run_marked(graph, build_take_split(graph, x, axis, dim)), w, fewer_rows,
              fewer_columns, taken);

    graph = graph_create(&mesh);
    x = input(graph, rows, columns, axis, PLACE_PARTIAL, 0);
    check_all(run_marked(graph, build_all_reduce(graph, x, axis, REDUCE_SUM)), w, rows,
              columns, reduced);

    graph = graph_create(&mesh);
    x = input(graph, rows, columns, axis, PLACE_SPLIT, 0);
    x = build_reduce_max(graph, x, 1, (int[]){0});
    check_all(run_marked(graph, build_all_reduce(graph, x, axis, REDUCE_MAX)), w, 1,
              columns, largest);
}

static void blocks_go_where_they_belong(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(group_sizes); i++) {
        for (int axis = 0; axis < MESH_N_AXES; axis++) {
            check_axis((enum mesh_axis)axis, group_sizes[i], 0);
            check_axis((enum mesh_axis)axis, group_sizes[i], 1);
        }
    }
}

/* Sums of bf16 are formed in f32 and rounded once: 1 + 2^-8 + 2^-8 is 1 + 2^-7, where
 * rounding after each term would stay at 1. */
static void bf16_sums_are_rounded_once(void **state)
{
    (void)state;
    const struct mesh mesh = {{1, 3, 1}};
    struct graph *graph = graph_create(&mesh);
    struct type type = type_make(DTYPE_BF16, 1, (int64_t[]){40000});
    type.placement = placement_with(placement_same(), MESH_SHARD, PLACE_PARTIAL, 0);
    struct value *x = build_input(graph, "x", type);
    graph_add_output(graph, "y", build_all_reduce(graph, x, MESH_SHARD, REDUCE_SUM),
                     NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    for (int rank = 0; rank < 3; rank++) {
        uint16_t *values = engine_run_argument(run, "x", rank);
        for (int i = 0; i < 40000; i++) {
            values[i] = dtype_bf16_from_f32(rank == 0 ? 1.0f : 0x1p-8f);
        }
    }
    engine_run_execute(run);
    for (int rank = 0; rank < 3; rank++) {
        const uint16_t *y = engine_run_output(run, "y", rank);
        for (int i = 0; i < 40000; i++) {
            assert_int_equal(y[i], dtype_bf16_from_f32(1.0f + 0x1p-7f));
        }
    }
    engine_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_go_where_they_belong),
        cmocka_unit_test(bf16_sums_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
