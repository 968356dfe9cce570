/*
 * The tables made from ops.def.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "graph/graph.h"

static void names_and_kinds_are_as_listed(void **state)
{
    (void)state;
    assert_string_equal(op_name(OP_MATMUL), "matmul");
    assert_string_equal(op_name(OP_ADAMW), "adamw");
    assert_int_equal(op_kind(OP_MATMUL), OP_KIND_PRIMITIVE);
    assert_int_equal(op_kind(OP_ROPE), OP_KIND_COMPOSITE);
    assert_int_equal(op_kind(OP_ROPE_GRAD), OP_KIND_GRADIENT);
}

static void names_are_unique(void **state)
{
    (void)state;
    for (int a = 0; a < OP_COUNT; a++) {
        for (int b = a + 1; b < OP_COUNT; b++) {
            assert_string_not_equal(op_name(a), op_name(b));
        }
    }
}

static void every_gradient_op_has_its_composite(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_kind(op) != OP_KIND_GRADIENT) {
            continue;
        }
        const enum op forward = op_forward_of(op);
        assert_int_equal(op_kind(forward), OP_KIND_COMPOSITE);
        char name[64];
        snprintf(name, sizeof(name), "%s_grad", op_name(forward));
        assert_string_equal(name, op_name(op));
    }
    assert_int_equal(op_forward_of(OP_GELU_TANH_GRAD), OP_GELU_TANH);
    assert_int_equal(op_forward_of(OP_ATTENTION_GRAD), OP_ATTENTION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_kinds_are_as_listed),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(every_gradient_op_has_its_composite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
