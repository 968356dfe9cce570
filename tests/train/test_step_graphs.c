/*
 * The forms of the step's graphs: layers that share K and V have no projections of their
 * own (D3, C8), the tied table has one gradient array, an update holds each tensor once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "support/golden.h"

static int count_ops(const struct graph *graph, enum op op)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        n += graph->nodes[i]->op == op;
    }
    return n;
}

static struct step_shape shape_of(struct golden *golden)
{
    const struct model_source *source = golden_source(golden);
    return (struct step_shape){.config = &source->config,
                               .params = source->params,
                               .is_trainable = golden_trainable(golden),
                               .B = golden_B(golden),
                               .T = golden_T(golden),
                               .C = golden_batch(golden, 0)->target_capacity,
                               .compute = DTYPE_F32};
}

/* D3, C8: layers that share K and V own no projections of their own, so the graph of
 * training reads none, and each attention has K and V. */
static void shared_layers_have_no_projections(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    const struct model_config *config = &golden_source(golden)->config;
    const struct mesh mesh = mesh_single();
    const struct step_shape shape = shape_of(golden);
    struct graph *grad = step_graphs_grad(&mesh, &shape);
    int n_owners = 0;
    for (int i = 0; i < config->L; i++) {
        char name[100];
        snprintf(name, sizeof(name), "model.layers.%d.self_attn.k_proj.weight", i);
        const bool owns = model_config_owns_kv(config, i);
        assert_int_equal(graph_find_argument(grad, name) != NULL, owns);
        n_owners += owns;
    }
    assert_true(n_owners < config->L);
    assert_int_equal(count_ops(grad, OP_ATTENTION), config->L);
    assert_int_equal(count_ops(grad, OP_REPEAT), 0);
    graph_destroy(grad);
    golden_close(golden);
}

/* The tied table's gradient is one chain in the accumulator's memory: no second array of
 * its size is made. */
static void tied_table_gradient_has_one_array(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma3-tiny");
    const struct mesh mesh = mesh_single();
    const struct step_shape shape = shape_of(golden);
    struct graph *grad = step_graphs_grad(&mesh, &shape);
    const int index = graph_find_output(grad, "grad.model.embed_tokens.weight");
    assert_true(index >= 0);
    const struct node *scatter = grad->outputs[index].value->node;
    assert_int_equal(scatter->op, OP_SCATTER_ADD_ROWS);
    const struct node *head = scatter->inputs[0]->node;
    assert_int_equal(head->op, OP_LOSS_HEAD);
    assert_int_equal(head->n_inputs, 7);
    assert_ptr_equal(grad->outputs[index].donor, head->inputs[5]);
    graph_destroy(grad);
    golden_close(golden);
}

/* Each trained tensor is updated once, in place; frozen ones are not in the update. */
static void update_holds_each_trained_tensor_once(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny-frozen-ple");
    const struct params *params = golden_source(golden)->params;
    const struct mesh mesh = mesh_single();
    struct step_shape shape = shape_of(golden);
    shape.has_ple_rows = true;
    struct graph *grad = step_graphs_grad(&mesh, &shape);
    struct graph *update =
        step_graphs_update(&mesh, grad, &(struct step_update_options){0});
    int n_trained = 0;
    for (int i = 0; i < params->n; i++) {
        const int output = graph_find_output(update, params->info[i].name);
        assert_int_equal(output >= 0, golden_trainable(golden)[i]);
        if (output >= 0) {
            n_trained++;
            assert_string_equal(update->outputs[output].donor->node->name,
                                params->info[i].name);
        }
    }
    assert_int_equal(count_ops(update, OP_ADAMW), n_trained);
    assert_null(graph_find_argument(grad, "model.embed_tokens_per_layer.weight"));
    assert_non_null(graph_find_argument(grad, "ple_rows"));
    graph_destroy(update);
    graph_destroy(grad);
    golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_layers_have_no_projections),
        cmocka_unit_test(tied_table_gradient_has_one_array),
        cmocka_unit_test(update_holds_each_trained_tensor_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
