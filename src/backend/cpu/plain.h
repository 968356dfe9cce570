/*
 * plain - loops over elements in plain C, for every dtype; what the kernels of
 * elementwise primitives are made of.
 *
 * f64, f32 and the integers run in their own type; bf16 and f16 are widened to f32
 * block by block and rounded once. Loops read a scalar operand once, so they vectorise.
 */
#ifndef BACKEND_CPU_PLAIN_H
#define BACKEND_CPU_PLAIN_H

#include "base/dtype.h"

enum plain_binary {
    PLAIN_ADD,
    PLAIN_SUB,
    PLAIN_MUL,
    PLAIN_DIV,
    PLAIN_MAX, /* NaN if one is */
    PLAIN_N_BINARY
};

enum plain_unary {
    PLAIN_EXP,
    PLAIN_LOG,
    PLAIN_TANH,
    PLAIN_SQRT,
    PLAIN_RSQRT,
    PLAIN_COS,
    PLAIN_SIN,
    PLAIN_N_UNARY
};

/* Result bytes 0 or 1; in the order of enum compare. */
enum { PLAIN_N_COMPARE = 6 };

/* y[i] = a[i] op b[i]; a scalar operand is a[0] or b[0] for all i. */
typedef void (*plain_binary_fn)(const void *a, bool a_is_scalar, const void *b,
                                bool b_is_scalar, void *y, int64_t n);
typedef void (*plain_unary_fn)(const void *x, void *y, int64_t n);

/* The loops of one element type; unary and is_finite are NULL for integers. */
struct plain_loops {
    plain_binary_fn binary[PLAIN_N_BINARY];
    plain_binary_fn compare[PLAIN_N_COMPARE];
    plain_unary_fn unary[PLAIN_N_UNARY];
    plain_unary_fn is_finite;
};

/* Of f64, f32, i64, i32, u32, u8 and bool; for bf16 and f16 those of f32. */
const struct plain_loops *plain_loops_of(enum dtype dtype);

/* True for bf16 and f16: blocks of them go through f32. */
bool plain_is_widened(enum dtype dtype);

/* y = x of another dtype. Floats to integers: toward zero, saturating, NaN gives 0;
 * to bool: x != 0; integers to integers wrap. */
void plain_cast(enum dtype from, const void *x, enum dtype to, void *y, int64_t n);

#endif
