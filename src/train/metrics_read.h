/*
 * metrics_read - metrics.jsonl back again: one array per figure, for curves.
 *
 * The file may be that of a run in progress or of one that was killed: a last line that
 * is not whole is left out. Other lines that are no JSON object are left out and counted.
 * Figures that a line does not have, or has as null, are NaN.
 *
 *     struct metrics_curves curves;
 *     if (!metrics_read_file(&curves, "runs/demo/metrics.jsonl", err)) ...
 *     metrics_read_deinit(&curves);
 */
#ifndef TRAIN_METRICS_READ_H
#define TRAIN_METRICS_READ_H

#include "base/base.h"

struct error;

enum metrics_figure {
    METRICS_STEP,
    METRICS_EPOCH,
    METRICS_LOSS,
    METRICS_EVAL_LOSS,
    METRICS_LR,
    METRICS_GRAD_NORM,
    METRICS_TOKENS_PER_S, /* real tokens: padding is none */
    METRICS_FIGURE_COUNT
};

struct metrics_curves {
    double *values[METRICS_FIGURE_COUNT]; /* [n] each; steps are never NaN */
    size_t n;
    size_t n_broken; /* lines left out, without a torn last one */
};

MUST_USE bool metrics_read_file(struct metrics_curves *curves, const char *path,
                                struct error *err);

/* The same from text[0 .. length). */
void metrics_read_text(struct metrics_curves *curves, const char *text, size_t length);
void metrics_read_deinit(struct metrics_curves *curves);

#endif
