/*
 * The pieces of StableHLO text: literals that come back exactly, types, escaped names, and
 * a table in which every primitive has an emitter. What the emitters write is compared in
 * test_stablehlo.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backend/xla/emit.h"

static struct emit make(struct str *out)
{
    static const struct mesh mesh = {.size = {1, 1, 1}};
    return (struct emit){.mesh = &mesh, .arena = arena_create(), .out = out};
}

static void literals_come_back_exactly(void **state)
{
    (void)state;
    struct emit emit = make(NULL);
    const double numbers[] = {0.1, -3.0, 1e-38, 3.4028234663852886e38, 1.0 / 3.0};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        const char *single = emit_literal(&emit, DTYPE_F32, numbers[i]);
        assert_true(strtof(single, NULL) == (float)numbers[i]);
        const char *wide = emit_literal(&emit, DTYPE_F64, numbers[i]);
        assert_true(strtod(wide, NULL) == numbers[i]);
        assert_non_null(strchr(single, '.'));
    }
    const double infinity = 1.0 / 0.0;
    assert_string_equal(emit_literal(&emit, DTYPE_F32, -infinity), "0xFF800000");
    assert_string_equal(emit_literal(&emit, DTYPE_BF16, -infinity), "0xFF80");
    assert_string_equal(emit_literal(&emit, DTYPE_F64, infinity), "0x7FF0000000000000");
    assert_string_equal(emit_literal(&emit, DTYPE_BF16, 1), "0x3F80");
    assert_string_equal(emit_literal(&emit, DTYPE_F16, 1), "0x3C00");
    assert_string_equal(emit_literal(&emit, DTYPE_I32, -7), "-7");
    assert_string_equal(emit_literal(&emit, DTYPE_BOOL, 1), "true");
    arena_destroy(emit.arena);
}

static void types_are_spelled_as_tensors(void **state)
{
    (void)state;
    struct emit emit = make(NULL);
    const struct type matrix = type_make(DTYPE_BF16, 2, (int64_t[]){4, 8});
    assert_string_equal(emit_type(&emit, &matrix), "tensor<4x8xbf16>");
    assert_string_equal(emit_scalar_type(&emit, DTYPE_BOOL), "tensor<i1>");
    assert_string_equal(emit_scalar_type(&emit, DTYPE_U32), "tensor<ui32>");
    assert_string_equal(emit_list(&emit, (int64_t[]){1, 0}, 2), "[1, 0]");
    assert_string_equal(emit_list(&emit, NULL, 0), "[]");
    arena_destroy(emit.arena);
}

static void names_are_quoted_in_locations(void **state)
{
    (void)state;
    struct str out = {0};
    struct emit emit = make(&out);
    const struct node node = {.name = "a\"b\\c"};
    emit.node = &node;
    emit.depth = 1;
    assert_string_equal(emit_line(&emit, "op %d", 5), "%0");
    assert_string_equal(str_text(&out), "  %0 = op 5 loc(\"a\\\"b\\\\c\")\n");
    str_deinit(&out);
    arena_destroy(emit.arena);
}

static void primitives_have_emitters_and_composites_none(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        const bool is_primitive = op_kind((enum op)op) == OP_KIND_PRIMITIVE;
        assert_true((emit_of((enum op)op) != NULL) == is_primitive);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_come_back_exactly),
        cmocka_unit_test(types_are_spelled_as_tensors),
        cmocka_unit_test(names_are_quoted_in_locations),
        cmocka_unit_test(primitives_have_emitters_and_composites_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
