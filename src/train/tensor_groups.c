/*
 * tensor_groups - see the header.
 */
#include "train/tensor_groups.h"

#include <math.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/settings.h"

/* Kinds of tensors, for norms of runs that have no groups of their own. */
enum kind {
    KIND_EMBEDDING,
    KIND_ATTENTION,
    KIND_MLP,
    KIND_NORM,
    KIND_PER_LAYER,
    KIND_ADAPTER,
    N_KINDS
};

static const char *const kind_names[N_KINDS] = {"embeddings", "attention", "mlp",
                                                "norms",      "per-layer", "adapters"};

static enum kind kind_of(const struct param_info *info)
{
    if (info->is_norm) {
        return KIND_NORM;
    }
    switch (info->role) {
    case PARAM_EMBED:
        return KIND_EMBEDDING;
    case PARAM_Q:
    case PARAM_K:
    case PARAM_V:
    case PARAM_O:
        return KIND_ATTENTION;
    case PARAM_GATE:
    case PARAM_UP:
    case PARAM_DOWN:
        return KIND_MLP;
    case PARAM_LORA_A:
    case PARAM_LORA_B:
        return KIND_ADAPTER;
    case PARAM_PLE_TABLE:
    case PARAM_PLE_MODEL:
    case PARAM_PLE_GATE:
    case PARAM_PLE_OUT:
    case PARAM_LAYER_SCALAR:
        return KIND_PER_LAYER;
    case PARAM_PLE_MODEL_NORM:
    case PARAM_INPUT_NORM:
    case PARAM_Q_NORM:
    case PARAM_K_NORM:
    case PARAM_POST_ATTENTION_NORM:
    case PARAM_PRE_MLP_NORM:
    case PARAM_POST_MLP_NORM:
    case PARAM_PLE_NORM:
    case PARAM_FINAL_NORM:
        return KIND_NORM;
    }
    UNREACHABLE();
}

/* The first pattern that fits, or their number. */
static int first_fitting(const struct param_group_list *patterns, const char *name)
{
    for (int64_t k = 0; k < patterns->n; k++) {
        if (str_matches(patterns->items[k].match, name)) {
            return (int)k;
        }
    }
    return (int)patterns->n;
}

/* Lists for n groups that have nothing of their own yet. */
static void make_lists(struct tensor_groups *groups, int n, int n_params)
{
    groups->n = n;
    groups->group = mem_alloc_array((size_t)n_params, sizeof(*groups->group));
    groups->name = mem_alloc_array((size_t)n, sizeof(*groups->name));
    groups->n_tensors = mem_alloc_array((size_t)n, sizeof(*groups->n_tensors));
    groups->base = mem_alloc_array((size_t)n, sizeof(*groups->base));
}

/* A pattern that fits nothing is probably misspelled, or stands behind one that takes all
 * of its tensors. */
static void tell_unused(const struct tensor_groups *groups,
                        const struct param_group_list *patterns)
{
    for (int k = 0; k < (int)patterns->n; k++) {
        if (groups->n_tensors[k] == 0) {
            log_note(
                "train.param_groups: \"%s\" fits no trained tensor that an earlier "
                "pattern has left",
                patterns->items[k].match);
        }
    }
}

void tensor_groups_init(struct tensor_groups *groups, const struct settings *settings,
                        const struct params *params, const bool *is_trainable)
{
    const struct param_group_list *patterns = &settings->train.param_groups;
    const double decay = settings->train.optimizer.weight_decay;
    const bool has_patterns = patterns->n > 0;
    const bool has_kinds = !has_patterns && settings->train.norms_every > 0;
    const int n = has_patterns ? (int)patterns->n + 1 : has_kinds ? N_KINDS : 1;
    *groups = (struct tensor_groups){.lr = settings->train.optimizer.lr};
    make_lists(groups, n, params->n);
    for (int k = 0; k < n; k++) {
        groups->name[k] = has_kinds ? kind_names[k] : has_patterns ? "others" : "all";
        groups->base[k] = (struct step_group){.lr = (double)NAN, .weight_decay = decay};
        if (k < (int)patterns->n) {
            const struct param_group *own = &patterns->items[k];
            groups->name[k] = own->match;
            groups->base[k].lr = own->lr;
            groups->base[k].weight_decay =
                isnan(own->weight_decay) ? decay : own->weight_decay;
        }
    }
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        groups->group[i] = has_patterns ? first_fitting(patterns, info->name)
                           : has_kinds  ? (int)kind_of(info)
                                        : 0;
        groups->n_tensors[groups->group[i]] += is_trainable[i];
    }
    tell_unused(groups, patterns);
}

void tensor_groups_deinit(struct tensor_groups *groups)
{
    mem_free(groups->group);
    mem_free(groups->name);
    mem_free(groups->n_tensors);
    mem_free(groups->base);
    *groups = (struct tensor_groups){0};
}

/* Where the optimizer's own rate is 0 there is nothing to scale by: groups with a rate of
 * their own keep it. */
void tensor_groups_rates(const struct tensor_groups *groups, double rate,
                         struct step_group *rates)
{
    const double scale = groups->lr > 0.0 ? rate / groups->lr : 1.0;
    for (int k = 0; k < groups->n; k++) {
        rates[k] = groups->base[k];
        rates[k].lr = isnan(rates[k].lr) ? rate : rates[k].lr * scale;
    }
}
