/*
 * Sums and maxima over every set of dimensions against plain loops in f64, in shapes that
 * take each path: runs, rows, parts that are joined in a second phase.
 */
#include "backend/cpu/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "graph/build.h"
#include "support/engine_run.h"

/* Sum and maximum for the result element that element `at` of x goes to. */
static int64_t result_index(const struct shape *x, unsigned reduced, int64_t at)
{
    int64_t index = 0;
    int64_t stride = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        if ((reduced >> i & 1) == 0) {
            index += at % x->dim[i] * stride;
            stride *= x->dim[i];
        }
        at /= x->dim[i];
    }
    return index;
}

static void check_reduce(int rank, const int64_t *dim, unsigned reduced,
                         enum dtype dtype)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", type_make(dtype, rank, dim));
    int axes[SHAPE_MAX_RANK];
    int n_axes = 0;
    for (int i = 0; i < rank; i++) {
        if ((reduced >> i & 1) != 0) {
            axes[n_axes++] = i;
        }
    }
    struct value *sum = build_reduce_sum(graph, x, n_axes, axes);
    graph_add_output(graph, "sum", build_cast(graph, sum, DTYPE_F64), NULL);
    struct value *max = build_reduce_max(graph, x, n_axes, axes);
    graph_add_output(graph, "max", build_cast(graph, max, DTYPE_F64), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 6, 1.0);
    const int64_t n = type_elements(&x->type);
    const int64_t n_results = type_elements(&sum->type);
    const unsigned char *values = engine_run_argument(run, "x", 0);
    double *sums = mem_alloc_array((size_t)n_results, sizeof(double));
    double *maxima = mem_alloc_array((size_t)n_results, sizeof(double));
    for (int64_t i = 0; i < n_results; i++) {
        maxima[i] = -(double)INFINITY;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t to = result_index(&x->type.shape, reduced, i);
        double value;
        float rounded;
        if (dtype == DTYPE_F64) {
            memcpy(&value, values + i * 8, 8);
        } else {
            dtype_to_f32(dtype, values + (size_t)i * dtype_bytes(dtype), &rounded, 1);
            value = (double)rounded;
        }
        sums[to] += value;
        maxima[to] = fmax(maxima[to], value);
    }
    engine_run_execute(run);
    const double *found = engine_run_output(run, "sum", 0);
    const double *most = engine_run_output(run, "max", 0);
    const double rounding = dtype == DTYPE_BF16  ? 0x1p-8
                            : dtype == DTYPE_F32 ? 0x1p-23
                                                 : 1e-12;
    for (int64_t i = 0; i < n_results; i++) {
        /* Summed in f64: only the last rounding counts, whatever cancels. */
        if (!(fabs(found[i] - sums[i]) <= rounding * fabs(sums[i]) + 1e-10)) {
            fail_msg("%s, axes %x, result %lld: %.9g, not %.9g", dtype_name(dtype),
                     reduced, (long long)i, found[i], sums[i]);
        }
        assert_true(most[i] == maxima[i]);
    }
    mem_free(sums);
    mem_free(maxima);
    engine_run_destroy(run);
}

static void every_set_of_dimensions(void **state)
{
    (void)state;
    static const int64_t dim[] = {3, 4, 1, 5};
    for (unsigned reduced = 1; reduced < 16; reduced++) {
        check_reduce(4, dim, reduced, DTYPE_F32);
        check_reduce(4, dim, reduced, DTYPE_F64);
        check_reduce(4, dim, reduced, DTYPE_BF16);
    }
}

static void large_reductions_join_parts(void **state)
{
    (void)state;
    static const struct {
        int64_t dim[3];
        unsigned reduced;
    } cases[] = {
        {{100, 31, 67}, 7},  /* everything */
        {{1, 1, 300007}, 7}, /* one long run */
        {{9000, 2, 20}, 1},  /* columns, many rows */
        {{40, 50, 3000}, 2}, /* rows wider than a block */
        {{7, 3000, 11}, 5},  /* inner and outer */
        {{2000, 3, 50}, 4},  /* many short runs */
        {{3, 5000, 40}, 6},  /* few results of long runs */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        check_reduce(3, cases[i].dim, cases[i].reduced, DTYPE_F32);
        check_reduce(3, cases[i].dim, cases[i].reduced, DTYPE_BF16);
    }
}

static void nan_is_the_largest(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){2, 3}));
    graph_add_output(graph, "y", build_reduce_max(graph, x, 1, (int[]){1}), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "x", 0), (float[]){1, NAN, 2, 3, -INFINITY, 1}, 24);
    engine_run_execute(run);
    const float *y = engine_run_output(run, "y", 0);
    assert_true(isnan(y[0]));
    assert_true(y[1] == 3.0f);
    engine_run_destroy(run);
}

static void integers_are_summed(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", type_make(DTYPE_I32, 1, (int64_t[]){5}));
    graph_add_output(graph, "sum", build_reduce_sum(graph, x, 1, (int[]){0}), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "x", 0), (int32_t[]){1, -2, 3, 1000000, 4}, 20);
    engine_run_execute(run);
    assert_int_equal(*(const int32_t *)engine_run_output(run, "sum", 0), 1000006);
    engine_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_dimensions),
        cmocka_unit_test(large_reductions_join_parts),
        cmocka_unit_test(nan_is_the_largest),
        cmocka_unit_test(integers_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
