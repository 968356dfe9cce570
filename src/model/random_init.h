/*
 * random_init - initial parameters of a model that starts from nothing.
 *
 * Matrices: normal with deviation config.initializer_range, from the RANDOM_INIT stream
 * at (parameter index, element index), so that any rank can make any rows and all
 * agree. Norms start as the identity (0 for Gemma 3, 1 for Gemma 4), layer scalars as
 * 1.
 */
#ifndef MODEL_RANDOM_INIT_H
#define MODEL_RANDOM_INIT_H

#include "base/base.h"

struct model_config;
struct params;

/* Rows first_row .. first_row + n_rows - 1 of parameter `param`; see weights_read. */
void random_init_rows(const struct model_config *config, const struct params *params,
                      uint64_t seed, int param, int64_t first_row, int64_t n_rows,
                      float *target);

#endif
