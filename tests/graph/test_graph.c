/*
 * Graphs are built, named, copied and searched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/build.h"
#include "graph/print.h"

static const struct mesh mesh = {.size = {1, 2, 1}};
static const struct attributes none = {0};

static struct type vector(int64_t n)
{
    return type_make(DTYPE_F32, 1, &n);
}

static void nodes_values_and_arguments_are_kept_in_order(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *w = build_parameter(graph, "w", vector(4), true);
    struct value *x = build_input(graph, "x", vector(4));
    struct value *y = build_mul(graph, x, w);
    graph_add_output(graph, "y", y, NULL);

    assert_int_equal(graph->n_nodes, 3);
    assert_ptr_equal(graph->nodes[2], y->node);
    assert_int_equal(graph->n_values, 3);
    assert_int_equal(graph->n_arguments, 2);
    assert_ptr_equal(graph_find_argument(graph, "w"), w);
    assert_ptr_equal(graph_find_argument(graph, "x"), x);
    assert_null(graph_find_argument(graph, "y"));
    assert_int_equal(graph_find_output(graph, "y"), 0);
    assert_int_equal(graph_find_output(graph, "x"), -1);
    assert_int_equal(y->node->block, -1);
    assert_false(y->node->is_backward);
    assert_true(w->node->is_trainable);
    assert_int_equal(w->node->n_names, 1);
    assert_string_equal(w->node->names[0], "w");
    graph_destroy(graph);
    graph_destroy(NULL);
}

/* Lists grow; ids stay unique. */
static void graphs_may_be_long(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", vector(4));
    for (int i = 0; i < 3000; i++) {
        x = build_exp(graph, x);
        char name[24];
        snprintf(name, sizeof(name), "y%d", i);
        graph_add_output(graph, name, x, NULL);
    }
    for (int i = 0; i <= 3000; i++) {
        assert_int_equal(graph->nodes[i]->id, i);
        assert_int_equal(graph->nodes[i]->outputs[0]->id, i);
    }
    assert_int_equal(graph_find_output(graph, "y2999"), 2999);
    graph_destroy(graph);
}

static void scopes_prefix_names_but_not_arguments(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    const char *outer = graph_push_scope(graph, "layers.3");
    const char *inner = graph_push_scope(graph, "mlp");
    struct value *x = build_input(graph, "x", vector(4));
    const struct node *named = graph_append(graph, OP_EXP, 1, &x, &none, NULL, "gate");
    graph_pop_scope(graph, inner);
    struct value *y = build_exp(graph, x);
    graph_pop_scope(graph, outer);
    struct value *z = build_exp(graph, y);
    assert_string_equal(x->node->name, "x");
    assert_string_equal(named->name, "layers.3.mlp.gate");
    assert_string_equal(y->node->name, "layers.3.exp");
    assert_string_equal(z->node->name, "exp");
    graph_destroy(graph);
}

static void new_nodes_are_marked_with_the_graphs_state(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", vector(4));
    graph->block = 7;
    graph->is_backward = true;
    const struct value *y = build_exp(graph, x);
    assert_int_equal(y->node->block, 7);
    assert_true(y->node->is_backward);
    assert_int_equal(x->node->block, -1);
    graph_destroy(graph);
}

static void uses_count_operands_and_outputs(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", vector(4));
    struct value *y = build_mul(graph, x, x);
    struct value *unused = build_exp(graph, y);
    graph_add_output(graph, "y", y, NULL);
    graph_add_output(graph, "again", y, NULL);
    int *n_uses = graph_count_uses(graph);
    assert_int_equal(n_uses[x->id], 2);
    assert_int_equal(n_uses[y->id], 3);
    assert_int_equal(n_uses[unused->id], 0);
    mem_free(n_uses);
    graph_destroy(graph);
}

static void broken_rules_leave_the_graph_as_it_was(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&mesh);
    struct value *const inputs[] = {build_input(graph, "x", vector(4)),
                                    build_input(graph, "y", vector(5))};
    struct error error = {0};
    assert_null(graph_try_append(graph, OP_ADD, 2, inputs, &none, NULL, NULL, &error));
    assert_string_equal(error.message, "add(f32[4], f32[5]): operands must have one "
                                       "shape, or be scalars");
    assert_int_equal(graph->n_nodes, 2);
    assert_int_equal(graph->n_values, 2);
    graph_destroy(graph);
}

/* A graph with a repeat in it, whose body holds a stacked parameter's slice. */
static struct graph *graph_with_repeat(void)
{
    struct graph *body = graph_create(&mesh);
    build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *carry = build_input(body, "carry", vector(4));
    struct value *slice = build_input(body, "w", vector(4));
    body->block = 2;
    graph_add_output(body, "carry", build_mul(body, carry, slice), NULL);

    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", vector(4));
    const char *const names[] = {"w.0", "w.1", "w.2"};
    struct value *w = build_stacked_parameter(
        graph, "w", names, 3, type_make(DTYPE_F32, 2, (int64_t[]){3, 4}), true);
    const struct node *repeat =
        build_repeat(graph, 3, body, &x, 1, &w, 1, NULL, 0, "layers");
    graph_add_output(graph, "x", repeat->outputs[0], x);
    return graph;
}

/* Copying node by node gives a graph that prints the same, with bodies of its own. */
static void copies_are_whole(void **state)
{
    (void)state;
    struct graph *from = graph_with_repeat();
    struct graph *to = graph_create(&mesh);
    struct value *map[16] = {NULL};
    const char *outer = graph_push_scope(to, "elsewhere");
    for (int i = 0; i < from->n_nodes; i++) {
        const struct node *node = from->nodes[i];
        struct value *inputs[4] = {NULL};
        for (int j = 0; j < node->n_inputs; j++) {
            inputs[j] = map[node->inputs[j]->id];
        }
        const struct node *copy = graph_append_copy(to, node, inputs);
        for (int j = 0; j < node->n_outputs; j++) {
            map[node->outputs[j]->id] = copy->outputs[j];
        }
    }
    graph_pop_scope(to, outer);
    graph_add_output(to, "x", map[from->outputs[0].value->id],
                     map[from->outputs[0].donor->id]);

    struct str before = {0};
    struct str after = {0};
    print_graph(from, &before);
    graph_destroy(from); /* the copy does not lean on it */
    print_graph(to, &after);
    assert_string_equal(str_text(&before), str_text(&after));
    const struct node *w = graph_find_argument(to, "w")->node;
    assert_int_equal(w->n_names, 3);
    assert_string_equal(w->names[2], "w.2");
    assert_true(w->is_trainable);
    assert_int_equal(to->nodes[2]->body->nodes[3]->block, 2);
    str_deinit(&before);
    str_deinit(&after);
    graph_destroy(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_values_and_arguments_are_kept_in_order),
        cmocka_unit_test(graphs_may_be_long),
        cmocka_unit_test(scopes_prefix_names_but_not_arguments),
        cmocka_unit_test(new_nodes_are_marked_with_the_graphs_state),
        cmocka_unit_test(uses_count_operands_and_outputs),
        cmocka_unit_test(broken_rules_leave_the_graph_as_it_was),
        cmocka_unit_test(copies_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
