/*
 * Conversion of views at any address, and shapes as text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "formats/tensor_view.h"

enum { N = 1500 };

static void test_any_address_gives_the_same(void **state)
{
    (void)state;
    static unsigned char file[N * 8 + 8];
    static float expected[N];
    static float values[N];
    const enum dtype types[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < N; i++) {
        expected[i] = (float)(i - 700) * 0.25f; /* exact in every type up to 8 bits */
        expected[i] = dtype_f32_from_bf16(dtype_bf16_from_f32(expected[i]));
    }
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++) {
        static double converted[N];
        dtype_from_f32(types[t], expected, converted, N);
        const size_t width = dtype_bytes(types[t]);
        for (size_t shift = 0; shift < 8; shift++) {
            memcpy(file + shift, converted, N * width);
            const struct tensor_view view = {.name = "x",
                                             .dtype = types[t],
                                             .rank = 1,
                                             .dim = {N},
                                             .bytes = file + shift,
                                             .n_bytes = N * width};
            assert_int_equal(tensor_view_n_elements(&view), N);
            memset(values, 0xFF, sizeof(values));
            tensor_view_to_f32(&view, 0, N, values);
            assert_memory_equal(values, expected, sizeof(values));
            tensor_view_to_f32(&view, 701, 3, values);
            assert_memory_equal(values, expected + 701, 3 * sizeof(float));
        }
    }
}

static void test_shapes_as_text(void **state)
{
    (void)state;
    char text[100];
    const int64_t dim[8] = {2,         3,         INT64_MAX, INT64_MAX,
                            INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    assert_string_equal(tensor_view_format_shape(text, 0, dim), "[]");
    assert_string_equal(tensor_view_format_shape(text, 2, dim), "[2, 3]");
    assert_true(strlen(tensor_view_format_shape(text, 8, dim)) < sizeof(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_address_gives_the_same),
        cmocka_unit_test(test_shapes_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
