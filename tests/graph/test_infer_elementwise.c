/*
 * Rules of sources and elementwise ops: what is accepted with which result, and what is
 * rejected with which reason. (C39: a layout that cannot work is refused while building.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {2, 2, 4}};

/* ---- sources ---- */

static void sources_have_the_type_of_their_attributes(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_PARAMETER, "", "bf16[3,4]{shard: split 0}",
         .attributes = {.dtype = DTYPE_BF16,
                        .shape = {2, {3, 4}},
                        .placement = {.axis = {[MESH_SHARD] = {PLACE_SPLIT, 0}}}}},
        {OP_PARAMETER, "", "!only inputs and constant zero may be partial",
         .attributes = {.dtype = DTYPE_F32,
                        .shape = {1, {3}},
                        .placement = {.axis = {[MESH_SHARD] = {PLACE_PARTIAL, 0}}}}},
        {OP_INPUT, "", "f32[3]{shard: partial}",
         .attributes = {.dtype = DTYPE_F32,
                        .shape = {1, {3}},
                        .placement = {.axis = {[MESH_SHARD] = {PLACE_PARTIAL, 0}}}}},
        {OP_INPUT, "", "!dimension 1 has length 0",
         .attributes = {.dtype = DTYPE_F32, .shape = {2, {3, 0}}}},
        {OP_INPUT, "", "!rank 1 has no dimension 1 to split",
         .attributes = {.dtype = DTYPE_F32,
                        .shape = {1, {3}},
                        .placement = {.axis = {[MESH_SHARD] = {PLACE_SPLIT, 1}}}}},
        {OP_CONSTANT, "", "f32[]{tensor: partial}",
         .attributes = {.dtype = DTYPE_F32,
                        .placement = {.axis = {[MESH_TENSOR] = {PLACE_PARTIAL, 0}}}}},
        {OP_CONSTANT, "", "!on the tensor axis: of sources",
         .attributes = {.dtype = DTYPE_F32,
                        .value = 2,
                        .placement = {.axis = {[MESH_TENSOR] = {PLACE_PARTIAL, 0}}}}},
        CASE(OP_CONSTANT, "f32[]", "!takes 0 to 0 operands, got 1"),
        {OP_IOTA, "", "i32[4]", .attributes = {.dtype = DTYPE_I32, .shape = {1, {4}}}},
        {OP_IOTA, "", "!no dimension 1 to count along",
         .attributes = {.dtype = DTYPE_I32, .shape = {1, {4}}, .axis = 1}},
        {OP_RANDOM_BITS, "u32[]; u32[]", "u32[4]",
         .attributes = {.dtype = DTYPE_U32, .shape = {1, {4}}}},
        {OP_RANDOM_BITS, "i32[]; u32[]", "!seed (operand 0) must be a u32 scalar",
         .attributes = {.dtype = DTYPE_U32, .shape = {1, {4}}}},
        {OP_RANDOM_BITS, "u32[]; u32[1]", "!step (operand 1) must be a u32 scalar",
         .attributes = {.dtype = DTYPE_U32, .shape = {1, {4}}}},
        {OP_RANDOM_BITS, "u32[]; u32[]", "!the result is u32",
         .attributes = {.dtype = DTYPE_F32, .shape = {1, {4}}}},
        {OP_AXIS_INDEX, "", "i32[]", .attributes = {.mesh_axis = MESH_TENSOR}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

/* ---- elementwise ---- */

static void binary_ops_want_one_shape_and_dtype(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        CASE(OP_ADD, "f32[2,3]; f32[2,3]", "f32[2,3]"),
        CASE(OP_ADD, "f32[2,3]; f32[]", "f32[2,3]"),
        CASE(OP_SUB, "bf16[]; bf16[2,3]", "bf16[2,3]"),
        CASE(OP_MUL, "i32[]; i32[]", "i32[]"),
        CASE(OP_ADD, "f32[2,3]; f32[3]", "!operands must have one shape"),
        CASE(OP_ADD, "f32[2,3]; f32[2,1]", "!operands must have one shape"),
        CASE(OP_ADD, "f32[2]; bf16[2]", "!operands must have one dtype"),
        CASE(OP_MAX, "bool[2]; bool[2]", "!operands must be numbers"),
        CASE(OP_COMPARE, "i32[2]; i32[2]", "bool[2]"),
        CASE(OP_COMPARE, "i32[2]; i32[]", "bool[2]"),
        CASE(OP_ADD, "f32[2]", "!takes 2 to 2 operands, got 1"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

/* All pairs of places, for the four kinds of linearity. */
static void binary_ops_combine_places(void **state)
{
    (void)state;
#define SAME    "f32[4,4]"
#define SPLIT0  "f32[4,4]{shard: split 0}"
#define SPLIT1  "f32[4,4]{shard: split 1}"
#define PARTIAL "f32[4,4]{shard: partial}"
    static const struct {
        const char *a, *b;
        const char *add, *mul, *div, *max; /* NULL: rejected */
    } rows[] = {
        {SAME, SAME, SAME, SAME, SAME, SAME},
        {SPLIT0, SPLIT0, SPLIT0, SPLIT0, SPLIT0, SPLIT0},
        {SPLIT0, SPLIT1, NULL, NULL, NULL, NULL},
        {SPLIT0, SAME, NULL, NULL, NULL, NULL},
        {SAME, SPLIT1, NULL, NULL, NULL, NULL},
        {SPLIT0, "f32[]", SPLIT0, SPLIT0, SPLIT0, SPLIT0},
        {"f32[]", SPLIT1, SPLIT1, SPLIT1, SPLIT1, SPLIT1},
        {PARTIAL, PARTIAL, PARTIAL, NULL, NULL, NULL},
        {PARTIAL, "f32[]{shard: partial}", PARTIAL, NULL, NULL, NULL},
        {PARTIAL, SAME, NULL, PARTIAL, PARTIAL, NULL},
        {PARTIAL, "f32[]", NULL, PARTIAL, PARTIAL, NULL},
        {SAME, PARTIAL, NULL, PARTIAL, NULL, NULL},
        {"f32[]{shard: partial}", SAME, NULL, PARTIAL, PARTIAL, NULL},
        {PARTIAL, SPLIT0, NULL, NULL, NULL, NULL},
        {SPLIT0, "f32[]{shard: partial}", NULL, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char operands[256];
        snprintf(operands, sizeof(operands), "%s; %s", rows[i].a, rows[i].b);
        const char *compared = rows[i].max == NULL ? NULL : rows[i].max + 3;
        char boolean[64];
        snprintf(boolean, sizeof(boolean), "bool%s", compared == NULL ? "" : compared);
        const char *rejected = "!on the shard axis: operands must be placed alike";
        const struct rule_case cases[] = {
            CASE(OP_ADD, operands, rows[i].add == NULL ? rejected : rows[i].add),
            CASE(OP_SUB, operands, rows[i].add == NULL ? rejected : rows[i].add),
            CASE(OP_MUL, operands, rows[i].mul == NULL ? rejected : rows[i].mul),
            CASE(OP_DIV, operands, rows[i].div == NULL ? rejected : rows[i].div),
            CASE(OP_MAX, operands, rows[i].max == NULL ? rejected : rows[i].max),
            CASE(OP_COMPARE, operands, compared == NULL ? rejected : boolean),
        };
        rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
    }
}

/* Each axis follows the table on its own. */
static void axes_are_independent(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        CASE(OP_MUL, "f32[4]{replica: partial, shard: split 0}; f32[4]{shard: split 0}",
             "f32[4]{replica: partial, shard: split 0}"),
        CASE(OP_MUL, "f32[4]{replica: partial}; f32[4]{tensor: partial}",
             "f32[4]{replica: partial, tensor: partial}"),
        CASE(OP_ADD, "f32[4]{replica: partial}; f32[4]{tensor: partial}",
             "!on the replica axis"),
        CASE(OP_ADD, "f32[4]{tensor: split 0}; f32[4]", "!on the tensor axis"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void select_is_linear_in_its_branches(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        CASE(OP_SELECT, "bool[4]; f32[4]; f32[4]", "f32[4]"),
        CASE(OP_SELECT, "bool[]; f32[4]; f32[]", "f32[4]"),
        CASE(OP_SELECT, "bool[4]; f32[]; f32[]", "f32[4]"),
        CASE(OP_SELECT, "bool[4]{shard: split 0}; f32[]; f32[]",
             "f32[4]{shard: split 0}"),
        CASE(OP_SELECT, "bool[4]{shard: split 0}; f32[4]{shard: split 0}; f32[]",
             "f32[4]{shard: split 0}"),
        CASE(OP_SELECT, "bool[]; f32[4]{shard: split 0}; f32[]",
             "f32[4]{shard: split 0}"),
        CASE(OP_SELECT, "bool[]; f32[4]{shard: partial}; f32[4]{shard: partial}",
             "f32[4]{shard: partial}"),
        CASE(OP_SELECT, "bool[4]; f32[4]{shard: partial}; f32[4]{shard: partial}",
             "f32[4]{shard: partial}"),
        CASE(OP_SELECT, "bool[]; f32[4]{shard: partial}; f32[4]", "!on the shard axis"),
        CASE(OP_SELECT, "bool[]; f32[4]{shard: partial}; f32[]", "!on the shard axis"),
        CASE(OP_SELECT,
             "bool[4]{shard: split 0}; f32[4]{shard: partial}; f32[4]{shard: partial}",
             "!on the shard axis"),
        CASE(OP_SELECT, "bool[4]{shard: split 0}; f32[4]; f32[4]",
             "!on the shard axis"),
        CASE(OP_SELECT, "bool[4]; f32[4]{shard: split 0}; f32[]", "!on the shard axis"),
        CASE(OP_SELECT, "bool[]{shard: partial}; f32[4]; f32[4]", "!on the shard axis"),
        CASE(OP_SELECT, "f32[4]; f32[4]; f32[4]", "!the condition must be bool"),
        CASE(OP_SELECT, "bool[4]; f32[4]; f64[4]",
             "!both branches must have one dtype"),
        CASE(OP_SELECT, "bool[4]; f32[3]; f32[3]", "!operands must have one shape"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void only_linear_unary_ops_keep_partial(void **state)
{
    (void)state;
    static const enum op functions[] = {OP_EXP,   OP_LOG, OP_TANH, OP_SQRT,
                                        OP_RSQRT, OP_COS, OP_SIN};
    for (size_t i = 0; i < ARRAY_LENGTH(functions); i++) {
        const struct rule_case cases[] = {
            CASE(functions[i], SPLIT1, SPLIT1),
            CASE(functions[i], PARTIAL, "!the op is not linear"),
            CASE(functions[i], "i32[4]", "!must be floating point"),
        };
        rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
    }
    static const struct rule_case cases[] = {
        CASE(OP_STOP_GRADIENT, PARTIAL, PARTIAL),
        CASE(OP_BARRIER, PARTIAL, PARTIAL),
        {OP_CAST, PARTIAL, "bf16[4,4]{shard: partial}",
         .attributes = {.dtype = DTYPE_BF16}},
        {OP_CAST, PARTIAL, "!the op is not linear", .attributes = {.dtype = DTYPE_I32}},
        {OP_CAST, "bool[2]", "f32[2]", .attributes = {.dtype = DTYPE_F32}},
        {OP_BITCAST, "f32[2]", "u32[2]", .attributes = {.dtype = DTYPE_U32}},
        {OP_BITCAST, PARTIAL, "!the op is not linear",
         .attributes = {.dtype = DTYPE_U32}},
        {OP_BITCAST, "f32[2]", "!f32 and bf16 differ in size",
         .attributes = {.dtype = DTYPE_BF16}},
        CASE(OP_IS_FINITE, SPLIT0, "bool[4,4]{shard: split 0}"),
        CASE(OP_IS_FINITE, PARTIAL, "!the op is not linear"),
        CASE(OP_IS_FINITE, "i32[2]", "!must be floating point"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_have_the_type_of_their_attributes),
        cmocka_unit_test(binary_ops_want_one_shape_and_dtype),
        cmocka_unit_test(binary_ops_combine_places),
        cmocka_unit_test(axes_are_independent),
        cmocka_unit_test(select_is_linear_in_its_branches),
        cmocka_unit_test(only_linear_unary_ops_keep_partial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
