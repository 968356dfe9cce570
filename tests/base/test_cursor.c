/*
 * Little-endian reads, and that nothing past the end is ever given (G9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cursor.h"

static void reads_little_endian(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09,
        0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x00, 0x00, 0xC0,
        0x3F, 0,    0,    0,    0,    0,    0,    0x04, 0xC0,
    };
    struct cursor cursor = cursor_view(bytes, sizeof(bytes));
    assert_int_equal(cursor_u8(&cursor), 0x01);
    assert_int_equal(cursor_u16(&cursor), 0x0302);
    assert_int_equal(cursor_u32(&cursor), 0x07060504);
    assert_int_equal(cursor_u64(&cursor), 0x0F0E0D0C0B0A0908);
    assert_true(cursor_f32(&cursor) == 1.5f);
    assert_true(cursor_f64(&cursor) == -2.5);
    assert_true(cursor_ok(&cursor));
    assert_int_equal(cursor_left(&cursor), 0);
}

static void stays_failed_after_the_end(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {1, 2, 3};
    struct cursor cursor = cursor_view(bytes, sizeof(bytes));
    assert_int_equal(cursor_u32(&cursor), 0);
    assert_false(cursor_ok(&cursor));
    assert_int_equal(cursor_left(&cursor), 0);
    assert_int_equal(cursor_u8(&cursor), 0); /* though one would fit */
    assert_null(cursor_bytes(&cursor, 0));
}

static void huge_lengths_do_not_wrap(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {1, 2, 3, 4};
    static const uint64_t lengths[] = {4, UINT64_MAX, UINT64_MAX - 1,
                                       (uint64_t)1 << 63};
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        struct cursor cursor = cursor_view(bytes, sizeof(bytes));
        assert_int_equal(cursor_u8(&cursor), 1);
        assert_null(cursor_bytes(&cursor, lengths[i]));
        assert_false(cursor_ok(&cursor));
    }
}

static void gives_borrowed_bytes(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {1, 2, 3, 4};
    struct cursor cursor = cursor_view(bytes, sizeof(bytes));
    assert_ptr_equal(cursor_bytes(&cursor, 3), bytes);
    assert_int_equal(cursor_left(&cursor), 1);
    assert_ptr_equal(cursor_bytes(&cursor, 1), bytes + 3);
    assert_non_null(cursor_bytes(&cursor, 0));
    assert_true(cursor_ok(&cursor));
}

static void empty_input(void **state)
{
    (void)state;
    struct cursor cursor = cursor_view(NULL, 0);
    assert_non_null(cursor_bytes(&cursor, 0));
    assert_int_equal(cursor_u8(&cursor), 0);
    assert_false(cursor_ok(&cursor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_little_endian),
        cmocka_unit_test(stays_failed_after_the_end),
        cmocka_unit_test(huge_lengths_do_not_wrap),
        cmocka_unit_test(gives_borrowed_bytes),
        cmocka_unit_test(empty_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
