/*
 * gemma_layer - one decoder layer of Gemma 3 or Gemma 4.
 */
#ifndef MODEL_GEMMA_LAYER_H
#define MODEL_GEMMA_LAYER_H

#include "graph/graph.h"
#include "model/config.h"
#include "model/params.h"

/*
 * What flows from layer to layer. K and V (after norm and RoPE, [B, T, G, K], or the
 * caches with them) of the last layer that made its own, by kind: [0] full, [1] sliding;
 * NULL where nobody shares.
 */
struct gemma_stream {
    struct value *h;    /* [B, T, D] */
    struct value *k[2]; /* by is_sliding */
    struct value *v[2]; /* by is_sliding */
};

/* Tensors of a layer: weights by role, then the A of their adapters by the weight's
 * role, then the B. */
enum {
    GEMMA_LAYER_A = PARAM_ROLE_COUNT,
    GEMMA_LAYER_B = 2 * PARAM_ROLE_COUNT,
    GEMMA_LAYER_TENSORS = 3 * PARAM_ROLE_COUNT
};

/* Dropout of what adapters read: which bits decide, and how many elements go. */
struct gemma_dropout {
    double rate;        /* share left out; 0: none, and no values */
    struct value *seed; /* u32 scalar */
    struct value *step; /* u32 scalar, another one for each pass and layer */
};

/* Keys and values of earlier tokens, for the layer's kind. */
struct gemma_layer_cache {
    struct value *slots;        /* i32 [B, T]: where those of this pass go */
    struct value *key_position; /* i32 [B, S]: what the slots hold then */
    struct value *k, *v;        /* [B, S, G, K]; NULL: the stream has them */
};

struct gemma_layer {
    const struct model_config *config; /* of the whole model */
    int layer;                         /* this one, or one that is equal */
    enum dtype compute;                /* of activations */
    double lora_scale;                 /* of adapters, see params.h */
    struct gemma_dropout dropout;
    struct value
        *params[GEMMA_LAYER_TENSORS]; /* as stored; NULL where the layer has none */
    struct value *position;           /* i32 [B, T] */
    struct value *first_key;          /* i32 [B, T]; NULL with a cache */
    struct gemma_layer_cache cache;   /* empty: tokens see those of their row alone */
    struct value *ple;                /* [B, T, P] this layer's input, or NULL */
};

/* Builds the layer behind stream->h and updates the stream. */
void gemma_layer_build(struct graph *graph, const struct gemma_layer *layer,
                       struct gemma_stream *stream);

/* rms_norm with the family's way of using the weight (NULL: none). */
struct value *gemma_layer_norm(struct graph *graph, const struct model_config *config,
                               struct value *x, struct value *weight,
                               enum dtype compute);

#endif
