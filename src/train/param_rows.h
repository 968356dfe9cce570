/*
 * param_rows - from a function that gives rows of a parameter in f32 into an engine: the
 * whole of it, or some rows by number.
 */
#ifndef TRAIN_PARAM_ROWS_H
#define TRAIN_PARAM_ROWS_H

#include "backend/backend.h"
#include "model/weights.h"

struct params;

/* Fills the buffer, whatever its dtype, with all rows of parameter `param`. */
MUST_USE bool param_rows_load(struct buffer *buffer, const struct params *params,
                              int param, weights_read_fn read, void *context,
                              struct error *err);

/*
 * Rows ids[0 .. n) of a per-layer table, one behind the other into target [n, dim[1]].
 * Zeros for ids outside of it: such a table may have fewer rows than the vocabulary.
 */
MUST_USE bool param_rows_look_up(const struct params *params, int param,
                                 const int32_t *ids, int64_t n, weights_read_fn read,
                                 void *context, float *target, struct error *err);

#endif
