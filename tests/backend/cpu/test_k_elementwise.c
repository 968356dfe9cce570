/*
 * Elementwise kernels through the engine: more elements than one task, scalar operands on
 * either side, bf16, and results in the memory of an operand.
 */
#include "backend/cpu/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build.h"
#include "support/engine_run.h"

enum { N = 3 * KERNEL_CHUNK + 77 };

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static struct value *input(struct graph *graph, const char *name, enum dtype dtype)
{
    return build_input(graph, name, type_make(dtype, 1, (int64_t[]){N}));
}

static void chunks_meet_without_gaps(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = input(graph, "a", DTYPE_F32);
    struct value *b = input(graph, "b", DTYPE_F32);
    struct value *s = build_input(graph, "s", type_scalar(DTYPE_F32));
    graph_add_output(graph, "sum", build_add(graph, a, b), NULL);
    graph_add_output(graph, "left", build_sub(graph, s, b), NULL);
    graph_add_output(graph, "right", build_div(graph, a, s), NULL);
    graph_add_output(graph, "is_less", build_compare(graph, COMPARE_LT, a, s), NULL);
    graph_add_output(graph, "chain",
                     build_tanh(graph, build_exp(graph, build_mul(graph, a, b))), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 2, 1.0);
    *(float *)engine_run_argument(run, "s", 0) = 0.25f;
    engine_run_execute(run);
    const float *x = engine_run_argument(run, "a", 0);
    const float *z = engine_run_argument(run, "b", 0);
    const float *sum = engine_run_output(run, "sum", 0);
    const float *left = engine_run_output(run, "left", 0);
    const float *right = engine_run_output(run, "right", 0);
    const float *chain = engine_run_output(run, "chain", 0);
    const uint8_t *is_less = engine_run_output(run, "is_less", 0);
    for (int i = 0; i < N; i++) {
        assert_true(sum[i] == x[i] + z[i]);
        assert_true(left[i] == 0.25f - z[i]);
        assert_true(right[i] == x[i] / 0.25f);
        assert_true(is_less[i] == (x[i] < 0.25f));
        assert_true(fabsf(chain[i] - tanhf(expf(x[i] * z[i]))) <= 1e-6f);
    }
    engine_run_destroy(run);
}

/* Each op of bf16 is f32 rounded once. */
static void bf16_goes_through_f32(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = input(graph, "a", DTYPE_BF16);
    struct value *b = input(graph, "b", DTYPE_BF16);
    graph_add_output(graph, "product", build_mul(graph, a, b), NULL);
    graph_add_output(graph, "exp", build_exp(graph, a), NULL);
    graph_add_output(graph, "is_equal", build_compare(graph, COMPARE_EQ, a, a), NULL);
    graph_add_output(graph, "is_finite", build_is_finite(graph, a), NULL);
    graph_add_output(graph, "f32", build_cast(graph, a, DTYPE_F32), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 3, 1.0);
    uint16_t *x = engine_run_argument(run, "a", 0);
    const uint16_t *z = engine_run_argument(run, "b", 0);
    x[N - 1] = 0x7FC0; /* NaN */
    engine_run_execute(run);
    const uint16_t *product = engine_run_output(run, "product", 0);
    const uint16_t *exponential = engine_run_output(run, "exp", 0);
    const uint8_t *is_equal = engine_run_output(run, "is_equal", 0);
    const uint8_t *is_finite = engine_run_output(run, "is_finite", 0);
    const float *f32 = engine_run_output(run, "f32", 0);
    for (int i = 0; i < N - 1; i++) {
        const float left = dtype_f32_from_bf16(x[i]);
        const float right = dtype_f32_from_bf16(z[i]);
        assert_int_equal(product[i], dtype_bf16_from_f32(left * right));
        assert_int_equal(exponential[i], dtype_bf16_from_f32(expf(left)));
        assert_int_equal(is_equal[i] & is_finite[i], 1);
        assert_true(f32[i] == left);
    }
    assert_int_equal(is_equal[N - 1] | is_finite[N - 1], 0);
    engine_run_destroy(run);
}

static void check_select(bool scalar_condition, bool scalar_a, bool scalar_b,
                         enum dtype dtype)
{
    struct graph *graph = new_graph();
    struct value *condition = scalar_condition
                                  ? build_input(graph, "c", type_scalar(DTYPE_BOOL))
                                  : input(graph, "c", DTYPE_BOOL);
    struct value *a = scalar_a ? build_input(graph, "a", type_scalar(dtype))
                               : input(graph, "a", dtype);
    struct value *b = scalar_b ? build_input(graph, "b", type_scalar(dtype))
                               : input(graph, "b", dtype);
    graph_add_output(graph, "y", build_select(graph, condition, a, b), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 4, 1.0);
    uint8_t *bits = engine_run_argument(run, "c", 0);
    for (int i = 0; i < (scalar_condition ? 1 : N); i++) {
        bits[i] = i % 3 == 0;
    }
    engine_run_execute(run);
    const unsigned char *x = engine_run_argument(run, "a", 0);
    const unsigned char *z = engine_run_argument(run, "b", 0);
    const unsigned char *y = engine_run_output(run, "y", 0);
    const size_t size = dtype_bytes(dtype);
    const size_t n = scalar_condition && scalar_a && scalar_b ? 1 : N;
    for (size_t i = 0; i < n; i++) {
        const bool takes_a = bits[scalar_condition ? 0 : i] != 0;
        const unsigned char *expected =
            takes_a ? x + (scalar_a ? 0 : i * size) : z + (scalar_b ? 0 : i * size);
        assert_memory_equal(y + i * size, expected, size);
    }
    engine_run_destroy(run);
}

static void select_takes_scalars_anywhere(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_U8};
    for (int variant = 0; variant < 8; variant++) {
        for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++) {
            check_select((variant & 1) != 0, (variant & 2) != 0, (variant & 4) != 0,
                         dtypes[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_meet_without_gaps),
        cmocka_unit_test(bf16_goes_through_f32),
        cmocka_unit_test(select_takes_scalars_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
