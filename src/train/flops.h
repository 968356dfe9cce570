/*
 * flops - floating-point operations that a model's passes need, counted in one place. Pure.
 *
 * Counted are matrix products, two operations for a multiply and an add: of each weight
 * matrix with each token, of the head with each target, of attention with each pair of a
 * token and a key that it sees. Norms, activations and lookups are left out, and so is
 * what recomputation does twice: the figure is the work of the model, not of a program.
 *
 * A backward pass costs what is needed: the gradient of a weight where it is trained, the
 * gradient of activations down to the lowest layer that has a trained tensor. With
 * everything trained that is 6 a parameter and token, and three times the forward pass of
 * attention.
 */
#ifndef TRAIN_FLOPS_H
#define TRAIN_FLOPS_H

#include "base/base.h"

struct batch;
struct model_config;
struct params;

/* What passes have read. */
struct flops_counts {
    double tokens;  /* without padding */
    double targets; /* tokens whose loss was computed */
    double pairs;   /* of a token and a key before it, or itself, in its document */
    double pairs_sliding; /* the same, of sliding layers: within their window */
};

/* Adds a batch to *counts. */
void flops_count(const struct batch *batch, int64_t window,
                 struct flops_counts *counts);

/* A row of n tokens that is one document, all of them targets. */
struct flops_counts flops_row(int64_t n, int64_t window);

/* Without gradients. */
double flops_forward(const struct model_config *config, const struct params *params,
                     const struct flops_counts *counts);

/* Forward and backward; is_trainable: [params->n]. */
double flops_training(const struct model_config *config, const struct params *params,
                      const bool *is_trainable, const struct flops_counts *counts);

#endif
