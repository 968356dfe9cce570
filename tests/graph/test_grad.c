/*
 * The walk itself, by looking at the graphs it makes: what is skipped, where sums over
 * ranks go and how many there are, dtypes of cotangents, marks on backward nodes. That the
 * numbers are right is checked in test_ops.c and test_ops_ranks.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build.h"
#include "graph/grad.h"
#include "graph/rewrite.h"

static struct value *input(struct graph *graph, const char *name, int64_t rows,
                           int64_t columns, struct placement placement)
{
    struct type type = type_make(DTYPE_F32, 2, (const int64_t[]){rows, columns});
    type.placement = placement;
    return build_input(graph, name, type);
}

static int count(const struct graph *graph, enum op op, bool is_backward)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        n += graph->nodes[i]->op == op && graph->nodes[i]->is_backward == is_backward;
    }
    return n;
}

/* Gradients of y for a cotangent of ones. */
static void differentiate(struct graph *graph, struct value *y, int n_wrt,
                          struct value *const *wrt, bool keeps_partial,
                          struct value **gradients)
{
    struct type type = y->type;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (type.placement.axis[axis].kind == PLACE_PARTIAL) {
            type.placement =
                placement_with(type.placement, (enum mesh_axis)axis, PLACE_SAME, 0);
        }
    }
    struct value *seed = build_constant(graph, type, 1.0);
    const struct grad_options options = {.keeps_partial = keeps_partial};
    grad_build(graph, 1, &y, &seed, n_wrt, wrt, &options, gradients);
}

static const struct mesh two_by_two = {.size = {1, 2, 2}};

/* A weight that nobody wants the gradient of costs no product (frozen parameters). */
static void frozen_weights_cost_nothing(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "x", 4, 3, placement_same());
    struct value *w = input(graph, "w", 5, 3, placement_same());
    struct value *v = input(graph, "v", 2, 5, placement_same());
    struct value *y = build_linear(graph, build_linear(graph, x, w), v);
    struct value *dv;
    differentiate(graph, y, 1, &v, false, &dv);
    assert_int_equal(count(graph, OP_MATMUL, true), 1);
    assert_non_null(dv);
    graph_destroy(graph);
}

static void independent_values_have_no_gradient(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "x", 4, 3, placement_same());
    struct value *other = input(graph, "other", 4, 3, placement_same());
    struct value *stopped = build_stop_gradient(graph, build_mul(graph, other, other));
    struct value *y = build_mul(graph, x, stopped);
    struct value *wrt[2] = {x, other};
    struct value *gradients[2];
    differentiate(graph, y, 2, wrt, false, gradients);
    assert_non_null(gradients[0]);
    assert_null(gradients[1]);
    graph_destroy(graph);
}

/* A value is its own gradient's seed, and may be wanted although others derive from it. */
static void inner_values_have_gradients(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "x", 4, 3, placement_same());
    struct value *h = build_tanh(graph, x);
    struct value *y = build_exp(graph, h);
    struct value *wrt[3] = {x, h, y};
    struct value *gradients[3];
    differentiate(graph, y, 3, wrt, false, gradients);
    assert_true(gradients[2]->node->op == OP_CONSTANT);
    assert_true(gradients[1]->node->inputs[1] == y);
    assert_non_null(gradients[0]);
    graph_destroy(graph);
}

/*
 * Column-split gate and up: both send back a partial cotangent of x. They are added first:
 * one all_reduce, before the same cotangent of the residual is added.
 */
static void partial_cotangents_are_added_before_they_are_reduced(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&two_by_two);
    struct value *x = input(graph, "x", 4, 3, placement_split(MESH_SHARD, 0));
    struct value *gate = input(graph, "gate", 6, 3, placement_split(MESH_TENSOR, 0));
    struct value *up = input(graph, "up", 6, 3, placement_split(MESH_TENSOR, 0));
    struct value *down = input(graph, "down", 3, 6, placement_split(MESH_TENSOR, 1));
    struct value *h =
        build_geglu(graph, build_linear(graph, x, gate), build_linear(graph, x, up));
    struct value *y = build_linear(graph, h, down);
    y = build_all_reduce(graph, y, MESH_TENSOR, REDUCE_SUM);
    y = build_add(graph, x, y);
    struct value *dx;
    differentiate(graph, y, 1, &x, false, &dx);
    assert_int_equal(count(graph, OP_ALL_REDUCE, true), 1);
    assert_true(placement_equal(&dx->type.placement, &x->type.placement));
    graph_destroy(graph);
}

/* A norm weight is the same everywhere; its gradient is a sum over the rows of all ranks. */
static struct value *norm_weight_gradient(struct graph *graph, bool keeps_partial)
{
    struct value *x = input(graph, "x", 4, 3, placement_split(MESH_SHARD, 0));
    struct value *w =
        build_input(graph, "w", type_make(DTYPE_F32, 1, (const int64_t[]){3}));
    struct value *y = build_rms_norm(graph, x, w, 1e-6, true);
    struct value *dw;
    differentiate(graph, y, 1, &w, keeps_partial, &dw);
    return dw;
}

/* Nobody asks for the weight's gradient: the op makes none, as a kernel and in what it
 * means. */
static void frozen_norms_have_one_gradient(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&two_by_two);
    struct value *x = input(graph, "x", 4, 3, placement_same());
    struct value *w =
        build_input(graph, "w", type_make(DTYPE_F32, 1, (const int64_t[]){3}));
    struct value *y = build_rms_norm(graph, x, w, 1e-6, true);
    struct value *both[2] = {x, w};
    struct value *dx[2];
    differentiate(graph, y, 1, &x, false, dx);
    assert_int_equal(dx[0]->node->op, OP_RMS_NORM_GRAD);
    assert_int_equal(dx[0]->node->n_inputs, 3);
    assert_int_equal(dx[0]->node->n_outputs, 1);
    graph_add_output(graph, "dx", dx[0], NULL);
    struct graph *lowered = rewrite_lower(graph, NULL, false);
    assert_int_equal(count(lowered, OP_RMS_NORM_GRAD, true), 0);
    graph_destroy(lowered);
    differentiate(graph, y, 2, both, false, dx);
    assert_int_equal(dx[0]->node->n_outputs, 2);
    graph_destroy(graph);
}

static void gradients_of_same_values_are_reduced_at_the_end(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&two_by_two);
    const struct value *dw = norm_weight_gradient(graph, false);
    assert_true(dw->node->op == OP_ALL_REDUCE);
    assert_true(placement_is_same(&dw->type.placement));
    graph_destroy(graph);

    graph = graph_create(&two_by_two);
    dw = norm_weight_gradient(graph, true);
    assert_true(dw->type.placement.axis[MESH_SHARD].kind == PLACE_PARTIAL);
    assert_int_equal(count(graph, OP_ALL_REDUCE, true), 0);
    graph_destroy(graph);
}

/* bf16 compute: the weight's gradient leaves its product in f32, the activation's does
 * not; over shard it is reduce-scattered in f32. */
static void weights_get_f32(void **state)
{
    (void)state;
    struct graph *graph = graph_create(&two_by_two);
    struct type type = type_make(DTYPE_F32, 2, (const int64_t[]){4, 3});
    type.placement = placement_split(MESH_SHARD, 0);
    struct value *w = build_parameter(graph, "w", type, true);
    type.dtype = DTYPE_BF16;
    struct value *x = build_input(graph, "x", type);
    struct value *y = build_linear(graph, x, build_use_param(graph, w, DTYPE_BF16));
    struct value *wrt[2] = {w, x};
    struct value *gradients[2];
    differentiate(graph, y, 2, wrt, false, gradients);
    assert_int_equal(gradients[0]->type.dtype, DTYPE_F32);
    assert_int_equal(gradients[1]->type.dtype, DTYPE_BF16);
    assert_true(gradients[0]->node->op == OP_REDUCE_SCATTER);
    assert_true(gradients[0]->node->inputs[0]->node->op == OP_MATMUL);
    assert_true(type_equal(&gradients[0]->type, &w->type));
    graph_destroy(graph);
}

/* Backward nodes are marked, named after the node and belong to its block. */
static void backward_nodes_are_marked(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = input(graph, "x", 4, 3, placement_same());
    graph->block = 7;
    const char *outer = graph_push_scope(graph, "layer");
    struct value *y = build_gelu_tanh(graph, x);
    graph_pop_scope(graph, outer);
    graph->block = -1;
    struct value *dx;
    differentiate(graph, y, 1, &x, false, &dx);
    assert_int_equal(dx->node->op, OP_GELU_TANH_GRAD);
    assert_true(dx->node->is_backward);
    assert_int_equal(dx->node->block, 7);
    assert_string_equal(dx->node->name, "layer.gelu_tanh.gelu_tanh_grad");
    assert_false(graph->is_backward);
    assert_int_equal(graph->block, -1);
    graph_destroy(graph);
}

/* The loss head's gradients are its own outputs. */
static void the_loss_head_hands_over_its_outputs(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *hidden = input(graph, "hidden", 6, 3, placement_same());
    struct value *table = input(graph, "table", 9, 3, placement_same());
    const int64_t dim[1] = {4};
    struct value *rows = build_input(graph, "rows", type_make(DTYPE_I32, 1, dim));
    struct value *targets = build_input(graph, "targets", type_make(DTYPE_I32, 1, dim));
    struct value *weight = build_input(graph, "weight", type_make(DTYPE_F32, 1, dim));
    const struct node *node =
        build_loss_head(graph, hidden, table, rows, targets, weight,
                        &(struct loss_head_options){.with_gradient = true}, NULL, NULL);
    struct value *wrt[2] = {hidden, table};
    struct value *gradients[2];
    differentiate(graph, node->outputs[0], 2, wrt, false, gradients);
    assert_ptr_equal(gradients[0], node->outputs[3]);
    assert_ptr_equal(gradients[1], node->outputs[4]);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_weights_cost_nothing),
        cmocka_unit_test(independent_values_have_no_gradient),
        cmocka_unit_test(inner_values_have_gradients),
        cmocka_unit_test(partial_cotangents_are_added_before_they_are_reduced),
        cmocka_unit_test(frozen_norms_have_one_gradient),
        cmocka_unit_test(gradients_of_same_values_are_reduced_at_the_end),
        cmocka_unit_test(weights_get_f32),
        cmocka_unit_test(backward_nodes_are_marked),
        cmocka_unit_test(the_loss_head_hands_over_its_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
