/*
 * evaluate - mean loss of a set of examples, without training. Memory does not depend
 * on how many there are.
 */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "base/base.h"

struct batch;
struct error;
struct records;
struct step;

struct evaluate_result {
    double loss;       /* mean over all targets, by weight */
    int64_t n_targets; /* tokens that carried loss */
    double weight_sum; /* of their weights */
};

/* Called for each batch with the loss of its targets, token_loss[batch->n_targets]. */
typedef void (*evaluate_batch_fn)(void *context, const struct batch *batch,
                                  const float *token_loss);

struct evaluate_options {
    int32_t B, T, C;         /* as the step's evaluation program was made */
    bool is_packed;          /* false: example i is row i of the run of batches */
    int32_t pad_id;          /* id of padding in the batches */
    evaluate_batch_fn visit; /* or NULL */
    void *context;           /* of visit */
    /* [n_sources] takes the mean loss of each file's examples (example.source), NaN where
     * there is no target; NULL: not wanted. */
    double *source_loss;
    int32_t n_sources;
};

/* C for these records: what step_create needs before evaluate_run. */
int32_t evaluate_capacity(const struct records *records, int32_t B, int32_t T,
                          bool is_packed);

/* In file order. */
MUST_USE bool evaluate_run(struct step *step, const struct records *records,
                           const struct evaluate_options *options,
                           struct evaluate_result *result, struct error *err);

#endif
