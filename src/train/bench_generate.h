/*
 * bench_generate - speed and memory of generation of one shape, with random weights: a
 * prompt in one go, then one token at a time.
 *
 * A token reads every weight once, so its speed is set beside the rate at which all threads
 * together read memory, measured in the same run.
 */
#ifndef TRAIN_BENCH_GENERATE_H
#define TRAIN_BENCH_GENERATE_H

#include "backend/backend.h"

struct error;

enum { BENCH_GENERATE_MAX_OPS = 64 };

struct bench_generate_wish {
    const char *shape;      /* bench_shape.h */
    enum dtype stored;      /* of the matrices: F32 or BF16 */
    int32_t rows;           /* texts at a time */
    int32_t prompt_tokens;  /* of each */
    int32_t n_tokens;       /* that follow it, one by one */
    int n_threads;          /* 0: one per processor */
    const char *trace_path; /* a Chrome trace is written there; NULL: none */
};

struct bench_generate_result {
    char engine[100];
    double prompt_tokens_per_s;
    double tokens_per_s;       /* of all rows, by the fastest token */
    double mean_tokens_per_s;  /* by all of them */
    double weight_gb_per_s;    /* read by the fastest token */
    double bandwidth_gb_per_s; /* of memory, by all threads */
    double share_of_bandwidth; /* the one over the other */
    double first_token_s;      /* from the start of the process, the prompt included */
    size_t peak_bytes;         /* resident memory of the process */
    struct backend_profile_row ops[BENCH_GENERATE_MAX_OPS]; /* of single tokens */
    int n_ops;
};

MUST_USE bool bench_generate_run(const struct bench_generate_wish *wish,
                                 struct bench_generate_result *result,
                                 struct error *err);

#endif
