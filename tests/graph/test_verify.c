/*
 * verify_graph accepts a whole graph and finds each way in which it was broken on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "graph/build.h"
#include "graph/verify.h"
#include "support/rule_cases.h"

static const struct mesh mesh = {.size = {1, 2, 1}};

static struct type vector(void)
{
    return type_make(DTYPE_F32, 1, (int64_t[]){4});
}

/*
 * node 0 w = parameter    2 y = x * w      4 repeat (body: carry = exp(carry))
 *      1 x = input        3 scalar 1       5 z = y + repeat; outputs new_w (donor w), z
 */
static struct graph *whole_graph(void)
{
    struct graph *body = graph_create(&mesh);
    build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *carry = build_input(body, "carry", vector());
    graph_add_output(body, "carry", build_exp(body, carry), NULL);

    struct graph *graph = graph_create(&mesh);
    struct value *w = build_parameter(graph, "w", vector(), true);
    struct value *x = build_input(graph, "x", vector());
    struct value *y = build_mul(graph, x, w);
    build_scalar(graph, DTYPE_F32, 1.0);
    const struct node *repeat =
        build_repeat(graph, 2, body, &y, 1, NULL, 0, NULL, 0, "layers");
    struct value *z = build_add(graph, y, repeat->outputs[0]);
    graph_add_output(graph, "new_w", y, w);
    graph_add_output(graph, "z", z, NULL);
    return graph;
}

/* ---- ways to break it ---- */

static void swap_order(struct graph *graph)
{
    struct node *node = graph->nodes[2];
    graph->nodes[2] = graph->nodes[1];
    graph->nodes[1] = node;
}

static void use_foreign_value(struct graph *graph)
{
    static struct value foreign;
    foreign = *graph->nodes[1]->outputs[0];
    graph->nodes[2]->inputs[0] = &foreign;
}

static void drop_operand(struct graph *graph)
{
    graph->nodes[2]->n_inputs = 1;
}

static void change_shape(struct graph *graph)
{
    graph->nodes[2]->outputs[0]->type.shape.dim[0] = 5;
}

static void change_dtype(struct graph *graph)
{
    graph->nodes[2]->outputs[0]->type.dtype = DTYPE_BF16;
}

static void change_placement(struct graph *graph)
{
    graph->nodes[2]->outputs[0]->type.placement = placement_split(MESH_SHARD, 0);
}

static void change_operand_placement(struct graph *graph)
{
    struct node *input = graph->nodes[1];
    input->attributes.placement = placement_split(MESH_SHARD, 0);
    input->outputs[0]->type.placement = placement_split(MESH_SHARD, 0);
}

static void change_attribute(struct graph *graph)
{
    graph->nodes[1]->attributes.shape.dim[0] = 3;
}

static void repeat_id(struct graph *graph)
{
    graph->nodes[2]->outputs[0]->id = graph->nodes[1]->outputs[0]->id;
}

static void overrun_id(struct graph *graph)
{
    graph->nodes[5]->outputs[0]->id = graph->n_values;
}

static void list_node_twice(struct graph *graph)
{
    graph->nodes[3] = graph->nodes[2];
}

static void detach_output(struct graph *graph)
{
    graph->nodes[2]->outputs[0]->node = graph->nodes[1];
}

static void lose_output(struct graph *graph)
{
    graph->nodes[4]->n_outputs = 0;
}

static void remove_name(struct graph *graph)
{
    graph->nodes[3]->name = NULL;
}

static void lose_name_of_slice(struct graph *graph)
{
    graph->nodes[0]->n_names = 3; /* of a vector of 4 */
}

static void give_body(struct graph *graph)
{
    graph->nodes[2]->body = graph->nodes[4]->body;
    graph->nodes[4]->body = NULL;
}

static void break_body(struct graph *graph)
{
    graph->nodes[4]->body->nodes[2]->outputs[0]->type.dtype = DTYPE_F64;
    graph->nodes[4]->body->outputs[0].value = graph->nodes[4]->body->arguments[1];
}

static void break_body_output(struct graph *graph)
{
    graph->nodes[4]->body->outputs[0].value = graph->nodes[4]->body->arguments[0];
}

static void repeat_argument_name(struct graph *graph)
{
    graph->nodes[1]->name = "w";
}

static void forget_argument(struct graph *graph)
{
    graph->n_arguments = 1;
}

static void list_non_argument(struct graph *graph)
{
    graph->arguments[1] = graph->nodes[2]->outputs[0];
}

static void repeat_output_name(struct graph *graph)
{
    graph->outputs[1].name = "new_w";
}

static void output_foreign_value(struct graph *graph)
{
    static struct value foreign;
    foreign = *graph->outputs[1].value;
    graph->outputs[1].value = &foreign;
}

static void donate_result(struct graph *graph)
{
    graph->outputs[0].donor = graph->nodes[2]->outputs[0];
}

static void donate_twice(struct graph *graph)
{
    graph->outputs[1].donor = graph->outputs[0].donor;
}

static void donate_other_type(struct graph *graph)
{
    struct value *other =
        build_input(graph, "other", type_make(DTYPE_F32, 1, (int64_t[]){5}));
    graph->outputs[0].donor = other;
}

static void output_partial(struct graph *graph)
{
    struct type type = vector();
    type.placement = placement_with(type.placement, MESH_SHARD, PLACE_PARTIAL, 0);
    graph_add_output(graph, "p", build_input(graph, "p", type), NULL);
}

static void each_mutation_is_found(void **state)
{
    (void)state;
    static const struct {
        void (*mutate)(struct graph *graph);
        const char *expected;
    } cases[] = {
        {swap_order, "node 2 (mul, mul): operand 0 is not defined before"},
        {use_foreign_value, "operand 0 is not defined before"},
        {drop_operand, "takes 2 to 2 operands, got 1"},
        {change_shape, "output 0 is f32[5], infer gives f32[4]"},
        {change_dtype, "output 0 is bf16[4], infer gives f32[4]"},
        {change_placement, "output 0 is f32[4]{shard: split 0}, infer gives f32[4]"},
        {change_operand_placement, "on the shard axis"},
        {change_attribute, "output 0 is f32[4], infer gives f32[3]"},
        {repeat_id, "value 1 is defined twice"},
        {overrun_id, "output 0 does not belong to it"},
        {list_node_twice, "value 2 is defined twice"},
        {detach_output, "output 0 does not belong to it"},
        {lose_output, "has 0 outputs, infer gives 1"},
        {remove_name, "node 3 has no name"},
        {lose_name_of_slice, "3 names do not go with 4 slices"},
        {give_body, "a body belongs to repeat alone"},
        {break_body, "node 4 (repeat, layers): body: node 2 (exp, exp): output 0 is"},
        {break_body_output, "carry 0 becomes i32[]"},
        {repeat_argument_name, "two arguments are called w"},
        {forget_argument, "x is not among the arguments"},
        {list_non_argument, "x is not among the arguments"},
        {repeat_output_name, "two outputs are called new_w"},
        {output_foreign_value, "output z is not defined in the graph"},
        {donate_result, "its donor is no argument"},
        {donate_twice, "outputs new_w and z share the donor w"},
        {donate_other_type, "donor other is f32[5], not f32[4]"},
        {output_partial, "output p is partial: f32[4]{shard: partial}"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct graph *graph = whole_graph();
        struct error error = {0};
        assert_true(verify_graph(graph, false, &error));
        cases[i].mutate(graph);
        if (verify_graph(graph, false, &error)) {
            fail_msg("mutation %zu is not found", i);
        }
        if (strstr(error.message, cases[i].expected) == NULL) {
            fail_msg("mutation %zu: wanted \"%s\", got \"%s\"", i, cases[i].expected,
                     error.message);
        }
        graph_destroy(graph);
    }
}

static void accumulators_may_stay_partial(void **state)
{
    (void)state;
    struct graph *graph = whole_graph();
    output_partial(graph);
    struct error error = {0};
    assert_false(verify_graph(graph, false, &error));
    assert_true(verify_graph(graph, true, &error));
    graph_destroy(graph);
}

/* ---- per-rank maxima ---- */

static void check_maximum(struct value *(*use)(struct graph *, struct value *),
                          const char *expected)
{
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", rule_cases_type("f32[4,2]{shard: split 1}"));
    struct value *top = build_reduce_max(graph, x, 1, (const int[]){1});
    graph_add_output(graph, "y", use(graph, top), NULL);
    struct error error = {0};
    const bool is_fine = verify_graph(graph, true, &error);
    if (expected == NULL) {
        assert_true(is_fine);
    } else {
        assert_false(is_fine);
        assert_non_null(strstr(error.message, expected));
    }
    graph_destroy(graph);
}

static struct value *join_maximum(struct graph *graph, struct value *top)
{
    struct value *wide = build_cast(graph, top, DTYPE_F64);
    wide = build_reshape(graph, wide, type_shape(2, (int64_t[]){2, 2}));
    wide = build_all_reduce(graph, wide, MESH_SHARD, REDUCE_MAX);
    return build_exp(graph, wide);
}

static struct value *sum_maximum(struct graph *graph, struct value *top)
{
    return build_all_reduce(graph, build_cast(graph, top, DTYPE_F64), MESH_SHARD,
                            REDUCE_SUM);
}

static struct value *add_maximum(struct graph *graph, struct value *top)
{
    return build_add(graph, top, top);
}

static struct value *output_maximum(struct graph *graph, struct value *top)
{
    return build_barrier(graph, top);
}

static struct value *max_of_sum(struct graph *graph, struct value *top)
{
    struct value *x = graph_find_argument(graph, "x");
    build_all_reduce(graph, top, MESH_SHARD, REDUCE_MAX);
    struct value *sum = build_reduce_sum(graph, x, 1, (const int[]){1});
    return build_all_reduce(graph, sum, MESH_SHARD, REDUCE_MAX);
}

static void maxima_and_sums_are_told_apart(void **state)
{
    (void)state;
    check_maximum(join_maximum, NULL);
    check_maximum(sum_maximum, "sums per-rank maxima of reduce_max");
    check_maximum(add_maximum, "reads a per-rank maximum");
    check_maximum(output_maximum, "output y is partial");
    check_maximum(max_of_sum,
                  "takes the maximum of what does not come from reduce_max");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mutation_is_found),
        cmocka_unit_test(accumulators_may_stay_partial),
        cmocka_unit_test(maxima_and_sums_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
