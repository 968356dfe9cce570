/*
 * selftest_cases - the small graphs that selftest.c runs; only for it.
 */
#ifndef BACKEND_SELFTEST_CASES_H
#define BACKEND_SELFTEST_CASES_H

#include "graph/graph.h"

enum { SELFTEST_MAX_INPUTS = 9 };

enum selftest_kind {
    SELFTEST_NONE,      /* end of the list */
    SELFTEST_FLOAT,     /* uniform in low .. high; has a gradient */
    SELFTEST_FIXED,     /* the same without gradient */
    SELFTEST_BF16,      /* the same in bf16 */
    SELFTEST_INTEGER,   /* i32, low .. high */
    SELFTEST_ROWS,      /* i32, 0, 1, 2, ... */
    SELFTEST_FIRST_KEY, /* i32 [B, T]: two documents a row */
    SELFTEST_TRUE,      /* bool */
    SELFTEST_WORD,      /* u32, low */
};

struct selftest_input {
    enum selftest_kind kind;
    double low, high;
    int rank;
    int64_t dim[4];
};

struct selftest_case {
    const char *name;
    /* Appends the op to the graph and adds its outputs. */
    void (*build)(struct graph *graph, struct value *const *inputs);
    double bound;      /* of the largest magnitude of an output */
    bool has_gradient; /* also the gradient of the first output */
    struct selftest_input inputs[SELFTEST_MAX_INPUTS];
};

extern const struct selftest_case selftest_cases[];
extern const int selftest_cases_count;

#endif
