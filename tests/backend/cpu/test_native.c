/*
 * Inner loops of every instruction set against libm in f64: all lengths around the vector
 * width, unaligned rows, and values where f32 overflows, underflows or is NaN.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/native.h"
#include "base/dtype.h"
#include "base/random.h"
#include "support/kernel_harness.h"

enum { LONGEST = 70 };

static const struct native *sets[3];
static int n_sets;

static int find_sets(void **state)
{
    (void)state;
    n_sets = native_list(sets);
    return 0;
}

/* Distance in units in the last place of the reference. */
static double ulps(float x, double reference)
{
    const float near = (float)reference;
    const double unit = (double)(nextafterf(fabsf(near), INFINITY) - fabsf(near));
    return fabs((double)x - reference) / unit;
}

static void check_ulps(const char *what, const struct native *native, float at, float x,
                       double reference, double bound)
{
    const double distance = ulps(x, reference);
    if (!(distance <= bound)) {
        fail_msg("%s(%.9g), %s: %.9g, reference %.17g, %.2f units", what, (double)at,
                 native->name, (double)x, reference, distance);
    }
}

static void test_sets_are_ordered(void **state)
{
    (void)state;
    assert_true(n_sets >= 1);
    assert_string_equal(sets[0]->name, "plain");
    assert_int_equal(sets[0]->isa, BACKEND_ISA_PLAIN);
    assert_ptr_equal(native_find(BACKEND_ISA_PLAIN), sets[0]);
    assert_ptr_equal(native_find(BACKEND_ISA_BEST), sets[n_sets - 1]);
    for (int s = 1; s < n_sets; s++) {
        assert_true(sets[s]->isa > sets[s - 1]->isa);
        assert_ptr_equal(native_find(sets[s]->isa), sets[s]);
    }
}

static void test_exp_is_accurate(void **state)
{
    (void)state;
    for (int s = 0; s < n_sets; s++) {
        for (float x = -87.3F; x < 88.7F; x += 0.00731F) {
            float y = x;
            sets[s]->row_exp(&y, 0, 1);
            check_ulps("exp", sets[s], x, y, exp((double)x), 1.5);
        }
        for (float x = -103.0F; x < -87.3F; x += 0.0073F) { /* below normal numbers */
            float y = x;
            sets[s]->row_exp(&y, 0, 1);
            assert_true(fabs((double)y - exp((double)x)) < 2.0e-45);
        }
        float special[5] = {-INFINITY, -1000.0F, INFINITY, 1000.0F, NAN};
        sets[s]->row_exp(special, 0, 5);
        assert_true(special[0] == 0.0F && special[1] == 0.0F);
        assert_true(isinf(special[2]) && isinf(special[3]));
        assert_true(isnan(special[4]));
    }
}

static void test_softcap_is_accurate(void **state)
{
    (void)state;
    for (int s = 0; s < n_sets; s++) {
        for (float x = -12.0F; x < 12.0F; x += 0.00037F) {
            float y;
            sets[s]->softcap(&x, 1.0F, 1, &y);
            check_ulps("tanh", sets[s], x, y, tanh((double)x), 2.0);
        }
        const float special[4] = {INFINITY, -INFINITY, NAN, -0.0F};
        float y[4];
        sets[s]->softcap(special, 30.0F, 4, y);
        assert_true(y[0] == 30.0F && y[1] == -30.0F && isnan(y[2]));
        assert_true(y[3] == 0.0F);
    }
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    const double slope = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + tanh(u)) + 0.5 * x * (1 - tanh(u) * tanh(u)) * slope;
}

static void test_activations_at_extremes(void **state)
{
    (void)state;
    for (int s = 0; s < n_sets; s++) {
        const float x[6] = {-3.0e4F, -60.0F, -0.0F, 60.0F, 3.0e4F, NAN};
        const float ones[6] = {1, 1, 1, 1, 1, 1};
        float y[6];
        float dx[6];
        sets[s]->gelu_tanh(x, 6, y);
        sets[s]->gelu_tanh_grad(x, ones, 6, dx);
        for (int i = 0; i < 5; i++) {
            assert_true(y[i] == (i < 3 ? 0.0F : x[i]));
            assert_true(dx[i] == (i < 2 ? 0.0F : i == 2 ? 0.5F : 1.0F));
        }
        assert_true(isnan(y[5]) && isnan(dx[5]));
        sets[s]->silu(x, 6, y);
        sets[s]->silu_grad(x, ones, 6, dx);
        assert_true(y[0] == 0.0F && y[3] == 60.0F && y[4] == 3.0e4F && isnan(y[5]));
        assert_true(dx[0] == 0.0F && dx[2] == 0.5F && dx[4] == 1.0F && isnan(dx[5]));
    }
}

/* Elementwise loops at every length and two alignments. */
static void test_activations_at_all_lengths(void **state)
{
    (void)state;
    float x[LONGEST + 1];
    float up[LONGEST + 1];
    float dy[LONGEST + 1];
    harness_fill(x, LONGEST + 1, 1, 2.0);
    harness_fill(up, LONGEST + 1, 2, 1.0);
    harness_fill(dy, LONGEST + 1, 3, 1.0);
    for (int s = 0; s < n_sets; s++) {
        for (int n = 1; n <= LONGEST; n++) {
            const int at = n & 1;
            double y[LONGEST], dgate[LONGEST], dup[LONGEST], dx[LONGEST], cap[LONGEST];
            for (int i = 0; i < n; i++) {
                const double z = (double)x[at + i];
                const double upstream = (double)dy[at + i];
                const double sigmoid = 1 / (1 + exp(-z));
                y[i] = gelu(z) * (double)up[at + i];
                dgate[i] = upstream * (double)up[at + i] * gelu_slope(z);
                dup[i] = upstream * gelu(z);
                dx[i] = upstream * sigmoid * (1 + z * (1 - sigmoid));
                cap[i] = upstream * (1 - tanh(z / 1.5) * tanh(z / 1.5));
            }
            float *out = malloc(2 * (size_t)n * sizeof *out);
            const struct native *native = sets[s];
            native->geglu(x + at, up + at, n, out);
            harness_check("geglu", native, out, y, n, 3e-7);
            native->geglu_grad(x + at, up + at, dy + at, n, out, out + n);
            harness_check("geglu dgate", native, out, dgate, n, 2e-6);
            harness_check("geglu dup", native, out + n, dup, n, 3e-7);
            native->silu_grad(x + at, dy + at, n, out);
            harness_check("silu grad", native, out, dx, n, 2e-6);
            native->softcap_grad(x + at, dy + at, 1.5F, n, out);
            harness_check("softcap grad", native, out, cap, n, 2e-6);
            free(out);
        }
    }
}

static void test_rows_at_all_lengths(void **state)
{
    (void)state;
    float x[LONGEST + 1];
    float y[LONGEST + 1];
    harness_fill(x, LONGEST + 1, 1, 2.0);
    harness_fill(y, LONGEST + 1, 2, 1.0);
    for (int s = 0; s < n_sets; s++) {
        for (int n = 1; n <= LONGEST; n++) {
            const float *from = x + (n & 1);
            float largest = -INFINITY;
            double sum = 0, dot = 0, squares = 0, axpy[LONGEST];
            for (int i = 0; i < n; i++) {
                largest = fmaxf(largest, from[i]);
                sum += exp((double)from[i] - 0.5);
                dot += (double)from[i] * (double)y[i];
                squares += (double)from[i] * (double)from[i];
                axpy[i] = (double)y[i] + 0.25 * (double)from[i];
            }
            assert_true(sets[s]->row_max(from, n) == largest);
            const double found = (double)sets[s]->row_sum_exp(from, 0.5F, n);
            assert_true(fabs(found - sum) < 3e-7 * sum);
            const double product = (double)sets[s]->row_dot(from, y, n);
            assert_true(fabs(product - dot) < 1e-5);
            assert_true(fabs(sets[s]->sum_squares(from, n) - squares) <
                        1e-12 * squares);
            float *out = malloc((size_t)n * sizeof *out);
            memcpy(out, y, (size_t)n * sizeof *out);
            sets[s]->row_axpy(0.25F, from, n, out);
            harness_check("axpy", sets[s], out, axpy, n, 2e-7);
            memcpy(out, from, (size_t)n * sizeof *out);
            const double in_place = (double)sets[s]->row_exp(out, 0.5F, n);
            assert_true(fabs(in_place - sum) < 3e-7 * sum);
            free(out);
        }
        const float with_nan[3] = {1.0F, NAN, 2.0F};
        assert_true(isnan(sets[s]->row_sum_exp(with_nan, 2.0F, 3)));
        assert_true(isnan(sets[s]->sum_squares(with_nan, 3)));
    }
}

/* bf16 with eight bits of mantissa: exact in f32. */
static void fill_weights(float *wide, uint16_t *narrow, int64_t n)
{
    harness_fill(wide, n, 41, 1.0);
    for (int64_t i = 0; i < n; i++) {
        narrow[i] = dtype_bf16_from_f32(wide[i]);
        wide[i] = dtype_f32_from_bf16(narrow[i]);
    }
}

/* Products of 1 to 9 rows with weights in f32 and bf16 against f64; the bits do not
 * depend on the number of rows, nor on the weights beside. */
static void test_dots_are_exact_and_alike(void **state)
{
    (void)state;
    enum { M = 9, N = 11, K = 77, STRIDE = 83 };
    static const int64_t lengths[] = {1, 3, 15, 16, 32, 77};
    float x[M * STRIDE], wide[N * STRIDE], y[M * N], alone[1];
    uint16_t narrow[N * STRIDE];
    harness_fill(x, M * STRIDE, 40, 1.0);
    fill_weights(wide, narrow, N * STRIDE);
    for (int s = 0; s < n_sets; s++) {
        for (size_t l = 0; l < ARRAY_LENGTH(lengths); l++) {
            const int64_t k = lengths[l];
            for (int64_t m = 1; m <= M; m++) {
                double expected[M * N];
                for (int64_t i = 0; i < m * N; i++) {
                    expected[i] = 0.0;
                    for (int64_t d = 0; d < k; d++) {
                        expected[i] += (double)x[i / N * STRIDE + d] *
                                       (double)wide[i % N * STRIDE + d];
                    }
                }
                sets[s]->dots_f32(x, STRIDE, m, wide, STRIDE, N, k, y, N);
                harness_check("dots_f32", sets[s], y, expected, m * N, 2e-6);
                sets[s]->dots_bf16(x, STRIDE, m, narrow, STRIDE, N, k, y, N);
                harness_check("dots_bf16", sets[s], y, expected, m * N, 2e-6);
                sets[s]->dots_bf16(x + (m - 1) * STRIDE, STRIDE, 1, narrow + 5 * STRIDE,
                                   STRIDE, 1, k, alone, 1);
                assert_true(alone[0] == y[(m - 1) * N + 5]);
            }
        }
    }
}

static void test_angles_are_accurate(void **state)
{
    (void)state;
    const float frequencies[5] = {1.0F, 0.93F, 0.37F, 0.0123F, 1.0e-6F};
    for (int s = 0; s < n_sets; s++) {
        for (int32_t position = 0; position < 262144; position += 1 + position / 20) {
            float cosines[5];
            float sines[5];
            sets[s]->rope_angles((float)position, frequencies, 5, cosines, sines);
            for (int i = 0; i < 5; i++) {
                const float angle = (float)position * frequencies[i];
                assert_true(fabs((double)cosines[i] - cos((double)angle)) < 6.1e-8);
                assert_true(fabs((double)sines[i] - sin((double)angle)) < 6.1e-8);
            }
        }
    }
}

/* Every bf16, and f32 around every one of them: ties, carries into the exponent, the
 * largest, infinities, NaN. Against the conversion of single numbers. */
static void test_bf16_is_rounded_like_single_numbers(void **state)
{
    (void)state;
    enum { PER_CHUNK = 7 * 64 };
    static const uint32_t low[7] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xC000, 0xFFFF};
    for (int s = 0; s < n_sets; s++) {
        for (uint32_t high = 0; high < 0x10000; high += 64) {
            float x[PER_CHUNK];
            uint16_t narrow[PER_CHUNK];
            uint16_t expected[PER_CHUNK];
            float wide[PER_CHUNK];
            for (uint32_t i = 0; i < PER_CHUNK; i++) {
                const uint32_t bits = (high + i / 7) << 16 | low[i % 7];
                memcpy(&x[i], &bits, sizeof bits);
                expected[i] = dtype_bf16_from_f32(x[i]);
            }
            sets[s]->round_bf16(x, PER_CHUNK, narrow);
            assert_memory_equal(narrow, expected, sizeof narrow);
            sets[s]->widen_bf16(narrow, PER_CHUNK, wide);
            for (uint32_t i = 0; i < PER_CHUNK; i++) {
                const float single = dtype_f32_from_bf16(narrow[i]);
                assert_memory_equal(&wide[i], &single, sizeof single);
            }
        }
    }
}

/* Nothing behind the last element is read (the array ends there, for the sanitizer) or
 * written. */
static void test_bf16_at_all_lengths(void **state)
{
    (void)state;
    float x[LONGEST + 1];
    harness_fill(x, LONGEST + 1, 3, 2.0);
    for (int s = 0; s < n_sets; s++) {
        for (int n = 1; n <= LONGEST; n++) {
            uint16_t *narrow = malloc((size_t)n * sizeof *narrow);
            float *wide = malloc((size_t)n * sizeof *wide);
            uint16_t guarded[LONGEST + 1];
            guarded[n] = 0x1234;
            sets[s]->round_bf16(x + 1, n, narrow);
            sets[s]->round_bf16(x + 1, n, guarded);
            assert_int_equal(guarded[n], 0x1234);
            sets[s]->widen_bf16(narrow, n, wide);
            for (int i = 0; i < n; i++) {
                assert_int_equal(narrow[i], dtype_bf16_from_f32(x[i + 1]));
                assert_true(wide[i] == dtype_f32_from_bf16(narrow[i]));
            }
            free(narrow);
            free(wide);
        }
    }
}

/* Word for word, from any place in the stream, at any length. */
static void test_random_words_are_the_stream(void **state)
{
    (void)state;
    enum { MOST = 700 };
    const uint64_t firsts[] = {0, 1, 2, 3, 1021, ((uint64_t)1 << 34) - 5};
    const int64_t lengths[] = {1, 3, 4, 127, MOST};
    for (int s = 0; s < n_sets; s++) {
        for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                uint32_t words[MOST + 1];
                words[lengths[l]] = 0x12345678;
                sets[s]->random_words(0x123456789ABCDEF0, RANDOM_TEST, 0x10000000A,
                                      firsts[f], lengths[l], words);
                for (int64_t i = 0; i < lengths[l]; i++) {
                    const uint64_t index = firsts[f] + (uint64_t)i;
                    assert_int_equal(words[i],
                                     random_bits(0x123456789ABCDEF0, RANDOM_TEST,
                                                 0x10000000A, index));
                }
                assert_int_equal(words[lengths[l]], 0x12345678);
            }
        }
    }
}

/* Numbers of bf16 stay; others go to a neighbour, on average to themselves; infinity and
 * NaN stay, and what overflows becomes infinite. */
static void test_bf16_by_chance(void **state)
{
    (void)state;
    enum { N = 4099 };
    static float x[N];
    static uint32_t words[N];
    static uint16_t y[N];
    const int shifts[3] = {0, 16, 16};
    const uint32_t factors[3] = {1, 1, 0x9E3779B1};
    for (int s = 0; s < n_sets; s++) {
        sets[s]->random_words(3, RANDOM_TEST, 0, 0, N, words);
        for (int which = 0; which < 3; which++) {
            for (int i = 0; i < N; i++) {
                x[i] = -1.0F - 0.3F / 128.0F; /* 0.3 of the way to the next number */
            }
            sets[s]->round_bf16_by_chance(x, words, factors[which], shifts[which], N,
                                          y);
            int n_up = 0;
            for (int i = 0; i < N; i++) {
                const float found = dtype_f32_from_bf16(y[i]);
                assert_true(found == -1.0F || found == -1.0F - 1.0F / 128.0F);
                n_up += found != -1.0F;
            }
            assert_true(fabs((double)n_up / N - 0.3) < 0.03); /* 4 deviations */
        }
        float special[5] = {0.15625F, INFINITY, -INFINITY, NAN, -0.0F};
        const uint32_t all_ones[5] = {~0U, ~0U, ~0U, ~0U, ~0U};
        sets[s]->round_bf16_by_chance(special, all_ones, 1, 0, 5, y);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(y[i], dtype_bf16_from_f32(special[i]));
        }
        const float largest = 3.4e38F;
        sets[s]->round_bf16_by_chance(&largest, all_ones, 1, 0, 1, y);
        assert_true(isinf(dtype_f32_from_bf16(y[0])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_are_ordered),
        cmocka_unit_test(test_exp_is_accurate),
        cmocka_unit_test(test_softcap_is_accurate),
        cmocka_unit_test(test_activations_at_extremes),
        cmocka_unit_test(test_activations_at_all_lengths),
        cmocka_unit_test(test_rows_at_all_lengths),
        cmocka_unit_test(test_dots_are_exact_and_alike),
        cmocka_unit_test(test_angles_are_accurate),
        cmocka_unit_test(test_bf16_is_rounded_like_single_numbers),
        cmocka_unit_test(test_bf16_at_all_lengths),
        cmocka_unit_test(test_random_words_are_the_stream),
        cmocka_unit_test(test_bf16_by_chance),
    };
    return cmocka_run_group_tests(tests, find_sets, NULL);
}
