/*
 * gemma_groups - layers as nested repeats.
 *
 * A group of layers becomes repeat(count) { repeat(run 0) {...} repeat(run 1) {...} };
 * a group of one period leaves the outer loop out. Operands of either loop: carries
 * (the stream), stacked (parameters of its runs, per-layer inputs), invariants
 * (positions).
 */
#include <string.h>

#include "base/mem.h"
#include "graph/build.h"
#include "model/gemma_layer.h"
#include "model/gemma_parts.h"
#include "model/layer_groups.h"

enum { MAX_CARRIES = 5, MAX_OPERANDS = 512 };

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

/* ---- stacks of parameters ---- */

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
static struct value *stacked_parameter(struct graph *graph,
                                       const struct gemma_layers *layers,
                                       const struct layer_group *group,
                                       const struct layer_run *run, int tensor)
{
    const struct params *params = layers->params;
    const int first = gemma_tensor_index(params, tensor, group->first + run->offset);
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
        const int index = gemma_tensor_index(params, tensor, layer);
        ASSERT(index >= 0);
        names[i] = params->info[index].name;
        is_trainable = is_trainable || layers->options->is_trainable[index];
        ASSERT(gemma_stored_dtype(layers, index) == gemma_stored_dtype(layers, first));
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
    return build_stacked_parameter(
        graph, name, names, n, type_make(gemma_stored_dtype(layers, first), rank, dim),
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
static void build_run(struct graph *graph, const struct gemma_layers *layers,
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
static void make_parameters(struct graph *graph, const struct gemma_layers *layers,
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
static void build_group(struct graph *graph, const struct gemma_layers *layers,
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

/* ---- all layers ---- */

/* Zeros that stand for K and V before any layer has made its own. */
static void start_shared_kv(struct graph *graph, const struct gemma_layers *layers,
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
            graph, gemma_row_type(graph, layers->options->compute, 4, dim), 0.0);
        stream->k[facts->is_sliding] = zero;
        stream->v[facts->is_sliding] = zero;
    }
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

/* Dropout, K and V that layers share, and groups are matters of loops alone. */
void gemma_build_grouped_layers(struct graph *graph, const struct gemma_layers *layers,
                                const struct gemma_inputs *inputs, struct value *ple,
                                struct gemma_stream *stream)
{
    const struct model_config *config = layers->config;
    if (model_shares_kv(config)) {
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
