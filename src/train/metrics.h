/*
 * metrics - what a step was like, as one line of metrics.jsonl.
 */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "base/str.h"

/* Norms over the tensors of one group (train.norms_every). */
struct metrics_group {
    const char *name;   /* borrowed */
    double grad_norm;   /* of the mean gradient, before clipping */
    double update_norm; /* of what the update added to the weights */
    double weight_norm; /* after it */
};

/* Held-out loss of one file. */
struct metrics_source {
    const char *name; /* borrowed */
    double loss;      /* NaN: no target in it */
};

/* Times are of this process, by the monotonic clock. */
struct metrics {
    int64_t step;          /* from 1 */
    double epoch;          /* epochs done after this step, a fraction */
    double loss;           /* mean over the step's targets */
    double eval_loss;      /* NaN: not evaluated at this step */
    double grad_norm;      /* of the mean gradient, before clipping */
    double lr;             /* learning rate of the step */
    int64_t n_targets;     /* tokens that carry loss */
    int64_t n_real_tokens; /* tokens that are no padding */
    int64_t n_slots;       /* tokens and padding */
    double data_ms;        /* waiting for rows */
    double compute_ms;     /* forward and backward */
    double update_ms;      /* clipping and optimizer */
    double step_ms;        /* all of it, without evaluation */
    size_t memory_bytes;   /* resident */
    double mfu;            /* share of the measured peak; NaN: no peak measured */
    bool is_skipped;       /* no update: not finite, or an outlier */
    bool is_outlier;       /* skipped by train.outlier_z */
    const struct metrics_group *groups;        /* [n_groups] borrowed */
    int n_groups;                              /* 0: not at this step */
    const struct metrics_source *eval_sources; /* [n_eval_sources] borrowed */
    int n_eval_sources;                        /* 0: not evaluated, or one file only */
};

/* Appends one JSON object and a newline. NaN and infinity become null. */
void metrics_print(const struct metrics *metrics, struct str *out);

/* A number as it is told: NaN without the sign that the processor gave it, which would
 * be printed as "-nan". */
double metrics_plain(double value);

double metrics_per_second(int64_t count, double ms); /* 0 when ms is 0 */

#endif
