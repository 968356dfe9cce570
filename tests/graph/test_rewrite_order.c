/*
 * Order: readers before what overwrites them, copies only where no order helps, late and
 * early nodes, and the same values whatever the order was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "graph/build.h"
#include "graph/print.h"
#include "graph/rewrite.h"
#include "support/engine_run.h"
#include "support/random_graph.h"
#include "support/same_results.h"

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static struct value *square(struct graph *graph, const char *name)
{
    return build_input(graph, name, type_make(DTYPE_F32, 2, (int64_t[]){4, 4}));
}

static int position_of(const struct graph *graph, enum op op)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i]->op == op) {
            return i;
        }
    }
    fail_msg("no %s", op_name(op));
    return -1;
}

static int count_copies(const struct graph *graph)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const char *name = graph->nodes[i]->name;
        const size_t length = strlen(name);
        n += length > 5 && strcmp(name + length - 5, ".copy") == 0;
    }
    return n;
}

static void readers_go_before_the_overwriting(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *acc = square(graph, "acc");
    struct value *sum = build_matmul_into(graph, a, a, false, false, acc, NULL);
    graph_add_output(graph, "sum", sum, acc);
    graph_add_output(graph, "before", build_tanh(graph, acc), NULL);
    struct graph *ordered = rewrite_order(graph);
    assert_int_equal(count_copies(ordered), 0);
    assert_true(position_of(ordered, OP_TANH) < position_of(ordered, OP_MATMUL));
    graph_destroy(ordered);
    graph_destroy(graph);
}

static void readers_through_views_count(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *acc = square(graph, "acc");
    struct value *sum = build_matmul_into(graph, a, a, false, false, acc, NULL);
    graph_add_output(graph, "sum", sum, acc);
    struct value *row = build_slice_axis(graph, acc, 0, 2, 3);
    graph_add_output(graph, "row", build_tanh(graph, row), NULL);
    struct graph *ordered = rewrite_order(graph);
    assert_int_equal(count_copies(ordered), 0);
    assert_true(position_of(ordered, OP_TANH) < position_of(ordered, OP_MATMUL));
    graph_destroy(ordered);
    graph_destroy(graph);
}

static void a_copy_is_made_where_no_order_helps(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *acc = square(graph, "acc");
    struct value *old = build_exp(graph, acc);
    struct value *sum = build_matmul_into(graph, a, a, false, false, old, NULL);
    /* reads the old value and the new one */
    graph_add_output(graph, "both", build_mul(graph, old, sum), NULL);
    struct graph *ordered = rewrite_order(graph);
    assert_int_equal(count_copies(ordered), 1);
    graph_destroy(ordered);

    /* the same sum without an accumulator */
    struct graph *plain = new_graph();
    struct value *b = square(plain, "a");
    struct value *kept = build_exp(plain, square(plain, "acc"));
    struct value *product = build_matmul(plain, b, b, false, false, DTYPE_F32);
    graph_add_output(plain, "both",
                     build_mul(plain, kept, build_add(plain, kept, product)), NULL);
    same_results_check(plain, graph, 1e-6);
    graph_destroy(plain);
    graph_destroy(graph);
}

static void an_argument_that_nobody_gave_is_not_overwritten(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *acc = square(graph, "acc");
    struct value *sum = build_matmul_into(graph, a, a, false, false, acc, NULL);
    graph_add_output(graph, "sum", sum, NULL);
    struct graph *ordered = rewrite_order(graph);
    assert_int_equal(count_copies(ordered), 1);
    graph_destroy(ordered);
    struct engine_run *run = engine_run_create(graph, NULL);
    float *data = engine_run_argument(run, "acc", 0);
    float *factor = engine_run_argument(run, "a", 0);
    for (int i = 0; i < 16; i++) {
        data[i] = (float)i;
        factor[i] = 1;
    }
    engine_run_execute(run);
    const float *result = engine_run_output(run, "sum", 0);
    for (int i = 0; i < 16; i++) {
        assert_true(data[i] == (float)i);
        assert_true(result[i] == (float)i + 4);
    }
    engine_run_destroy(run);
}

static void arguments_can_change_places(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *a = square(graph, "a");
    struct value *b = square(graph, "b");
    graph_add_output(graph, "x", a, b);
    graph_add_output(graph, "y", b, a);
    struct engine_run *run = engine_run_create(graph, NULL);
    float *first = engine_run_argument(run, "a", 0);
    float *second = engine_run_argument(run, "b", 0);
    for (int i = 0; i < 16; i++) {
        first[i] = 1;
        second[i] = 2;
    }
    engine_run_execute(run);
    for (int i = 0; i < 16; i++) {
        assert_true(first[i] == 2 && second[i] == 1);
    }
    engine_run_destroy(run);
}

static void shared_zeros_are_made_twice(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *ids =
        build_input(graph, "ids", type_make(DTYPE_I32, 1, (int64_t[]){4}));
    struct value *rows = square(graph, "rows");
    struct value *zeros =
        build_constant(graph, type_make(DTYPE_F32, 2, (int64_t[]){4, 4}), 0);
    struct value *once = build_scatter_add_rows(graph, zeros, ids, rows, NULL, -1);
    struct value *again = build_scatter_add_rows(graph, zeros, ids, once, NULL, -1);
    graph_add_output(graph, "once", once, NULL);
    graph_add_output(graph, "again", again, NULL);
    struct graph *ordered = rewrite_order(graph);
    assert_int_equal(count_copies(ordered), 1);
    for (int i = 0; i < ordered->n_nodes; i++) {
        assert_true(ordered->nodes[i]->op != OP_CAST); /* made again, not copied */
    }
    graph_destroy(ordered);
    graph_destroy(graph);
}

static void late_nodes_wait_and_early_ones_do_not(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = square(graph, "x");
    struct value *fill = build_constant(graph, x->type, 2); /* used at the end */
    struct value *h = build_tanh(graph, x);
    graph->is_backward = true;
    struct value *again = build_exp(graph, build_barrier(graph, h));
    struct value *dy = build_sin(graph, h);
    struct value *dx = build_matmul(graph, dy, x, false, true, DTYPE_F32);
    struct value *next = build_cos(graph, dx);
    struct value *dw = build_matmul(graph, h, dy, true, false, DTYPE_F32);
    graph->is_backward = false;
    graph_add_output(graph, "dw", dw, NULL);
    struct value *end = build_add(graph, build_mul(graph, next, fill), again);
    graph_add_output(graph, "end", build_sqrt(graph, end), NULL);
    struct graph *ordered = rewrite_order(graph);
    struct str text = {0};
    for (int i = 0; i < ordered->n_nodes; i++) {
        str_printf(&text, "%s ", op_name(ordered->nodes[i]->op));
    }
    assert_string_equal(str_text(&text),
                        "input tanh sin matmul matmul cos constant mul "
                        "barrier exp add sqrt ");
    assert_true(ordered->nodes[3]->attributes.transpose_a); /* dw first */
    str_deinit(&text);
    graph_destroy(ordered);
    graph_destroy(graph);
}

/* The engine orders what it gets; a graph in another order has to mean the same. */
static void values_do_not_depend_on_the_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct random_graph_options options = {.n_nodes = 25,
                                                     .has_overwrite = true};
        struct graph *graph = random_graph_create(seed, &options);
        struct graph *ordered = rewrite_order(graph);
        struct graph *again = rewrite_order(graph);
        struct str first = {0};
        struct str second = {0};
        print_graph(ordered, &first);
        print_graph(again, &second);
        assert_string_equal(str_text(&first), str_text(&second));
        same_results_check(graph, ordered, 0);
        str_deinit(&first);
        str_deinit(&second);
        graph_destroy(again);
        graph_destroy(ordered);
        graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_go_before_the_overwriting),
        cmocka_unit_test(readers_through_views_count),
        cmocka_unit_test(a_copy_is_made_where_no_order_helps),
        cmocka_unit_test(an_argument_that_nobody_gave_is_not_overwritten),
        cmocka_unit_test(arguments_can_change_places),
        cmocka_unit_test(shared_zeros_are_made_twice),
        cmocka_unit_test(late_nodes_wait_and_early_ones_do_not),
        cmocka_unit_test(values_do_not_depend_on_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
