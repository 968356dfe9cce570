/*
 * Placements compare, print, and number their blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mesh/placement.h"

static void changes_one_axis(void **state)
{
    (void)state;
    const struct placement same = placement_same();
    const struct placement split = placement_split(MESH_TENSOR, 2);
    assert_true(placement_is_same(&same));
    assert_false(placement_is_same(&split));
    assert_false(placement_equal(&same, &split));
    assert_false(placement_has_partial(&split));

    const struct placement partial =
        placement_with(split, MESH_SHARD, PLACE_PARTIAL, 0);
    assert_true(placement_has_partial(&partial));
    const struct placement back = placement_with(
        placement_with(partial, MESH_SHARD, PLACE_SAME, 0), MESH_TENSOR, PLACE_SAME, 2);
    assert_true(placement_is_same(&back)); /* dim counts for splits only */
    const struct placement other = placement_split(MESH_TENSOR, 1);
    assert_false(placement_equal(&split, &other));
}

static void prints_what_is_not_same(void **state)
{
    (void)state;
    char text[96];
    struct placement placement = placement_same();
    assert_string_equal(placement_format(text, &placement), "");
    placement = placement_with(placement, MESH_SHARD, PLACE_SPLIT, 0);
    assert_string_equal(placement_format(text, &placement), "{shard: split 0}");
    placement = placement_with(placement, MESH_TENSOR, PLACE_PARTIAL, 0);
    placement = placement_with(placement, MESH_REPLICA, PLACE_SPLIT, 5);
    assert_string_equal(placement_format(text, &placement),
                        "{replica: split 5, shard: split 0, tensor: partial}");
}

/* Every block of a dimension is held by as many ranks as the other axes have. */
static void blocks_cover_the_dimension(void **state)
{
    (void)state;
    const struct mesh mesh = {.size = {2, 3, 4}};
    for (int mask = 0; mask < 8; mask++) {
        struct placement placement = placement_same();
        int n = 1;
        for (int axis = 0; axis < MESH_N_AXES; axis++) {
            if ((mask >> axis & 1) != 0) {
                placement = placement_with(placement, axis, PLACE_SPLIT, 1);
                n *= mesh.size[axis];
            }
        }
        assert_int_equal(placement_n_blocks(&placement, &mesh, 1), n);
        assert_int_equal(placement_n_blocks(&placement, &mesh, 0), 1);
        int holders[24] = {0};
        for (int rank = 0; rank < 24; rank++) {
            const int block = placement_block(&placement, &mesh, rank, 1);
            assert_in_range(block, 0, n - 1);
            holders[block]++;
            assert_int_equal(placement_block(&placement, &mesh, rank, 0), 0);
        }
        for (int block = 0; block < n; block++) {
            assert_int_equal(holders[block], 24 / n);
        }
    }
}

/* Rows of a batch are in rank order; a matrix gathered over shard is one run. */
static void shard_numbers_the_finest_blocks(void **state)
{
    (void)state;
    const struct mesh mesh = {.size = {2, 3, 4}};
    struct placement batch = placement_split(MESH_REPLICA, 0);
    batch = placement_with(batch, MESH_SHARD, PLACE_SPLIT, 0);
    struct placement matrix = placement_split(MESH_TENSOR, 0);
    matrix = placement_with(matrix, MESH_SHARD, PLACE_SPLIT, 0);
    for (int rank = 0; rank < 24; rank++) {
        assert_int_equal(placement_block(&batch, &mesh, rank, 0), rank / 4);
        const int shard = mesh_coordinate(&mesh, rank, MESH_SHARD);
        const int tensor = mesh_coordinate(&mesh, rank, MESH_TENSOR);
        assert_int_equal(placement_block(&matrix, &mesh, rank, 0), tensor * 3 + shard);
    }
    assert_true(placement_is_finest(&matrix, MESH_SHARD));
    assert_false(placement_is_finest(&matrix, MESH_TENSOR));
    assert_false(placement_is_finest(&matrix, MESH_REPLICA)); /* splits nothing */
    matrix = placement_with(matrix, MESH_SHARD, PLACE_SPLIT, 1);
    assert_true(placement_is_finest(&matrix, MESH_TENSOR));
    assert_true(placement_is_major(MESH_REPLICA, MESH_TENSOR));
    assert_true(placement_is_major(MESH_TENSOR, MESH_SHARD));
    assert_false(placement_is_major(MESH_SHARD, MESH_TENSOR));
    assert_false(placement_is_major(MESH_SHARD, MESH_SHARD));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_one_axis),
        cmocka_unit_test(prints_what_is_not_same),
        cmocka_unit_test(blocks_cover_the_dimension),
        cmocka_unit_test(shard_numbers_the_finest_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
