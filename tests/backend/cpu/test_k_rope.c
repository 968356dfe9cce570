/*
 * Rotary embedding against the formula in f64, whole and partial ("proportional"), with
 * positions that restart and long ones; its gradient turns back.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_rope;
extern const struct kernel kernel_rope_grad;

struct test_case {
    int64_t B, T, H, K, pairs;
    double theta, factor;
};

static const struct test_case cases[] = {
    {1, 1, 1, 2, 1, 1e4, 1},       {2, 19, 3, 10, 5, 1e4, 1},
    {1, 300, 4, 256, 128, 1e4, 1}, {2, 33, 2, 512, 64, 1e6, 1}, /* 64 of 256 pairs */
    {1, 70, 1, 256, 128, 1e6, 8},  {1, 5, 2, 16, 0, 1e4, 1},
};

static int32_t position_of(int64_t t)
{
    return (int32_t)(t < 12 ? t : t < 20 ? t - 12 : 1000 * (t - 12));
}

/* The angle is the f32 product that the reference implementation makes; what follows it
 * is exact. */
static void refer(const struct test_case *c, const float *x, double sign, double *y)
{
    const int64_t half = c->K / 2;
    for (int64_t row = 0; row < c->B * c->T * c->H; row++) {
        const float position = (float)position_of(row / c->H % c->T);
        for (int64_t d = 0; d < half; d++) {
            const double frequency =
                1 / (pow(c->theta, 2.0 * (double)d / (double)c->K) * c->factor);
            const float product = position * (float)frequency;
            const double angle = d < c->pairs ? sign * (double)product : 0;
            const double a = (double)x[row * c->K + d];
            const double b = (double)x[row * c->K + d + half];
            y[row * c->K + d] = a * cos(angle) - b * sin(angle);
            y[row * c->K + d + half] = b * cos(angle) + a * sin(angle);
        }
    }
}

static void check_case(const struct test_case *c, bool is_grad,
                       const struct native *native)
{
    struct harness *harness =
        harness_create(is_grad ? &kernel_rope_grad : &kernel_rope);
    harness_attributes(harness)->theta = c->theta;
    harness_attributes(harness)->factor = c->factor;
    harness_attributes(harness)->pairs = c->pairs;
    const int64_t dim[4] = {c->B, c->T, c->H, c->K};
    const int64_t n = c->B * c->T * c->H * c->K;
    float *x = harness_input(harness, DTYPE_F32, 4, dim);
    int32_t *position = harness_input(harness, DTYPE_I32, 2, dim);
    if (is_grad) {
        x = harness_input(harness, DTYPE_F32, 4, dim);
    }
    harness_fill(x, n, 1, 1.0);
    for (int64_t t = 0; t < c->B * c->T; t++) {
        position[t] = position_of(t % c->T);
    }
    float *y = harness_output(harness, DTYPE_F32, 4, dim);
    double *expected = mem_alloc_array((size_t)n, sizeof *expected);
    refer(c, x, is_grad ? -1 : 1, expected);
    harness_run(harness, native);
    harness_check(is_grad ? "rope_grad" : "rope", native, y, expected, n, 2e-7);
    mem_free(expected);
    harness_destroy(harness);
}

static void test_every_case(void **state)
{
    (void)state;
    const struct native *sets[3];
    const int n_sets = native_list(sets);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (int s = 0; s < n_sets; s++) {
            check_case(&cases[i], false, sets[s]);
            check_case(&cases[i], true, sets[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
