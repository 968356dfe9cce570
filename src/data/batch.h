/*
 * batch - the arrays that one pass of one rank reads, filled from examples.
 *
 *     struct batch *batch = batch_create(rows, row_tokens, target_capacity);
 *     batch_clear(batch, pad_id);
 *     batch_add(batch, 0, &example);
 *
 * Attention needs no mask: token i of a row sees the tokens j with first_key[i] <= j <=
 * i of the same row. Padding has first_key = row_tokens and sees nothing.
 */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include "base/base.h"

struct example;

struct batch {
    int32_t rows;            /* B */
    int32_t row_tokens;      /* T */
    int32_t target_capacity; /* C */
    int32_t *ids;            /* [B, T] */
    int32_t *position;       /* [B, T] restarts at 0 with each document */
    int32_t *first_key;      /* [B, T] first token of the token's own document */
    int32_t *loss_rows;      /* [C] b * T + t of tokens whose next token is a target */
    int32_t *targets;        /* [C] the id of that next token */
    float *weight;           /* [C] its weight; 0 in entries that are not used */
    int32_t *target_example; /* [C] the example that it is of, below n_examples */
    int32_t *row_used;       /* [B] tokens in the row */

    int32_t n_targets;     /* entries used, the first ones */
    double weight_sum;     /* of these entries */
    int64_t n_real_tokens; /* tokens that are no padding */

    int64_t *source_rows; /* [n_examples] where the examples came from, for messages */
    int32_t *sources;     /* [n_examples] and from which file (example.source) */
    int32_t n_examples;

    int64_t position_from; /* rows of the run before this batch's step (loader.h) */
    int64_t position_to;   /* ... and after that step */
    int32_t micro;         /* number of this batch within the step, from 0 */
    int32_t n_micro;       /* batches of the step */
    int64_t epoch;         /* from 0 */
    double epoch_after;    /* epochs done, with their fraction, after this step */
};

struct batch *batch_create(int32_t rows, int32_t row_tokens, int32_t target_capacity);
void batch_destroy(struct batch *batch); /* takes NULL */

/* Makes every slot padding with this id (0 when it is negative). */
void batch_clear(struct batch *batch, int32_t pad_id);

/* Puts the example behind what row `row` holds; it must fit, and so must its
 * targets. */
void batch_add(struct batch *batch, int32_t row, const struct example *example);

#endif
