/*
 * layer_groups - see the header. Greedy: at each layer the period that covers the most
 * layers wins, the shortest one among equals; a period that does not come again is cut
 * down to one run of equal layers.
 */
#include "model/layer_groups.h"

/* Longest period tried; Gemma's is 5 or 6. */
enum { MAX_PERIOD = 12 };

/* Of kv_source only whether it is the layer's own matters: a sharing layer reads what
 * the stream carries. */
bool layer_groups_equal(const struct model_config *config, const struct params *params,
                        int a, int b)
{
    if (params != NULL && params->adapted != NULL &&
        params->adapted[a] != params->adapted[b]) {
        return false;
    }
    const struct layer_config *x = &config->layer[a];
    const struct layer_config *y = &config->layer[b];
    return x->is_sliding == y->is_sliding && x->k_eq_v == y->k_eq_v && x->G == y->G &&
           x->K == y->K && x->F == y->F && x->rope_theta == y->rope_theta &&
           x->rope_factor == y->rope_factor && x->rotary_pairs == y->rotary_pairs &&
           model_config_owns_kv(config, a) == model_config_owns_kv(config, b);
}

/* How often the layers [first, first + period) come one after another from there on. */
static int count_periods(const struct model_config *config, const struct params *params,
                         int first, int period)
{
    /* How far the list goes on as it was one period before. */
    int n_equal = 0;
    while (
        first + period + n_equal < config->L &&
        layer_groups_equal(config, params, first + n_equal, first + period + n_equal)) {
        n_equal++;
    }
    return 1 + n_equal / period;
}

/* Length of the run of equal layers that starts at `first`, at most `limit`. */
static int run_length(const struct model_config *config, const struct params *params,
                      int first, int limit)
{
    int length = 1;
    while (length < limit &&
           layer_groups_equal(config, params, first, first + length)) {
        length++;
    }
    return length;
}

/* Fills in the runs of a period; false when there are more than fit. */
static bool find_runs(const struct model_config *config, const struct params *params,
                      struct layer_group *group)
{
    group->n_runs = 0;
    for (int offset = 0; offset < group->period;) {
        if (group->n_runs == LAYER_GROUPS_MAX_RUNS) {
            return false;
        }
        const int count =
            run_length(config, params, group->first + offset, group->period - offset);
        group->runs[group->n_runs++] =
            (struct layer_run){.offset = offset, .count = count};
        offset += count;
    }
    return true;
}

/* To beat the run of equal layers, a period has to cover more. */
static struct layer_group find_group(const struct model_config *config,
                                     const struct params *params, int first)
{
    const int run = run_length(config, params, first, config->L - first);
    struct layer_group best = {.first = first, .period = run, .count = 1};
    int covered = run;
    for (int period = 2; period <= MAX_PERIOD && first + 2 * period <= config->L;
         period++) {
        struct layer_group group = {.first = first, .period = period};
        group.count = count_periods(config, params, first, period);
        if (group.count > 1 && group.count * period > covered &&
            find_runs(config, params, &group)) {
            best = group;
            covered = group.count * period;
        }
    }
    ASSERT(find_runs(config, params, &best));
    return best;
}

/* Groups never overlap and leave no layer out. */
int layer_groups_find(const struct model_config *config, const struct params *params,
                      struct layer_group *groups)
{
    int n_groups = 0;
    for (int first = 0; first < config->L;) {
        groups[n_groups] = find_group(config, params, first);
        first += groups[n_groups].period * groups[n_groups].count;
        n_groups++;
    }
    return n_groups;
}
