/*
 * Accumulation: sums folded into what makes the gradients, the chain through a tied
 * table, and values: two micro-batches add up, the first one clears. (C1)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "graph/build.h"
#include "graph/grad.h"
#include "graph/rewrite.h"
#include "graph/verify.h"
#include "support/engine_run.h"

enum { V = 6, D = 4, N = 5 };

static int count(const struct graph *graph, enum op op)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        n += graph->nodes[i]->op == op;
    }
    return n;
}

/* A tied table, one matrix, one norm weight: each makes its gradient another way. */
static struct graph *tied_model(void)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *table = build_parameter(
        graph, "table", type_make(DTYPE_F32, 2, (int64_t[]){V, D}), true);
    struct value *w =
        build_parameter(graph, "w", type_make(DTYPE_F32, 2, (int64_t[]){D, D}), true);
    struct value *norm =
        build_parameter(graph, "norm", type_make(DTYPE_F32, 1, (int64_t[]){D}), true);
    const struct type ids_type = type_make(DTYPE_I32, 1, (int64_t[]){N});
    struct value *ids = build_input(graph, "ids", ids_type);
    struct value *targets = build_input(graph, "targets", ids_type);
    struct value *rows = build_input(graph, "rows", ids_type);
    struct value *weight =
        build_input(graph, "weight", type_make(DTYPE_F32, 1, (int64_t[]){N}));
    struct value *used = build_use_param(graph, table, DTYPE_F32);
    struct value *h = build_embed(graph, used, ids, 2, -1);
    h = build_linear(graph, h, build_use_param(graph, w, DTYPE_F32));
    h = build_rms_norm(graph, h, build_use_param(graph, norm, DTYPE_F32), 1e-6, true);
    const struct node *head =
        build_loss_head(graph, h, used, rows, targets, weight,
                        &(struct loss_head_options){.with_gradient = true}, NULL, NULL);
    graph_add_output(graph, "loss", head->outputs[0], NULL);
    struct value *wrt[] = {table, w, norm};
    struct value *gradients[3];
    struct value *one = build_scalar(graph, DTYPE_F64, 1);
    const struct grad_options options = {.keeps_partial = false};
    grad_build(graph, 1, &head->outputs[0], &one, 3, wrt, &options, gradients);
    static const char *const names[] = {"g.table", "g.w", "g.norm"};
    for (int i = 0; i < 3; i++) {
        graph_add_output(graph, names[i], gradients[i], NULL);
    }
    struct graph *simple = rewrite_simplify(graph);
    graph_destroy(graph);
    return simple;
}

static const char *const outputs[] = {"g.table", "g.w", "g.norm"};

static void sums_are_folded_where_gradients_are_made(void **state)
{
    (void)state;
    struct error err;
    struct graph *graph = tied_model();
    struct graph *sums = rewrite_accumulate(graph, 3, outputs);
    if (!verify_graph(sums, false, &err)) {
        fail_msg("%s", err.message);
    }
    /* only the norm's gradient has no accumulator of its own */
    assert_int_equal(count(sums, OP_ACCUMULATE), 1);
    const int n = graph->n_arguments;
    assert_int_equal(sums->n_arguments, n + 4);
    assert_string_equal(sums->arguments[n]->node->name, "keep");
    assert_string_equal(sums->arguments[n + 1]->node->name, "acc.g.table");
    for (int i = 0; i < 3; i++) {
        const struct graph_output *output = &sums->outputs[1 + i];
        assert_string_equal(output->name, outputs[i]);
        assert_ptr_equal(output->donor, sums->arguments[n + 1 + i]);
    }
    /* acc -> loss head -> scatter -> output: no other [V, D] array */
    const struct node *scatter = sums->outputs[1].value->node;
    assert_int_equal(scatter->op, OP_SCATTER_ADD_ROWS);
    assert_int_equal(scatter->n_inputs, 3); /* no keep: the loss head saw to it */
    const struct node *head = scatter->inputs[0]->node;
    assert_int_equal(head->op, OP_LOSS_HEAD);
    assert_ptr_equal(head->inputs[5], sums->arguments[n + 1]);
    assert_ptr_equal(head->inputs[6], sums->arguments[n]);
    const struct node *product = sums->outputs[2].value->node;
    assert_int_equal(product->op, OP_MATMUL);
    assert_int_equal(product->n_inputs, 4);
    graph_destroy(sums);
    graph_destroy(graph);
}

static void fill_batch(struct engine_run *run, int batch)
{
    int32_t *ids = engine_run_argument(run, "ids", 0);
    int32_t *targets = engine_run_argument(run, "targets", 0);
    int32_t *rows = engine_run_argument(run, "rows", 0);
    float *weight = engine_run_argument(run, "weight", 0);
    for (int i = 0; i < N; i++) {
        ids[i] = (i * 2 + batch) % V;
        targets[i] = (i + 3 * batch + 1) % V;
        rows[i] = i;
        weight[i] = 1.0F + (float)batch;
    }
}

static void micro_batches_add_up(void **state)
{
    (void)state;
    struct graph *graph = tied_model();
    struct graph *sums = rewrite_accumulate(graph, 3, outputs);
    struct engine_run *plain = engine_run_create(graph, NULL);
    struct engine_run *run = engine_run_create(sums, NULL);
    engine_run_fill(plain, 5, 0.5);
    engine_run_fill(run, 5, 0.5);
    static const char *const shared[] = {"table", "w", "norm"};
    static const size_t sizes[] = {V * D, D * D, D};
    double expected[3][V * D] = {{0}};
    for (int i = 0; i < 3; i++) {
        memcpy(engine_run_argument(run, shared[i], 0),
               engine_run_argument(plain, shared[i], 0), sizes[i] * sizeof(float));
    }
    bool *keep = engine_run_argument(run, "keep", 0);
    /* three rounds of two micro-batches: each round starts over */
    for (int round = 0; round < 3; round++) {
        memset(expected, 0, sizeof(expected));
        for (int batch = 0; batch < 2; batch++) {
            fill_batch(plain, batch);
            fill_batch(run, batch);
            *keep = batch > 0;
            engine_run_execute(plain);
            engine_run_execute(run);
            for (int i = 0; i < 3; i++) {
                const float *g = engine_run_output(plain, outputs[i], 0);
                for (size_t k = 0; k < sizes[i]; k++) {
                    expected[i][k] += (double)g[k];
                }
            }
        }
        for (int i = 0; i < 3; i++) {
            const float *sum = engine_run_output(run, outputs[i], 0);
            for (size_t k = 0; k < sizes[i]; k++) {
                assert_true(fabs((double)sum[k] - expected[i][k]) <= 2e-6);
            }
        }
    }
    engine_run_destroy(plain);
    engine_run_destroy(run);
}

static void what_cannot_be_folded_is_added(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){4, 4}));
    struct value *product = build_matmul(graph, x, x, false, false, DTYPE_F32);
    graph_add_output(graph, "read twice", product, NULL);
    struct value *other = build_matmul(graph, x, x, true, false, DTYPE_F32);
    struct value *flat = build_reshape(graph, other, type_shape(1, (int64_t[]){16}));
    graph_add_output(graph, "g", product, NULL);
    graph_add_output(graph, "reshaped", flat, NULL);
    static const char *const names[] = {"g", "reshaped"};
    struct graph *sums = rewrite_accumulate(graph, 2, names);
    struct error err;
    if (!verify_graph(sums, false, &err)) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(count(sums, OP_ACCUMULATE), 1);
    assert_int_equal(sums->outputs[2].value->node->op, OP_RESHAPE);
    assert_int_equal(sums->outputs[2].value->node->inputs[0]->node->n_inputs, 4);
    graph_destroy(sums);
    graph_destroy(graph);
}

/* Both results of one node in one gradient, the second one first. */
static void two_results_of_one_node_are_added(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){4, 4}));
    struct value *const operands[] = {x, x, x};
    const struct node *node = graph_append(graph, OP_GEGLU_GRAD, 3, operands,
                                           &(struct attributes){0}, NULL, NULL);
    struct value *sum = build_add(graph, node->outputs[1], node->outputs[0]);
    graph_add_output(graph, "g", sum, NULL);
    static const char *const names[] = {"g"};
    struct graph *sums = rewrite_accumulate(graph, 1, names);
    struct error err;
    if (!verify_graph(sums, false, &err)) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(count(sums, OP_ACCUMULATE), 2);
    graph_destroy(sums);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_folded_where_gradients_are_made),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(what_cannot_be_folded_is_added),
        cmocka_unit_test(two_results_of_one_node_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
