/*
 * step_graphs - the graphs of a run: grad (one micro-batch into the accumulators),
 * update, evaluate. Building only; step.h runs them.
 *
 * Arguments by name: parameters under their tensor names; the batch as ids, position,
 * first_key, loss_rows, targets, weight (data/batch.h) and ple_rows where a frozen per-
 * layer table is looked up outside; accumulators "acc.grad.NAME".
 */
#ifndef TRAIN_STEP_GRAPHS_H
#define TRAIN_STEP_GRAPHS_H

#include "graph/graph.h"
#include "model/config.h"
#include "model/params.h"

struct step_shape {
    const struct model_config *config;
    const struct params *params;
    const bool *is_trainable; /* [params->n] */
    const enum dtype *stored; /* [params->n] as in struct gemma_options, or NULL */
    bool has_ple_rows;        /* the per-layer table is fed as rows */
    int64_t B, T;             /* rows of one pass per rank, tokens of a row */
    int64_t C;                /* entries of loss_rows */
    enum dtype compute;       /* of activations */
    double z_loss, label_smoothing; /* of the training loss, see build_loss_head */
    double dropout;                 /* of adapters' inputs in training */
    bool recomputes; /* activations inside a layer again in the backward pass */
};

/* Whether what is differentiated is more than the cross entropy (z_loss, smoothing). */
bool step_graphs_has_objective(const struct step_shape *shape);

/*
 * With dropout also the inputs "dropout_seed" and "dropout_step" (gemma.h).
 * Outputs: "loss_sum" f64 (of this micro-batch), and "grad.NAME" f32 for each trainable
 * tensor that has a gradient, added to its accumulator unless the bool input "keep" is
 * false. Repeats are expanded, the gradient is in the graph. Where loss_sum is more than
 * the cross entropy, "token_loss" f32 [C] gives that one, unweighted.
 */
struct graph *step_graphs_grad(const struct mesh *mesh, const struct step_shape *shape);

/* Outputs: "loss_sum" f64, "token_loss" f32 [C]. Nothing is trained, so the graph holds
 * no gradient. Repeats are expanded. */
struct graph *step_graphs_evaluate(const struct mesh *mesh,
                                   const struct step_shape *shape);

/* What an update does beyond the plain one. */
struct step_update_options {
    bool is_stochastic; /* bf16 parameters and moments are rounded by chance */
    /* Tensors with hyper vectors of their own: group[i] of parameter i, below n_groups;
     * NULL: all are of group 0. */
    const struct params *params;
    const int *group; /* [params->n] */
    int n_groups;     /* 0 counts as 1 */
    bool has_norms;   /* sums of squares by group as outputs */
};

/*
 * For each output "grad.NAME" of the grad graph: parameter NAME, "acc.grad.NAME",
 * "m.NAME" and "v.NAME" -> NAME, m and v in place; moments have the dtype of their
 * parameter. Rounding by chance has the inputs "seed" and "step", u32. Inputs:
 *
 *     hyper, hyper1, ...   f32 [ADAMW_N_HYPER], of group 0, 1, ...
 *     inverse              f64, 1 / sum of target weights
 *     clip                 f64, largest norm; 0: off
 *     max_norm             f64, a step with a larger norm is not applied
 *     loss_sum             f64
 *
 * Outputs also "grad_norm" f64 (of the mean gradient, before clipping) and "applied" bool:
 * false where loss or norm are not finite, or the norm is above max_norm; then nothing has
 * changed. has_norms: "grad_squares", "update_squares", "weight_squares" (group 0, then
 * "grad_squares1"...), f64: of the summed gradient, of what was added to the weights, and
 * of these afterwards.
 */
struct graph *step_graphs_update(const struct mesh *mesh, const struct graph *grad,
                                 const struct step_update_options *options);

/* "hyper" and 2 give "hyper2", "hyper" and 0 "hyper". Returns `buffer`. */
const char *step_graphs_group_name(char buffer[40], const char *name, int group);

#endif
