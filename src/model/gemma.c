/*
 * gemma - embedding, layers, last norm. See the header. Layers with caches stand here,
 * one after the other; all others are loops (gemma_groups.c).
 */
#include "model/gemma.h"

#include <math.h>

#include "graph/build.h"
#include "model/gemma_cache.h"
#include "model/gemma_layer.h"
#include "model/gemma_parts.h"

/* A row belongs to one rank of replica x shard; ranks along tensor see the same
 * rows. */
struct type gemma_row_type(const struct graph *graph, enum dtype dtype, int rank,
                           const int64_t *dim)
{
    struct type type = type_make(dtype, rank, dim);
    const enum mesh_axis axes[] = {MESH_REPLICA, MESH_SHARD};
    for (size_t i = 0; i < ARRAY_LENGTH(axes); i++) {
        if (graph->mesh.size[axes[i]] > 1) {
            type.placement = placement_with(type.placement, axes[i], PLACE_SPLIT, 0);
        }
    }
    return type;
}

/* The order of creation is the order of the graph's arguments. */
struct gemma_inputs gemma_build_inputs(struct graph *graph,
                                       const struct model_config *config, int64_t B,
                                       int64_t T, bool has_ple_rows)
{
    const int64_t tokens[] = {B, T};
    const struct type ids = gemma_row_type(graph, DTYPE_I32, 2, tokens);
    struct gemma_inputs inputs = {
        .ids = build_input(graph, "ids", ids),
        .position = build_input(graph, "position", ids),
        .first_key = build_input(graph, "first_key", ids),
    };
    if (has_ple_rows && config->P > 0) {
        const int64_t rows[] = {B, T, config->L * config->P};
        inputs.ple_rows =
            build_input(graph, "ple_rows", gemma_row_type(graph, DTYPE_F32, 3, rows));
    }
    return inputs;
}

/* The order of creation is that of the arguments. */
void gemma_build_dropout_inputs(struct graph *graph, struct gemma_inputs *inputs)
{
    inputs->dropout_seed = build_input(graph, "dropout_seed", type_scalar(DTYPE_U32));
    inputs->dropout_step = build_input(graph, "dropout_step", type_scalar(DTYPE_U32));
}

/* Without a list all are f32. */
enum dtype gemma_stored_dtype(const struct gemma_layers *layers, int index)
{
    return layers->options->stored == NULL ? DTYPE_F32 : layers->options->stored[index];
}

/* Row `index` of the table, as stored: [rows, columns]. */
static struct value *one_parameter(struct graph *graph,
                                   const struct gemma_layers *layers, int index)
{
    const struct param_info *info = &layers->params->info[index];
    return build_parameter(
        graph, info->name,
        type_make(gemma_stored_dtype(layers, index), info->rank, info->dim),
        layers->options->is_trainable[index]);
}

/* A tensor of the whole model. */
static struct value *parameter(struct graph *graph, const struct gemma_layers *layers,
                               enum param_role role)
{
    const int index = params_index(layers->params, role, -1);
    ASSERT(index >= 0);
    return one_parameter(graph, layers, index);
}

/* An adapter stands behind the weight that it changes. */
int gemma_tensor_index(const struct params *params, int tensor, int layer)
{
    const enum param_role role = (enum param_role)(tensor % PARAM_ROLE_COUNT);
    const int weight =
        params_role_is_layer(role) ? params_index(params, role, layer) : -1;
    if (tensor < GEMMA_LAYER_A || weight < 0) {
        return weight;
    }
    return params_adapter(params, tensor < GEMMA_LAYER_B ? PARAM_LORA_A : PARAM_LORA_B,
                          weight);
}

/* ---- layers with caches ---- */

/*
 * One layer after the other: each has a cache of its own, in an argument of the graph,
 * so there is nothing for a loop to stack. ple: [L, B, T, P], or NULL. Caches become
 * what the layers leave in them.
 */
static void build_cached_layers(struct graph *graph, const struct gemma_layers *layers,
                                const struct gemma_inputs *inputs, struct value *ple,
                                struct gemma_stream *stream)
{
    struct gemma_caches *caches = inputs->caches;
    for (int i = 0; i < layers->config->L; i++) {
        const int kind = gemma_cache_kind(layers->config, i);
        struct gemma_layer layer = {.config = layers->config,
                                    .layer = i,
                                    .compute = layers->options->compute,
                                    .lora_scale = layers->params->lora_scale,
                                    .position = inputs->position,
                                    .cache = {caches->slots[kind],
                                              caches->key_position[kind], caches->k[i],
                                              caches->v[i]}};
        for (int tensor = 0; tensor < GEMMA_LAYER_TENSORS; tensor++) {
            const int index = gemma_tensor_index(layers->params, tensor, i);
            layer.params[tensor] =
                index < 0 ? NULL : one_parameter(graph, layers, index);
        }
        if (ple != NULL) {
            const struct type slice = type_slice(&ple->type, 1);
            layer.ple = build_reshape(graph, build_slice_axis(graph, ple, 0, i, i + 1),
                                      slice.shape);
        }
        const char *outer =
            graph_push_scope(graph, arena_printf(graph->arena, "layers.%d", i));
        gemma_layer_build(graph, &layer, stream);
        graph_pop_scope(graph, outer);
        if (model_config_owns_kv(layers->config, i)) {
            caches->k[i] = stream->k[kind];
            caches->v[i] = stream->v[kind];
        }
    }
}

/* ---- the whole ---- */

/* x * factor, computed in f32 for bf16 too: a factor rounded to bf16 would be off by up
 * to 1 in 512, everywhere alike. */
static struct value *scale(struct graph *graph, struct value *x, double factor)
{
    if (x->type.dtype != DTYPE_BF16) {
        return build_scale(graph, x, factor);
    }
    struct value *wide = build_cast(graph, x, DTYPE_F32);
    return build_cast(graph, build_scale(graph, wide, factor), DTYPE_BF16);
}

/* The factor of an embedding: a model that is bf16 throughout has it in bf16, too. Its
 * norms tell: where only products are in bf16, vectors stay f32. */
static double embedding_scale(const struct gemma_layers *layers, double factor)
{
    const int norm = params_index(layers->params, PARAM_FINAL_NORM, -1);
    if (layers->options->compute != DTYPE_BF16 ||
        gemma_stored_dtype(layers, norm) != DTYPE_BF16) {
        return factor;
    }
    return (double)dtype_f32_from_bf16(dtype_bf16_from_f32((float)factor));
}

/*
 * Per-layer inputs [L, B, T, P]: the token's rows of the table and a projection of its
 * embedding x0:
 *
 *     (norm(c_l) + e_l) / sqrt(2),  e = sqrt(P) table[id],  c = W x0 / sqrt(D)
 */
static struct value *build_ple(struct graph *graph, const struct gemma_layers *layers,
                               const struct gemma_inputs *inputs, struct value *x0)
{
    const struct model_config *config = layers->config;
    const enum dtype compute = layers->options->compute;
    const double factor = embedding_scale(layers, sqrt((double)config->P));
    struct value *e = NULL;
    if (inputs->ple_rows != NULL) {
        /* [B, T, L*P] */
        e = scale(graph, build_cast(graph, inputs->ple_rows, compute), factor);
    } else {
        struct value *table =
            build_use_param(graph, parameter(graph, layers, PARAM_PLE_TABLE), compute);
        e = build_embed(graph, table, inputs->ids, factor, config->pad_id);
    }
    struct value *weight =
        build_use_param(graph, parameter(graph, layers, PARAM_PLE_MODEL), compute);
    /* [B, T, L*P] */
    struct value *c = build_linear(graph, x0, weight);
    c = scale(graph, c, 1.0 / sqrt((double)config->D));
    const struct shape *shape = &x0->type.shape;
    const int64_t dim[] = {shape->dim[0], shape->dim[1], config->L, config->P};
    c = gemma_layer_norm(graph, config, build_reshape(graph, c, type_shape(4, dim)),
                         parameter(graph, layers, PARAM_PLE_MODEL_NORM), compute);
    e = build_reshape(graph, e, type_shape(4, dim));
    struct value *sum = scale(graph, build_add(graph, c, e), sqrt(0.5));
    /* [B, T, L, P] -> [L, B, T, P], so that a layer's input is one slice. */
    return build_transpose(graph, sum, (const int[]){2, 0, 1, 3});
}

/* The table is used twice, for the lookup and as the head: it is gathered once, and its
 * gradient is the sum of both. */
struct gemma_forward gemma_build_forward(struct graph *graph,
                                         const struct model_config *config,
                                         const struct params *params,
                                         const struct gemma_inputs *inputs,
                                         const struct gemma_options *options)
{
    const struct gemma_layers layers = {
        .config = config, .params = params, .options = options};
    struct gemma_forward forward = {0};
    forward.table = build_use_param(graph, parameter(graph, &layers, PARAM_EMBED),
                                    options->compute);
    /* Padding is looked up like all else, but its row gets no gradient by that. */
    forward.embedded =
        build_embed(graph, forward.table, inputs->ids,
                    embedding_scale(&layers, config->embed_scale), config->pad_id);
    if (config->P > 0) {
        const char *outer = graph_push_scope(graph, "ple");
        forward.ple = build_ple(graph, &layers, inputs, forward.embedded);
        graph_pop_scope(graph, outer);
    }
    struct gemma_stream stream = {.h = forward.embedded};
    if (inputs->caches != NULL) {
        build_cached_layers(graph, &layers, inputs, forward.ple, &stream);
    } else {
        gemma_build_grouped_layers(graph, &layers, inputs, forward.ple, &stream);
    }
    forward.hidden =
        gemma_layer_norm(graph, config, stream.h,
                         parameter(graph, &layers, PARAM_FINAL_NORM), options->compute);
    return forward;
}

/* The head's weight is the embedding table: z = hidden . table^T. */
struct value *gemma_build_logits(struct graph *graph, const struct model_config *config,
                                 const struct gemma_forward *forward)
{
    struct value *logits = build_linear(graph, forward->hidden, forward->table);
    if (config->final_softcap > 0.0) {
        logits = build_softcap(graph, logits, config->final_softcap);
    }
    return logits;
}
