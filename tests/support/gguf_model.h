/*
 * gguf_model - a small Gemma 3 as a GGUF file, for tests: six layers, D 32.
 *
 *     struct gguf_build build = {0};
 *     gguf_model_add_keys(&build);
 *     (a vocabulary: its length is the V of params)
 *     gguf_model_add_tensors(&build, params);
 */
#ifndef SUPPORT_GGUF_MODEL_H
#define SUPPORT_GGUF_MODEL_H

#include "support/gguf_build.h"

struct params;

/* Architecture and sizes. */
void gguf_model_add_keys(struct gguf_build *build);

/* A tensor for each parameter of the table: matrices Q8_0, element e of parameter i is
 * (i + e / 32) mod 100; norms f32, 1 + i + e / 64. */
void gguf_model_add_tensors(struct gguf_build *build, const struct params *params);

#endif
