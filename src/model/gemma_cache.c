/*
 * gemma_cache - see the header.
 */
#include "model/gemma_cache.h"

#include "base/arena.h"
#include "graph/build.h"
#include "model/gemma.h"

enum { SLOTS_MULTIPLE = 16 };

static const char *const kind_names[GEMMA_CACHE_KINDS] = {"full", "sliding"};

/* A query at the start of a pass sees window - 1 tokens before it, and the pass has
 * written longest - 1 behind it by then. */
void gemma_cache_slots(const struct model_config *config, int64_t context,
                       int64_t longest, int64_t slots[GEMMA_CACHE_KINDS])
{
    const int64_t whole = base_round_up(context, SLOTS_MULTIPLE);
    const int64_t ring = base_round_up(config->window + longest - 1, SLOTS_MULTIPLE);
    slots[GEMMA_CACHE_FULL] = 0;
    slots[GEMMA_CACHE_SLIDING] = 0;
    for (int i = 0; i < config->L; i++) {
        const int kind = gemma_cache_kind(config, i);
        slots[kind] = kind == GEMMA_CACHE_FULL ? whole : base_min(whole, ring);
    }
}

int64_t gemma_cache_elements(const struct model_config *config,
                             const struct gemma_cache_shape *shape)
{
    int64_t n = 0;
    for (int i = 0; i < config->L; i++) {
        const struct layer_config *facts = &config->layer[i];
        if (model_config_owns_kv(config, i)) {
            n += 2 * shape->B * shape->slots[gemma_cache_kind(config, i)] * facts->G *
                 facts->K;
        }
    }
    return n;
}

/* The order of creation is that of the arguments. */
static struct gemma_caches build_inputs(struct graph *graph,
                                        const struct model_config *config,
                                        const struct gemma_cache_shape *shape)
{
    struct gemma_caches caches = {0};
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        if (shape->slots[kind] == 0) {
            continue;
        }
        const int64_t tokens[] = {shape->B, shape->T};
        const int64_t keys[] = {shape->B, shape->slots[kind]};
        caches.slots[kind] =
            build_input(graph, arena_printf(graph->arena, "%s.slots", kind_names[kind]),
                        type_make(DTYPE_I32, 2, tokens));
        caches.key_position[kind] =
            build_input(graph, arena_printf(graph->arena, "%s.keys", kind_names[kind]),
                        type_make(DTYPE_I32, 2, keys));
    }
    for (int i = 0; i < config->L; i++) {
        if (!model_config_owns_kv(config, i)) {
            continue;
        }
        const struct layer_config *facts = &config->layer[i];
        const int64_t dim[] = {shape->B, shape->slots[gemma_cache_kind(config, i)],
                               facts->G, facts->K};
        const struct type type = type_make(DTYPE_F32, 4, dim);
        caches.k[i] =
            build_input(graph, arena_printf(graph->arena, "cache.k.%d", i), type);
        caches.v[i] =
            build_input(graph, arena_printf(graph->arena, "cache.v.%d", i), type);
    }
    return caches;
}

/* Logits of one token of each row: [B, T, D] -> [B, D] -> [B, V]. */
static struct value *build_last_logits(struct graph *graph,
                                       const struct model_config *config,
                                       const struct gemma_forward *forward,
                                       struct value *last)
{
    const struct shape *shape = &forward->hidden->type.shape;
    const int64_t dim[] = {shape->dim[0] * shape->dim[1], shape->dim[2]};
    struct gemma_forward chosen = *forward;
    struct value *rows = build_reshape(graph, forward->hidden, type_shape(2, dim));
    chosen.hidden = build_gather_rows(graph, rows, last, -1);
    return gemma_build_logits(graph, config, &chosen);
}

/* Nothing is trained, so there are no repeats to differentiate: the layers are written
 * out, each with its own cache. */
struct graph *gemma_cache_build(const struct mesh *mesh,
                                const struct model_config *config,
                                const struct params *params, const enum dtype *stored,
                                const struct gemma_cache_shape *shape)
{
    struct graph *graph = graph_create(mesh);
    const int64_t tokens[] = {shape->B, shape->T};
    const struct type ids = type_make(DTYPE_I32, 2, tokens);
    struct gemma_inputs inputs = {.ids = build_input(graph, "ids", ids),
                                  .position = build_input(graph, "position", ids)};
    struct value *last = build_input(graph, "last", type_make(DTYPE_I32, 1, tokens));
    if (config->P > 0) {
        const int64_t rows[] = {shape->B, shape->T, config->L * config->P};
        inputs.ple_rows = build_input(graph, "ple_rows", type_make(DTYPE_F32, 3, rows));
    }
    const struct gemma_caches before = build_inputs(graph, config, shape);
    struct gemma_caches after = before;
    inputs.caches = &after;
    const struct gemma_options options = {
        .compute = DTYPE_F32,
        .is_trainable =
            arena_alloc_array(graph->arena, (size_t)params->n, sizeof(bool)),
        .stored = stored};
    const struct gemma_forward forward =
        gemma_build_forward(graph, config, params, &inputs, &options);
    graph_add_output(graph, "logits", build_last_logits(graph, config, &forward, last),
                     NULL);
    for (int i = 0; i < config->L; i++) {
        if (before.k[i] != NULL) {
            graph_add_output(graph, before.k[i]->node->name, after.k[i], before.k[i]);
            graph_add_output(graph, before.v[i]->node->name, after.v[i], before.v[i]);
        }
    }
    return graph;
}
