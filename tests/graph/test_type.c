/*
 * Types are made, compared, measured and printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "graph/type.h"

static void counts_elements_and_bytes(void **state)
{
    (void)state;
    const struct type scalar = type_scalar(DTYPE_F64);
    assert_int_equal(type_elements(&scalar), 1);
    assert_int_equal(type_bytes(&scalar), 8);
    const struct type matrix = type_make(DTYPE_BF16, 2, (int64_t[]){3, 5});
    assert_int_equal(type_elements(&matrix), 15);
    assert_int_equal(type_bytes(&matrix), 30);
    const struct type large =
        type_make(DTYPE_F32, 2, (int64_t[]){262144, 8960}); /* over 2^31 */
    assert_true(type_bytes(&large) == (size_t)262144 * 8960 * 4);
    assert_true(placement_is_same(&matrix.placement));
}

static void differs_by_each_part(void **state)
{
    (void)state;
    const struct type type = type_make(DTYPE_F32, 2, (int64_t[]){3, 5});
    struct type other = type;
    assert_true(type_equal(&type, &other));
    other.dtype = DTYPE_I32;
    assert_false(type_equal(&type, &other));
    other = type;
    other.shape.dim[1] = 6;
    assert_false(type_equal(&type, &other));
    other = type_make(DTYPE_F32, 3, (int64_t[]){3, 5, 1});
    assert_false(type_equal(&type, &other));
    assert_false(type_shape_equal(&type.shape, &other.shape));
    other = type;
    other.placement = placement_split(MESH_SHARD, 0);
    assert_false(type_equal(&type, &other));
    assert_true(type_shape_equal(&type.shape, &other.shape));
}

static void prints_in_one_line(void **state)
{
    (void)state;
    char text[192];
    struct type type = type_make(DTYPE_F32, 3, (int64_t[]){4, 512, 640});
    assert_string_equal(type_format(text, &type), "f32[4,512,640]");
    type.placement = placement_split(MESH_SHARD, 0);
    assert_string_equal(type_format(text, &type), "f32[4,512,640]{shard: split 0}");
    type = type_scalar(DTYPE_BOOL);
    assert_string_equal(type_format(text, &type), "bool[]");
}

/* The longest type stays inside the buffer. */
static void long_types_fit(void **state)
{
    (void)state;
    char text[193];
    text[192] = '#';
    const int64_t n = INT64_MAX;
    struct type type = type_make(DTYPE_BF16, 6, (int64_t[]){n, n, n, n, n, n});
    type.placement = placement_split(MESH_SHARD, 0);
    type.placement = placement_with(type.placement, MESH_TENSOR, PLACE_PARTIAL, 0);
    type.placement = placement_with(type.placement, MESH_REPLICA, PLACE_PARTIAL, 0);
    type_format(text, &type);
    assert_true(strlen(text) < 192);
    assert_int_equal(text[192], '#');
}

/* A stack and its slices: lengths and splits move by the stacked dimensions. */
static void slices_and_stacks_are_inverse(void **state)
{
    (void)state;
    struct type row = type_make(DTYPE_F32, 2, (int64_t[]){4, 8});
    row.placement = placement_split(MESH_SHARD, 1);
    row.placement = placement_with(row.placement, MESH_TENSOR, PLACE_PARTIAL, 0);
    const struct type stack = type_stack(&row, 3);
    char text[192];
    assert_string_equal(type_format(text, &stack),
                        "f32[3,4,8]{shard: split 2, tensor: partial}");
    const struct type nested = type_stack(&stack, 5);
    const struct type slice = type_slice(&nested, 2);
    assert_true(type_equal(&slice, &row));
    assert_int_equal(slice.shape.dim[2], 0); /* unused lengths stay 0 */
    const struct type whole = type_slice(&row, 0);
    assert_true(type_equal(&whole, &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_elements_and_bytes),
        cmocka_unit_test(differs_by_each_part),
        cmocka_unit_test(prints_in_one_line),
        cmocka_unit_test(long_types_fit),
        cmocka_unit_test(slices_and_stacks_are_inverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
