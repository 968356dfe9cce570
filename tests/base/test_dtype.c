/*
 * Every 16-bit value both ways, every rounding border, names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/dtype.h"

typedef uint16_t (*narrow_fn)(float x);
typedef float (*widen_fn)(uint16_t x);

static void names_and_sizes(void **state)
{
    (void)state;
    static const size_t bytes[DTYPE_COUNT] = {8, 4, 2, 2, 8, 4, 4, 1, 1};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype found = DTYPE_COUNT;
        assert_true(dtype_from_name(dtype_name((enum dtype)i), &found));
        assert_int_equal(found, i);
        assert_int_equal(dtype_bytes((enum dtype)i), bytes[i]);
        assert_int_equal(dtype_is_float((enum dtype)i), i <= DTYPE_F16);
    }
    enum dtype unchanged = DTYPE_U8;
    assert_false(dtype_from_name("f8", &unchanged));
    assert_int_equal(unchanged, DTYPE_U8);
}

/* All 65,536 values survive the way to f32 and back; NaN stays NaN. */
static void check_round_trips(narrow_fn narrow, widen_fn widen)
{
    for (uint32_t x = 0; x <= 0xFFFF; x++) {
        const float wide = widen((uint16_t)x);
        const uint16_t back = narrow(wide);
        if (isnan(wide)) {
            assert_true(isnan(widen(back)));
        } else {
            assert_int_equal(back, x);
        }
    }
}

/*
 * Between each value and the next larger: the middle goes to the even one, its neighbours
 * in f32 to the nearer one; with both signs. `infinity` is the pattern behind the largest
 * finite value, and `beyond` the number that would stand there.
 */
static void check_borders(narrow_fn narrow, widen_fn widen, uint16_t infinity,
                          double beyond)
{
    for (uint32_t x = 0; x < infinity; x++) {
        const double low = (double)widen((uint16_t)x);
        const double high =
            x + 1 == infinity ? beyond : (double)widen((uint16_t)(x + 1));
        const float middle = (float)(low + (high - low) / 2.0);
        const uint32_t even = x % 2 == 0 ? x : x + 1;
        assert_int_equal(narrow(middle), even);
        assert_int_equal(narrow(-middle), 0x8000 | even);
        assert_int_equal(narrow(nextafterf(middle, 0.0f)), x);
        assert_int_equal(narrow(nextafterf(middle, INFINITY)), x + 1);
    }
    assert_int_equal(narrow(INFINITY), infinity);
    assert_int_equal(narrow(-INFINITY), 0x8000 | infinity);
}

static void bf16_round_trips(void **state)
{
    (void)state;
    check_round_trips(dtype_bf16_from_f32, dtype_f32_from_bf16);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    check_borders(dtype_bf16_from_f32, dtype_f32_from_bf16, 0x7F80, 0x1p128);
}

static void f16_round_trips(void **state)
{
    (void)state;
    check_round_trips(dtype_f16_from_f32, dtype_f32_from_f16);
}

static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    check_borders(dtype_f16_from_f32, dtype_f32_from_f16, 0x7C00, 65536.0);
    assert_true(dtype_f32_from_f16(0x3C00) == 1.0f);
    assert_true(dtype_f32_from_f16(0x0001) == 0x1p-24f);
    assert_true(dtype_f32_from_f16(0x7BFF) == 65504.0f);
    assert_int_equal(dtype_f16_from_f32(1e30f), 0x7C00);
}

/* NaNs whose payload lies in the dropped bits only must not turn into infinity. */
static void nan_stays_nan(void **state)
{
    (void)state;
    static const uint32_t patterns[] = {0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF};
    for (size_t i = 0; i < ARRAY_LENGTH(patterns); i++) {
        float x;
        memcpy(&x, &patterns[i], sizeof(x));
        assert_true(isnan(dtype_f32_from_bf16(dtype_bf16_from_f32(x))));
        assert_true(isnan(dtype_f32_from_f16(dtype_f16_from_f32(x))));
    }
}

static void arrays_convert_as_single_values_do(void **state)
{
    (void)state;
    enum { N = 1003 };
    float source[N];
    for (int i = 0; i < N; i++) {
        source[i] = (float)(i - 500) * 1.7e-3f;
    }
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (size_t d = 0; d < ARRAY_LENGTH(dtypes); d++) {
        double stored[N]; /* large enough for each type */
        float back[N];
        dtype_from_f32(dtypes[d], source, stored, N);
        dtype_to_f32(dtypes[d], stored, back, N);
        for (int i = 0; i < N; i++) {
            float expected = source[i];
            if (dtypes[d] == DTYPE_BF16) {
                expected = dtype_f32_from_bf16(dtype_bf16_from_f32(expected));
            } else if (dtypes[d] == DTYPE_F16) {
                expected = dtype_f32_from_f16(dtype_f16_from_f32(expected));
            }
            assert_true(back[i] == expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(bf16_round_trips),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(f16_round_trips),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(arrays_convert_as_single_values_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
