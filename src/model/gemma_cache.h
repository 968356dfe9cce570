/*
 * gemma_cache - the forward pass that continues texts: new tokens see those before them
 * through caches of keys and values.
 *
 *     struct gemma_cache_shape shape = {.B = 1, .T = 16};
 *     gemma_cache_slots(config, context, longest, shape.slots);
 *     struct graph *graph = gemma_cache_build(&mesh, config, params, stored, &shape);
 *
 * Each layer that makes K and V has a cache; layers that share them read that of the
 * layer they share with. Full layers have a slot for every position; sliding ones a ring
 * buffer just long enough that the first token of a pass still finds its whole window
 * after the last one was written. The layers themselves are those of training.
 */
#ifndef MODEL_GEMMA_CACHE_H
#define MODEL_GEMMA_CACHE_H

#include "graph/graph.h"
#include "model/config.h"
#include "model/params.h"

/* Kinds of layers, as indices: of slots, key positions. */
enum { GEMMA_CACHE_FULL, GEMMA_CACHE_SLIDING, GEMMA_CACHE_KINDS };

struct gemma_cache_shape {
    int64_t B, T;                     /* rows, tokens of each in a pass */
    int64_t slots[GEMMA_CACHE_KINDS]; /* of a row; 0: the model has no such layers */
};

/* Values of one pass by kind and by layer: inputs, and the caches as the layers leave
 * them. */
struct gemma_caches {
    struct value *slots[GEMMA_CACHE_KINDS];        /* i32 [B, T] */
    struct value *key_position[GEMMA_CACHE_KINDS]; /* i32 [B, S] */
    struct value *k[MODEL_MAX_LAYERS];             /* [B, S, G, K]; NULL: shares */
    struct value *v[MODEL_MAX_LAYERS];             /* the same */
};

/* Slots of each kind for rows of up to `context` tokens that are read `longest` tokens
 * at a time. Position p is in slot p mod slots. */
void gemma_cache_slots(const struct model_config *config, int64_t context,
                       int64_t longest, int64_t slots[GEMMA_CACHE_KINDS]);

/* The layer's kind. */
static inline int gemma_cache_kind(const struct model_config *config, int layer)
{
    return config->layer[layer].is_sliding ? GEMMA_CACHE_SLIDING : GEMMA_CACHE_FULL;
}

/* f32 elements of all caches. */
int64_t gemma_cache_elements(const struct model_config *config,
                             const struct gemma_cache_shape *shape);

/*
 * Arguments by name, for the kinds that the model has:
 *
 *     ids, position            i32 [B, T]; position -1: padding, which sees nothing
 *     last                     i32 [B]: the row's token b * T + t whose logits are
 *                              wanted; -1: none, they are 0
 *     full.slots, sliding.slots  i32 [B, T]: where K and V go; -1: nowhere
 *     full.keys, sliding.keys    i32 [B, S]: positions in the slots, with those of this
 *                              pass; -1: nothing
 *     ple_rows                 f32 [B, T, L*P] with per-layer embeddings
 *     cache.k.N, cache.v.N     f32 [B, S, G, K] of layer N
 *
 * and the parameters by tensor name, as `stored` (struct gemma_options). Outputs: logits
 * f32 [B, V] after the soft cap, and the caches under their names, in their own memory.
 */
struct graph *gemma_cache_build(const struct mesh *mesh,
                                const struct model_config *config,
                                const struct params *params, const enum dtype *stored,
                                const struct gemma_cache_shape *shape);

#endif
