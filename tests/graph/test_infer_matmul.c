/*
 * Rules of contraction and reduction. (D14, C39: tensor parallelism composes with the
 * others, or is refused while building.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {2, 2, 4}};

#define F32 .dtype = DTYPE_F32

static void products_have_the_outer_dimensions(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_MATMUL, "f32[2,3]; f32[3,5]", "f32[2,5]", .attributes = {F32}},
        {OP_MATMUL, "f32[3,2]; f32[3,5]", "f32[2,5]",
         .attributes = {F32, .transpose_a = true}},
        {OP_MATMUL, "f32[2,3]; f32[5,3]", "f32[2,5]",
         .attributes = {F32, .transpose_b = true}},
        {OP_MATMUL, "f32[3,2]; f32[5,3]", "f32[2,5]",
         .attributes = {F32, .transpose_a = true, .transpose_b = true}},
        {OP_MATMUL, "bf16[7,6,2,3]; bf16[7,6,3,5]", "f32[7,6,2,5]",
         .attributes = {F32}},
        {OP_MATMUL, "f64[2,3]; f64[3,5]", "f64[2,5]",
         .attributes = {.dtype = DTYPE_F64}},
        {OP_MATMUL, "f32[2,3]; f32[5,3]", "!contracted dimensions must be equal, not 3",
         .attributes = {F32}},
        {OP_MATMUL, "f32[4,2,3]; f32[5,3,2]", "!leading dimensions must be equal",
         .attributes = {F32}},
        {OP_MATMUL, "f32[4,2,3]; f32[3,2]", "!the same rank, at least 2",
         .attributes = {F32}},
        {OP_MATMUL, "f32[3]; f32[3]", "!the same rank, at least 2",
         .attributes = {F32}},
        {OP_MATMUL, "f64[2,3]; f32[3,5]", "!one floating-point dtype",
         .attributes = {F32}},
        {OP_MATMUL, "i32[2,3]; i32[3,5]", "!one floating-point dtype",
         .attributes = {F32}},
        {OP_MATMUL, "f32[2,3]; f32[3,5]", "!the result (i32) must be floating point",
         .attributes = {.dtype = DTYPE_I32}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

/* Every pair of parts that the operands' places can play; all dimensions are 4. */
static void products_combine_places(void **state)
{
    (void)state;
    static const char *const places[] = {"",
                                         "{tensor: partial}",
                                         "{tensor: split 0}",
                                         "{tensor: split 1}",
                                         "{tensor: split 2}",
                                         "{tensor: split 3}"};
    enum { S, P, B0, B1, ROW, COLUMN, N_PLACES };
    /* a [B0, B1, M, K] . b [B0, B1, K, N]; NULL is rejected. */
    static const char *const expected[N_PLACES][N_PLACES] = {
        [S][S] = "",
        [S][P] = "{tensor: partial}",
        [P][S] = "{tensor: partial}",
        [B0][B0] = "{tensor: split 0}",
        [B1][B1] = "{tensor: split 1}",
        [ROW][S] = "{tensor: split 2}",
        [S][COLUMN] = "{tensor: split 3}",
        [COLUMN][ROW] = "{tensor: partial}",
    };
    for (int flags = 0; flags < 4; flags++) {
        for (int a = 0; a < N_PLACES; a++) {
            for (int b = 0; b < N_PLACES; b++) {
                char operands[128];
                snprintf(operands, sizeof(operands), "f32[4,4,4,4]%s; f32[4,4,4,4]%s",
                         places[a], places[b]);
                /* A transposed operand plays the other part with its last two. */
                const bool ta = (flags & 1) != 0;
                const bool tb = (flags & 2) != 0;
                const int role_a = ta && a >= ROW ? ROW + COLUMN - a : a;
                const int role_b = tb && b >= ROW ? ROW + COLUMN - b : b;
                char result[64] = "!accepted are: one batch dimension split on both";
                if (expected[role_a][role_b] != NULL) {
                    snprintf(result, sizeof(result), "f32[4,4,4,4]%s",
                             expected[role_a][role_b]);
                }
                const struct rule_case one = {
                    OP_MATMUL, operands, result,
                    .attributes = {F32, .transpose_a = ta, .transpose_b = tb}};
                rule_cases_check(&mesh, &one, 1);
            }
        }
    }
}

static void products_follow_each_axis(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        /* Column-parallel, then row-parallel, rows of the batch split over shard. */
        {OP_MATMUL, "f32[8,4]{shard: split 0}; f32[2,4]{tensor: split 0}",
         "f32[8,2]{shard: split 0, tensor: split 1}",
         .attributes = {F32, .transpose_b = true}},
        {OP_MATMUL,
         "f32[8,2]{shard: split 0, tensor: split 1}; "
         "f32[4,2]{tensor: split 1}",
         "f32[8,4]{shard: split 0, tensor: partial}",
         .attributes = {F32, .transpose_b = true}},
        /* A weight gradient: tokens are contracted. */
        {OP_MATMUL,
         "f32[8,2]{shard: split 0, tensor: split 1}; "
         "f32[8,4]{shard: split 0}",
         "f32[2,4]{shard: partial, tensor: split 0}",
         .attributes = {F32, .transpose_a = true}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void accumulators_have_the_products_type(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_MATMUL, "f32[2,3]; f32[3,5]; f32[2,5]", "f32[2,5]", .attributes = {F32}},
        {OP_MATMUL, "f32[2,3]; f32[3,5]; f32[2,5]; bool[]", "f32[2,5]",
         .attributes = {F32}},
        {OP_MATMUL,
         "f32[2,3]{shard: split 1}; f32[3,5]{shard: split 0}; f32[2,5]{shard: partial}",
         "f32[2,5]{shard: partial}", .attributes = {F32}},
        {OP_MATMUL, "f32[2,3]{shard: split 1}; f32[3,5]{shard: split 0}; f32[2,5]",
         "!the accumulator must have the product's type f32[2,5]{shard: partial}",
         .attributes = {F32}},
        {OP_MATMUL, "f32[2,3]; f32[3,5]; f32[2,5]{shard: partial}",
         "!the accumulator must have the product's type f32[2,5]", .attributes = {F32}},
        {OP_MATMUL, "bf16[2,3]; bf16[3,5]; bf16[2,5]", "!the accumulator must have",
         .attributes = {F32}},
        {OP_MATMUL, "f32[2,3]; f32[3,5]; f32[5,2]", "!the accumulator must have",
         .attributes = {F32}},
        {OP_MATMUL, "f32[2,3]; f32[3,5]; f32[2,5]; f32[]",
         "!keep (operand 3) must be a bool scalar", .attributes = {F32}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void reductions_drop_dimensions(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_REDUCE_SUM, "f32[2,3,4]", "f32[2,4]",
         .attributes = {.n_axes = 1, .axes = {1}}},
        {OP_REDUCE_SUM, "f32[2,3,4]", "f32[]",
         .attributes = {.n_axes = 3, .axes = {0, 1, 2}}},
        {OP_REDUCE_SUM, "f32[2,3]", "f32[2,3]", .attributes = {.n_axes = 0}},
        {OP_REDUCE_SUM, "f32[2,3]", "!ascending",
         .attributes = {.n_axes = 2, .axes = {1, 0}}},
        {OP_REDUCE_SUM, "f32[2,3]", "!dimensions of the operand",
         .attributes = {.n_axes = 1, .axes = {2}}},
        {OP_REDUCE_SUM, "bool[2]", "!must hold numbers",
         .attributes = {.n_axes = 1, .axes = {0}}},
        {OP_REDUCE_MAX, "f32[2,3]", "f32[3]", .attributes = {.n_axes = 1, .axes = {0}}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void reductions_combine_places(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_REDUCE_SUM, "f32[2,3,4]{shard: split 2}", "f32[2,4]{shard: split 1}",
         .attributes = {.n_axes = 1, .axes = {1}}},
        {OP_REDUCE_SUM, "f32[2,3,4]{shard: split 0}", "f32[2,4]{shard: split 0}",
         .attributes = {.n_axes = 1, .axes = {1}}},
        {OP_REDUCE_SUM, "f32[2,3,4]{shard: split 1}", "f32[2,4]{shard: partial}",
         .attributes = {.n_axes = 1, .axes = {1}}},
        {OP_REDUCE_SUM, "f32[2,3]{replica: split 0, shard: split 0, tensor: split 1}",
         "f32[3]{replica: partial, shard: partial, tensor: split 0}",
         .attributes = {.n_axes = 1, .axes = {0}}},
        {OP_REDUCE_SUM, "f32[2,3]{shard: partial}", "f32[3]{shard: partial}",
         .attributes = {.n_axes = 1, .axes = {0}}},
        {OP_REDUCE_MAX, "f32[2,3]{shard: split 1}", "f32[3]{shard: split 0}",
         .attributes = {.n_axes = 1, .axes = {0}}},
        {OP_REDUCE_MAX, "f32[2,3]{shard: split 0}", "f32[3]{shard: partial}",
         .attributes = {.n_axes = 1, .axes = {0}}},
        {OP_REDUCE_MAX, "f32[2,3]{shard: partial}", "!the op is not linear",
         .attributes = {.n_axes = 1, .axes = {0}}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_the_outer_dimensions),
        cmocka_unit_test(products_combine_places),
        cmocka_unit_test(products_follow_each_axis),
        cmocka_unit_test(accumulators_have_the_products_type),
        cmocka_unit_test(reductions_drop_dimensions),
        cmocka_unit_test(reductions_combine_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
