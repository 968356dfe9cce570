/*
 * flops - see the header.
 */
#include "train/flops.h"

#include "data/batch.h"
#include "model/config.h"
#include "model/params.h"

/* position + 1 keys are seen by a token of its document. */
void flops_count(const struct batch *batch, int64_t window, struct flops_counts *counts)
{
    for (int32_t row = 0; row < batch->rows; row++) {
        const int32_t *position = batch->position + (int64_t)row * batch->row_tokens;
        for (int32_t i = 0; i < batch->row_used[row]; i++) {
            const int64_t keys = (int64_t)position[i] + 1;
            counts->pairs += (double)keys;
            counts->pairs_sliding += (double)base_min(keys, window);
        }
        counts->tokens += (double)batch->row_used[row];
    }
    counts->targets += (double)batch->n_targets;
}

struct flops_counts flops_row(int64_t n, int64_t window)
{
    struct flops_counts counts = {.tokens = (double)n, .targets = (double)n};
    for (int64_t keys = 1; keys <= n; keys++) {
        counts.pairs += (double)keys;
        counts.pairs_sliding += (double)base_min(keys, window);
    }
    return counts;
}

/* The table of embeddings is looked up, and multiplied with as the head; that of per-layer
 * embeddings is looked up only. */
static bool is_multiplied_by_tokens(const struct param_info *info)
{
    return info->rank == 2 && info->role != PARAM_EMBED &&
           info->role != PARAM_PLE_TABLE;
}

/* Of one layer, forward: scores and their product with the values. */
static double attention(const struct model_config *config, int layer,
                        const struct flops_counts *counts)
{
    const struct layer_config *own = &config->layer[layer];
    const double pairs = own->is_sliding ? counts->pairs_sliding : counts->pairs;
    return 4.0 * (double)(config->H * own->K) * pairs;
}

double flops_forward(const struct model_config *config, const struct params *params,
                     const struct flops_counts *counts)
{
    double total = 2.0 * (double)(config->V * config->D) * counts->targets;
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        if (is_multiplied_by_tokens(info)) {
            total += 2.0 * (double)info->n_elements * counts->tokens;
        }
    }
    for (int layer = 0; layer < config->L; layer++) {
        total += attention(config, layer, counts);
    }
    return total;
}

/* The first layer to which activations' gradients go; -1: down to the embeddings. L: none.
 * Tensors of the whole model lie before the first layer, but for the last norm and for the
 * embedding table where it is the head only. */
static int lowest_trained(const struct model_config *config,
                          const struct params *params, const bool *is_trainable)
{
    int lowest = config->L;
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        if (is_trainable[i] && info->role != PARAM_FINAL_NORM) {
            lowest = (int)base_min(lowest, info->layer);
        }
    }
    return lowest;
}

/*
 * y = W x:  dx = W^T dy  where something below is trained, dW = dy x^T where W is. Each
 * costs what the forward product does.
 */
double flops_training(const struct model_config *config, const struct params *params,
                      const bool *is_trainable, const struct flops_counts *counts)
{
    const int lowest = lowest_trained(config, params, is_trainable);
    const int table = params_index(params, PARAM_EMBED, -1);
    const double head = 2.0 * (double)(config->V * config->D) * counts->targets;
    double total = flops_forward(config, params, counts);
    total += head + (is_trainable[table] ? head : 0.0);
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        if (!is_multiplied_by_tokens(info)) {
            continue;
        }
        const double product = 2.0 * (double)info->n_elements * counts->tokens;
        total += info->layer >= lowest ? product : 0.0;
        total += is_trainable[i] ? product : 0.0;
    }
    for (int layer = (int)base_max(0, lowest); layer < config->L; layer++) {
        total += 2.0 * attention(config, layer, counts);
    }
    return total;
}
