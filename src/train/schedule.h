/*
 * schedule - the learning rate at a step. Pure.
 */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "base/base.h"

struct schedule {
    int kind;        /* enum schedule_kind */
    double lr;       /* highest rate */
    double final_lr; /* at the last step (linear, cosine) */
    int64_t warmup_steps;
    int64_t n_steps; /* of the run */
};

/*
 * step counts from 1 to n_steps. Warm-up: lr * step / warmup_steps for step <=
 * warmup_steps. Then constant, or from lr (at the end of the warm-up) to final_lr (at
 * n_steps) along a line or half a cosine. After n_steps: as at n_steps.
 */
double schedule_rate(const struct schedule *schedule, int64_t step);

#endif
