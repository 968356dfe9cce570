/*
 * schedule - the learning rate at a step. Pure.
 */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "base/base.h"

struct schedule {
    int kind;        /* enum schedule_kind */
    double lr;       /* highest rate */
    double final_lr; /* where it falls to (linear, cosine) */
    int64_t warmup_steps;
    int64_t n_steps; /* of the run */
};

/*
 * step counts from 1 to n_steps. Warm-up: lr * step / warmup_steps for step <=
 * warmup_steps. Then constant, or from lr, at the first step after the warm-up, along a
 * line or half a cosine towards final_lr, which a step after the last one would have: so
 * the last step trains, too, where final_lr is 0. After n_steps: final_lr.
 */
double schedule_rate(const struct schedule *schedule, int64_t step);

#endif
