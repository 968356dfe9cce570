/*
 * grad_rules - the rule of each op, grad_NAME, declared from ops.def, and what rules
 * share.
 *
 * A rule turns dy (cotangents of the outputs) into dx (cotangents of the inputs). It
 * leaves dx[i] NULL where there is none; setting one that is not wanted does no harm.
 * dy has the dtype of the output, but for the ops of grad_takes_wide_cotangent.
 */
#ifndef GRAPH_GRAD_RULES_H
#define GRAPH_GRAD_RULES_H

#include "graph/grad.h"

#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    void grad_##name(struct grad_rule *rule);
#include "graph/ops.def"
#undef OP

/* True for ops whose results carry no gradient whatever they are made from: booleans
 * and whole numbers aside, stop_gradient and the maximum over ranks. */
bool grad_is_blocked(const struct node *node);

/* True for ops whose rule takes the cotangent of a bf16 output in f32: use_param, and
 * casts down from f32. Matmuls hand those their f32 sums. */
bool grad_takes_wide_cotangent(const struct node *node);

/* The dtype in which the cotangent of x should be computed: that of x, or f32. */
enum dtype grad_cotangent_dtype(const struct value *x);

/* Placement of x's cotangent made from dy by moving elements: split where x is, same
 * where x is partial, and where x is the same: partial if dy is. */
struct placement grad_placement(const struct value *x, const struct value *dy);

/* A zero that can stand beside dy in a select or as its target: same dtype; `shape` and
 * `placement` as given. */
struct value *grad_zeros(struct graph *graph, enum dtype dtype, struct shape shape,
                         struct placement placement);

/* A scalar zero to select against dy. */
struct value *grad_zero_scalar(struct graph *graph, const struct value *dy);

/* dx of an elementwise operand: g itself, or its sum where the operand is a scalar that
 * was spread over the result. */
struct value *grad_unspread(struct graph *graph, const struct value *operand,
                            struct value *g);

#endif
