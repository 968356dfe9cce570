/*
 * Loops over elements: every dtype, scalar operands, values at the edges of casts.
 */
#include "backend/cpu/plain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void binary_loops_take_scalars(void **state)
{
    (void)state;
    const struct plain_loops *loops = plain_loops_of(DTYPE_F32);
    const float a[3] = {6, 8, -9};
    const float b[3] = {2, 4, 3};
    float y[3];
    loops->binary[PLAIN_DIV](a, false, b, false, y, 3);
    assert_memory_equal(y, ((float[]){3, 2, -3}), sizeof(y));
    loops->binary[PLAIN_SUB](a, true, b, false, y, 3);
    assert_memory_equal(y, ((float[]){4, 2, 3}), sizeof(y));
    loops->binary[PLAIN_MUL](a, false, b, true, y, 3);
    assert_memory_equal(y, ((float[]){12, 16, -18}), sizeof(y));
    loops->binary[PLAIN_ADD](a, true, b, true, y, 3);
    assert_memory_equal(y, ((float[]){8, 8, 8}), sizeof(y));
}

static void max_keeps_nan(void **state)
{
    (void)state;
    const float a[4] = {NAN, 1, 2, -INFINITY};
    const float b[4] = {1, NAN, 3, -1};
    float y[4];
    plain_loops_of(DTYPE_F32)->binary[PLAIN_MAX](a, false, b, false, y, 4);
    assert_true(isnan(y[0]) && isnan(y[1]));
    assert_true(y[2] == 3.0f && y[3] == -1.0f);
}

/* No overflow is undefined: sums wrap, division by 0 gives 0. */
static void integers_wrap(void **state)
{
    (void)state;
    const struct plain_loops *loops = plain_loops_of(DTYPE_I32);
    const int32_t a[3] = {INT32_MAX, INT32_MIN, 7};
    const int32_t b[3] = {1, -1, 0};
    int32_t y[3];
    loops->binary[PLAIN_ADD](a, false, b, false, y, 3);
    assert_memory_equal(y, ((int32_t[]){INT32_MIN, INT32_MAX, 7}), sizeof(y));
    loops->binary[PLAIN_DIV](a, false, b, false, y, 3);
    assert_memory_equal(y, ((int32_t[]){INT32_MAX, INT32_MIN, 0}), sizeof(y));
    const uint32_t u[2] = {UINT32_MAX, 0};
    const uint32_t w[2] = {2, 1};
    uint32_t z[2];
    plain_loops_of(DTYPE_U32)->binary[PLAIN_SUB](u, false, w, false, z, 2);
    assert_memory_equal(z, ((uint32_t[]){UINT32_MAX - 2, UINT32_MAX}), sizeof(z));
    plain_loops_of(DTYPE_U32)->binary[PLAIN_DIV](u, false, u, false, z, 2);
    assert_memory_equal(z, ((uint32_t[]){1, 0}), sizeof(z));
}

static void comparisons_are_in_order(void **state)
{
    (void)state;
    const double a[3] = {1, 2, 3};
    const double b[3] = {2, 2, 2};
    static const uint8_t expected[PLAIN_N_COMPARE][3] = {
        {0, 1, 0}, {1, 0, 1}, {1, 0, 0}, {1, 1, 0}, {0, 0, 1}, {0, 1, 1}};
    for (int i = 0; i < PLAIN_N_COMPARE; i++) {
        uint8_t y[3];
        plain_loops_of(DTYPE_F64)->compare[i](a, false, b, false, y, 3);
        assert_memory_equal(y, expected[i], sizeof(y));
    }
}

static void functions_are_those_of_the_library(void **state)
{
    (void)state;
    static double (*const functions[])(double) = {exp, log, tanh, sqrt, NULL, cos, sin};
    const double x = 0.7;
    const float x32 = 0.7f;
    for (int i = 0; i < PLAIN_N_UNARY; i++) {
        const double expected = functions[i] != NULL ? functions[i](x) : 1 / sqrt(x);
        double y;
        float y32;
        plain_loops_of(DTYPE_F64)->unary[i](&x, &y, 1);
        plain_loops_of(DTYPE_F32)->unary[i](&x32, &y32, 1);
        assert_true(fabs(y - expected) <= 1e-15);
        assert_true(fabs((double)y32 - expected) <= 2e-7);
    }
    const float odd[4] = {1, NAN, INFINITY, -INFINITY};
    uint8_t finite[4];
    plain_loops_of(DTYPE_F32)->is_finite(odd, finite, 4);
    assert_memory_equal(finite, ((uint8_t[]){1, 0, 0, 0}), 4);
}

static void floats_become_integers(void **state)
{
    (void)state;
    const float x[8] = {1.9f, -1.9f, NAN, 1e30f, -1e30f, INFINITY, 255.5f, -0.5f};
    int32_t i32[8];
    plain_cast(DTYPE_F32, x, DTYPE_I32, i32, 8);
    assert_memory_equal(
        i32, ((int32_t[]){1, -1, 0, INT32_MAX, INT32_MIN, INT32_MAX, 255, 0}),
        sizeof(i32));
    uint8_t u8[8];
    plain_cast(DTYPE_F32, x, DTYPE_U8, u8, 8);
    assert_memory_equal(u8, ((uint8_t[]){1, 0, 0, 255, 0, 255, 255, 0}), sizeof(u8));
    int64_t i64[8];
    plain_cast(DTYPE_F32, x, DTYPE_I64, i64, 8);
    assert_memory_equal(
        i64, ((int64_t[]){1, -1, 0, INT64_MAX, INT64_MIN, INT64_MAX, 255, 0}),
        sizeof(i64));
    uint8_t truth[8];
    plain_cast(DTYPE_F32, x, DTYPE_BOOL, truth, 8);
    assert_memory_equal(truth, ((uint8_t[]){1, 1, 1, 1, 1, 1, 1, 1}), sizeof(truth));
}

/* Small integers are exact in every dtype: there and back over all pairs, in numbers that
 * do not divide the blocks. */
static void all_pairs_of_dtypes_convert(void **state)
{
    (void)state;
    enum { N = 1300 };
    static double source[N];
    static unsigned char there[N * 8];
    static unsigned char back[N * 8];
    static double result[N];
    for (int i = 0; i < N; i++) {
        source[i] = i % 2;
    }
    for (int from = 0; from < DTYPE_COUNT; from++) {
        for (int to = 0; to < DTYPE_COUNT; to++) {
            plain_cast(DTYPE_F64, source, (enum dtype)from, there, N);
            plain_cast((enum dtype)from, there, (enum dtype)to, back, N);
            memset(result, 0xFF, sizeof(result));
            plain_cast((enum dtype)to, back, DTYPE_F64, result, N);
            assert_memory_equal(result, source, sizeof(source));
        }
    }
}

static void bf16_is_rounded_once(void **state)
{
    (void)state;
    const double x[2] = {1.00390625, 1.01171875}; /* ties: down and up to even */
    uint16_t y[2];
    plain_cast(DTYPE_F64, x, DTYPE_BF16, y, 2);
    assert_int_equal(y[0], 0x3F80);
    assert_int_equal(y[1], 0x3F82);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binary_loops_take_scalars),
        cmocka_unit_test(max_keeps_nan),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(comparisons_are_in_order),
        cmocka_unit_test(functions_are_those_of_the_library),
        cmocka_unit_test(floats_become_integers),
        cmocka_unit_test(all_pairs_of_dtypes_convert),
        cmocka_unit_test(bf16_is_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
