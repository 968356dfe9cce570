/*
 * C7: native kernels: each composite case of support/op_cases.h, forward and gradient in f32
 * and bf16, against its definition run by the plain kernels, for each instruction set of this machine
 * and each provider of matrix products.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/error.h"
#include "support/op_run.h"

/* Of the largest magnitude: exp, tanh and sums in another order than the definition's. */
static const double NATIVE_BOUND = 1e-5;

/* One place of bf16 where the largest number is near the next power of two. */
static const double BF16_BOUND = 1.0 / 128;

static const char *const gemms[] = {"plain", "openblas", "onednn"};

static bool is_there(enum backend_isa isa, const char *gemm)
{
    const struct backend_options options = {.n_threads = 1, .isa = isa, .gemm = gemm};
    const struct mesh mesh = mesh_single();
    struct error err;
    struct engine *engine = backend_create_cpu(&mesh, 0, 1, &options, &err);
    backend_destroy(engine);
    return engine != NULL;
}

static int check_case(const struct op_case *c, enum dtype dtype, enum backend_isa isa,
                      const char *gemm)
{
    struct op_setup setup = {
        .op_case = c,
        .layout = c->layouts[0],
        .mesh = mesh_single(),
        .dtype = dtype,
        .has_gradient = true,
        .rounds_inputs = dtype == DTYPE_BF16,
        .isa = isa,
        .gemm = gemm,
    };
    struct op_run *native = op_run_create(&setup);
    setup.is_lowered = true;
    setup.isa = BACKEND_ISA_PLAIN;
    setup.gemm = "plain";
    struct op_run *definition = op_run_create(&setup);
    op_run_execute(native);
    op_run_execute(definition);
    char what[80];
    snprintf(what, sizeof(what), "native %d, %s, %s", (int)isa, gemm,
             dtype_name(dtype));
    double bound = c->native_bound > 0.0 ? c->native_bound : NATIVE_BOUND;
    if (dtype == DTYPE_BF16) {
        bound = c->bf16_bound > 0.0 ? c->bf16_bound : BF16_BOUND;
    }
    const int n_over = op_run_compare(native, definition, bound, what);
    op_run_destroy(native);
    op_run_destroy(definition);
    return n_over;
}

static int check_all(enum dtype dtype, enum backend_isa isa, const char *gemm)
{
    int n_over = 0;
    for (int i = 0; i < op_cases_count(); i++) {
        n_over += check_case(op_cases_get(i), dtype, isa, gemm);
    }
    return n_over;
}

static void every_instruction_set(void **state)
{
    (void)state;
    for (int isa = BACKEND_ISA_PLAIN; isa <= BACKEND_ISA_AVX512; isa++) {
        if (is_there((enum backend_isa)isa, "plain")) {
            assert_int_equal(check_all(DTYPE_F32, (enum backend_isa)isa, "plain"), 0);
        }
    }
}

/* Kernels that widen and round: where the definition rounds once, they differ from it
 * by the last place of bf16 at most, where a sum lies between two numbers. */
static void every_instruction_set_in_bf16(void **state)
{
    (void)state;
    for (int isa = BACKEND_ISA_PLAIN; isa <= BACKEND_ISA_AVX512; isa++) {
        if (is_there((enum backend_isa)isa, "plain")) {
            assert_int_equal(check_all(DTYPE_BF16, (enum backend_isa)isa, "plain"), 0);
        }
    }
}

static void every_gemm(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(gemms); i++) {
        if (is_there(BACKEND_ISA_BEST, gemms[i])) {
            assert_int_equal(check_all(DTYPE_F32, BACKEND_ISA_BEST, gemms[i]), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set),
        cmocka_unit_test(every_instruction_set_in_bf16),
        cmocka_unit_test(every_gemm),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0) { /* a failed one leaves its programs behind */
        op_run_cleanup();
    }
    return failed;
}
