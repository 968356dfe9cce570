/*
 * gemma_parts - for gemma.c and gemma_groups.c alone.
 */
#ifndef MODEL_GEMMA_PARTS_H
#define MODEL_GEMMA_PARTS_H

#include "model/gemma.h"
#include "model/gemma_layer.h"

/* What all layers of one graph share. */
struct gemma_layers {
    const struct model_config *config;
    const struct params *params;
    const struct gemma_options *options; /* of the forward pass */
};

/* Of a value with a row for each of the batch in dimension 0. */
struct type gemma_row_type(const struct graph *graph, enum dtype dtype, int rank,
                           const int64_t *dim);

/* The number format in memory of the parameter with this index. */
enum dtype gemma_stored_dtype(const struct gemma_layers *layers, int index);

/* The row of the table for one of a layer's tensors (gemma_layer.h), or -1. */
int gemma_tensor_index(const struct params *params, int tensor, int layer);

/* Equal layers in loops: *stream goes through all of them. ple: [L, B, T, P], or NULL. */
void gemma_build_grouped_layers(struct graph *graph, const struct gemma_layers *layers,
                                const struct gemma_inputs *inputs, struct value *ple,
                                struct gemma_stream *stream);

#endif
