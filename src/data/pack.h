/*
 * pack - which examples share a row: a pure function of lengths, seed and epoch.
 *
 *     struct pack_options options = {.row_tokens = 512, .is_packed = true, ...};
 *     struct pack_plan *plan = pack_plan_create(lengths, NULL, n, &options, epoch);
 *     for (int64_t i = plan->row_from[r]; i < plan->row_from[r + 1]; i++)
 *         ... plan->examples[i] ...
 *     pack_plan_destroy(plan);
 *
 * Shuffled and packed: a seeded permutation of the examples, best fit within windows of
 * PACK_WINDOW of them, then a seeded permutation of the rows. Packed in file order:
 * next fit, which keeps the order. Not packed: one example a row. Every example stands
 * in a plan as often as it is taken. The same on every rank and at every layout.
 */
#ifndef DATA_PACK_H
#define DATA_PACK_H

#include "base/base.h"

enum { PACK_WINDOW = 4096 }; /* examples; part of a run's reproducibility */

struct pack_options {
    int32_t row_tokens; /* every length is at most this */
    bool is_packed;
    bool is_shuffled;
    uint64_t seed;
};

struct pack_plan {
    int64_t n_rows;
    int64_t n_examples;
    int64_t *row_from; /* [n_rows + 1] into examples */
    int32_t *examples; /* [n_examples] indices of the examples, row after row */
};

/*
 * A plan of the examples taken[n], or of 0 .. n-1 where that is NULL; one that is taken
 * twice stands in the plan twice. lengths[i] of example i in tokens, each 1 ..
 * row_tokens. Epochs count from 0. Never NULL.
 */
struct pack_plan *pack_plan_create(const int32_t *lengths, const int32_t *taken,
                                   int64_t n, const struct pack_options *options,
                                   int64_t epoch);
void pack_plan_destroy(struct pack_plan *plan); /* takes NULL */

#endif
