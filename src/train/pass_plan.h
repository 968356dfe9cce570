/*
 * pass_plan - how many rows one pass of a step takes, and whether it computes activations
 * again: the choice that keeps a run within its memory. Pure; what a choice needs is told
 * by a function.
 *
 * A pass of few rows needs little memory, and 512 tokens are enough for near full speed:
 * what is done once a pass, reading weights and adding to their gradients, takes a few
 * percent of it. More tokens are taken where their memory is small anyway.
 *
 *     struct pass_plan_wish wish = {.batch_rows = 16, .row_tokens = 512, .limit = limit};
 *     struct pass_plan plan;
 *     if (!pass_plan_choose(&wish, working_bytes, job, &plan, err)) ...
 */
#ifndef TRAIN_PASS_PLAN_H
#define TRAIN_PASS_PLAN_H

#include "base/base.h"

struct error;

/* Bytes of working memory that passes of this kind need. */
typedef size_t (*pass_plan_working_fn)(void *context, int32_t rows, bool recomputes);

struct pass_plan_wish {
    int32_t batch_rows;           /* of a step; at least 1 */
    int64_t row_tokens;           /* of a row */
    int64_t micro_rows;           /* of a pass, as the user says; 0: to be chosen */
    bool may_keep, may_recompute; /* activations; at least one of them */
    size_t state_bytes;           /* that the run needs in any case */
    size_t limit;                 /* of all of it */
};

struct pass_plan {
    int32_t rows;         /* of a pass */
    bool recomputes;      /* activations again in the backward pass */
    size_t working_bytes; /* that it needs */
};

/* The first choice that fits: 512 tokens or one row without recomputation, then fewer rows,
 * then the same with recomputation. False, with *plan the last choice that was tried, where
 * none fits. */
MUST_USE bool pass_plan_choose(const struct pass_plan_wish *wish,
                               pass_plan_working_fn working, void *context,
                               struct pass_plan *plan, struct error *err);

#endif
