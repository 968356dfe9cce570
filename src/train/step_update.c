/*
 * step_update - the optimizer's side of a step: programs that change the parameters by the
 * gradient sums, and what they are told each time.
 *
 * There are two where norms by group are wanted: the second one computes them as well, and
 * runs only for the steps that tell them.
 */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "train/step_parts.h"

static int n_groups_of(const struct step *step)
{
    return step->options.n_groups > 0 ? step->options.n_groups : 1;
}

/* A list of the buffers NAME, NAME1, ... of all groups; owned by the caller. */
static struct buffer **find_groups(const struct step *step, const char *prefix,
                                   const char *name)
{
    const int n = n_groups_of(step);
    struct buffer **list = mem_alloc_array((size_t)n, sizeof(struct buffer *));
    char full[40];
    for (int k = 0; k < n; k++) {
        list[k] =
            step_find_prefixed(step, prefix, step_graphs_group_name(full, name, k));
    }
    return list;
}

static bool create_updater(struct step *step, const struct graph *grad,
                           const char *prefix, bool has_norms, struct updater *updater,
                           struct error *err)
{
    const struct mesh mesh = mesh_single();
    const struct step_update_options options = {
        .is_stochastic = step->options.is_stochastic,
        .params = step->options.shape.params,
        .group = step->options.group,
        .n_groups = step->options.n_groups,
        .has_norms = has_norms,
    };
    struct graph *graph = step_graphs_update(&mesh, grad, &options);
    if (!step_bind(step, graph, prefix, &updater->bound, err)) {
        return false;
    }
    updater->hyper = find_groups(step, prefix, "hyper");
    updater->inverse = step_find_prefixed(step, prefix, "inverse");
    updater->clip = step_find_prefixed(step, prefix, "clip");
    updater->max_norm = step_find_prefixed(step, prefix, "max_norm");
    updater->loss_sum = step_find_prefixed(step, prefix, "loss_sum");
    updater->seed = step_find_prefixed(step, prefix, "seed");
    updater->step = step_find_prefixed(step, prefix, "step");
    updater->grad_norm = step_find_prefixed(step, prefix, "out:grad_norm");
    updater->applied = step_find_prefixed(step, prefix, "out:applied");
    if (has_norms) {
        updater->grad_squares = find_groups(step, prefix, "out:grad_squares");
        updater->update_squares = find_groups(step, prefix, "out:update_squares");
        updater->weight_squares = find_groups(step, prefix, "out:weight_squares");
    }
    return true;
}

bool step_update_create(struct step *step, const struct graph *grad, struct error *err)
{
    if (!create_updater(step, grad, "update:", false, &step->update, err)) {
        return false;
    }
    if (!step->options.has_norms) {
        return true;
    }
    step->group_norms =
        mem_alloc_array((size_t)n_groups_of(step), sizeof(*step->group_norms));
    return create_updater(step, grad, "norms:", true, &step->norms, err);
}

/* Takes one that is half done, or zeroed. */
static void destroy_updater(struct updater *updater)
{
    step_unbind(&updater->bound);
    mem_free(updater->hyper);
    mem_free(updater->grad_squares);
    mem_free(updater->update_squares);
    mem_free(updater->weight_squares);
}

void step_update_destroy(struct step *step)
{
    destroy_updater(&step->update);
    destroy_updater(&step->norms);
    mem_free(step->group_norms);
}

/*
 * c1 = 1 - beta1^count, c2 = 1 - beta2^count
 * in f64 and rounded once. A skipped step does not count: the next one has the same
 * corrections.
 */
static bool upload_hyper(const struct step *step, const struct updater *updater,
                         const struct step_hyper *hyper, struct error *err)
{
    const double count = (double)(step->n_updates + 1);
    float values[ADAMW_N_HYPER];
    values[ADAMW_BETA1] = (float)hyper->beta1;
    values[ADAMW_BETA2] = (float)hyper->beta2;
    values[ADAMW_EPS] = (float)hyper->eps;
    /* From the betas as the kernel has them, so that the first step divides by exactly
     * what it multiplied with. */
    values[ADAMW_BIAS_CORRECTION1] =
        (float)(1.0 - pow((double)values[ADAMW_BETA1], count));
    values[ADAMW_BIAS_CORRECTION2] =
        (float)(1.0 - pow((double)values[ADAMW_BETA2], count));
    bool done = true;
    for (int k = 0; k < n_groups_of(step) && done; k++) {
        const struct step_group own =
            hyper->groups != NULL
                ? hyper->groups[k]
                : (struct step_group){.lr = hyper->lr,
                                      .weight_decay = hyper->weight_decay};
        values[ADAMW_LR] = (float)own.lr;
        values[ADAMW_DECAY] = (float)own.weight_decay;
        /* A group without a tensor has no input. */
        done = step_upload_if(updater->hyper[k], values, err);
    }
    return done;
}

/* Everything that the program is told, f64 scalars beside the hyper vectors. */
static bool upload_told(const struct step *step, const struct updater *updater,
                        const struct step_hyper *hyper, struct error *err)
{
    /* One division for the whole step: gradients are sums until here. */
    const double inverse = 1.0 / hyper->weight_sum;
    const double max_norm = hyper->max_norm == 0.0 ? (double)INFINITY : hyper->max_norm;
    /* Chance is drawn from words of 32 bits: both halves of the seed count. */
    const uint32_t seed = (uint32_t)(step->options.seed ^ step->options.seed >> 32);
    const uint32_t number = (uint32_t)(step->n_updates + 1);
    return upload_hyper(step, updater, hyper, err) &&
           backend_upload(updater->inverse, 0, &inverse, err) &&
           backend_upload(updater->clip, 0, &hyper->clip_norm, err) &&
           backend_upload(updater->max_norm, 0, &max_norm, err) &&
           backend_upload(updater->loss_sum, 0, &hyper->loss_sum, err) &&
           step_upload_if(updater->seed, &seed, err) &&
           step_upload_if(updater->step, &number, err);
}

/* norm = sqrt(sum of squares); gradients are sums, and inverse makes the mean of them. */
static bool fetch_norms(struct step *step, double weight_sum, struct error *err)
{
    for (int k = 0; k < n_groups_of(step); k++) {
        double grad = 0.0;
        double update = 0.0;
        double weight = 0.0;
        if (!backend_fetch(step->norms.grad_squares[k], 0, &grad, err) ||
            !backend_fetch(step->norms.update_squares[k], 0, &update, err) ||
            !backend_fetch(step->norms.weight_squares[k], 0, &weight, err)) {
            return false;
        }
        step->group_norms[k] = (struct step_norms){.grad = sqrt(grad) / weight_sum,
                                                   .update = sqrt(update),
                                                   .weight = sqrt(weight)};
    }
    return true;
}

bool step_update(struct step *step, const struct step_hyper *hyper,
                 struct step_result *result, struct error *err)
{
    ASSERT(step->has_gradients && hyper->weight_sum > 0.0);
    ASSERT(!hyper->wants_norms || step->options.has_norms);
    const struct updater *updater = hyper->wants_norms ? &step->norms : &step->update;
    unsigned char applied = 0;
    *result = (struct step_result){0};
    if (!upload_told(step, updater, hyper, err) ||
        !step_execute(&updater->bound, err) ||
        !backend_fetch(updater->grad_norm, 0, &result->grad_norm, err) ||
        !backend_fetch(updater->applied, 0, &applied, err)) {
        return false;
    }
    if (hyper->wants_norms) {
        if (!fetch_norms(step, hyper->weight_sum, err)) {
            return false;
        }
        result->norms = step->group_norms;
    }
    result->is_applied = applied != 0;
    step->n_updates += applied != 0;
    step->has_gradients = false;
    return true;
}
