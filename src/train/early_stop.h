/*
 * early_stop - when a run has learned what it can: the held-out losses so far, in a few
 * numbers. Pure.
 */
#ifndef TRAIN_EARLY_STOP_H
#define TRAIN_EARLY_STOP_H

#include "base/base.h"

/* Zeroed but for the first two: nothing evaluated yet. */
struct early_stop {
    int64_t patience; /* evaluations in a row without a gain; 0: never stops */
    double min_delta; /* by how much a loss must be lower to be a gain */
    bool has_loss;    /* `reference` is set */
    double reference; /* the lowest loss that was a gain */
    int64_t n_without_gain;
};

/* Notes a held-out loss (not finite: no gain). True: it is time to stop. */
bool early_stop_note(struct early_stop *stop, double loss);

#endif
