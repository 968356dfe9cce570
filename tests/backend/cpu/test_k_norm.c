/*
 * RMS norm, forward and backward, against the formula in f64: with and without weight, as
 * w and 1 + w, rows of tokens and rows of heads.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_rms_norm;
extern const struct kernel kernel_rms_norm_grad;

struct test_case {
    int rank;
    int64_t dim[4];
    bool has_weight, adds_one, is_frozen; /* frozen: no dweight */
    double size;                          /* of x; tiny ones make eps matter */
};

static const struct test_case cases[] = {
    {1, {5}, true, false, false, 1},
    {2, {3, 7}, true, true, false, 1},
    {3, {2, 9, 640}, true, false, false, 1e-3},
    {3, {2, 301, 640}, true, true, false, 1},     /* several blocks of rows */
    {3, {2, 301, 640}, true, true, true, 1},      /* the same, frozen */
    {4, {2, 37, 3, 256}, true, true, false, 5},   /* rows are heads */
    {4, {1, 5, 2, 33}, false, false, false, 1},   /* no weight */
    {2, {2, 20001}, true, false, false, 1},       /* rows longer than a task */
    {2, {2, 20001}, true, false, true, 1},        /* the same, frozen */
    {3, {1, 4097, 19}, true, true, false, 100.0}, /* many short rows */
};

static const double EPS = 1e-6;

struct reference {
    double *y, *dx, *dweight;
};

static void refer_row(const struct test_case *c, int64_t n, const float *x,
                      const float *weight, const float *dy, int64_t at,
                      const struct reference *to)
{
    double squares = 0, along = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += (double)x[at + i] * (double)x[at + i];
    }
    const double r = 1 / sqrt(squares / (double)n + EPS);
    for (int64_t i = 0; i < n; i++) {
        const double g = c->has_weight ? (double)weight[i] + (c->adds_one ? 1 : 0) : 1;
        to->y[at + i] = (double)x[at + i] * r * g;
        along += g * (double)dy[at + i] * (double)x[at + i];
    }
    for (int64_t i = 0; i < n; i++) {
        const double g = c->has_weight ? (double)weight[i] + (c->adds_one ? 1 : 0) : 1;
        to->dx[at + i] = r * g * (double)dy[at + i] -
                         (double)x[at + i] * r * r * r / (double)n * along;
        to->dweight[i] += (double)dy[at + i] * (double)x[at + i] * r;
    }
}

static void check_case(const struct test_case *c, const struct native *native)
{
    struct harness *forward = harness_create(&kernel_rms_norm);
    struct harness *backward = harness_create(&kernel_rms_norm_grad);
    struct harness *both[2] = {forward, backward};
    const int64_t n = c->dim[c->rank - 1];
    int64_t total = 1;
    for (int i = 0; i < c->rank; i++) {
        total *= c->dim[i];
    }
    float *x = NULL;
    float *weight = NULL;
    for (int i = 0; i < 2; i++) {
        harness_attributes(both[i])->eps = EPS;
        harness_attributes(both[i])->adds_one = c->adds_one;
        harness_attributes(both[i])->freezes_weight = c->is_frozen;
        x = harness_input(both[i], DTYPE_F32, c->rank, c->dim);
        harness_fill(x, total, 1, c->size);
        if (c->has_weight) {
            weight = harness_input(both[i], DTYPE_F32, 1, &n);
            harness_fill(weight, n, 2, 0.5);
        }
    }
    float *dy = harness_input(backward, DTYPE_F32, c->rank, c->dim);
    harness_fill(dy, total, 3, 1.0);
    float *y = harness_output(forward, DTYPE_F32, c->rank, c->dim);
    float *dx = harness_output(backward, DTYPE_F32, c->rank, c->dim);
    const bool gives_dweight = c->has_weight && !c->is_frozen;
    float *dweight = gives_dweight ? harness_output(backward, DTYPE_F32, 1, &n) : NULL;

    const struct reference to = {
        .y = mem_alloc_array((size_t)total, sizeof(double)),
        .dx = mem_alloc_array((size_t)total, sizeof(double)),
        .dweight = mem_alloc_array((size_t)n, sizeof(double)),
    };
    for (int64_t at = 0; at < total; at += n) {
        refer_row(c, n, x, weight, dy, at, &to);
    }
    harness_run(forward, native);
    harness_run(backward, native);
    harness_check("y", native, y, to.y, total, 5e-7);
    harness_check("dx", native, dx, to.dx, total, 1e-6);
    if (gives_dweight) {
        harness_check("dweight", native, dweight, to.dweight, n, 1e-6);
    }
    mem_free(to.y);
    mem_free(to.dx);
    mem_free(to.dweight);
    harness_destroy(forward);
    harness_destroy(backward);
}

static void test_every_case(void **state)
{
    (void)state;
    const struct native *sets[3];
    const int n_sets = native_list(sets);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (int s = 0; s < n_sets; s++) {
            check_case(&cases[i], sets[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
