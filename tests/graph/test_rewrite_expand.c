/*
 * Repeats unrolled: names, parameters, blocks, nested bodies, and the values, against the
 * same computation written out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "graph/build.h"
#include "graph/rewrite.h"
#include "support/same_results.h"

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static struct type vector(void)
{
    return type_make(DTYPE_F32, 1, (int64_t[]){4});
}

static struct type stack(int n)
{
    return type_make(DTYPE_F32, 2, (int64_t[]){n, 4});
}

static const char *const four_names[] = {"w.0", "w.1", "w.2", "w.3"};

/* h = tanh(h * w[i]) + i */
static struct graph *simple_body(const struct mesh *mesh)
{
    struct graph *body = graph_create(mesh);
    struct value *i = build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *h = build_input(body, "h", vector());
    struct value *w = build_input(body, "w", vector());
    struct value *product = build_mul(body, h, w);
    struct value *next =
        build_add(body, build_tanh(body, product), build_cast(body, i, DTYPE_F32));
    graph_add_output(body, "h", next, NULL);
    graph_add_output(body, "product", product, NULL);
    return body;
}

/* The same, written out; outputs as the repeat has them. */
static struct graph *by_hand(int n)
{
    struct graph *graph = new_graph();
    struct value *h = build_input(graph, "x", vector());
    struct value *rows[8];
    for (int i = 0; i < n; i++) {
        struct value *w = build_parameter(graph, four_names[i], vector(), true);
        struct value *product = build_mul(graph, h, w);
        h = build_shift(graph, build_tanh(graph, product), i);
        rows[i] = build_reshape(graph, product, type_shape(2, (int64_t[]){1, 4}));
    }
    graph_add_output(graph, "h", h, NULL);
    graph_add_output(graph, "all", build_concat(graph, rows, n, 0), NULL);
    return graph;
}

static void a_stacked_parameter_becomes_its_slices(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = build_input(graph, "x", vector());
    struct value *w =
        build_stacked_parameter(graph, "w", four_names, 3, stack(3), false);
    struct value *last = build_input(graph, "last", vector());
    const struct node *repeat = build_repeat(graph, 3, simple_body(&graph->mesh), &x, 1,
                                             &w, 1, NULL, 0, "layers");
    graph_add_output(graph, "h", repeat->outputs[0], NULL);
    graph_add_output(graph, "all", repeat->outputs[1], NULL);
    graph_add_output(graph, "last", build_tanh(graph, last), last);

    struct graph *expanded = rewrite_expand(graph);
    static const char *const arguments[] = {"x", "w.0", "w.1", "w.2", "last"};
    assert_int_equal(expanded->n_arguments, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(expanded->arguments[i]->node->name, arguments[i]);
    }
    assert_false(expanded->arguments[1]->node->is_trainable);
    assert_int_equal(expanded->arguments[1]->type.shape.rank, 1);
    assert_ptr_equal(expanded->outputs[2].donor, expanded->arguments[4]);

    int n_tanh = 0;
    for (int i = 0; i < expanded->n_nodes; i++) {
        const struct node *node = expanded->nodes[i];
        assert_true(node->op != OP_REPEAT && node->op != OP_SLICE);
        if (node->op == OP_TANH && n_tanh < 3) {
            char name[32];
            snprintf(name, sizeof(name), "layers.%d.tanh", n_tanh);
            assert_string_equal(node->name, name);
            assert_int_equal(node->block, n_tanh);
            n_tanh++;
        }
    }
    assert_int_equal(n_tanh, 3);
    assert_int_equal(expanded->next_block, 3);
    graph_destroy(expanded);
    graph_destroy(graph);
}

static void values_are_those_written_out(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = build_input(graph, "x", vector());
    struct value *w =
        build_stacked_parameter(graph, "w", four_names, 4, stack(4), true);
    const struct node *repeat = build_repeat(graph, 4, simple_body(&graph->mesh), &x, 1,
                                             &w, 1, NULL, 0, "layers");
    graph_add_output(graph, "h", repeat->outputs[0], NULL);
    graph_add_output(graph, "all", repeat->outputs[1], NULL);
    struct graph *expanded = rewrite_expand(graph);
    struct graph *expected = by_hand(4);
    same_results_check(expected, expanded, 0);
    graph_destroy(expected);
    graph_destroy(expanded);
    graph_destroy(graph);
}

static void stacked_values_are_sliced_and_results_passed_on(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = build_input(graph, "x", vector());
    struct value *w = build_input(graph, "w", stack(3));
    const struct node *first = build_repeat(graph, 3, simple_body(&graph->mesh), &x, 1,
                                            &w, 1, NULL, 0, "first");
    const struct node *second =
        build_repeat(graph, 3, simple_body(&graph->mesh), &first->outputs[0], 1,
                     &first->outputs[1], 1, NULL, 0, "second");
    graph_add_output(graph, "h", second->outputs[0], NULL);
    struct graph *expanded = rewrite_expand(graph);

    struct graph *expected = new_graph();
    struct value *h = build_input(expected, "x", vector());
    struct value *v = build_input(expected, "w", stack(3));
    struct value *products[3];
    for (int i = 0; i < 3; i++) {
        struct value *row = build_reshape(
            expected, build_slice_axis(expected, v, 0, i, i + 1), vector().shape);
        products[i] = build_mul(expected, h, row);
        h = build_shift(expected, build_tanh(expected, products[i]), i);
    }
    for (int i = 0; i < 3; i++) {
        struct value *product = build_mul(expected, h, products[i]);
        h = build_shift(expected, build_tanh(expected, product), i);
    }
    graph_add_output(expected, "h", h, NULL);
    same_results_check(expected, expanded, 0);
    for (int i = 0; i < expanded->n_nodes; i++) {
        /* the second repeat takes the first one's results as they are */
        assert_true(expanded->nodes[i]->op != OP_CONCAT);
    }
    graph_destroy(expected);
    graph_destroy(expanded);
    graph_destroy(graph);
}

/* Outer body: two inner turns with slices of w, then h = exp(h * last) beside them. */
static struct graph *nested_body(const struct mesh *mesh)
{
    struct graph *body = graph_create(mesh);
    build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *h = build_input(body, "h", vector());
    struct value *w = build_input(body, "w", stack(2));
    struct value *last = build_input(body, "last", vector());
    const struct node *inner =
        build_repeat(body, 2, simple_body(mesh), &h, 1, &w, 1, NULL, 0, "sliding");
    struct value *next = build_sin(body, build_mul(body, inner->outputs[0], last));
    graph_add_output(body, "h", next, NULL);
    return body;
}

static void nested_repeats_get_blocks_of_their_own(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = build_input(graph, "x", vector());
    struct value *w = build_stacked_parameter(
        graph, "w", four_names, 4, type_make(DTYPE_F32, 3, (int64_t[]){2, 2, 4}), true);
    static const char *const last_names[] = {"last.0", "last.1"};
    struct value *last =
        build_stacked_parameter(graph, "last", last_names, 2, stack(2), true);
    struct value *stacked[] = {w, last};
    const struct node *repeat = build_repeat(graph, 2, nested_body(&graph->mesh), &x, 1,
                                             stacked, 2, NULL, 0, "group");
    graph_add_output(graph, "h", repeat->outputs[0], NULL);
    struct graph *expanded = rewrite_expand(graph);
    assert_int_equal(expanded->n_arguments, 7);

    /* block by block: two sliding ones, then the rest of the body, twice */
    struct str text = {0};
    for (int i = 0; i < expanded->n_nodes; i++) {
        const struct node *node = expanded->nodes[i];
        if (node->op == OP_MUL) {
            str_printf(&text, "%s@%d ", node->name, node->block);
        }
    }
    assert_string_equal(
        str_text(&text),
        "group.0.sliding.0.mul@0 group.0.sliding.1.mul@1 group.0.mul@2 "
        "group.1.sliding.0.mul@3 group.1.sliding.1.mul@4 group.1.mul@5 ");
    str_deinit(&text);

    struct graph *expected = new_graph();
    struct value *h = build_input(expected, "x", vector());
    for (int i = 0; i < 4; i++) {
        struct value *v = build_parameter(expected, four_names[i], vector(), true);
        h = build_tanh(expected, build_mul(expected, h, v));
        h = build_shift(expected, h, i % 2);
        if (i % 2 == 1) {
            struct value *end =
                build_parameter(expected, last_names[i / 2], vector(), true);
            h = build_sin(expected, build_mul(expected, h, end));
        }
    }
    graph_add_output(expected, "h", h, NULL);
    same_results_check(expected, expanded, 0);
    graph_destroy(expected);
    graph_destroy(expanded);
    graph_destroy(graph);
}

static void one_turn_over_one_slice(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = build_input(graph, "x", vector());
    struct value *w =
        build_stacked_parameter(graph, "w", four_names, 1, stack(1), true);
    const struct node *repeat = build_repeat(graph, 1, simple_body(&graph->mesh), &x, 1,
                                             &w, 1, NULL, 0, "layers");
    graph_add_output(graph, "h", repeat->outputs[0], NULL);
    struct graph *expanded = rewrite_expand(graph);
    assert_string_equal(expanded->arguments[1]->node->name, "w.0");
    assert_int_equal(expanded->arguments[1]->type.shape.rank, 1);
    graph_destroy(expanded);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stacked_parameter_becomes_its_slices),
        cmocka_unit_test(values_are_those_written_out),
        cmocka_unit_test(stacked_values_are_sliced_and_results_passed_on),
        cmocka_unit_test(nested_repeats_get_blocks_of_their_own),
        cmocka_unit_test(one_turn_over_one_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
