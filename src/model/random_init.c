/*
 * random_init - see random_init.h.
 */
#include "model/random_init.h"

#include "base/random.h"
#include "model/config.h"
#include "model/params.h"

/* The number depends on parameter and element alone, so that a row is the same whoever
 * makes it and in whatever pieces. */
void random_init_rows(const struct model_config *config, const struct params *params,
                      uint64_t seed, int param, int64_t first_row, int64_t n_rows,
                      float *target)
{
    const struct param_info *info = &params->info[param];
    ASSERT(0 <= first_row && 0 <= n_rows && first_row <= info->dim[0] - n_rows);
    const int64_t first = first_row * info->dim[1];
    const int64_t n = n_rows * info->dim[1];
    const float identity = config->norm_adds_one ? 0.0f : 1.0f;
    const float deviation = (float)config->initializer_range;
    for (int64_t i = 0; i < n; i++) {
        if (info->is_norm) {
            target[i] = identity;
        } else if (info->role == PARAM_LAYER_SCALAR) {
            target[i] = 1.0f;
        } else {
            target[i] = deviation * random_normal(seed, RANDOM_INIT, (uint64_t)param,
                                                  (uint64_t)(first + i));
        }
    }
}
