/*
 * Accumulate, sum of squares and AdamW against their formulas in f64, over several tasks.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/random.h"
#include "graph/build.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_accumulate, kernel_sum_squares, kernel_adamw;

static const struct native *sets[3];
static int n_sets;
static const int64_t lengths[] = {1, 13, 65536, 200003};

static int find_sets(void **state)
{
    (void)state;
    n_sets = native_list(sets);
    return 0;
}

static void check_accumulate(int64_t n, bool keeps, const struct native *native)
{
    struct harness *harness = harness_create(&kernel_accumulate);
    float *acc = harness_input(harness, DTYPE_F32, 1, &n);
    *(bool *)harness_input(harness, DTYPE_BOOL, 0, NULL) = keeps;
    float *g = harness_input(harness, DTYPE_F32, 1, &n);
    harness_alias(harness, 0);
    harness_fill(acc, n, 1, 1.0);
    harness_fill(g, n, 2, 1.0);
    if (!keeps) {
        acc[0] = NAN; /* must not be read */
    }
    double *expected = harness_doubles(g, n);
    for (int64_t i = 0; keeps && i < n; i++) {
        expected[i] += (double)acc[i];
    }
    harness_run(harness, native);
    harness_check("accumulate", native, acc, expected, n, 1e-7);
    mem_free(expected);
    harness_destroy(harness);
}

static void test_accumulate(void **state)
{
    (void)state;
    for (size_t l = 0; l < ARRAY_LENGTH(lengths); l++) {
        for (int s = 0; s < n_sets; s++) {
            check_accumulate(lengths[l], true, sets[s]);
            check_accumulate(lengths[l], false, sets[s]);
        }
    }
}

static void check_squares(int64_t n, const struct native *native)
{
    struct harness *harness = harness_create(&kernel_sum_squares);
    float *x = harness_input(harness, DTYPE_F32, 1, &n);
    double *sum = harness_output(harness, DTYPE_F64, 0, NULL);
    harness_fill(x, n, 1, 1.0);
    double expected = 0;
    for (int64_t i = 0; i < n; i++) {
        expected += (double)x[i] * (double)x[i];
    }
    harness_run(harness, native);
    assert_true(fabs(*sum - expected) <= 1e-12 * expected);
    x[n - 1] = NAN;
    harness_run(harness, native);
    assert_true(isnan(*sum));
    x[n - 1] = 1e30F; /* its square is no f32 */
    harness_run(harness, native);
    assert_true(fabs(*sum - 1e60) < 1e54);
    harness_destroy(harness);
}

static void test_sum_squares(void **state)
{
    (void)state;
    for (size_t l = 0; l < ARRAY_LENGTH(lengths); l++) {
        for (int s = 0; s < n_sets; s++) {
            check_squares(lengths[l], sets[s]);
        }
    }
}

static const float HYPER[ADAMW_N_HYPER] = {
    [ADAMW_LR] = 0.01F,
    [ADAMW_BETA1] = 0.875F, /* 1 - beta is exact, so the reference may be */
    [ADAMW_BETA2] = 0.9990234375F,
    [ADAMW_EPS] = 1e-8F,
    [ADAMW_DECAY] = 0.1F,
    [ADAMW_BIAS_CORRECTION1] = 0.4F,
    [ADAMW_BIAS_CORRECTION2] = 0.003F,
};

/* As torch.optim.AdamW; state[0 .. 2] are p, m, v. */
static void refer_adamw(double *const *state, const float *g, double scale, int64_t n)
{
    const double lr = (double)HYPER[ADAMW_LR];
    const double beta1 = (double)HYPER[ADAMW_BETA1];
    const double beta2 = (double)HYPER[ADAMW_BETA2];
    const double correction1 = (double)HYPER[ADAMW_BIAS_CORRECTION1];
    const double correction2 = (double)HYPER[ADAMW_BIAS_CORRECTION2];
    for (int64_t i = 0; i < n; i++) {
        const double gradient = (double)g[i] * scale;
        double *p = &state[0][i];
        double *m = &state[1][i];
        double *v = &state[2][i];
        *p *= 1 - lr * (double)HYPER[ADAMW_DECAY];
        *m = beta1 * *m + (1 - beta1) * gradient;
        *v = beta2 * *v + (1 - beta2) * gradient * gradient;
        *p -= lr / correction1 * *m /
              (sqrt(*v) / sqrt(correction2) + (double)HYPER[ADAMW_EPS]);
    }
}

static void check_adamw(int64_t n, bool applies, const struct native *native)
{
    struct harness *harness = harness_create(&kernel_adamw);
    float *operands[4];
    double *expected[3];
    for (int i = 0; i < 4; i++) { /* p, g, m, v */
        operands[i] = harness_input(harness, DTYPE_F32, 1, &n);
        harness_fill(operands[i], n, (uint64_t)i, i == 1 ? 10.0 : 1.0);
    }
    for (int64_t i = 0; i < n; i++) {
        operands[3][i] *= operands[3][i];
    }
    const int64_t n_hyper = ADAMW_N_HYPER;
    memcpy(harness_input(harness, DTYPE_F32, 1, &n_hyper), HYPER, sizeof HYPER);
    *(float *)harness_input(harness, DTYPE_F32, 0, NULL) = 0.125F;
    *(bool *)harness_input(harness, DTYPE_BOOL, 0, NULL) = applies;
    const int state_at[3] = {0, 2, 3};
    for (int i = 0; i < 3; i++) {
        harness_alias(harness, state_at[i]);
        expected[i] = harness_doubles(operands[state_at[i]], n);
    }
    if (applies) {
        refer_adamw(expected, operands[1], 0.125, n);
    }
    harness_run(harness, native);
    for (int i = 0; i < 3; i++) {
        harness_check("adamw", native, operands[state_at[i]], expected[i], n,
                      applies ? 5e-7 : 0.0);
        mem_free(expected[i]);
    }
    harness_destroy(harness);
}

static void test_adamw(void **state)
{
    (void)state;
    for (size_t l = 0; l < ARRAY_LENGTH(lengths); l++) {
        for (int s = 0; s < n_sets; s++) {
            check_adamw(lengths[l], true, sets[s]);
            check_adamw(lengths[l], false, sets[s]);
        }
    }
}

/* Each element on its own, in f32 as the kernel does: which way it was rounded is asked
 * of the stream of random bits. */
static uint16_t round_one(float x, bool by_chance, int which, int64_t i)
{
    if (!by_chance) {
        return dtype_bf16_from_f32(x);
    }
    const uint32_t word = random_bits(11, RANDOM_ROUNDING, 5, (uint64_t)i);
    const uint32_t half[3] = {word & 0xFFFF, word >> 16, word * ADAMW_MIX >> 16};
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + half[which]) >> 16);
}

static void check_adamw_bf16(int64_t n, bool by_chance, bool applies,
                             const struct native *native)
{
    struct harness *harness = harness_create(&kernel_adamw);
    void *operands[4]; /* p, g, m, v */
    for (int i = 0; i < 4; i++) {
        operands[i] = harness_input(harness, i == 1 ? DTYPE_F32 : DTYPE_BF16, 1, &n);
    }
    const int64_t n_hyper = ADAMW_N_HYPER;
    memcpy(harness_input(harness, DTYPE_F32, 1, &n_hyper), HYPER, sizeof HYPER);
    *(float *)harness_input(harness, DTYPE_F32, 0, NULL) = 0.125F;
    *(bool *)harness_input(harness, DTYPE_BOOL, 0, NULL) = applies;
    if (by_chance) {
        *(uint32_t *)harness_input(harness, DTYPE_U32, 0, NULL) = 11;
        *(uint32_t *)harness_input(harness, DTYPE_U32, 0, NULL) = 5;
    }
    uint16_t *state[3] = {operands[0], operands[2], operands[3]};
    float *values[3];
    for (int i = 0; i < 3; i++) {
        harness_alias(harness, i == 0 ? 0 : i + 1);
        values[i] = mem_alloc_array((size_t)n, sizeof(float));
        harness_fill(values[i], n, (uint64_t)i, 1.0);
        for (int64_t k = 0; k < n; k++) {
            state[i][k] = dtype_bf16_from_f32(i == 2 ? values[i][k] * values[i][k]
                                                     : values[i][k]);
            values[i][k] = dtype_f32_from_bf16(state[i][k]);
        }
    }
    harness_fill(operands[1], n, 9, 10.0);
    if (applies) {
        native->adamw(values[0], operands[1], values[1], values[2], HYPER, 0.125F, n);
    }
    harness_run(harness, native);
    int64_t n_others = 0;
    for (int i = 0; i < 3; i++) {
        for (int64_t k = 0; k < n; k++) {
            n_others +=
                state[i][k] != round_one(values[i][k], applies && by_chance, i, k);
        }
        mem_free(values[i]);
    }
    assert_int_equal(n_others, 0);
    harness_destroy(harness);
}

static void test_adamw_bf16(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 13, 1024, 65536 + 1027};
    for (size_t l = 0; l < ARRAY_LENGTH(sizes); l++) {
        for (int s = 0; s < n_sets; s++) {
            check_adamw_bf16(sizes[l], false, true, sets[s]);
            check_adamw_bf16(sizes[l], true, true, sets[s]);
            check_adamw_bf16(sizes[l], true, false, sets[s]);
        }
    }
}

/* Sums are f32, what is added may be bf16. */
static void test_accumulate_bf16(void **state)
{
    (void)state;
    const int64_t n = 65536 + 1027;
    for (int s = 0; s < n_sets; s++) {
        struct harness *harness = harness_create(&kernel_accumulate);
        float *acc = harness_input(harness, DTYPE_F32, 1, &n);
        *(bool *)harness_input(harness, DTYPE_BOOL, 0, NULL) = true;
        uint16_t *g = harness_input(harness, DTYPE_BF16, 1, &n);
        harness_alias(harness, 0);
        for (int64_t i = 0; i < n; i++) {
            acc[i] = 1.0F;
            g[i] = dtype_bf16_from_f32((float)(i % 100) / 16.0F);
        }
        harness_run(harness, sets[s]);
        for (int64_t i = 0; i < n; i++) {
            assert_true(acc[i] == 1.0F + (float)(i % 100) / 16.0F);
        }
        harness_destroy(harness);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulate),      cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_adamw),           cmocka_unit_test(test_adamw_bf16),
        cmocka_unit_test(test_accumulate_bf16),
    };
    return cmocka_run_group_tests(tests, find_sets, NULL);
}
