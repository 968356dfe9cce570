/*
 * step - a model being trained on one engine: its state, and the programs that change
 * it.
 *
 *     struct step *step = step_create(engine, &options, err);
 *     step_load(step, read, context, err);
 *     for each micro-batch: step_accumulate(step, batch, &loss_sum, err);
 *     step_update(step, &hyper, &result, err);
 *     step_destroy(step);
 *
 * State per trained tensor, f32: the parameter, its gradient sum, and two moments. What
 * is frozen has the parameter only; a frozen per-layer table stays in its file and
 * gives the rows of the batch.
 */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "backend/backend.h"
#include "model/weights.h"
#include "train/step_graphs.h"

struct batch;
struct step;

struct step_options {
    struct step_shape
        shape;          /* B, T, C of training passes; config and params borrowed */
    bool trains;        /* false: evaluation only, no gradients and no moments */
    bool evaluates;     /* keep a program for step_evaluate */
    int64_t evaluate_C; /* entries of loss_rows in evaluation; 0: shape.C */
    /* Parameters and moments that are bf16 are rounded by chance in an update; else to
     * nearest. */
    bool is_stochastic;
    uint64_t seed; /* of such rounding, and of dropout */
    /* Tensors with rates of their own: group[i] of parameter i, below n_groups; NULL:
     * one group. Borrowed by step_create. */
    const int *group; /* [params->n] */
    int n_groups;
    bool has_norms; /* keep a program for steps that tell norms by group */
};

/* Reads rows of a parameter for step_load and, for a frozen per-layer table, for each
 * batch; must stay valid as long as the step. */
struct step_source {
    weights_read_fn read; /* gives rows of any parameter */
    void *context;
    /* Where a parameter lies in memory as it is, and its dtype; NULL: nowhere, or (for
     * the function) never. Frozen parameters of that dtype are read there and are not
     * copied. */
    const void *(*view)(void *context, int param, enum dtype *dtype);
};

/* Compiles the programs and makes the state. */
MUST_USE struct step *step_create(struct engine *engine,
                                  const struct step_options *options,
                                  const struct step_source *source, struct error *err);
void step_destroy(struct step *step); /* takes NULL; before the engine */

/* Fills all parameters from the source. */
MUST_USE bool step_load(struct step *step, struct error *err);

/* Gradient of one micro-batch, added to the sums (set, for the first after an update).
 * *loss_sum: sum over targets of weight times cross entropy, without what z-loss and label
 * smoothing add to what is learned. */
MUST_USE bool step_accumulate(struct step *step, const struct batch *batch,
                              double *loss_sum, struct error *err);

/* What a group of tensors has of its own. */
struct step_group {
    double lr, weight_decay;
};

struct step_hyper {
    double lr, beta1, beta2, eps, weight_decay;
    /* [n_groups] in place of lr and weight_decay; NULL: these hold for all. */
    const struct step_group *groups;
    double max_norm;   /* a larger gradient norm skips the step; 0: none does */
    bool wants_norms;  /* needs has_norms */
    double clip_norm;  /* 0: off */
    double weight_sum; /* of all targets since the last update; above 0 */
    double loss_sum;   /* the same for the loss */
};

struct step_norms {
    double grad;   /* of the mean gradient, before clipping */
    double update; /* of what was added to the weights */
    double weight; /* of these afterwards */
};

struct step_result {
    double grad_norm; /* of the mean gradient, before clipping */
    bool is_applied;  /* false: not finite or too large, skipped, nothing has changed */
    const struct step_norms *norms; /* [n_groups] the step's; NULL: not wanted */
};

MUST_USE bool step_update(struct step *step, const struct step_hyper *hyper,
                          struct step_result *result, struct error *err);

/* Updates that were applied so far: AdamW's step count. */
int64_t step_n_updates(const struct step *step);

/* Loss of one batch without training; token_loss: [C] or NULL. */
MUST_USE bool step_evaluate(struct step *step, const struct batch *batch,
                            double *loss_sum, float *token_loss, struct error *err);

/* Parameter `param` as it is now (a weights_read_fn; context is the step). */
MUST_USE bool step_read_param(void *step, int param, int64_t first_row, int64_t n_rows,
                              float *target, struct error *err);

/* The parameter's buffer, for programs beside the step's own (context is the step); NULL:
 * it stays in its file. */
struct buffer *step_param_buffer(void *step, int param);

/* The gradient sum of a trained tensor, for tests and reports; NULL: not trained, or
 * the engine's memory cannot be read in place. [elements of the tensor] */
const float *step_gradient(struct step *step, int param);

/* Bytes of state (parameters, sums, moments; not what is read in place) on this process. */
size_t step_state_bytes(const struct step *step);

#endif
