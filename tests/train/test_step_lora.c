/*
 * Adapters in training: the merged model is the same model; nothing is computed or kept
 * for weights that are frozen; accumulation (C1, C2) and packing (C16) do not matter;
 * dropout leaves out what it should, the same when recomputed and never in evaluation;
 * frozen weights are read in their file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "graph/rewrite.h"
#include "model/gemma.h"
#include "support/engine_run.h"
#include "support/golden.h"

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

static const char *const lora_case = "gemma4-e2b-tiny-lora";

static struct error err;

/* ---- the merged model ---- */

/* Logits [B, T, V] of batch 0 by the model of `params`, rows from `read`. */
static struct engine_run *run_logits(struct golden *golden, const struct params *params,
                                     weights_read_fn read, void *context)
{
    const struct mesh mesh = mesh_single();
    const struct model_config *config = &golden_source(golden)->config;
    struct graph *graph = graph_create(&mesh);
    const struct gemma_inputs inputs =
        gemma_build_inputs(graph, config, golden_B(golden), golden_T(golden), false);
    bool *is_trainable = mem_alloc_array((size_t)params->n, sizeof(bool));
    const struct gemma_options options = {.compute = DTYPE_F32,
                                          .is_trainable = is_trainable};
    const struct gemma_forward forward =
        gemma_build_forward(graph, config, params, &inputs, &options);
    graph_add_output(graph, "logits", gemma_build_logits(graph, config, &forward),
                     NULL);
    struct graph *expanded = rewrite_expand(graph);
    graph_destroy(graph);
    mem_free(is_trainable);
    struct engine_run *run = engine_run_create(expanded, NULL);
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        CHECK(read(context, i, 0, info->dim[0], engine_run_argument(run, info->name, 0),
                   &err));
    }
    const struct batch *batch = golden_batch(golden, 0);
    const size_t bytes =
        (size_t)batch->rows * (size_t)batch->row_tokens * sizeof(int32_t);
    memcpy(engine_run_argument(run, "ids", 0), batch->ids, bytes);
    memcpy(engine_run_argument(run, "position", 0), batch->position, bytes);
    memcpy(engine_run_argument(run, "first_key", 0), batch->first_key, bytes);
    engine_run_execute(run);
    return run;
}

/* D6: what is exported is what was trained. */
static void the_merged_model_gives_the_same_logits(void **state)
{
    (void)state;
    struct golden *golden = golden_open(lora_case);
    const struct model_config *config = &golden_source(golden)->config;
    const struct step_source source = golden_step_source(golden);
    struct params *plain = params_create(config);
    struct lora_merge merge = {.params = golden_source(golden)->params,
                               .read = source.read,
                               .context = source.context};
    struct engine_run *adapted =
        run_logits(golden, golden_source(golden)->params, source.read, source.context);
    struct engine_run *merged = run_logits(golden, plain, lora_merged_read, &merge);
    struct engine_run *base = run_logits(golden, plain, source.read, source.context);
    const float *a = engine_run_output(adapted, "logits", 0);
    const float *b = engine_run_output(merged, "logits", 0);
    const float *c = engine_run_output(base, "logits", 0);
    double worst = 0.0;
    double effect = 0.0;
    double largest = 0.0;
    for (int64_t i = 0; i < golden_B(golden) * golden_T(golden) * config->V; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
        effect = fmax(effect, fabs((double)a[i] - (double)c[i]));
    }
    printf("# adapter and merged model: logits within %.1e of %.1f (without: %.1e)\n",
           worst, largest, effect);
    assert_true(worst <= 1e-5 * largest);
    assert_true(effect > 0.1);
    engine_run_destroy(adapted);
    engine_run_destroy(merged);
    engine_run_destroy(base);
    params_destroy(plain);
    golden_close(golden);
}

/* ---- no work for frozen weights ---- */

static struct step_shape shape_of(struct golden *golden, const struct params *params,
                                  const bool *is_trainable)
{
    const struct model_source *source = golden_source(golden);
    return (struct step_shape){.config = &source->config,
                               .params = params,
                               .is_trainable = is_trainable,
                               .has_ple_rows = true,
                               .B = golden_B(golden),
                               .T = golden_T(golden),
                               .C = golden_batch(golden, 0)->target_capacity,
                               .compute = DTYPE_F32};
}

/* Whether the value has the shape of a frozen matrix of the model. */
static bool has_frozen_shape(const struct value *value, const struct params *params)
{
    for (int i = 0; i < params->n_model; i++) {
        const struct param_info *info = &params->info[i];
        if (info->rank == 2 && value->type.shape.rank == 2 &&
            value->type.shape.dim[0] == info->dim[0] &&
            value->type.shape.dim[1] == info->dim[1]) {
            return true;
        }
    }
    return false;
}

static void frozen_weights_cost_no_gradient(void **state)
{
    (void)state;
    struct golden *golden = golden_open(lora_case);
    const struct params *params = golden_source(golden)->params;
    const struct mesh mesh = mesh_single();
    const struct step_shape shape = shape_of(golden, params, golden_trainable(golden));
    struct graph *grad = step_graphs_grad(&mesh, &shape);
    int n_gradients = 0;
    for (int i = 0; i < grad->n_outputs; i++) {
        const char *name = grad->outputs[i].name;
        n_gradients += strncmp(name, "grad.", 5) == 0;
        assert_true(strncmp(name, "grad.", 5) != 0 || strstr(name, ".lora_") != NULL);
    }
    assert_int_equal(n_gradients, params->n - params->n_model);
    /* Nothing of a frozen matrix's shape is made, by a product or otherwise, and no sums
     * for the weights of norms. */
    for (int i = 0; i < grad->n_nodes; i++) {
        const struct node *node = grad->nodes[i];
        assert_true(node->op != OP_RMS_NORM_GRAD || node->n_outputs == 1);
        for (int k = 0; k < node->n_outputs && !graph_node_is_argument(node); k++) {
            if (has_frozen_shape(node->outputs[k], params)) {
                fail_msg("%s (%s) makes an array like a frozen weight", node->name,
                         op_name(node->op));
            }
        }
    }
    graph_destroy(grad);
    golden_close(golden);
}

/* An adapter in the last layer alone: the layers before it have no backward part, so
 * nothing is kept for one. */
static void nothing_is_done_before_the_first_adapter(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    struct params *params = params_create(&golden_source(golden)->config);
    const int last = golden_source(golden)->config.L - 1;
    char target[100];
    snprintf(target, sizeof(target), "*layers.%d.mlp.down_proj", last);
    const char *const targets[] = {target};
    const struct lora_options options = {
        .rank = 2, .alpha = 4.0, .targets = targets, .n_targets = 1};
    CHECK(lora_attach(params, &options, &err));
    bool *is_trainable = mem_alloc_array((size_t)params->n, sizeof(bool));
    is_trainable[params->n - 2] = true;
    is_trainable[params->n - 1] = true;
    const struct mesh mesh = mesh_single();
    const struct step_shape shape = shape_of(golden, params, is_trainable);
    struct graph *grad = step_graphs_grad(&mesh, &shape);
    int n_backward = 0;
    int last_block = -1;
    for (int i = 0; i < grad->n_nodes; i++) {
        last_block = (int)base_max(last_block, grad->nodes[i]->block);
    }
    for (int i = 0; i < grad->n_nodes; i++) {
        const struct node *node = grad->nodes[i];
        n_backward += node->is_backward;
        assert_true(!node->is_backward || node->block == last_block ||
                    node->block == -1);
        assert_true(node->op != OP_ATTENTION_GRAD);
    }
    assert_true(n_backward > 0);
    graph_destroy(grad);
    mem_free(is_trainable);
    params_destroy(params);
    golden_close(golden);
}

/* What computes a value, in whatever shape it is read. */
static const struct node *source_of(const struct value *value)
{
    while (value->node->op == OP_RESHAPE) {
        value = value->node->inputs[0];
    }
    return value->node;
}

/* Whether a product of the backward part reads what this node computes. */
static bool is_kept_for_product(const struct graph *graph, const struct node *node)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *reader = graph->nodes[i];
        for (int k = 0; k < reader->n_inputs; k++) {
            if (reader->is_backward && reader->op == OP_MATMUL &&
                source_of(reader->inputs[k]) == node) {
                return true;
            }
        }
    }
    return false;
}

/* Inputs [B * T, mlp_width] of down projections that are kept: nothing but the gradient
 * of that matrix needs them. */
static int count_kept_inputs(const struct graph *graph)
{
    int n_kept = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (node->op == OP_MATMUL && !node->is_backward &&
            strstr(source_of(node->inputs[1])->name, "mlp.down_proj.weight") != NULL) {
            n_kept += is_kept_for_product(graph, source_of(node->inputs[0]));
        }
    }
    return n_kept;
}

/* Bytes of working memory of the gradient program, and *n_kept of such inputs. */
static size_t plan_gradient(const struct step_shape *shape, int *n_kept)
{
    const struct mesh mesh = mesh_single();
    struct engine *engine = golden_engine(1);
    struct graph *grad = step_graphs_grad(&mesh, shape);
    const size_t bytes = backend_plan_bytes(engine, grad);
    *n_kept = count_kept_inputs(grad);
    graph_destroy(grad);
    backend_destroy(engine);
    return bytes;
}

/* Adapters of the query projections in all layers: the whole backward pass is there,
 * but what only gradients of matrices read is not kept for it. */
static void no_activation_is_kept_for_frozen_weights(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    const struct model_config *config = &golden_source(golden)->config;
    struct params *plain = params_create(config);
    struct params *adapted = params_create(config);
    static const char *const targets[] = {"*q_proj"};
    const struct lora_options options = {
        .rank = 2, .alpha = 4.0, .targets = targets, .n_targets = 1};
    CHECK(lora_attach(adapted, &options, &err));
    bool *trains_all = mem_alloc_array((size_t)plain->n, sizeof(bool));
    bool *trains_adapter = mem_alloc_array((size_t)adapted->n, sizeof(bool));
    for (int i = 0; i < plain->n; i++) {
        trains_all[i] = strstr(plain->info[i].name, "embed_tokens_per_layer") == NULL;
    }
    for (int i = adapted->n_model; i < adapted->n; i++) {
        trains_adapter[i] = true;
    }
    struct step_shape shape = shape_of(golden, plain, trains_all);
    shape.B = 4;
    shape.T = 64;
    shape.C = shape.B * shape.T;
    int n_full, n_adapter;
    const size_t full = plan_gradient(&shape, &n_full);
    shape.params = adapted;
    shape.is_trainable = trains_adapter;
    const size_t adapter = plan_gradient(&shape, &n_adapter);
    printf("# activations of a gradient: %zu KiB, with adapters of q alone %zu KiB\n",
           full >> 10, adapter >> 10);
    assert_int_equal(n_full, config->L);
    assert_int_equal(n_adapter, 0);
    /* At least the inputs of the down projections, of 40 and more each. */
    const size_t narrow = (size_t)(shape.B * shape.T * config->L * 40) * sizeof(float);
    assert_true(adapter + narrow <= full);
    assert_true(adapter <= full / 10 * 9);
    mem_free(trains_all);
    mem_free(trains_adapter);
    params_destroy(plain);
    params_destroy(adapted);
    golden_close(golden);
}

/* ---- what must not matter ---- */

/* A step on the weights and the adapter of the golden case, whatever the batch. */
struct lora_step {
    struct golden *golden; /* of weights and adapter */
    struct engine *engine;
    struct step *step;
};

static struct lora_step open_step(int32_t B, int32_t T, int32_t C, double dropout,
                                  bool recomputes, uint64_t seed)
{
    struct lora_step lora = {.golden = golden_open(lora_case),
                             .engine = golden_engine(2)};
    struct step_shape shape = shape_of(lora.golden, golden_source(lora.golden)->params,
                                       golden_trainable(lora.golden));
    shape.B = B;
    shape.T = T;
    shape.C = C;
    shape.dropout = dropout;
    shape.recomputes = recomputes;
    const struct step_options options = {
        .shape = shape, .trains = true, .evaluates = true, .seed = seed};
    const struct step_source source = golden_step_source(lora.golden);
    lora.step = step_create(lora.engine, &options, &source, &err);
    CHECK(lora.step != NULL && step_load(lora.step, &err));
    return lora;
}

static void close_step(struct lora_step *lora)
{
    step_destroy(lora->step);
    backend_destroy(lora->engine);
    golden_close(lora->golden);
}

/* Both have the same gradient sums, within `limit` in L2 per tensor; 0: every bit. */
static void assert_same_gradients(const struct lora_step *a, const struct lora_step *b,
                                  double limit)
{
    const struct params *params = golden_source(a->golden)->params;
    for (int i = params->n_model; i < params->n; i++) {
        const double difference =
            golden_relative_l2(step_gradient(a->step, i), step_gradient(b->step, i),
                               params->info[i].n_elements);
        if (!(difference <= limit)) {
            fail_msg("%s: relative L2 %.3g", params->info[i].name, difference);
        }
    }
}

/* Gradient of a batch; returns the sum of its loss. */
static double accumulate(struct lora_step *lora, const struct batch *batch)
{
    double loss_sum = 0.0;
    CHECK(step_accumulate(lora->step, batch, &loss_sum, &err));
    return loss_sum;
}

/* C1, C2: row by row is all at once, in gradient and update. */
static void accumulation_does_not_matter(void **state)
{
    (void)state;
    struct golden *golden = golden_open(lora_case);
    const int32_t B = golden_B(golden);
    const int32_t T = golden_T(golden);
    struct lora_step whole = open_step(B, T, B * T, 0.0, false, 1);
    struct lora_step parts = open_step(1, T, T, 0.0, false, 1);
    const double loss = accumulate(&whole, golden_batch(golden, 0));
    struct batch *part = batch_create(1, T, T);
    double sum = 0.0;
    for (int32_t b = 0; b < B; b++) {
        golden_batch_rows(golden, 0, b, part);
        sum += accumulate(&parts, part);
    }
    assert_true(fabs(sum - loss) <= 1e-6 * loss);
    assert_same_gradients(&parts, &whole, 1e-5);
    const struct step_hyper hyper = {
        .lr = 1e-3,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .weight_sum = golden_batch(golden, 0)->weight_sum,
        .loss_sum = loss,
    };
    struct step_result of_whole, of_parts;
    CHECK(step_update(whole.step, &hyper, &of_whole, &err));
    CHECK(step_update(parts.step, &hyper, &of_parts, &err));
    assert_true(fabs(of_whole.grad_norm - of_parts.grad_norm) <=
                1e-5 * of_whole.grad_norm);
    batch_destroy(part);
    close_step(&whole);
    close_step(&parts);
    golden_close(golden);
}

/* C16: documents that share a row have the gradient that they have alone. */
static void packing_does_not_matter(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny-packed");
    const int32_t B = golden_B(golden);
    const int32_t T = golden_T(golden);
    const int32_t n = golden_n_documents(golden);
    assert_true(n > B);
    struct batch *alone = batch_create(n, T, n * T);
    golden_batch_documents(golden, alone);
    struct lora_step packed = open_step(B, T, B * T, 0.0, false, 1);
    struct lora_step apart = open_step(n, T, n * T, 0.0, false, 1);
    const double loss = accumulate(&packed, golden_batch(golden, 0));
    const double sum = accumulate(&apart, alone);
    assert_true(fabs(sum - loss) <= 1e-6 * loss);
    assert_same_gradients(&packed, &apart, 1e-5);
    batch_destroy(alone);
    close_step(&packed);
    close_step(&apart);
    golden_close(golden);
}

/* ---- dropout ---- */

/* The first adapter's input and what dropout leaves of it. */
static void dropout_leaves_out_its_share(void **state)
{
    (void)state;
    struct golden *golden = golden_open(lora_case);
    const struct model_source *source = golden_source(golden);
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct gemma_inputs inputs = gemma_build_inputs(
        graph, &source->config, golden_B(golden), golden_T(golden), false);
    gemma_build_dropout_inputs(graph, &inputs);
    const struct gemma_options options = {.compute = DTYPE_F32,
                                          .is_trainable = golden_trainable(golden),
                                          .dropout = 0.25};
    gemma_build_forward(graph, &source->config, source->params, &inputs, &options);
    struct graph *expanded = rewrite_expand(graph);
    graph_destroy(graph);
    /* Every adapter has a mask of its own. */
    struct value *kept[200];
    int n = 0;
    const int n_nodes = expanded->n_nodes;
    for (int i = 0; i < n_nodes; i++) {
        const struct node *node = expanded->nodes[i];
        if (node->op == OP_SELECT && strstr(node->name, "lora") != NULL) {
            assert_true(n < 200);
            kept[n++] = node->inputs[0];
        }
    }
    assert_int_equal(n, (source->params->n - source->params->n_model) / 2);
    for (int i = 0; i < n; i++) {
        graph_add_output(expanded, arena_printf(expanded->arena, "kept.%d", i), kept[i],
                         NULL);
    }
    struct engine_run *run = engine_run_create(expanded, NULL);
    *(uint32_t *)engine_run_argument(run, "dropout_seed", 0) = 5;
    *(uint32_t *)engine_run_argument(run, "dropout_step", 0) = 3;
    engine_run_execute(run);
    int64_t n_kept = 0;
    int64_t n_all = 0;
    for (int i = 0; i < n; i++) {
        const int64_t size = type_elements(&kept[i]->type);
        const unsigned char *mask =
            engine_run_output(run, expanded->outputs[i].name, 0);
        for (int64_t k = 0; k < size; k++) {
            n_kept += mask[k];
        }
        n_all += size;
        for (int j = 0; j < i; j++) {
            assert_true(type_elements(&kept[j]->type) != size ||
                        memcmp(engine_run_output(run, expanded->outputs[j].name, 0),
                               mask, (size_t)size) != 0);
        }
    }
    /* Within four deviations of a binomial. */
    const double share = (double)n_kept / (double)n_all;
    printf("# dropout 0.25 keeps %.4f of %lld\n", share, (long long)n_all);
    assert_true(fabs(share - 0.75) < 4.0 * sqrt(0.75 * 0.25 / (double)n_all));
    engine_run_destroy(run);
    golden_close(golden);
}

static void dropout_is_the_same_when_recomputed(void **state)
{
    (void)state;
    struct golden *golden = golden_open(lora_case);
    const int32_t B = golden_B(golden);
    const int32_t T = golden_T(golden);
    const struct batch *batch = golden_batch(golden, 0);
    struct lora_step kept = open_step(B, T, B * T, 0.3, false, 1);
    struct lora_step recomputed = open_step(B, T, B * T, 0.3, true, 1);
    struct lora_step other_seed = open_step(B, T, B * T, 0.3, false, 2);
    struct lora_step without = open_step(B, T, B * T, 0.0, false, 1);
    const double loss = accumulate(&kept, batch);
    assert_true(accumulate(&recomputed, batch) == loss);
    assert_same_gradients(&recomputed, &kept, 0.0);
    assert_true(accumulate(&other_seed, batch) != loss);
    assert_true(accumulate(&without, batch) != loss);
    /* Another pass of the run leaves out other elements, the same one the same. */
    struct batch later = *batch;
    later.position_from = 64;
    assert_true(accumulate(&kept, &later) != loss);
    assert_true(accumulate(&kept, batch) == loss);
    /* Evaluation leaves out nothing. */
    double a = 0.0;
    double b = 0.0;
    CHECK(step_evaluate(kept.step, batch, &a, NULL, &err));
    CHECK(step_evaluate(without.step, batch, &b, NULL, &err));
    assert_true(a == b);
    close_step(&kept);
    close_step(&recomputed);
    close_step(&other_seed);
    close_step(&without);
    golden_close(golden);
}

/* ---- frozen weights in their file ---- */

/* model_source_view, counted. */
struct viewed_source {
    struct golden *golden;
    int n_views;
};

static const void *view(void *context, int param, enum dtype *dtype)
{
    struct viewed_source *source = context;
    const struct model_source *model = golden_source(source->golden);
    source->n_views++;
    return param < model->params->n_model ? weights_view(model->weights, param, dtype)
                                          : NULL;
}

static bool read_viewed(void *context, int param, int64_t first_row, int64_t n_rows,
                        float *target, struct error *error)
{
    struct viewed_source *viewed = context;
    const struct step_source source = golden_step_source(viewed->golden);
    return source.read(source.context, param, first_row, n_rows, target, error);
}

static void frozen_weights_are_read_in_place(void **state)
{
    (void)state;
    struct golden *golden = golden_open(lora_case);
    const struct params *params = golden_source(golden)->params;
    const struct batch *batch = golden_batch(golden, 0);
    struct lora_step copied = open_step(golden_B(golden), golden_T(golden),
                                        batch->target_capacity, 0.0, false, 1);
    struct viewed_source viewed = {.golden = golden};
    const struct step_source source = {
        .read = read_viewed, .view = view, .context = &viewed};
    const struct step_options options = {
        .shape = shape_of(golden, params, golden_trainable(golden)),
        .trains = true,
        .evaluates = true};
    struct lora_step placed = {.golden = golden, .engine = golden_engine(2)};
    placed.step = step_create(placed.engine, &options, &source, &err);
    CHECK(placed.step != NULL && step_load(placed.step, &err));
    assert_true(viewed.n_views > 0);
    /* The bits are the same; the frozen weights, but for the per-layer table, which
     * neither holds, are no state. */
    assert_true(accumulate(&copied, batch) == accumulate(&placed, batch));
    assert_same_gradients(&placed, &copied, 0.0);
    const int table = params_index(params, PARAM_PLE_TABLE, -1);
    const int64_t n_frozen = params->n_elements - params->info[table].n_elements;
    assert_int_equal(step_state_bytes(copied.step) - step_state_bytes(placed.step),
                     (size_t)n_frozen * sizeof(float));
    float row[64];
    float expected[64];
    const int norm = params_index(params, PARAM_INPUT_NORM, 0);
    CHECK(step_read_param(placed.step, norm, 0, 64, row, &err));
    CHECK(step_read_param(copied.step, norm, 0, 64, expected, &err));
    assert_memory_equal(row, expected, sizeof(row));
    close_step(&copied);
    close_step(&placed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_merged_model_gives_the_same_logits),
        cmocka_unit_test(frozen_weights_cost_no_gradient),
        cmocka_unit_test(nothing_is_done_before_the_first_adapter),
        cmocka_unit_test(no_activation_is_kept_for_frozen_weights),
        cmocka_unit_test(accumulation_does_not_matter),
        cmocka_unit_test(packing_does_not_matter),
        cmocka_unit_test(dropout_leaves_out_its_share),
        cmocka_unit_test(dropout_is_the_same_when_recomputed),
        cmocka_unit_test(frozen_weights_are_read_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
