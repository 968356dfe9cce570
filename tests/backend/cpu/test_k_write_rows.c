/*
 * Rows go to their slots, others stay as they were, slots outside are skipped; any dtype.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_write_rows;

static void check_case(enum dtype dtype, int64_t S, int64_t T, int64_t n)
{
    enum { B = 2 };
    struct harness *harness = harness_create(&kernel_write_rows);
    const size_t row = (size_t)n * dtype_bytes(dtype);
    unsigned char *cache = harness_input(harness, dtype, 3, (int64_t[]){B, S, n});
    unsigned char *rows = harness_input(harness, dtype, 3, (int64_t[]){B, T, n});
    int32_t *slots = harness_input(harness, DTYPE_I32, 2, (int64_t[]){B, T});
    const unsigned char *result = harness_alias(harness, 0);
    unsigned char *expected = mem_alloc(B * (size_t)S * row);
    for (size_t i = 0; i < B * (size_t)S * row; i++) {
        cache[i] = (unsigned char)(i * 7);
    }
    memcpy(expected, cache, B * (size_t)S * row);
    for (size_t i = 0; i < B * (size_t)T * row; i++) {
        rows[i] = (unsigned char)(i * 13 + 5);
    }
    for (int64_t i = 0; i < B * T; i++) {
        const int64_t slot = (i % T) * 2 - 1; /* -1, 1, 3, .., and past the end */
        slots[i] = (int32_t)slot;
        if (slot >= 0 && slot < S) {
            memcpy(expected + (size_t)(i / T * S + slot) * row, rows + (size_t)i * row,
                   row);
        }
    }
    harness_run(harness, native_find(BACKEND_ISA_BEST));
    assert_memory_equal(result, expected, B * (size_t)S * row);
    mem_free(expected);
    harness_destroy(harness);
}

static void rows_go_to_their_slots(void **state)
{
    (void)state;
    check_case(DTYPE_F32, 5, 4, 3);
    check_case(DTYPE_BF16, 9, 1, 7);
    check_case(DTYPE_F32, 300, 160, 500);
    check_case(DTYPE_U8, 1, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_go_to_their_slots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
