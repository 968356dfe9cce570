/*
 * Constants, counting and random bits; what is split over ranks counts globally, so the
 * parts put together are what one rank alone has.
 */
#include "backend/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "graph/build.h"
#include "support/engine_run.h"

static struct type split_type(enum dtype dtype, int64_t rows, int64_t columns)
{
    struct type type = type_make(dtype, 2, (int64_t[]){rows, columns});
    type.placement = placement_split(MESH_SHARD, 0);
    type.placement = placement_with(type.placement, MESH_TENSOR, PLACE_SPLIT, 1);
    return type;
}

static void constants_fill(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct type type = type_make(DTYPE_F32, 1, (int64_t[]){20000});
    graph_add_output(graph, "half", build_constant(graph, type, 0.5), NULL);
    type.dtype = DTYPE_I32;
    graph_add_output(graph, "minus", build_constant(graph, type, -3), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_execute(run);
    const float *half = engine_run_output(run, "half", 0);
    const int32_t *minus = engine_run_output(run, "minus", 0);
    for (int i = 0; i < 20000; i++) {
        assert_true(half[i] == 0.5f && minus[i] == -3);
    }
    engine_run_destroy(run);
}

/* [4, 6] over 2 x 3 ranks: blocks of [2, 2]. */
static void ranks_count_globally(void **state)
{
    (void)state;
    const struct mesh mesh = {{1, 2, 3}};
    struct graph *graph = graph_create(&mesh);
    graph_add_output(graph, "rows", build_iota(graph, split_type(DTYPE_I32, 2, 2), 0),
                     NULL);
    graph_add_output(graph, "columns",
                     build_iota(graph, split_type(DTYPE_F32, 2, 2), 1), NULL);
    graph_add_output(graph, "coordinate", build_axis_index(graph, MESH_TENSOR), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_execute(run);
    for (int rank = 0; rank < 6; rank++) {
        const int row = rank / 3 * 2;
        const int column = rank % 3 * 2;
        const int32_t rows[] = {row, row, row + 1, row + 1};
        const float columns[] = {(float)column, (float)(column + 1), (float)column,
                                 (float)(column + 1)};
        assert_memory_equal(engine_run_output(run, "rows", rank), rows, sizeof(rows));
        assert_memory_equal(engine_run_output(run, "columns", rank), columns,
                            sizeof(columns));
        assert_int_equal(*(const int32_t *)engine_run_output(run, "coordinate", rank),
                         rank % 3);
    }
    engine_run_destroy(run);
}

/* Element (i, j) of the global [200, 90] is number i * 90 + j of the stream. */
static void random_bits_do_not_depend_on_the_layout(void **state)
{
    (void)state;
    enum { ROWS = 200, COLUMNS = 90, PURPOSE = RANDOM_TEST };
    const struct mesh mesh = {{1, 2, 3}};
    struct graph *graph = graph_create(&mesh);
    struct value *seed = build_input(graph, "seed", type_scalar(DTYPE_U32));
    struct value *step = build_input(graph, "step", type_scalar(DTYPE_U32));
    graph_add_output(graph, "bits",
                     build_random_bits(graph, seed, step, PURPOSE,
                                       split_type(DTYPE_U32, ROWS / 2, COLUMNS / 3)),
                     NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    for (int rank = 0; rank < 6; rank++) {
        *(uint32_t *)engine_run_argument(run, "seed", rank) = 11;
        *(uint32_t *)engine_run_argument(run, "step", rank) = 4;
    }
    engine_run_execute(run);
    for (int rank = 0; rank < 6; rank++) {
        const uint32_t *bits = engine_run_output(run, "bits", rank);
        for (int i = 0; i < ROWS / 2; i++) {
            for (int j = 0; j < COLUMNS / 3; j++) {
                const int row = rank / 3 * (ROWS / 2) + i;
                const int column = rank % 3 * (COLUMNS / 3) + j;
                assert_int_equal(
                    bits[i * (COLUMNS / 3) + j],
                    random_bits(11, PURPOSE, 4, (uint64_t)(row * COLUMNS + column)));
            }
        }
    }
    engine_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_fill),
        cmocka_unit_test(ranks_count_globally),
        cmocka_unit_test(random_bits_do_not_depend_on_the_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
