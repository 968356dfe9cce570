/*
 * Rules of the collectives: which place they need, and what they make of shapes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {2, 2, 4}};

static void gathers_join_what_is_split(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_ALL_GATHER, "f32[3,4]{tensor: split 1}", "f32[3,16]",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 1}},
        {OP_ALL_GATHER, "f32[3,4]{shard: split 0, tensor: split 1}",
         "f32[6,4]{tensor: split 1}",
         .attributes = {.mesh_axis = MESH_SHARD, .axis = 0}},
        {OP_ALL_GATHER, "f32[3,4]", "!on the tensor axis: the operand must be split",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 1}},
        {OP_ALL_GATHER, "f32[3,4]{tensor: partial}", "!the operand must be split",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 1}},
        {OP_ALL_GATHER, "f32[3,4]{tensor: split 1}", "!split along another dimension",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 0}},
        /* Blocks of both axes on one dimension: shard numbers the neighbours. */
        {OP_ALL_GATHER, "f32[3]{shard: split 0, tensor: split 0}",
         "f32[6]{tensor: split 0}", .attributes = {.mesh_axis = MESH_SHARD}},
        {OP_ALL_GATHER, "f32[3]{shard: split 0, tensor: split 0}",
         "!another axis cuts this dimension finer",
         .attributes = {.mesh_axis = MESH_TENSOR}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void scatters_cut_what_is_partial(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_REDUCE_SCATTER, "f32[8,3]{tensor: partial}", "f32[2,3]{tensor: split 0}",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 0}},
        {OP_REDUCE_SCATTER, "f32[8,3]{shard: partial, tensor: split 0}",
         "f32[4,3]{shard: split 0, tensor: split 0}",
         .attributes = {.mesh_axis = MESH_SHARD, .axis = 0}},
        {OP_REDUCE_SCATTER, "f32[8,3]{shard: split 0, tensor: partial}",
         "!already cuts this dimension finer",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 0}},
        {OP_REDUCE_SCATTER, "f32[8,3]", "!the operand must be partial",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 0}},
        {OP_REDUCE_SCATTER, "f32[8,3]{tensor: partial}",
         "!dimension 1 does not divide by the 4 ranks of the tensor axis",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 1}},
        {OP_REDUCE_SCATTER, "f32[8,3]{tensor: partial}", "!there is no dimension 2",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 2}},
        {OP_TAKE_SPLIT, "f32[8,3]", "f32[2,3]{tensor: split 0}",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 0}},
        {OP_TAKE_SPLIT, "f32[8,3]{tensor: partial}", "!the same on all ranks",
         .attributes = {.mesh_axis = MESH_TENSOR, .axis = 0}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void reductions_make_partial_same(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_ALL_REDUCE, "f32[8]{shard: split 0, tensor: partial}",
         "f32[8]{shard: split 0}", .attributes = {.mesh_axis = MESH_TENSOR}},
        {OP_ALL_REDUCE, "f32[8]{tensor: partial}", "f32[8]",
         .attributes = {.mesh_axis = MESH_TENSOR, .reduce = REDUCE_MAX}},
        {OP_ALL_REDUCE, "f32[8]", "!the operand must be partial",
         .attributes = {.mesh_axis = MESH_TENSOR}},
        {OP_ALL_REDUCE, "f32[8]{shard: split 0}", "!the operand must be partial",
         .attributes = {.mesh_axis = MESH_SHARD}},
        {OP_FAN_OUT, "f32[8]{shard: split 0}", "f32[8]{shard: split 0}",
         .attributes = {.mesh_axis = MESH_TENSOR}},
        {OP_FAN_OUT, "f32[8]{tensor: split 0}", "!the same on all ranks",
         .attributes = {.mesh_axis = MESH_TENSOR}},
        {OP_FAN_OUT, "f32[8]", "!there is no mesh axis 3",
         .attributes = {.mesh_axis = MESH_N_AXES}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void exchanges_move_the_split(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_ALL_TO_ALL, "f32[3,8]{tensor: split 0}", "f32[12,2]{tensor: split 1}",
         .attributes = {.mesh_axis = MESH_TENSOR, .n_axes = 2, .axes = {0, 1}}},
        {OP_ALL_TO_ALL, "f32[3,8]{tensor: split 1}", "!split along another dimension",
         .attributes = {.mesh_axis = MESH_TENSOR, .n_axes = 2, .axes = {0, 1}}},
        {OP_ALL_TO_ALL, "f32[3,6]{tensor: split 0}", "!dimension 1 does not divide",
         .attributes = {.mesh_axis = MESH_TENSOR, .n_axes = 2, .axes = {0, 1}}},
        {OP_ALL_TO_ALL, "f32[3,8]{tensor: split 0}", "!two different dimensions",
         .attributes = {.mesh_axis = MESH_TENSOR, .n_axes = 2, .axes = {0, 0}}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_join_what_is_split),
        cmocka_unit_test(scatters_cut_what_is_partial),
        cmocka_unit_test(reductions_make_partial_same),
        cmocka_unit_test(exchanges_move_the_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
