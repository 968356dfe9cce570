/*
 * Ranks to coordinates and back, for all small grids.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mesh/mesh.h"

static void one_rank_stands_at_the_origin(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    assert_int_equal(mesh_n_ranks(&mesh), 1);
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        assert_int_equal(mesh_coordinate(&mesh, 0, axis), 0);
    }
}

static void rank_numbers_are_row_major(void **state)
{
    (void)state;
    for (int r = 1; r <= 3; r++) {
        for (int s = 1; s <= 5; s++) {
            for (int t = 1; t <= 4; t++) {
                const struct mesh mesh = {.size = {r, s, t}};
                assert_int_equal(mesh_n_ranks(&mesh), r * s * t);
                for (int rank = 0; rank < r * s * t; rank++) {
                    const int a = mesh_coordinate(&mesh, rank, MESH_REPLICA);
                    const int b = mesh_coordinate(&mesh, rank, MESH_SHARD);
                    const int c = mesh_coordinate(&mesh, rank, MESH_TENSOR);
                    assert_in_range(a, 0, r - 1);
                    assert_in_range(b, 0, s - 1);
                    assert_in_range(c, 0, t - 1);
                    assert_int_equal((a * s + b) * t + c, rank);
                }
            }
        }
    }
}

static void neighbours_differ_along_one_axis_only(void **state)
{
    (void)state;
    const struct mesh mesh = {.size = {2, 3, 4}};
    for (int rank = 0; rank < 24; rank++) {
        for (int axis = 0; axis < MESH_N_AXES; axis++) {
            for (int c = 0; c < mesh.size[axis]; c++) {
                const int other = mesh_neighbour(&mesh, rank, axis, c);
                for (int i = 0; i < MESH_N_AXES; i++) {
                    assert_int_equal(mesh_coordinate(&mesh, other, i),
                                     i == axis ? c : mesh_coordinate(&mesh, rank, i));
                }
            }
        }
    }
}

static void axes_have_names(void **state)
{
    (void)state;
    assert_string_equal(mesh_axis_name(MESH_REPLICA), "replica");
    assert_string_equal(mesh_axis_name(MESH_SHARD), "shard");
    assert_string_equal(mesh_axis_name(MESH_TENSOR), "tensor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_stands_at_the_origin),
        cmocka_unit_test(rank_numbers_are_row_major),
        cmocka_unit_test(neighbours_differ_along_one_axis_only),
        cmocka_unit_test(axes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
