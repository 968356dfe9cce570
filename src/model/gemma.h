/*
 * gemma - the forward pass of Gemma 3 and Gemma 4 (text, dense) as a graph.
 *
 *     struct graph *graph = graph_create(&mesh);
 *     struct gemma_inputs inputs = gemma_build_inputs(graph, &config, B, T, false);
 *     struct gemma_forward forward =
 *         gemma_build_forward(graph, &config, params, &inputs, &options);
 *
 * Layers are repeats over stacked parameters (layer_groups.h); expanding them gives one
 * parameter per tensor of the table, under its name. Equations: docs/gemma.md.
 */
#ifndef MODEL_GEMMA_H
#define MODEL_GEMMA_H

#include "graph/graph.h"
#include "model/config.h"
#include "model/params.h"

struct gemma_caches;

/* Arguments of the graph, by these names. Rows are split over replica and shard. */
struct gemma_inputs {
    struct value *ids;       /* "ids" i32 [B, T] */
    struct value *position;  /* "position" i32 [B, T] */
    struct value *first_key; /* "first_key" i32 [B, T], see build_attention */
    struct value *ple_rows;  /* "ple_rows" f32 [B, T, L*P]: rows of a frozen per-layer
                                table, looked up outside; NULL: the graph looks up */
    /* u32 scalars: "dropout_seed", and "dropout_step", another one for each pass of the
     * run; NULL: no dropout. */
    struct value *dropout_seed, *dropout_step;
    /* Keys and values of earlier tokens (gemma_cache.h), which become those after this
     * pass; then first_key is NULL. NULL: the tokens of a row see each other alone. */
    struct gemma_caches *caches;
};

struct gemma_options {
    enum dtype compute;       /* of activations: F32 or BF16 (F64 in tests) */
    const bool *is_trainable; /* [params->n] */
    /* [params->n] of parameters in memory, F32 or BF16, equal for all layers of a role;
     * NULL: all F32. Values are cast to `compute` where they are used. */
    const enum dtype *stored;
    double dropout; /* of the inputs of adapters; with inputs->dropout_seed only */
};

struct gemma_forward {
    struct value *embedded; /* [B, T, D] scaled embedding */
    struct value *ple;      /* [L, B, T, P] combined per-layer inputs, or NULL */
    struct value *hidden;   /* [B, T, D] after the last norm */
    struct value *table;    /* [V, D] the tied embedding, as used */
};

/* B rows per rank of T tokens. has_ple_rows: the per-layer table is fed as rows. */
struct gemma_inputs gemma_build_inputs(struct graph *graph,
                                       const struct model_config *config, int64_t B,
                                       int64_t T, bool has_ple_rows);

/* Adds the inputs that dropout needs, for training graphs. */
void gemma_build_dropout_inputs(struct graph *graph, struct gemma_inputs *inputs);

/* Adapters are those in `params`. */
struct gemma_forward gemma_build_forward(struct graph *graph,
                                         const struct model_config *config,
                                         const struct params *params,
                                         const struct gemma_inputs *inputs,
                                         const struct gemma_options *options);

/* Logits [B, T, V] after the soft cap: for small models and tests only. */
struct value *gemma_build_logits(struct graph *graph, const struct model_config *config,
                                 const struct gemma_forward *forward);

#endif
