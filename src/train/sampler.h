/*
 * sampler - picks the next token from logits.
 *
 *     const struct sampler_options options = {.temperature = 1.0, .top_k = 64,
 *                                             .top_p = 0.95, .seed = 7};
 *     struct sampler *sampler = sampler_create(V);
 *     sampler_pick(sampler, &options, logits, row, number, &token, err);
 *
 * The order of things is that of transformers and llama.cpp: logits are divided by the
 * temperature, the top_k likeliest tokens stay, of these the fewest whose probabilities
 * add up to top_p, and one of them is drawn by its probability. Among equal logits the
 * lower id comes first. The draw is a function of seed, row and number alone, so a text
 * is the same alone and beside others.
 */
#ifndef TRAIN_SAMPLER_H
#define TRAIN_SAMPLER_H

#include "base/base.h"

struct error;
struct sampler;

struct sampler_options {
    double temperature; /* 0: always the likeliest token */
    int64_t top_k;      /* 0: off */
    double top_p;       /* above 0, up to 1; 0 and 1: off */
    uint64_t seed;
};

/* Values that make no sense are an error that names them as the command line does. */
MUST_USE bool sampler_check(const struct sampler_options *options, struct error *err);

/* For a vocabulary of V tokens: working memory, no state. */
struct sampler *sampler_create(int64_t V);
void sampler_destroy(struct sampler *sampler); /* takes NULL */

/*
 * *token: the token for logits [V]. row, number: which text, and which token of it.
 * -infinity is a token that is never drawn; NaN, +infinity or nothing but -infinity is
 * an error.
 */
MUST_USE bool sampler_pick(struct sampler *sampler,
                           const struct sampler_options *options, const float *logits,
                           int64_t row, int64_t number, int32_t *token,
                           struct error *err);

#endif
