/*
 * op_cases - one table of small graphs that between them hold every op of ops.def, for the
 * tests that run each op in several ways (op_run.h).
 *
 * A case is an op, inputs of odd shapes, and a function that builds a graph from them. Its
 * layouts say how inputs may lie on a mesh: one word per input, of an axis letter (R, S,
 * T) and the dimension that it splits, or P for partial; "-" is the same everywhere.
 * "S0T2 - TP" splits the first input's dimension 0 over shard and 2 over tensor, and the
 * third is partial over tensor.
 */
#ifndef SUPPORT_OP_CASES_H
#define SUPPORT_OP_CASES_H

#include "graph/graph.h"

enum { OP_MAX_INPUTS = 8, OP_MAX_OUTPUTS = 8, OP_MAX_LAYOUTS = 6, OP_MAX_NUMBERS = 6 };

enum op_input_kind {
    OP_INPUT_NONE,      /* end of the list */
    OP_INPUT_FLOAT,     /* of the type that the case is run in; has a gradient */
    OP_INPUT_PARAMETER, /* the same, as a parameter */
    OP_INPUT_FIXED,     /* float without gradient */
    OP_INPUT_I32,
    OP_INPUT_U32,
    OP_INPUT_BOOL,
    OP_INPUT_ROWS, /* i32: ascending rows of input 0; where both are split over an axis, a
                    * rank's numbers count its own rows */
    OP_INPUT_FIRST_KEY, /* i32 [B, T]: documents and padding, as attention wants them */
};

struct op_input {
    enum op_input_kind kind;
    int rank;
    int64_t dim[SHAPE_MAX_RANK]; /* of the whole mesh together */
    double low,
        high; /* floats: evenly spaced and shuffled, so that no two are near each
                       * other; whole numbers: low .. high */
};

/* What a case's function gets, and what it leaves. */
struct op_build {
    struct graph *graph;
    enum dtype dtype; /* of FLOAT inputs */
    struct value **inputs;
    const double *numbers; /* the case's */
    int n_outputs;
    struct value *outputs[OP_MAX_OUTPUTS];
    int donors[OP_MAX_OUTPUTS]; /* input whose memory output i takes, + 1; 0 = none */
};

typedef void (*op_build_fn)(struct op_build *build);

struct op_case {
    enum op op;
    const char *name;
    op_build_fn build;
    struct op_input inputs[OP_MAX_INPUTS];
    double numbers[OP_MAX_NUMBERS]; /* free for the function */
    const char *layouts[OP_MAX_LAYOUTS];
    int n_seeded;     /* outputs that get a cotangent; 0: all floats */
    bool seed_is_one; /* cotangents are the constant 1, else inputs of random numbers */
    bool expands;     /* holds repeats: expanded before it is differentiated */
    bool is_not_true; /* the gradient is not the derivative, on purpose: no finite
                         * differences */
    double f32_bound; /* largest error of f32 against f64, of the largest magnitude;
                         * 0: the default */
    double bf16_bound;   /* of bf16 against f64 */
    double native_bound; /* and of native kernels against the definition */
    const char *reason;  /* for bounds that are not the default */
};

extern const struct op_case op_cases_primitive[];
extern const int op_cases_n_primitive;
extern const struct op_case op_cases_composite[];
extern const int op_cases_n_composite;

/* Both tables as one. */
int op_cases_count(void);
const struct op_case *op_cases_get(int index);

#endif
