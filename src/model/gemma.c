/*
 * gemma - embedding, layers as nested repeats, last norm. See the header.
 *
 * A group of layers becomes repeat(count) { repeat(run 0) {...} repeat(run 1) {...} };
 * a group of one period leaves the outer loop out. Operands of either loop: carries
 * (the stream), stacked (parameters of its runs, per-layer inputs), invariants
 * (positions).
 */
#include "model/gemma.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "graph/build.h"
#include "model/gemma_cache.h"
#include "model/gemma_layer.h"
#include "model/layer_groups.h"

enum { MAX_CARRIES = 5, MAX_OPERANDS = 512 };

/* What all layers of one graph share. */
struct layers {
    const struct model_config *config;
    const struct params *params;
    const struct gemma_options *options; /* of the forward pass */
    bool shares_kv;                      /* some layer uses another's K and V */
};

/* Values outside or inside a loop that its layers read. */
struct scope_values {
    struct value *position;  /* i32 [B, T] */
    struct value *first_key; /* i32 [B, T] */
    struct value *ple;       /* [period or run, B, T, P], or NULL */
    struct value *seed;      /* u32 scalar of dropout, or NULL */
    struct value *steps;     /* u32 [period or run], or NULL */
    /* Stacked parameters of each run, [.., run count, ...]. */
    struct value *params[LAYER_GROUPS_MAX_RUNS][GEMMA_LAYER_TENSORS];
};

/* A row belongs to one rank of replica x shard; ranks along tensor see the same
 * rows. */
static struct type row_type(const struct graph *graph, enum dtype dtype, int rank,
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
    const struct type ids = row_type(graph, DTYPE_I32, 2, tokens);
    struct gemma_inputs inputs = {
        .ids = build_input(graph, "ids", ids),
        .position = build_input(graph, "position", ids),
        .first_key = build_input(graph, "first_key", ids),
    };
    if (has_ple_rows && config->P > 0) {
        const int64_t rows[] = {B, T, config->L * config->P};
        inputs.ple_rows =
            build_input(graph, "ple_rows", row_type(graph, DTYPE_F32, 3, rows));
    }
    return inputs;
}

/* The order of creation is that of the arguments. */
void gemma_build_dropout_inputs(struct graph *graph, struct gemma_inputs *inputs)
{
    inputs->dropout_seed = build_input(graph, "dropout_seed", type_scalar(DTYPE_U32));
    inputs->dropout_step = build_input(graph, "dropout_step", type_scalar(DTYPE_U32));
}

/* The number format in memory of the parameter with this index. */
static enum dtype stored_dtype(const struct layers *layers, int index)
{
    return layers->options->stored == NULL ? DTYPE_F32 : layers->options->stored[index];
}

/* Row `index` of the table, as stored: [rows, columns]. */
static struct value *one_parameter(struct graph *graph, const struct layers *layers,
                                   int index)
{
    const struct param_info *info = &layers->params->info[index];
    return build_parameter(
        graph, info->name,
        type_make(stored_dtype(layers, index), info->rank, info->dim),
        layers->options->is_trainable[index]);
}

/* A tensor of the whole model. */
static struct value *parameter(struct graph *graph, const struct layers *layers,
                               enum param_role role)
{
    const int index = params_index(layers->params, role, -1);
    ASSERT(index >= 0);
    return one_parameter(graph, layers, index);
}

/* The row of the table for one of a layer's tensors (gemma_layer.h), or -1. */
static int tensor_index(const struct params *params, int tensor, int layer)
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

/* "self_attn.q_proj.weight" of "model.layers.3.self_attn.q_proj.weight" */
static const char *name_in_layer(const char *name)
{
    return strchr(name + strlen("model.layers."), '.') + 1;
}

/*
 * The tensors `tensor` of a run's layers in all periods of the group, stacked [count,
 * run, ...], or [run, ...] for a group of one period. NULL: the layers have none. A
 * stack is trainable if one of its slices is: after expanding, each slice is a
 * parameter of its own, and the caller picks those to train by name.
 */
static struct value *stacked_parameter(struct graph *graph, const struct layers *layers,
                                       const struct layer_group *group,
                                       const struct layer_run *run, int tensor)
{
    const struct params *params = layers->params;
    const int first = tensor_index(params, tensor, group->first + run->offset);
    if (first < 0) {
        return NULL;
    }
    const int n = group->count * run->count;
    const char **names = arena_alloc_array(graph->arena, (size_t)n, sizeof(*names));
    bool is_trainable = false;
    for (int i = 0; i < n; i++) {
        /* The i-th slice, counted over periods first, then within the run. */
        const int layer = group->first + i / run->count * group->period + run->offset +
                          i % run->count;
        const int index = tensor_index(params, tensor, layer);
        ASSERT(index >= 0);
        names[i] = params->info[index].name;
        is_trainable = is_trainable || layers->options->is_trainable[index];
        ASSERT(stored_dtype(layers, index) == stored_dtype(layers, first));
    }
    const struct param_info *info = &params->info[first];
    int64_t dim[4];
    int rank = 0;
    if (group->count > 1) {
        dim[rank++] = group->count;
    }
    dim[rank++] = run->count;
    for (int i = 0; i < info->rank; i++) {
        dim[rank++] = info->dim[i];
    }
    const char *name = arena_printf(
        graph->arena, "layers.%d-%d.%s", group->first + run->offset,
        group->first + run->offset + run->count - 1, name_in_layer(info->name));
    return build_stacked_parameter(graph, name, names, n,
                                   type_make(stored_dtype(layers, first), rank, dim),
                                   is_trainable);
}

/* ---- loops ---- */

/* Operands of a loop, and the body's arguments that stand for them, in one order. */
struct loop {
    struct graph *body; /* owned until build_repeat takes it */
    /* h, then k and v of each kind that is shared */
    struct value *carries[MAX_CARRIES];
    struct value *stacked[MAX_OPERANDS]; /* parameters, then per-layer inputs */
    struct value *invariants[3];         /* position, first_key, seed of dropout */
    int n_carries, n_stacked, n_invariants;
};

/* Arguments of a graph have unique names; the number makes them so. */
static struct value *loop_argument(struct loop *loop, const char *name,
                                   const struct type *type)
{
    const char *unique =
        arena_printf(loop->body->arena, "%s.%d", name, loop->body->n_arguments);
    return build_input(loop->body, unique, *type);
}

/* Returns what the body sees of it. */
static struct value *add_carry(struct loop *loop, struct value *value)
{
    ASSERT(loop->n_carries < MAX_CARRIES);
    loop->carries[loop->n_carries++] = value;
    return loop_argument(loop, "carry", &value->type);
}

/* The body sees one slice of the stack. */
static struct value *add_stacked(struct loop *loop, struct value *value)
{
    ASSERT(loop->n_stacked < MAX_OPERANDS);
    loop->stacked[loop->n_stacked++] = value;
    const struct type slice = type_slice(&value->type, 1);
    return loop_argument(loop, "slice", &slice);
}

/* The iteration's number comes first in every body; no layer reads it. */
static void loop_begin(struct loop *loop, const struct graph *graph)
{
    *loop = (struct loop){.body = graph_create(&graph->mesh)};
    build_input(loop->body, "iteration", type_scalar(DTYPE_I32));
}

/* The stream as the body sees it. K and V are carried only where some layer shares
 * them. */
static struct gemma_stream add_stream(struct loop *loop,
                                      const struct gemma_stream *stream)
{
    struct gemma_stream inner = {.h = add_carry(loop, stream->h)};
    for (int kind = 0; kind < 2; kind++) {
        if (stream->k[kind] != NULL) {
            inner.k[kind] = add_carry(loop, stream->k[kind]);
            inner.v[kind] = add_carry(loop, stream->v[kind]);
        }
    }
    return inner;
}

/* The same in every iteration and every layer. */
static void add_invariants(struct loop *loop, const struct scope_values *outer,
                           struct scope_values *inner)
{
    loop->invariants[loop->n_invariants++] = outer->position;
    loop->invariants[loop->n_invariants++] = outer->first_key;
    inner->position = loop_argument(loop, "position", &outer->position->type);
    inner->first_key = loop_argument(loop, "first_key", &outer->first_key->type);
    if (outer->seed != NULL) {
        loop->invariants[loop->n_invariants++] = outer->seed;
        inner->seed = loop_argument(loop, "seed", &outer->seed->type);
    }
}

/*
 * Closes the body with the stream as it leaves it; `stream` becomes the loop's result.
 */
static void loop_end(struct loop *loop, struct graph *graph, int n_iterations,
                     const struct gemma_stream *inner, struct gemma_stream *stream,
                     const char *name)
{
    graph_add_output(loop->body, "h", inner->h, NULL);
    for (int kind = 0; kind < 2; kind++) {
        if (stream->k[kind] != NULL) {
            graph_add_output(loop->body, kind == 0 ? "k.full" : "k.sliding",
                             inner->k[kind], NULL);
            graph_add_output(loop->body, kind == 0 ? "v.full" : "v.sliding",
                             inner->v[kind], NULL);
        }
    }
    struct node *node = build_repeat(graph, n_iterations, loop->body, loop->carries,
                                     loop->n_carries, loop->stacked, loop->n_stacked,
                                     loop->invariants, loop->n_invariants, name);
    int next = 0;
    stream->h = node->outputs[next++];
    for (int kind = 0; kind < 2; kind++) {
        if (stream->k[kind] != NULL) {
            stream->k[kind] = node->outputs[next++];
            stream->v[kind] = node->outputs[next++];
        }
    }
}

/* ---- runs and groups ---- */

/* A loop over the equal layers of one run. values->ple: [period, B, T, P]. */
static void build_run(struct graph *graph, const struct layers *layers,
                      const struct layer_group *group, int run_index,
                      const struct scope_values *values, struct gemma_stream *stream)
{
    const struct layer_run *run = &group->runs[run_index];
    struct loop loop;
    loop_begin(&loop, graph);
    struct gemma_layer layer = {.config = layers->config,
                                .layer = group->first + run->offset,
                                .compute = layers->options->compute,
                                .lora_scale = layers->params->lora_scale};
    struct gemma_stream inner = add_stream(&loop, stream);
    for (int tensor = 0; tensor < GEMMA_LAYER_TENSORS; tensor++) {
        struct value *stacked = values->params[run_index][tensor];
        layer.params[tensor] = stacked == NULL ? NULL : add_stacked(&loop, stacked);
    }
    if (values->ple != NULL) {
        struct value *part = build_slice_axis(graph, values->ple, 0, run->offset,
                                              run->offset + run->count);
        layer.ple = add_stacked(&loop, part);
    }
    if (values->steps != NULL) {
        struct value *part = build_slice_axis(graph, values->steps, 0, run->offset,
                                              run->offset + run->count);
        layer.dropout.step = add_stacked(&loop, part);
        layer.dropout.rate = layers->options->dropout;
    }
    struct scope_values inside = {0};
    add_invariants(&loop, values, &inside);
    layer.dropout.seed = inside.seed;
    layer.position = inside.position;
    layer.first_key = inside.first_key;
    gemma_layer_build(loop.body, &layer, &inner);
    loop_end(&loop, graph, run->count, &inner, stream, "layer");
}

/* What differs from layer to layer, [L, ...] -> [count, period, ...]: the group's part,
 * with one slice for each turn of the outer loop. */
static struct value *by_period(struct graph *graph, const struct layer_group *group,
                               struct value *all)
{
    const int n_layers = group->count * group->period;
    struct value *part =
        build_slice_axis(graph, all, 0, group->first, group->first + n_layers);
    const struct shape *shape = &all->type.shape;
    int64_t dim[SHAPE_MAX_RANK] = {group->count, group->period};
    for (int i = 1; i < shape->rank; i++) {
        dim[i + 1] = shape->dim[i];
    }
    return build_reshape(graph, part, type_shape(shape->rank + 1, dim));
}

/* The stacked parameters of all runs of a group. */
static void make_parameters(struct graph *graph, const struct layers *layers,
                            const struct layer_group *group,
                            struct scope_values *values)
{
    for (int run = 0; run < group->n_runs; run++) {
        for (int tensor = 0; tensor < GEMMA_LAYER_TENSORS; tensor++) {
            values->params[run][tensor] =
                stacked_parameter(graph, layers, group, &group->runs[run], tensor);
        }
    }
}

/* all->ple: [L, B, T, P] of all layers, or NULL; all->steps: [L], or NULL. */
static void build_group(struct graph *graph, const struct layers *layers,
                        const struct layer_group *group, const struct scope_values *all,
                        struct gemma_stream *stream)
{
    struct scope_values values = {
        .position = all->position, .first_key = all->first_key, .seed = all->seed};
    make_parameters(graph, layers, group, &values);
    if (group->count == 1) {
        const int end = group->first + group->period;
        values.ple = all->ple == NULL
                         ? NULL
                         : build_slice_axis(graph, all->ple, 0, group->first, end);
        values.steps = all->steps == NULL
                           ? NULL
                           : build_slice_axis(graph, all->steps, 0, group->first, end);
        for (int run = 0; run < group->n_runs; run++) {
            build_run(graph, layers, group, run, &values, stream);
        }
        return;
    }
    struct loop loop;
    loop_begin(&loop, graph);
    struct gemma_stream inner = add_stream(&loop, stream);
    struct scope_values inside = {0};
    for (int run = 0; run < group->n_runs; run++) {
        for (int tensor = 0; tensor < GEMMA_LAYER_TENSORS; tensor++) {
            struct value *stacked = values.params[run][tensor];
            inside.params[run][tensor] =
                stacked == NULL ? NULL : add_stacked(&loop, stacked);
        }
    }
    if (all->ple != NULL) {
        inside.ple = add_stacked(&loop, by_period(graph, group, all->ple));
    }
    if (all->steps != NULL) {
        inside.steps = add_stacked(&loop, by_period(graph, group, all->steps));
    }
    add_invariants(&loop, &values, &inside);
    for (int run = 0; run < group->n_runs; run++) {
        build_run(loop.body, layers, group, run, &inside, &inner);
    }
    loop_end(&loop, graph, group->count, &inner, stream, "layers");
}

/* ---- layers with caches ---- */

/*
 * One layer after the other: each has a cache of its own, in an argument of the graph,
 * so there is nothing for a loop to stack. ple: [L, B, T, P], or NULL. Caches become
 * what the layers leave in them.
 */
static void build_cached_layers(struct graph *graph, const struct layers *layers,
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
            const int index = tensor_index(layers->params, tensor, i);
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

/* Zeros that stand for K and V before any layer has made its own. */
static void start_shared_kv(struct graph *graph, const struct layers *layers,
                            const struct gemma_inputs *inputs,
                            struct gemma_stream *stream)
{
    const struct model_config *config = layers->config;
    for (int i = 0; i < config->L; i++) {
        const struct layer_config *facts = &config->layer[i];
        if (stream->k[facts->is_sliding] != NULL) {
            continue;
        }
        const struct shape *shape = &inputs->ids->type.shape;
        const int64_t dim[] = {shape->dim[0], shape->dim[1], facts->G, facts->K};
        /* [B, T, G, K]; layers that share K and V come after one that makes them. */
        struct value *zero = build_constant(
            graph, row_type(graph, layers->options->compute, 4, dim), 0.0);
        stream->k[facts->is_sliding] = zero;
        stream->v[facts->is_sliding] = zero;
    }
}

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
static double embedding_scale(const struct layers *layers, double factor)
{
    const int norm = params_index(layers->params, PARAM_FINAL_NORM, -1);
    if (layers->options->compute != DTYPE_BF16 ||
        stored_dtype(layers, norm) != DTYPE_BF16) {
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
static struct value *build_ple(struct graph *graph, const struct layers *layers,
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

/* u32 [L]: step * L + layer, a number that no other pass and layer has. */
static struct value *number_layers(struct graph *graph,
                                   const struct model_config *config,
                                   struct value *step)
{
    const int64_t L[] = {config->L};
    struct value *layer = build_iota(graph, type_make(DTYPE_U32, 1, L), 0);
    return build_add(graph, layer, build_scale(graph, step, (double)config->L));
}

/* Gemma 4's small models. */
static bool model_shares_kv(const struct model_config *config)
{
    for (int i = 0; i < config->L; i++) {
        if (!model_config_owns_kv(config, i)) {
            return true;
        }
    }
    return false;
}

/* Equal layers in loops. ple: [L, B, T, P], or NULL. */
static void build_grouped_layers(struct graph *graph, const struct layers *layers,
                                 const struct gemma_inputs *inputs, struct value *ple,
                                 struct gemma_stream *stream)
{
    const struct model_config *config = layers->config;
    if (layers->shares_kv) {
        start_shared_kv(graph, layers, inputs, stream);
    }
    struct scope_values all = {
        .position = inputs->position, .first_key = inputs->first_key, .ple = ple};
    if (inputs->dropout_seed != NULL && layers->options->dropout > 0.0) {
        all.seed = inputs->dropout_seed;
        all.steps = number_layers(graph, config, inputs->dropout_step);
    }
    struct layer_group *groups = mem_alloc_array((size_t)config->L, sizeof(*groups));
    const int n_groups = layer_groups_find(config, layers->params, groups);
    for (int i = 0; i < n_groups; i++) {
        build_group(graph, layers, &groups[i], &all, stream);
    }
    mem_free(groups);
}

/* The table is used twice, for the lookup and as the head: it is gathered once, and its
 * gradient is the sum of both. */
struct gemma_forward gemma_build_forward(struct graph *graph,
                                         const struct model_config *config,
                                         const struct params *params,
                                         const struct gemma_inputs *inputs,
                                         const struct gemma_options *options)
{
    const struct layers layers = {.config = config,
                                  .params = params,
                                  .options = options,
                                  .shares_kv = model_shares_kv(config)};
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
        build_grouped_layers(graph, &layers, inputs, forward.ple, &stream);
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
