/*
 * gather_rows and scatter_add_rows through the engine: ids out of range, ignored and
 * repeated rows, accumulators kept and dropped, several tasks.
 */
#include "backend/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "graph/build.h"
#include "support/engine_run.h"

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static void rows_are_gathered(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *table =
        build_input(graph, "table", type_make(DTYPE_F32, 2, (int64_t[]){3, 2}));
    struct value *ids =
        build_input(graph, "ids", type_make(DTYPE_I32, 2, (int64_t[]){2, 2}));
    graph_add_output(graph, "y", build_gather_rows(graph, table, ids, -1), NULL);
    struct engine_run *run = engine_run_create(graph, NULL);
    memcpy(engine_run_argument(run, "table", 0), (float[]){1, 2, 3, 4, 5, 6}, 24);
    memcpy(engine_run_argument(run, "ids", 0), (int32_t[]){2, -1, 3, 0}, 16);
    engine_run_execute(run);
    assert_memory_equal(engine_run_output(run, "y", 0),
                        ((float[]){5, 6, 0, 0, 0, 0, 1, 2}), 32);
    engine_run_destroy(run);
}

/* acc [n_rows, width] += rows at ids; the same in a loop, in the same order. */
static void check_scatter(int64_t n_rows, int64_t width, int64_t n_ids, bool keeps,
                          enum dtype dtype)
{
    struct graph *graph = new_graph();
    struct value *acc =
        build_input(graph, "acc", type_make(dtype, 2, (int64_t[]){n_rows, width}));
    struct value *ids =
        build_input(graph, "ids", type_make(DTYPE_I32, 1, (int64_t[]){n_ids}));
    struct value *rows =
        build_input(graph, "rows", type_make(dtype, 2, (int64_t[]){n_ids, width}));
    struct value *keep = build_input(graph, "keep", type_scalar(DTYPE_BOOL));
    graph_add_output(graph, "y", build_scatter_add_rows(graph, acc, ids, rows, keep, 1),
                     acc);
    struct engine_run *run = engine_run_create(graph, NULL);
    engine_run_fill(run, 7, 1.0);
    const size_t n = (size_t)(n_rows * width);
    float *expected = mem_alloc_array(n, sizeof(*expected));
    float *added = mem_alloc_array((size_t)(n_ids * width), sizeof(*added));
    *(uint8_t *)engine_run_argument(run, "keep", 0) = keeps;
    int32_t *where = engine_run_argument(run, "ids", 0);
    for (int64_t i = 0; i < n_ids; i++) {
        where[i] = (int32_t)(i * 5 % (n_rows + 2)) - 1; /* -1 and n_rows are outside */
    }
    if (keeps) {
        dtype_to_f32(dtype, engine_run_argument(run, "acc", 0), expected, n);
    }
    dtype_to_f32(dtype, engine_run_argument(run, "rows", 0), added,
                 (size_t)(n_ids * width));
    for (int64_t i = 0; i < n_ids; i++) {
        for (int64_t j = 0; j < width; j++) {
            if (where[i] >= 0 && where[i] < n_rows && where[i] != 1) {
                float *sum = &expected[where[i] * width + j];
                *sum += added[i * width + j];
                if (dtype == DTYPE_BF16) {
                    *sum = dtype_f32_from_bf16(dtype_bf16_from_f32(*sum));
                }
            }
        }
    }
    engine_run_execute(run);
    float *found = mem_alloc_array(n, sizeof(*found));
    dtype_to_f32(dtype, engine_run_output(run, "y", 0), found, n);
    assert_memory_equal(found, expected, n * sizeof(*found));
    mem_free(found);
    mem_free(expected);
    mem_free(added);
    engine_run_destroy(run);
}

static void rows_are_added_in_order(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++) {
        for (int keeps = 0; keeps < 2; keeps++) {
            check_scatter(7, 3, 40, keeps != 0, dtypes[i]);
            check_scatter(90, 128, 700, keeps != 0, dtypes[i]); /* several tasks */
            check_scatter(2, 5000, 9, keeps != 0, dtypes[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_gathered),
        cmocka_unit_test(rows_are_added_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
