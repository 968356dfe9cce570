/*
 * Hazards: which edges are found, where a copy is asked for, and when an edge may go
 * against program order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/build.h"
#include "graph/hazards.h"

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static struct value *square(struct graph *graph, const char *name)
{
    return build_input(graph, name, type_make(DTYPE_F32, 2, (int64_t[]){4, 4}));
}

static bool has_edge(const struct hazards *h, const struct value *before,
                     const struct value *after)
{
    for (int e = h->first[after->node->id]; e >= 0; e = h->list[e].next) {
        if (h->list[e].before == before->node) {
            return true;
        }
    }
    return false;
}

static void readers_get_edges_in_either_direction(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *acc = square(graph, "acc");
    struct value *early = build_tanh(graph, acc);
    struct value *sum = build_matmul_into(graph, a, a, false, false, acc, NULL);
    struct value *late = build_exp(graph, acc);
    graph_add_output(graph, "sum", sum, acc);
    struct hazards h = hazards_find(graph);
    assert_true(has_edge(&h, early, sum));
    assert_true(has_edge(&h, late, sum));
    assert_true(h.turns_back);
    assert_false(h.copies_operand[sum->node->id]);
    assert_false(h.copies_output[0]);
    hazards_deinit(&h);
    graph_destroy(graph);
}

static void a_reader_that_needs_the_result_asks_for_a_copy(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *acc = square(graph, "acc");
    struct value *sum = build_matmul_into(graph, a, a, false, false, acc, NULL);
    build_add(graph, acc, sum);
    graph_add_output(graph, "sum", sum, acc);
    struct hazards h = hazards_find(graph);
    assert_true(h.copies_operand[sum->node->id]);
    hazards_deinit(&h);
    graph_destroy(graph);
}

static void chains_of_overwriting_need_nothing(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *acc = square(graph, "acc");
    struct value *sum = acc;
    for (int i = 0; i < 5; i++) {
        sum = build_matmul_into(graph, a, a, false, false, sum, NULL);
    }
    graph_add_output(graph, "sum", sum, acc);
    struct hazards h = hazards_find(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        assert_false(h.copies_operand[graph->nodes[i]->id]);
    }
    assert_false(h.copies_output[0]);
    hazards_deinit(&h);
    graph_destroy(graph);
}

static void outputs_that_cannot_be_made_in_place(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = square(graph, "x");
    struct value *y = square(graph, "y");
    struct value *h1 = build_tanh(graph, x);
    graph_add_output(graph, "plain", h1, NULL);
    graph_add_output(graph, "the same again", h1, NULL);
    graph_add_output(graph, "an argument", y, NULL);
    graph_add_output(graph, "itself", y, y);
    /* a product cannot be written over its operand, an elementwise result can */
    struct value *product = build_matmul(graph, x, x, false, false, DTYPE_F32);
    graph_add_output(graph, "product", product, x);
    struct value *z = square(graph, "z");
    graph_add_output(graph, "in place", build_exp(graph, z), z);
    struct hazards h = hazards_find(graph);
    assert_false(h.copies_output[0]);
    assert_true(h.copies_output[1]);
    assert_true(h.copies_output[2]);
    assert_false(h.copies_output[3]);
    assert_true(h.copies_output[4]);
    assert_false(h.copies_output[5]);
    hazards_deinit(&h);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_get_edges_in_either_direction),
        cmocka_unit_test(a_reader_that_needs_the_result_asks_for_a_copy),
        cmocka_unit_test(chains_of_overwriting_need_nothing),
        cmocka_unit_test(outputs_that_cannot_be_made_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
