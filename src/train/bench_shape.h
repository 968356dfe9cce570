/*
 * bench_shape - the model that a benchmark runs: a shape without weights, by the name of a
 * published size or by a model folder or .gguf file, whose weights are not read.
 */
#ifndef TRAIN_BENCH_SHAPE_H
#define TRAIN_BENCH_SHAPE_H

#include "train/model_source.h"

/* Fills config and params of *source, which is zeroed or closed before; false with the names
 * that there are. `name` is borrowed. */
MUST_USE bool bench_shape_open(struct model_source *source, const char *name,
                               struct error *err);

/* Bytes of the matrices that one token reads, each number in `bytes`: all but tables that
 * are only looked up. */
double bench_shape_token_bytes(const struct model_source *source, size_t bytes);

#endif
