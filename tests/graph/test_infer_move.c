/*
 * Rules of ops that move elements: shapes, and where splits and partial sums go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {2, 2, 4}};

#define SHAPE(...) \
    .shape = {.rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .dim = {__VA_ARGS__}}
#define PLACED(mesh_axis, kind, dim) .placement = {.axis = {[mesh_axis] = {kind, dim}}}

static void transposes_carry_splits_along(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_TRANSPOSE, "f32[2,3,4]{shard: split 0, tensor: partial}",
         "f32[4,2,3]{shard: split 1, tensor: partial}",
         .attributes = {.n_axes = 3, .axes = {2, 0, 1}}},
        {OP_TRANSPOSE, "f32[2,3]", "!permutation of 0 .. 1",
         .attributes = {.n_axes = 2, .axes = {0, 0}}},
        {OP_TRANSPOSE, "f32[2,3]", "!permutation",
         .attributes = {.n_axes = 1, .axes = {0}}},
        {OP_TRANSPOSE, "f32[2,3]", "!permutation",
         .attributes = {.n_axes = 2, .axes = {0, 2}}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void broadcasts_stretch_and_add_dimensions(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_BROADCAST, "f32[3]", "f32[2,3]",
         .attributes = {.n_axes = 1, .axes = {1}, SHAPE(2, 3)}},
        {OP_BROADCAST, "f32[]", "f32[2,3]", .attributes = {SHAPE(2, 3)}},
        {OP_BROADCAST, "f32[2,1]", "f32[2,3]",
         .attributes = {.n_axes = 2, .axes = {0, 1}, SHAPE(2, 3)}},
        {OP_BROADCAST, "f32[2]", "!each dimension must become an equal one",
         .attributes = {.n_axes = 1, .axes = {1}, SHAPE(2, 3)}},
        {OP_BROADCAST, "f32[2,2]", "!ascending order",
         .attributes = {.n_axes = 2, .axes = {1, 0}, SHAPE(2, 2)}},
        {OP_BROADCAST, "f32[2]", "!each dimension must become",
         .attributes = {.n_axes = 1, .axes = {2}, SHAPE(2, 2)}},
        {OP_BROADCAST, "f32[2,2]", "!each dimension must become",
         .attributes = {.n_axes = 1, .axes = {0}, SHAPE(2, 2)}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void broadcasts_may_split_what_is_new(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_BROADCAST, "f32[3]", "f32[2,3]{shard: split 0}",
         .attributes = {.n_axes = 1,
                        .axes = {1},
                        SHAPE(2, 3),
                        PLACED(MESH_SHARD, PLACE_SPLIT, 0)}},
        {OP_BROADCAST, "f32[1,3]", "f32[2,3]{shard: split 0}",
         .attributes = {.n_axes = 2,
                        .axes = {0, 1},
                        SHAPE(2, 3),
                        PLACED(MESH_SHARD, PLACE_SPLIT, 0)}},
        {OP_BROADCAST, "f32[3]{shard: split 0}", "f32[2,3]{shard: split 1}",
         .attributes = {.n_axes = 1,
                        .axes = {1},
                        SHAPE(2, 3),
                        PLACED(MESH_SHARD, PLACE_SPLIT, 1)}},
        {OP_BROADCAST, "f32[3]{shard: partial}", "f32[2,3]{shard: partial}",
         .attributes = {.n_axes = 1,
                        .axes = {1},
                        SHAPE(2, 3),
                        PLACED(MESH_SHARD, PLACE_PARTIAL, 0)}},
        /* Equal elements on all ranks are not a block of something longer. */
        {OP_BROADCAST, "f32[3]", "!on the shard axis",
         .attributes = {.n_axes = 1,
                        .axes = {1},
                        SHAPE(2, 3),
                        PLACED(MESH_SHARD, PLACE_SPLIT, 1)}},
        {OP_BROADCAST, "f32[3]{shard: split 0}", "!on the shard axis",
         .attributes = {.n_axes = 1, .axes = {1}, SHAPE(2, 3)}},
        {OP_BROADCAST, "f32[3]{shard: split 0}", "!on the shard axis",
         .attributes = {.n_axes = 1,
                        .axes = {1},
                        SHAPE(2, 3),
                        PLACED(MESH_SHARD, PLACE_SPLIT, 0)}},
        {OP_BROADCAST, "f32[1]{shard: split 0}", "!on the shard axis",
         .attributes =
             {.n_axes = 1, .axes = {0}, SHAPE(5), PLACED(MESH_SHARD, PLACE_SPLIT, 0)}},
        {OP_BROADCAST, "f32[3]{shard: partial}", "!on the shard axis",
         .attributes = {.n_axes = 1, .axes = {1}, SHAPE(2, 3)}},
        {OP_BROADCAST, "f32[3]", "!on the shard axis",
         .attributes = {.n_axes = 1,
                        .axes = {1},
                        SHAPE(2, 3),
                        PLACED(MESH_SHARD, PLACE_PARTIAL, 0)}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void slices_and_pads_leave_split_dimensions_whole(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_SLICE, "f32[4,6]", "f32[2,3]",
         .attributes = {.start = {1, 3}, .limit = {3, 6}}},
        {OP_SLICE, "f32[4,6]{shard: split 0, tensor: partial}",
         "f32[4,3]{shard: split 0, tensor: partial}",
         .attributes = {.start = {0, 3}, .limit = {4, 6}}},
        {OP_SLICE, "f32[4,6]{shard: split 0}", "!dimension 0 is split",
         .attributes = {.start = {1, 3}, .limit = {3, 6}}},
        {OP_SLICE, "f32[4]", "![2, 5) is no part of dimension 0",
         .attributes = {.start = {2}, .limit = {5}}},
        {OP_SLICE, "f32[4]", "![2, 2) is no part of dimension 0",
         .attributes = {.start = {2}, .limit = {2}}},
        {OP_SLICE, "f32[4]", "![-1, 2) is no part of dimension 0",
         .attributes = {.start = {-1}, .limit = {2}}},
        {OP_PAD, "f32[4,6]{tensor: partial}", "f32[7,6]{tensor: partial}",
         .attributes = {.start = {1}, .limit = {2}}},
        {OP_PAD, "f32[4,6]{shard: split 0}", "!dimension 0 is split",
         .attributes = {.start = {1}, .limit = {0}}},
        {OP_PAD, "f32[4]", "!padding of dimension 0 is negative",
         .attributes = {.start = {-1}, .limit = {0}}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void concat_joins_parts_placed_alike(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_CONCAT, "f32[2,3]; f32[2,1]; f32[2,2]", "f32[2,6]",
         .attributes = {.axis = 1}},
        {OP_CONCAT, "f32[2,3]{shard: partial}; f32[2,1]{shard: partial}",
         "f32[2,4]{shard: partial}", .attributes = {.axis = 1}},
        {OP_CONCAT, "f32[2,3]{shard: split 0}; f32[2,1]{shard: split 0}",
         "f32[2,4]{shard: split 0}", .attributes = {.axis = 1}},
        {OP_CONCAT, "f32[2,3]; f32[2,3]{shard: partial}", "!one placement",
         .attributes = {.axis = 1}},
        {OP_CONCAT, "f32[2,3]; f32[1,3]", "!one shape but for dimension 1",
         .attributes = {.axis = 1}},
        {OP_CONCAT, "f32[2,3]; f32[2]", "!one shape but for dimension 1",
         .attributes = {.axis = 1}},
        CASE(OP_CONCAT, "f32[2]; i32[2]", "!one dtype"),
        CASE(OP_CONCAT, "f32[2]{shard: split 0}; f32[2]{shard: split 0}",
             "!dimension 0 is split"),
        {OP_CONCAT, "f32[2]", "!there is no dimension 1", .attributes = {.axis = 1}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void dynamic_slices_start_alike_on_all_ranks(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_DYNAMIC_SLICE, "f32[4,6]{shard: partial}; i32[]",
         "f32[4,2]{shard: partial}", .attributes = {.axis = 1, .size = 2}},
        {OP_DYNAMIC_SLICE, "f32[4,6]{shard: split 0}; i32[]",
         "f32[4,2]{shard: split 0}", .attributes = {.axis = 1, .size = 2}},
        {OP_DYNAMIC_SLICE, "f32[4,6]{shard: split 1}; i32[]", "!dimension 1 is split",
         .attributes = {.axis = 1, .size = 2}},
        {OP_DYNAMIC_SLICE, "f32[4]; i32[1]", "!start (operand 1) must be a i32 scalar",
         .attributes = {.size = 2}},
        {OP_DYNAMIC_SLICE, "f32[4]; i32[]", "!size 5 does not fit",
         .attributes = {.size = 5}},
        {OP_DYNAMIC_SLICE, "f32[4]; i32[]", "!there is no dimension 1",
         .attributes = {.axis = 1, .size = 2}},
        {OP_DYNAMIC_UPDATE_SLICE, "f32[4,6]; f32[4,2]; i32[]", "f32[4,6]",
         .attributes = {.axis = 1}},
        {OP_DYNAMIC_UPDATE_SLICE,
         "f32[4,6]{shard: partial}; f32[4,2]{shard: partial}; i32[]",
         "f32[4,6]{shard: partial}", .attributes = {.axis = 1}},
        {OP_DYNAMIC_UPDATE_SLICE, "f32[4,6]{shard: partial}; f32[4,2]; i32[]",
         "!the part must have the operand's type", .attributes = {.axis = 1}},
        {OP_DYNAMIC_UPDATE_SLICE, "f32[4,6]; f32[4,7]; i32[]",
         "!the part must have the operand's type", .attributes = {.axis = 1}},
        {OP_DYNAMIC_UPDATE_SLICE, "f32[4,6]; f32[4]; i32[]",
         "!the part must have the operand's type", .attributes = {.axis = 1}},
        CASE(OP_DYNAMIC_UPDATE_SLICE,
             "f32[4]{shard: split 0}; f32[2]{shard: split 0}; i32[]",
             "!dimension 0 is split"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

/* Where a split goes when dimensions merge and come apart. */
static void reshapes_keep_the_global_array(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        {OP_RESHAPE, "f32[2,6]", "f32[3,4]", .attributes = {SHAPE(3, 4)}},
        {OP_RESHAPE, "f32[2,6]", "!f32[5,2] has another number",
         .attributes = {SHAPE(5, 2)}},
        {OP_RESHAPE, "f32[2,6]{shard: partial}", "f32[12]{shard: partial}",
         .attributes = {SHAPE(12)}},
        /* [B, T, D] <-> [B*T, D], rows split */
        {OP_RESHAPE, "f32[2,8,3]{shard: split 0}", "f32[16,3]{shard: split 0}",
         .attributes = {SHAPE(16, 3)}},
        {OP_RESHAPE, "f32[16,3]{shard: split 0}", "f32[2,8,3]{shard: split 0}",
         .attributes = {SHAPE(2, 8, 3)}},
        /* [B, T, H*K] <-> [B, T, H, K], heads split; one head left */
        {OP_RESHAPE, "f32[2,8,12]{tensor: split 2}", "f32[2,8,3,4]{tensor: split 2}",
         .attributes = {SHAPE(2, 8, 3, 4)}},
        {OP_RESHAPE, "f32[2,8,3,4]{tensor: split 2}", "f32[2,8,12]{tensor: split 2}",
         .attributes = {SHAPE(2, 8, 12)}},
        {OP_RESHAPE, "f32[2,8,1,4]{tensor: split 2}", "f32[2,8,4]{tensor: split 2}",
         .attributes = {SHAPE(2, 8, 4)}},
        {OP_RESHAPE, "f32[2,8,4]{tensor: split 2}", "f32[2,8,1,4]{tensor: split 3}",
         .attributes = {SHAPE(2, 8, 1, 4)}},
        /* New dimensions of length 1 are passed by. */
        {OP_RESHAPE, "f32[4,3]{shard: split 0}", "f32[1,4,3]{shard: split 1}",
         .attributes = {SHAPE(1, 4, 3)}},
        {OP_RESHAPE, "f32[4,3]{shard: split 0}", "f32[4,1,3]{shard: split 0}",
         .attributes = {SHAPE(4, 1, 3)}},
        /* The same shape keeps its split, even of a length of 1. */
        {OP_RESHAPE, "f32[1,1,3]{shard: split 0}", "f32[1,1,3]{shard: split 0}",
         .attributes = {SHAPE(1, 1, 3)}},
        /* Two axes on one dimension, and on two that stay apart. */
        {OP_RESHAPE, "f32[4,3]{replica: split 0, shard: split 0}",
         "f32[2,2,3]{replica: split 0, shard: split 0}",
         .attributes = {SHAPE(2, 2, 3)}},
        {OP_RESHAPE, "f32[4,8,6]{shard: split 0, tensor: split 2}",
         "f32[32,6]{shard: split 0, tensor: split 1}", .attributes = {SHAPE(32, 6)}},
        /* The second of two merged ones: its blocks lie apart. */
        {OP_RESHAPE, "f32[4,3]{shard: split 1}", "!must be the first of those",
         .attributes = {SHAPE(12)}},
        {OP_RESHAPE, "f32[1]{shard: split 0}", "!must be the first of those",
         .attributes = {.shape = {.rank = 0}}},
        {OP_RESHAPE, "f32[12]{shard: split 0}", "f32[3,4]{shard: split 0}",
         .attributes = {SHAPE(3, 4)}},
        /* Rows of 1: merging would number the blocks by the wrong axis first. */
        {OP_RESHAPE, "f32[1,4]{shard: split 0, tensor: split 1}",
         "!would change their order", .attributes = {SHAPE(4)}},
        {OP_RESHAPE, "f32[1,4]{shard: split 1, tensor: split 0}",
         "f32[4]{shard: split 0, tensor: split 0}", .attributes = {SHAPE(4)}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void reshapes_accept_a_proven_placement(void **state)
{
    (void)state;
#define GIVEN(axis, kind, dim) .has_placement = true, PLACED(axis, kind, dim)
    static const struct rule_case cases[] = {
        {OP_RESHAPE, "f32[2,8,4]{tensor: split 2}", "f32[2,8,1,4]{tensor: split 2}",
         .attributes = {SHAPE(2, 8, 1, 4), GIVEN(MESH_TENSOR, PLACE_SPLIT, 2)}},
        {OP_RESHAPE, "f32[1,1,4]{shard: split 0}", "f32[1,4]{shard: split 0}",
         .attributes = {SHAPE(1, 4), GIVEN(MESH_SHARD, PLACE_SPLIT, 0)}},
        {OP_RESHAPE, "f32[2,8,4]{tensor: split 2}", "!on the tensor axis",
         .attributes = {SHAPE(16, 4), GIVEN(MESH_TENSOR, PLACE_SPLIT, 0)}},
        {OP_RESHAPE, "f32[2,8]{tensor: split 0}", "!on the tensor axis",
         .attributes = {SHAPE(16), GIVEN(MESH_TENSOR, PLACE_SPLIT, 1)}},
        {OP_RESHAPE, "f32[2,8]{tensor: split 0}", "!on the tensor axis",
         .attributes = {SHAPE(16), .has_placement = true}},
        {OP_RESHAPE, "f32[2,8]", "!on the tensor axis",
         .attributes = {SHAPE(16), GIVEN(MESH_TENSOR, PLACE_SPLIT, 0)}},
        {OP_RESHAPE, "f32[2,8]{tensor: partial}", "!on the tensor axis",
         .attributes = {SHAPE(16), .has_placement = true}},
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void lookups_place_rows_by_ids_and_table(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        CASE(OP_GATHER_ROWS, "f32[9,4]; i32[2,3]", "f32[2,3,4]"),
        CASE(OP_GATHER_ROWS, "f32[9]; i32[]", "f32[]"),
        CASE(OP_GATHER_ROWS, "f32[9,4]; i32[2,3]{shard: split 1}",
             "f32[2,3,4]{shard: split 1}"),
        CASE(OP_GATHER_ROWS, "f32[9,4]{tensor: split 1}; i32[2,3]{shard: split 0}",
             "f32[2,3,4]{shard: split 0, tensor: split 2}"),
        CASE(OP_GATHER_ROWS, "f32[9,4]{tensor: split 0}; i32[2,3]",
             "f32[2,3,4]{tensor: partial}"),
        CASE(OP_GATHER_ROWS, "f32[9,4]{tensor: partial}; i32[2,3]",
             "f32[2,3,4]{tensor: partial}"),
        /* Each rank's ids number its own rows. */
        CASE(OP_GATHER_ROWS, "f32[9,4]{shard: split 0}; i32[2]{shard: split 0}",
             "f32[2,4]{shard: split 0}"),
        CASE(OP_GATHER_ROWS, "f32[9,4]{shard: split 1}; i32[2]{shard: split 0}",
             "!on the shard axis: ids may be split where the table is same"),
        CASE(OP_GATHER_ROWS, "f32[9,4]{shard: partial}; i32[2]{shard: split 0}",
             "!on the shard axis"),
        CASE(OP_GATHER_ROWS, "f32[9,4]; i32[2]{shard: partial}", "!on the shard axis"),
        CASE(OP_GATHER_ROWS, "f32[9,4]; f32[2]", "!ids must be i32"),
        CASE(OP_GATHER_ROWS, "f32[]; i32[2]", "!the table needs a first dimension"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

static void scatters_are_placed_as_their_accumulator(void **state)
{
    (void)state;
    static const struct rule_case cases[] = {
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]; i32[2,3]; f32[2,3,4]", "f32[9,4]"),
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]; i32[2,3]; f32[2,3,4]; bool[]", "f32[9,4]"),
        CASE(OP_SCATTER_ADD_ROWS,
             "f32[9,4]{shard: partial}; i32[2]{shard: split 0}; f32[2,4]{shard: split "
             "0}",
             "f32[9,4]{shard: partial}"),
        CASE(OP_SCATTER_ADD_ROWS,
             "f32[9,4]{shard: partial}; i32[2]; f32[2,4]{shard: partial}",
             "f32[9,4]{shard: partial}"),
        CASE(OP_SCATTER_ADD_ROWS,
             "f32[9,4]{tensor: split 1}; i32[2]; f32[2,4]{tensor: split 1}",
             "f32[9,4]{tensor: split 1}"),
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]{tensor: split 0}; i32[2]; f32[2,4]",
             "f32[9,4]{tensor: split 0}"),
        CASE(OP_SCATTER_ADD_ROWS,
             "f32[9,4]{shard: split 0}; i32[2]{shard: split 0}; f32[2,4]{shard: split "
             "0}",
             "f32[9,4]{shard: split 0}"),
        CASE(OP_SCATTER_ADD_ROWS,
             "f32[9,4]{shard: split 1}; i32[2]{shard: split 0}; f32[2,4]{shard: split "
             "0}",
             "!on the shard axis"),
        CASE(OP_SCATTER_ADD_ROWS,
             "f32[9,4]; i32[2]{shard: split 0}; f32[2,4]{shard: split 0}",
             "!on the shard axis: the accumulator must be partial"),
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]; i32[2]; f32[2,4]{shard: partial}",
             "!on the shard axis"),
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]{shard: partial}; i32[2]; f32[2,4]",
             "!on the shard axis"),
        CASE(OP_SCATTER_ADD_ROWS,
             "f32[9,4]{shard: partial}; i32[2]{shard: split 0}; f32[2,4]",
             "!on the shard axis"),
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]; i32[2]; bf16[2,4]",
             "!rows must have the accumulator's dtype"),
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]; i32[2]; f32[3,4]", "!one row per id"),
        CASE(OP_SCATTER_ADD_ROWS, "f32[9,4]; i32[2]; f32[2,4]; i32[]",
             "!keep (operand 3) must be a bool scalar"),
    };
    rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes_carry_splits_along),
        cmocka_unit_test(broadcasts_stretch_and_add_dimensions),
        cmocka_unit_test(broadcasts_may_split_what_is_new),
        cmocka_unit_test(slices_and_pads_leave_split_dimensions_whole),
        cmocka_unit_test(concat_joins_parts_placed_alike),
        cmocka_unit_test(dynamic_slices_start_alike_on_all_ranks),
        cmocka_unit_test(reshapes_keep_the_global_array),
        cmocka_unit_test(reshapes_accept_a_proven_placement),
        cmocka_unit_test(lookups_place_rows_by_ids_and_table),
        cmocka_unit_test(scatters_are_placed_as_their_accumulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
