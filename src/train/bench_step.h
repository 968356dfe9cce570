/*
 * bench_step - speed and memory of a training step of one shape, with random weights and
 * random tokens, every position a target.
 *
 * It is the step of a run: the same settings, the same planner, the same programs; only
 * model and data are made up. Times are those of the best step; the first one is told
 * apart, since it also touches memory for the first time.
 *
 *     struct bench_step_wish wish = {.shape = "gemma3-270m", .settings = &settings,
 *                                    .n_steps = 3, .measures_peak = true};
 *     struct bench_step_result result;
 *     if (!bench_step_run(&wish, &result, err)) ...
 */
#ifndef TRAIN_BENCH_STEP_H
#define TRAIN_BENCH_STEP_H

#include "backend/backend.h"

struct error;
struct settings;

enum { BENCH_STEP_MAX_OPS = 64 };

struct bench_step_wish {
    const char *shape; /* bench_shape.h */
    /* Borrowed. Of use: precision, threads, memory_limit, seed, data.row_tokens,
     * train.batch_rows, micro_rows, recompute, freeze and such, lora.*. */
    const struct settings *settings;
    int n_steps;            /* after the first one; at least 1 */
    bool measures_peak;     /* of matrix products: seconds; else mfu is NaN */
    const char *trace_path; /* a Chrome trace is written there; NULL: none */
};

struct bench_step_result {
    char engine[100];
    double gemm_gflops;        /* peak: the best product before and after the steps */
    const char *gemm_provider; /* that reached it */
    int32_t micro_rows;        /* of a pass, and whether activations are recomputed */
    bool recomputes;
    double first_step_s; /* from the start of the process to the end of the first step,
                            without measuring the peak */
    double step_s;       /* the best one */
    double tokens_per_s;
    double gflops;        /* that the step needs (flops.h) a second */
    double mfu;           /* the same as a share of the peak */
    double loss;          /* of the last step */
    size_t planned_bytes; /* state and working memory */
    size_t peak_bytes;    /* resident memory of the process, all that it ever had */
    double n_trained;     /* parameters */
    /* Times of the steps after the first, by op. */
    struct backend_profile_row ops[BENCH_STEP_MAX_OPS];
    int n_ops;
};

MUST_USE bool bench_step_run(const struct bench_step_wish *wish,
                             struct bench_step_result *result, struct error *err);

#endif
