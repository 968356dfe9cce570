/*
 * The matmul kernel through the engine, against sums in f64: batches, transposes,
 * accumulators, all float dtypes, tiles that do not divide the result, single rows.
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

struct matmul_case {
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b;
    enum dtype from, to;
    enum { NO_ACC, KEEP, DROP } acc;
};

static double read_element(const void *data, enum dtype dtype, int64_t i)
{
    if (dtype == DTYPE_F64) {
        return ((const double *)data)[i];
    }
    float x;
    dtype_to_f32(dtype, (const unsigned char *)data + (size_t)i * dtype_bytes(dtype),
                 &x, 1);
    return (double)x;
}

static struct graph *case_graph(const struct matmul_case *c)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const int64_t a_dim[3] = {c->batch, c->transpose_a ? c->k : c->m,
                              c->transpose_a ? c->m : c->k};
    const int64_t b_dim[3] = {c->batch, c->transpose_b ? c->n : c->k,
                              c->transpose_b ? c->k : c->n};
    const int64_t c_dim[3] = {c->batch, c->m, c->n};
    const int skipped = c->batch == 1 ? 1 : 0; /* plain matrices have rank 2 */
    struct value *a =
        build_input(graph, "a", type_make(c->from, 3 - skipped, a_dim + skipped));
    struct value *b =
        build_input(graph, "b", type_make(c->from, 3 - skipped, b_dim + skipped));
    if (c->acc == NO_ACC) {
        graph_add_output(
            graph, "c",
            build_matmul(graph, a, b, c->transpose_a, c->transpose_b, c->to), NULL);
        return graph;
    }
    struct value *acc =
        build_input(graph, "acc", type_make(c->to, 3 - skipped, c_dim + skipped));
    struct value *keep = build_input(graph, "keep", type_scalar(DTYPE_BOOL));
    struct value *sum =
        build_matmul_into(graph, a, b, c->transpose_a, c->transpose_b, acc, keep);
    graph_add_output(graph, "c", sum, acc);
    return graph;
}

/* Half a unit in the last place of the result, and what the sum itself loses. */
static double bound_of(const struct matmul_case *c, double magnitude)
{
    const double sums = c->from == DTYPE_F64 ? 1e-14 : 1e-6;
    const double rounding = c->to == DTYPE_BF16  ? 0x1p-8
                            : c->to == DTYPE_F16 ? 0x1p-11
                            : c->to == DTYPE_F32 ? 1e-7
                                                 : 0;
    return magnitude * (sums + rounding);
}

/* All elements as doubles; freed by mem_free. */
static double *read_all(const void *data, enum dtype dtype, int64_t n)
{
    double *values = mem_alloc_array((size_t)n, sizeof(*values));
    for (int64_t i = 0; i < n; i++) {
        values[i] = read_element(data, dtype, i);
    }
    return values;
}

static void check_result(const struct matmul_case *c, struct engine_run *run,
                         const double *before)
{
    double *a =
        read_all(engine_run_argument(run, "a", 0), c->from, c->batch * c->m * c->k);
    double *b =
        read_all(engine_run_argument(run, "b", 0), c->from, c->batch * c->k * c->n);
    const void *result = engine_run_output(run, "c", 0);
    const int64_t a_row = c->transpose_a ? 1 : c->k;
    const int64_t a_step = c->transpose_a ? c->m : 1;
    const int64_t b_column = c->transpose_b ? c->k : 1;
    const int64_t b_step = c->transpose_b ? 1 : c->n;
    for (int64_t at = 0; at < c->batch * c->m * c->n; at++) {
        const int64_t batch = at / c->n / c->m;
        const double *x = a + batch * c->m * c->k + at / c->n % c->m * a_row;
        const double *z = b + batch * c->k * c->n + at % c->n * b_column;
        double sum = before != NULL ? before[at] : 0.0;
        double magnitude = fabs(sum);
        for (int64_t l = 0; l < c->k; l++) {
            const double term = x[l * a_step] * z[l * b_step];
            sum += term;
            magnitude += fabs(term);
        }
        const double found = read_element(result, c->to, at);
        if (!(fabs(found - sum) <= bound_of(c, magnitude))) {
            fail_msg("%lld x [%lld, %lld, %lld] %s to %s, element %lld: %.9g, not %.9g",
                     (long long)c->batch, (long long)c->m, (long long)c->n,
                     (long long)c->k, dtype_name(c->from), dtype_name(c->to),
                     (long long)at, found, sum);
        }
    }
    mem_free(a);
    mem_free(b);
}

static void check_case(const struct matmul_case *c)
{
    struct engine_run *run = engine_run_create(case_graph(c), NULL);
    engine_run_fill(run, 9, 1.0);
    double *before = NULL;
    if (c->acc != NO_ACC) {
        void *acc = engine_run_argument(run, "acc", 0);
        const int64_t n = c->batch * c->m * c->n;
        *(uint8_t *)engine_run_argument(run, "keep", 0) = c->acc == KEEP;
        before = mem_alloc_array((size_t)n, sizeof(*before));
        for (int64_t i = 0; i < n && c->acc == KEEP; i++) {
            before[i] = read_element(acc, c->to, i);
        }
        if (c->acc == DROP) { /* whatever was there must not matter: all NaN */
            memset(acc, 0xFF, (size_t)n * dtype_bytes(c->to));
        }
    }
    engine_run_execute(run);
    check_result(c, run, before);
    mem_free(before);
    engine_run_destroy(run);
}

static void check_transposes(struct matmul_case c)
{
    for (int variant = 0; variant < 4; variant++) {
        c.transpose_a = (variant & 1) != 0;
        c.transpose_b = (variant & 2) != 0;
        check_case(&c);
    }
}

static void f32_products_are_right(void **state)
{
    (void)state;
    static const struct matmul_case cases[] = {
        {1, 1, 1, 1, .from = DTYPE_F32, .to = DTYPE_F32},
        {1, 33, 65, 17, .from = DTYPE_F32, .to = DTYPE_F32},
        {3, 5, 7, 9, .from = DTYPE_F32, .to = DTYPE_F32},
        {1, 530, 300, 70, .from = DTYPE_F32, .to = DTYPE_F32}, /* cut into tiles */
        {2, 150, 700, 90, .from = DTYPE_F32, .to = DTYPE_F32},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        check_transposes(cases[i]);
    }
}

/* One and two rows take the path of dot products, wide enough for several tiles. */
static void low_products_are_right(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 3; m++) {
        check_transposes(
            (struct matmul_case){1, m, 1100, 800, .from = DTYPE_F32, .to = DTYPE_F32});
        check_case(&(struct matmul_case){1, m, 300, 100, false, true, DTYPE_F32,
                                         DTYPE_F32, KEEP});
    }
}

static void accumulators_are_kept_or_dropped(void **state)
{
    (void)state;
    static const enum dtype dtypes[][2] = {{DTYPE_F32, DTYPE_F32},
                                           {DTYPE_BF16, DTYPE_F32},
                                           {DTYPE_BF16, DTYPE_BF16},
                                           {DTYPE_F64, DTYPE_F64}};
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++) {
        struct matmul_case c = {2,     40,           50,           30,  true,
                                false, dtypes[i][0], dtypes[i][1], KEEP};
        check_case(&c);
        c.acc = DROP;
        check_case(&c);
    }
}

/* bf16 is widened in steps of 1024 along k; sums stay in f32, rounded once. */
static void other_dtypes_are_widened(void **state)
{
    (void)state;
    check_transposes(
        (struct matmul_case){1, 70, 130, 2100, .from = DTYPE_BF16, .to = DTYPE_BF16});
    check_transposes(
        (struct matmul_case){1, 150, 100, 1100, .from = DTYPE_BF16, .to = DTYPE_F32});
    check_transposes(
        (struct matmul_case){2, 30, 20, 50, .from = DTYPE_F16, .to = DTYPE_F16});
    check_transposes(
        (struct matmul_case){2, 60, 40, 300, .from = DTYPE_F64, .to = DTYPE_F64});
    check_transposes(
        (struct matmul_case){1, 30, 20, 50, .from = DTYPE_F32, .to = DTYPE_BF16});
}

/* The grid is cut even for two threads and no finer than is worth it. */
static void grids_are_even(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k, tiles;
    } cases[] = {
        {512, 2048, 640, 8},   {512, 640, 2048, 8},   {512, 1024, 640, 8},
        {512, 256, 640, 4},    {8, 8, 8, 1},          {1, 2048, 640, 4},
        {1536, 1536, 640, 18}, {2048, 2048, 640, 32}, {1, 262144, 640, 512},
        {640, 640, 640, 8},
    };
    const struct mesh mesh = mesh_single();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct graph *graph = graph_create(&mesh);
        const int64_t a_dim[] = {cases[i].m, cases[i].k};
        const int64_t b_dim[] = {cases[i].n, cases[i].k};
        struct value *a = build_input(graph, "a", type_make(DTYPE_F32, 2, a_dim));
        struct value *b = build_input(graph, "b", type_make(DTYPE_F32, 2, b_dim));
        struct value *c = build_matmul(graph, a, b, false, true, DTYPE_F32);
        assert_int_equal(kernel_of(OP_MATMUL)->n_tasks(c->node, 0, 0), cases[i].tiles);
        graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_products_are_right),
        cmocka_unit_test(low_products_are_right),
        cmocka_unit_test(accumulators_are_kept_or_dropped),
        cmocka_unit_test(other_dtypes_are_widened),
        cmocka_unit_test(grids_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
