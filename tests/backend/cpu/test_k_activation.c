/*
 * Elementwise composites against their formulas in f64, over several tasks; results may
 * stand in the memory of an operand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_gelu_tanh, kernel_gelu_tanh_grad;
extern const struct kernel kernel_geglu, kernel_geglu_grad;
extern const struct kernel kernel_silu, kernel_silu_grad;
extern const struct kernel kernel_softcap, kernel_softcap_grad;

static const double CAP = 2.5;

struct curve {
    double value, slope;
};

static struct curve gelu(double x)
{
    const double k = sqrt(2 / M_PI);
    const double t = tanh(k * (x + 0.044715 * x * x * x));
    const double slope = k * (1 + 3 * 0.044715 * x * x);
    return (struct curve){0.5 * x * (1 + t),
                          0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope};
}

static struct curve silu(double x)
{
    const double s = 1 / (1 + exp(-x));
    return (struct curve){x * s, s + x * s * (1 - s)};
}

static struct curve softcap(double x)
{
    const double t = tanh(x / CAP);
    return (struct curve){CAP * t, 1 - t * t};
}

/* op: in [x, dy] or [gate, up, dy] -> out; the last two for kernels with gates. */
struct test_case {
    const char *name;
    const struct kernel *kernel;
    struct curve (*curve)(double x);
    bool has_gate, is_grad;
};

static const struct test_case cases[] = {
    {"gelu_tanh", &kernel_gelu_tanh, gelu, false, false},
    {"gelu_tanh_grad", &kernel_gelu_tanh_grad, gelu, false, true},
    {"geglu", &kernel_geglu, gelu, true, false},
    {"geglu_grad", &kernel_geglu_grad, gelu, true, true},
    {"silu", &kernel_silu, silu, false, false},
    {"silu_grad", &kernel_silu_grad, silu, false, true},
    {"softcap", &kernel_softcap, softcap, false, false},
    {"softcap_grad", &kernel_softcap_grad, softcap, false, true},
};

static void refer(const struct test_case *c, double *const *in, int64_t n,
                  double *const *out)
{
    for (int64_t i = 0; i < n; i++) {
        const struct curve curve = c->curve(in[0][i]);
        const double upstream = c->is_grad ? in[c->has_gate ? 2 : 1][i] : 1;
        const double up = c->has_gate ? in[1][i] : 1;
        out[0][i] = (c->is_grad ? curve.slope : curve.value) * up * upstream;
        out[1][i] = curve.value * upstream; /* dup */
    }
}

static void check_case(const struct test_case *c, int64_t n, bool in_place,
                       const struct native *native)
{
    struct harness *harness = harness_create(c->kernel);
    harness_attributes(harness)->value = CAP;
    const int n_inputs = 1 + (c->has_gate ? 1 : 0) + (c->is_grad ? 1 : 0);
    const int n_outputs = c->has_gate && c->is_grad ? 2 : 1;
    double *in[3] = {NULL};
    double *expected[2];
    float *out[2];
    for (int i = 0; i < n_inputs; i++) {
        float *x = harness_input(harness, DTYPE_F32, 1, &n);
        harness_fill(x, n, (uint64_t)i, i == 0 ? 3.0 : 1.0);
        in[i] = harness_doubles(x, n);
    }
    for (int i = 0; i < 2; i++) {
        expected[i] = mem_alloc_array((size_t)n, sizeof(double));
    }
    for (int i = 0; i < n_outputs; i++) {
        out[i] = in_place ? harness_alias(harness, n_inputs - 1 - i)
                          : harness_output(harness, DTYPE_F32, 1, &n);
    }
    refer(c, in, n, expected);
    harness_run(harness, native);
    for (int i = 0; i < n_outputs; i++) {
        harness_check(c->name, native, out[i], expected[i], n, n > 100 ? 5e-7 : 2e-6);
    }
    for (int i = 0; i < 3; i++) {
        mem_free(in[i]);
    }
    mem_free(expected[0]);
    mem_free(expected[1]);
    harness_destroy(harness);
}

static void test_every_case(void **state)
{
    (void)state;
    const struct native *sets[3];
    const int n_sets = native_list(sets);
    const int64_t lengths[] = {1, 3, 31, KERNEL_CHUNK, 2 * KERNEL_CHUNK + 77};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (size_t l = 0; l < ARRAY_LENGTH(lengths); l++) {
            for (int s = 0; s < n_sets; s++) {
                check_case(&cases[i], lengths[l], false, sets[s]);
                check_case(&cases[i], lengths[l], true, sets[s]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
