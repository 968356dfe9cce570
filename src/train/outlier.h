/*
 * outlier - whether a step's loss or gradient norm is far above those of the steps before
 * it (train.outlier_z). Pure.
 *
 *     struct outlier guard = {.z = 6.0, .window = 100};
 *     const double limit = outlier_limit(&guard);
 *     if (value > limit) ... else outlier_note(&guard, value);
 *
 * The mean and the deviation are of the last `window` values that were noted. A guard has
 * no opinion before it has seen OUTLIER_MIN_VALUES.
 */
#ifndef TRAIN_OUTLIER_H
#define TRAIN_OUTLIER_H

#include "base/base.h"

enum { OUTLIER_MIN_VALUES = 10 };

/* Zeroed but for the first two. */
struct outlier {
    double z;       /* deviations above the mean that are too many; 0: off */
    int64_t window; /* values that count */
    double *values; /* owned ring of the last ones; NULL: none yet */
    int64_t n;      /* values noted so far, also those that have left the ring */
};

/* The highest value that is no outlier; infinity: any. */
double outlier_limit(const struct outlier *guard);

/* A value of a step that was taken. */
void outlier_note(struct outlier *guard, double value);

void outlier_deinit(struct outlier *guard);

#endif
