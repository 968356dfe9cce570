/*
 * Recomputation: what is cloned and what is kept, barriers, bit-equal values (C8), and
 * that it saves memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "graph/build.h"
#include "graph/grad.h"
#include "graph/plan.h"
#include "graph/rewrite.h"
#include "support/random_graph.h"
#include "support/same_results.h"

enum { WIDTH = 32, ROWS = 16, N_LAYERS = 4 };

/* h = h + tanh(sin(h w) v), layer by layer, with the gradients of all w and v. */
static struct graph *layered(void)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const struct type square = type_make(DTYPE_F32, 2, (int64_t[]){WIDTH, WIDTH});
    struct value *wrt[2 * N_LAYERS];
    for (int i = 0; i < 2 * N_LAYERS; i++) {
        const char *name = arena_printf(graph->arena, "w%d", i);
        wrt[i] = build_parameter(graph, name, square, true);
    }
    struct value *h =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){ROWS, WIDTH}));
    for (int i = 0; i < N_LAYERS; i++) {
        graph->block = graph->next_block++;
        struct value *up =
            build_sin(graph, build_linear(graph, build_cos(graph, h), wrt[2 * i]));
        struct value *down = build_linear(graph, up, wrt[2 * i + 1]);
        h = build_add(graph, h, build_tanh(graph, down));
    }
    graph->block = -1;
    struct value *loss =
        build_reduce_sum(graph, build_mul(graph, h, h), 2, (int[]){0, 1});
    graph_add_output(graph, "loss", loss, NULL);
    struct value *gradients[2 * N_LAYERS];
    struct value *one = build_scalar(graph, DTYPE_F32, 1);
    const struct grad_options options = {.keeps_partial = false};
    grad_build(graph, 1, &loss, &one, 2 * N_LAYERS, wrt, &options, gradients);
    for (int i = 0; i < 2 * N_LAYERS; i++) {
        const char *name = arena_printf(graph->arena, "g%d", i);
        graph_add_output(graph, name, gradients[i], NULL);
    }
    struct graph *simple = rewrite_simplify(graph);
    graph_destroy(graph);
    return simple;
}

static int count_forward_reads(const struct graph *graph)
{
    int n = 0; /* backward nodes that read a forward value of a block */
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; node->is_backward && k < node->n_inputs; k++) {
            const struct node *maker = node->inputs[k]->node;
            n += maker->block >= 0 && !maker->is_backward && node->op != OP_BARRIER &&
                 maker->block == node->block;
        }
    }
    return n;
}

static int count_again(const struct graph *graph, enum op op)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        const bool is_clone = strstr(node->name, ".again") != NULL;
        if (is_clone) {
            assert_true(node->is_backward && node->block >= 0);
        }
        n += is_clone && node->op == op;
    }
    return n;
}

static void blocks_are_computed_again(void **state)
{
    (void)state;
    struct graph *graph = layered();
    struct graph *again = rewrite_recompute(graph, NULL);
    assert_true(count_forward_reads(graph) > 0);
    assert_int_equal(count_forward_reads(again), 0);
    assert_int_equal(count_again(again, OP_TANH), N_LAYERS);
    assert_int_equal(count_again(again, OP_MATMUL), 2 * N_LAYERS);
    /* the residual sum is the next block's input: kept */
    assert_int_equal(count_again(again, OP_ADD), 0);
    /* no pass merges clones with the first computation */
    struct graph *simple = rewrite_simplify(again);
    assert_int_equal(count_again(simple, OP_MATMUL), 2 * N_LAYERS);
    graph_destroy(simple);
    graph_destroy(again);
    graph_destroy(graph);
}

static bool saves_products(const struct value *value)
{
    return value->node->op == OP_MATMUL;
}

static void saved_values_are_not(void **state)
{
    (void)state;
    struct graph *graph = layered();
    struct graph *again = rewrite_recompute(graph, saves_products);
    assert_int_equal(count_again(again, OP_MATMUL), 0);
    assert_int_equal(count_again(again, OP_TANH), N_LAYERS);
    same_results_check(graph, again, 0);
    graph_destroy(again);
    graph_destroy(graph);
}

static void values_are_bit_equal(void **state)
{
    (void)state;
    struct graph *graph = layered();
    struct graph *again = rewrite_recompute(graph, NULL);
    same_results_check(graph, again, 0);
    graph_destroy(again);
    graph_destroy(graph);
    for (uint64_t seed = 0; seed < 30; seed++) {
        const struct random_graph_options options = {.n_nodes = 30};
        graph = random_graph_create(seed, &options);
        again = rewrite_recompute(graph, NULL);
        same_results_check(graph, again, 0);
        graph_destroy(again);
        graph_destroy(graph);
    }
}

static size_t arena_of(const struct graph *graph)
{
    struct graph *ordered = rewrite_order(graph);
    struct plan *plan = plan_create(ordered, NULL, NULL);
    const size_t bytes = plan->arena_bytes;
    plan_destroy(plan);
    graph_destroy(ordered);
    return bytes;
}

static void it_saves_memory(void **state)
{
    (void)state;
    struct graph *graph = layered();
    struct graph *again = rewrite_recompute(graph, NULL);
    const size_t before = arena_of(graph);
    const size_t after = arena_of(again);
    if (after * 3 > before * 2) {
        fail_msg("%zu bytes, %zu without", after, before);
    }
    graph_destroy(again);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_computed_again),
        cmocka_unit_test(saved_values_are_not),
        cmocka_unit_test(values_are_bit_equal),
        cmocka_unit_test(it_saves_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
