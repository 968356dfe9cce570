/*
 * Simplification: each rule, what must not be merged, dead nodes, and values that stay
 * equal bit by bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/build.h"
#include "graph/rewrite.h"
#include "support/random_graph.h"
#include "support/same_results.h"

static struct graph *new_graph(void)
{
    const struct mesh mesh = mesh_single();
    return graph_create(&mesh);
}

static struct value *matrix(struct graph *graph, const char *name)
{
    return build_input(graph, name, type_make(DTYPE_F32, 2, (int64_t[]){4, 6}));
}

/* How many nodes are left beside arguments. */
static int count_simplified(struct graph *owned_graph)
{
    struct graph *simple = rewrite_simplify(owned_graph);
    const int n = simple->n_nodes - simple->n_arguments;
    graph_destroy(simple);
    graph_destroy(owned_graph);
    return n;
}

/* A rule under test: makes a value that should be `x` itself. */
typedef struct value *(*rule_fn)(struct graph *graph, struct value *x);

static struct value *times_one(struct graph *graph, struct value *x)
{
    return build_scale(graph, x, 1);
}

static struct value *plus_zero(struct graph *graph, struct value *x)
{
    return build_add(graph, build_scalar(graph, DTYPE_F32, 0), x);
}

static struct value *minus_zero(struct graph *graph, struct value *x)
{
    return build_sub(graph, x, build_constant(graph, x->type, 0));
}

static struct value *over_one(struct graph *graph, struct value *x)
{
    return build_div(graph, x, build_scalar(graph, DTYPE_F32, 1));
}

static struct value *same_cast(struct graph *graph, struct value *x)
{
    return build_cast(graph, x, DTYPE_F32);
}

static struct value *wide_and_back(struct graph *graph, struct value *x)
{
    return build_cast(graph, build_cast(graph, x, DTYPE_F64), DTYPE_F32);
}

static struct value *there_and_back(struct graph *graph, struct value *x)
{
    struct value *flat = build_reshape(graph, x, type_shape(1, (int64_t[]){24}));
    return build_reshape(graph, flat, x->type.shape);
}

static struct value *turned_twice(struct graph *graph, struct value *x)
{
    struct value *turned = build_transpose(graph, x, (int[]){1, 0});
    return build_transpose(graph, turned, (int[]){1, 0});
}

static struct value *not_turned(struct graph *graph, struct value *x)
{
    return build_transpose(graph, x, (int[]){0, 1});
}

static struct value *whole_slice(struct graph *graph, struct value *x)
{
    return build_slice_axis(graph, x, 1, 0, 6);
}

static struct value *no_padding(struct graph *graph, struct value *x)
{
    return build_pad(graph, x, (int64_t[]){0, 0}, (int64_t[]){0, 0});
}

static struct value *only_part(struct graph *graph, struct value *x)
{
    return build_concat(graph, &x, 1, 0);
}

static struct value *same_shape(struct graph *graph, struct value *x)
{
    return build_broadcast_like_x(graph, x, x->type.shape, (int[]){0, 1});
}

static struct value *sum_over_nothing(struct graph *graph, struct value *x)
{
    return build_reduce_sum(graph, x, 0, NULL);
}

static struct value *use_as_it_is(struct graph *graph, struct value *x)
{
    return build_use_param(graph, x, DTYPE_F32);
}

static void nodes_that_change_nothing_go(void **state)
{
    (void)state;
    static const rule_fn rules[] = {
        times_one,     plus_zero,      minus_zero,   over_one,         same_cast,
        wide_and_back, there_and_back, turned_twice, not_turned,       whole_slice,
        no_padding,    only_part,      same_shape,   sum_over_nothing, use_as_it_is,
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++) {
        struct graph *graph = new_graph();
        struct value *x = matrix(graph, "x");
        struct value *y = build_tanh(graph, rules[i](graph, x));
        graph_add_output(graph, "y", y, NULL);
        const int n = count_simplified(graph);
        if (n != 1) {
            fail_msg("rule %zu leaves %d nodes", i, n);
        }
    }
}

static struct value *half_and_back(struct graph *graph, struct value *x)
{
    return build_cast(graph, build_cast(graph, x, DTYPE_BF16), DTYPE_F32);
}

static struct value *times_two(struct graph *graph, struct value *x)
{
    return build_scale(graph, x, 2);
}

static struct value *stretched_one(struct graph *graph, struct value *x)
{
    (void)x; /* 1 * scalar is not the matrix of ones */
    return build_mul(graph, build_constant(graph, x->type, 1),
                     build_scalar(graph, DTYPE_F32, 3));
}

static struct value *behind_barrier(struct graph *graph, struct value *x)
{
    return build_barrier(graph, x);
}

static void nodes_that_change_something_stay(void **state)
{
    (void)state;
    static const rule_fn rules[] = {half_and_back, times_two, stretched_one,
                                    behind_barrier};
    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++) {
        struct graph *graph = new_graph();
        struct value *x = matrix(graph, "x");
        graph_add_output(graph, "y", build_tanh(graph, rules[i](graph, x)), NULL);
        if (count_simplified(graph) < 2) {
            fail_msg("rule %zu has gone", i);
        }
    }
}

static void equal_nodes_become_one(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = matrix(graph, "x");
    struct value *a = build_tanh(graph, build_scale(graph, x, 2));
    struct value *b = build_tanh(graph, build_scale(graph, x, 2));
    struct value *c = build_tanh(graph, build_scale(graph, x, 3));
    graph_add_output(graph, "y", build_add(graph, build_mul(graph, a, b), c), NULL);
    /* two constants, two products, two tanh, mul, add */
    assert_int_equal(count_simplified(graph), 8);
}

static void barriers_keep_equal_nodes_apart(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = matrix(graph, "x");
    struct value *a = build_tanh(graph, build_barrier(graph, x));
    struct value *b = build_tanh(graph, build_barrier(graph, x));
    graph_add_output(graph, "y", build_add(graph, a, b), NULL);
    assert_int_equal(count_simplified(graph), 5);
}

static void dead_nodes_go_and_arguments_stay(void **state)
{
    (void)state;
    struct graph *graph = new_graph();
    struct value *x = matrix(graph, "x");
    struct value *unused = matrix(graph, "unused");
    build_exp(graph, build_tanh(graph, unused));
    graph_add_output(graph, "y", build_sin(graph, x), x);
    struct graph *simple = rewrite_simplify(graph);
    assert_int_equal(simple->n_arguments, 2);
    assert_int_equal(simple->n_nodes, 3);
    assert_ptr_equal(simple->outputs[0].donor, simple->arguments[0]);
    graph_destroy(simple);
    graph_destroy(graph);
}

static void values_stay_equal_bit_by_bit(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct random_graph_options options = {.n_nodes = 30,
                                                     .has_overwrite = true};
        struct graph *graph = random_graph_create(seed, &options);
        struct graph *simple = rewrite_simplify(graph);
        assert_true(simple->n_nodes <= graph->n_nodes);
        same_results_check(graph, simple, 0);
        graph_destroy(simple);
        graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_change_nothing_go),
        cmocka_unit_test(nodes_that_change_something_stay),
        cmocka_unit_test(equal_nodes_become_one),
        cmocka_unit_test(barriers_keep_equal_nodes_apart),
        cmocka_unit_test(dead_nodes_go_and_arguments_stay),
        cmocka_unit_test(values_stay_equal_bit_by_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
