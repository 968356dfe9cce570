/*
 * Block formats against the reference's values (tests/golden/quant/blocks.json), bit by
 * bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/quant.h"

static const enum quant_type types[] = {QUANT_F16,  QUANT_BF16, QUANT_Q8_0,
                                        QUANT_Q5_0, QUANT_Q4_K, QUANT_Q6_K};

/* Bytes of a string of hexadecimal digits; free with mem_free. */
static unsigned char *bytes_of_hex(const char *hex, size_t *n)
{
    *n = strlen(hex) / 2;
    unsigned char *bytes = mem_alloc(*n);
    for (size_t i = 0; i < *n; i++) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return bytes;
}

static void test_same_bits_as_reference(void **state)
{
    (void)state;
    struct error err;
    json_t *root = json_read_file("tests/golden/quant/blocks.json", 1 << 20, &err);
    assert_non_null(root);
    const json_t *table = json_object_get(root, "types");
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        const enum quant_type type = types[i];
        const json_t *entry = json_object_get(table, quant_name(type));
        assert_non_null(entry);
        size_t n_bytes;
        size_t value_bytes;
        unsigned char *bytes =
            bytes_of_hex(json_string_value(json_object_get(entry, "bytes")), &n_bytes);
        unsigned char *expected = bytes_of_hex(
            json_string_value(json_object_get(entry, "f32")), &value_bytes);
        const size_t n = value_bytes / sizeof(float);
        assert_int_equal(n / quant_block_elements(type) * quant_block_bytes(type),
                         n_bytes);
        float *values = mem_alloc(value_bytes);
        quant_to_f32(type, bytes, values, n);
        assert_memory_equal(values, expected, value_bytes);

        /* Blocks stand alone, and may begin anywhere. */
        unsigned char *shifted = mem_alloc(n_bytes + 1);
        memcpy(shifted + 1, bytes, n_bytes);
        memset(values, 0, value_bytes);
        for (size_t at = 0; at < n; at += quant_block_elements(type)) {
            const size_t block = at / quant_block_elements(type);
            quant_to_f32(type, shifted + 1 + block * quant_block_bytes(type),
                         values + at, quant_block_elements(type));
        }
        assert_memory_equal(values, expected, value_bytes);
        mem_free(shifted);
        mem_free(values);
        mem_free(expected);
        mem_free(bytes);
    }
    json_decref(root);
}

static void test_f32_is_copied(void **state)
{
    (void)state;
    const float source[3] = {1.5f, -0.0f, 3e38f};
    float target[3];
    quant_to_f32(QUANT_F32, (const unsigned char *)source, target, 3);
    assert_memory_equal(source, target, sizeof(target));
}

static void test_types_by_number(void **state)
{
    (void)state;
    enum quant_type type;
    assert_true(quant_type_from_number(12, &type));
    assert_string_equal(quant_name(type), "Q4_K");
    assert_false(quant_type_from_number(2, &type)); /* Q4_0 */
    assert_false(quant_type_from_number(UINT32_MAX, &type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_as_reference),
        cmocka_unit_test(test_f32_is_copied),
        cmocka_unit_test(test_types_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
