/*
 * Lowering: only primitives are left, in bodies of repeats too; `wants` picks; names,
 * blocks and values stay.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/str.h"
#include "graph/build.h"
#include "graph/rewrite.h"
#include "support/same_results.h"

static struct graph *mlp(void)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const struct type type = type_make(DTYPE_F32, 2, (int64_t[]){4, 6});
    struct value *gate = build_input(graph, "gate", type);
    struct value *up = build_input(graph, "up", type);
    struct value *norm =
        build_input(graph, "norm", type_make(DTYPE_F32, 1, (int64_t[]){6}));
    graph->block = 3;
    const char *outer = graph_push_scope(graph, "layers.3");
    struct value *h = build_geglu(graph, gate, up);
    h = build_rms_norm(graph, h, norm, 1e-6, true);
    graph_pop_scope(graph, outer);
    graph->block = -1;
    graph->next_block = 4;
    graph_add_output(graph, "y", build_softcap(graph, h, 2), NULL);
    return graph;
}

static int count_composites(const struct graph *graph)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        n += op_kind(node->op) != OP_KIND_PRIMITIVE;
        n += node->body != NULL ? count_composites(node->body) : 0;
    }
    return n;
}

static void only_primitives_are_left(void **state)
{
    (void)state;
    struct graph *graph = mlp();
    struct graph *lowered = rewrite_lower(graph, NULL, false);
    assert_int_equal(count_composites(graph), 3);
    assert_int_equal(count_composites(lowered), 0);
    for (int i = lowered->n_arguments; i < lowered->n_nodes; i++) {
        const struct node *node = lowered->nodes[i];
        const bool is_in_layer = str_starts_with(node->name, "layers.3.");
        assert_true(is_in_layer || str_starts_with(node->name, "softcap."));
        assert_int_equal(node->block, is_in_layer ? 3 : -1);
    }
    same_results_check(graph, lowered, 1e-6);
    graph_destroy(lowered);
    graph_destroy(graph);
}

static bool wants_norms(const struct node *node)
{
    return node->op == OP_RMS_NORM;
}

static void the_caller_may_pick(void **state)
{
    (void)state;
    struct graph *graph = mlp();
    struct graph *lowered = rewrite_lower(graph, wants_norms, false);
    assert_int_equal(count_composites(lowered), 2);
    same_results_check(graph, lowered, 1e-6);
    graph_destroy(lowered);
    graph_destroy(graph);
}

static void bodies_are_lowered_too(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    const struct type type = type_make(DTYPE_F32, 1, (int64_t[]){6});
    struct graph *body = graph_create(&mesh);
    build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *h = build_input(body, "h", type);
    graph_add_output(body, "h", build_silu(body, h), NULL);
    struct value *x = build_input(graph, "x", type);
    const struct node *repeat =
        build_repeat(graph, 3, body, &x, 1, NULL, 0, NULL, 0, "layers");
    graph_add_output(graph, "y", repeat->outputs[0], NULL);
    struct graph *lowered = rewrite_lower(graph, NULL, false);
    assert_int_equal(count_composites(graph), 1);
    assert_int_equal(count_composites(lowered), 0);
    struct graph *before = rewrite_expand(graph);
    struct graph *after = rewrite_expand(lowered);
    same_results_check(before, after, 1e-6);
    graph_destroy(before);
    graph_destroy(after);
    graph_destroy(lowered);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_primitives_are_left),
        cmocka_unit_test(the_caller_may_pick),
        cmocka_unit_test(bodies_are_lowered_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
