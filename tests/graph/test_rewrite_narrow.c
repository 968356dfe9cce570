/*
 * Weights in bf16 are read as they are: products and lookups lose their casts, other uses
 * keep them, and results are the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "graph/build.h"
#include "graph/rewrite.h"
#include "support/engine_run.h"

enum { N = 48, K = 37 };

/* Rows of few and of many: products by single dots, and by tiles. */
static const int64_t lengths[] = {1, 5, 40};

/* Lookups in a table, a product with it, and a use that stays: y = x W^T + norm. */
static struct graph *make_graph(enum dtype stored, int64_t T)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *table =
        build_parameter(graph, "table", type_make(stored, 2, (int64_t[]){N, K}), false);
    struct value *vector =
        build_parameter(graph, "vector", type_make(stored, 1, (int64_t[]){K}), false);
    struct value *ids =
        build_input(graph, "ids", type_make(DTYPE_I32, 1, (int64_t[]){T}));
    struct value *used = build_use_param(graph, table, DTYPE_F32);
    struct value *rows = build_embed(graph, used, ids, 3.5, -1);
    struct value *normed = build_rms_norm(
        graph, rows, build_use_param(graph, vector, DTYPE_F32), 1e-6, true);
    graph_add_output(graph, "rows", rows, NULL);
    graph_add_output(graph, "gathered", build_gather_rows(graph, used, ids, -1), NULL);
    graph_add_output(graph, "product", build_linear(graph, normed, used), NULL);
    return graph;
}

static int count_casts(const struct graph *graph)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        n += node->op == OP_CAST && node->inputs[0]->node->op == OP_PARAMETER;
    }
    return n;
}

static bool is_use_param(const struct node *node)
{
    return node->op == OP_USE_PARAM;
}

/* Of the two parameters only the vector is still cast as a whole. */
static void casts_of_matrices_go(void **state)
{
    (void)state;
    struct graph *graph = make_graph(DTYPE_BF16, 5);
    struct graph *lowered = rewrite_lower(graph, is_use_param, false);
    assert_int_equal(count_casts(lowered), 2);
    struct graph *narrow = rewrite_narrow(lowered);
    struct graph *simple = rewrite_simplify(narrow);
    assert_int_equal(count_casts(simple), 1);
    graph_destroy(simple);
    graph_destroy(narrow);
    graph_destroy(lowered);
    graph_destroy(graph);
}

/* Nothing is cast, so nothing changes. */
static void f32_weights_stay(void **state)
{
    (void)state;
    struct graph *graph = make_graph(DTYPE_F32, 5);
    struct graph *narrow = rewrite_narrow(graph);
    assert_int_equal(narrow->n_nodes, graph->n_nodes);
    graph_destroy(narrow);
    graph_destroy(graph);
}

static struct engine_run *run_with(enum dtype stored, int64_t T)
{
    struct engine_run *run = engine_run_create(make_graph(stored, T), NULL);
    const char *const names[] = {"table", "vector"};
    const size_t counts[] = {N * K, K};
    for (int p = 0; p < 2; p++) {
        void *memory = engine_run_argument(run, names[p], 0);
        for (size_t i = 0; i < counts[p]; i++) {
            /* A number that bf16 has. */
            const float x = (float)((int)(i * 29 % 127) - 63) / 64.0F;
            dtype_from_f32(stored, &x, (char *)memory + i * dtype_bytes(stored), 1);
        }
    }
    int32_t *ids = engine_run_argument(run, "ids", 0);
    for (int64_t i = 0; i < T; i++) {
        ids[i] = (int32_t)(i * 7 % (N + 1)); /* N too, which is no row */
    }
    engine_run_execute(run);
    return run;
}

/* Lookups to the bit, products up to the order of sums. */
static void results_are_the_same(void **state)
{
    (void)state;
    for (size_t l = 0; l < ARRAY_LENGTH(lengths); l++) {
        const int64_t T = lengths[l];
        struct engine_run *narrow = run_with(DTYPE_BF16, T);
        struct engine_run *wide = run_with(DTYPE_F32, T);
        const char *const names[] = {"rows", "gathered"};
        for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
            assert_memory_equal(engine_run_output(narrow, names[i], 0),
                                engine_run_output(wide, names[i], 0),
                                (size_t)T * K * sizeof(float));
        }
        const float *a = engine_run_output(narrow, "product", 0);
        const float *b = engine_run_output(wide, "product", 0);
        for (int64_t i = 0; i < T * N; i++) {
            assert_float_equal(a[i], b[i], 1e-4F);
        }
        engine_run_destroy(narrow);
        engine_run_destroy(wide);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_of_matrices_go),
        cmocka_unit_test(f32_weights_stay),
        cmocka_unit_test(results_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
